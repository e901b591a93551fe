//! The characters of strings where they lie: no copy, no UTF-8 made.
#![expect(
    unsafe_code,
    reason = "storage of strings, which are never changed; each block says why it holds"
)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::slice::from_raw_parts;
use ullage_core::text::Text;

/// The characters of a string of ASCII: nearly all keys.
#[cfg(not(Py_3_14))]
#[inline]
pub(super) fn ascii<'a>(string: Borrowed<'a, '_, PyString>) -> Option<&'a [u8]> {
    // SAFETY: a str by its type. Its head says that it is compact and ASCII: the characters follow the head, and are never changed.
    unsafe {
        let head = string.as_ptr().cast::<ffi::PyASCIIObject>();
        if (*head).compact() & (*head).ascii() == 0 {
            return None;
        }
        let length = (*head).length.cast_unsigned();
        Some(from_raw_parts(head.add(1).cast(), length))
    }
}

/// From 3.14 on the flags in a string's head are nobody's to read; keys are short enough to be looked at.
#[cfg(Py_3_14)]
pub(super) fn ascii<'a>(string: Borrowed<'a, '_, PyString>) -> Option<&'a [u8]> {
    match units(string) {
        Some(Text::Latin1(bytes)) if bytes.is_ascii() => Some(bytes),
        _ => None,
    }
}

/// The storage of a string, by its kind and length; `None` if there is no memory left for one.
fn units<'a>(string: Borrowed<'a, '_, PyString>) -> Option<Text<'a>> {
    let object = string.as_ptr();
    // SAFETY: a str by its type; strings are never changed, so its storage holds while it is borrowed. Kind and length say how large
    // it is, as soon as it is ready. What 3.11's deprecated constructors made (`PyUnicode_FromUnicode` without text) is not before
    // it is asked to be; from 3.12 on all strings are.
    unsafe {
        #[cfg(not(Py_3_12))]
        if ffi::PyUnicode_READY(object) != 0 {
            ffi::PyErr_Clear();
            return None;
        }
        let length = ffi::PyUnicode_GET_LENGTH(object).cast_unsigned();
        let data = ffi::PyUnicode_DATA(object);
        Some(match ffi::PyUnicode_KIND(object) {
            ffi::PyUnicode_1BYTE_KIND => Text::Latin1(from_raw_parts(data.cast(), length)),
            ffi::PyUnicode_2BYTE_KIND => Text::Ucs2(from_raw_parts(data.cast(), length)),
            _ => Text::Ucs4(from_raw_parts(data.cast(), length)),
        })
    }
}

/// The storage of a string; `_encoded` stays as it is, since no copy is made.
#[cold]
pub(super) fn stored<'a>(string: Borrowed<'a, '_, PyString>, _encoded: &mut Vec<u8>) -> Text<'a> {
    match units(string) {
        None => Text::Ascii(b""),
        // Instances of subclasses are never compact: theirs may be ASCII all the same.
        Some(Text::Latin1(bytes)) if bytes.is_ascii() => Text::Ascii(bytes),
        Some(text) => text,
    }
}

/// Code points.
#[inline]
pub(super) fn chars(string: Borrowed<'_, '_, PyString>) -> u64 {
    match ascii(string) {
        Some(bytes) => bytes.len() as u64,
        None => units(string).map_or(0, |text| text.char_len() as u64),
    }
}
