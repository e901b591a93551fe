use super::*;

fn named(text: &str) -> Vec<(&'static str, u64)> {
    let features = Features::of(text.into());
    let pairs = feature::NAMES.into_iter().zip(features.0);
    pairs.filter(|pair| pair.1 > 0).collect()
}

#[test]
fn rounding_is_half_up() {
    assert_eq!([0, 1, 2, 5, 6, 10].map(rough_tokens), [0, 0, 1, 1, 2, 3]);
}

#[test]
fn ascii_classes() {
    assert_eq!(
        named("Hello wORLD"),
        [
            ("lower", 5),
            ("upper", 5),
            ("words", 2),
            ("words5", 2),
            ("glued_words", 1),
            ("humps", 1),
            ("caps", 3),
            ("rare", 1),
            ("spaces", 1)
        ]
    );
    assert_eq!(
        named("a1--\n  \t\u{1}"),
        [
            ("lower", 1),
            ("words", 1),
            ("glued_words", 1),
            ("digits", 1),
            ("numbers", 1),
            ("punctuation", 2),
            ("punctuation_runs", 1),
            ("repeats", 1),
            ("spaces", 2),
            ("gaps", 1),
            ("tabs", 1),
            ("tab_runs", 1),
            ("newlines", 1),
            ("newline_runs", 1),
            ("controls", 1)
        ]
    );
}

#[test]
fn every_width_and_every_split_counts_alike() {
    let text =
        "Größe Привет שלום हिन्दी かな 漢字 한국 「」 « “x” → │ ✓ \u{301} 🎉 camelCase_9f8e7d 12345"
            .repeat(40);
    let points: Vec<u32> = text.chars().map(u32::from).collect();
    let expected = Features::of((&*text).into());
    assert_eq!(Features::of(Text::Ucs4(&points)), expected);
    let wide: Vec<u16> = points
        .iter()
        .map(|&point| u16::try_from(point).unwrap_or(0xFFFF))
        .collect();
    let basic: Vec<u32> = wide.iter().map(|&unit| u32::from(unit)).collect();
    assert_eq!(
        Features::of(Text::Ucs2(&wide)),
        Features::of(Text::Ucs4(&basic))
    );
    assert_eq!(Text::from(&*text).char_len(), points.len());
}

#[test]
fn bytes_that_are_no_utf8_count_one_each() {
    for bytes in [
        &b"\xff"[..],
        b"\xc3",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\x80",
        b"\xc0\x80",
    ] {
        assert_eq!(Text::Wtf8(bytes).char_len(), bytes.len(), "{bytes:?}");
    }
    assert_eq!(Text::Wtf8(b"\xed\xa0\x80").char_len(), 1);
}

#[test]
fn floats_are_spelled_as_python_does() {
    let cases = [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (123.456, "123.456"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e16, "1.5e+16"),
        (1e-4, "0.0001"),
        (1e-5, "1e-05"),
        (-1.25e-7, "-1.25e-07"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
        (f64::NAN, "NaN"),
    ];
    for (value, spelled) in cases {
        assert_eq!(float_repr(value), spelled);
    }
}

#[test]
fn json_strings_count_their_escapes() {
    assert_eq!(string_json_length("".into()), 2);
    assert_eq!(
        string_json_length("a\"\\\n\r\t\u{8}\u{c}".into()),
        2 + 1 + 14
    );
    assert_eq!(
        string_json_length("\u{0}\u{1f}\u{7f}é漢🎉".into()),
        2 + 12 + 4
    );
    assert_eq!(string_json_length(Text::Ucs4(&[0xD800, 0x22])), 2 + 1 + 2);
}

#[test]
fn images_are_scaled_before_they_are_counted() {
    let rule = ImageRule {
        patch_px: 28,
        max_edge_px: 1568,
        max_tokens: 1568,
        default_tokens: 2000,
    };
    assert_eq!(image_tokens(0, 10, &rule), 2000);
    assert_eq!(image_tokens(1, 1, &rule), 1);
    assert_eq!(image_tokens(1000, 1000, &rule), 36 * 36);
    assert_eq!(image_tokens(200, 200, &rule), 64);
    assert!(image_tokens(8000, 8000, &rule) <= 1568);
    assert_eq!(image_tokens(u32::MAX, 1, &rule), 56);
}

/// What each feature of the kernel means, one byte at a time.
fn slowly(text: &str) -> [u64; feature::SCRIPTS] {
    let mut counts = [0; feature::SCRIPTS];
    let mut counted = |at: usize, yes: bool| counts[at] += u64::from(yes);
    let bytes = text.as_bytes();
    let run = |at: usize, test: &dyn Fn(&u8) -> bool| {
        bytes[..=at].iter().rev().take_while(|b| test(b)).count()
    };
    for (at, byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map_or(0, |at| bytes[at]);
        let (word, number) = (
            run(at, &u8::is_ascii_alphabetic),
            run(at, &u8::is_ascii_digit),
        );
        let (sign, space) = (run(at, &u8::is_ascii_punctuation), run(at, &|b| *b == b' '));
        counted(0, byte.is_ascii_lowercase());
        counted(1, byte.is_ascii_uppercase());
        counted(2, word == 1);
        counted(3, word == 5);
        counted(4, word == 9);
        counted(5, word == 13);
        counted(6, word == 1 && before != b' ');
        counted(7, byte.is_ascii_uppercase() && before.is_ascii_lowercase());
        counted(8, byte.is_ascii_uppercase() && before.is_ascii_uppercase());
        counted(9, b"jkqvwxz".contains(&byte.to_ascii_lowercase()));
        counted(10, number > 0);
        counted(11, number == 1);
        counted(12, number == 4);
        counted(13, sign > 0);
        counted(14, sign == 1);
        counted(15, sign > 0 && b" \t\n".contains(&before));
        counted(16, sign > 1 && *byte == before);
        counted(17, space > 0);
        counted(18, space == 2);
        counted(19, *byte == b'\t');
        counted(20, *byte == b'\t' && before != b'\t');
        counted(21, *byte == b'\n');
        counted(22, *byte == b'\n' && before != b'\n');
        counted(23, byte.is_ascii_control() && !b"\t\n".contains(byte));
    }
    counts
}

#[test]
fn masks_count_what_a_look_at_each_byte_counts() {
    // Runs of all lengths, at all places of a block.
    let mut text = String::new();
    for (round, sign) in b"aZ9.-  \t\n\x01q!7Kw".iter().cycle().take(600).enumerate() {
        let many = round * round % 17;
        text.extend(std::iter::repeat_n(char::from(*sign), many));
    }
    for start in 0..130 {
        for stop in [
            start,
            start + 1,
            start + 63,
            start + 64,
            start + 65,
            text.len(),
        ] {
            let part = &text[start..stop];
            let found = Features::of(part.into()).0;
            assert_eq!(found[..feature::SCRIPTS], slowly(part), "{start}..{stop}");
        }
    }
}

#[test]
fn texts_add_up_whatever_their_lengths() {
    let text = "Zwölf Boxkämpfer, jagen\tViktor!! 0123456789 漢字 ".repeat(9);
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let (mut together, mut sums) = (Counter::default(), [0; FEATURES]);
    for (from, to) in ends.iter().zip(ends.iter().cycle().skip(40)) {
        let part = text.get(*from..*to).unwrap_or_default();
        together.text(part.into());
        for (sum, count) in sums.iter_mut().zip(Features::of(part.into()).0) {
            *sum += count;
        }
    }
    assert_eq!(together.take().0, sums);
    assert!(together.is_untouched());
}
