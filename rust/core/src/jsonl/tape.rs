//! One line of a transcript as a flat tape of its values, made in one pass over its bytes.
//!
//! A node knows where its text is, how long its string is, and where the node after it stands, so that
//! members are found by hopping. Values at the top of an entry that nothing counts are one node each,
//! whatever they hold: the copies of tool output that an interface keeps are larger than all else.

use super::keys::{Keys, MANY};
use super::scan::{self, Container, Fault, Raw};
use super::seen::Seen;
use super::source::Source;
use crate::json::same_key;
use crate::simd::{Wide, WideWork, widest_lanes};
use crate::text::MAX_DEPTH;
use std::ops::Range;

/// Levels of a line that are looked into: what is counted may have [`MAX_DEPTH`] of its own.
const LEVELS: usize = MAX_DEPTH as usize + 16;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Node {
    /// What it is.
    pub(super) kind: Kind,
    /// Of a string: bits of [`Raw`].
    pub(super) flags: u8,
    /// First byte.
    pub(super) start: u32,
    /// Byte after the last.
    pub(super) end: u32,
    /// Code points of a string; items or members of a container.
    pub(super) count: u32,
    /// Index of the node after it and all that it holds.
    pub(super) next: u32,
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
        }
    }
}

/// The values of one line; made once and filled again for each.
#[derive(Debug, Default)]
pub(super) struct Tape {
    nodes: Vec<Node>,
    open: Vec<Open>,
    keys: Keys,
}

impl Tape {
    /// Reads the object that is the whole of the source, white space around it aside.
    ///
    /// `descends` is asked for each key of the object itself, as written, whether its value counts.
    pub(super) fn read(
        &mut self,
        source: Source<'_>,
        descends: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Problem> {
        self.nodes.clear();
        self.open.clear();
        self.keys.clear();
        let bytes = source.bytes();
        let start = scan::skip_blank(bytes, 0);
        if bytes.get(start) != Some(&b'{') || u32::try_from(bytes.len()).is_err() {
            return Err(Problem::NotAnObject);
        }
        let own = self.push(Kind::Object, start..start, 0, 0);
        let found = widest_lanes(Reading {
            tape: self,
            source,
            descends,
            top: Open::new(own, b'}'),
            wide: false,
        })?;
        if scan::skip_blank(bytes, found.end) < bytes.len() {
            return Err(Problem::Trailing);
        }
        if found.wide && simdutf8::basic::from_utf8(bytes).is_err() {
            return Err(Problem::NotUtf8);
        }
        Ok(())
    }

    /// All nodes; the first is the object itself.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    #[inline(always)]
    fn push(&mut self, kind: Kind, place: Range<usize>, flags: u8, count: usize) -> usize {
        let own = self.nodes.len();
        self.nodes.push(Node {
            kind,
            flags,
            start: place.start as u32,
            end: place.end as u32,
            count: count as u32,
            next: (own + 1) as u32,
        });
        own
    }

    #[inline(always)]
    fn close(&mut self, container: &Open, end: usize) {
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[container.node];
        node.end = end as u32;
        node.next = next;
        node.count = container.count;
    }

    /// Drops an equal key before this one; how many there were, one at most.
    #[cold]
    fn drop_earlier(&mut self, bytes: &[u8], object: &Open, key: usize) -> u32 {
        // Members that were read, not those that are left: a key that stands again and again leaves one.
        if key - object.node > 2 * MANY {
            let found = self.keys.earlier(&self.nodes, bytes, object.node, key);
            let Some(earlier) = found else {
                return 0;
            };
            self.nodes[earlier].kind = Kind::Dropped;
            return 1;
        }
        let raw = |node: &Node| &bytes[node.start as usize..node.end as usize];
        let wanted = self.nodes[key];
        let mut at = object.node + 1;
        while at < key {
            let node = &mut self.nodes[at];
            if node.kind == Kind::String && same_key(raw(node), raw(&wanted)) {
                node.kind = Kind::Dropped;
                return 1;
            }
            at = self.nodes[at + 1].next as usize;
        }
        0
    }
}

/// A container of which the end was not seen yet.
#[derive(Debug)]
struct Open {
    node: usize,
    count: u32,
    // The bracket that closes it.
    closes: u8,
    seen: Seen,
}

impl Open {
    #[inline(always)]
    fn new(node: usize, closes: u8) -> Self {
        Self {
            node,
            count: 0,
            closes,
            seen: Seen::default(),
        }
    }
}

/// Where a line's object ends, and whether there is more than ASCII in its strings.
struct Found {
    end: usize,
    wide: bool,
}

/// Fills a tape.
struct Reading<'a, D> {
    tape: &'a mut Tape,
    source: Source<'a>,
    descends: D,
    // The container that is being read; those around it are in the tape.
    top: Open,
    wide: bool,
}

impl<D: Fn(&[u8]) -> bool> WideWork for Reading<'_, D> {
    type Output = Result<Found, Fault>;

    #[inline(always)]
    fn run<W: Wide>(self) -> Self::Output {
        // A copy lies in registers, which what was handed over by its address does not.
        let mut own = Reading { ..self };
        own.object::<W>()
    }
}

