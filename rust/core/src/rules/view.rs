//! One message as the rules see it.

use super::findings::{At, short};
use crate::digest::{BlockDigest, MessageDigest};
use crate::ledger::Ledger;

/// A message's digest, its blocks, and the ledger for its strings.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) index: usize,
    pub(crate) message: &'a MessageDigest,
    pub(crate) blocks: &'a [BlockDigest],
    pub(crate) ledger: &'a Ledger,
}

impl<'a> View<'a> {
    pub(crate) fn string(&self, number: u32) -> &'a [u8] {
        self.ledger.string(number)
    }

    pub(crate) fn short(&self, number: u32) -> String {
        short(self.ledger.string(number))
    }

    /// The message as a whole.
    pub(crate) fn whole(&self) -> At {
        (signed(self.index), -1)
    }

    /// One block of it.
    pub(crate) fn at(&self, position: usize) -> At {
        (signed(self.index), signed(position))
    }

    /// Blocks with their places.
    pub(crate) fn each(&self) -> impl Iterator<Item = (At, &'a BlockDigest)> + use<'a> {
        let index = signed(self.index);
        self.blocks
            .iter()
            .enumerate()
            .map(move |(position, block)| ((index, signed(position)), block))
    }
}

/// Ledgers hold at most 2^32 messages.
pub(crate) fn signed(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
