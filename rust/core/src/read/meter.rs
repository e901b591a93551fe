//! Adds up what one block, or one message's own fields, cost: rough and calibrated.

use super::path::Path;
use super::sources::Source;
use crate::error::Error;
use crate::limits::MAX_NODES;
use crate::text::{JsonTally, MAX_DEPTH, Text, Weights, image_tokens, rough_tokens, whole_tokens};
use crate::units::saturate;
use crate::view::{Kind, LeafFault, Value, shown};

/// What an image or a document counts in the rough estimate.
const MEDIA_ROUGH_TOKENS: u64 = 2000;

/// Calibrated tokens of a document page: 1500 to 3000 of text, by Anthropic's guide.
const DOCUMENT_TOKENS: u64 = 2000;

/// 98 KB a page: between printed text (10 to 50 KB) and scans (100 to 300 KB).
const BASE64_CHARS_PER_PAGE: u64 = 1 << 17;

/// No provider takes longer documents.
const MAX_PAGES: u64 = 600;

/// Weights, and what is counted but not weighed yet.
pub(super) type Scale<'a> = (&'a Weights, &'a mut JsonTally);

/// Sums in 1/4096 token, rounded once at the end; rough counts are rounded per part.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    scale: Option<Scale<'a>>,
    chars: u64,
    rough: u64,
    micro: u64,
    whole: u64,
    run: u64,
}

/// Tokens, calibrated where there are weights, and characters.
pub(super) type Sums = (u32, u32);

impl<'a> Meter<'a> {
    pub(super) fn new(scale: Option<Scale<'a>>) -> Self {
        Self {
            scale,
            chars: 0,
            rough: 0,
            micro: 0,
            whole: 0,
            run: 0,
        }
    }

    /// A string, whose length its reader may know without a look at it.
    pub(super) fn text<V: Value>(&mut self, value: V) {
        self.run += value.chars();
        if self.scale.is_some() {
            value.with_text(|text| self.weigh(text));
        }
    }

    /// A value as compact JSON.
    pub(super) fn json<V: Value>(&mut self, value: V, field: Path<'_>) -> Result<(), Error> {
        let length = if let Some((_, tally)) = &mut self.scale {
            let before = tally.length;
            walk(value, &mut **tally, 1, &mut 0).map(|()| tally.length - before)
        } else {
            let mut length = Length(0);
            walk(value, &mut length, 1, &mut 0).map(|()| length.0)
        };
        self.run += length.map_err(|fault| fault.at(field))?;
        Ok(())
    }

    /// A string as text, nothing for `null` or an absent value, all else as JSON.
    pub(super) fn either<V: Value>(
        &mut self,
        value: Option<V>,
        field: Path<'_>,
    ) -> Result<(), Error> {
        match value {
            None => Ok(()),
            Some(value) if value.is_null() => Ok(()),
            Some(value) if value.is_text() => {
                self.text(value);
                Ok(())
            }
            Some(value) => self.json(value, field),
        }
    }

    /// Thinking with a signature of this many characters: the clear text may be
    /// empty or a shortened form, so that the longer of both counts.
    pub(super) fn hidden(&mut self, chars: u64) {
        self.settle();
        if let Some((weights, _)) = &self.scale {
            self.micro = self.micro.max(weights.hidden.weigh(chars));
        }
    }

    /// Encrypted data: weighed by its length where the family says what that tells.
    pub(super) fn encrypted(&mut self, data: Text<'_>) {
        let chars = data.char_len() as u64;
        self.run += chars;
        match &self.scale {
            Some((weights, _)) if weights.hidden.per_char > 0 => {
                self.micro = self.micro.saturating_add(weights.hidden.weigh(chars));
            }
            _ => self.weigh(data),
        }
    }

    pub(super) fn image(&mut self, width: u32, height: u32) {
        self.rough += MEDIA_ROUGH_TOKENS;
        if let Some((weights, _)) = &self.scale {
            self.whole += u64::from(image_tokens(width, height, &weights.image));
        }
    }

    /// By its text where it has one, else by the size of its data.
    pub(super) fn document<V: Value>(&mut self, source: &Source<V>) {
        self.rough += MEDIA_ROUGH_TOKENS;
        match source {
            Source::Texts(texts) => {
                for text in texts {
                    text.with_text(|text| {
                        self.chars += text.char_len() as u64;
                        self.weigh(text);
                    });
                }
            }
            Source::Data(data) => {
                let size = data.map_or(0, |data| data.with_text(|text| text.char_len() as u64));
                self.whole +=
                    size.div_ceil(BASE64_CHARS_PER_PAGE).clamp(1, MAX_PAGES) * DOCUMENT_TOKENS;
            }
        }
    }

    /// Rounds what was counted since the last part: a result is the sum of its blocks.
    pub(super) fn end_part(&mut self) {
        self.chars += self.run;
        self.rough += rough_tokens(self.run);
        self.run = 0;
    }

