//! `ullage._core`: converts between Python and `ullage_core`, and nothing else.
use pyo3::prelude::*;

mod arguments;
mod bpe;
mod errors;
mod index;
mod ledger;
mod list;
mod media;
mod rules;
mod text;
mod tuples;
mod value;

// Messages are read through borrowed references, which only the lock makes safe.
#[pymodule(gil_used = true)]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    #[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
    value::look(m.py())?;
    bpe::register(m)?;
    index::register(m)?;
    ledger::register(m)?;
    media::register(m)?;
    rules::register(m)?;
    text::register(m)
}
