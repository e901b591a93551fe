//! Against tiktoken-rs with the vocabulary files that it ships.
use std::collections::HashMap;

use super::*;
use tiktoken_rs::CoreBPE;

fn own(vocabulary: &str) -> Tokenizer {
    let data: &[u8] = match file_of(vocabulary) {
        "o200k_base" => include_bytes!("../../../../python/ullage/data/o200k_base.bpe"),
        "cl100k_base" => include_bytes!("../../../../python/ullage/data/cl100k_base.bpe"),
        _ => include_bytes!("../../../../python/ullage/data/p50k_base.bpe"),
    };
    Tokenizer::new(vocabulary, data).expect("the files are whole")
}

fn all() -> [(Tokenizer, &'static CoreBPE); 4] {
    [
        (own("o200k_base"), tiktoken_rs::o200k_base_singleton()),
        (own("cl100k_base"), tiktoken_rs::cl100k_base_singleton()),
        (own("p50k_base"), tiktoken_rs::p50k_base_singleton()),
        (own("r50k_base"), tiktoken_rs::r50k_base_singleton()),
    ]
}

fn assert_equal(text: &str) {
    for (own, peer) in &all() {
        check(own, peer, text);
    }
}

fn check(own: &Tokenizer, peer: &CoreBPE, text: &str) {
    let ids = peer.encode_ordinary(text);
    let start: String = text.chars().take(60).collect();
    assert_eq!(own.encode(text), ids, "{start:?}");
    assert_eq!(own.count(text), ids.len(), "{start:?}");
    assert_eq!(own.count(text), ids.len(), "from the cache: {start:?}");
    assert_eq!(
        own.count_up_to(text, ids.len()),
        Some(ids.len()),
        "{start:?}"
    );
    if let Some(less) = ids.len().checked_sub(1) {
        assert_eq!(own.count_up_to(text, less), None, "{start:?}");
    }
}

/// A small generator: texts of chosen alphabets that no person would write.
struct Texts(u64);

impl Texts {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % bound
    }

    fn text(&mut self, alphabet: &[&str], parts: usize) -> String {
        (0..parts)
            .map(|_| alphabet[self.below(alphabet.len())])
            .collect()
    }
}

#[test]
fn every_character_alone_and_before_letters() {
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    let every: String = all.iter().collect();
    let lettered: String = all
        .iter()
        .flat_map(|&c| [c, 'a', 'B', ' ', c, '\'', 's'])
        .collect();
    for text in [every, lettered] {
        for (own, peer) in &all_but_rare() {
            check(own, peer, &text);
        }
    }
}

fn all_but_rare() -> Vec<(Tokenizer, &'static CoreBPE)> {
    all().into_iter().take(2).collect()
}

#[test]
fn mixtures_of_what_the_patterns_tell_apart() {
    let alphabet = [
        "a",
        "bc",
        "D",
        "EF",
        "ǅ",
        "ʰ",
        "日",
        "本",
        "\u{301}",
        "ª",
        "1",
        "23",
        "²",
        "Ⅷ",
        " ",
        "  ",
        "\t",
        "\u{a0}",
        "\u{3000}",
        "\n",
        "\r\n",
        "/",
        "//",
        ".",
        "..",
        "-",
        "'",
        "'s",
        "'S",
        "'ſ",
        "'LL",
        "'re",
        "'vE",
        "😀",
        "👩‍👩‍👧",
        "\u{200d}",
        "\0",
        "\u{1c}",
        "\u{85}",
        "word",
        " The",
        "é",
        "Ünïcode",
        "<|endoftext|>",
    ];
    let (mut texts, encodings) = (Texts(7), all());
    for parts in 0..3000 {
        let text = texts.text(&alphabet, parts % 40);
        for (own, peer) in &encodings {
            check(own, peer, &text);
        }
    }
}

#[test]
fn windows_of_ascii() {
    let alphabet = [
        "a",
        "word",
        "The",
        "HTTPServer",
        "x",
        "X",
        "1",
        "12",
        "1234567",
        " ",
        "  ",
        "        ",
        "\t",
        "\n",
        "\n    ",
        "\n \n",
        "\r\n",
        "/",
        "//",
        ".",
        "..",
        "(",
        ");",
        "'",
        "'s",
        "'S",
        "'ll",
        "'re",
        "'vE",
        "'tx",
        "don't've",
        "\'\'\'",
        "_",
        "\0",
        "\n//",
        ".\n/",
        "\u{7f}",
        "é",
    ];
    let (mut texts, encodings) = (Texts(13), all_but_rare());
    for round in 0..600 {
        // Few kinds at a time, so that their pairs and long runs come up.
        let kinds: Vec<&str> = (0..2 + round % 7)
            .map(|_| alphabet[texts.below(alphabet.len())])
            .collect();
        let text = texts.text(&kinds, 120);
        for (own, peer) in &encodings {
            check(own, peer, &text);
        }
    }
}

