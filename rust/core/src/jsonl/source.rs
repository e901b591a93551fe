//! The bytes of a line, as they are looked at.

use crate::simd::{BLOCK, Wide};

/// The input: a line, and what follows it in memory, so that its last bytes are not copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) ahead: &'a [u8],
    pub(super) end: usize,
}

impl<'a> Source<'a> {
    /// The first `end` bytes of `ahead`; what follows them may be looked at, and changes nothing.
    #[must_use]
    pub(super) fn new(ahead: &'a [u8], end: usize) -> Self {
        Self {
            ahead,
            end: end.min(ahead.len()),
        }
    }

    /// The line itself.
    #[must_use]
    pub(super) fn bytes(self) -> &'a [u8] {
        &self.ahead[..self.end]
    }

    #[inline(always)]
    pub(super) fn lanes<W: Wide>(self, at: usize) -> W {
        match self.ahead.get(at..).and_then(<[u8]>::first_chunk) {
            Some(block) => W::load(block),
            None => W::load(&padded(self.ahead, at)),
        }
    }
}

#[cold]
fn padded(bytes: &[u8], at: usize) -> [u8; BLOCK] {
    let rest = bytes.get(at..).unwrap_or_default();
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}
