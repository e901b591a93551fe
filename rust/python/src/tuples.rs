//! Numbers of the core as the named tuples of the contract.

use pyo3::IntoPyObjectExt;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType, PyTypeMethods};
use std::ptr;
use ullage_core::digest::{BlockDigest, MessageDigest};
use ullage_core::jsonl::Line;
use ullage_core::ledger::Anchor;
use ullage_core::window::KeepWindow;

/// A named tuple without the detour over its Python `__new__`: what `tuple.__new__(class, fields)` makes.
fn named<'py, const N: usize>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    name: &str,
    fields: [Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    let class = cell.import(py, MODULE, name)?;
    made(class, &PyTuple::new(py, [PyTuple::new(py, fields)?])?)
}

/// Calls `tuple.__new__` by its slot.
#[expect(
    unsafe_code,
    reason = "a slot of a built-in type; the block says why it holds"
)]
fn made<'py>(
    class: &Bound<'py, PyType>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let base = class.py().get_type::<PyTuple>();
    // SAFETY: the slot of `tuple`, which is never empty, is a function of this kind; it takes a subclass of `tuple`, which every
    // named tuple is, and a tuple of arguments. A new reference comes back, or null with an error set.
    unsafe {
        let slot = ffi::PyType_GetSlot(base.as_type_ptr(), ffi::Py_tp_new);
        let new: ffi::newfunc = std::mem::transmute(slot);
        let made = new(class.as_type_ptr(), arguments.as_ptr(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(class.py(), made)
    }
}

/// Numbers and what else is a field, as objects.
macro_rules! fields {
    ($py:expr; $($field:expr),* $(,)?) => {
        [$($field.into_bound_py_any($py)?),*]
    };
}

const MODULE: &str = "ullage._engine.digests";

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
    named(py, &CLASS, "MessageDigest", fields)
}

/// `BlockDigest(...)`.
pub(crate) fn block<'py>(py: Python<'py>, digest: &BlockDigest) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = fields![
        py;
        digest.kind as u8,
        digest.all_flags(),
        digest.tokens,
        digest.rough,
        digest.chars,
        digest.id,
        digest.name,
        digest.aux,
    ];
    named(py, &CLASS, "BlockDigest", fields)
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
    named(py, &CLASS, "LineDigest", fields)
}

/// `Anchor(...)`.
pub(crate) fn anchor<'py>(py: Python<'py>, found: &Anchor) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = fields![py; found.first, found.last, found.covers, found.usage];
    named(py, &CLASS, "Anchor", fields)
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
    named(py, &CLASS, "AnchoredCount", fields)
}

/// `KeepWindow(...)`.
pub(crate) fn keep(py: Python<'_>, kept: KeepWindow) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = fields![py; kept.start, kept.tokens, kept.text_messages, kept.orphans];
    named(py, &CLASS, "KeepWindow", fields)
}

/// Adds the classes that nothing else brings to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = m.py().import(MODULE)?;
    for name in ["Anchor", "AnchoredCount", "KeepWindow", "LineDigest"] {
        m.add(name, module.getattr(name)?)?;
    }
    Ok(())
}
