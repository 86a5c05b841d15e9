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
/** Milliseconds after which a turn that mail was to begin has not begun. */
const BEGIN_LIMIT = 10000
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
      child.stdout.setEncoding("utf8")
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

/** Waits that have not ended. */
const waits = new Set()
process.on("exit", () => waits.forEach((wait) => wait.end()))

/**
 * Waits for mail with `posthaste hook idle`, and begins a turn with it. `text` is that
 * mail, `begun` tells the hub that the turn has begun, and `over` is settled when the wait
 * has ended.
 */
function waitForMail(session, begin) {
  const child = spawn(PROGRAM, ["hook", "idle", ...FLAGS], { stdio: ["pipe", "pipe", "ignore"] })
  const wait = { session, text: undefined }
  waits.add(wait)
  let said = ""
  let settle
  wait.over = new Promise((resolve) => (settle = resolve))
  const ended = () => {
    waits.delete(wait)
    settle()
  }
  wait.end = () => {
    ended()
    child.kill("SIGKILL")
  }
  wait.begun = () => {
    if (child.stdin.writable) child.stdin.end("begun\n")
  }
  child.on("error", ended)
  child.on("close", ended)
  child.stdin.on("error", () => {})
  child.stdout.on("error", () => {})
  child.stdout.setEncoding("utf8")
  child.stdout.on("data", (part) => {
    said += part
    if (wait.text || !said.endsWith("\n") || !waits.has(wait)) return
    wait.text = textOf(parsed(said))
    if (!wait.text) return wait.end()
    setTimeout(wait.end, BEGIN_LIMIT).unref()
    begin(wait.text).catch(wait.end)
  })
  child.stdin.write(`${JSON.stringify({ session_id: session })}\n`)
  // OpenCode does not wait for it. It ends with its stdin, and so with OpenCode.
  child.unref()
  return wait
}

export const Posthaste = async ({ client }) => {
  /** By session: whether it is a helper that an agent has started. */
  const helpers = new Map()
  /** By session: the agent and the model that its user has chosen. */
  const chosen = new Map()
  /** Sessions whose turn was broken off: its user did not want it to go on. */
  const broken = new Set()
  const failed = new Set()
  /** Sessions at work. */
  const busy = new Set()
  /** The wait for mail while no session is at work. All sessions are one agent. */
  let wait
  /** Ends the wait; a turn that its mail begins gets the time for that. */
  const endWait = async () => {
    if (wait?.text) await wait.over
    else wait?.end()
  }

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

  const begin = (session, text) => {
    const body = { ...chosen.get(session), parts: [{ type: "text", text }] }
    return client.session.promptAsync({ path: { id: session }, body })
  }

  const on = {
    "session.created": async ({ info }) => {
      helpers.set(info.id, Boolean(info.parentID))
      if (!info.parentID) {
        await hook("session-start", { session_id: info.id, source: "startup" })
      }
    },
    "session.deleted": async ({ info }) => {
      busy.delete(info.id)
      if (wait?.session === info.id) wait.end()
    },
    "server.instance.disposed": async () => wait?.end(),
    "session.error": async ({ sessionID }) => {
      if (sessionID) broken.add(sessionID)
    },
    "message.part.updated": async ({ part }) => {
      // OpenCode has stored the prompt, and its model gets it.
      if (wait?.text && part.sessionID === wait.session && part.text === wait.text) wait.begun()
      if (part.type !== "tool" || part.state.status !== "error" || failed.has(part.callID)) return
      failed.add(part.callID)
      if (failed.size > REMEMBERED) failed.delete(failed.values().next().value)
      if (await isHelper(part.sessionID)) return
      const { sessionID: session_id, tool: tool_name, callID: tool_use_id } = part
      await hook("tool", { session_id, tool_name, tool_use_id, error: part.state.error || true })
    },
    // A stop cannot be refused here, so a new turn begins with the mail.
    "session.idle": async ({ sessionID }) => {
      busy.delete(sessionID)
      if (broken.has(sessionID) || (await isHelper(sessionID))) return
      await endWait()
      const answer = await hook("stop", { session_id: sessionID })
      if (answer?.decision === "block" && typeof answer.reason === "string") {
        await begin(sessionID, answer.reason)
      } else if (!busy.size && !waits.has(wait)) {
        wait = waitForMail(sessionID, (text) => begin(sessionID, text))
      }
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
        busy.add(sessionID)
        // The turn that the mail begins needs no hook of its own.
        if (wait?.text && parts.some((part) => part.text === wait.text)) return
        await endWait()
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
