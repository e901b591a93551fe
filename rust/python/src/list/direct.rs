//! By the layout of this version's lists, as the macros of its headers read them.
#![expect(
    unsafe_code,
    reason = "borrowed items of a list that nothing changes meanwhile; every block says why it holds"
)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The items of a list from `first` on, whose memory is asked for before their turn comes: a long list lies in no
/// cache. Nothing may change the list meanwhile: the lock is held and no Python code runs.
pub(crate) fn soon<'py>(
    list: &Bound<'py, PyList>,
    first: usize,
) -> impl ExactSizeIterator<Item = Bound<'py, PyAny>> {
    let list = list.clone();
    (first..list.len()).map(move |at| {
        fetch_dict(&list, at + 8);
        // SAFETY: inside of the list, which holds the item.
        unsafe { Bound::from_borrowed_ptr(list.py(), item(&list, at)) }
    })
}

/// Whether a list begins with these very objects.
pub(crate) fn begins_with(list: &Bound<'_, PyList>, held: &[Py<PyAny>]) -> bool {
    if list.len() < held.len() || held.is_empty() {
        return held.is_empty();
    }
    // SAFETY: the list holds at least so many pointers, and nothing changes it while the lock is held; `Py` is a pointer
    // and nothing else.
    unsafe {
        let items = (*list.as_ptr().cast::<ffi::PyListObject>()).ob_item;
        let items = std::slice::from_raw_parts(items.cast::<usize>(), held.len());
        let held = std::slice::from_raw_parts(held.as_ptr().cast::<usize>(), held.len());
        items == held
    }
}

/// SAFETY: `at` must be inside of the list.
unsafe fn item(list: &Bound<'_, PyList>, at: usize) -> *mut ffi::PyObject {
    // SAFETY: as the caller promises.
    unsafe { ffi::PyList_GET_ITEM(list.as_ptr(), at.cast_signed()) }
}

fn fetch_dict(list: &Bound<'_, PyList>, at: usize) {
    if at < list.len() {
        // SAFETY: inside of the list.
        fetch(unsafe { item(list, at) }.cast());
    }
}

fn fetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which no address can make fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    let _ = place;
}
