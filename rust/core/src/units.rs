//! Newtypes and saturating conversions.
