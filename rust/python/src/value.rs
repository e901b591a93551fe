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
use std::ffi::c_ulong;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use ullage_core::text::{MAX_INT_BITS, Text, float_repr};
use ullage_core::view::{Kind, LeafFault, Value};

/// A borrowed Python object. `'a` is the life of the object that the walk began at.
#[derive(Clone, Copy)]
pub(crate) struct PyValue<'a> {
    object: NonNull<ffi::PyObject>,
    life: PhantomData<&'a ()>,
}

impl<'a> PyValue<'a> {
    /// Begins a walk at an object.
    pub(crate) fn new(object: &'a Bound<'_, PyAny>) -> Self {
        Self::of(object.as_ptr())
    }

    /// An integer that fits 64 bits; else whether it is negative. Only for integers.
    pub(crate) fn whole(self) -> Result<i64, bool> {
        small(self.pointer())
    }

    /// Continues a walk: the object must be alive for as long.
    pub(crate) fn of(object: *mut ffi::PyObject) -> Self {
        Self {
            // SAFETY: the objects of a walk come from a `Bound`, or from containers, which hold no null.
            object: unsafe { NonNull::new_unchecked(object) },
            life: PhantomData,
        }
    }

    pub(crate) fn pointer(self) -> *mut ffi::PyObject {
        self.object.as_ptr()
    }

    /// The type's flags, which tell instances of built-in types and of their subclasses.
    fn flags(self) -> c_ulong {
        // SAFETY: the object is alive: the walk's root holds it, and the lock is held. So is its type.
        unsafe {
            let class = ffi::Py_TYPE(self.pointer());
            #[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
            return ffi::PyType_GetFlags(class);
            #[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
            return (*class).tp_flags;
        }
    }

    fn is_any(self, flags: c_ulong) -> bool {
        self.flags() & flags != 0
    }

    fn single(self) -> Kind {
        let object = self.pointer();
        // SAFETY: singletons and the type of floats live as long as the interpreter.
        unsafe {
            if object == ffi::Py_None() {
                Kind::Null
            } else if object == ffi::Py_True() {
                Kind::True
            } else if object == ffi::Py_False() {
                Kind::False
            } else if self.is_any(ffi::Py_TPFLAGS_LONG_SUBCLASS) {
                Kind::Integer
            } else if ffi::PyFloat_Check(object) != 0 {
                Kind::Float
            } else {
                Kind::Foreign
            }
        }
    }
}

const LISTS: c_ulong = ffi::Py_TPFLAGS_LIST_SUBCLASS | ffi::Py_TPFLAGS_TUPLE_SUBCLASS;

