//! Python objects as [`Value`]: dicts, lists, strings and numbers, read where they lie.
//!
//! A walk holds its root and borrows all below it: no reference is counted, nothing is copied. That is safe while the
//! interpreter lock is held and no Python code runs, for then nothing changes a container. None does:
//! - only C calls on built-in types, also for instances of their subclasses: no method, no attribute, no comparison;
//! - nothing is made that the collector counts, and no exception: before 3.12 a collection may begin inside of any such call;
//! - no `Python::attach`, which lets go of what other threads dropped.
//!
//! `tests/engine/test_walks.py` checks it with objects whose every method complains, and with a collector that would run.

#[cfg(feature = "abi3")]
mod encoded;
mod numbers;
#[cfg(not(feature = "abi3"))]
mod strings;

#[cfg(feature = "abi3")]
use encoded as strings;

use crate::list;
use numbers::{digits_of, small, with_integer};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeCheck;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::ptr;
use ullage_core::text::{Text, float_repr, string_escapes};
use ullage_core::view::{Kind, LeafFault, Value, with_utf8};

/// A borrowed Python object. `'a` is the life of the object that the walk began at.
#[derive(Clone, Copy)]
pub(crate) struct PyValue<'a, 'py>(Borrowed<'a, 'py, PyAny>);

impl<'a, 'py> PyValue<'a, 'py> {
    /// Begins a walk at an object.
    pub(crate) fn new(object: &'a Bound<'py, PyAny>) -> Self {
        Self(object.as_borrowed())
    }

    /// The object itself, for after the walk.
    pub(crate) fn owned(self) -> Bound<'py, PyAny> {
        self.0.to_owned()
    }

    /// The object itself, within the walk.
    pub(crate) fn object(self) -> Borrowed<'a, 'py, PyAny> {
        self.0
    }

    /// An integer that fits 64 bits; else whether it is negative; `None` if it is none.
    pub(crate) fn whole(self) -> Option<Result<i64, bool>> {
        self.of().map(small)
    }

    /// The object as one of a type: a failing cast makes an error, which this does not.
    #[inline]
    fn of<T: PyTypeCheck>(self) -> Option<Borrowed<'a, 'py, T>> {
        if self.0.is_instance_of::<T>() {
            self.0.cast().ok()
        } else {
            None
        }
    }

    fn single(self) -> Kind {
        if self.0.is_none() {
            Kind::Null
        } else if let Some(truth) = self.of::<PyBool>() {
            if truth.is_true() {
                Kind::True
            } else {
                Kind::False
            }
        } else if self.0.is_instance_of::<PyInt>() {
            Kind::Integer
        } else if self.0.is_instance_of::<PyFloat>() {
            Kind::Float
        } else {
            Kind::Foreign
        }
    }

    /// The characters of a string of ASCII: nearly all keys.
    fn plain(self) -> Option<&'a [u8]> {
        self.of().and_then(strings::ascii)
    }

    /// Looks at a string that is not plain.
    #[cold]
    fn with_wide<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        match self.of() {
            Some(string) => look(strings::stored(string, &mut Vec::new())),
            None => look(Text::Ascii(b"")),
        }
    }
}

/// The member of a dict at a place, which then is that of the next one.
#[inline]
#[expect(unsafe_code, reason = "members without counting references")]
pub(crate) fn next_member<'a, 'py>(
    dict: Borrowed<'a, 'py, PyDict>,
    place: &mut ffi::Py_ssize_t,
) -> Option<[PyValue<'a, 'py>; 2]> {
    let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a dict by its type. It holds key and value, and nothing changes it for as long as the walk's root is borrowed:
    // the module's first paragraph, `test_walks.py`.
    unsafe {
        if ffi::PyDict_Next(dict.as_ptr(), place, &raw mut key, &raw mut value) == 0 {
            return None;
        }
        Some([key, value].map(|object| PyValue(Borrowed::from_ptr(dict.py(), object))))
    }
}

impl Value for PyValue<'_, '_> {
    fn kind(self) -> Kind {
        if self.is_text() {
            Kind::Text
        } else if self.is_map() {
            Kind::Map
        } else if self.is_list() {
            Kind::List
        } else {
            self.single()
        }
    }

    fn is_exact(self) -> bool {
        self.0.is_exact_instance_of::<PyString>()
            || self.0.is_exact_instance_of::<PyDict>()
            || self.0.is_exact_instance_of::<PyList>()
    }

    fn is_text(self) -> bool {
        self.0.is_instance_of::<PyString>()
    }

