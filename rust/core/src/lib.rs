//! The pure core of Ullage: what a conversation holds, and what may be taken out of it.
//!
//! **messages → digests → ledger → (levels and what they change: in Python) → verify.**
//! [`read::read_item`] reads a message once and makes a small digest of fixed size of it, wherever the message lies: the
//! trait [`view::Value`] says what it must answer. A [`ledger::Ledger`] of digests answers questions about the conversation in
//! microseconds. Pure functions answer from a ledger and numbers where to cut and what to keep. The [`rules`] check what is about to be
//! sent.
//!
//! ```
//! use ullage_core::json::Json;
//! use ullage_core::ledger::Ledger;
//! use ullage_core::rules::{Facts, check};
//!
//! let mut ledger = Ledger::default();
//! for message in [
//!     r#"{"role": "user", "content": "What is in a.py?"}"#,
//!     r#"{"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "Read", "input": {"path": "a.py"}}]}"#,
//! ] {
//!     ledger.read(Json(message.as_bytes()), None)?;
//! }
//! assert_eq!(ledger.open_calls(), [(1, 0)]);
//!
//! let found = check(&ledger, "anthropic", Facts::default())?;
//! let call = found.iter().find(|violation| violation.rule == "A05").unwrap();
//! assert_eq!(call.detail, "tool use call_1 has no result in the next message");
//! # Ok::<(), ullage_core::error::Error>(())
//! ```
//!
//! # What this crate does not do
//! No Python, no I/O, no clock, no environment, no randomness, no model calls. It never holds a message's text, and never decides
//! anything that its arguments do not determine. Bytes from outside never make it panic or take more than linear time: the
//! checks of `tests/checks` hold for any bytes, and are what `rust/fuzz` fuzzes.
//!
//! # Unsafe code
//! In `simd` only: calls of functions that are compiled for instructions which the target does not promise. Each is guarded by
//! `has_avx2` or `has_avx512`, which look for exactly those instructions; the types that use them can be named nowhere else. Tests and
//! fuzzers compare each machine with the least (`machines`), and `make asan` runs them under the address sanitizer.
//!
//! # Threads and forks
//! Nothing here blocks, and nothing is global but constants. The one lock, around each cached table of [`bpe::Tokenizer`], is only
//! ever tried: a process that was forked while another thread held one passes that table over and goes on.
#![deny(unsafe_code)]

pub mod bpe;
pub mod digest;
pub mod error;
pub mod json;
pub mod jsonl;
pub mod ledger;
pub mod limits;
pub mod media;
pub mod names;
pub mod outcome;
pub mod patterns;
pub mod read;
pub mod rounds;
pub mod rules;
pub mod sentences;
#[cfg(not(feature = "machines"))]
mod simd;
#[cfg(feature = "machines")]
#[doc(hidden)]
pub mod simd;
pub mod strings;
pub mod survey;
pub mod telling;
pub mod text;
pub mod truncate;
pub mod units;
pub mod view;
pub mod window;
