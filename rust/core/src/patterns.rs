//! Which of some patterns are in a sentence, and which may be: Python's own search decides about the latter.
//!
//! Without a twin: plain Python searches. Patterns are in Python's syntax. Only plain ASCII is judged, where both read a pattern alike.
//! Lookarounds are left out, so that a pattern with one may be there; its alternatives without any are there if they are found.

use regex::bytes::{Regex, RegexBuilder};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::OnceLock;

/// Most patterns of one set: the answer has a bit for each.
pub const MOST_PATTERNS: usize = 63;

/// Some patterns, looked for together.
#[derive(Debug)]
pub struct PatternSet {
    patterns: Vec<Pattern>,
    wide: bool,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    maybe: Regex,
    /// The alternatives that need no second look, where that is not all of them; made when `maybe` first matches, which most never do.
    sure: OnceLock<Option<Regex>>,
}

/// What a text holds, a bit for each pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The pattern may be in the text.
    pub maybe: u64,
    /// It is.
    pub sure: u64,
}

impl PatternSet {
    /// Makes the set; letters of any case match.
    ///
    /// # Arguments
    /// `wide`: texts with Latin letters, punctuation and symbols beyond ASCII are judged too, each as one of two bytes; what is
    /// found there only may be there.
    ///
    /// # Errors
    /// Why a pattern cannot be read.
    pub fn new(patterns: &[String], wide: bool) -> Result<Self, String> {
        if patterns.len() > MOST_PATTERNS {
            return Err(format!(
                "at most {MOST_PATTERNS} patterns, not {}",
                patterns.len()
            ));
        }
        let made = patterns.iter().map(|pattern| Pattern::new(pattern, wide));
        let patterns = made.collect::<Result<_, _>>();
        Ok(Self {
            patterns: patterns.map_err(|error: regex::Error| error.to_string())?,
            wide,
        })
    }

    /// Which patterns are in the text, and which may be; all may be where it is not judged.
    ///
    /// ```
    /// use ullage_core::patterns::{Found, PatternSet};
    ///
    /// let set = PatternSet::new(&[r"\bnever\b(?! again)|not".into(), "^must".into()], false)?;
    /// assert_eq!(set.look("Never push."), Found { maybe: 1, sure: 0 });
    /// assert_eq!(set.look("Must not."), Found { maybe: 3, sure: 3 });
    /// assert_eq!(set.look("é"), Found { maybe: 3, sure: 0 });
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn look(&self, text: &str) -> Found {
        let judged = if self.wide {
            narrowed(text)
        } else {
            is_judged(text).then_some(Cow::Borrowed(text.as_bytes()))
        };
        let Some(bytes) = judged else {
            let maybe = (1 << self.patterns.len()) - 1;
            return Found { maybe, sure: 0 };
        };
        let (mut found, bytes) = (Found::default(), &*bytes);
        for (at, pattern) in self.patterns.iter().enumerate() {
            if pattern.maybe.is_match(bytes) {
                found.maybe |= 1 << at;
                let sure = !self.wide && pattern.sure().is_none_or(|sure| sure.is_match(bytes));
                found.sure |= u64::from(sure) << at;
            }
        }
        found
    }
}

impl Pattern {
    fn new(pattern: &str, wide: bool) -> Result<Self, regex::Error> {
        let maybe = made(&without_looks(pattern, wide))?;
        let (text, sure) = (pattern.to_owned(), OnceLock::new());
        Ok(Self { text, maybe, sure })
    }

    fn sure(&self) -> Option<&Regex> {
        let make = || {
            let mut sure = alternatives(&self.text);
            let all = sure.len();
            sure.retain(|part| !has_looks(part));
            if sure.len() == all {
                return None;
            }
            let plain = without_looks(&sure.join("|"), false);
            let plain = if sure.is_empty() { NOTHING } else { &plain };
            made(plain).or_else(|_| made(NOTHING)).ok()
        };
        self.sure.get_or_init(make).as_ref()
    }
}

/// In no judged text.
const NOTHING: &str = r"\x02";

/// In place of a letter beyond ASCII: a letter to `\w` and `\b`.
const LETTER: u8 = b'_';
/// In place of punctuation and symbols beyond ASCII: to no class.
const MARK: u8 = 1;