    fn is_map(self) -> bool {
        self.0.is_instance_of::<PyDict>()
    }

    fn is_list(self) -> bool {
        self.0.is_instance_of::<PyList>() || self.0.is_instance_of::<PyTuple>()
    }

    fn is_null(self) -> bool {
        self.0.is_none()
    }

    fn with_text<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        match self.plain() {
            Some(bytes) => look(Text::Ascii(bytes)),
            None => self.with_wide(look),
        }
    }

    fn chars(self) -> u64 {
        self.of().map_or(0, strings::chars)
    }

    fn json_chars(self) -> u64 {
        self.chars() + self.with_text(string_escapes) + 2
    }

    #[cfg(feature = "abi3")]
    fn with_glimpse<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        match self.of().and_then(strings::edges) {
            Some(edges) => look(Text::Ucs4(&edges)),
            None => self.with_text(look),
        }
    }

    fn with_word<R>(self, look: impl FnOnce(&str) -> R) -> Result<R, LeafFault> {
        match self.kind() {
            Kind::Null => Ok(look("null")),
            Kind::True => Ok(look("true")),
            Kind::False => Ok(look("false")),
            Kind::Integer => self.of().map_or(Err(LeafFault::Digits), |integer| {
                with_integer(integer, look)
            }),
            Kind::Float => {
                let value = self.of::<PyFloat>().map_or(f64::NAN, |float| float.value());
                Ok(look(&float_repr(value)))
            }
            _ => Err(LeafFault::Foreign(self.foreign_name())),
        }
    }

    fn word_chars(self) -> Result<u64, LeafFault> {
        let small = match self.kind() {
            Kind::Integer => self.whole().and_then(Result::ok),
            _ => None,
        };
        small.map_or_else(
            || self.with_word(|word| word.len() as u64),
            |number| Ok(digits_of(number)),
        )
    }

    fn count(self) -> Option<u32> {
        if self.kind() != Kind::Integer {
            return None;
        }
        Some(match self.whole()? {
            Ok(number) => u32::try_from(number.max(0)).unwrap_or(u32::MAX),
            Err(true) => 0,
            Err(false) => u32::MAX,
        })
    }

    fn size(self) -> usize {
        if let Some(dict) = self.of::<PyDict>() {
            dict.len()
        } else if let Some(list) = self.of::<PyList>() {
            list.len()
        } else {
            self.of::<PyTuple>().map_or(0, |tuple| tuple.len())
        }
    }

    fn each_item(self, mut visit: impl FnMut(Self)) {
        if let Some(list) = self.of::<PyList>() {
            list::items(list).for_each(|item| visit(Self(item)));
        } else if let Some(tuple) = self.of::<PyTuple>() {
            list::members(tuple).for_each(|item| visit(Self(item)));
        }
    }

    fn each_member(self, mut visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault> {
        let Some(dict) = self.of::<PyDict>() else {
            return Ok(());
        };
        let (mut place, mut spelled) = (0, Vec::new());
        // The member after the last is not asked for: the search for it costs as much as finding one.
        for _ in 0..dict.len() {
            let Some([key, value]) = next_member(dict, &mut place) else {
                break;
            };
            match key.plain() {
                Some(bytes) => visit(Text::Ascii(bytes), value),
                None => visit(odd_key(key, &mut spelled)?, value),
            }
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "a type's name without asking a metaclass")]
    fn foreign_name(self) -> String {
        let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        // SAFETY: the object is alive, and so is its type. A new reference to a str comes back, or null with an error set.
        let name = unsafe {
            let name = ffi::PyType_GetName(ffi::Py_TYPE(self.0.as_ptr()));
            if name.is_null() {
                ffi::PyErr_Clear();
            }
            Bound::from_owned_ptr_or_opt(self.0.py(), name)
        };
        let name = name.as_ref().and_then(|name| PyValue::new(name).of());
        name.map_or_else(
            || "object".to_owned(),
            |name| with_utf8(strings::stored(name, &mut Vec::new()), lossy),
        )
    }
}

/// A key that is not plain ASCII; JSON spells those that are numbers or words.
#[cold]
fn odd_key<'a>(key: PyValue<'a, '_>, spelled: &'a mut Vec<u8>) -> Result<Text<'a>, LeafFault> {
    if let Some(string) = key.of() {
        return Ok(strings::stored(string, spelled));
    }
    spelled.clear();
    key.with_word(|word| spelled.extend_from_slice(word.as_bytes()))?;
    Ok(Text::Ascii(spelled))
}
