//! Lines of a text that may tell a value: short ones with two digits, among them those with a key, a version or a port.
//!
//! A filter in front of the patterns of `ullage.facts.tallies`, which decide: what it leaves out, no pattern takes. Most
//! lines of a result have no two digits. Without a twin: plain Python lists every line.

use memchr::{memchr, memchr3};

/// Fewer characters tell nothing.
pub const MIN_CHARS: usize = 4;
/// Longer lines are data.
pub const MAX_CHARS: usize = 160;
/// The line may tell a value by its key, or a version.
pub const KEYED: u8 = 1;
/// The line may name a port.
pub const PORT: u8 = 2;

/// What stands before a port, as far as it is the same with and without a capital.
const OF_PORTS: &[&str] = &include!("../../../python/ullage/data/port_words.json");

/// Words for ids and hashes; `sha` may have digits after it.
const OF_IDS: &[&str] = &include!("../../../python/ullage/data/id_words.json");

/// Characters of the longest of them, with a quote and a blank.
const LONGEST_KEY: usize = 12;

/// The lines in order, each with [`KEYED`], [`PORT`] or both.
///
/// ```
/// use ullage_core::telling::{KEYED, PORT, telling_lines};
///
/// let found = telling_lines("rows: 48213\nif x == 1:\nlistening on port 8080\nuvicorn 0.30.1");
/// assert_eq!(found, [("rows: 48213", KEYED), ("listening on port 8080", PORT), ("uvicorn 0.30.1", KEYED)]);
/// ```
#[must_use]
pub fn telling_lines(text: &str) -> Vec<(&str, u8)> {
    let mut found = Vec::new();
    let (bytes, mut start) = (text.as_bytes(), 0);
    while start <= bytes.len() {
        let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |at| start + at);
        let line = &text[start..end];
        let told = reasons(line);
        if told != 0 {
            found.push((line, told));
        }
        start = end + 1;
    }
    found
}

fn reasons(line: &str) -> u8 {
    let bytes = line.as_bytes();
    // A character takes at most four bytes.
    if bytes.len() < MIN_CHARS || bytes.len() > 4 * MAX_CHARS {
        return 0;
    }
    let ascii = line.is_ascii();
    let chars = if ascii {
        bytes.len()
    } else {
        line.chars().count()
    };
    if !(MIN_CHARS..=MAX_CHARS).contains(&chars) || (ascii && !has_two_digits(bytes)) {
        return 0;
    }
    let port = names_port(bytes);
    let keyed = has_number(bytes) || has_version(bytes) || has_id(line);
    (u8::from(keyed) * KEYED) | (u8::from(port) * PORT)
}

fn has_two_digits(line: &[u8]) -> bool {
    // A byte holds the number: a line has at most `MAX_CHARS`.
    let digits = line.iter().map(|byte| u8::from(byte.is_ascii_digit()));
    digits.fold(0, u8::wrapping_add) > 1
}

/// What a byte may be, by bit.
const CLASSES: [u8; 256] = classes();
const DIGIT: u8 = 1;
const WORD: u8 = 2;
/// Of a key with its number: letters, blanks, some punctuation.
const OF_KEY: u8 = 4;
/// Of the number that follows it.
const OF_NUMBER: u8 = 8;
/// Before a key: blanks and the mark of a list.
const BEFORE_KEY: u8 = 16;
/// Of a program's name.
const OF_NAME: u8 = 32;
/// It begins one of `OF_PORTS`.
const BEGINS_PORT: u8 = 64;

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let blank = matches!(byte, b' ' | b'\t');
        let word = byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        let key =
            word || blank || matches!(byte, b'(' | b')' | b'/' | b'.' | b'%' | b'"' | b'\'' | b'-');
        let number = word || blank || matches!(byte, b',' | b'.' | b';' | b'%' | b'/');
        let port = matches!(byte, b'o' | b'i' | b'e' | b'u' | b'l' | b'0' | b'1');
        table[at] = (if byte.is_ascii_digit() || byte >= 0x80 {
            DIGIT
        } else {
            0
        }) | (if word { WORD } else { 0 })
            | (if key { OF_KEY } else { 0 })
            | (if number { OF_NUMBER } else { 0 })
            | (if blank || matches!(byte, b'*' | b'"' | b'\'' | b'-') {
                BEFORE_KEY
            } else {
                0
            })
            | (if word || matches!(byte, b'@' | b'/' | b'-') {
                OF_NAME
            } else {
                0
            })
            | (if port { BEGINS_PORT } else { 0 });
        at += 1;
    }
    table
}

fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