/// The text with each wider character as one byte: [`LETTER`], [`MARK`] or a blank; `None` where one is none of these to Python.
fn narrowed(text: &str) -> Option<Cow<'_, [u8]>> {
    if is_judged(text) {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let bytes: Option<Vec<u8>> = text.chars().map(narrow).collect();
    bytes.map(Cow::Owned)
}

fn narrow(c: char) -> Option<u8> {
    match c {
        ' '..='~' | '\t' => u8::try_from(c).ok(),
        // Without the two that Python takes for an i, and the long s.
        '\u{c0}'..='\u{d6}'
        | '\u{d8}'..='\u{f6}'
        | '\u{f8}'..='\u{12f}'
        | '\u{132}'..='\u{17e}'
        | '\u{180}'..='\u{24f}' => Some(LETTER),
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' => Some(b' '),
        // Without superscripts and fractions, which count as digits, and without the signs that count as letters.
        '\u{a1}'..='\u{a9}'
        | '\u{ab}'..='\u{b1}'
        | '\u{b4}'
        | '\u{b6}'..='\u{b8}'
        | '\u{bb}'
        | '\u{bf}'
        | '×'
        | '÷'
        | '\u{200b}'..='\u{2027}'
        | '\u{2030}'..='\u{205e}'
        | '\u{20a0}'..='\u{20cf}'
        | '\u{2190}'..='\u{23ff}'
        | '\u{2500}'..='\u{2775}'
        | '\u{2794}'..='\u{2bff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{1f300}'..='\u{1faff}' => Some(MARK),
        _ => None,
    }
}

fn made(plain: &str) -> Result<Regex, regex::Error> {
    let mut builder = RegexBuilder::new(plain);
    builder.unicode(false).case_insensitive(true).build()
}

/// Printable ASCII: Python counts some controls as blanks, and looks for an end before a last break.
fn is_judged(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

const LOOKS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];

/// Whether a lookaround begins here.
fn is_look(rest: &str) -> bool {
    LOOKS.iter().any(|look| rest.starts_with(look))
}

/// The parts between the bars that stand in no group and no class.
fn alternatives(pattern: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in unescaped(pattern) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                parts.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&pattern[start..]);
    parts
}

fn has_looks(pattern: &str) -> bool {
    unescaped(pattern).any(|(at, _)| is_look(&pattern[at..]))
}

/// The characters that stand for themselves neither by a backslash nor in a class, with their places.
fn unescaped(pattern: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut in_class, mut escaped) = (false, false);
    pattern.char_indices().filter(move |&(_, c)| {
        if escaped || c == '\\' {
            escaped = !escaped;
            return false;
        }
        let outside = !in_class;
        in_class = if in_class { c != ']' } else { c == '[' };
        outside
    })
}

/// The pattern without lookarounds. What no judged text has becomes a control; `wide`: what [`narrowed`] replaces, its byte, but in
/// a negated class nothing is left that would keep more out than it did.
fn without_looks(pattern: &str, wide: bool) -> String {
    let (mut plain, mut rest) = (String::with_capacity(pattern.len()), pattern);
    let (mut in_class, mut negated) = (false, false);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if !in_class && is_look(rest) {
            rest = &rest[group_end(rest)..];
            continue;
        }
        match c {
            '\\' => {
                let escaped = after.chars().next().map_or(0, char::len_utf8);
                plain.push_str(&rest[..=escaped]);
                rest = &after[escaped..];
                continue;
            }
            // Of themselves in a class of Python's.
            '[' | '&' | '~' if in_class => {
                let _ = write!(plain, "\\{c}");
            }
            '_' if wide && negated => plain.push_str(NOTHING),
            _ if c.is_ascii() => plain.push(c),
            _ => match narrow(c) {
                Some(byte) if wide && !negated => {
                    let _ = write!(plain, "\\x{byte:02x}");
                }
                _ => plain.push_str(NOTHING),
            },
        }
        in_class = if in_class { c != ']' } else { c == '[' };
        negated = in_class && (negated || (c == '[' && after.starts_with('^')));
        rest = after;
    }
    plain
}

/// The length of the group that begins here.
fn group_end(text: &str) -> usize {
    let (mut depth, mut in_class, mut escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class && depth == 1 => return at + 1,
            ')' if !in_class => depth -= 1,
            _ => {}
        }
    }
    text.len()
}
