//! Binding of `ullage_core::bpe`.
use std::borrow::Cow;

use crate::once::once;
use pyo3::exceptions::{PyOverflowError, PyUnicodeEncodeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use ullage_core::bpe::{self, ENCODINGS, Tokenizer};

/// Texts from this many bytes on are worth letting other threads run meanwhile.
const DETACH_BYTES: usize = 4096;

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(encodings, m)?)?;
    m.add_function(wrap_pyfunction!(count_text, m)?)?;
    m.add_function(wrap_pyfunction!(count_text_up_to, m)?)?;
    m.add_function(wrap_pyfunction!(encode_text, m)?)
}

/// Names of the encodings that can be counted with.
#[pyfunction]
fn encodings() -> Vec<&'static str> {
    ENCODINGS.iter().map(|&(name, _)| name).collect()
}

/// Number of tokens of a text.
#[pyfunction]
#[pyo3(signature = (text, encoding = "o200k_base"))]
fn count_text(py: Python<'_>, text: &Bound<'_, PyString>, encoding: &str) -> PyResult<usize> {
    let count = counted(text, tokenizer(py, encoding)?, usize::MAX)?;
    Ok(count.unwrap_or(usize::MAX))
}

/// Number of tokens of a text, or `None` if there are more than `limit`.
#[pyfunction]
#[pyo3(signature = (text, limit, encoding = "o200k_base"))]
fn count_text_up_to(
    py: Python<'_>,
    text: &Bound<'_, PyString>,
    limit: &Bound<'_, PyAny>,
    encoding: &str,
) -> PyResult<Option<usize>> {
    let limit = limit_of(limit)?;
    counted(text, tokenizer(py, encoding)?, limit)
}

/// Counts; what a signal raises, such as Ctrl-C, ends it amid a long text.
fn counted(
    text: &Bound<'_, PyString>,
    tokenizer: &Tokenizer,
    limit: usize,
) -> PyResult<Option<usize>> {
    let mut signals = Ok(());
    let count = with_utf8(text, |utf8| {
        tokenizer.count_while(utf8, limit, &mut || {
            Python::attach(|py| {
                signals = py.check_signals();
                signals.is_ok()
            })
        })
    })?;
    signals.map(|()| count)
}

/// Token ids of a text.
#[pyfunction]
#[pyo3(signature = (text, encoding = "o200k_base"))]
fn encode_text(py: Python<'_>, text: &Bound<'_, PyString>, encoding: &str) -> PyResult<Vec<u32>> {
    let tokenizer = tokenizer(py, encoding)?;
    with_utf8(text, |utf8| tokenizer.encode(utf8))
}

/// One cell for each encoding that brings a vocabulary of its own; filled when first asked for.
static TOKENIZERS: [PyOnceLock<Tokenizer>; ENCODINGS.len()] =
    [const { PyOnceLock::new() }; ENCODINGS.len()];

fn tokenizer(py: Python<'_>, encoding: &str) -> PyResult<&'static Tokenizer> {
    let place = |wanted: &str| ENCODINGS.iter().position(|&(name, _)| name == wanted);
    let Some(index) = place(encoding) else {
        let known = format!("must be one of {}", encodings().join(", "));
        return Err(raise(py, "InvalidPolicy", ("encoding", encoding, known)));
    };
    let vocabulary = ENCODINGS[index].1;
    // The first encoding of a vocabulary holds it for all.
    let owner = ENCODINGS
        .iter()
        .position(|&(_, of)| of == vocabulary)
        .unwrap_or(index);
    once(py, &TOKENIZERS[owner], || load(py, vocabulary))
}

fn load(py: Python<'_>, vocabulary: &str) -> PyResult<Tokenizer> {
    let file = bpe::file_of(vocabulary);
    let reader = py.import("ullage._engine.vocabulary")?;
    let data = reader
        .call_method1(intern!(py, "read"), (file,))?
        .cast_into::<PyBytes>()?;
    let bytes = data.as_bytes();
    py.detach(|| Tokenizer::new(vocabulary, bytes))
        .map_err(|reason| {
            reader
                .call_method1("damaged", (file, reason))
                .map_or_else(|e| e, PyErr::from_value)
        })
}

/// A count that no text reaches stands for every larger int.
fn limit_of(limit: &Bound<'_, PyAny>) -> PyResult<usize> {
    match limit.extract::<usize>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(limit.py()) => {
            if limit.lt(0)? {
                let args = ("limit", limit, "must be 0 or more");
                return Err(raise(limit.py(), "InvalidPolicy", args));
            }
            Ok(usize::MAX)
        }
        other => other,
    }
}

fn raise<'py>(py: Python<'py>, class: &str, args: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let error = py
        .import("ullage.exceptions")
        .and_then(|module| module.getattr(class)?.call1(args));
    error.map_or_else(|error| error, PyErr::from_value)
}

/// Runs `work` on the text as UTF-8; without the interpreter lock if it is long.
pub(crate) fn with_utf8<T: Send>(
    text: &Bound<'_, PyString>,
    work: impl FnOnce(&str) -> T + Send,
) -> PyResult<T> {
    let fixed;
    let utf8 = match text.to_cow() {
        Ok(utf8) => utf8,
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(text.py()) => {
            fixed = without_surrogates(text)?;
            Cow::Borrowed(fixed.to_str()?)
        }
        Err(error) => return Err(error),
    };
    if utf8.len() < DETACH_BYTES {
        return Ok(work(&utf8));
    }
    Ok(text.py().detach(|| work(&utf8)))
}

/// tiktoken's own repair: surrogate pairs become their character, lone ones U+FFFD.
fn without_surrogates<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    let py = text.py();
    let utf16 = text.call_method1(intern!(py, "encode"), ("utf-16", "surrogatepass"))?;
    let fixed = utf16.call_method1(intern!(py, "decode"), ("utf-16", "replace"))?;
    Ok(fixed.cast_into()?)
}
