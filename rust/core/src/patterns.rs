//! Which of some patterns are in a sentence, and which may be: Python's own search decides about the latter.
//!
//! Twin of `_reference/patterns.py`. Patterns are in Python's syntax. Only plain ASCII is judged, where both read a pattern alike.
//! Lookarounds are left out, so that a pattern with one may be there; its alternatives without any are there if they are found.

use regex::bytes::{Regex, RegexBuilder};
use std::fmt::Write;

/// Most patterns of one set: the answer has a bit for each.
pub const MOST_PATTERNS: usize = 63;

/// Some patterns, looked for together.
#[derive(Debug)]
pub struct PatternSet {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    maybe: Regex,
    /// The alternatives that need no second look, where that is not all of them.
    sure: Option<Regex>,
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
    /// # Errors
    /// Why a pattern cannot be read.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        if patterns.len() > MOST_PATTERNS {
            return Err(format!(
                "at most {MOST_PATTERNS} patterns, not {}",
                patterns.len()
            ));
        }
        let made = patterns.iter().map(|pattern| Pattern::new(pattern));
        let patterns = made.collect::<Result<_, _>>();
        Ok(Self {
            patterns: patterns.map_err(|error: regex::Error| error.to_string())?,
        })
    }

    /// Which patterns are in the text, and which may be; all may be where it is not judged.
    ///
    /// ```
    /// use ullage_core::patterns::{Found, PatternSet};
    ///
    /// let set = PatternSet::new(&[r"\bnever\b(?! again)|not".into(), "^must".into()])?;
    /// assert_eq!(set.look("Never push."), Found { maybe: 1, sure: 0 });
    /// assert_eq!(set.look("Must not."), Found { maybe: 3, sure: 3 });
    /// assert_eq!(set.look("é"), Found { maybe: 3, sure: 0 });
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn look(&self, text: &str) -> Found {
        if !is_judged(text) {
            let maybe = (1 << self.patterns.len()) - 1;
            return Found { maybe, sure: 0 };
        }
        let (mut found, bytes) = (Found::default(), text.as_bytes());
        for (at, pattern) in self.patterns.iter().enumerate() {
            if pattern.maybe.is_match(bytes) {
                found.maybe |= 1 << at;
                let sure = pattern
                    .sure
                    .as_ref()
                    .is_none_or(|sure| sure.is_match(bytes));
                found.sure |= u64::from(sure) << at;
            }
        }
        found
    }
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, regex::Error> {
        let plain = without_looks(pattern);
        let mut sure: Vec<_> = alternatives(pattern);
        let all = sure.len();
        sure.retain(|part| !has_looks(part));
        let rest = if sure.len() == all {
            None
        } else if sure.is_empty() {
            Some(made(NOTHING)?)
        } else {
            Some(made(&without_looks(&sure.join("|")))?)
        };
        Ok(Self {
            maybe: made(&plain)?,
            sure: rest,
        })
    }
}

/// In no judged text.
const NOTHING: &str = r"\x01";

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

/// The pattern without lookarounds; characters that no judged text has become one control.
fn without_looks(pattern: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(pattern.len()), pattern);
    let mut in_class = false;
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
            _ if !c.is_ascii() => plain.push_str("\\x01"),
            _ => plain.push(c),
        }
        in_class = if in_class { c != ']' } else { c == '[' };
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
