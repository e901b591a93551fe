//! API rounds.
