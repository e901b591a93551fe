//! Features of many texts: short ones are gathered, so that a block of the kernel is not spent on each.

use super::kernel::Kernel;
use super::lanes::{BLOCK, Block};
use super::marks::NOTHING;
use super::{Features, Text, narrow};

/// Adds up features over texts.
#[derive(Clone, Debug)]
pub struct Counter {
    counts: Features,
    // Short texts, each followed by a byte that parts it from the next.
    gathered: Block,
    filled: usize,
    untouched: bool,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            counts: Features::default(),
            gathered: [NOTHING; BLOCK],
            filled: 0,
            untouched: true,
        }
    }
}

impl Counter {
    /// Counts a text.
    pub fn text(&mut self, text: Text<'_>) {
        let length = text.unit_len();
        self.untouched = false;
        if length >= BLOCK {
            narrow::feed(text, &mut Kernel::new(&mut self.counts.0));
            return;
        }
        if length > BLOCK - self.filled {
            self.settle();
        }
        let free = &mut self.gathered[self.filled..];
        let written = narrow::write(text, free);
        self.filled = BLOCK.min(self.filled + written + 1);
    }

    /// Counts what no text holds: a feature of JSON.
    pub fn count(&mut self, feature: usize, more: u64) {
        self.untouched = false;
        self.counts.0[feature] += more;
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// The sums so far, which start again.
    pub fn take(&mut self) -> Features {
        self.settle();
        self.untouched = true;
        std::mem::take(&mut self.counts)
    }

    fn settle(&mut self) {
        if self.filled > 0 {
            Kernel::new(&mut self.counts.0).take(&self.gathered);
            self.gathered = [NOTHING; BLOCK];
            self.filled = 0;
        }
    }
}