    /// The sums; `overhead` in 1/4096 token.
    pub(super) fn close(&mut self, overhead: impl FnOnce(&Weights) -> u32) -> Sums {
        self.end_part();
        self.settle();
        let chars = saturate(self.chars);
        let Some((weights, _)) = &self.scale else {
            return (saturate(self.rough), chars);
        };
        let micro = self.micro.saturating_add(u64::from(overhead(weights)));
        (saturate(self.whole + whole_tokens(micro)), chars)
    }

    fn weigh(&mut self, text: Text<'_>) {
        if let Some((_, tally)) = &mut self.scale {
            tally.counter.text(text);
        }
    }

    /// Weighs what was counted; once a block, since weights are the same for all of it.
    fn settle(&mut self) {
        if let Some((weights, tally)) = &mut self.scale
            && !tally.counter.is_untouched()
        {
            let weight = weights.weigh(&tally.counter.take());
            self.micro = self.micro.saturating_add(weight);
        }
    }
}

/// What a walk over a JSON value tells.
trait Tally {
    fn string(&mut self, text: Text<'_>, depth: u32);

    fn value<V: Value>(&mut self, value: V, depth: u32) {
        value.with_text(|text| self.string(text, depth));
    }

    /// A number, `true`, `false` or `null`.
    fn word<V: Value>(&mut self, value: V) -> Result<(), LeafFault>;

    fn array(&mut self, items: usize, depth: u32);
    fn object(&mut self, members: usize, depth: u32);
}

/// The length alone: no features, where nobody weighs them.
struct Length(u64);

impl Tally for Length {
    fn string(&mut self, text: Text<'_>, _depth: u32) {
        self.0 += crate::text::string_json_length(text);
    }

    fn value<V: Value>(&mut self, value: V, _depth: u32) {
        self.0 += value.json_chars();
    }

    fn word<V: Value>(&mut self, value: V) -> Result<(), LeafFault> {
        self.0 += value.word_chars()?;
        Ok(())
    }

    fn array(&mut self, items: usize, _depth: u32) {
        self.0 += 2 + items.saturating_sub(1) as u64;
    }

    fn object(&mut self, members: usize, _depth: u32) {
        self.0 += 2 + (2 * members).saturating_sub(1) as u64;
    }
}

impl Tally for JsonTally {
    fn string(&mut self, text: Text<'_>, depth: u32) {
        JsonTally::string(self, text, depth);
    }

    fn word<V: Value>(&mut self, value: V) -> Result<(), LeafFault> {
        value.with_word(|spelled| JsonTally::word(self, spelled))
    }

    fn array(&mut self, items: usize, depth: u32) {
        JsonTally::array(self, items, depth);
    }

    fn object(&mut self, members: usize, depth: u32) {
        JsonTally::object(self, members, depth);
    }
}

/// Why a value cannot be counted.
enum Fault {
    Nodes,
    Depth,
    Digits,
    Foreign(String),
}

impl Fault {
    fn at(self, field: Path<'_>) -> Error {
        let (reason, got) = match self {
            Self::Nodes => (format!("holds more than {MAX_NODES} values"), String::new()),
            Self::Depth => (
                format!("nested more than {MAX_DEPTH} levels deep"),
                String::new(),
            ),
            Self::Digits => (
                "holds an integer with too many digits".to_owned(),
                "integer".to_owned(),
            ),
            Self::Foreign(name) => ("holds a value that JSON does not have".to_owned(), name),
        };
        Error::InvalidMessage {
            reason,
            field: field.to_string(),
            got,
        }
    }
}

impl From<LeafFault> for Fault {
    fn from(fault: LeafFault) -> Self {
        match fault {
            LeafFault::Digits => Self::Digits,
            LeafFault::Foreign(name) => Self::Foreign(name),
        }
    }
}

fn walk<V: Value, T: Tally>(
    value: V,
    tally: &mut T,
    depth: u32,
    nodes: &mut usize,
) -> Result<(), Fault> {
    *nodes += 1;
    if *nodes > MAX_NODES {
        return Err(Fault::Nodes);
    }
    match value.kind() {
        Kind::Text => tally.value(value, depth - 1),
        Kind::List | Kind::Map if depth > MAX_DEPTH => return Err(Fault::Depth),
        Kind::List => {
            let (mut count, mut fault) = (0, None);
            value.each_item(|item| {
                count += 1;
                if fault.is_none() {
                    fault = walk(item, tally, depth + 1, nodes).err();
                }
            });
            tally.array(count, depth - 1);
            return fault.map_or(Ok(()), Err);
        }
        Kind::Map => {
            let (mut count, mut fault) = (0, None);
            value.each_member(|key, member| {
                count += 1;
                if fault.is_none() {
                    tally.string(key, depth);
                    fault = walk(member, tally, depth + 1, nodes).err();
                }
            })?;
            tally.object(count, depth - 1);
            return fault.map_or(Ok(()), Err);
        }
        Kind::Foreign => return Err(Fault::Foreign(shown(value))),
        _ => tally.word(value)?,
    }
    Ok(())
}
