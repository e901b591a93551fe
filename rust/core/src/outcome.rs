//! How a tool call ended, by its result: the exit code, and the line that shows it.
//!
//! Twin of `_reference/outcome.py`. Letters, digits and blanks of the patterns are those of ASCII, in both.

use regex::bytes::{Regex, RegexBuilder};
use std::borrow::Cow;

/// Lines of one result that are searched; the verdict of a build log is among them or at its end.
const SCANNED_LINES: usize = 3000;
/// Characters of a line that are looked at.
const LINE_CHARS: usize = 200;
/// Of the name of a test that failed, before the line that says why.
const TEST_CHARS: usize = 80;
/// Of a success, in which its verdict is looked for.
const LAST_LINES: usize = 12;
/// Characters at both ends in which hosts write an exit code; in between it is the output of something else.
const CODE_CHARS: usize = 400;
/// Characters at the beginning in which hosts write that a call failed.
const HEAD_CHARS: usize = 600;
/// Characters at the end in which a verdict is looked for.
const TAIL_CHARS: usize = 4000;
/// Of a success of which no line is a verdict: as few lines are shown by the newest.
const FEW_LINES: usize = 3;

/// What is looked for, by table: see the file.
const TABLES: &str = include_str!("../../../python/ullage/data/outcome.txt");

/// The lines of one table.
fn table(name: &str) -> impl Iterator<Item = &'static str> + '_ {
    let of_table = TABLES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .skip_while(move |line| !is_name(line) || line[1..line.len() - 1] != *name)
        .skip(1);
    of_table.take_while(|line| !is_name(line))
}

/// `[name]`; a pattern that begins with a bracket has it escaped.
fn is_name(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']')
}

/// What the result of a call says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it failed.
    pub failed: bool,
    /// The code that a host wrote at one of its ends.
    pub exit_code: Option<i32>,
    /// The error's first informative line, or the last line of a success; may be empty.
    pub line: String,
}

/// The patterns, ready for use: they take a millisecond to make.
#[derive(Debug)]
pub struct Reader {
    failed: Vec<&'static str>,
    exit: Regex,
    exit_json: Regex,
    error_tag: Regex,
    error: Regex,
    asserted: Regex,
    failed_test: Regex,
    strong: Regex,
    framing: Regex,
    verdict: Regex,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            failed: table("failed").collect(),
            exit: pattern("exit", true),
            exit_json: pattern("exit_json", false),
            error_tag: pattern("error_tag", false),
            error: pattern("error", true),
            asserted: pattern("asserted", true),
            failed_test: pattern("failed_test", false),
            strong: pattern("strong", false),
            framing: whole("framing"),
            verdict: pattern("verdict", true),
        }
    }
}

fn pattern(name: &str, any_case: bool) -> Regex {
    built(&alternatives(name), any_case)
}

/// A pattern that the whole of a line has to fit, letters of any case.
fn whole(name: &str) -> Regex {
    built(&format!("^(?:{})$", alternatives(name)), true)
}

fn alternatives(name: &str) -> String {
    table(name).collect::<Vec<_>>().join("|")
}

fn built(text: &str, any_case: bool) -> Regex {
    RegexBuilder::new(text)
        .unicode(false)
        .case_insensitive(any_case)
        .build()
        .expect("a constant that the tests compile")
}

impl Reader {
    /// Reads a result.
    ///
    /// ```
    /// use ullage_core::outcome::Reader;
    ///
    /// let found = Reader::default().outcome("Exit code: 2\nE  no such file\n", false);
    /// assert_eq!((found.failed, found.exit_code, &*found.line), (true, Some(2), "E  no such file"));
    /// ```
    #[must_use]
    pub fn outcome(&self, text: &str, is_error: bool) -> Outcome {
        let exit_code = self.exit_code(text);
        let said = stripped_start(first_chars(text, HEAD_CHARS));
        let failed = is_error
            || exit_code.is_some_and(|code| code != 0)
            || self
                .failed
                .iter()
                .any(|beginning| said.starts_with(beginning));
        let line = if failed {
            self.error_line(text)
        } else {
            self.verdict(text)
        };
        Outcome {
            failed,
            exit_code,
            line,
        }
    }

