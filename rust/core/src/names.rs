//! The names in a text: paths, symbols, options, hashes, tickets, each once, in order of first use.
//!
//! A text is split into runs of letters and the punctuation of names in one pass; each distinct run is judged once. Twin of
//! `_reference/names.py`, where each form is a regular expression.

mod forms;
pub mod tally;

use hashbrown::HashSet;

use forms::named;

/// The kind of a name, by its form. The numbers are what the binding returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A file or folder.
    Path = 0,
    /// A hash of seven to twelve, or of forty digits.
    Commit = 1,
    /// A UUID.
    Id = 2,
    /// `#12`, `ABC-12`.
    Ticket = 3,
    /// A name of code.
    Symbol = 4,
    /// `--verbose`.
    Option = 5,
}

/// Shorter runs name nothing.
pub const MIN_CHARS: usize = 4;
/// Longer runs are data (a signed URL, base64), not names.
pub const MAX_CHARS: usize = 200;

/// Whether a character is a letter of a name: Latin, Greek, Cyrillic. Other scripts write without spaces, so a name ends where they begin.
pub(crate) fn is_wide_letter(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{4ff}')
}

/// `W` a letter, digit or underscore; `P` punctuation of names; 0 what ends a run; `M` what also marks what follows it; `B` a byte of a
/// wider character.
const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = match c {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' => b'W',
            b'@' | b'~' | b'.' | b'#' | b'/' | b':' | b'+' | b'-' => b'P',
            b'\\' | b'<' => b'M',
            128.. => b'B',
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// Every name in a text once, in order of first use.
///
/// ```
/// use ullage_core::names::{Kind, names};
///
/// let found = names("see src/main.rs: cfg.Source, then src/main.rs --force");
/// assert_eq!(found, [("src/main.rs", Kind::Path), ("cfg.Source", Kind::Symbol), ("--force", Kind::Option)]);
/// ```
#[must_use]
pub fn names(text: &str) -> Vec<(&str, Kind)> {
    let mut runs = HashSet::with_hasher(foldhash::fast::FixedState::default());
    let mut seen = HashSet::with_hasher(foldhash::fast::FixedState::default());
    let mut found = Vec::new();
    for_each_run(text, |run| {
        if runs.insert(run) {
            named(run, &mut |name, kind| {
                if seen.insert((name, kind)) {
                    found.push((name, kind));
                }
            });
        }
    });
    found
}

/// The runs of four and more characters; `</` before one belongs to it, and an escape (`\n`) to none.
fn for_each_run<'a>(text: &'a str, mut take: impl FnMut(&'a str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if CLASSES[bytes[at] as usize] == 0 {
            at += 1;
            continue;
        }
        let (start, tagged) = match bytes[at] {
            b'\\' => {
                at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'n' | b'r' | b't')));
                continue;
            }
            b'<' if bytes.get(at + 1) == Some(&b'/') => (at, true),
            _ => (at, false),
        };
        let inner = if tagged { at + 2 } else { at };
        let (end, chars) = run_end(text, inner);
        let rest = address_rest(&bytes[start..end], &bytes[end..]);
        if rest > 0 {
            at = end + rest; // parameters and escapes of an address are no names
        } else if chars >= MIN_CHARS {
            take(&text[start..end]);
            at = end;
        } else if tagged {
            at += 1; // the slash may begin a run of its own
        } else {
            at = if end > at { end } else { next(text, at) };
        }
    }
}

/// Where the run that begins here ends, and how many characters it has.
fn run_end(text: &str, start: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let (mut at, mut more) = (start, 0); // bytes of wide letters beyond the first
    loop {
        let narrow = bytes[at..]
            .iter()
            .position(|&byte| !matches!(CLASSES[byte as usize], b'W' | b'P'));
        at = narrow.map_or(bytes.len(), |count| at + count);
        match text[at..].chars().next() {
            Some(c) if is_wide_letter(c) => {
                at += c.len_utf8();
                more += c.len_utf8() - 1;
            }
            _ => break,
        }
    }
    (at, at - start - more)
}

/// How far an address goes on after a run: to a blank, a quote, a bracket or another script; 0 where the run is of none.
fn address_rest(run: &[u8], after: &[u8]) -> usize {
    // Most runs end where an address would: these are not looked into.
    if !after.first().copied().is_some_and(is_of_address)
        || memchr::memmem::find(run, b"://").is_none()
    {
        return 0;
    }
    after
        .iter()
        .position(|&byte| !is_of_address(byte))
        .unwrap_or(after.len())
}

const fn is_of_address(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(
            byte,
            b'"' | b'\'' | b'<' | b'>' | b'`' | b')' | b']' | b'\\' | b'|' | b','
        )
}

fn next(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}
