//! The one error enum.
