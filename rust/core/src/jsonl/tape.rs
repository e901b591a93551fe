//! One line of a transcript as a flat tape of its values, made in one pass over its bytes.
//!
//! A node knows where its text is, how long its string is, and where the node after it stands, so that
//! members are found by hopping. Values at the top of an entry that nothing counts are one node each,
//! whatever they hold: the copies of tool output that an interface keeps are larger than all else.

use super::scan::{self, Fault};
use crate::json::unescape;
use crate::text::MAX_DEPTH;
use std::ops::Range;

/// Levels of a line that are looked into: what is counted may have [`MAX_DEPTH`] of its own.
const LEVELS: u32 = MAX_DEPTH + 16;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `false`.
    False,
    /// `true`.
    True,
    /// Digits, as written.
    Number,
    /// Its text, without quotes, as written.
    String,
    /// Its items follow.
    Array,
    /// Its members follow, each a key (a string) and a value.
    Object,
    /// An array or object that was not looked into.
    Skipped,
    /// A key that comes again later in the same object: the last one counts.
    Dropped,
}

/// A value. Places fit, since a line of more than 4 GiB is refused.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Of a string: bits of [`scan::Raw`].
    pub flags: u8,
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
    /// Code points of a string; items or members of a container.
    pub count: u32,
    /// Index of the node after it and all that it holds.
    pub next: u32,
}

/// Why a line is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It does not begin with a bracket.
    NotAnObject,
    /// It ends inside the object.
    Unfinished,
    /// It is not JSON.
    Malformed,
    /// Something stands after the object.
    Trailing,
    /// It is not UTF-8.
    NotUtf8,
}

impl Problem {
    /// In words, the same as the twin's.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotAnObject => "not a JSON object",
            Self::Unfinished => "ends inside the object",
            Self::Malformed => "malformed JSON",
            Self::Trailing => "text after the object",
            Self::NotUtf8 => "not UTF-8, read with replacement characters",
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unfinished => Self::Unfinished,
            Fault::Malformed => Self::Malformed,
            Fault::NotUtf8 => Self::NotUtf8,
        }
    }
}

/// The values of one line; made once and filled again for each.
#[derive(Debug, Default)]
pub struct Tape {
    nodes: Vec<Node>,
}

impl Tape {
    /// Reads the object that is the whole of `bytes`, white space around it aside.
    ///
    /// `descends` is asked for each key of the object itself, as written, whether its value counts.
    pub fn read(&mut self, bytes: &[u8], descends: impl Fn(&[u8]) -> bool) -> Result<(), Problem> {
        self.nodes.clear();
        let at = scan::skip_blank(bytes, 0);
        if bytes.get(at) != Some(&b'{') || u32::try_from(bytes.len()).is_err() {
            return Err(Problem::NotAnObject);
        }
        let end = self.object(bytes, at, 0, descends)?;
        if scan::skip_blank(bytes, end) < bytes.len() {
            return Err(Problem::Trailing);
        }
        Ok(())
    }

    /// All nodes; the first is the object itself.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    #[inline]
    pub(super) fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn value(&mut self, bytes: &[u8], at: usize, depth: u32) -> Result<usize, Fault> {
        match bytes.get(at) {
            Some(b'"') => self.string(bytes, at),
            Some(b'{' | b'[') if depth >= LEVELS => self.skipped(bytes, at),
            Some(b'{') => self.object(bytes, at, depth, |_| true),
            Some(b'[') => self.array(bytes, at, depth),
            _ => self.scalar(bytes, at),
        }
    }

    fn object(
        &mut self,
        bytes: &[u8],
        start: usize,
        depth: u32,
        descends: impl Fn(&[u8]) -> bool,
    ) -> Result<usize, Fault> {
        let own = self.push(Kind::Object, start..start);
        let (mut members, mut seen) = (0, Seen::default());
        let mut at = scan::expect(bytes, start + 1, b'"', b'}')?;
        while bytes[at] == b'"' {
            let key = self.nodes.len();
            let end = self.string(bytes, at)?;
            if seen.maybe(&bytes[at + 1..end - 1], self.nodes[key].flags) {
                members -= self.drop_earlier(bytes, own, key);
            }
            let value = scan::skip_blank(bytes, scan::expect(bytes, end, b':', b':')? + 1);
            let end = match bytes.get(value) {
                Some(b'{' | b'[') if !descends(&bytes[at + 1..end - 1]) => {
                    self.skipped(bytes, value)?
                }
                _ => self.value(bytes, value, depth + 1)?,
            };
            members += 1;
            at = scan::expect(bytes, end, b',', b'}')?;
            if bytes[at] == b',' {
                at = scan::expect(bytes, at + 1, b'"', b'"')?;
            }
        }
        self.close(own, at + 1, members);
        Ok(at + 1)
    }

