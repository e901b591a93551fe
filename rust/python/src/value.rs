//! Python objects as [`Value`]: dicts, lists, strings and numbers, read where they lie.
//!
//! Raw pointers and borrowed references: a walk makes no reference counts and no copies. That is safe
//! while the interpreter lock is held and no Python code runs, and none does:
//! - only C calls on built-in types, also for instances of their subclasses: no method, no attribute, no comparison;
//! - nothing is made that the collector counts, and no exception: before 3.12 a collection may begin inside of any such call;
//! - no `Python::attach`, which lets go of what other threads dropped.
#![expect(
    unsafe_code,
    reason = "borrowed references; every block says why it holds"
)]

#[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
mod calls;
#[cfg(feature = "abi3")]
mod encoded;
#[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
mod layout;
mod numbers;
#[cfg(not(feature = "abi3"))]
mod strings;

#[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
use calls as objects;
#[cfg(feature = "abi3")]
use encoded as strings;
#[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
use layout as objects;

use numbers::{digits_of, small, with_integer};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_ulong;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use ullage_core::text::{Text, float_repr, string_escapes};
use ullage_core::view::{Kind, LeafFault, Value, with_utf8};

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
        // SAFETY: the object is alive: the walk's root holds it, and the lock is held.
        unsafe { objects::flags(self.pointer()) }
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

    /// The member of a dict at a place, which then is that of the next one. Only for dicts.
    #[inline]
    fn next_member(self, place: &mut ffi::Py_ssize_t) -> Option<(Self, Self)> {
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a dict; key and value are borrowed from it, and nothing changes it meanwhile.
        let found =
            unsafe { ffi::PyDict_Next(self.pointer(), place, &raw mut key, &raw mut value) };
        (found != 0).then(|| (Self::of(key), Self::of(value)))
    }

    /// The characters of a string of ASCII: nearly all keys.
    fn plain(self) -> Option<&'a [u8]> {
        if !self.is_text() {
            return None;
        }
        // SAFETY: a str, which the walk's root holds.
        unsafe { strings::ascii(self.pointer()) }
    }

    /// Looks at a string that is not plain.
    #[cold]
    fn with_wide<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        if !self.is_text() {
            return look(Text::Ascii(b""));
        }
        let mut encoded = Vec::new();
        // SAFETY: a str, which the walk's root holds.
        look(unsafe { strings::stored(self.pointer(), &mut encoded) })
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
        match self.plain() {
            Some(bytes) => look(Text::Ascii(bytes)),
            None => self.with_wide(look),
        }
    }

    fn chars(self) -> u64 {
        if !self.is_text() {
            return 0;
        }
        // SAFETY: a str, which the walk's root holds.
        unsafe { strings::chars(self.pointer()) }
    }

    fn json_chars(self) -> u64 {
        self.chars() + self.with_text(string_escapes) + 2
    }

    #[cfg(feature = "abi3")]
    fn with_glimpse<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        let text = Some(self).filter(|value| value.is_text());
        // SAFETY: a str, which the walk's root holds.
        match text.and_then(|value| unsafe { strings::edges(value.pointer()) }) {
            Some(edges) => look(Text::Ucs4(&edges)),
            None => self.with_text(look),
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

    fn word_chars(self) -> Result<u64, LeafFault> {
        match self.kind() {
            Kind::Integer => match small(self.pointer()) {
                Ok(number) => Ok(digits_of(number)),
                Err(_) => self.with_word(|word| word.len() as u64),
            },
            _ => self.with_word(|word| word.len() as u64),
        }
    }

    fn count(self) -> Option<u32> {
        if self.kind() != Kind::Integer {
            return None;
        }
        Some(match small(self.pointer()) {
            Ok(number) => u32::try_from(number.max(0)).unwrap_or(u32::MAX),
            Err(true) => 0,
            Err(false) => u32::MAX,
        })
    }

    fn size(self) -> usize {
        // SAFETY: `object` is alive and of the type that each call asks for.
        let size = unsafe {
            match self.kind() {
                Kind::Map => objects::members_count(self.pointer()),
                Kind::List => objects::items_count(self.pointer()),
                _ => 0,
            }
        };
        usize::try_from(size).unwrap_or(0)
    }

    fn each_item(self, mut visit: impl FnMut(Self)) {
        if self.is_list() {
            // SAFETY: a list or tuple; the items are borrowed from it, and nothing changes it while the lock is held.
            unsafe { objects::each_item(self.pointer(), |item| visit(Self::of(item))) };
        }
    }

    fn each_member(self, mut visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault> {
        if !self.is_map() {
            return Ok(());
        }
        let mut place = 0;
        let mut spelled = Vec::new();
        // The member after the last is not asked for: the search for it costs as much as finding one.
        for _ in 0..self.size() {
            let Some((key, value)) = self.next_member(&mut place) else {
                break;
            };
            match key.plain() {
                Some(bytes) => visit(Text::Ascii(bytes), value),
                None => visit(odd_key(key, &mut spelled)?, value),
            }
        }
        Ok(())
    }

    fn foreign_name(self) -> String {
        let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        // SAFETY: the object is alive, and so is its type. Its name comes as a str, a new reference; unlike the attribute, it is
        // read without asking a metaclass.
        unsafe {
            let name = ffi::PyType_GetName(ffi::Py_TYPE(self.pointer()));
            if name.is_null() {
                ffi::PyErr_Clear();
                return "object".to_owned();
            }
            let shown = with_utf8(strings::stored(name, &mut Vec::new()), lossy);
            ffi::Py_DECREF(name);
            shown
        }
    }
}

/// A key that is not plain ASCII; JSON spells those that are numbers or words.
#[cold]
fn odd_key<'a>(key: PyValue<'a>, spelled: &'a mut Vec<u8>) -> Result<Text<'a>, LeafFault> {
    spelled.clear();
    if key.is_text() {
        // SAFETY: a str, which the walk's root holds.
        return Ok(unsafe { strings::stored(key.pointer(), spelled) });
    }
    key.with_word(|word| spelled.extend_from_slice(word.as_bytes()))?;
    Ok(Text::Ascii(spelled))
}
