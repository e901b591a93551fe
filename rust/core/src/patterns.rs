//! Which of some patterns may be in a sentence: a filter in front of Python's own search, which decides.
//!
//! Twin of `_reference/patterns.py`. Patterns are in Python's syntax. Only plain ASCII is judged, where both read a pattern alike;
//! lookarounds are left out, so that a pattern is found rather too often than not.

use regex::bytes::{Regex, RegexBuilder};
use std::fmt::Write;

/// Most patterns of one set: the answer has a bit for each.
pub const MOST_PATTERNS: usize = 63;

/// Some patterns, looked for together.
#[derive(Debug)]
pub struct PatternSet {
    patterns: Vec<Regex>,
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
        let made = patterns.iter().map(|pattern| {
            let mut builder = RegexBuilder::new(&without_looks(pattern));
            builder.unicode(false).case_insensitive(true).build()
        });
        let patterns = made.collect::<Result<_, _>>();
        Ok(Self {
            patterns: patterns.map_err(|error| error.to_string())?,
        })
    }

    /// A bit for each pattern that may be in the text; all of them where it is not judged.
    ///
    /// ```
    /// use ullage_core::patterns::PatternSet;
    ///
    /// let set = PatternSet::new(&[r"\bnever\b(?! again)".into(), "^must".into()])?;
    /// assert_eq!((set.may_match("Never push."), set.may_match("It is so."), set.may_match("é")), (1, 0, 3));
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn may_match(&self, text: &str) -> u64 {
        if !is_judged(text) {
            return (1 << self.patterns.len()) - 1;
        }
        let found = self.patterns.iter().enumerate();
        found.fold(0, |bits, (at, pattern)| {
            bits | (u64::from(pattern.is_match(text.as_bytes())) << at)
        })
    }
}

/// Printable ASCII: Python counts some controls as blanks, and looks for an end before a last break.
fn is_judged(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

/// The pattern without lookarounds; characters that no judged text has become one control.
fn without_looks(pattern: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(pattern.len()), pattern);
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if !in_class
            && ["(?=", "(?!", "(?<=", "(?<!"]
                .iter()
                .any(|look| rest.starts_with(look))
        {
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
