//! Errors of the core as the classes of `ullage.exceptions`: there is no second copy of any.

use crate::once::import;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use ullage_core::error::Error;

fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    import(py, cell, "ullage.exceptions", name)
}

/// The exception for an error; `index` is the message's place in the list that was passed.
pub(crate) fn to_py(py: Python<'_>, error: &Error, index: Option<usize>) -> PyErr {
    let made = match error {
        Error::InvalidMessage { reason, field, got } => {
            invalid_message(py, reason, field, got, index)
        }
        Error::Index { .. } => return PyIndexError::new_err(error.to_string()),
        Error::Argument { name, value, limit } => invalid_policy(py, name, value, limit),
    };
    made.unwrap_or_else(|error| error)
}

fn invalid_message(
    py: Python<'_>,
    reason: &str,
    field: &str,
    got: &str,
    index: Option<usize>,
) -> PyResult<PyErr> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let named = PyDict::new(py);
    named.set_item("index", index)?;
    named.set_item("field", field)?;
    named.set_item("got", got)?;
    let error = class(py, &CLASS, "InvalidMessage")?.call((reason,), Some(&named))?;
    Ok(PyErr::from_value(error))
}

fn invalid_policy(py: Python<'_>, name: &str, value: &str, limit: &str) -> PyResult<PyErr> {
    let value = value.into_pyobject(py)?.into_any();
    Ok(policy_error(name, &value, limit))
}

/// `InvalidPolicy(name, value, limit)`.
pub(crate) fn policy_error(name: &str, value: &Bound<'_, PyAny>, limit: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = class(value.py(), &CLASS, "InvalidPolicy")
        .and_then(|class| class.call1((name, value, limit)));
    made.map_or_else(|error| error, PyErr::from_value)
}
