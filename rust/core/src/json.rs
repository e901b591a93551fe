//! JSON bytes as a [`Value`]: a slice that is cut up only where somebody looks.
//!
//! Strings are UTF-8; escapes may make lone surrogates. Malformed input never panics: what cannot be cut further ends there.
//! Nothing here validates: whether a line is JSON at all is for the caller to settle.

use crate::text::Text;
use crate::view::{Kind, LeafFault, Value, push_point};
use hashbrown::HashTable;
use memchr::memchr2;
use std::hash::{BuildHasher, Hasher};
use wide::u8x16;

/// One value: exactly its bytes, without white space around it.
///
/// ```
/// use ullage_core::json::Json;
/// use ullage_core::view::Value;
///
/// let value = Json::first(br#" {"a": [1, 2], "a": "last"} rest"#).unwrap();
/// assert!(value.get("a").unwrap().is("last"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Json<'a>(pub &'a [u8]);

impl<'a> Json<'a> {
    /// The value at the start of `bytes`, after white space; `None` if none can be cut out.
    #[must_use]
    pub fn first(bytes: &'a [u8]) -> Option<Self> {
        let start = skip_space(bytes, 0);
        let end = skip_value(bytes, start)?;
        Some(Self(&bytes[start..end]))
    }

    /// A string's bytes between its quotes, escapes and all; `None` if it is no string.
    #[must_use]
    pub fn raw_text(self) -> Option<&'a [u8]> {
        match self.0 {
            [b'"', inner @ .., b'"'] => Some(inner),
            _ => None,
        }
    }

    /// The members of an object in order; of equal keys the last value stands in the first one's place, as in Python.
    #[must_use]
    pub fn members(self) -> Vec<(&'a [u8], Self)> {
        let mut found: Vec<(&[u8], Self)> = Vec::with_capacity(8);
        let mut at = skip_space(self.0, 1);
        while self.0.get(at) == Some(&b'"') {
            let Some(key_end) = skip_string(self.0, at) else {
                break;
            };
            let key = &self.0[at + 1..key_end - 1];
            let colon = skip_space(self.0, key_end);
            if self.0.get(colon) != Some(&b':') {
                break;
            }
            let start = skip_space(self.0, colon + 1);
            let Some(end) = skip_value(self.0, start) else {
                break;
            };
            found.push((key, Self(&self.0[start..end])));
            let comma = skip_space(self.0, end);
            at = if self.0.get(comma) == Some(&b',') {
                skip_space(self.0, comma + 1)
            } else {
                self.0.len()
            };
        }
        without_doubles(&mut found);
        found
    }
}

