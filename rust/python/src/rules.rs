//! Binding of `ullage_core::rules`.

use crate::errors::policy_error;
use crate::ledger::Ledger;
use crate::tuples::violation;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBool, PyInt, PyList, PyString, PyTuple};
use std::sync::{Mutex, PoisonError};
use ullage_core::rules::{Fact, Facts, Verifier as Core, Violation};

/// A string as the ledger's strings are encoded.
fn bytes(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let string = value.cast::<PyString>().ok()?;
    let encoded = string.call_method1("encode", ("utf-8", "surrogatepass"));
    encoded.ok()?.extract().ok()
}

fn strings(value: &Bound<'_, PyAny>) -> Option<Vec<Vec<u8>>> {
    if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
        return None;
    }
    let items = value.try_iter().ok()?;
    items.map(|item| bytes(&item.ok()?)).collect()
}

fn whole(value: &Bound<'_, PyAny>) -> Option<u64> {
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        return None;
    }
    value.extract().ok().filter(|number| *number < 1 << 63)
}

/// Stores a value; what would be accepted if it is of the wrong type.
fn set(fact: Fact<'_>, value: &Bound<'_, PyAny>) -> Result<(), &'static str> {
    fn put<T>(place: &mut T, value: Option<T>, limit: &'static str) -> Result<(), &'static str> {
        *place = value.ok_or(limit)?;
        Ok(())
    }
    const BOOL: &str = "must be true or false";
    const STRINGS: &str = "must be a list of strings";
    let truth = || value.cast::<PyBool>().ok().map(PyBoolMethods::is_true);
    match fact {
        Fact::Bool(place) => put(place, truth(), BOOL),
        Fact::MaybeBool(place) if value.is_none() => put(place, Some(None), BOOL),
        Fact::MaybeBool(place) => put(place, truth().map(Some), BOOL),
        Fact::Whole(place) => put(place, whole(value), "must be a whole number, 0 or more"),
        Fact::Text(place) => put(place, bytes(value), "must be a string"),
        Fact::Texts(place) => put(place, strings(value), STRINGS),
        Fact::MaybeTexts(place) if value.is_none() => put(place, Some(None), STRINGS),
        Fact::MaybeTexts(place) => put(place, strings(value).map(Some), STRINGS),
    }
}

fn read_facts(given: &Bound<'_, PyAny>) -> PyResult<Facts> {
    let mut facts = Facts::default();
    for item in given.call_method0("items")?.try_iter()? {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        let key: String = name.extract().unwrap_or_default();
        let Some(fact) = facts.field(&key) else {
            return Err(policy_error("facts", &name, "is not a known fact"));
        };
        set(fact, &value).map_err(|limit| policy_error(&format!("facts.{key}"), &value, limit))?;
    }
    Ok(facts)
}

fn verifier(
    ledger: &Ledger,
    provider: &Bound<'_, PyAny>,
    facts: &Bound<'_, PyAny>,
) -> PyResult<Core> {
    let facts = read_facts(facts)?;
    let name: String = provider.extract().unwrap_or_default();
    let py = provider.py();
    ledger
        .ask(py, |core| Core::new(core, &name, facts))
        .map_err(|error| match error {
            ullage_core::error::Error::Argument { name, limit, .. } => {
                policy_error(name, provider, limit)
            }
            other => crate::errors::to_py(py, &other, None),
        })
}

fn list(py: Python<'_>, found: Vec<Violation>) -> PyResult<Bound<'_, PyList>> {
    let made = PyList::empty(py);
    for each in found {
        made.append(violation(py, each)?)?;
    }
    Ok(made)
}

/// Errors and warnings of a conversation, sorted by message, block, rule and detail.
#[pyfunction]
fn check<'py>(
    py: Python<'py>,
    ledger: &Bound<'py, Ledger>,
    provider: &Bound<'py, PyAny>,
    facts: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let ledger = ledger.get();
    let mut made = verifier(ledger, provider, facts)?;
    let found = ledger.ask(py, |core| made.check(core));
    list(py, found)
}

/// Checks one ledger again and again, reading only what changed since the last time.
#[pyclass(frozen, module = "ullage._core")]
pub(crate) struct Verifier {
    ledger: Py<Ledger>,
    state: Mutex<Core>,
}

#[pymethods]
impl Verifier {
    #[new]
    fn new(
        ledger: &Bound<'_, Ledger>,
        provider: &Bound<'_, PyAny>,
        facts: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let state = verifier(ledger.get(), provider, facts)?;
        Ok(Self {
            ledger: ledger.clone().unbind(),
            state: Mutex::new(state),
        })
    }

    /// Messages that the last check read.
    #[getter]
    fn read(&self, py: Python<'_>) -> usize {
        let locked = self.state.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner).read()
    }

    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ledger = self.ledger.get();
        let locked = self.state.lock_py_attached(py);
        let mut state = locked.unwrap_or_else(PoisonError::into_inner);
        let found = ledger.ask(py, |core| state.check(core));
        drop(state);
        list(py, found)
    }
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Verifier>()?;
    m.add_function(wrap_pyfunction!(check, m)?)
}
