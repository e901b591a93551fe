//! Fixed-size digests of messages and blocks.