fn without_doubles(members: &mut Vec<(&[u8], Json<'_>)>) {
    if members.len() >= MANY {
        return without_many_doubles(members);
    }
    let mut at = 1;
    while at < members.len() {
        let (key, value) = members[at];
        let earlier = members[..at]
            .iter()
            .position(|(known, _)| same_key(known, key));
        if let Some(earlier) = earlier {
            members[earlier].1 = value;
            members.remove(at);
        } else {
            at += 1;
        }
    }
}

/// From so many members on a table is made; fewer are compared one by one.
const MANY: usize = 64;

fn without_many_doubles(members: &mut Vec<(&[u8], Json<'_>)>) {
    let mut places: HashTable<usize> = HashTable::with_capacity(members.len());
    let mut kept: Vec<(&[u8], Json<'_>)> = Vec::with_capacity(members.len());
    for (key, value) in members.drain(..) {
        let hash = key_hash(key);
        if let Some(&known) = places.find(hash, |&known| same_key(kept[known].0, key)) {
            kept[known].1 = value;
        } else {
            places.insert_unique(hash, kept.len(), |&known| key_hash(kept[known].0));
            kept.push((key, value));
        }
    }
    *members = kept;
}

/// Whether two keys have the same text, however they are written.
pub(crate) fn same_key(a: &[u8], b: &[u8]) -> bool {
    if !a.contains(&b'\\') && !b.contains(&b'\\') {
        return a == b;
    }
    unescape(a) == unescape(b)
}

/// The same for keys with the same text.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    // Keys come from outside: a hash that is merely fast would let them collide at will.
    let mut hasher = foldhash::quality::FixedState::default().build_hasher();
    if key.contains(&b'\\') {
        hasher.write(&unescape(key));
    } else {
        hasher.write(key);
    }
    hasher.finish()
}

impl Value for Json<'_> {
    fn kind(self) -> Kind {
        match self.0.first() {
            Some(b'"') => Kind::Text,
            Some(b'{') => Kind::Map,
            Some(b'[') => Kind::List,
            Some(b't') => Kind::True,
            Some(b'f') => Kind::False,
            Some(b'n') => Kind::Null,
            Some(b'-' | b'0'..=b'9') if self.0.iter().any(|byte| b".eEI".contains(byte)) => {
                Kind::Float
            }
            Some(b'-' | b'0'..=b'9') => Kind::Integer,
            Some(b'N' | b'I') => Kind::Float,
            _ => Kind::Foreign,
        }
    }

    fn with_text<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        let raw = self.raw_text().unwrap_or(b"");
        with_unescaped(raw, look)
    }

    fn with_word<R>(self, look: impl FnOnce(&str) -> R) -> Result<R, LeafFault> {
        let written = std::str::from_utf8(self.0).unwrap_or("");
        match self.kind() {
            Kind::Null | Kind::True | Kind::False => Ok(look(written)),
            Kind::Integer if written.len() > MAX_DIGITS => Err(LeafFault::Digits),
            Kind::Integer => Ok(look(if written == "-0" { "0" } else { written })),
            Kind::Float => Ok(look(&crate::text::float_repr(float(written)))),
            _ => Err(LeafFault::Foreign(self.foreign_name())),
        }
    }

    fn count(self) -> Option<u32> {
        if self.kind() != Kind::Integer {
            return None;
        }
        if self.0[0] == b'-' {
            return Some(0);
        }
        let digits = std::str::from_utf8(self.0).ok()?;
        Some(digits.parse().unwrap_or(u32::MAX))
    }

    fn size(self) -> usize {
        match self.kind() {
            Kind::Map => self.members().len(),
            Kind::List => {
                let mut count = 0;
                self.each_item(|_| count += 1);
                count
            }
            _ => 0,
        }
    }

    fn each_item(self, mut visit: impl FnMut(Self)) {
        if !self.is_list() {
            return;
        }
        let mut at = skip_space(self.0, 1);
        while let Some(end) = skip_value(self.0, at) {
            visit(Self(&self.0[at..end]));
            let comma = skip_space(self.0, end);
            if self.0.get(comma) != Some(&b',') {
                break;
            }
            at = skip_space(self.0, comma + 1);
        }
    }

    fn each_member(self, mut visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault> {
        if self.is_map() {
            for (key, value) in self.members() {
                with_unescaped(key, |key| visit(key, value));
            }
        }
        Ok(())
    }
}

/// Below the bits that an integer may have (`text::MAX_INT_BITS`).
const MAX_DIGITS: usize = 4214;

fn float(written: &str) -> f64 {
    match written {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        number => number.parse().unwrap_or(f64::NAN),
    }
}

fn with_unescaped<R>(raw: &[u8], look: impl FnOnce(Text<'_>) -> R) -> R {
    if memchr::memchr(b'\\', raw).is_none() {
        look(Text::Wtf8(raw))
    } else {
        look(Text::Wtf8(&unescape(raw)))
    }
}

/// The text of a string's inner bytes. A pair of surrogate escapes is one character; a lone one stays as it is.
#[must_use]
pub(crate) fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(part) = rest.first_chunk::<PART>() {
        // To copy all of it takes less than to copy what is needed.
        text.extend_from_slice(part);
        let at = slashes(part).trailing_zeros() as usize;
        rest = &rest[at..];
        if at < PART {
            text.truncate(text.len() + at - PART);
            rest = escape(&rest[1..], &mut text);
        }
    }
    while let Some(at) = memchr::memchr(b'\\', rest) {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        rest = escape(rest, &mut text);
    }
    text.extend_from_slice(rest);
    text
}

/// Bytes that are looked at together: in tool output an escape ends each line.
const PART: usize = 32;

/// A bit for each backslash.
fn slashes(part: &[u8; PART]) -> u32 {
    let (lanes, _) = part.as_chunks();
    let bits = lanes
        .iter()
        .map(|lane| u8x16::new(*lane).simd_eq(u8x16::splat(b'\\')).to_bitmask());
    bits.rev().fold(0, |all, bits| all << 16 | bits)
}

/// Writes what an escape stands for and returns what follows it.
fn escape<'a>(rest: &'a [u8], text: &mut Vec<u8>) -> &'a [u8] {
    let Some((&letter, after)) = rest.split_first() else {
        return rest;
    };
    let byte = match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0C,
        b'u' => return unicode(after, text),
        other => other,
    };
    text.push(byte);
    after
}

