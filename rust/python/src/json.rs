//! Binding of `ullage_core::json`.
use pyo3::prelude::*;
use ullage_core::json;

/// Where the parts of the list or object that begins at `at` stand: elements, or keys and values in turn; `None`: it is neither, or cut off.
#[pyfunction]
fn json_parts(raw: &[u8], at: usize) -> Option<Vec<(usize, usize)>> {
    json::parts(raw, at)
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(json_parts, m)?)
}
