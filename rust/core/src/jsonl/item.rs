//! A value on a tape as a [`Value`]: what the tape knows is answered without a look at the text.

use super::scan::Raw;
use super::tape::{Kind as Is, Node, Tape};
use crate::json::{Json, unescape};
use crate::text::{Text, string_json_length};
use crate::view::{Kind, LeafFault, Value, is_blank};

/// A line that was read: the tape and the bytes that it speaks of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    nodes: &'a [Node],
    bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The line that the tape read last; `bytes` are the same that were read.
    #[must_use]
    pub(super) fn new(tape: &'a Tape, bytes: &'a [u8]) -> Self {
        let nodes = tape.nodes();
        Self { nodes, bytes }
    }

    /// The object that it is.
    #[must_use]
    pub(super) fn root(&'a self) -> Item<'a> {
        Item { line: self, at: 0 }
    }
}

/// One value of a line. Small, since whoever reads an object holds dozens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    line: &'a Entry<'a>,
    at: u32,
}

/// Raw bytes of a long string that are unescaped for a glimpse.
const GLIMPSE: usize = 160;

impl<'a> Item<'a> {
    #[inline]
    fn node(self) -> &'a Node {
        &self.line.nodes[self.at as usize]
    }

    #[inline]
    fn raw(self) -> &'a [u8] {
        let node = self.node();
        &self.line.bytes[node.start as usize..node.end as usize]
    }

    #[inline]
    fn to(self, at: u32) -> Self {
        Self { at, ..self }
    }

    /// Where a container stands in the line.
    pub(super) fn container(self) -> Option<(u32, u32)> {
        let node = self.node();
        let held = matches!(node.kind, Is::Skipped | Is::Array | Is::Object);
        held.then_some((node.start, node.end))
    }

    /// The first node inside a container, and the node after it.
    fn inside(self) -> (u32, u32) {
        (self.at + 1, self.node().next)
    }

    fn has(self, flag: u8) -> bool {
        self.node().flags & flag != 0
    }

    #[inline]
    fn look<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        match self.node().flags {
            0 => look(Text::Ascii(self.raw())),
            Raw::WIDE => look(Text::Wtf8(self.raw())),
            _ => look(Text::Wtf8(&unescape(self.raw()))),
        }
    }
}

