//! Binding of `ullage_core::outcome`.
use crate::bpe::with_utf8;
use crate::once::once;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use ullage_core::outcome::Reader;

static READER: PyOnceLock<Reader> = PyOnceLock::new();

fn reader(py: Python<'_>) -> PyResult<&Reader> {
    once(py, &READER, || Ok(Reader::default()))
}

/// Whether a call failed, its exit code, and the line that shows it; a long result is read without the interpreter lock.
#[pyfunction]
fn read_result(
    text: &Bound<'_, PyString>,
    is_error: bool,
) -> PyResult<(bool, Option<i32>, String)> {
    let reader = reader(text.py())?;
    with_utf8(text, |utf8| {
        let found = reader.outcome(utf8, is_error);
        (found.failed, found.exit_code, found.line)
    })
}

/// Whether a host wrote a line around a result, or nobody wrote a word.
#[pyfunction]
fn is_framing(line: &Bound<'_, PyString>) -> PyResult<bool> {
    let reader = reader(line.py())?;
    with_utf8(line, |utf8| reader.is_framing(utf8))
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(read_result, m)?)?;
    m.add_function(wrap_pyfunction!(is_framing, m)?)
}
