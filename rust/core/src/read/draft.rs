//! A block's digest while it is being read, and what every reader needs.

use super::meter::{Meter, Scale};
use super::path::Path;
use crate::digest::{BlockDigest, BlockKind, block_flag as flag};
use crate::error::Error;
use crate::strings::{Strings, Use};
use crate::text::{Text, is_id};
use crate::view::{Value, is_blank, is_space, last_point, with_utf8};

/// What readers share while they read one item: where strings go, and what texts are weighed with.
#[derive(Debug)]
pub(super) struct Tools<'a> {
    pub(super) strings: &'a mut Strings,
    // The weights, and what is counted but not weighed yet, which is lent to one meter at a time.
    scale: Option<Scale<'a>>,
}

impl<'a> Tools<'a> {
    pub(super) fn new(strings: &'a mut Strings, scale: Option<Scale<'a>>) -> Self {
        Self { strings, scale }
    }

    pub(super) fn meter(&mut self) -> Meter<'_> {
        Meter::new(lent(&mut self.scale))
    }
}

fn lent<'a>(scale: &'a mut Option<Scale<'_>>) -> Option<Scale<'a>> {
    let scale = scale.as_mut();
    scale.map(|(weights, tally)| (*weights, &mut **tally))
}

/// A block's digest while it is being read.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) digest: BlockDigest,
    pub(super) meter: Meter<'a>,
    strings: &'a mut Strings,
}

impl<'a> Draft<'a> {
    pub(super) fn new(kind: BlockKind, tools: &'a mut Tools<'_>) -> Self {
        let digest = BlockDigest {
            kind,
            ..BlockDigest::default()
        };
        Self {
            digest,
            meter: Meter::new(lent(&mut tools.scale)),
            strings: tools.strings,
        }
    }

    pub(super) fn set_id<V: Value>(&mut self, value: Option<V>) {
        let Some(value) = value.filter(|value| value.is_text()) else {
            self.digest.flags |= flag::MISSING_ID;
            return;
        };
        value.with_text(|text| {
            with_utf8(text, |id| {
                self.digest.id = self.strings.intern_again(id, Use::Id);
                if id.is_empty() || !is_id(id) {
                    self.digest.flags |= flag::BAD_ID;
                }
            });
        });
    }

    pub(super) fn set_name<V: Value>(&mut self, value: Option<V>, prefix: &str) {
        let Some(value) = value.filter(|value| value.is_text()) else {
            return;
        };
        value.with_text(|text| {
            with_utf8(text, |name| {
                self.digest.name = if prefix.is_empty() {
                    self.strings.intern_again(name, Use::Name)
                } else {
                    self.strings.intern(&[prefix.as_bytes(), name].concat())
                };
            });
        });
    }

    /// Counts the block's main text and notes if it is empty, blank, or ends in white space.
    pub(super) fn count_text<V: Value>(
        &mut self,
        value: Option<V>,
        field: Path<'_>,
    ) -> Result<(), Error> {
        self.meter.either(value, field)?;
        self.digest.flags |= match value.filter(|value| value.is_text()) {
            Some(value) => value.with_glimpse(text_flags),
            None => flag::EMPTY_TEXT,
        };
        Ok(())
    }

    pub(super) fn finish(mut self) -> BlockDigest {
        let kind = self.digest.kind as usize;
        let (tokens, chars) = self.meter.close(|weights| weights.blocks[kind]);
        self.digest.tokens = tokens;
        self.digest.chars = chars;
        self.digest
    }
}

pub(super) fn text_flags(text: Text<'_>) -> u32 {
    match last_point(text) {
        None => flag::EMPTY_TEXT,
        Some(last) if !is_space(last) => 0,
        Some(_) if is_blank(text) => flag::BLANK_TEXT | flag::TRAILING_SPACE,
        Some(_) => flag::TRAILING_SPACE,
    }
}
