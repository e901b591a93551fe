//! Types and lists by the layout of this version's objects, as the macros of its headers read them: no call for an item.
#![expect(
    unsafe_code,
    reason = "borrowed items of containers that nothing changes meanwhile; every block says why it holds"
)]

use pyo3::ffi;
use std::ffi::c_ulong;
use std::slice::from_raw_parts;

/// The flags of an object's type.
///
/// SAFETY: the object must be alive.
pub(super) unsafe fn flags(object: *mut ffi::PyObject) -> c_ulong {
    // SAFETY: as the caller promises; its type is alive too.
    unsafe { (*ffi::Py_TYPE(object)).tp_flags }
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
    // SAFETY: as the caller promises; both begin with their size.
    unsafe { ffi::Py_SIZE(object) }
}

/// Visits the items of a list or tuple.
///
/// SAFETY: `object` must be a list or a tuple that nothing changes meanwhile.
pub(super) unsafe fn each_item(
    object: *mut ffi::PyObject,
    mut visit: impl FnMut(*mut ffi::PyObject),
) {
    // SAFETY: as the caller promises. The items of an empty list may lie nowhere.
    let items = unsafe {
        let count = items_count(object).cast_unsigned();
        if count == 0 {
            return;
        }
        let first = if ffi::PyList_Check(object) != 0 {
            (*object.cast::<ffi::PyListObject>()).ob_item.cast_const()
        } else {
            (&raw const (*object.cast::<ffi::PyTupleObject>()).ob_item).cast()
        };
        from_raw_parts(first, count)
    };
    for &item in items {
        visit(item);
    }
}
