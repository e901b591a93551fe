//! The one error enum. The binding turns each variant into one class of `ullage.exceptions`.

use std::fmt;

/// What can be wrong with what the core is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A message or entry that no provider could take.
    InvalidMessage {
        /// What is wrong, in lower case without a full stop.
        reason: String,
        /// Path inside the message, empty for the whole.
        field: String,
        /// Short description of what stood there.
        got: String,
    },
    /// A position outside of the ledger.
    Index {
        /// The position that was asked for.
        index: i64,
        /// How many messages there are.
        length: usize,
    },
    /// An argument out of range.
    Argument {
        /// Its name.
        name: &'static str,
        /// Its value, as a user would write it.
        value: String,
        /// What would be accepted.
        limit: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidMessage { reason, field, got } => {
                write!(f, "{field}: {reason} (got {got})")
            }
            Self::Index { index, length } => {
                write!(f, "index {index} is outside of {length} messages")
            }
            Self::Argument { name, value, limit } => write!(f, "{name}: {limit} (got {value})"),
        }
    }
}

impl std::error::Error for Error {}
