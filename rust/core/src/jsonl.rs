//! Index of a transcript: offsets and digests, no objects built.
