//! The characters of strings by the calls of the stable ABI, which knows their UTF-8 form only.
#![expect(
    unsafe_code,
    reason = "storage of strings, which are never changed; every block says why it holds"
)]

use pyo3::ffi;
use pyo3::prelude::*;
use std::slice::from_raw_parts;
use ullage_core::text::Text;

/// The characters of a string of ASCII: nearly all keys.
///
/// SAFETY: `object` must be a str that lives for as long as the characters are looked at.
pub(super) unsafe fn ascii<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    // SAFETY: as the caller promises.
    unsafe { utf8(object).filter(|bytes| bytes.len() as u64 == chars(object)) }
}

/// The UTF-8 form, which a string keeps; none if it holds a lone surrogate.
///
/// SAFETY: as of [`ascii`].
unsafe fn utf8<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    let mut size = 0;
    // SAFETY: the object is a str; its UTF-8 form is kept inside of it, `size` bytes for its life.
    unsafe {
        let data = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut size);
        if data.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(from_raw_parts(data.cast(), size.cast_unsigned()))
    }
}

/// The UTF-8 form of a string; `encoded` holds it where the string does not keep one.
///
/// SAFETY: as of [`ascii`].
pub(super) unsafe fn stored(object: *mut ffi::PyObject, encoded: &mut Vec<u8>) -> Text<'_> {
    // SAFETY: as the caller promises.
    if let Some(bytes) = unsafe { utf8(object) } {
        // SAFETY: as the caller promises.
        return if bytes.len() as u64 == unsafe { chars(object) } {
            Text::Ascii(bytes)
        } else {
            Text::Wtf8(bytes)
        };
    }
    Python::attach(|py| {
        // SAFETY: `object` is alive and not null.
        let text = unsafe { Bound::from_borrowed_ptr(py, object) };
        let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"));
        *encoded = bytes.and_then(|bytes| bytes.extract()).unwrap_or_default();
    });
    Text::Wtf8(encoded)
}

/// Code points.
///
/// SAFETY: `object` must be a str.
pub(super) unsafe fn chars(object: *mut ffi::PyObject) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { ffi::PyUnicode_GetLength(object) }.cast_unsigned() as u64
}

/// The first and the last character of a string that begins with a visible one, and with none that a marker begins with:
/// all that a look at the ends of it can tell.
///
/// SAFETY: `object` must be a str.
pub(super) unsafe fn edges(object: *mut ffi::PyObject) -> Option<[u32; 2]> {
    // SAFETY: as the caller promises; both places are inside.
    unsafe {
        let length = ffi::PyUnicode_GetLength(object);
        if length < 2 {
            return None;
        }
        let first = ffi::PyUnicode_ReadChar(object, 0);
        let visible = (0x21..0x7F).contains(&first);
        let tells = visible && first != u32::from(b'[') && first != u32::from(b'<');
        tells.then(|| [first, ffi::PyUnicode_ReadChar(object, length - 1)])
    }
}