    fn array(&mut self, bytes: &[u8], start: usize, depth: u32) -> Result<usize, Fault> {
        let own = self.push(Kind::Array, start..start);
        let mut items = 0;
        let mut at = scan::skip_blank(bytes, start + 1);
        if bytes.get(at) != Some(&b']') {
            loop {
                at = self.value(bytes, at, depth + 1)?;
                items += 1;
                at = scan::expect(bytes, at, b',', b']')?;
                if bytes[at] == b']' {
                    break;
                }
                at = scan::skip_blank(bytes, at + 1);
            }
        }
        self.close(own, at + 1, items);
        Ok(at + 1)
    }

    fn string(&mut self, bytes: &[u8], at: usize) -> Result<usize, Fault> {
        let found = scan::string(bytes, at + 1)?;
        let end = at + 1 + found.bytes.len();
        let next = self.nodes.len() + 1;
        self.nodes.push(Node {
            kind: Kind::String,
            flags: found.flags,
            start: (at + 1) as u32,
            end: end as u32,
            count: found.chars as u32,
            next: next as u32,
        });
        Ok(end + 1)
    }

    fn scalar(&mut self, bytes: &[u8], at: usize) -> Result<usize, Fault> {
        let end = scan::scalar_end(bytes, at)?;
        let kind = match bytes[at] {
            b'n' => Kind::Null,
            b'f' => Kind::False,
            b't' => Kind::True,
            _ => Kind::Number,
        };
        self.push(kind, at..end);
        Ok(end)
    }

    fn skipped(&mut self, bytes: &[u8], at: usize) -> Result<usize, Fault> {
        let end = scan::container_end(bytes, at)?;
        self.push(Kind::Skipped, at..end);
        Ok(end)
    }

    /// Drops an equal key before this one; how many there were, one at most.
    #[cold]
    fn drop_earlier(&mut self, bytes: &[u8], object: usize, key: usize) -> u32 {
        let text = |node: &Node| unescape(&bytes[node.start as usize..node.end as usize]);
        let wanted = text(&self.nodes[key]);
        let mut at = object + 1;
        while at < key {
            let node = self.nodes[at];
            if node.kind == Kind::String && text(&node) == wanted {
                self.nodes[at].kind = Kind::Dropped;
                return 1;
            }
            at = self.nodes[at + 1].next as usize;
        }
        0
    }

    fn push(&mut self, kind: Kind, place: Range<usize>) -> usize {
        let own = self.nodes.len();
        self.nodes.push(Node {
            kind,
            flags: 0,
            start: place.start as u32,
            end: place.end as u32,
            count: 0,
            next: (own + 1) as u32,
        });
        own
    }

    fn close(&mut self, own: usize, end: usize, count: u32) {
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[own];
        node.end = end as u32;
        node.next = next;
        node.count = count;
    }
}

/// Which keys an object may have had already: never wrong about a new one, seldom about an old one.
#[derive(Default)]
struct Seen {
    bits: [u64; 4],
    escapes: bool,
}

impl Seen {
    fn maybe(&mut self, key: &[u8], flags: u8) -> bool {
        // Length and both ends tell the keys of real messages apart.
        let (first, last) = (key.first().unwrap_or(&0), key.last().unwrap_or(&0));
        let mixed =
            first.wrapping_mul(7) ^ last.wrapping_mul(29) ^ (key.len() as u8).wrapping_mul(83);
        let (word, bit) = (usize::from(mixed >> 6), 1 << (mixed & 63));
        let known = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        self.escapes |= flags & scan::Raw::ESCAPES != 0;
        known || self.escapes
    }
}
