//! Numbers as arguments: any integer is understood, what is none is a `TypeError`.

use crate::errors::policy_error;
use crate::value::PyValue;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::convert::Infallible;

/// An argument with a default. Unlike `Option`, an explicit `None` is a value (and refused as one).
#[derive(Clone, Copy)]
pub(crate) enum Given<'a, 'py> {
    Unset,
    Value(Borrowed<'a, 'py, PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'a, 'py> {
    type Error = Infallible;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Self::Value(value))
    }
}

impl Given<'_, '_> {
    /// The value as [`whole`], or the default.
    pub(crate) fn whole(self, name: &str, unset: i64) -> PyResult<i64> {
        match self {
            Self::Unset => Ok(unset),
            Self::Value(value) => whole(name, &value),
        }
    }

    /// The value as [`number`], or the default.
    pub(crate) fn number(self, name: &str, range: (u64, u64), unset: u64) -> PyResult<u64> {
        match self {
            Self::Unset => Ok(unset),
            Self::Value(value) => number(name, &value, range),
        }
    }
}

/// No number is too large.
pub(crate) const NOT_NEGATIVE: (u64, u64) = (0, u64::MAX);

/// An integer of any size; one beyond 64 bits stays at their end.
pub(crate) fn whole(name: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let Some(number) = PyValue::new(value).whole() else {
        let kind = value.get_type().name()?;
        let said = format!("{name} must be an integer, not {kind}");
        return Err(PyTypeError::new_err(said));
    };
    Ok(number.unwrap_or_else(|negative| if negative { i64::MIN } else { i64::MAX }))
}

/// An integer in a range, `InvalidPolicy` outside.
pub(crate) fn number(
    name: &str,
    value: &Bound<'_, PyAny>,
    (least, most): (u64, u64),
) -> PyResult<u64> {
    let number = u64::try_from(whole(name, value)?).ok();
    if let Some(number) = number.filter(|number| (least..=most).contains(number)) {
        return Ok(number);
    }
    let limit = if (least, most) == NOT_NEGATIVE {
        "must not be negative".to_owned()
    } else {
        format!("must be between {least} and {most}")
    };
    Err(policy_error(name, value, &limit))
}
