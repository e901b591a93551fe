//! Binding of `ullage_core::survey`: the class `Survey`.

use crate::arguments::{NOT_NEGATIVE, number};
use crate::errors::to_py;
use crate::text::{Weights, string};
use crate::tuples::{anchored, facts};
use crate::value::PyValue;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use ullage_core::survey::{Facts, Freed, Limits, Share, Survey as Core};
use ullage_core::text::Weights as CoreWeights;
use ullage_core::units::saturate;
use ullage_core::window::Enough;

/// What fills a conversation; made once, and never changed.
#[pyclass(frozen, module = "ullage._core")]
pub(crate) struct Survey {
    core: Core,
    facts: Facts,
}

impl Survey {
    /// Works out the facts, without the interpreter lock.
    pub(crate) fn of(py: Python<'_>, make: impl FnOnce() -> Core + Send) -> Self {
        py.detach(|| {
            let core = make();
            let facts = core.facts();
            Self { core, facts }
        })
    }
}

/// The items of a list, read.
pub(crate) fn read(items: &Bound<'_, PyAny>, weights: Option<&CoreWeights>) -> PyResult<Core> {
    let mut core = Core::default();
    for (at, item) in items.try_iter()?.enumerate() {
        let item = item?;
        let added = core.read(PyValue::new(&item), weights);
        added.map_err(|error| to_py(items.py(), &error, Some(at)))?;
    }
    Ok(core)
}

#[pymethods]
impl Survey {
    #[new]
    fn new(weights: Option<&Bound<'_, Weights>>, items: &Bound<'_, PyAny>) -> PyResult<Self> {
        let core = read(items, weights.map(|weights| &weights.get().inner))?;
        Ok(Self::of(items.py(), || core))
    }

    fn __len__(&self) -> usize {
        self.core.ledger().len()
    }

    /// The calibrated estimate.
    #[getter]
    fn tokens(&self) -> u64 {
        let ledger = self.core.ledger();
        ledger.tokens(0, ledger.len())
    }

    /// The provider's newest figure, and what follows it.
    fn anchored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (total, estimated, found) = self.core.ledger().anchored(0, 0);
        anchored(py, total, estimated, found.as_ref())
    }

    /// What the figures hold in addition to the messages.
    #[getter]
    fn overhead(&self) -> Option<u64> {
        self.core.ledger().overhead()
    }

    /// How many messages a request has.
    #[getter]
    fn message_count(&self, py: Python<'_>) -> Option<usize> {
        py.detach(|| self.core.message_count())
    }

    /// Everything that no setting decides.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        facts(py, &self.facts)
    }

    /// The tools whose calls were answered.
    fn result_tools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = py.detach(|| self.core.result_tools());
        let names = names
            .into_iter()
            .map(|name| string(py, self.core.ledger().string(name)));
        PyList::new(py, names.collect::<PyResult<Vec<_>>>()?)
    }

    /// What the budget, snip, microcompact and a summary would free.
    fn freeable(
        &self,
        py: Python<'_>,
        limits: &Bound<'_, PyDict>,
        unlimited: &Bound<'_, PyAny>,
        clearable: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Freed>> {
        let limits = limits_of(limits)?;
        let (unlimited, clearable): (Vec<bool>, Vec<bool>) =
            (unlimited.extract()?, clearable.extract()?);
        Ok(py.detach(|| self.core.freeable(&limits, &unlimited, &clearable).to_vec()))
    }

    fn __repr__(&self) -> String {
        format!(
            "Survey({} messages, {} tokens)",
            self.__len__(),
            self.tokens()
        )
    }
}

fn limits_of(given: &Bound<'_, PyDict>) -> PyResult<Limits> {
    let of = |name: &str| {
        let value = given.as_any().get_item(name)?;
        number(name, &value, NOT_NEGATIVE)
    };
    Ok(Limits {
        max_result: of("max_result")?,
        preview: of("preview")?,
        snip_max: of("snip_max")?,
        snip_kept: of("snip_kept")?,
        keep_recent: usize::try_from(of("keep_recent")?).unwrap_or(usize::MAX),
        longest_marker: of("longest_marker")?,
        enough: Enough {
            min_tokens: of("min_tokens")?,
            max_tokens: of("max_tokens")?,
            min_text_messages: saturate(of("min_text_messages")?),
        },
    })
}

/// Rows of tools or files: name, calls, errors, tokens.
pub(crate) fn shares<'py>(py: Python<'py>, found: &[Share]) -> PyResult<Bound<'py, PyList>> {
    let row = |share: &Share| {
        let name = string(py, &share.name)?;
        (name, share.calls, share.errors, share.tokens).into_pyobject(py)
    };
    let rows: PyResult<Vec<Bound<'py, PyTuple>>> = found.iter().map(row).collect();
    PyList::new(py, rows?)
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Survey>()
}
