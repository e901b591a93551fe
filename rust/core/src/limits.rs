//! Every default of the core, with unit and reason.

/// Values in one counted value: a small graph that shares its parts can unfold to any size.
pub const MAX_NODES: usize = 10_000_000;

/// Tokens that are enough to go on, together with [`KEEP_MIN_TEXT_MESSAGES`].
pub const KEEP_MIN_TOKENS: u64 = 10_000;

/// Tokens that are enough by themselves.
pub const KEEP_MAX_TOKENS: u64 = 40_000;

/// Messages with text that should stay verbatim.
pub const KEEP_MIN_TEXT_MESSAGES: u32 = 5;

/// Share of the rounds, in percent, that is dropped where an overflow error names no gap.
pub const DROP_PERCENT: u32 = 20;
