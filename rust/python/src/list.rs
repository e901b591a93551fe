//! Lists of messages: whether one is the list that is known, and its items ahead of their turn.

#[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
mod direct;
#[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
mod plain;

#[cfg(not(any(feature = "abi3", Py_GIL_DISABLED)))]
pub(crate) use direct::{begins_with, soon};
#[cfg(any(feature = "abi3", Py_GIL_DISABLED))]
pub(crate) use plain::{begins_with, soon};
