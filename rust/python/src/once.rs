//! What is made once for the whole process: classes, functions, tables.
//!
//! It is made before its cell is asked to keep it, and thrown away if another thread was faster. A cell that makes it itself stays locked
//! meanwhile, and making runs Python code or lets go of the interpreter lock: a child that another thread forked then would wait
//! for it for ever.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// What the cell keeps, made first where it keeps nothing yet.
pub(crate) fn once<'a, T>(
    py: Python<'_>,
    cell: &'a PyOnceLock<T>,
    make: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'a T> {
    if let Some(known) = cell.get(py) {
        return Ok(known);
    }
    let made = make()?;
    Ok(cell.get_or_init(py, || made))
}

/// A class or function of a module.
pub(crate) fn import<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    module: &str,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let found = once(py, cell, || Ok(py.import(module)?.getattr(name)?.unbind()))?;
    Ok(found.bind(py))
}
