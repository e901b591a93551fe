//! 64 narrow bytes → one mask for each class. Bit n of a mask speaks of byte n.

use super::lanes::{Block, Lanes};
use super::narrow::{BASE, WORDY_END};

/// A byte of no class: no text becomes it, so that it fills what is left of a block and parts texts.
pub(super) const NOTHING: u8 = 0xFF;

/// Which bytes belong to which class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) digit: u64,
    pub(super) punct: u64,
    pub(super) space: u64,
    pub(super) tab: u64,
    pub(super) newline: u64,
    pub(super) control: u64,
    /// Letters of words in other scripts.
    pub(super) wide: u64,
    /// All codes of scripts, and [`NOTHING`].
    pub(super) high: u64,
    /// The letters that are rare in prose.
    pub(super) rare: u64,
    /// Bytes that equal the one before them.
    pub(super) same: u64,
}

/// Reads a block; `earlier` is the block that begins one byte before it.
#[inline(always)]
pub(super) fn marks(block: &Block, earlier: &Block) -> Marks {
    let lanes = Lanes::load(block);
    let folded = lanes.folded();
    let (letter, small) = (folded.within(b'a', b'z'), lanes.small());
    let (digit, graphic) = (lanes.within(b'0', b'9'), lanes.within(b'!', b'~'));
    let (space, tab, newline) = (lanes.equal(b' '), lanes.equal(b'\t'), lanes.equal(b'\n'));
    let high = lanes.high();
    Marks {
        lower: letter & small,
        upper: letter & !small,
        digit,
        punct: graphic & !(letter | digit),
        space,
        tab,
        newline,
        control: !(high | graphic | space | tab | newline),
        wide: lanes.within(BASE, WORDY_END - 1),
        high,
        rare: folded.rare(),
        same: lanes.same(&Lanes::load(earlier)),
    }
}

/// Bytes of a block that are this one.
#[inline(always)]
pub(super) fn equal(block: &Block, wanted: u8) -> u64 {
    Lanes::load(block).equal(wanted)
}
