//! The ledger of digests.
