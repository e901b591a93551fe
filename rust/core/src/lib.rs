//! The pure core of Ullage: what a conversation holds, and what may be taken out of it.
//!
//! **messages → digests → ledger → (levels and what they change: in Python) → verify.**
//! A [`view`] reads a message once and makes a small fixed-size digest of it. A ledger of
//! digests answers questions about the conversation in microseconds. Pure algorithms answer
//! from a ledger and numbers where to cut and what to keep. The rules check what is about to be sent.
//!
//! # What this crate does not do
//! No Python, no I/O, no clock, no environment, no randomness, no model calls. It never holds a
//! message's text, and never decides anything that its arguments do not determine.
#![deny(unsafe_code)]

pub mod bpe;
pub mod digest;
pub mod error;
pub mod json;
pub mod jsonl;
pub mod ledger;
pub mod limits;
pub mod media;
pub mod read;
pub mod rounds;
pub mod rules;
#[cfg(not(feature = "machines"))]
mod simd;
#[cfg(feature = "machines")]
#[doc(hidden)]
pub mod simd;
pub mod strings;
pub mod text;
pub mod truncate;
pub mod units;
pub mod view;
pub mod window;
