//! The pure core of Ullage: what a conversation holds, and what may be taken out of it.
//!
//! **messages → digests → ledger → plan → (fulfil, apply: in Python) → verify.**
//! A [`view`] reads a message once and makes a small fixed-size digest of it. A ledger of
//! digests answers questions about the conversation in microseconds. Pure algorithms turn a
//! ledger and numbers into plan parts. The rules check what is about to be sent.
//!
//! # What this crate does not do
//! No Python, no I/O, no clock, no environment, no randomness, no model calls. It never holds a
//! message's text, and never decides anything that its arguments do not determine.
#![deny(unsafe_code)]

pub mod bpe;
pub mod clear;
pub mod digest;
pub mod error;
pub mod json;
pub mod jsonl;
pub mod ledger;
pub mod limits;
pub mod media;
pub mod plan;
pub mod read;
pub mod rounds;
pub mod rules;
mod simd;
pub mod strings;
pub mod text;
pub mod truncate;
pub mod units;
pub mod view;
pub mod window;
