//! Python objects as [`Value`]: dicts, lists, strings and numbers, read where they lie.
//!
//! Raw pointers and borrowed references: a walk makes no reference counts and no copies. That is safe
//! while the interpreter lock is held and no Python code runs, and none does: exact C calls on built-in
//! types only, also for instances of their subclasses.
#![expect(
    unsafe_code,
    reason = "borrowed references; every block says why it holds"
)]

use pyo3::ffi;
use pyo3::prelude::*;
use std::marker::PhantomData;
use std::ptr;
use ullage_core::text::{MAX_INT_BITS, Text, float_repr};
use ullage_core::view::{Kind, LeafFault, Value};

/// A borrowed Python object. `'a` is the life of the object that the walk began at.
#[derive(Clone, Copy)]
pub(crate) struct PyValue<'a> {
    object: *mut ffi::PyObject,
    life: PhantomData<&'a ()>,
}

impl<'a> PyValue<'a> {
    /// Begins a walk at an object.
    pub(crate) fn new(object: &'a Bound<'_, PyAny>) -> Self {
        Self::of(object.as_ptr())
    }

    /// An integer that fits 64 bits; else whether it is negative. Only for integers.
    pub(crate) fn whole(self) -> Result<i64, bool> {
        small(self.object)
    }

    fn of(object: *mut ffi::PyObject) -> Self {
        Self {
            object,
            life: PhantomData,
        }
    }
}

