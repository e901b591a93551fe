//! Binding of `ullage_core::patterns`.
use crate::bpe::with_utf8;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ullage_core::patterns;

/// Which of some patterns may be in a sentence.
#[pyclass(frozen, module = "ullage._core")]
struct PatternSet(patterns::PatternSet);

#[pymethods]
impl PatternSet {
    #[new]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "what arguments are read into"
    )]
    fn new(py: Python<'_>, patterns: Vec<String>) -> PyResult<Self> {
        let made = py.detach(|| patterns::PatternSet::new(&patterns));
        made.map(Self).map_err(PyValueError::new_err)
    }

    /// A bit for each pattern that may be in the text; all of them where it is not judged.
    fn may_match(&self, text: &Bound<'_, PyString>) -> PyResult<u64> {
        with_utf8(text, |utf8| self.0.may_match(utf8))
    }
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PatternSet>()
}
