//! Which tool results to clear.
