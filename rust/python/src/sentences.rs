//! Binding of `ullage_core::sentences`.
use crate::bpe::with_utf8;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ullage_core::sentences;

/// The sentences of a text that have from `least` to `most` characters, in order; a long text is read without the interpreter lock.
#[pyfunction]
fn split_sentences(text: &Bound<'_, PyString>, least: usize, most: usize) -> PyResult<Vec<String>> {
    with_utf8(text, |utf8| {
        let found = sentences::sentences(utf8, least, most);
        found.into_iter().map(str::to_owned).collect()
    })
}

/// For each of some texts whether it stands in another; a long one is searched without the interpreter lock.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "what arguments are read into"
)]
fn contained(texts: Vec<Bound<'_, PyString>>, whole: &Bound<'_, PyString>) -> PyResult<Vec<bool>> {
    let texts: Vec<String> = texts
        .iter()
        .map(|text| with_utf8(text, str::to_owned))
        .collect::<PyResult<_>>()?;
    with_utf8(whole, |utf8| {
        sentences::contained(texts.iter().map(String::as_str), utf8)
    })
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(contained, m)?)?;
    m.add_function(wrap_pyfunction!(split_sentences, m)?)
}
