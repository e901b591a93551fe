//! The keep window.
