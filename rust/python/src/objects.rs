//! Whether a message is made of the very objects that it was made of when it was read.
//!
//! What a message is made of are dicts and lists, and in them strings and numbers, which never change. These are held, so that none of
//! their addresses is another object's while it is compared: a message in which a walk meets the same of them in the same places says
//! the same. Exact types only: what else a message holds may change unseen, and such a message is never the same.

use crate::value::next_member;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use std::slice::Iter;

/// Objects of a message; one of more is read each time, which costs little next to what it holds.
const MOST: usize = 10_000;
/// Containers inside of each other.
const DEEPEST: usize = 50;

/// The objects in the order of a walk. Where a dict or a list begins stands its type, where it ends that of tuples; no leaf is a type.
type Leaves = Box<[Py<PyAny>]>;

/// Marks between leaves, and what else is a leaf.
struct Marks<'a, 'py> {
    constants: &'a [Py<PyType>],
    dict: Bound<'py, PyAny>,
    list: Bound<'py, PyAny>,
    end: Bound<'py, PyAny>,
}

impl<'a, 'py> Marks<'a, 'py> {
    fn new(constants: &'a [Py<PyType>], py: Python<'py>) -> Self {
        Self {
            constants,
            dict: py.get_type::<PyDict>().into_any(),
            list: py.get_type::<PyList>().into_any(),
            end: py.get_type::<PyTuple>().into_any(),
        }
    }

    /// Whether a walk over the object meets what comes next, which is used up.
    #[inline]
    fn meets(&self, leaves: &mut Iter<'_, Py<PyAny>>, object: Borrowed<'_, 'py, PyAny>) -> bool {
        let Some(next) = leaves.next() else {
            return false;
        };
        if next.is(&self.dict) || next.is(&self.list) {
            return self.meets_inside(next, leaves, object);
        }
        next.is(object) && !next.is(&self.end)
    }

    /// `kind`: dict or list, as it was when it was held. Not part of `meets`: leaves, which are nearly all, are compared without a call.
    #[inline(never)]
    fn meets_inside(
        &self,
        kind: &Py<PyAny>,
        leaves: &mut Iter<'_, Py<PyAny>>,
        object: Borrowed<'_, 'py, PyAny>,
    ) -> bool {
        if kind.is(&self.dict) {
            let Ok(dict) = object.cast_exact::<PyDict>() else {
                return false;
            };
            let mut place = 0;
            for _ in 0..dict.len() {
                let Some([key, value]) = next_member(dict, &mut place) else {
                    return false;
                };
                // A leaf or the end: no key is a container.
                let same = leaves.next().is_some_and(|leaf| leaf.is(key.object()));
                if !same || !self.meets(leaves, value.object()) {
                    return false;
                }
            }
        } else {
            let Ok(list) = object.cast_exact::<PyList>() else {
                return false;
            };
            if !crate::list::items(list).all(|item| self.meets(leaves, item)) {
                return false;
            }
        }
        leaves.next().is_some_and(|next| next.is(&self.end))
    }

    /// Adds the object to the leaves; false: it cannot be known by its objects.
    fn add(
        &self,
        leaves: &mut Vec<Py<PyAny>>,
        object: Borrowed<'_, 'py, PyAny>,
        room: usize,
    ) -> bool {
        if leaves.len() >= MOST || room == 0 {
            return false;
        }
        if let Ok(dict) = object.cast_exact::<PyDict>() {
            leaves.push(self.dict.clone().unbind());
            let mut place = 0;
            while let Some([key, value]) = next_member(dict, &mut place) {
                if !is_leaf(key.object()) {
                    return false;
                }
                leaves.push(key.owned().unbind());
                if !self.add(leaves, value.object(), room - 1) {
                    return false;
                }
            }
        } else if let Ok(list) = object.cast_exact::<PyList>() {
            leaves.push(self.list.clone().unbind());
            if !crate::list::items(list).all(|item| self.add(leaves, item, room - 1)) {
                return false;
            }
        } else {
            leaves.push(object.to_owned().unbind());
            return is_leaf(object) || self.is_constant(object);
        }
        leaves.push(self.end.clone().unbind());
        true
    }

    fn is_constant(&self, object: Borrowed<'_, 'py, PyAny>) -> bool {
        let class = object.get_type();
        self.constants.iter().any(|constant| constant.is(&class))
    }

    /// Of a message; none: it cannot be known by its objects.
    fn of(&self, message: Borrowed<'_, 'py, PyAny>) -> Leaves {
        let mut leaves = Vec::new();
        if self.add(&mut leaves, message, DEEPEST) {
            return leaves.into();
        }
        Leaves::default()
    }
}

/// Whether it never changes, nor what it says in JSON.
fn is_leaf(object: Borrowed<'_, '_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_none()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyFloat>()
}

/// The objects of a list's messages, by place.
#[pyclass(module = "ullage._core")]
struct MessageObjects {
    held: Vec<Leaves>,
    constants: Vec<Py<PyType>>,
}

#[pymethods]
impl MessageObjects {
    #[new]
    #[pyo3(signature = (*constants))]
    fn new(constants: Vec<Py<PyType>>) -> Self {
        Self {
            held: Vec::new(),
            constants,
        }
    }

    /// Hold no more than those of the first so many messages.
    fn cut(&mut self, count: usize) {
        self.held.truncate(count);
    }

    /// Hold the objects of the message at a place of the list.
    fn note(&mut self, items: &Bound<'_, PyList>, at: usize) -> PyResult<()> {
        let item = items.get_item(at)?;
        let leaves = Marks::new(&self.constants, items.py()).of(item.as_borrowed());
        if self.held.len() <= at {
            self.held.resize_with(at + 1, Leaves::default);
        }
        self.held[at] = leaves;
        Ok(())
    }

    /// Places from `start` up to `stop` of messages that are made of other objects than those held for them, or of unknown ones.
    fn differing(&self, items: &Bound<'_, PyList>, start: usize, stop: usize) -> Vec<usize> {
        let marks = Marks::new(&self.constants, items.py());
        let differs = |&at: &usize| {
            let held = self.held.get(at).filter(|leaves| !leaves.is_empty());
            let pair = held.zip(crate::list::item(items.as_borrowed(), at));
            pair.is_none_or(|(leaves, item)| !marks.meets(&mut leaves.iter(), item))
        };
        (start..stop).filter(differs).collect()
    }
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<MessageObjects>()
}