    /// Whether a host wrote a line around a result: exit code, time, size; or nobody wrote a word.
    #[must_use]
    pub fn is_framing(&self, line: &str) -> bool {
        line.chars().all(is_mark) || self.framing.is_match(line.as_bytes())
    }

    fn exit_code(&self, text: &str) -> Option<i32> {
        let parts = [first_chars(text, CODE_CHARS), last_chars(text, CODE_CHARS)];
        parts.iter().find_map(|part| {
            let patterns = [&self.exit, &self.exit_json];
            let found = patterns
                .iter()
                .find_map(|each| each.captures(part.as_bytes()))?;
            // Nine digits at most.
            let code = found.iter().skip(1).flatten().next()?;
            std::str::from_utf8(code.as_bytes()).ok()?.parse().ok()
        })
    }

    fn error_line(&self, text: &str) -> String {
        let text = self.without_tags(text);
        let mut lines = [None; 5]; // asserted, strong, error, any, the name of a test
        for line in text.split(is_break).take(SCANNED_LINES) {
            let line = stripped(line);
            let cut = first_chars(line, LINE_CHARS);
            if line.is_empty() || self.is_framing(cut) {
                continue;
            }
            let bytes = cut.as_bytes();
            let patterns = [&self.asserted, &self.strong, &self.error];
            for (place, pattern) in lines.iter_mut().zip(patterns) {
                if place.is_none() && pattern.is_match(bytes) {
                    *place = Some(cut);
                }
            }
            lines[3] = lines[3].or(Some(cut));
            if lines[4].is_none() && self.failed_test.is_match(bytes) {
                lines[4] = Some(cut);
            }
        }
        let line = lines[..4].iter().find_map(|line| *line).unwrap_or_default();
        match lines[4] {
            Some(test) if test != line => {
                let both = format!("{} / {line}", first_chars(test, TEST_CHARS));
                first_chars(&both, LINE_CHARS).to_owned()
            }
            _ => line.to_owned(),
        }
    }

    fn verdict(&self, text: &str) -> String {
        let text = self.without_tags(last_chars(text, TAIL_CHARS));
        let (mut newest, mut count) = ("", 0);
        for line in text.rsplit(is_break) {
            let line = first_chars(stripped(line), LINE_CHARS);
            if line.is_empty() || self.is_framing(line) {
                continue;
            }
            if self.verdict.is_match(line.as_bytes()) {
                return line.to_owned();
            }
            newest = if count == 0 { line } else { newest };
            count += 1;
            if count == LAST_LINES {
                break;
            }
        }
        if count <= FEW_LINES {
            newest.to_owned()
        } else {
            String::new()
        }
    }

    fn without_tags<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.error_tag.is_match(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        let bytes = self
            .error_tag
            .replace_all(text.as_bytes(), &b""[..])
            .into_owned();
        // Only ASCII was taken out.
        Cow::Owned(String::from_utf8(bytes).unwrap_or_default())
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// Punctuation, symbols, emoji: what no word is made of.
fn is_mark(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_alphanumeric() && c != '_';
    }
    matches!(c, '\u{80}'..='\u{bf}' | '×' | '÷' | '\u{2000}'..='\u{2bff}' | '\u{3000}'..='\u{303f}')
        || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// What Python takes off the ends of a line.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

fn stripped(text: &str) -> &str {
    text.trim_matches(is_blank)
}

fn stripped_start(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

fn first_chars(text: &str, count: usize) -> &str {
    if text.len() <= count || text.as_bytes()[..count].is_ascii() {
        return &text[..count.min(text.len())];
    }
    text.char_indices()
        .nth(count)
        .map_or(text, |(at, _)| &text[..at])
}

fn last_chars(text: &str, count: usize) -> &str {
    if text.len() <= count {
        return text;
    }
    let (bytes, at) = (text.as_bytes(), text.len() - count);
    if bytes[at..].is_ascii() {
        return &text[at..];
    }
    let last = text.char_indices().rev().nth(count - 1);
    last.map_or(text, |(at, _)| &text[at..])
}
