//! What a run of characters names, judged from the whole run inwards.

use super::{COLON, Kind, MAX_CHARS, MIN_CHARS, SIGN, SLASH, is_wide_letter};

const MAX_PART: usize = 80;
const MAX_PARTS: usize = 20;
const MAX_SYMBOL: usize = 100;
const ENDINGS: [char; 8] = ['.', ':', '/', '#', '@', '~', '+', '-'];

/// Last parts of file names.
const EXTENSIONS: &[&str] = &include!("../../../../python/ullage/data/file_endings.json");

/// Passes each name in a run to `take`, mostly none or one; `seen`: the classes of its characters.
pub(super) fn named<'a>(run: &'a str, seen: u8, take: &mut impl FnMut(&'a str, Kind)) {
    if chars(run) > MAX_CHARS || run.starts_with("toolu_") {
        return;
    }
    if seen & (COLON | SLASH | SIGN) == 0 {
        if let Some((name, kind)) = simple(run.trim_end_matches('.')) {
            take(name, kind);
        }
        return;
    }
    if seen & COLON != 0 && run.contains("://") {
        return;
    }
    let bare = run.trim_end_matches(ENDINGS).trim_start_matches([':', '+']);
    if is_option(bare) {
        if (MIN_CHARS..=MAX_PART).contains(&bare.len()) {
            take(bare, Kind::Option);
        }
        return;
    }
    let bare = bare.trim_start_matches('-');
    if bare.contains("::") {
        if is_scoped(bare) && chars(bare) <= MAX_SYMBOL {
            return take(bare, Kind::Symbol);
        }
        return bare.split("::").for_each(|part| anchored(part, take));
    }
    bare.split(':').for_each(|part| anchored(part, take));
}

/// `file.md#heading` is two; a ticket stays whole.
fn anchored<'a>(part: &'a str, take: &mut impl FnMut(&'a str, Kind)) {
    if part.starts_with('#') || !part.contains('#') {
        return single(part, take);
    }
    part.split('#').for_each(|inner| single(inner, take));
}

fn single<'a>(part: &'a str, take: &mut impl FnMut(&'a str, Kind)) {
    if chars(part) >= MIN_CHARS
        && let Some((name, kind)) = one(part)
    {
        take(name, kind);
    }
}

/// The name that a run without colons is.
fn one(part: &str) -> Option<(&str, Kind)> {
    if is_ticket(part) {
        return Some((part, Kind::Ticket));
    }
    let part = part.trim_start_matches('#');
    if part.contains('/') {
        return path(part);
    }
    if part.contains(['@', '~']) {
        return None; // an address of a mailbox, a package with its version
    }
    if is_uuid(part) {
        return Some((part, Kind::Id));
    }
    simple(without_grep_tail(part))
}

/// The name that letters, digits and points are.
fn simple(part: &str) -> Option<(&str, Kind)> {
    if is_commit(part) {
        return Some((part, Kind::Commit));
    }
    plain(part)
}

fn path(part: &str) -> Option<(&str, Kind)> {
    let part = if part.starts_with("//") {
        part.trim_start_matches('/')
    } else {
        part
    };
    let part = if part.starts_with("...") {
        part.trim_start_matches('.')
    } else {
        part.strip_prefix("./").unwrap_or(part)
    };
    if !part.contains('/') {
        return plain(part);
    }
    let name = without_diff_head(without_grep_tail(part));
    let inner = name.strip_prefix('/').unwrap_or(name);
    if chars(name) < MIN_CHARS || matches!(name, "dev/null" | "/dev/null" | "and/or") {
        return None;
    }
    let fits = inner.split('/').count() <= MAX_PARTS
        && name
            .chars()
            .any(|c| c.is_ascii_alphabetic() || is_wide_letter(c))
        && inner.split('/').all(|each| is_part(each) && !is_data(each))
        && !(name.contains('.') && name.contains("..."));
    fits.then_some((name, Kind::Path))
}

fn plain(part: &str) -> Option<(&str, Kind)> {
    if chars(part) < MIN_CHARS {
        return None;
    }
    if is_file(part) || is_dotfile(part) {
        return Some((part, Kind::Path));
    }
    let part = part.trim_matches('.');
    if !(MIN_CHARS..=MAX_SYMBOL).contains(&chars(part)) || is_random(part) {
        return None;
    }
    (is_dotted(part) || is_symbol(part)).then_some((part, Kind::Symbol))
}

fn chars(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || is_wide_letter(c)
}

