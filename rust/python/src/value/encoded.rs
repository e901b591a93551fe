//! The characters of strings by the calls of the stable ABI, which knows their UTF-8 form only.
#![expect(
    unsafe_code,
    reason = "calls on objects that are strings; each block says why it holds"
)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use ullage_core::text::Text;

/// None can be looked at without a copy: the UTF-8 form that a string keeps of itself is made by a call that may raise an exception,
/// an object that the collector counts.
pub(super) fn ascii<'a>(_string: Borrowed<'a, '_, PyString>) -> Option<&'a [u8]> {
    None
}

/// The UTF-8 form of a string, lone surrogates included, copied into `encoded`.
pub(super) fn stored<'a>(string: Borrowed<'_, '_, PyString>, encoded: &'a mut Vec<u8>) -> Text<'a> {
    encoded.clear();
    // SAFETY: a str by its type. A new reference to bytes comes back, made without a handler of errors, or null if there is no memory
    // left.
    let bytes = unsafe {
        let object = string.as_ptr();
        let bytes =
            ffi::PyUnicode_AsEncodedString(object, c"utf-8".as_ptr(), c"surrogatepass".as_ptr());
        if bytes.is_null() {
            ffi::PyErr_Clear();
        }
        Bound::from_owned_ptr_or_opt(string.py(), bytes)
    };
    let Some(Ok(bytes)) = bytes.as_ref().map(|bytes| bytes.cast::<PyBytes>()) else {
        return Text::Ascii(b"");
    };
    encoded.extend_from_slice(bytes.as_bytes());
    if encoded.len() as u64 == chars(string) {
        Text::Ascii(encoded)
    } else {
        Text::Wtf8(encoded)
    }
}

/// Code points.
pub(super) fn chars(string: Borrowed<'_, '_, PyString>) -> u64 {
    // SAFETY: a str by its type.
    unsafe { ffi::PyUnicode_GetLength(string.as_ptr()) }.cast_unsigned() as u64
}

/// The first and the last character of a string that begins with a visible one, and with none that a marker begins with:
/// all that a look at the ends of it can tell.
pub(super) fn edges(string: Borrowed<'_, '_, PyString>) -> Option<[u32; 2]> {
    let length = chars(string).cast_signed() as ffi::Py_ssize_t;
    if length < 2 {
        return None;
    }
    // SAFETY: a str by its type; both places are inside, as its length has just said.
    let [first, last] =
        [0, length - 1].map(|at| unsafe { ffi::PyUnicode_ReadChar(string.as_ptr(), at) });
    let visible = (0x21..0x7F).contains(&first);
    let tells = visible && first != u32::from(b'[') && first != u32::from(b'<');
    tells.then_some([first, last])
}