impl Value for PyValue<'_> {
    fn kind(self) -> Kind {
        let flags = self.flags();
        if flags & ffi::Py_TPFLAGS_UNICODE_SUBCLASS != 0 {
            Kind::Text
        } else if flags & ffi::Py_TPFLAGS_DICT_SUBCLASS != 0 {
            Kind::Map
        } else if flags & LISTS != 0 {
            Kind::List
        } else {
            self.single()
        }
    }

    fn is_text(self) -> bool {
        self.is_any(ffi::Py_TPFLAGS_UNICODE_SUBCLASS)
    }

    fn is_map(self) -> bool {
        self.is_any(ffi::Py_TPFLAGS_DICT_SUBCLASS)
    }

    fn is_list(self) -> bool {
        self.is_any(LISTS)
    }

    fn is_null(self) -> bool {
        // SAFETY: the singleton lives as long as the interpreter.
        self.pointer() == unsafe { ffi::Py_None() }
    }

    fn with_text<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        if let Some(bytes) = plain_string(self) {
            look(Text::Ascii(bytes))
        } else if self.is_text() {
            with_string(self.pointer(), look)
        } else {
            look(Text::Ascii(b""))
        }
    }

    fn with_word<R>(self, look: impl FnOnce(&str) -> R) -> Result<R, LeafFault> {
        match self.kind() {
            Kind::Null => Ok(look("null")),
            Kind::True => Ok(look("true")),
            Kind::False => Ok(look("false")),
            Kind::Integer => with_integer(self.pointer(), look),
            // SAFETY: the object is a float or an instance of a subclass; this reads its value.
            Kind::Float => Ok(look(&float_repr(unsafe {
                ffi::PyFloat_AsDouble(self.pointer())
            }))),
            _ => Err(LeafFault::Foreign(self.foreign_name())),
        }
    }

    fn count(self) -> Option<u32> {
        if self.kind() != Kind::Integer {
            return None;
        }
        Some(match small(self.pointer()) {
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
                #[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
                Kind::Map => (*self.pointer().cast::<ffi::PyDictObject>()).ma_used,
                #[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
                Kind::Map => ffi::PyDict_Size(self.pointer()),
                Kind::List => length(self.pointer()),
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
            while at < length(self.pointer()) {
                visit(Self::of(item(self.pointer(), at)));
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
        // The member after the last is not asked for: the search for it costs as much as finding one.
        let mut left = self.size();
        while left > 0
            && unsafe {
                ffi::PyDict_Next(self.pointer(), &raw mut at, &raw mut key, &raw mut value)
            } != 0
        {
            left -= 1;
            let mut spelled = Vec::new();
            visit(key_text(Self::of(key), &mut spelled)?, Self::of(value));
        }
        Ok(())
    }

    fn foreign_name(self) -> String {
        Python::attach(|py| {
            // SAFETY: `object` is alive and not null.
            let object = unsafe { Bound::from_borrowed_ptr(py, self.pointer()) };
            let name = object
                .get_type()
                .name()
                .map(|name| name.to_string_lossy().into_owned());
            name.unwrap_or_else(|_| "object".to_owned())
        })
    }
}

/// SAFETY: `object` must be a list or a tuple.
#[cfg(not(feature = "abi3"))]
unsafe fn length(object: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: as the caller promises; both begin with their size.
    unsafe { ffi::Py_SIZE(object) }
}

/// SAFETY: `object` must be a list or a tuple, `at` inside of it.
#[cfg(not(feature = "abi3"))]
pub(crate) unsafe fn item(object: *mut ffi::PyObject, at: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    // SAFETY: as the caller promises.
    unsafe {
        if ffi::PyList_Check(object) != 0 {
            ffi::PyList_GET_ITEM(object, at)
        } else {
            ffi::PyTuple_GET_ITEM(object, at)
        }
    }
}

/// SAFETY: `object` must be a list or a tuple.
#[cfg(feature = "abi3")]
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
#[cfg(feature = "abi3")]
pub(crate) unsafe fn item(object: *mut ffi::PyObject, at: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    // SAFETY: as the caller promises.
    unsafe {
        if ffi::PyList_Check(object) != 0 {
            ffi::PyList_GetItem(object, at)
        } else {
            ffi::PyTuple_GetItem(object, at)
        }
    }
}

fn key_text<'a>(key: PyValue<'a>, spelled: &'a mut Vec<u8>) -> Result<Text<'a>, LeafFault> {
    match plain_string(key) {
        Some(bytes) => Ok(Text::Ascii(bytes)),
        None => odd_key(key, spelled),
    }
}

/// A key that is not plain ASCII; JSON spells those that are numbers or words.
#[cold]
fn odd_key<'a>(key: PyValue<'a>, spelled: &'a mut Vec<u8>) -> Result<Text<'a>, LeafFault> {
    if key.is_text() {
        return Ok(string(key.pointer(), spelled));
    }
    key.with_word(|word| spelled.extend_from_slice(word.as_bytes()))?;
    Ok(Text::Ascii(spelled))
}

/// The characters of a string of ASCII: nearly all keys.
#[cfg(all(not(feature = "abi3"), not(Py_3_14)))]
fn plain_string(value: PyValue<'_>) -> Option<&[u8]> {
    if !value.is_text() {
        return None;
    }
    // SAFETY: the object is a str. The characters of a compact string of ASCII follow its head, are never changed, and live
    // as long as the string, which the walk's root holds.
    unsafe {
        let head = value.pointer().cast::<ffi::PyASCIIObject>();
        if (*head).compact() & (*head).ascii() == 0 {
            return None;
        }
        let length = usize::try_from((*head).length).unwrap_or(0);
        Some(std::slice::from_raw_parts(head.add(1).cast(), length))
    }
}

/// From 3.14 on the flags in a string's head are nobody's to read; keys are short enough to be looked at.
#[cfg(all(not(feature = "abi3"), Py_3_14))]
fn plain_string(value: PyValue<'_>) -> Option<&[u8]> {
    if !value.is_text() {
        return None;
    }
    let object = value.pointer();
    // SAFETY: the object is a str; its storage lives as long as it does, and the walk's root holds it.
    unsafe {
        if ffi::PyUnicode_KIND(object) != ffi::PyUnicode_1BYTE_KIND {
            return None;
        }
        let length = usize::try_from(ffi::PyUnicode_GET_LENGTH(object)).unwrap_or(0);
        let bytes = std::slice::from_raw_parts(ffi::PyUnicode_DATA(object).cast(), length);
        Some(bytes).filter(|bytes: &&[u8]| bytes.is_ascii())
    }
}

#[cfg(feature = "abi3")]
fn plain_string(_: PyValue<'_>) -> Option<&[u8]> {
    None
}

fn with_string<R>(object: *mut ffi::PyObject, look: impl FnOnce(Text<'_>) -> R) -> R {
    look(string(object, &mut Vec::new()))
}

/// The storage of a string; `encoded` stays empty, since no copy is made.
#[cfg(not(feature = "abi3"))]
fn string(object: *mut ffi::PyObject, _encoded: &mut Vec<u8>) -> Text<'_> {
    // SAFETY: `object` is a str; strings are never changed, so its storage holds while it is borrowed. Kind and length
    // say how large it is. All constructors that are left in 3.11 make strings that are ready.
    unsafe {
        let length = usize::try_from(ffi::PyUnicode_GET_LENGTH(object)).unwrap_or(0);
        let data = ffi::PyUnicode_DATA(object);
        match ffi::PyUnicode_KIND(object) {
            ffi::PyUnicode_1BYTE_KIND => {
                narrow(object, std::slice::from_raw_parts(data.cast(), length))
            }
            ffi::PyUnicode_2BYTE_KIND => {
                Text::Ucs2(std::slice::from_raw_parts(data.cast(), length))
            }
            _ => Text::Ucs4(std::slice::from_raw_parts(data.cast(), length)),
        }
    }
}

/// SAFETY: `bytes` must be the characters of the str `object`, one byte each.
#[cfg(all(not(feature = "abi3"), not(Py_3_14)))]
unsafe fn narrow(object: *mut ffi::PyObject, bytes: &[u8]) -> Text<'_> {
    // SAFETY: as the caller promises.
    if unsafe { ffi::PyUnicode_IS_ASCII(object) } != 0 {
        Text::Ascii(bytes)
    } else {
        Text::Latin1(bytes)
    }
}

/// SAFETY: as of the other one, whose flags are not to be read from 3.14 on.
#[cfg(all(not(feature = "abi3"), Py_3_14))]
unsafe fn narrow(_object: *mut ffi::PyObject, bytes: &[u8]) -> Text<'_> {
    if bytes.is_ascii() {
        Text::Ascii(bytes)
    } else {
        Text::Latin1(bytes)
    }
}