impl<'a, D: Fn(&[u8]) -> bool> Reading<'a, D> {
    #[inline(always)]
    fn object<W: Wide>(&mut self) -> Result<Found, Fault> {
        let mut at = self.first(self.tape.nodes[0].start as usize, b'}')?;
        loop {
            let empty = self.top.count == 0 && self.byte(at) == Some(self.top.closes);
            if !empty {
                let (value, counts) = self.key::<W>(at)?;
                let (next, entered) = self.value::<W>(value, counts)?;
                at = next;
                if entered {
                    continue;
                }
            }
            let (next, finished) = self.follow(at, empty)?;
            at = next;
            if finished {
                let (end, wide) = (at, self.wide);
                return Ok(Found { end, wide });
            }
        }
    }

    #[inline(always)]
    fn bytes(&self) -> &'a [u8] {
        self.source.bytes()
    }

    #[inline(always)]
    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes().get(at).copied()
    }

    /// The place of what a container begins with, or of the bracket that ends an empty one.
    #[inline(always)]
    fn first(&self, at: usize, closes: u8) -> Result<usize, Fault> {
        if closes == b'}' {
            scan::expect(self.bytes(), at + 1, b'"', closes)
        } else {
            Ok(scan::skip_blank(self.bytes(), at + 1))
        }
    }

    /// Reads the key of a member, if this is an object: the place of its value, and whether that counts.
    #[inline(always)]
    fn key<W: Wide>(&mut self, at: usize) -> Result<(usize, bool), Fault> {
        if self.top.closes != b'}' {
            return Ok((at, true));
        }
        let bytes = self.bytes();
        let found = scan::string::<W>(self.source, at + 1)?;
        let key = &bytes[at + 1..found.end];
        let node = self.text(at + 1, found);
        if self.top.seen.maybe(key, found.flags) {
            self.top.count -= self.tape.drop_earlier(bytes, &self.top, node);
        }
        let colon = scan::expect(bytes, found.end + 1, b':', b':')?;
        let value = scan::skip_blank(bytes, colon + 1);
        let skips = self.tape.open.is_empty()
            && matches!(bytes.get(value), Some(b'{' | b'['))
            && !(self.descends)(key);
        Ok((value, !skips))
    }

    /// Reads a value: the place after it, or the place of what it begins with and that this was entered.
    #[inline(always)]
    fn value<W: Wide>(&mut self, at: usize, counts: bool) -> Result<(usize, bool), Fault> {
        let end = match self.byte(at) {
            Some(b'"') => {
                let found = scan::string::<W>(self.source, at + 1)?;
                self.text(at + 1, found);
                found.end + 1
            }
            Some(b'{' | b'[') if !counts || self.tape.open.len() + 1 >= LEVELS => {
                let skipped = W::apart(Container(self.source, at))?;
                self.wide |= skipped.wide;
                self.tape.push(Kind::Skipped, at..skipped.end, 0, 0);
                skipped.end
            }
            Some(b'{') => return self.enter(at, Kind::Object, b'}'),
            Some(b'[') => return self.enter(at, Kind::Array, b']'),
            _ => {
                let end = scan::scalar_end(self.bytes(), at)?;
                self.tape.push(scalar(self.bytes()[at]), at..end, 0, 0);
                end
            }
        };
        Ok((end, false))
    }

    #[inline(always)]
    fn text(&mut self, start: usize, found: Raw) -> usize {
        self.wide |= found.flags & Raw::WIDE != 0;
        let place = start..found.end;
        self.tape
            .push(Kind::String, place, found.flags, found.chars)
    }

    #[inline(always)]
    fn enter(&mut self, at: usize, kind: Kind, closes: u8) -> Result<(usize, bool), Fault> {
        let node = self.tape.push(kind, at..at, 0, 0);
        let outer = std::mem::replace(&mut self.top, Open::new(node, closes));
        self.tape.open.push(outer);
        Ok((self.first(at, closes)?, true))
    }

    /// The place of what follows a value, or an empty container's last bracket; whether that is all.
    #[inline(always)]
    fn follow(&mut self, mut at: usize, mut closing: bool) -> Result<(usize, bool), Fault> {
        let bytes = self.bytes();
        loop {
            if !closing {
                self.top.count += 1;
                at = scan::expect(bytes, at, b',', self.top.closes)?;
                if bytes[at] == b',' {
                    return Ok((self.after_comma(at)?, false));
                }
            }
            closing = false;
            at += 1;
            self.tape.close(&self.top, at);
            let Some(outer) = self.tape.open.pop() else {
                return Ok((at, true));
            };
            self.top = outer;
        }
    }

    #[inline(always)]
    fn after_comma(&self, at: usize) -> Result<usize, Fault> {
        if self.top.closes == b'}' {
            scan::expect(self.bytes(), at + 1, b'"', b'"')
        } else {
            Ok(scan::skip_blank(self.bytes(), at + 1))
        }
    }
}

fn scalar(first: u8) -> Kind {
    match first {
        b'n' => Kind::Null,
        b'f' => Kind::False,
        b't' => Kind::True,
        _ => Kind::Number,
    }
}
