//! Counts character classes of narrow bytes, 64 at a time: runs and their neighbours are arithmetic on masks.

use super::feature;
use super::lanes::{BLOCK, Block};
use super::marks::{Marks, NOTHING, equal, marks};
use super::narrow::BASE;
use crate::simd::{Work, widest};

/// Feeds [`super::Features`] with narrow bytes, in pieces of whole blocks; only the last may be shorter.
pub(super) struct Kernel<'a> {
    counts: &'a mut [u64],
    before: Shadow,
    last: u8,
}

impl<'a> Kernel<'a> {
    pub(super) fn new(counts: &'a mut [u64]) -> Self {
        Self {
            counts,
            before: Shadow::default(),
            last: NOTHING,
        }
    }

    /// Counts what follows the bytes taken before.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        widest(Taking {
            kernel: self,
            bytes,
        });
    }

    #[inline(always)]
    fn blocks(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let mut tally = Tally::default();
        for (number, block) in blocks.iter().enumerate() {
            let before = number.checked_sub(1).map(|_| number * BLOCK - 1);
            match before.and_then(|at| bytes[at..].first_chunk()) {
                Some(earlier) => self.block(block, earlier, &mut tally),
                None => self.staged(block, &mut tally),
            }
            self.last = block[BLOCK - 1];
        }
        if !rest.is_empty() {
            self.staged(rest, &mut tally);
        }
        tally.add_to(self.counts);
    }

    /// At most one block of which the byte before lies elsewhere.
    #[inline(always)]
    fn staged(&mut self, bytes: &[u8], tally: &mut Tally) {
        let mut stage = [NOTHING; BLOCK + 1];
        stage[0] = self.last;
        stage[1..=bytes.len()].copy_from_slice(bytes);
        if let (Some(earlier), Some(block)) = (stage.first_chunk(), stage.last_chunk()) {
            self.block(block, earlier, tally);
        }
    }

    #[inline(always)]
    fn block(&mut self, block: &Block, earlier: &Block, tally: &mut Tally) {
        let marks = marks(block, earlier);
        if marks.high != 0 {
            let counts = &mut self.counts[feature::SCRIPTS..feature::ARGUMENTS];
            scripts(block, marks.high, counts);
        }
        tally.count(&marks, &mut self.before);
    }
}

struct Taking<'a, 'b, 'c> {
    kernel: &'a mut Kernel<'b>,
    bytes: &'c [u8],
}

impl Work for Taking<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.kernel.blocks(self.bytes);
    }
}

/// Counts codes of scripts: a look at the block for each script that is in it.
#[inline(always)]
fn scripts(block: &Block, high: u64, counts: &mut [u64]) {
    let mut rest = high;
    while rest != 0 {
        let code = block[rest.trailing_zeros() as usize];
        let found = equal(block, code);
        if let Some(count) = counts.get_mut(usize::from(code - BASE)) {
            *count += u64::from(found.count_ones());
        }
        rest &= !found;
    }
}

/// A mask and the bits that it had in the block before, so that it can be looked at some bytes earlier.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    now: u64,
    before: u64,
}

impl Run {
    /// What was true `bytes` earlier.
    #[inline(always)]
    fn earlier(self, bytes: u32) -> u64 {
        self.now << bytes | self.before >> (64 - bytes)
    }

    /// Where a run begins.
    #[inline(always)]
    fn starts(self) -> u64 {
        self.now & !self.earlier(1)
    }

    /// The next block's mask.
    #[inline(always)]
    fn next(&mut self, now: u64) -> Self {
        *self = Self {
            now,
            before: self.now,
        };
        *self
    }
}

/// What the next block must know of the ones before.
#[derive(Clone, Copy, Debug, Default)]
struct Shadow {
    lower: Run,
    upper: Run,
    word: Run,
    words2: Run,
    words4: Run,
    words5: Run,
    words8: Run,
    words9: Run,
    words13: Run,
    digit: Run,
    digits2: Run,
    digits4: Run,
    punct: Run,
    white: Run,
    space: Run,
    gap: Run,
    tab: Run,
    newline: Run,
}

/// Counts of the first features, in their order.
#[derive(Clone, Copy, Debug, Default)]
struct Tally([u64; feature::SCRIPTS]);

impl Tally {
    #[inline(always)]
    fn add(&mut self, place: usize, marks: u64) {
        self.0[place] += u64::from(marks.count_ones());
    }

    #[inline(always)]
    fn count(&mut self, marks: &Marks, before: &mut Shadow) {
        self.words(marks, before);
        self.numbers(marks, before);
        self.signs(marks, before);
        if marks.tab | marks.control | before.tab.now != 0 {
            let tab = before.tab.next(marks.tab);
            self.add(19, tab.now);
            self.add(20, tab.starts());
            self.add(23, marks.control);
        }
    }

    #[inline(always)]
    fn words(&mut self, marks: &Marks, before: &mut Shadow) {
        let lower = before.lower.next(marks.lower);
        let upper = before.upper.next(marks.upper);
        let word = before.word.next(lower.now | upper.now | marks.wide);
        let two = before.words2.next(word.now & word.earlier(1));
        let four = before.words4.next(two.now & two.earlier(2));
        let five = before.words5.next(four.now & four.earlier(1));
        let eight = before.words8.next(four.now & four.earlier(4));
        let nine = before.words9.next(eight.now & eight.earlier(1));
        let thirteen = before.words13.next(nine.now & nine.earlier(4));
        self.add(0, lower.now);
        self.add(1, upper.now);
        self.add(2, word.starts());
        self.add(3, five.starts());
        self.add(4, nine.starts());
        self.add(5, thirteen.starts());
        self.add(
            6,
            word.starts()
                & !Run {
                    now: marks.space,
                    before: before.space.now,
                }
                .earlier(1),
        );
        self.add(7, upper.now & lower.earlier(1));
        self.add(8, upper.now & upper.earlier(1));
        self.add(9, marks.rare);
    }

    #[inline(always)]
    fn numbers(&mut self, marks: &Marks, before: &mut Shadow) {
        let digit = before.digit.next(marks.digit);
        let two = before.digits2.next(digit.now & digit.earlier(1));
        let four = before.digits4.next(two.now & two.earlier(2));
        self.add(10, digit.now);
        self.add(11, digit.starts());
        self.add(12, four.starts());
    }

    #[inline(always)]
    fn signs(&mut self, marks: &Marks, before: &mut Shadow) {
        let punct = before.punct.next(marks.punct);
        let space = before.space.next(marks.space);
        let gap = before.gap.next(space.now & space.earlier(1));
        let newline = before.newline.next(marks.newline);
        let white = before.white.next(space.now | newline.now | marks.tab);
        self.add(13, punct.now);
        self.add(14, punct.starts());
        self.add(15, punct.now & white.earlier(1));
        self.add(16, punct.now & marks.same);
        self.add(17, space.now);
        self.add(18, gap.starts());
        self.add(21, newline.now);
        self.add(22, newline.starts());
    }

    #[inline(always)]
    fn add_to(&self, counts: &mut [u64]) {
        for (count, found) in counts.iter_mut().zip(self.0) {
            *count += found;
        }
    }
}
