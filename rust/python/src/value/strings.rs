//! The characters of strings where they lie: no copy, no UTF-8 made.
#![expect(
    unsafe_code,
    reason = "storage of strings, which are never changed; every block says why it holds"
)]

use pyo3::ffi;
use std::slice::from_raw_parts;
use ullage_core::text::Text;

/// The characters of a string of ASCII: nearly all keys.
///
/// SAFETY: `object` must be a str that lives for as long as the characters are looked at.
#[cfg(not(Py_3_14))]
pub(super) unsafe fn ascii<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    // SAFETY: the object is a str. The characters of a compact string of ASCII follow its head and are never changed.
    unsafe {
        let head = object.cast::<ffi::PyASCIIObject>();
        if (*head).compact() & (*head).ascii() == 0 {
            return None;
        }
        Some(from_raw_parts(
            head.add(1).cast(),
            (*head).length.cast_unsigned(),
        ))
    }
}

/// From 3.14 on the flags in a string's head are nobody's to read; keys are short enough to be looked at.
///
/// SAFETY: as of the other one.
#[cfg(Py_3_14)]
pub(super) unsafe fn ascii<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    // SAFETY: the object is a str; its storage lives as long as it does.
    unsafe {
        if ffi::PyUnicode_KIND(object) != ffi::PyUnicode_1BYTE_KIND {
            return None;
        }
        let length = ffi::PyUnicode_GET_LENGTH(object).cast_unsigned();
        let bytes = from_raw_parts(ffi::PyUnicode_DATA(object).cast(), length);
        Some(bytes).filter(|bytes: &&[u8]| bytes.is_ascii())
    }
}

/// Whether kind, length and storage of a string can be read; if not, it becomes so.
///
/// SAFETY: as of [`ascii`].
#[cfg(not(Py_3_12))]
unsafe fn ready(object: *mut ffi::PyObject) -> bool {
    // SAFETY: a str. What 3.11's deprecated constructors made (`PyUnicode_FromUnicode` without text) has no storage but of
    // `wchar_t` yet; this gives it one, or fails for want of memory.
    unsafe {
        let fit = ffi::PyUnicode_READY(object) == 0;
        if !fit {
            ffi::PyErr_Clear();
        }
        fit
    }
}

/// From 3.12 on all strings are.
#[cfg(Py_3_12)]
unsafe fn ready(_object: *mut ffi::PyObject) -> bool {
    true
}

/// The storage of a string; `_encoded` stays empty, since no copy is made.
///
/// SAFETY: as of [`ascii`].
#[cold]
pub(super) unsafe fn stored(object: *mut ffi::PyObject, _encoded: &mut Vec<u8>) -> Text<'_> {
    // SAFETY: the object is a str; strings are never changed, so its storage holds while it is borrowed. Kind and length
    // say how large it is, as soon as it is ready.
    unsafe {
        if !ready(object) {
            return Text::Ascii(b"");
        }
        if let Some(bytes) = ascii(object) {
            return Text::Ascii(bytes);
        }
        let length = ffi::PyUnicode_GET_LENGTH(object).cast_unsigned();
        let data = ffi::PyUnicode_DATA(object);
        match ffi::PyUnicode_KIND(object) {
            // Instances of subclasses are never compact: theirs may be ASCII all the same.
            ffi::PyUnicode_1BYTE_KIND => match from_raw_parts(data.cast(), length) {
                bytes if bytes.is_ascii() => Text::Ascii(bytes),
                bytes => Text::Latin1(bytes),
            },
            ffi::PyUnicode_2BYTE_KIND => Text::Ucs2(from_raw_parts(data.cast(), length)),
            _ => Text::Ucs4(from_raw_parts(data.cast(), length)),
        }
    }
}

/// Code points.
///
/// SAFETY: `object` must be a str.
pub(super) unsafe fn chars(object: *mut ffi::PyObject) -> u64 {
    // SAFETY: as the caller promises.
    unsafe {
        if ready(object) {
            ffi::PyUnicode_GET_LENGTH(object).cast_unsigned() as u64
        } else {
            0
        }
    }
}
