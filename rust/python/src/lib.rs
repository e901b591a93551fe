//! `ullage._core`: converts between Python and [`ullage_core`], and nothing else. No rule, number or text is decided here.
//!
//! # What it does not do
//! It runs no Python code while it reads a message or holds a lock, never changes what it is given, and keeps no references but those of
//! a ledger to its items. It raises the classes of `ullage.exceptions` and has none of its own.
//!
//! # Unsafe code
//! - `list`, `value`: borrowed items and members, strings and lists where they lie. Types are checked by type, places against lengths.
//!   What no type can tell, that nothing changes a container meanwhile, is what `tests/engine/test_walks.py` checks, with objects whose
//!   every method complains.
//! - `tuples`: the slot of `tuple.__new__`, for classes that were checked to be tuples with these fields.
//!
//! Dicts are only asked by `PyDict_Next`; their tables are nobody's to read. What each of these is worth is said where it stands,
//! in instructions of `python -m benches.gates`.
//!
//! # Why it asks for the interpreter lock
//! A build without it (3.14t) compiles (`make builds`), but the module still says `gil_used = true`, because two things hold by the
//! lock alone: a walk keeps borrowed members and items of containers that are several levels apart, which a critical section around one
//! container does not protect (entering an inner one may let go of the outer); and `list::begins_with` compares a list's array with what
//! is known of it in one go. To change that, a walk would have to count a reference for each object that it keeps, and nobody
//! has run the suite on such an interpreter.
//!
//! # Locks, and what a fork finds
//! | lock | held while | in a forked child |
//! | --- | --- | --- |
//! | `Ledger.state`, `Verifier.state` | a call of their methods; nothing in there lets go of the interpreter lock | free: to fork, a Python thread needs the interpreter lock, which whoever holds one of these holds too |
//! | `Verifier.state`, then `Ledger.state` | a check: always in this order | as above |
//! | caches of a `Tokenizer` (in the core) | never while counting: taken out of their place, and put back | a place that is locked for good is passed over (`tests/counting/test_fork.py`) |
//! | cells of `TOKENIZERS`, classes and functions | what was made is put in; it is made before (`once`) | free, for no Python code runs meanwhile (`test_fork.py`) |
//!
//! What is called in Python is imported, or makes an exception, reads a vocabulary's file or parses a line
//! (`ullage._engine.vocabulary`, `ullage._engine.transcript_lines`): none of it takes a lock of ours.
//!
//! Waiting for a lock lets go of the interpreter lock (`lock_py_attached`), so that two threads cannot wait for each other.
use pyo3::prelude::*;

mod arguments;
mod bpe;
mod errors;
mod index;
mod json;
mod ledger;
mod lines;
mod list;
mod media;
mod names;
mod objects;
mod once;
mod outcome;
mod patterns;
mod rules;
mod sentences;
mod survey;
mod telling;
mod text;
mod tuples;
mod value;

// Not true of a build without the interpreter lock: see above.
#[pymodule(gil_used = true)]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    bpe::register(m)?;
    index::register(m)?;
    json::register(m)?;
    ledger::register(m)?;
    media::register(m)?;
    names::register(m)?;
    objects::register(m)?;
    outcome::register(m)?;
    patterns::register(m)?;
    rules::register(m)?;
    sentences::register(m)?;
    survey::register(m)?;
    telling::register(m)?;
    text::register(m)?;
    tuples::register(m)
}
