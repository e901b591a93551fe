//! The sentences of a text: parts between line breaks, and blanks after a full stop, question or exclamation mark. Which of some
//! texts stand in another.
//!
//! Twin of `_reference/text.py`. Blanks are Python's.

use crate::outcome::is_blank;
use memchr::memmem;

/// The sentences in order, without blanks around them, that have from `least` to `most` characters.
///
/// ```
/// use ullage_core::sentences::sentences;
///
/// assert_eq!(sentences("It works. ok\nSee a.py.  Then go on!", 3, 20), ["It works.", "See a.py.", "Then go on!"]);
/// ```
#[must_use]
pub fn sentences<'a>(text: &'a str, least: usize, most: usize) -> Vec<&'a str> {
    let (mut found, mut start, mut before, mut at) = (Vec::new(), 0, b' ', 0);
    let bytes = text.as_bytes();
    let mut take = |part: &'a str| {
        let part = part.trim_matches(is_blank);
        if part.len() >= least && (least..=most).contains(&part.chars().count()) {
            found.push(part);
        }
    };
    while at < bytes.len() {
        let size = blank_at(text, at);
        if size > 0 && (bytes[at] == b'\n' || matches!(before, b'.' | b'!' | b'?')) {
            take(&text[start..at]);
            start = at + size;
        }
        before = bytes[at];
        at += size.max(1);
    }
    take(&text[start..]);
    found
}

/// The bytes of the blank that begins here; 0: none does.
fn blank_at(text: &str, at: usize) -> usize {
    if matches!(text.as_bytes()[at], b'!'..=b'~') || !text.is_char_boundary(at) {
        return 0;
    }
    let first = text[at..].chars().next();
    first.filter(|&c| is_blank(c)).map_or(0, char::len_utf8)
}

/// For each of some texts whether it stands in another.
#[must_use]
pub fn contained<'a>(texts: impl IntoIterator<Item = &'a str>, whole: &str) -> Vec<bool> {
    let texts = texts.into_iter();
    texts
        .map(|text| memmem::find(whole.as_bytes(), text.as_bytes()).is_some())
        .collect()
}
