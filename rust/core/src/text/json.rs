//! Length and features of a value's compact JSON, without building it.
//!
//! The text meant is `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.

use super::escapes::string_escapes;
use super::{Counter, Text, feature};

/// What a walk over a value collects. The walk calls one method per thing it meets, with the number of
/// containers around it: 0 for the value itself.
///
/// Models see the members of a tool's input as named parameters, and JSON only inside of those: so what
/// is directly inside the outermost container is distinguished from what is deeper.
#[derive(Clone, Debug, Default)]
pub struct JsonTally {
    /// Counts of keys, strings, numbers and words, each by itself, and of the JSON around them.
    pub counter: Counter,
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
        self.counter.text(text);
        self.counter.count(place, escapes);
        self.counter
            .count(feature::STRUCTURE, if outer { 0 } else { 2 });
        self.length += text.char_len() as u64 + escapes + 2;
    }

    /// A number as JSON spells it, or `true`, `false`, `null`.
    pub fn word(&mut self, ascii: &str) {
        self.counter.text(Text::Ascii(ascii.as_bytes()));
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
            self.counter.count(feature::ARGUMENTS, members as u64);
        } else {
            self.counter.count(feature::STRUCTURE, characters as u64);
        }
        self.length += characters as u64;
    }
}

/// Code points of a string in JSON, quotes included.
#[must_use]
pub fn string_json_length(text: Text<'_>) -> u64 {
    text.char_len() as u64 + string_escapes(text) + 2
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
