//! Binding of `ullage_core::telling`.
use crate::bpe::with_utf8;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ullage_core::telling;

/// Lines that may tell a value, in order, with the numbers of what they may tell; a long text is read without the interpreter lock.
#[pyfunction]
fn telling_lines(text: &Bound<'_, PyString>) -> PyResult<Vec<(String, u8)>> {
    with_utf8(text, |utf8| {
        let found = telling::telling_lines(utf8);
        found
            .into_iter()
            .map(|(line, told)| (line.to_owned(), told))
            .collect()
    })
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(telling_lines, m)?)
}
