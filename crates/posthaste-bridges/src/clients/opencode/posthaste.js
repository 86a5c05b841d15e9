// posthaste: mail for the agents of OpenCode. `posthaste connect opencode` wrote this
// file, and `posthaste connect opencode --undo` removes it.
//
// It runs `posthaste hook` at the boundaries of an agent's work and puts what that says
// before the model. Whatever goes wrong, OpenCode goes on as if this file were not here.

import { spawn } from "node:child_process"

const PROGRAM = "@PROGRAM@"
const FLAGS = ["@FLAGS@"]
/** Milliseconds after which a hook is killed. */
const LIMIT = 3000
/** Failed calls that are remembered, so that each is told once. */
const REMEMBERED = 1000

/** The answer of the hub to one event, or nothing. It never fails. */
function run(event, input) {
  return new Promise((resolve) => {
    let said = ""
    let child
    const timer = setTimeout(() => {
      resolve(undefined)
      child?.kill("SIGKILL")
    }, LIMIT)
    const end = (answer) => {
      clearTimeout(timer)
      resolve(answer)
    }
    try {
      child = spawn(PROGRAM, ["hook", event, ...FLAGS], { stdio: ["pipe", "pipe", "ignore"] })
      child.on("error", () => end(undefined))
      child.stdin.on("error", () => {})
      child.stdout.on("error", () => {})
      child.stdout.on("data", (part) => (said += part))
      child.on("close", (code) => end(code === 0 ? parsed(said) : undefined))
      child.stdin.end(JSON.stringify(input))
    } catch {
      end(undefined)
    }
  })
}

function parsed(text) {
  try {
    const answer = JSON.parse(text)
    return typeof answer === "object" && answer ? answer : undefined
  } catch {
    return undefined
  }
}

function textOf(answer) {
  const text = answer?.additionalContext
  return typeof text === "string" && text ? text : undefined
}

export const Posthaste = async ({ client }) => {
  /** By session: whether it is a helper that an agent has started. */
  const helpers = new Map()
  /** By session: the agent and the model that its user has chosen. */
  const chosen = new Map()
  /** Sessions whose turn was broken off: its user did not want it to go on. */
  const broken = new Set()
  const failed = new Set()

  // One at a time, in the order of the events: the hub's rules rest on the order.
  let last = Promise.resolve()
  const hook = (event, input) => {
    const answer = last.then(() => run(event, input))
    last = answer
    return answer
  }

  const isHelper = async (session) => {
    if (!helpers.has(session)) {
      const found = await client.session.get({ path: { id: session } }).catch(() => undefined)
      helpers.set(session, Boolean(found?.data?.parentID))
    }
    return helpers.get(session)
  }

  const on = {
    "session.created": async ({ info }) => {
      helpers.set(info.id, Boolean(info.parentID))
      if (!info.parentID) {
        await hook("session-start", { session_id: info.id, source: "startup" })
      }
    },
    "session.error": async ({ sessionID }) => {
      if (sessionID) broken.add(sessionID)
    },
    "message.part.updated": async ({ part }) => {
      if (part.type !== "tool" || part.state.status !== "error" || failed.has(part.callID)) return
      failed.add(part.callID)
      if (failed.size > REMEMBERED) failed.delete(failed.values().next().value)
      if (await isHelper(part.sessionID)) return
      const { sessionID: session_id, tool: tool_name, callID: tool_use_id } = part
      await hook("tool", { session_id, tool_name, tool_use_id, error: part.state.error || true })
    },
    // A stop cannot be refused here, so a new turn begins with the mail.
    "session.idle": async ({ sessionID }) => {
      if (broken.has(sessionID) || (await isHelper(sessionID))) return
      const answer = await hook("stop", { session_id: sessionID })
      if (answer?.decision !== "block" || typeof answer.reason !== "string") return
      const parts = [{ type: "text", text: answer.reason }]
      const body = { ...chosen.get(sessionID), parts }
      await client.session.promptAsync({ path: { id: sessionID }, body })
    },
  }

  return {
    event: async ({ event }) => {
      try {
        await on[event.type]?.(event.properties)
      } catch {}
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      try {
        broken.delete(sessionID)
        if (await isHelper(sessionID)) return
        chosen.set(sessionID, { agent: message.agent, model: message.model })
        const prompt = parts.map((part) => part.text ?? "").join("\n")
        const text = textOf(await hook("prompt", { session_id: sessionID, prompt }))
        if (!text) return
        // Parts are sorted by their ids.
        const id = `${parts.at(-1)?.id ?? "prt_"}z`
        parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
      } catch {}
    },
    "tool.execute.before": async ({ tool, sessionID, callID }) => {
      try {
        if (await isHelper(sessionID)) return
        await hook("before-tool", { session_id: sessionID, tool_name: tool, tool_use_id: callID })
      } catch {}
    },
    "tool.execute.after": async ({ tool, sessionID, callID }, output) => {
      try {
        if (await isHelper(sessionID)) return
        const input = { session_id: sessionID, tool_name: tool, tool_use_id: callID }
        if (output.isError) input.error = true
        const text = textOf(await hook("tool", input))
        if (!text) return
        if (typeof output.output === "string") output.output += `\n\n${text}`
        else if (Array.isArray(output.content)) output.content.push({ type: "text", text })
      } catch {}
    },
  }
}
