//! Binding of `ullage_core::patterns`.
use crate::bpe::with_utf8;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ullage_core::patterns;

/// Which of some patterns are in a sentence, and which may be.
#[pyclass(frozen, module = "ullage._core")]
struct PatternSet(patterns::PatternSet);

#[pymethods]
impl PatternSet {
    #[new]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "what arguments are read into"
    )]
    #[pyo3(signature = (patterns, *, wide = false))]
    fn new(py: Python<'_>, patterns: Vec<String>, wide: bool) -> PyResult<Self> {
        let made = py.detach(|| patterns::PatternSet::new(&patterns, wide));
        made.map(Self).map_err(PyValueError::new_err)
    }

    /// A bit for each pattern that may be in the text (all of them where it is not judged), and for each that is.
    fn look(&self, text: &Bound<'_, PyString>) -> PyResult<(u64, u64)> {
        with_utf8(text, |utf8| {
            let found = self.0.look(utf8);
            (found.maybe, found.sure)
        })
    }
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PatternSet>()
}
