//! Binding of `ullage_core::text`.
use pyo3::prelude::*;

/// Adds this file's names to the module.
pub(crate) fn register(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
