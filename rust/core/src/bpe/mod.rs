//! Exact counting: byte-pair encoding.