/// The UTF-8 form of a string; `encoded` holds it where the string does not keep one.
#[cfg(feature = "abi3")]
fn string(object: *mut ffi::PyObject, encoded: &mut Vec<u8>) -> Text<'_> {
    let mut size = 0;
    // SAFETY: `object` is a str; its UTF-8 form is kept inside of it.
    let data = unsafe { ffi::PyUnicode_AsUTF8AndSize(object, &raw mut size) };
    if !data.is_null() {
        let size = usize::try_from(size).unwrap_or(0);
        // SAFETY: `data` holds `size` bytes for the life of the string.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        return if bytes.is_ascii() {
            Text::Ascii(bytes)
        } else {
            Text::Wtf8(bytes)
        };
    }
    Python::attach(|py| {
        drop(PyErr::take(py));
        // SAFETY: `object` is alive and not null.
        let text = unsafe { Bound::from_borrowed_ptr(py, object) };
        let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"));
        *encoded = bytes.and_then(|bytes| bytes.extract()).unwrap_or_default();
    });
    Text::Wtf8(encoded)
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

/// Looks at the digits of an integer.
fn with_integer<R>(
    object: *mut ffi::PyObject,
    look: impl FnOnce(&str) -> R,
) -> Result<R, LeafFault> {
    match small(object) {
        Ok(number) => Ok(with_digits(number, look)),
        Err(_) => integer(object)
            .map(|digits| look(&digits))
            .ok_or(LeafFault::Digits),
    }
}

/// Small numbers fill the tool inputs: no allocation for them.
fn with_digits<R>(number: i64, look: impl FnOnce(&str) -> R) -> R {
    let mut written = [b'-'; 20];
    let mut at = written.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        written[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    at -= usize::from(number < 0);
    look(std::str::from_utf8(&written[at..]).unwrap_or_default())
}

/// The digits of an integer beyond 64 bits; `None` if it is too long to be written.
fn integer(object: *mut ffi::PyObject) -> Option<String> {
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