#[test]
fn long_runs_take_linear_time() {
    for unit in [
        "a", " ", "\n", "日", "A", "ab", "é", "\u{301}", "0", "=", "aªB", "\r\n ",
    ] {
        let text = unit.repeat(3_000_000 / unit.len());
        for (own, _) in &all_but_rare() {
            let count = own.count(&text);
            assert_eq!(own.count_up_to(&text, count - 1), None);
        }
        assert_equal(&unit.repeat(300));
    }
}

#[test]
fn random_letters_backtrack() {
    let (mut texts, encodings) = (Texts(11), all_but_rare());
    let letters = ["a", "b", "e", "i", "n", "o", "r", "s", "t", "é", "日", "の"];
    for parts in 1..400 {
        let text = texts.text(&letters, parts);
        for (own, peer) in &encodings {
            check(own, peer, &text);
        }
    }
}

/// Byte-pair encoding as it is defined: the pair that merges first, the leftmost of equals, again and again.
fn merged(merges: &HashMap<(u32, u32), u32>, mut parts: Vec<u32>) -> Vec<u32> {
    loop {
        let pairs = parts.windows(2).enumerate();
        let first = pairs
            .filter_map(|(at, pair)| Some((*merges.get(&(pair[0], pair[1]))?, at)))
            .min();
        let Some((token, at)) = first else {
            return parts;
        };
        parts.splice(at..at + 2, [token]);
    }
}

#[test]
fn borders_stand_where_merging_leaves_them() {
    let data = include_bytes!("../../../../python/ullage/data/o200k_base.bpe");
    let packed = Packed::parse(data).expect("the file is whole");
    let merges: HashMap<(u32, u32), u32> = packed.merges().map(|(id, pair)| (pair, id)).collect();
    let (tokens, borders) = (packed.expand(), borders::Borders::new(&packed));
    let byte_token: HashMap<u8, u32> = packed.bytes().iter().copied().zip(0..).collect();
    let (mut texts, mut standing) = (Texts(17), 0);
    for round in 0..40_000 {
        // Early tokens meet early ones more often, and merge.
        let bound = [1_000, 20_000, packed.tokens()][round % 3];
        let [left, right] = [0; 2].map(|_| texts.below(bound) as u32);
        let both = [tokens.get(left), tokens.get(right)].concat();
        let parts = both.iter().map(|byte| byte_token[byte]).collect();
        let stands = merged(&merges, parts) == [left, right];
        assert_eq!(borders.stand(left, right), stands, "{left} {right}");
        standing += usize::from(stands);
    }
    assert!((4_000..39_000).contains(&standing), "{standing}");
}

#[test]
fn more_pieces_than_the_cache_holds() {
    let mut texts = Texts(19);
    let word = |texts: &mut Texts| {
        let letters = ["a", "b", "k", "r", "é", "ж", "日"];
        let length = 1 + texts.below(12);
        texts.text(&letters, length)
    };
    let text = (0..300_000)
        .map(|_| word(&mut texts))
        .collect::<Vec<_>>()
        .join(" ");
    let own = own("o200k_base");
    // Encoding remembers nothing.
    let ids = own.encode(&text).len();
    assert_eq!((own.count(&text), own.count(&text)), (ids, ids));
}

#[test]
fn damaged_vocabularies_are_refused() {
    let data = include_bytes!("../../../../python/ullage/data/cl100k_base.bpe");
    let mut early = data.to_vec();
    // The first left half becomes a token that is made much later.
    let left = 24 + 4 * u32::from_le_bytes([data[12], data[13], data[14], data[15]]) as usize + 256;
    early[left + 2 * (100_256 - 256)] = 1;
    for bad in [
        &data[..20],
        &data[..data.len() - 1],
        b"ullage-bpe-2",
        &early,
    ] {
        assert!(Tokenizer::new("cl100k_base", bad).is_err());
    }
    assert!(Tokenizer::new("o300k_base", data).is_err());
}
