//! Numbers of the core as the named tuples of the contract.

use pyo3::IntoPyObjectExt;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyType, PyTypeMethods};
use ullage_core::digest::{BlockDigest, MessageDigest};
use ullage_core::jsonl::Line;
use ullage_core::ledger::Anchor;
use ullage_core::window::KeepWindow;

/// A named tuple without the detour over its Python `__new__` and a tuple of its fields.
#[expect(
    unsafe_code,
    reason = "fills a tuple in place; the block says why it holds"
)]
fn named<'py, const N: usize>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    (module, name): (&str, &str),
    fields: [Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    let class = cell.import(py, module, name)?;
    let count = N.cast_signed();
    // SAFETY: a named tuple is a tuple without fields of its own, made as `tuple.__new__` makes one of a subclass: with room
    // for `count` items, each filled before anybody sees it.
    unsafe {
        let made = ffi::PyType_GenericAlloc(class.as_type_ptr(), count);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        for (at, field) in (0..count).zip(fields) {
            // Takes the reference, also if it fails.
            if ffi::PyTuple_SetItem(made.as_ptr(), at, field.into_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(made)
    }
}

/// Numbers and what else is a field, as objects.
macro_rules! fields {
    ($py:expr; $($field:expr),* $(,)?) => {
        [$($field.into_bound_py_any($py)?),*]
    };
}

const DIGEST: &str = "ullage.digests";
const LEDGER: &str = "ullage._reference.ledger";

/// `MessageDigest(...)`.
pub(crate) fn message<'py>(py: Python<'py>, digest: &MessageDigest) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = fields![
        py;
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
    ];
    named(py, &CLASS, (DIGEST, "MessageDigest"), fields)
}

/// `BlockDigest(...)`.
pub(crate) fn block<'py>(py: Python<'py>, digest: &BlockDigest) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = fields![
        py;
        digest.kind as u8,
        digest.flags,
        digest.tokens,
        digest.rough,
        digest.chars,
        digest.id,
        digest.name,
        digest.aux,
    ];
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
    let fields = fields![
        py;
        line.offset,
        line.length,
        line.number,
        line.kind,
        line.subtype,
        line.uuid,
        line.parent,
        found,
    ];
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
    let fields = fields![py; found.first, found.last, found.covers, found.usage];
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
    let fields = fields![py; total, estimated, found];
    named(py, &CLASS, (LEDGER, "AnchoredCount"), fields)
}

/// `KeepWindow(...)`.
pub(crate) fn keep(py: Python<'_>, kept: KeepWindow) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = fields![py; kept.start, kept.tokens, kept.text_messages, kept.orphans];
    named(
        py,
        &CLASS,
        ("ullage._reference.window", "KeepWindow"),
        fields,
    )
}
