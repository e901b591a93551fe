//! The characters of strings by the calls of the stable ABI, which knows their UTF-8 form only.
#![expect(
    unsafe_code,
    reason = "storage of strings, which are never changed; every block says why it holds"
)]

use pyo3::ffi;
use std::slice::from_raw_parts;
use ullage_core::text::Text;

/// No characters can be looked at where they lie: the call that lends UTF-8 raises where there is none, and an exception is an
/// object that the collector counts.
///
/// SAFETY: none needed; as of the other builds'.
pub(super) unsafe fn ascii<'a>(_object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    None
}

/// The UTF-8 form of a string, lone surrogates included, copied into `encoded`.
///
/// SAFETY: `object` must be a str.
pub(super) unsafe fn stored(object: *mut ffi::PyObject, encoded: &mut Vec<u8>) -> Text<'_> {
    encoded.clear();
    // SAFETY: a str. A new reference to bytes comes back, made without a handler of errors, or null if there is no memory left.
    unsafe {
        let bytes =
            ffi::PyUnicode_AsEncodedString(object, c"utf-8".as_ptr(), c"surrogatepass".as_ptr());
        if bytes.is_null() {
            ffi::PyErr_Clear();
            return Text::Ascii(b"");
        }
        let length = ffi::PyBytes_Size(bytes).cast_unsigned();
        encoded.extend_from_slice(from_raw_parts(ffi::PyBytes_AsString(bytes).cast(), length));
        ffi::Py_DECREF(bytes);
        if length as u64 == chars(object) {
            Text::Ascii(encoded)
        } else {
            Text::Wtf8(encoded)
        }
    }
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
