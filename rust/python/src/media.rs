//! Binding of `ullage_core::media`.
use crate::value::PyValue;
use pyo3::prelude::*;
use ullage_core::media::holds_media;

/// Indices of the user and tool messages with an image or document, also inside a tool result.
#[pyfunction]
fn media_indices(items: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let mut found = Vec::new();
    for (index, item) in items.try_iter()?.enumerate() {
        if holds_media(PyValue::new(&item?)) {
            found.push(index);
        }
    }
    Ok(found)
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(media_indices, m)?)
}