impl Value for PyValue<'_> {
    fn kind(self) -> Kind {
        // SAFETY: `object` is alive: the walk's root holds it, and the lock is held. These checks read type flags.
        unsafe {
            let object = self.object;
            if ffi::PyUnicode_Check(object) != 0 {
                Kind::Text
            } else if ffi::PyDict_Check(object) != 0 {
                Kind::Map
            } else if ffi::PyList_Check(object) != 0 || ffi::PyTuple_Check(object) != 0 {
                Kind::List
            } else if object == ffi::Py_None() {
                Kind::Null
            } else if object == ffi::Py_True() {
                Kind::True
            } else if object == ffi::Py_False() {
                Kind::False
            } else if ffi::PyLong_Check(object) != 0 {
                Kind::Integer
            } else if ffi::PyFloat_Check(object) != 0 {
                Kind::Float
            } else {
                Kind::Foreign
            }
        }
    }

    fn with_text<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        if self.is_text() {
            with_string(self.object, look)
        } else {
            look(Text::Ascii(b""))
        }
    }

    fn with_word<R>(self, look: impl FnOnce(&str) -> R) -> Result<R, LeafFault> {
        match self.kind() {
            Kind::Null => Ok(look("null")),
            Kind::True => Ok(look("true")),
            Kind::False => Ok(look("false")),
            Kind::Integer => integer(self.object)
                .map(|digits| look(&digits))
                .ok_or(LeafFault::Digits),
            // SAFETY: the object is a float or an instance of a subclass; this reads its value.
            Kind::Float => Ok(look(&float_repr(unsafe {
                ffi::PyFloat_AsDouble(self.object)
            }))),
            _ => Err(LeafFault::Foreign(self.foreign_name())),
        }
    }

    fn count(self) -> Option<u32> {
        if self.kind() != Kind::Integer {
            return None;
        }
        Some(match small(self.object) {
            Ok(number) => u32::try_from(number.max(0)).unwrap_or(u32::MAX),
            Err(negative) => {
                if negative {
                    0
                } else {
                    u32::MAX
                }
            }
        })
    }

    fn size(self) -> usize {
        // SAFETY: `object` is alive and of the type that each call asks for.
        let size = unsafe {
            match self.kind() {
                Kind::Map => ffi::PyDict_Size(self.object),
                Kind::List => length(self.object),
                _ => 0,
            }
        };
        usize::try_from(size).unwrap_or(0)
    }

    fn each_item(self, mut visit: impl FnMut(Self)) {
        if !self.is_list() {
            return;
        }
        let mut at = 0;
        // SAFETY: `object` is a list or tuple. Its length is asked at each step; the item is borrowed from it and alive while
        // the lock is held and nothing changes the list.
        unsafe {
            while at < length(self.object) {
                visit(Self::of(item(self.object, at)));
                at += 1;
            }
        }
    }

    fn each_member(self, mut visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault> {
        if !self.is_map() {
            return Ok(());
        }
        let (mut at, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: `object` is a dict; key and value are borrowed from it, and nothing changes it meanwhile.
        while unsafe { ffi::PyDict_Next(self.object, &raw mut at, &raw mut key, &raw mut value) }
            != 0
        {
            let key = Self::of(key);
            if key.is_text() {
                with_string(key.object, |text| visit(text, Self::of(value)));
            } else {
                // JSON spells keys that are numbers or words.
                key.with_word(|word| visit(Text::Ascii(word.as_bytes()), Self::of(value)))?;
            }
        }
        Ok(())
    }

    fn foreign_name(self) -> String {
        Python::attach(|py| {
            // SAFETY: `object` is alive and not null.
            let object = unsafe { Bound::from_borrowed_ptr(py, self.object) };
            let name = object
                .get_type()
                .name()
                .map(|name| name.to_string_lossy().into_owned());
            name.unwrap_or_else(|_| "object".to_owned())
        })
    }
}

/// SAFETY: `object` must be a list or a tuple.
unsafe fn length(object: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: as the caller promises.
    unsafe {
        if ffi::PyList_Check(object) != 0 {
            ffi::PyList_Size(object)
        } else {
            ffi::PyTuple_Size(object)
        }
    }
}

/// SAFETY: `object` must be a list or a tuple, `at` inside of it.
unsafe fn item(object: *mut ffi::PyObject, at: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    // SAFETY: as the caller promises.
    unsafe {
        if ffi::PyList_Check(object) != 0 {
            ffi::PyList_GetItem(object, at)
        } else {
            ffi::PyTuple_GetItem(object, at)
        }
    }
}

#[cfg(not(feature = "abi3"))]
fn with_string<R>(object: *mut ffi::PyObject, look: impl FnOnce(Text<'_>) -> R) -> R {
    // SAFETY: `object` is a str; strings are never changed, so its storage holds while it is borrowed. Kind and length
    // say how large it is. All constructors that are left in 3.11 make strings that are ready.
    unsafe {
        let length = usize::try_from(ffi::PyUnicode_GET_LENGTH(object)).unwrap_or(0);
        let data = ffi::PyUnicode_DATA(object);
        look(match ffi::PyUnicode_KIND(object) {
            ffi::PyUnicode_1BYTE_KIND if ffi::PyUnicode_IS_ASCII(object) != 0 => {
                Text::Ascii(std::slice::from_raw_parts(data.cast(), length))
            }
            ffi::PyUnicode_1BYTE_KIND => {
                Text::Latin1(std::slice::from_raw_parts(data.cast(), length))
            }
            ffi::PyUnicode_2BYTE_KIND => {
                Text::Ucs2(std::slice::from_raw_parts(data.cast(), length))
            }
            _ => Text::Ucs4(std::slice::from_raw_parts(data.cast(), length)),
        })
    }
}

#[cfg(feature = "abi3")]
fn with_string<R>(object: *mut ffi::PyObject, look: impl FnOnce(Text<'_>) -> R) -> R {
    let mut size = 0;
    // SAFETY: `object` is a str; its UTF-8 form is kept inside of it.
    let data = unsafe { ffi::PyUnicode_AsUTF8AndSize(object, &raw mut size) };
    if !data.is_null() {
        let size = usize::try_from(size).unwrap_or(0);
        // SAFETY: `data` holds `size` bytes for the life of the string.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        return look(if bytes.is_ascii() {
            Text::Ascii(bytes)
        } else {
            Text::Wtf8(bytes)
        });
    }
    Python::attach(|py| {
        drop(PyErr::take(py));
        // SAFETY: `object` is alive and not null.
        let text = unsafe { Bound::from_borrowed_ptr(py, object) };
        let encoded = text.call_method1("encode", ("utf-8", "surrogatepass"));
        let bytes = encoded
            .ok()
            .and_then(|bytes| bytes.extract::<Vec<u8>>().ok());
        look(Text::Wtf8(&bytes.unwrap_or_default()))
    })
}

/// An integer that fits 64 bits; else whether it is negative.
fn small(object: *mut ffi::PyObject) -> Result<i64, bool> {
    let mut overflow = 0;
    // SAFETY: `object` is an int.
    let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow) };
    if overflow == 0 {
        Ok(number)
    } else {
        Err(overflow < 0)
    }
}

/// The digits of an integer; `None` if it is too long to be written.
fn integer(object: *mut ffi::PyObject) -> Option<String> {
    if let Ok(number) = small(object) {
        return Some(number.to_string());
    }
    // Decimal digits cost quadratic time, hexadecimal ones do not.
    let hex = digits(object, 16)?;
    let hex = hex.trim_start_matches(['-', '0', 'x']);
    let first = hex.chars().next()?.to_digit(16)?;
    let bits = hex.len() as u64 * 4 - u64::from(first.leading_zeros() - 28);
    (bits <= MAX_INT_BITS).then(|| digits(object, 10)).flatten()
}

fn digits(object: *mut ffi::PyObject, base: i32) -> Option<String> {
    Python::attach(|py| {
        // SAFETY: `object` is an int, perhaps of a subclass, whose digits are written without asking it. A new reference
        // comes back, or null with an error set.
        let text = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyNumber_ToBase(object, base)) };
        text.ok()?.extract().ok()
    })
}
