//! Numbers of the core as the named tuples of the contract.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use ullage_core::digest::{BlockDigest, MessageDigest};
use ullage_core::jsonl::Line;
use ullage_core::ledger::Anchor;
use ullage_core::window::KeepWindow;

/// A named tuple without the detour over its Python `__new__`.
fn named<'py, T>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    (module, name): (&str, &str),
    fields: T,
) -> PyResult<Bound<'py, PyAny>>
where
    T: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
{
    static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let new = NEW.get_or_try_init(py, || {
        let new = py.get_type::<PyTuple>().getattr("__new__")?;
        Ok::<_, PyErr>(new.unbind())
    })?;
    let class = cell.import(py, module, name)?;
    new.bind(py).call1((class, fields.into_pyobject(py)?))
}

const DIGEST: &str = "ullage.digests";
const LEDGER: &str = "ullage._reference.ledger";

/// `MessageDigest(...)`.
pub(crate) fn message<'py>(py: Python<'py>, digest: &MessageDigest) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = (
        digest.role as u8,
        digest.flags,
        digest.tokens,
        digest.rough,
        digest.first_block,
        digest.block_count,
        digest.response_id,
        digest.uuid,
        digest.usage,
        digest.timestamp,
    );
    named(py, &CLASS, (DIGEST, "MessageDigest"), fields)
}

/// `BlockDigest(...)`.
pub(crate) fn block<'py>(py: Python<'py>, digest: &BlockDigest) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = (
        digest.kind as u8,
        digest.flags,
        digest.tokens,
        digest.rough,
        digest.chars,
        digest.id,
        digest.name,
        digest.aux,
    );
    named(py, &CLASS, (DIGEST, "BlockDigest"), fields)
}

/// `LineDigest(...)`.
pub(crate) fn line<'py>(
    py: Python<'py>,
    line: &Line,
    found: Option<&MessageDigest>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let found = found.map(|found| message(py, found)).transpose()?;
    let fields = (
        line.offset,
        line.length,
        line.number,
        line.kind,
        line.subtype,
        line.uuid,
        line.parent,
        found,
    );
    named(
        py,
        &CLASS,
        ("ullage._reference.jsonl", "LineDigest"),
        fields,
    )
}

/// `Anchor(...)`.
pub(crate) fn anchor<'py>(py: Python<'py>, found: &Anchor) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = (found.first, found.last, found.covers, found.usage);
    named(py, &CLASS, (LEDGER, "Anchor"), fields)
}

/// `AnchoredCount(...)`.
pub(crate) fn anchored<'py>(
    py: Python<'py>,
    total: u64,
    estimated: u64,
    found: Option<&Anchor>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let found = found.map(|found| anchor(py, found)).transpose()?;
    let fields = (total, estimated, found);
    named(py, &CLASS, (LEDGER, "AnchoredCount"), fields)
}

/// `KeepWindow(...)`.
pub(crate) fn keep(py: Python<'_>, kept: KeepWindow) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = (kept.start, kept.tokens, kept.text_messages, kept.orphans);
    named(
        py,
        &CLASS,
        ("ullage._reference.window", "KeepWindow"),
        fields,
    )
}
