//! Items of lists and tuples without counting references, and whether a list is the one that is known.
//!
//! Builds for the stable ABI and without the interpreter lock ask by calls, all others read the list's own array.
#![expect(unsafe_code, reason = "borrowed items; each block says why it holds")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// One item, `None` after the last.
#[inline]
pub(crate) fn item<'a, 'py>(
    list: Borrowed<'a, 'py, PyList>,
    at: usize,
) -> Option<Borrowed<'a, 'py, PyAny>> {
    if at >= list.len() {
        return None;
    }
    // SAFETY: a list by its type, and the place was compared with its length just now. It holds the item, and nothing changes it
    // for as long as it is borrowed: no Python code runs meanwhile, and the lock is held (`value`, `test_walks.py`).
    unsafe {
        #[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
        let item = ffi::PyList_GET_ITEM(list.as_ptr(), at.cast_signed());
        #[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
        let item = ffi::PyList_GetItem(list.as_ptr(), at.cast_signed());
        Borrowed::from_ptr_or_opt(list.py(), item)
    }
}

/// The items of a list.
#[inline]
pub(crate) fn items<'a, 'py>(
    list: Borrowed<'a, 'py, PyList>,
) -> impl Iterator<Item = Borrowed<'a, 'py, PyAny>> {
    (0..list.len()).map_while(move |at| item(list, at))
}

/// The items of a tuple.
#[inline]
pub(crate) fn members<'a, 'py>(
    tuple: Borrowed<'a, 'py, PyTuple>,
) -> impl Iterator<Item = Borrowed<'a, 'py, PyAny>> {
    (0..tuple.len()).map(move |at| {
        assert!(at < tuple.len());
        // SAFETY: a tuple by its type, and the place was compared with its length just now. It holds the item, and is never changed.
        unsafe {
            #[cfg(not(feature = "abi3"))]
            let item = ffi::PyTuple_GET_ITEM(tuple.as_ptr(), at.cast_signed());
            #[cfg(feature = "abi3")]
            let item = ffi::PyTuple_GetItem(tuple.as_ptr(), at.cast_signed());
            Borrowed::from_ptr(tuple.py(), item)
        }
    })
}

/// The items of a list from `first` on, whose memory is asked for before their turn comes: a long list lies in no cache.
pub(crate) fn soon<'py>(
    list: &Bound<'py, PyList>,
    first: usize,
) -> impl ExactSizeIterator<Item = Bound<'py, PyAny>> {
    let list = list.clone();
    let none = list.py().None().into_bound(list.py());
    (first..list.len()).map(move |at| {
        if let Some(later) = item(list.as_borrowed(), at + 8) {
            fetch(later.as_ptr().cast());
        }
        item(list.as_borrowed(), at).map_or_else(|| none.clone(), Borrowed::to_owned)
    })
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

/// Whether a list begins with these very objects.
pub(crate) fn begins_with(list: &Bound<'_, PyList>, held: &[Py<PyAny>]) -> bool {
    list.len() >= held.len() && same(list, held)
}

/// Compared as a whole: a list that is passed again each turn costs four instructions an item.
#[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
fn same(list: &Bound<'_, PyList>, held: &[Py<PyAny>]) -> bool {
    const { assert!(size_of::<Py<PyAny>>() == size_of::<usize>()) };
    assert!(list.len() >= held.len());
    if held.is_empty() {
        return true;
    }
    // SAFETY: as was asserted, the list holds so many pointers and more, which lie in one array that nothing changes while the lock is
    // held; a `Py` is a pointer and nothing else, as its size tells.
    unsafe {
        let items = (*list.as_ptr().cast::<ffi::PyListObject>()).ob_item;
        let items = std::slice::from_raw_parts(items.cast::<usize>(), held.len());
        let held = std::slice::from_raw_parts(held.as_ptr().cast::<usize>(), held.len());
        items == held
    }
}

#[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
fn same(list: &Bound<'_, PyList>, held: &[Py<PyAny>]) -> bool {
    let pairs = items(list.as_borrowed()).zip(held);
    pairs.into_iter().all(|(item, known)| item.is(known))
}
