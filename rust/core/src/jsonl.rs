//! Index of a transcript: offsets and digests, no objects built.
//!
//! One pass over the bytes, line by line. Of each line is kept where it is, what it says of itself, and
//! the digest of its message; values that nothing counts are skipped by their brackets. The whole of a
//! file is never copied, and no line is ever lost: one that cannot be read keeps its place and says why.

mod context;
mod digits;
mod item;
mod keys;
mod scan;
mod seen;
mod source;
mod tape;

use crate::digest::{BlockDigest, MessageDigest, message_flag};
use crate::read::read_entry;
use crate::strings::Strings;
use crate::survey::{Paths, Survey, each_path};
use crate::text::Weights;
use crate::units::saturate_len;
use crate::view::{Value, with_utf8};
use item::Entry;
use source::Source;
use std::ops::Range;
use tape::Tape;

pub use context::{Context, Mark, UNKNOWN};
pub use digits::has_long_digits;
pub use tape::Problem;

/// What files of some systems begin with.
const BOM: &[u8] = b"\xEF\xBB\xBF";
/// Bytes of a line from which on a part of it is worth leaving out.
pub const LONG_LINE: usize = 512;

/// One line. Strings are numbers of the index's table, 0 none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes, without the line end and the white space around.
    pub length: u64,
    /// Number in the file, from 1; blank lines count.
    pub number: u32,
    /// `type`.
    pub kind: u32,
    /// `subtype`.
    pub subtype: u32,
    /// `uuid`.
    pub uuid: u32,
    /// `parentUuid`.
    pub parent: u32,
    /// Place of its digest among those of the index, from 1; 0: no message that anyone could take.
    message: u32,
}

/// The lines of a transcript.
#[derive(Debug, Default)]
pub struct Index {
    lines: Vec<Line>,
    messages: Vec<MessageDigest>,
    blocks: Vec<BlockDigest>,
    strings: Strings,
    paths: Paths,
    // Line, and the place in it of the copy of a result that an interface keeps; of lines that are long.
    copies: Vec<(u32, u32, u32)>,
    bad: Vec<(u32, Problem)>,
    torn: Option<Range<u64>>,
    size: u64,
}

impl Index {
    /// Reads a whole transcript.
    ///
    /// ```
    /// use ullage_core::jsonl::Index;
    ///
    /// let index = Index::read(b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"Hi\"}}\n\n", None);
    /// let line = &index.lines()[0];
    /// assert_eq!(index.string(line.kind), b"user");
    /// assert_eq!(index.message(line).unwrap().block_count, 1);
    /// ```
    #[must_use]
    pub fn read(data: &[u8], weights: Option<&Weights>) -> Self {
        let mut reader = Reader::new(weights);
        reader.feed(data);
        reader.finish()
    }

    /// All lines that are not blank, in order.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The digest of a line, `None` for a line that holds no message or entry.
    #[must_use]
    pub fn message(&self, line: &Line) -> Option<&MessageDigest> {
        let place = line.message.checked_sub(1)?;
        self.messages.get(place as usize)
    }

    /// The digests of all blocks: those of a message begin at its `first_block`.
    #[must_use]
    pub fn blocks(&self) -> &[BlockDigest] {
        &self.blocks
    }

    /// A string by its number.
    #[must_use]
    pub fn string(&self, number: u32) -> &[u8] {
        self.strings.get(number)
    }

    /// How many strings there are, the empty one included.
    #[must_use]
    pub fn string_count(&self) -> usize {
        self.strings.len()
    }

    /// Number and problem of lines that could not be read, or not as they should be.
    #[must_use]
    pub fn bad(&self) -> &[(u32, Problem)] {
        &self.bad
    }

    /// Place of a last line that was not written to its end.
    #[must_use]
    pub fn torn(&self) -> Option<Range<u64>> {
        self.torn.clone()
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of a string, if a line has it.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.strings.find(text)
    }

    /// Where in a long line the copy of a result stands that an interface keeps (`toolUseResult`), if it is a container.
    #[must_use]
    pub fn ui_copy(&self, line: usize) -> Option<Range<usize>> {
        let line = saturate_len(line);
        let place = self
            .copies
            .binary_search_by_key(&line, |copy| copy.0)
            .ok()?;
        let (_, start, end) = self.copies[place];
        Some(start as usize..end as usize)
    }

    /// Lines with this subtype, or with this type and none, and the newest response that a model gave.
    #[must_use]
    pub fn outline(&self, subtype: &[u8]) -> (Vec<u32>, Option<u32>) {
        let wanted = self.strings.find(subtype).filter(|number| *number != 0);
        let marked = (0..).zip(&self.lines);
        // A line without a subtype goes by its type.
        let name = |line: &Line| {
            if line.subtype == 0 {
                line.kind
            } else {
                line.subtype
            }
        };
        let marked = marked.filter(|(_, line)| Some(name(line)) == wanted);
        let aside = message_flag::SIDECHAIN | message_flag::SYNTHETIC;
        let says = self.strings.find(b"assistant");
        let spoken = |line: &Line| {
            let flags = self.message(line).map_or(0, |found| found.flags);
            Some(line.kind) == says && flags & aside == 0
        };
        let newest = self.lines.iter().rposition(spoken).map(saturate_len);
        (marked.map(|(at, _)| at).collect(), newest)
    }

