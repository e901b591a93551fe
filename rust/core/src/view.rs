//! What a JSON-like value must answer, so that messages are read by one algorithm wherever they lie.
//!
//! Implemented for JSON bytes in [`crate::json`], for Python objects in the binding.

use crate::text::{Text, string_json_length};

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true`.
    True,
    /// `false`.
    False,
    /// An integer of any size.
    Integer,
    /// Any other number.
    Float,
    /// A string.
    Text,
    /// An array.
    List,
    /// An object.
    Map,
    /// Something that JSON does not have.
    Foreign,
}

impl Kind {
    /// The JSON word for the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::True | Self::False => "boolean",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Text => "string",
            Self::List => "list",
            Self::Map => "object",
            Self::Foreign => "foreign",
        }
    }
}

/// Why a leaf cannot be written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafFault {
    /// JSON does not have it; the name of its type.
    Foreign(String),
    /// An integer with more digits than the interpreter writes.
    Digits,
}

/// A JSON-like value that somebody else owns.
pub trait Value: Copy {
    /// What it is.
    fn kind(self) -> Kind;

    /// Looks at a string; an empty one if it is none.
    fn with_text<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R;

    /// Code points of a string; 0 if it is none.
    fn chars(self) -> u64 {
        self.with_text(|text| text.char_len() as u64)
    }

    /// Code points of a string as compact JSON, quotes included.
    fn json_chars(self) -> u64 {
        self.with_text(string_json_length)
    }

    /// Looks at a string of which the middle may be left out: it begins and ends as the whole does for a
    /// hundred characters and one, and is blank only if the whole is.
    fn with_glimpse<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        self.with_text(look)
    }

    /// Looks at a number, `true`, `false` or `null` as compact JSON spells it.
    fn with_word<R>(self, look: impl FnOnce(&str) -> R) -> Result<R, LeafFault>;

    /// How long [`Value::with_word`] spells it.
    fn word_chars(self) -> Result<u64, LeafFault> {
        self.with_word(|word| word.len() as u64)
    }

    /// An integer as a count: negative is 0, too large is `u32::MAX`; `None` if it is no integer.
    fn count(self) -> Option<u32>;

    /// How many items or members it has; 0 if it is no container.
    fn size(self) -> usize;

    /// Visits the items of a list, in order.
    fn each_item(self, visit: impl FnMut(Self));

    /// Visits the members of an object, in order; keys that are numbers or words are spelled out.
    fn each_member(self, visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault>;

    /// The name of a foreign type.
    fn foreign_name(self) -> String {
        self.kind().name().to_owned()
    }

    /// Whether it is a string, list or object itself, not an instance of a subclass.
    fn is_exact(self) -> bool {
        true
    }

    /// Whether it is a string.
    fn is_text(self) -> bool {
        self.kind() == Kind::Text
    }

    /// Whether it is a string equal to this one.
    fn is(self, wanted: &str) -> bool {
        self.is_text() && self.with_text(|text| equals(text, wanted.as_bytes()))
    }

    /// Whether it is a list.
    fn is_list(self) -> bool {
        self.kind() == Kind::List
    }

    /// Whether it is an object.
    fn is_map(self) -> bool {
        self.kind() == Kind::Map
    }

    /// Whether it is `null`.
    fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The first item, if it is the only one.
    fn only_item(self) -> Option<Self> {
        let mut found = None;
        if self.size() == 1 {
            self.each_item(|item| found = Some(item));
        }
        found
    }

    /// The value of one key; slow, for objects that are seldom looked at.
    fn get(self, wanted: &str) -> Option<Self> {
        let mut found = None;
        let visited = self.each_member(|key, value| {
            if equals(key, wanted.as_bytes()) {
                found = Some(value);
            }
        });
        visited.ok().and(found)
    }
}

/// Whether a text is these ASCII bytes.
#[must_use]
pub(crate) fn equals(text: Text<'_>, ascii: &[u8]) -> bool {
    match text {
        Text::Ascii(bytes) | Text::Wtf8(bytes) => bytes == ascii,
        // Python's wider strings hold at least one character that is not ASCII.
        Text::Latin1(_) | Text::Ucs2(_) | Text::Ucs4(_) => false,
    }
}

/// The ASCII bytes of a key, or nothing for one that no format knows.
#[must_use]
pub(crate) fn ascii(text: Text<'_>) -> &[u8] {
    match text {
        Text::Ascii(bytes) | Text::Wtf8(bytes) => bytes,
        Text::Latin1(_) | Text::Ucs2(_) | Text::Ucs4(_) => b"",
    }
}

/// Visits the code points of a text until `visit` says stop (`false`).
pub fn each_point(text: Text<'_>, mut visit: impl FnMut(u32) -> bool) {
    match text {
        Text::Ascii(bytes) | Text::Latin1(bytes) => {
            let _ = bytes.iter().all(|&byte| visit(u32::from(byte)));
        }
        Text::Ucs2(units) => {
            let _ = units.iter().all(|&unit| visit(u32::from(unit)));
        }
        Text::Ucs4(units) => {
            let _ = units.iter().all(|&unit| visit(unit));
        }
        Text::Wtf8(bytes) => {
            let mut rest = bytes;
            while let Some((point, length)) = first_point(rest) {
                rest = &rest[length..];
                if !visit(point) {
                    break;
                }
            }
        }
    }
}

/// First code point of UTF-8 in which surrogates may stand, and its length in bytes; a byte that begins no
/// sequence stands for itself.
#[must_use]
pub(crate) fn first_point(bytes: &[u8]) -> Option<(u32, usize)> {
    let &lead = bytes.first()?;
    let length = match lead {
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return Some((u32::from(lead), 1)),
    };
    let Some(tail) = bytes.get(1..length) else {
        return Some((u32::from(lead), 1));
    };
    if tail.iter().any(|byte| byte & 0xC0 != 0x80) {
        return Some((u32::from(lead), 1));
    }
    let start = u32::from(lead) & (0x7F >> length);
    let point = tail
        .iter()
        .fold(start, |point, byte| point << 6 | u32::from(byte & 0x3F));
    Some((point, length))
}

/// Appends a code point as UTF-8, a surrogate too.
pub(crate) fn push_point(bytes: &mut Vec<u8>, point: u32) {
    let tail = |shift: u32| 0x80 | (point >> shift & 0x3F) as u8;
    match point {
        0..0x80 => bytes.push(point as u8),
        0x80..0x800 => bytes.extend([0xC0 | (point >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => bytes.extend([0xE0 | (point >> 12) as u8, tail(6), tail(0)]),
        _ => bytes.extend([0xF0 | (point >> 18) as u8, tail(12), tail(6), tail(0)]),
    }
}

/// Hands a text as UTF-8 bytes (surrogates allowed); only wide texts are copied.
pub fn with_utf8<R>(text: Text<'_>, look: impl FnOnce(&[u8]) -> R) -> R {
    match text {
        Text::Ascii(bytes) | Text::Wtf8(bytes) => look(bytes),
        wide => {
            let mut bytes = Vec::with_capacity(wide.char_len() * 2);
            each_point(wide, |point| {
                push_point(&mut bytes, point);
                true
            });
            look(&bytes)
        }
    }
}

/// Python's `str.isspace` for one code point (Unicode 15: category Zs or bidirectional WS, B, S).
#[must_use]
pub(crate) fn is_space(point: u32) -> bool {
    matches!(
        point,
        0x09..=0x0D | 0x1C..=0x20 | 0x85 | 0xA0 | 0x1680 | 0x2000..=0x200A | 0x2028 | 0x2029 | 0x202F | 0x205F | 0x3000
    )
}

/// The last code point.
#[must_use]
pub(crate) fn last_point(text: Text<'_>) -> Option<u32> {
    match text {
        Text::Ascii(bytes) | Text::Latin1(bytes) => bytes.last().map(|&byte| u32::from(byte)),
        Text::Ucs2(units) => units.last().map(|&unit| u32::from(unit)),
        Text::Ucs4(units) => units.last().copied(),
        Text::Wtf8(bytes) => {
            let back =
                (1..=bytes.len().min(4)).find(|back| bytes[bytes.len() - back] & 0xC0 != 0x80)?;
            first_point(&bytes[bytes.len() - back..]).map(|(point, _)| point)
        }
    }
}

/// Whether a text holds white space only; true for an empty one.
#[must_use]
pub(crate) fn is_blank(text: Text<'_>) -> bool {
    if matches!(ascii(text), [b'!'..=b'~', ..]) {
        return false;
    }
    let mut blank = true;
    each_point(text, |point| {
        blank = is_space(point);
        blank
    });
    blank
}

/// Whether a text begins with these ASCII bytes.
#[must_use]
pub(crate) fn starts_with(text: Text<'_>, wanted: &[u8]) -> bool {
    let units_are = |units: &mut dyn Iterator<Item = u32>| {
        let mut wanted = wanted.iter();
        wanted.all(|&byte| units.next() == Some(u32::from(byte)))
    };
    match text {
        Text::Ascii(bytes) | Text::Latin1(bytes) | Text::Wtf8(bytes) => bytes.starts_with(wanted),
        Text::Ucs2(units) => units_are(&mut units.iter().map(|&unit| u32::from(unit))),
        Text::Ucs4(units) => units_are(&mut units.iter().copied()),
    }
}

const SHOWN_CHARS: usize = 40;

/// A value in an error message: short texts quoted, all else by type.
pub(crate) fn shown<V: Value>(value: V) -> String {
    match value.kind() {
        Kind::Text => value.with_text(quoted),
        Kind::Foreign => value.foreign_name(),
        kind => kind.name().to_owned(),
    }
}

fn quoted(text: Text<'_>) -> String {
    let mut head = String::from("\"");
    let mut count = 0;
    each_point(text, |point| {
        if count == SHOWN_CHARS {
            head.push('…');
            return false;
        }
        head.push(char::from_u32(point).unwrap_or('\u{FFFD}'));
        count += 1;
        true
    });
    head.push('"');
    head
}
