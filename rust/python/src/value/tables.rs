//! The table of a dict, read where it lies: asking the interpreter for the next member costs 50 instructions each time.
//!
//! The layout is private, the same in 3.11, 3.12 and 3.13 (`Include/internal/pycore_dict.h`). So it is read by builds for
//! these only, and only after a look at dicts of known content has shown, when the module is loaded, that it is what it was.
#![expect(
    unsafe_code,
    reason = "reads a private layout that was compared with the interpreter's own answers"
)]

use super::PyValue;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, Ordering};
use ullage_core::view::Value;

/// One place of a table whose keys are all strings; `value` is null where a member was removed.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Member {
    pub(super) key: *mut ffi::PyObject,
    pub(super) value: *mut ffi::PyObject,
}

/// `struct _dictkeysobject`.
#[repr(C)]
struct Keys {
    references: ffi::Py_ssize_t,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: ffi::Py_ssize_t,
    entries: ffi::Py_ssize_t,
}

/// `DICT_KEYS_UNICODE`: every key is a str, and no entry holds its hash.
const STRINGS_ONLY: u8 = 1;

// Whether the layout is as it is written here; found out once, when the module is loaded.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// The places of a dict's table; nothing if it is no dict, its keys are not all strings, or they are shared with other dicts.
///
/// Nothing may change the dict while they are looked at: the lock is held and no Python code runs.
pub(super) fn members(value: PyValue<'_>) -> Option<&[Member]> {
    if cfg!(Py_3_14) || !KNOWN.load(Ordering::Relaxed) || !value.is_map() {
        return None;
    }
    // SAFETY: a dict; the layout was checked.
    unsafe { table(value.pointer()) }
}

/// SAFETY: `object` must be a dict, and the layout the known one.
unsafe fn table<'a>(object: *mut ffi::PyObject) -> Option<&'a [Member]> {
    // SAFETY: as the caller promises: a dict without values of its own has a table of its own, whose places follow the indices.
    unsafe {
        let dict = object.cast::<ffi::PyDictObject>();
        let keys = (*dict).ma_keys.cast::<Keys>();
        if (*keys).kind != STRINGS_ONLY || !(*dict).ma_values.is_null() {
            return None;
        }
        if (*keys).entries == 0 {
            return Some(&[]);
        }
        let first = keys
            .add(1)
            .cast::<u8>()
            .add(1 << (*keys).log2_index_bytes)
            .cast();
        Some(std::slice::from_raw_parts(
            first,
            (*keys).entries.cast_unsigned(),
        ))
    }
}

/// Compares what the table says with what the interpreter says, for dicts of each width of index.
pub(crate) fn look(py: Python<'_>) -> PyResult<()> {
    if cfg!(Py_3_14) {
        return Ok(());
    }
    let mut same = true;
    for size in [0, 1, 6, 100, 300] {
        let dict = PyDict::new(py);
        for number in 0..size {
            dict.set_item(format!("key {number}"), number)?;
        }
        if size > 1 {
            dict.del_item("key 1")?;
        }
        // One after the other: a table is only read if the head of it makes sense.
        same = same && head_is_right(&dict, size) && agrees(&dict);
    }
    KNOWN.store(same, Ordering::Relaxed);
    Ok(())
}

fn head_is_right(dict: &Bound<'_, PyDict>, size: usize) -> bool {
    // SAFETY: a dict; the head of its keys is no larger than the smallest that any version had.
    let keys = unsafe {
        &*(*dict.as_ptr().cast::<ffi::PyDictObject>())
            .ma_keys
            .cast::<Keys>()
    };
    let wide = u8::from(keys.log2_size > 7);
    keys.entries.cast_unsigned() == size
        && keys.kind == STRINGS_ONLY
        && keys.log2_size <= 10
        && (size == 0 || keys.log2_index_bytes == keys.log2_size + wide)
}

fn agrees(dict: &Bound<'_, PyDict>) -> bool {
    // SAFETY: nothing changes the dict while its places are looked at.
    let Some(places) = (unsafe { table(dict.as_ptr()) }) else {
        return false;
    };
    let found = places.iter().filter(|member| !member.value.is_null());
    let found = found.map(|member| (member.key, member.value));
    found.eq(dict
        .iter()
        .map(|(key, value)| (key.as_ptr(), value.as_ptr())))
}
