//! Head truncation on overflow, hard truncation.
