//! Which of some patterns are in a sentence, and which may be: Python's own search decides about the latter.
//!
//! Without a twin: plain Python searches. Patterns are in Python's syntax. Only plain ASCII is judged, where both read a pattern alike.
//! Lookarounds are left out, so that a pattern with one only may be there.

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::{pool::Pool, syntax};
use std::borrow::Cow;
use std::panic::{RefUnwindSafe, UnwindSafe};

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
    automaton: Automaton,
    has_looks: bool,
    /// A part of it is for letters of one case. All others are searched in lower case: an automaton for letters of either case takes
    /// a third longer to make.
    has_cased: bool,
}

/// Says whether a pattern is in a text, and neither where nor which of its parts. A general `Regex` takes twice as long to make:
/// it also reads the pattern backwards, and looks for literals that a search could begin with.
#[derive(Debug)]
struct Automaton {
    dfa: DFA,
    caches: Pool<Cache, MakeCache>,
}

type MakeCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

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
            patterns: patterns?,
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
    /// assert_eq!(set.look("Must not."), Found { maybe: 3, sure: 2 });
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
        let (mut found, lower) = (Found::default(), bytes.to_ascii_lowercase());
        for (at, pattern) in self.patterns.iter().enumerate() {
            let bytes = if pattern.has_cased { &*bytes } else { &*lower };
            if pattern.automaton.may_match(bytes) {
                found.maybe |= 1 << at;
                found.sure |= u64::from(!self.wide && !pattern.has_looks) << at;
            }
        }
        found
    }
}

impl Pattern {
    fn new(pattern: &str, wide: bool) -> Result<Self, String> {
        let has_cased = pattern.contains("(?-i:");
        let automaton = Automaton::new(&without_looks(pattern, wide, !has_cased), has_cased)?;
        let has_looks = unescaped(pattern).any(|(at, _)| is_look(&pattern[at..]));
        Ok(Self {
            automaton,
            has_looks,
            has_cased,
        })
    }
}

impl Automaton {
    fn new(plain: &str, any_case: bool) -> Result<Self, String> {
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let made = DFA::builder()
            .syntax(syntax.case_insensitive(any_case))
            .thompson(thompson::Config::new().which_captures(WhichCaptures::None))
            // A long pattern gets the space that it needs.
            .configure(DFA::config().skip_cache_capacity_check(true))
            .build(plain);
        let dfa = made.map_err(|error| reason(&error))?;
        let own = dfa.clone();
        let caches = Pool::new(Box::new(move || own.create_cache()) as MakeCache);
        Ok(Self { dfa, caches })
    }

    /// Whether the pattern is in the text; also where the search was given up, which no judged text brings about.
    fn may_match(&self, bytes: &[u8]) -> bool {
        let input = Input::new(bytes).earliest(true);
        let found = self.dfa.try_search_fwd(&mut self.caches.get(), &input);
        !matches!(found, Ok(None))
    }
}

/// What is wrong with a pattern, in the words of whoever read it.
fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), reason)
}

/// In no judged text.
const NOTHING: char = '\x02';

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

/// Printable ASCII: Python counts some controls as blanks, and looks for an end before a last break.
fn is_judged(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

const LOOKS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];

/// Whether a lookaround begins here.
fn is_look(rest: &str) -> bool {
    LOOKS.iter().any(|look| rest.starts_with(look))
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
/// a negated class nothing is left that would keep more out than it did. `lower`: with small letters, in which a range of a class has
/// both its ends among the letters or none, and no character is written by its number.
fn without_looks(pattern: &str, wide: bool, lower: bool) -> String {
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
            '[' | '&' | '~' if in_class => plain.extend(['\\', c]),
            '_' if wide && negated => plain.push(NOTHING),
            _ if lower && c.is_ascii() => plain.push(c.to_ascii_lowercase()),
            _ if c.is_ascii() => plain.push(c),
            _ => match narrow(c) {
                Some(byte) if wide && !negated => plain.push(char::from(byte)),
                _ => plain.push(NOTHING),
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
