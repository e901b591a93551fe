//! The names in a text: paths, symbols, options, hashes, tickets, each once, in order of first use.
//!
//! A text is split into runs of letters and the punctuation of names in one pass; each distinct run is judged once. Twin of
//! `_reference/names.py`, where each form is a regular expression.

mod forms;
pub mod tally;

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

/// What a byte of a run is, by bit; 0 ends a run.
const CLASSES: [u8; 256] = classes();
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DIGIT: u8 = 4; // or an underscore
const POINT: u8 = 8;
const COLON: u8 = 16;
const SLASH: u8 = 32;
const SIGN: u8 = 64; // other punctuation of names
const LOOK: u8 = 128; // of a wider character, or a mark that says something of what follows it

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = match c {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' | b'_' => DIGIT,
            b'.' => POINT,
            b':' => COLON,
            b'/' => SLASH,
            b'@' | b'~' | b'#' | b'+' | b'-' => SIGN,
            b'\\' | b'<' | 128.. => LOOK,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// The runs of four and more characters that may hold a name, each with the classes in it: no tags of markup (`</`), which belong
/// to what follows them, and no plain words. An escape (`\n`) belongs to no run.
fn for_each_run<'a>(text: &'a str, mut take: impl FnMut(&'a str, u8)) {
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
        let (end, chars, seen) = run_end(text, inner);
        let rest = address_rest(&bytes[start..end], seen, &bytes[end..]);
        if rest > 0 {
            at = end + rest; // parameters and escapes of an address are no names
        } else if chars >= MIN_CHARS {
            let run = &text[start..end];
            if !(tagged || is_word(run, seen)) {
                take(run, seen);
            }
            at = end;
        } else if tagged {
            at += 1; // the slash may begin a run of its own
        } else {
            at = if end > at { end } else { next(text, at) };
        }
    }
}

/// Where the run that begins here ends, how many characters it has, and their classes.
fn run_end(text: &str, start: usize) -> (usize, usize, u8) {
    let bytes = text.as_bytes();
    let (mut at, mut more, mut seen) = (start, 0, 0); // more: bytes of wide letters beyond the first
    while let Some(&byte) = bytes.get(at) {
        let class = CLASSES[byte as usize];
        if class == 0 {
            break;
        }
        if class != LOOK {
            at += 1;
        } else if let Some(c) = text[at..].chars().next().filter(|&c| is_wide_letter(c)) {
            at += c.len_utf8();
            more += c.len_utf8() - 1;
        } else {
            break;
        }
        seen |= class;
    }
    (at, at - start - more, seen)
}

/// Whether a run is a plain word, which names nothing: letters without a hump, perhaps with a point or colon at their end.
fn is_word(run: &str, seen: u8) -> bool {
    if seen & !(LOWER | UPPER | POINT | COLON) != 0 || seen == LOWER {
        return seen == LOWER;
    }
    let mut bytes = run.trim_end_matches(['.', ':']).bytes();
    let mut before = b'A';
    bytes.all(|byte| {
        let hump = before.is_ascii_lowercase() && byte.is_ascii_uppercase();
        before = byte;
        byte.is_ascii_alphabetic() && !hump
    })
}

/// How far an address goes on after a run: to a blank, a quote, a bracket or another script; 0 where the run is of none.
fn address_rest(run: &[u8], seen: u8, after: &[u8]) -> usize {
    // Most runs have no colon and slash, or end where an address would: these are not looked into.
    if seen & (COLON | SLASH) != COLON | SLASH
        || !after.first().copied().is_some_and(is_of_address)
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
