//! `ullage._core`: converts between Python and `ullage_core`, and nothing else.
use pyo3::prelude::*;

mod arguments;
mod bpe;
mod errors;
mod index;
mod ledger;
mod lines;
mod list;
mod media;
mod rules;
mod text;
mod tuples;
mod value;

// A walk borrows items of lists and members of dicts without counting references. What makes that safe is the lock: no other
// thread may change a container meanwhile. A build without the lock would have to lock each container, or count.
#[pymodule(gil_used = true)]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    bpe::register(m)?;
    index::register(m)?;
    ledger::register(m)?;
    media::register(m)?;
    rules::register(m)?;
    text::register(m)?;
    tuples::register(m)
}
