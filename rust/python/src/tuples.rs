//! Numbers of the core as the named tuples of the contract.
//!
//! Each tuple's fields are written once here, by name and in order. A class whose fields are others is refused before the first
//! tuple of it is made, and `_TUPLE_FIELDS` shows them to the test of the contract (`tests/engine/test_tuples.py`).
#![expect(
    clippy::elidable_lifetime_names,
    reason = "one macro for functions with and without other references"
)]

use crate::once::once;
use crate::survey::shares;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType, PyTypeMethods};
use std::ptr;
use ullage_core::digest::{BlockDigest, MessageDigest};
use ullage_core::jsonl::{Context, Line};
use ullage_core::ledger::Anchor;
use ullage_core::rules::Violation;
use ullage_core::survey::Facts;
use ullage_core::window::KeepWindow;

const MODULE: &str = "ullage._engine.digests";

/// A named tuple of `ullage._engine.digests`.
struct Named {
    name: &'static str,
    fields: &'static [&'static str],
    class: PyOnceLock<Py<PyType>>,
}

impl Named {
    /// The class, whose fields were compared with ours.
    fn class<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyType>> {
        let class = once(py, &self.class, || self.find(py))?;
        Ok(class.bind(py))
    }

    fn find(&self, py: Python<'_>) -> PyResult<Py<PyType>> {
        let class = py
            .import(MODULE)?
            .getattr(self.name)?
            .cast_into::<PyType>()?;
        let theirs: Vec<String> = class.getattr("_fields")?.extract()?;
        if theirs != self.fields || !class.is_subclass_of::<PyTuple>()? {
            let said = format!(
                "{MODULE}.{} has other fields than {:?}",
                self.name, self.fields
            );
            return Err(PyImportError::new_err(said));
        }
        Ok(class.unbind())
    }

    /// A tuple without the detour over its class's own `__new__`, which is Python code: what `tuple.__new__(class, fields)` makes. By
    /// the slot, which costs 180 instructions less than by a call of `tuple.__new__`.
    #[expect(unsafe_code, reason = "a slot of a built-in type")]
    fn make<'py, const N: usize>(
        &self,
        fields: [Bound<'py, PyAny>; N],
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (class, base) = (self.class(py)?, py.get_type::<PyTuple>());
        let arguments = PyTuple::new(py, [PyTuple::new(py, fields)?])?;
        // SAFETY: the slot of `tuple`, which is never empty, is a function of this kind; it takes a subclass of `tuple`, which `find` has
        // checked that the class is, and a tuple of arguments. A new reference comes back, or null with an error set.
        unsafe {
            let slot = ffi::PyType_GetSlot(base.as_type_ptr(), ffi::Py_tp_new);
            let new: ffi::newfunc = std::mem::transmute(slot);
            let made = new(class.as_type_ptr(), arguments.as_ptr(), ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, made)
        }
    }
}

/// `function(py, …)` makes the named tuple `NAME` of these fields, in this order.
macro_rules! tuples {
    ($($(#[$doc:meta])* $function:ident($py:ident $(, $arg:ident: $kind:ty)*) -> $name:ident { $($field:literal: $value:expr,)* })*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $function<'py>($py: Python<'py>, $($arg: $kind),*) -> PyResult<Bound<'py, PyAny>> {
                classes::$name.make([$($value.into_bound_py_any($py)?),*], $py)
            }
        )*

        /// The classes by name.
        #[expect(non_upper_case_globals, reason = "each has the name of its class")]
        mod classes {
            use super::{Named, PyOnceLock};

            $(
                pub(super) static $name: Named = Named {
                    name: stringify!($name),
                    fields: &[$($field),*],
                    class: PyOnceLock::new(),
                };
            )*
        }

        static ALL: &[&Named] = &[$(&classes::$name),*];
    };
}

tuples! {
    message(py, digest: &MessageDigest) -> MessageDigest {
        "role": digest.role as u8,
        "flags": digest.flags,
        "tokens": digest.tokens,
        "first_block": digest.first_block,
        "block_count": digest.block_count,
        "response_id": digest.response_id,
        "uuid": digest.uuid,
        "usage": digest.usage,
        "timestamp": digest.timestamp,
    }

    block(py, digest: &BlockDigest) -> BlockDigest {
        "kind": digest.kind as u8,
        "flags": digest.all_flags(),
        "tokens": digest.tokens,
        "chars": digest.chars,
        "id": digest.id,
        "name": digest.name,
        "aux": digest.aux,
    }

    line(py, line: &Line, found: Option<&MessageDigest>) -> LineDigest {
        "offset": line.offset,
        "length": line.length,
        "number": line.number,
        "type": line.kind,
        "subtype": line.subtype,
        "uuid": line.uuid,
        "parent": line.parent,
        "message": found.map(|found| message(py, found)).transpose()?,
    }

    anchor(py, found: &Anchor) -> Anchor {
        "first": found.first,
        "last": found.last,
        "covers": found.covers,
        "usage": found.usage,
    }

    anchored(py, total: u64, estimated: u64, found: Option<&Anchor>) -> AnchoredCount {
        "total": total,
        "estimated": estimated,
        "anchor": found.map(|found| anchor(py, found)).transpose()?,
    }

    keep(py, kept: KeepWindow) -> KeepWindow {
        "start": kept.start,
        "tokens": kept.tokens,
        "text_messages": kept.text_messages,
        "orphans": kept.orphans,
    }

    context(py, found: Context) -> FoldedContext {
        "lines": found.lines,
        "attachments": found.attachments,
        "unmeasured": found.unmeasured,
        "missing": found.missing,
    }

    facts(py, found: &Facts) -> SurveyFacts {
        "categories": PyTuple::new(py, found.categories)?,
        "rounds": found.rounds,
        "largest_round": found.largest_round,
        "user_inputs": found.user_inputs,
        "open_calls": found.open_calls,
        "tools": shares(py, &found.tools)?,
        "files": shares(py, &found.files)?,
        "media": found.media,
    }

    violation(py, found: Violation) -> Violation {
        "rule": found.rule,
        "severity": if found.error { "error" } else { "warning" },
        "message": found.message,
        "block": found.block,
        "detail": found.detail,
    }
}

/// Adds the classes that are part of the module's own contract, and the fields of all.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let fields = PyDict::new(m.py());
    for each in ALL {
        fields.set_item(each.name, PyTuple::new(m.py(), each.fields)?)?;
    }
    m.add("_TUPLE_FIELDS", fields)?;
    let shown = [
        &classes::Anchor,
        &classes::AnchoredCount,
        &classes::KeepWindow,
        &classes::LineDigest,
        &classes::Violation,
    ];
    for each in shown {
        m.add(each.name, each.class(m.py())?)?;
    }
    Ok(())
}