fn all_words(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word)
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `--no-verify`.
fn is_option(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("--") else {
        return false;
    };
    rest.starts_with(|c: char| c.is_ascii_lowercase())
        && rest
            .split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// `std::fs::read`.
fn is_scoped(text: &str) -> bool {
    (2..=9).contains(&text.split("::").count()) && text.split("::").all(all_words)
}

/// `#12`, `ABC-12`.
fn is_ticket(text: &str) -> bool {
    let short = |number: &str| digits(number) && number.len() <= 6;
    if let Some(number) = text.strip_prefix('#') {
        return short(number);
    }
    let Some((project, number)) = text.split_once('-') else {
        return false;
    };
    (2..=10).contains(&project.len())
        && project.starts_with(|c: char| c.is_ascii_uppercase())
        && project
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && short(number)
}

fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    text.len() == 36
        && text.split('-').count() == lengths.len()
        && text.split('-').zip(lengths).all(|(part, length)| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

fn is_commit(text: &str) -> bool {
    (text.len() == 40 || (7..=12).contains(&text.len()))
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// `file.go-1236-text` is a context line of grep, not a file.
fn without_grep_tail(text: &str) -> &str {
    for (dot, _) in text.match_indices('.') {
        let rest = &text[dot + 1..];
        let ending = rest
            .bytes()
            .take_while(u8::is_ascii_alphanumeric)
            .take(8)
            .count();
        if !(1..=7).contains(&ending) || !rest.as_bytes()[0].is_ascii_alphabetic() {
            continue;
        }
        let Some(tail) = rest[ending..].strip_prefix('-') else {
            continue;
        };
        let after = tail.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() < tail.len() && (after.is_empty() || after.starts_with('-')) {
            return &text[..=dot + ending];
        }
    }
    text
}

/// `a/src/x.py` and `b/src/x.py` in a diff are `src/x.py`.
fn without_diff_head(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("a/").or_else(|| text.strip_prefix("b/")) else {
        return text;
    };
    let mut following = rest.chars();
    let named = following.next().is_some_and(|first| first != '/');
    if named && following.any(|c| matches!(c, '/' | '.')) {
        rest
    } else {
        text
    }
}

fn is_part(text: &str) -> bool {
    (1..=MAX_PART).contains(&chars(text))
        && text
            .chars()
            .all(|c| is_word(c) || matches!(c, '.' | '@' | '~' | '+' | '-'))
}

/// Versions and base64 runs are not places in a file system, nor are shortened names.
fn is_data(part: &str) -> bool {
    is_version(part) || is_random(part)
}

fn is_version(part: &str) -> bool {
    let Some(rest) = part.strip_prefix('v') else {
        return false;
    };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    after.len() < rest.len()
        && after
            .strip_prefix('.')
            .is_some_and(|minor| minor.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a run of letters and digits looks drawn, as base64 and keys do.
fn is_random(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 16
        && bytes.iter().all(u8::is_ascii_alphanumeric)
        && bytes.iter().any(u8::is_ascii_lowercase)
        && bytes.iter().any(u8::is_ascii_uppercase)
        && bytes.iter().filter(|byte| byte.is_ascii_digit()).count() >= 3
}

/// `name.test.ts`: up to five parts, the last a usual ending.
fn is_file(text: &str) -> bool {
    let text = text.strip_prefix('.').unwrap_or(text);
    let Some((stem, ending)) = text.rsplit_once('.') else {
        return false;
    };
    EXTENSIONS.contains(&ending)
        && stem.split('.').count() <= 4
        && stem.split('.').all(|part| {
            !part.is_empty() && part.chars().all(|c| is_word(c) || matches!(c, '+' | '-'))
        })
}

fn is_dotfile(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('.') else {
        return false;
    };
    let before = |ending: &str| {
        rest.strip_suffix(ending)
            .is_some_and(|stem| !stem.is_empty())
    };
    rest.bytes().all(|byte| byte.is_ascii_lowercase())
        && (rest == "env" || rest.starts_with("git") || before("rc") || before("ignore"))
}

/// `cfg.Source`: two to six words that begin with no digit.
fn is_dotted(text: &str) -> bool {
    (2..=6).contains(&text.split('.').count())
        && text
            .split('.')
            .all(|part| all_words(part) && !part.starts_with(|c: char| c.is_ascii_digit()))
}

/// `snake_case`, `_private`, `camelCase`, `E0433`.
fn is_symbol(text: &str) -> bool {
    if !all_words(text) || !text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return false;
    }
    let bytes = text.as_bytes();
    let joined =
        |w: &[u8]| w[0].is_ascii_alphanumeric() && w[1] == b'_' && w[2].is_ascii_alphanumeric();
    let hump = |w: &[u8]| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase();
    let code = text
        .strip_prefix('E')
        .is_some_and(|number| digits(number) && (3..=4).contains(&number.len()));
    bytes.windows(3).any(joined)
        || (bytes[0] == b'_' && chars(text) >= 4)
        || bytes.windows(2).any(hump)
        || code
}
