//! Types and containers by the calls that every build has.
#![expect(
    unsafe_code,
    reason = "borrowed items of containers that nothing changes meanwhile; every block says why it holds"
)]

use pyo3::ffi;
use std::ffi::c_ulong;

/// The flags of an object's type.
///
/// SAFETY: the object must be alive.
pub(super) unsafe fn flags(object: *mut ffi::PyObject) -> c_ulong {
    // SAFETY: as the caller promises; its type is alive too.
    unsafe { ffi::PyType_GetFlags(ffi::Py_TYPE(object)) }
}

/// How many members a dict has.
///
/// SAFETY: `object` must be a dict.
pub(super) unsafe fn members_count(object: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: as the caller promises.
    unsafe { ffi::PyDict_Size(object) }
}

/// How many items a list or tuple has.
///
/// SAFETY: `object` must be a list or a tuple.
pub(super) unsafe fn items_count(object: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: as the caller promises.
    unsafe {
        if ffi::PyList_Check(object) != 0 {
            ffi::PyList_Size(object)
        } else {
            ffi::PyTuple_Size(object)
        }
    }
}

/// Visits the items of a list or tuple.
///
/// SAFETY: `object` must be a list or a tuple, alive while the lock is held.
pub(super) unsafe fn each_item(
    object: *mut ffi::PyObject,
    mut visit: impl FnMut(*mut ffi::PyObject),
) {
    // SAFETY: as the caller promises; each place is inside.
    unsafe {
        let fetch = if ffi::PyList_Check(object) != 0 {
            ffi::PyList_GetItem
        } else {
            ffi::PyTuple_GetItem
        };
        for at in 0..items_count(object) {
            visit(fetch(object, at));
        }
    }
}
