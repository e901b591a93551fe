//! Binding of `ullage_core::text`.
use crate::once::import;
use crate::value::PyValue;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};
use ullage_core::digest::{BLOCK_KINDS, ROLES};
use ullage_core::text::{
    self as core, FEATURES, Features, HiddenRule, ImageRule, MAX_WEIGHT, Text,
};
use ullage_core::view::Value;

/// Lends a string's own storage to `read`.
pub(crate) fn with_text<R>(string: &Bound<'_, PyString>, read: impl FnOnce(Text<'_>) -> R) -> R {
    PyValue::new(string).with_text(read)
}

/// A string of the core: UTF-8 in which lone surrogates may stand.
pub(crate) fn string<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogatepass")),
    }
}

/// `InvalidPolicy(field, value, limit)`.
fn invalid_policy(field: &str, value: &Bound<'_, PyAny>, limit: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = import(value.py(), &CLASS, "ullage.exceptions", "InvalidPolicy");
    class
        .and_then(|class| class.call1((field, value, limit)))
        .map_or_else(|error| error, PyErr::from_value)
}

/// An integer in a range; what is no integer is a `TypeError`.
fn integer(field: &str, value: &Bound<'_, PyAny>, least: u64, most: u64) -> PyResult<u64> {
    let limit = || format!("must be an integer from {least} to {most}");
    if !value.is_instance_of::<PyInt>() {
        let name = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{field}: {} (got {name})",
            limit()
        )));
    }
    match value.extract::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Err(error) if !error.is_instance_of::<PyOverflowError>(value.py()) => Err(error),
        _ => Err(invalid_policy(field, value, &limit())),
    }
}

/// So many integers, each from 0 to `most`.
fn integers<const N: usize>(
    field: &str,
    values: &Bound<'_, PyAny>,
    most: u32,
) -> PyResult<[u32; N]> {
    let items: Vec<Bound<'_, PyAny>> = values.extract()?;
    let count = items.len();
    let items: [_; N] = items.try_into().map_err(|_: Vec<_>| {
        invalid_policy(
            field,
            values,
            &format!("must have {N} entries, not {count}"),
        )
    })?;
    let mut numbers = [0; N];
    for (number, item) in numbers.iter_mut().zip(items) {
        *number = integer(field, &item, 0, u64::from(most))? as u32;
    }
    Ok(numbers)
}

/// Numbers of a calibrated estimate for one model family, in 1/4096 token.
#[pyclass(frozen, module = "ullage._core")]
pub(crate) struct Weights {
    pub(crate) inner: core::Weights,
}

#[pymethods]
impl Weights {
    #[new]
    #[pyo3(signature = (features, *, blocks, messages, image=None, hidden=None))]
    fn new(
        features: &Bound<'_, PyAny>,
        blocks: &Bound<'_, PyAny>,
        messages: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        hidden: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let features = integers::<FEATURES>("features", features, MAX_WEIGHT)?;
        let blocks = integers::<BLOCK_KINDS>("blocks", blocks, MAX_WEIGHT)?;
        let messages = integers::<ROLES>("messages", messages, MAX_WEIGHT)?;
        let image = image
            .map(|image| integers::<4>("image", image, u32::MAX))
            .transpose()?;
        let hidden = hidden
            .map(|hidden| integers::<2>("hidden", hidden, MAX_WEIGHT))
            .transpose()?;
        let [free_chars, per_char] = hidden.unwrap_or_default();
        let hidden = HiddenRule {
            free_chars,
            per_char,
        };
        let image = image.map_or_else(ImageRule::default, |rule| ImageRule {
            patch_px: rule[0],
            max_edge_px: rule[1],
            max_tokens: rule[2],
            default_tokens: rule[3],
        });
        Ok(Self {
            inner: core::Weights {
                features,
                blocks,
                messages,
                image,
                hidden,
            },
        })
    }
}

#[pyfunction]
fn rough_text(text: &Bound<'_, PyString>) -> u64 {
    core::rough_tokens(PyValue::new(text).chars())
}

#[pyfunction]
fn features<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(text.py(), with_text(text, Features::of).0)
}

#[pyfunction]
fn estimate_text(text: &Bound<'_, PyString>, weights: &Bound<'_, Weights>) -> u64 {
    with_text(text, |text| core::estimate_text(text, &weights.get().inner))
}

#[pyfunction]
fn image_size(data: &Bound<'_, PyString>) -> (u32, u32) {
    with_text(data, core::image_size)
}

#[pyfunction]
fn image_tokens(
    width: &Bound<'_, PyAny>,
    height: &Bound<'_, PyAny>,
    weights: &Bound<'_, Weights>,
) -> PyResult<u32> {
    let width = integer("width", width, 0, u64::from(u32::MAX))? as u32;
    let height = integer("height", height, 0, u64::from(u32::MAX))? as u32;
    Ok(core::image_tokens(
        width,
        height,
        &weights.get().inner.image,
    ))
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Weights>()?;
    m.add("FEATURE_NAMES", PyTuple::new(m.py(), core::feature::NAMES)?)?;
    m.add_function(wrap_pyfunction!(rough_text, m)?)?;
    m.add_function(wrap_pyfunction!(features, m)?)?;
    m.add_function(wrap_pyfunction!(estimate_text, m)?)?;
    m.add_function(wrap_pyfunction!(image_size, m)?)?;
    m.add_function(wrap_pyfunction!(image_tokens, m)?)
}
