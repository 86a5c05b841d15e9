//! The settings of built-in assistants.

use std::time::Duration;

posthaste_core::settings! {
    /// The `[runner]` section of the configuration: the budgets of built-in assistants.
    pub struct RunnerConfig {
        /// How often an assistant may ask its model in one turn.
        iterations: usize = 100;
        /// How long one turn may take.
        turn: Duration = Duration::from_secs(3600), "humantime_serde";
        /// How many tokens one turn may use, input and output together.
        turn_tokens: u64 = 2_000_000;
        /// How much one assistant may cost, in USD; 0: no limit.
        cost_usd: f64 = 0.0;
        /// How much all assistants of one session may cost, in USD; 0: no limit. A session
        /// is an agent with the workers that it started, and theirs.
        session_cost_usd: f64 = 0.0;
        /// How many characters of the conversation one request to the model may have; the
        /// oldest results of tools are left out first.
        context_chars: usize = 300_000;
        /// How many characters of one message reach the model at once, but never more than
        /// half of `context_chars`; it reads the rest with `read_messages`.
        message_chars: usize = 120_000;
        /// How many characters of a tool's result reach the model.
        result_chars: usize = 16_000;
        /// How often one request to the model is tried.
        attempts: usize = 4;
        /// The time before the second try; twice as long before each further one.
        retry_after: Duration = Duration::from_secs(1), "humantime_serde";
        /// The longest time between two tries, also if the provider asks for more.
        retry_most: Duration = Duration::from_secs(30), "humantime_serde";
        /// How many calls a runner may have open at the same time.
        open_calls: usize = 32;
        /// How many bytes one answer of a model may have, with everything that its provider
        /// sends around the text.
        answer_bytes: usize = 64 << 20;
        /// How long a tool may run.
        tool_timeout: Duration = Duration::from_secs(600), "humantime_serde";
        /// How long an MCP server of a profile may take to start and to list its tools.
        server_start: Duration = Duration::from_secs(30), "humantime_serde";
        /// An MCP server ends when no assistant has called it for so long; the next call
        /// starts it again.
        server_idle: Duration = Duration::from_secs(600), "humantime_serde";
        /// After so many identical calls of a tool with the same result, the assistant is
        /// advised to wait instead.
        repeats: usize = 3;
    }
}
