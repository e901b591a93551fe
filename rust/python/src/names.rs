//! Binding of `ullage_core::names`.
use crate::bpe::with_utf8;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ullage_core::names;

/// Each name once, in order of first use, with the number of its kind; a long text is read without the interpreter lock.
#[pyfunction]
fn find_names(text: &Bound<'_, PyString>) -> PyResult<Vec<(String, u8)>> {
    with_utf8(text, |utf8| {
        let found = names::names(utf8);
        found
            .into_iter()
            .map(|(name, kind)| (name.to_owned(), kind as u8))
            .collect()
    })
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(find_names, m)?)
}