    /// What fills a context.
    ///
    /// `others` are messages in place of lines, by ascending places in `lines`; of those in `unmeasured` (sorted) the usage does not count.
    #[must_use]
    pub fn survey(
        &self,
        lines: &[usize],
        others: &[(usize, &Survey)],
        unmeasured: &[u32],
    ) -> Survey {
        let mut survey = Survey::default();
        let mut others = others.iter().peekable();
        for (place, at) in lines.iter().enumerate() {
            if let Some((_, other)) = others.next_if(|(known, _)| *known == place) {
                survey.join(other);
                continue;
            }
            let Some(message) = self.lines.get(*at).and_then(|line| self.message(line)) else {
                survey.strange = true;
                continue;
            };
            let mut copy = *message;
            if unmeasured.binary_search(&saturate_len(*at)).is_ok() {
                copy.usage = 0;
                copy.flags &= !message_flag::HAS_USAGE;
            }
            survey.copy(copy, self.own(message), &self.strings, &self.paths);
        }
        survey
    }

    fn own(&self, message: &MessageDigest) -> &[BlockDigest] {
        &self.blocks[message.own_blocks()]
    }
}

/// Makes an [`Index`] of bytes that come in pieces, each of whole lines but for the last.
#[derive(Debug)]
pub struct Reader<'w> {
    index: Index,
    weights: Option<&'w Weights>,
    tape: Tape,
    blocks: Vec<BlockDigest>,
    number: u32,
}

impl<'w> Reader<'w> {
    /// Begins at the start of a file.
    #[must_use]
    pub fn new(weights: Option<&'w Weights>) -> Self {
        Self {
            index: Index::default(),
            weights,
            tape: Tape::default(),
            blocks: Vec::new(),
            number: 0,
        }
    }

    /// Reads the bytes that follow those read before.
    pub fn feed(&mut self, data: &[u8]) {
        let base = self.index.size;
        let mut at = if base == 0 && data.starts_with(BOM) {
            BOM.len()
        } else {
            0
        };
        while at < data.len() {
            let end = memchr::memchr(b'\n', &data[at..]).map(|found| at + found);
            self.line(data, base, at..end.unwrap_or(data.len()), end.is_some());
            at = end.map_or(data.len(), |end| end + 1);
        }
        self.index.size = base + data.len() as u64;
    }

    /// The lines that were read so far.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.index.lines
    }

    /// The index of what was read.
    #[must_use]
    pub fn finish(mut self) -> Index {
        self.index.lines.shrink_to_fit();
        self.index.messages.shrink_to_fit();
        self.index.blocks.shrink_to_fit();
        self.index
    }

    fn line(&mut self, data: &[u8], base: u64, place: Range<usize>, ended: bool) {
        self.number = self.number.saturating_add(1);
        let place = trim(data, place);
        if place.is_empty() {
            return;
        }
        let source = Source::new(&data[place.start..], place.len());
        let offset = base + place.start as u64;
        let mut line = Line {
            offset,
            length: place.len() as u64,
            number: self.number,
            ..Line::default()
        };
        let problem = self.entry(source, &mut line);
        if problem.is_none() && place.len() > LONG_LINE {
            self.note_copy(source.bytes());
        }
        if !ended && !matches!(problem, None | Some(Problem::NotUtf8)) {
            self.index.torn = Some(offset..base + data.len() as u64);
            return;
        }
        if let Some(problem) = problem {
            self.index.bad.push((self.number, problem));
        }
        self.index.lines.push(line);
    }

    /// Reads what a line says; a problem other than the encoding leaves it unread.
    fn entry(&mut self, source: Source<'_>, line: &mut Line) -> Option<Problem> {
        match self.tape.read(source, is_counted) {
            Ok(()) => self.digest(source.bytes(), line),
            Err(Problem::NotUtf8) => {
                let text = String::from_utf8_lossy(source.bytes());
                let source = Source::new(text.as_bytes(), text.len());
                if let Err(problem) = self.tape.read(source, is_counted) {
                    return Some(problem);
                }
                self.digest(text.as_bytes(), line);
                return Some(Problem::NotUtf8);
            }
            Err(problem) => return Some(problem),
        }
        None
    }

    fn note_copy(&mut self, bytes: &[u8]) {
        let entry = Entry::new(&self.tape, bytes);
        let copy = entry.root().get("toolUseResult");
        if let Some((start, end)) = copy.and_then(item::Item::container) {
            let line = saturate_len(self.index.lines.len());
            self.index.copies.push((line, start, end));
        }
    }

    fn digest(&mut self, bytes: &[u8], line: &mut Line) {
        let entry = Entry::new(&self.tape, bytes);
        self.blocks.clear();
        let strings = &mut self.index.strings;
        let (names, read) = read_entry(entry.root(), self.weights, strings, &mut self.blocks);
        line.kind = names.kind;
        line.subtype = names.subtype;
        line.uuid = names.uuid;
        line.parent = names.parent;
        if let Ok(mut message) = read {
            message.first_block = saturate_len(self.index.blocks.len());
            let (first, paths) = (message.first_block, &mut self.index.paths);
            each_path(entry.root(), &self.blocks, |block, path| {
                with_utf8(path, |path| paths.add(first + block, path));
            });
            self.index.blocks.extend_from_slice(&self.blocks);
            self.index.messages.push(message);
            line.message = saturate_len(self.index.messages.len());
        }
    }
}

/// Keys of an entry whose containers are looked into; all others are for other readers than a model.
fn is_counted(key: &[u8]) -> bool {
    matches!(
        key,
        b"message"
            | b"content"
            | b"usage"
            | b"tool_calls"
            | b"function_call"
            | b"reasoning_content"
            | b"refusal"
    ) || key.contains(&b'\\')
}

fn trim(data: &[u8], mut place: Range<usize>) -> Range<usize> {
    let blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r');
    while !place.is_empty() && blank(data[place.start]) {
        place.start += 1;
    }
    while !place.is_empty() && blank(data[place.end - 1]) {
        place.end -= 1;
    }
    place
}
