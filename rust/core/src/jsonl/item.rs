//! A value on a tape as a [`Value`]: what the tape knows is answered without a look at the text.

use super::tape::{Kind as Node, Tape};
use crate::json::{Json, unescape};
use crate::text::Text;
use crate::view::{Kind, LeafFault, Value, is_blank};

/// One value of a line.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    tape: &'a Tape,
    bytes: &'a [u8],
    at: u32,
}

/// Raw bytes of a long string that are unescaped for a glimpse.
const GLIMPSE: usize = 160;

impl<'a> Item<'a> {
    /// The object of the line that was read last; `bytes` are the same that were read.
    #[must_use]
    pub fn root(tape: &'a Tape, bytes: &'a [u8]) -> Self {
        Self { tape, bytes, at: 0 }
    }

    fn raw(self) -> &'a [u8] {
        let node = self.tape.node(self.at);
        &self.bytes[node.start as usize..node.end as usize]
    }

    fn to(self, at: u32) -> Self {
        Self { at, ..self }
    }

    /// Nodes from the first inside a container on, up to the node after it.
    fn inside(self) -> std::ops::Range<u32> {
        self.at + 1..self.tape.node(self.at).next
    }

    fn is_ascii(self) -> bool {
        // Every escape makes a string shorter, and so does every character of several bytes.
        let node = self.tape.node(self.at);
        !node.escapes && node.count == node.end - node.start
    }

    /// A text without its escapes, or nothing if it has none.
    fn unescaped(self) -> Option<Vec<u8>> {
        let escapes = self.tape.node(self.at).escapes;
        escapes.then(|| unescape(self.raw()))
    }

    fn look<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        if self.is_ascii() {
            return look(Text::Ascii(self.raw()));
        }
        match self.unescaped() {
            Some(text) => look(Text::Wtf8(&text)),
            None => look(Text::Wtf8(self.raw())),
        }
    }
}

impl Value for Item<'_> {
    fn kind(self) -> Kind {
        match self.tape.node(self.at).kind {
            Node::Null => Kind::Null,
            Node::False => Kind::False,
            Node::True => Kind::True,
            Node::Number => Json(self.raw()).kind(),
            Node::String | Node::Dropped => Kind::Text,
            Node::Array => Kind::List,
            Node::Skipped if self.raw().first() == Some(&b'[') => Kind::List,
            Node::Object | Node::Skipped => Kind::Map,
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
            u64::from(self.tape.node(self.at).count)
        } else {
            0
        }
    }

    fn json_chars(self) -> u64 {
        let raw = self.raw();
        let long_way = raw.iter().any(|&byte| byte < 0x20) || has_long_escapes(raw);
        if !self.is_text() || long_way {
            return self.with_text(crate::text::string_json_length);
        }
        // What was written short is written short again: one more for each escape.
        let parts = raw.iter().filter(|&&byte| byte & 0xC0 == 0x80).count();
        2 + (raw.len() - parts) as u64
    }

    fn with_glimpse<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        let raw = self.raw();
        if !self.is_text() || !self.tape.node(self.at).escapes || raw.len() <= 2 * GLIMPSE {
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
        match self.tape.node(self.at).kind {
            Node::Number => Json(self.raw()).count(),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self.tape.node(self.at).kind {
            Node::Array | Node::Object => self.tape.node(self.at).count as usize,
            _ => 0,
        }
    }

    fn each_item(self, mut visit: impl FnMut(Self)) {
        if self.tape.node(self.at).kind == Node::Array {
            let mut inside = self.inside();
            while !inside.is_empty() {
                visit(self.to(inside.start));
                inside.start = self.tape.node(inside.start).next;
            }
        }
    }

    fn each_member(self, mut visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault> {
        if self.tape.node(self.at).kind == Node::Object {
            let mut inside = self.inside();
            while !inside.is_empty() {
                let (key, value) = (self.to(inside.start), self.to(inside.start + 1));
                if self.tape.node(key.at).kind != Node::Dropped {
                    key.look(|text| visit(text, value));
                }
                inside.start = self.tape.node(value.at).next;
            }
        }
        Ok(())
    }
}

/// Whether there are escapes that compact JSON would not write.
fn has_long_escapes(raw: &[u8]) -> bool {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        if matches!(rest.get(at + 1), Some(b'u' | b'/')) {
            return true;
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    false
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