// Bytes of wider characters count as letters and as digits: the patterns look closer.

fn is_digit(byte: u8) -> bool {
    is(byte, DIGIT)
}

fn is_word(byte: u8) -> bool {
    is(byte, WORD)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// What is left where as many bytes as fit, and no more than some, are of a class.
fn after(bytes: &[u8], most: usize, of: impl Fn(u8) -> bool) -> &[u8] {
    let passed = bytes
        .iter()
        .take(most)
        .take_while(|&&byte| of(byte))
        .count();
    &bytes[passed..]
}

/// `rejected: 48213`: words, a separator, a number, and nothing but what belongs to one.
fn has_number(line: &[u8]) -> bool {
    let key = after(line, usize::MAX, |b| is(b, BEFORE_KEY));
    if !key
        .first()
        .is_some_and(|&b| b.is_ascii_alphabetic() || b >= 0x80)
    {
        return false;
    }
    let rest = after(key, usize::MAX, |b| is(b, OF_KEY));
    if !matches!(rest.first(), Some(b':' | b'=')) {
        return false;
    }
    let value = after(after(&rest[1..], 3, is_blank), 1, |b| b"-+$".contains(&b));
    value.first().is_some_and(|&b| is_digit(b)) && value.iter().all(|&b| is(b, OF_NUMBER))
}

/// `uvicorn 0.30.1`, `name@1.2`: a word, and a number with a point at once after it.
fn has_version(line: &[u8]) -> bool {
    let name = after(line, usize::MAX, is_blank);
    let rest = after(name, usize::MAX, |b| is(b, OF_NAME));
    let before = name.get((name.len() - rest.len()).wrapping_sub(1));
    let follows = match (rest.first(), rest.get(1)) {
        (Some(b' ' | b'\t'), Some(&next)) => is_digit(next) || matches!(next, b'v' | b'V'),
        (Some(b'.'), Some(next)) => is_digit(*next) && before.is_some_and(|&b| is_digit(b)),
        _ => false,
    };
    let pointed = |at: &[u8]| is_digit(at[0]) && at[1] == b'.' && is_digit(at[2]);
    follows && before.is_some() && line.windows(3).any(pointed)
}

/// `build id: 1a2b3c`: one of the words for ids, and a separator, the first of the line.
fn has_id(line: &str) -> bool {
    let Some(at) = memchr3(b':', b'=', b'#', line.as_bytes()) else {
        return false;
    };
    let (before, value) = (&line[..at], &line.as_bytes()[at + 1..]);
    let value = after(after(value, 3, is_blank), 1, |b| matches!(b, b'"' | b'\''));
    if !value
        .first()
        .is_some_and(|&b| is_word(b) || b".:-".contains(&b))
    {
        return false;
    }
    if before
        .chars()
        .rev()
        .take(LONGEST_KEY)
        .any(|c| !c.is_ascii())
    {
        return true;
    }
    let key = without_last(before.as_bytes(), is_blank);
    let key = without_last(key, |b| matches!(b, b'"' | b'\''));
    let (mut stem, mut digits) = (key, 0);
    while digits < 3 && stem.last().is_some_and(u8::is_ascii_digit) {
        (stem, digits) = (&stem[..stem.len() - 1], digits + 1);
    }
    ends_in(stem, b"sha") || OF_IDS.iter().any(|word| ends_in(key, word.as_bytes()))
}

fn without_last(bytes: &[u8], of: impl Fn(u8) -> bool) -> &[u8] {
    match bytes.split_last() {
        Some((&last, rest)) if of(last) => rest,
        _ => bytes,
    }
}

fn ends_in(bytes: &[u8], word: &[u8]) -> bool {
    bytes.len() >= word.len() && bytes[bytes.len() - word.len()..].eq_ignore_ascii_case(word)
}

/// `listening on :8080`: digits after a blank or a mark, and such a word before the last of them.
fn names_port(line: &[u8]) -> bool {
    let begins =
        |at: &[u8]| matches!(at[0], b' ' | b':' | b'=') && is_digit(at[1]) && is_digit(at[2]);
    let last = line.windows(3).rposition(begins);
    last.is_some_and(|at| is_of_ports(&line[..at]))
}

/// Looked for at each byte that begins one: a search for each word would pass the line eight times.
fn is_of_ports(line: &[u8]) -> bool {
    let mut rest = line;
    while let Some(at) = rest.iter().position(|&byte| is(byte, BEGINS_PORT)) {
        rest = &rest[at..];
        let mut words = OF_PORTS.iter().map(|word| word.as_bytes());
        if words.any(|word| word[0] == rest[0] && rest.starts_with(word)) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}
