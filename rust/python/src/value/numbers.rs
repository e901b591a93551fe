//! Integers, read and spelled without asking Python code.
#![expect(
    unsafe_code,
    reason = "calls on objects that are integers; every block says why it holds"
)]

use super::strings::stored;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use ullage_core::text::{Text, decimal};
use ullage_core::view::LeafFault;

/// An integer that fits 64 bits; else whether it is negative.
pub(super) fn small(integer: Borrowed<'_, '_, PyInt>) -> Result<i64, bool> {
    let mut overflow = 0;
    // SAFETY: an int by its type.
    let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(integer.as_ptr(), &raw mut overflow) };
    if overflow == 0 {
        Ok(number)
    } else {
        Err(overflow < 0)
    }
}

/// Looks at the digits of an integer.
pub(super) fn with_integer<R>(
    number: Borrowed<'_, '_, PyInt>,
    look: impl FnOnce(&str) -> R,
) -> Result<R, LeafFault> {
    match small(number) {
        Ok(number) => Ok(with_digits(number, look)),
        Err(_) => spelled(number)
            .map(|digits| look(&digits))
            .ok_or(LeafFault::Digits),
    }
}

/// How many characters a number is spelled with.
pub(super) fn digits_of(number: i64) -> u64 {
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    u64::from(digits) + u64::from(number < 0)
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
///
/// Python's own decimal digits have a limit that can be set, and past it an exception, which is an object that the collector
/// counts. Hexadecimal ones have none, and cost linear time.
fn spelled(number: Borrowed<'_, '_, PyInt>) -> Option<String> {
    // SAFETY: an int by its type, perhaps of a subclass, whose digits are written without asking it. A new reference to a str comes
    // back, or null with an error set if there is no memory left.
    let hex = unsafe {
        let hex = ffi::PyNumber_ToBase(number.as_ptr(), 16);
        if hex.is_null() {
            ffi::PyErr_Clear();
        }
        Bound::from_owned_ptr_or_opt(number.py(), hex)?
    };
    match stored(hex.cast::<PyString>().ok()?.as_borrowed(), &mut Vec::new()) {
        Text::Ascii(digits) => decimal(digits),
        _ => None,
    }
}
