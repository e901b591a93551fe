//! Length and features of a value's compact JSON, without building it.
//!
//! The text meant is `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.

use super::{Features, Text, feature};

/// What a walk over a value collects. The walk calls one method per thing it meets, with the number of
/// containers around it: 0 for the value itself.
///
/// Models see the members of a tool's input as named parameters, and JSON only inside of those: so what
/// stands right inside the outermost container is told from what is deeper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonTally {
    /// Counts of keys, strings, numbers and words, each by itself, and of the JSON around them.
    pub features: Features,
    /// Code points of the JSON.
    pub length: u64,
}

impl JsonTally {
    /// A string, or a key of an object with `depth - 1` containers around it.
    pub fn string(&mut self, text: Text<'_>, depth: u32) {
        let escapes = string_escapes(text);
        let outer = depth <= 1;
        let place = if outer {
            feature::ARGUMENT_ESCAPES
        } else {
            feature::ESCAPES
        };
        self.features.add_text(text);
        self.features.0[place] += escapes;
        self.features.0[feature::STRUCTURE] += if outer { 0 } else { 2 };
        self.length += text.char_len() as u64 + escapes + 2;
    }

    /// A number as JSON spells it, or `true`, `false`, `null`.
    pub fn word(&mut self, ascii: &str) {
        self.features.add_text(Text::Ascii(ascii.as_bytes()));
        self.length += ascii.len() as u64;
    }

    /// Brackets and commas of an array with this many items.
    pub fn array(&mut self, items: usize, depth: u32) {
        self.container(items, 2 + items.saturating_sub(1), depth);
    }

    /// Brackets, commas and colons of an object with this many members.
    pub fn object(&mut self, members: usize, depth: u32) {
        self.container(members, 2 + (2 * members).saturating_sub(1), depth);
    }

    fn container(&mut self, members: usize, characters: usize, depth: u32) {
        if depth == 0 {
            self.features.0[feature::ARGUMENTS] += members as u64;
        } else {
            self.features.0[feature::STRUCTURE] += characters as u64;
        }
        self.length += characters as u64;
    }
}

/// Code points of a string in JSON, quotes included.
#[must_use]
pub fn string_json_length(text: Text<'_>) -> u64 {
    text.char_len() as u64 + string_escapes(text) + 2
}

/// How many code points longer a string gets by escaping: 1 for `"`, `\` and the control characters with
/// a short form, 5 for the others.
#[must_use]
pub fn string_escapes(text: Text<'_>) -> u64 {
    match text {
        Text::Ascii(bytes) | Text::Latin1(bytes) | Text::Wtf8(bytes) => sum(bytes),
        Text::Ucs2(units) => units.iter().map(|&unit| wide(u32::from(unit))).sum(),
        Text::Ucs4(units) => units.iter().map(|&unit| wide(unit)).sum(),
    }
}

/// Bytes looked at together: the compiler makes vector code of a row.
const ROW: usize = 32;

fn sum(bytes: &[u8]) -> u64 {
    if bytes.len() < 2 * ROW && !any_special(bytes) {
        return 0;
    }
    // 32 rows of at most 5 stay below 256 in each lane.
    bytes.chunks(32 * ROW).map(sum_rows).sum()
}

/// Whether a short string has anything to escape: keys and paths seldom do.
fn any_special(bytes: &[u8]) -> bool {
    let word = |at: usize| {
        bytes[at..]
            .first_chunk()
            .map(|&word| u64::from_le_bytes(word))
    };
    let Some(last) = bytes.len().checked_sub(8) else {
        return bytes.iter().any(|&byte| extra(byte) != 0);
    };
    // The last word overlaps the one before it.
    let mut places = (0..last).step_by(8).chain([last]);
    places.any(|at| word(at).is_some_and(special_word))
}

/// Whether one of eight bytes is below 0x20, a quote or a backslash (the usual arithmetic on all eight at once).
fn special_word(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quotes = below(word ^ (ONES * 0x22), 1) | below(word ^ (ONES * 0x5C), 1);
    (below(word, 0x20) | quotes) & (ONES * 0x80) != 0
}

fn sum_rows(bytes: &[u8]) -> u64 {
    let (rows, rest) = bytes.as_chunks::<ROW>();
    let mut lanes = [0_u8; ROW];
    for row in rows {
        add_row(&mut lanes, row);
    }
    if !rest.is_empty() {
        let mut row = [b'a'; ROW];
        row[..rest.len()].copy_from_slice(rest);
        add_row(&mut lanes, &row);
    }
    lanes.iter().map(|&lane| u64::from(lane)).sum()
}

fn add_row(lanes: &mut [u8; ROW], row: &[u8; ROW]) {
    for (lane, &byte) in lanes.iter_mut().zip(row) {
        *lane = lane.wrapping_add(extra(byte));
    }
}

/// Without branches, so that it is one step for many bytes.
fn extra(byte: u8) -> u8 {
    let control = if byte < 0x20 { 5 } else { 0 };
    let short = byte.wrapping_sub(0x08) < 3 || byte.wrapping_sub(0x0C) < 2;
    let quoted = byte == b'"' || byte == b'\\';
    (control & if short { 1 } else { 5 }) | u8::from(quoted)
}

fn wide(point: u32) -> u64 {
    u8::try_from(point).map_or(0, |byte| u64::from(extra(byte)))
}

/// A finite or infinite float as Python's `repr` spells it; JSON's `NaN`, `Infinity` for the others.
#[must_use]
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    format!("{sign}{}", spelled(&digits, exponent))
}

/// Shortest digits of `d.ddd * 10^exponent`, in the form that Python chooses.
fn spelled(digits: &str, exponent: i32) -> String {
    let places = exponent.unsigned_abs() as usize;
    match exponent {
        -4..0 => format!("0.{}{digits}", "0".repeat(places - 1)),
        0..16 if digits.len() <= places + 1 => format!("{digits:0<width$}.0", width = places + 1),
        0..16 => {
            let (whole, part) = digits.split_at(places + 1);
            format!("{whole}.{part}")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{first}{point}{rest}e{sign}{places:02}")
        }
    }
}
