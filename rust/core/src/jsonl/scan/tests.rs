//! Tests of [`super`].

use super::{Container, Fault, Raw, Skipped, scalar_end, string};
use crate::jsonl::source::Source;
use crate::simd::machines::on_each_machine;
use crate::simd::{Wide, WideWork, widest_lanes};

#[derive(Clone, Copy)]
struct Text<'a>(Source<'a>);

impl WideWork for Text<'_> {
    type Output = Result<Raw, Fault>;

    #[inline(always)]
    fn run<W: Wide>(self) -> Self::Output {
        string::<W>(self.0, 1)
    }
}

/// What all machines agree upon.
fn agreed<T: WideWork + Copy>(work: T) -> T::Output
where
    T::Output: PartialEq + std::fmt::Debug,
{
    let mut found = on_each_machine(|| widest_lanes(work));
    let first = found.swap_remove(0);
    assert!(
        found.iter().all(|other| *other == first),
        "{first:?} {found:?}"
    );
    first
}

fn text(bytes: &[u8]) -> Result<Raw, Fault> {
    agreed(Text(Source::new(bytes, bytes.len())))
}

fn skipped(bytes: &[u8]) -> Result<Skipped, Fault> {
    agreed(Container(Source::new(bytes, bytes.len()), 0))
}

fn end(bytes: &[u8]) -> Result<usize, Fault> {
    match bytes.first() {
        Some(b'"') => text(bytes).map(|found| found.end + 1),
        Some(b'{' | b'[') => skipped(bytes).map(|found| found.end),
        _ => scalar_end(bytes, 0),
    }
}

#[test]
fn values_end_where_their_structure_says() {
    for value in [
        r#""""#,
        r#""a\"b""#,
        r#""\\""#,
        "{}",
        "[]",
        r#"{"a":"}"}"#,
        r#"[1,[2,"]"]]"#,
        "1",
        "-0.5e+7",
        "true",
        "null",
        r#""\\\\\"""#,
    ] {
        for blanks in [1, 63, 64, 130] {
            let text = format!("{value}{}", " ".repeat(blanks));
            assert_eq!(end(text.as_bytes()), Ok(value.len()), "{value}");
        }
    }
}

#[test]
fn deep_and_long_values_end_too() {
    let deep = format!("{}{} ", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(end(deep.as_bytes()), Ok(10_000));
    let long = format!("\"{}\" ", "a\\\"".repeat(5_000));
    assert_eq!(end(long.as_bytes()), Ok(15_002));
}

#[test]
fn what_is_cut_is_unfinished_and_what_is_wrong_malformed() {
    for text in ["", "\"a", "\"a\\\"", "{\"a\":1", "[[]", "12", "tru", "x"] {
        assert_eq!(end(text.as_bytes()), Err(Fault::Unfinished), "{text}");
    }
    for text in [
        "tru ", "01 ", "1. ", "- ", "1e ", ".5 ", "+1 ", "?", "NaN ", "1e+- ",
    ] {
        assert_eq!(end(text.as_bytes()), Err(Fault::Malformed), "{text}");
    }
}

#[test]
fn what_is_more_than_ascii_is_told_of_strings_and_of_what_is_skipped() {
    for (bytes, wide) in [
        (&b"\"a\xff\" "[..], true),
        (b"\"a\"\xff", false),
        (b"[\"\xf0\x9f\"] ", true),
        (b"[\"a\"]\xf0", false),
        (b"[\xe4] ", true),
    ] {
        let found = match bytes[0] {
            b'"' => text(bytes).map(|found| found.flags & Raw::WIDE != 0),
            _ => skipped(bytes).map(|found| found.wide),
        };
        assert_eq!(found, Ok(wide), "{bytes:?}");
    }
}

/// Where a container ends, found byte by byte.
fn plainly(bytes: &[u8]) -> Result<usize, Fault> {
    super::container_by_bytes(bytes, 0).map(|found| found.end)
}

#[test]
fn containers_of_any_bytes_end_where_reading_byte_by_byte_ends() {
    let signs = br#"\\\""{}[]a"#;
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..20_000 {
        let length = random(200);
        let mut bytes = b"[".to_vec();
        bytes.extend((0..length).map(|_| signs[random(signs.len())]));
        assert_eq!(end(&bytes), plainly(&bytes), "{bytes:?}");
    }
}

#[test]
fn what_lies_behind_the_end_changes_nothing() {
    for line in [&br#""abc\"#[..], b"\"abc", b"[1,\"", b"[1,{}"] {
        let ahead = [line, &b"\"]}".repeat(40)].concat();
        let source = Source::new(&ahead, line.len());
        let found = match line[0] {
            b'"' => agreed(Text(source)).map(|_| ()),
            _ => agreed(Container(source, 0)).map(|_| ()),
        };
        assert_eq!(found, Err(Fault::Unfinished), "{line:?}");
    }
}

#[test]
fn characters_are_counted_without_unescaping() {
    for (said, chars) in [
        ("", 0),
        ("abc", 3),
        (r"a\nb", 3),
        ("\u{e4}\u{df}\u{2713}\u{1f642}", 4),
        (r"\u00e4", 1),
        (r"\ud83d\ude42", 1),
        (r"\ud83d\ud83d\ude42", 2),
        (r"\ude42\ud83d", 2),
        (r"\\u00e4", 6),
        (r"\ud83dx\ude42", 3),
    ] {
        for front in [0, 57, 60, 63, 64] {
            let whole = format!("\"{}{said}\"", "a".repeat(front));
            let found = text(whole.as_bytes()).expect("a string");
            assert_eq!(found.chars, chars + front, "{said}");
            assert_eq!(
                found.flags & Raw::ESCAPES != 0,
                said.contains('\\'),
                "{said}"
            );
            let long = said.contains("\\u") && !said.contains("\\\\");
            assert_eq!(found.flags & Raw::LONG_ESCAPES != 0, long, "{said}");
            assert_eq!(found.flags & Raw::WIDE != 0, !said.is_ascii(), "{said}");
        }
    }
}