impl Value for Item<'_> {
    #[inline]
    fn kind(self) -> Kind {
        match self.node().kind {
            Is::Null => Kind::Null,
            Is::False => Kind::False,
            Is::True => Kind::True,
            Is::Number => Json(self.raw()).kind(),
            Is::String | Is::Dropped => Kind::Text,
            Is::Array => Kind::List,
            Is::Skipped if self.raw().first() == Some(&b'[') => Kind::List,
            Is::Object | Is::Skipped => Kind::Map,
        }
    }

    #[inline]
    fn is_text(self) -> bool {
        matches!(self.node().kind, Is::String | Is::Dropped)
    }

    #[inline]
    fn is_null(self) -> bool {
        self.node().kind == Is::Null
    }

    #[inline]
    fn is_list(self) -> bool {
        match self.node().kind {
            Is::Array => true,
            Is::Skipped => self.raw().first() == Some(&b'['),
            _ => false,
        }
    }

    #[inline]
    fn is_map(self) -> bool {
        match self.node().kind {
            Is::Object => true,
            Is::Skipped => self.raw().first() == Some(&b'{'),
            _ => false,
        }
    }

    fn with_text<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        if self.is_text() {
            self.look(look)
        } else {
            look(Text::Ascii(b""))
        }
    }

    fn chars(self) -> u64 {
        if self.is_text() {
            u64::from(self.node().count)
        } else {
            0
        }
    }

    fn json_chars(self) -> u64 {
        let raw = self.raw();
        if !self.is_text() || self.has(Raw::LONG_ESCAPES) || has_controls(raw) {
            return self.with_text(string_json_length);
        }
        // What was written short is written short again; only wide characters take more bytes.
        let parts = if self.has(Raw::WIDE) {
            continuations(raw)
        } else {
            0
        };
        2 + (raw.len() - parts) as u64
    }

    fn with_glimpse<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        let raw = self.raw();
        if !self.is_text() || !self.has(Raw::ESCAPES) || raw.len() <= 2 * GLIMPSE {
            return self.with_text(look);
        }
        let mut text = unescape(&raw[..boundary(raw, GLIMPSE)]);
        text.extend(unescape(&raw[last_start(raw)..]));
        if is_blank(Text::Wtf8(&text)) {
            return self.with_text(look);
        }
        look(Text::Wtf8(&text))
    }

    fn with_word<R>(self, look: impl FnOnce(&str) -> R) -> Result<R, LeafFault> {
        Json(self.raw()).with_word(look)
    }

    fn count(self) -> Option<u32> {
        if self.node().kind != Is::Number {
            return None;
        }
        few_digits(self.raw()).or_else(|| Json(self.raw()).count())
    }

    fn size(self) -> usize {
        match self.node().kind {
            Is::Array | Is::Object => self.node().count as usize,
            _ => 0,
        }
    }

    fn each_item(self, mut visit: impl FnMut(Self)) {
        if self.node().kind == Is::Array {
            let (mut at, end) = self.inside();
            while at < end {
                visit(self.to(at));
                at = self.to(at).node().next;
            }
        }
    }

    #[inline]
    fn each_member(self, mut visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault> {
        if self.node().kind == Is::Object {
            let (mut at, end) = self.inside();
            while at < end {
                let (key, value) = (self.to(at), self.to(at + 1));
                at = value.node().next;
                if key.node().kind == Is::String {
                    key.look(|text| visit(text, value));
                }
            }
        }
        Ok(())
    }
}

/// The number that up to nine digits write, if there is nothing else.
fn few_digits(raw: &[u8]) -> Option<u32> {
    if raw.len() > 9 || !raw.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = raw.iter().map(|byte| u32::from(byte - b'0'));
    Some(digits.fold(0, |number, digit| number * 10 + digit))
}

/// Whether there are control characters, which JSON writes as escapes.
fn has_controls(raw: &[u8]) -> bool {
    let any = |part: &[u8]| {
        part.iter()
            .fold(0, |any, &byte| any | u8::from(byte < 0x20))
            != 0
    };
    raw.chunks(64).any(any)
}

fn continuations(raw: &[u8]) -> usize {
    raw.iter().filter(|&&byte| byte & 0xC0 == 0x80).count()
}

/// The first place from `least` on where neither an escape nor a character goes on.
fn boundary(raw: &[u8], least: usize) -> usize {
    let mut at = 0;
    while at < least {
        at = match memchr::memchr(b'\\', &raw[at..least]) {
            None => least,
            // A pair of surrogates is twelve bytes, and may be cut: its halves are no white space.
            Some(found) if raw[at + found + 1] == b'u' => at + found + 6,
            Some(found) => at + found + 2,
        };
    }
    while raw.get(at).is_some_and(|byte| byte & 0xC0 == 0x80) {
        at += 1;
    }
    at
}

/// Where the last character begins, its escape included.
fn last_start(raw: &[u8]) -> usize {
    // An escape is at most six bytes: from its backslash on if an even number stands before that.
    let tail = raw.len().saturating_sub(6);
    let slashes = |end: usize| {
        raw[..end]
            .iter()
            .rev()
            .take_while(|byte| **byte == b'\\')
            .count()
    };
    for at in tail..raw.len() {
        let length = if raw.get(at + 1) == Some(&b'u') { 6 } else { 2 };
        if raw[at] == b'\\' && slashes(at) % 2 == 0 && at + length == raw.len() {
            return at;
        }
    }
    let back = (1..=4).find(|back| raw[raw.len() - back] & 0xC0 != 0x80);
    raw.len() - back.unwrap_or(1)
}