fn unicode<'a>(rest: &'a [u8], text: &mut Vec<u8>) -> &'a [u8] {
    let Some(high) = hex4(rest) else { return rest };
    let after = &rest[4..];
    if (0xD800..0xDC00).contains(&high)
        && let [b'\\', b'u', more @ ..] = after
        && let Some(low) = hex4(more)
        && (0xDC00..0xE000).contains(&low)
    {
        push_point(text, 0x1_0000 + ((high - 0xD800) << 10 | (low - 0xDC00)));
        return &more[4..];
    }
    push_point(text, high);
    after
}

fn hex4(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(..4)?;
    digits.iter().try_fold(0, |sum, &digit| {
        Some(sum << 4 | char::from(digit).to_digit(16)?)
    })
}

/// Where the parts of the list or object that begins at `at` stand: elements, or keys and values in turn; `None` if it is neither, or cut off.
///
/// ```
/// assert_eq!(ullage_core::json::parts(br#"{"a": [1]}"#, 0), Some(vec![(1, 4), (6, 9)]));
/// ```
#[must_use]
pub fn parts(bytes: &[u8], mut at: usize) -> Option<Vec<(usize, usize)>> {
    if !matches!(bytes.get(at)?, b'[' | b'{') {
        return None;
    }
    at += 1;
    let mut found = Vec::new();
    loop {
        at = skip_space(bytes, at);
        match bytes.get(at)? {
            b']' | b'}' => return Some(found),
            b',' | b':' => at += 1,
            _ => {
                let end = skip_value(bytes, at)?;
                found.push((at, end));
                at = end;
            }
        }
    }
}

/// The first position at or after `at` that is no JSON white space.
#[must_use]
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The position after the string that begins at `at`.
#[must_use]
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let found = from + memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[found] == b'"' {
            return Some(found + 1);
        }
        from = found + 2;
    }
}

/// The position after the value that begins at `at`; its inside is not validated.
#[must_use]
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => skip_string(bytes, at),
        b'{' | b'[' => skip_container(bytes, at),
        b',' | b':' | b'}' | b']' => None,
        _ => {
            let ends = |byte: &u8| {
                matches!(
                    byte,
                    b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r'
                )
            };
            Some(
                bytes[at..]
                    .iter()
                    .position(ends)
                    .map_or(bytes.len(), |end| at + end),
            )
        }
    }
}

fn skip_container(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut from = at;
    while let Some(&byte) = bytes.get(from) {
        from += 1;
        match byte {
            b'"' => from = skip_string(bytes, from - 1)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(from);
                }
            }
            _ => {}
        }
    }
    None
}
