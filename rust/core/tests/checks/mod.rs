//! What must hold for any bytes, each as one function that panics where it does not: run by `cargo test` over seeds and made
//! inputs (`tests/properties.rs`), and by the fuzzers (`rust/fuzz`) over what they find.

mod json;

use json::Tree;
use std::sync::LazyLock;
use tiktoken_rs::{CoreBPE, cl100k_base, o200k_base};
use ullage_core::bpe::Tokenizer;
use ullage_core::digest::{BLOCK_KINDS, BlockDigest, MessageDigest, ROLES};
use ullage_core::error::Error;
use ullage_core::json::Json;
use ullage_core::jsonl::{Index, Line, Reader, has_long_digits};
use ullage_core::read::{read_entry, read_item};
use ullage_core::simd::machines::on_each_machine;
use ullage_core::strings::Strings;
use ullage_core::text::{
    Counter, FEATURES, Features, HiddenRule, ImageRule, Text, Weights, feature, string_escapes,
};
use ullage_core::view::{Value, each_point};

/// A check of any bytes.
pub(crate) type Check = fn(&[u8]);

/// All of them, by the name of the fuzz target and of the folder with its seeds.
pub(crate) const ALL: [(&str, Check); 5] = [
    ("jsonl_index", jsonl_index),
    ("item_reader", item_reader),
    ("text_kernel", text_kernel),
    ("exact_count", exact_count),
    ("vocabulary", vocabulary),
];

/// What all machines agree upon.
fn agreed<T: PartialEq + std::fmt::Debug>(work: impl Fn() -> T) -> T {
    let mut found = on_each_machine(work);
    let least = found.swap_remove(0);
    assert!(
        found.iter().all(|other| *other == least),
        "{least:?} {found:?}"
    );
    least
}

// ---- the index of a transcript ------------------------------------------------------------------

/// Lines are those of the bytes; each that `serde_json` takes for an object is read as what it says; neither the machine nor
/// the pieces in which the bytes come change anything.
pub(crate) fn jsonl_index(data: &[u8]) {
    looked_into(&Index::read(data, None));
    let index = agreed(|| Summary::of(&Index::read(data, None)));
    assert_eq!(index, Summary::of(&in_pieces(data)), "read in pieces");
    let mut known = index.lines.iter().peekable();
    for (number, line) in (1..).zip(bodies(data)) {
        let found = known.next_if(|found| found.0 == number);
        let Some(written) = std::str::from_utf8(line).ok().and_then(object) else {
            continue;
        };
        let found = found.expect("a line that is JSON is indexed");
        assert!(
            index.bad.iter().all(|(bad, _)| *bad != number),
            "line {number} is JSON"
        );
        assert_eq!(found.1, line.len() as u64);
        for (key, said) in ["type", "subtype", "uuid", "parentUuid"]
            .iter()
            .zip(&found.2)
        {
            let written = written.get(key).and_then(serde_json::Value::as_str);
            assert_eq!(written.unwrap_or_default().as_bytes(), said, "{key}");
        }
        assert_eq!(found.3, Digest::of_line(Tree(&written)), "line {number}");
    }
}

/// The context, what fills it, and what a line can do without are found whatever the lines say.
fn looked_into(index: &Index) {
    let all: Vec<usize> = (0..index.lines().len()).collect();
    let survey = index.survey(&all, &[], &[]);
    let parts: u64 = survey.facts().categories.iter().sum();
    assert!(parts <= survey.ledger().tokens(0, all.len()));
    let most = 2 * (all.len() + 1);
    assert!(survey.message_count().is_none_or(|count| count <= most));
    let context = index.context(all.len(), &[]);
    assert!(context.is_none_or(|found| found.lines.len() <= all.len()));
    for (at, line) in index.lines().iter().enumerate() {
        let inside = |copy: std::ops::Range<usize>| copy.end as u64 <= line.length;
        assert!(index.ui_copy(at).is_none_or(inside));
    }
}

/// What an index says of one line: number, length, names, digest.
type Row = (u32, u64, [Vec<u8>; 4], Option<Digest>);

#[derive(Debug, PartialEq)]
struct Summary {
    lines: Vec<Row>,
    bad: Vec<(u32, &'static str)>,
    torn: Option<std::ops::Range<u64>>,
    size: u64,
}

impl Summary {
    fn of(index: &Index) -> Self {
        let bad = index.bad().iter();
        Self {
            lines: index.lines().iter().map(|line| row(index, line)).collect(),
            bad: bad
                .map(|(number, problem)| (*number, problem.reason()))
                .collect(),
            torn: index.torn(),
            size: index.size(),
        }
    }
}

fn row(index: &Index, line: &Line) -> Row {
    let names = [line.kind, line.subtype, line.uuid, line.parent];
    let names = names.map(|number| index.string(number).to_vec());
    let digest = index.message(line).map(|message| {
        let first = message.first_block as usize;
        let blocks = &index.blocks()[first..first + message.block_count as usize];
        Digest::of(message, blocks, |number| index.string(number).to_vec())
    });
    (line.number, line.length, names, digest)
}

fn in_pieces(data: &[u8]) -> Index {
    let mut reader = Reader::new(None);
    for piece in data.split_inclusive(|byte| *byte == b'\n') {
        reader.feed(piece);
    }
    reader.finish()
}

/// Lines without what stands around them.
fn bodies(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let data = data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(data);
    data.split(|byte| *byte == b'\n').map(|line| {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let start = line
            .iter()
            .position(|byte| !blank(byte))
            .unwrap_or(line.len());
        let end = line
            .iter()
            .rposition(|byte| !blank(byte))
            .map_or(start, |at| at + 1);
        &line[start..end]
    })
}

fn object(line: &str) -> Option<serde_json::Value> {
    serde_json::from_str(line)
        .ok()
        .filter(serde_json::Value::is_object)
}

// ---- one message --------------------------------------------------------------------------------

/// A digest whose strings are spelled out: numbers differ between tables.
#[derive(Debug, PartialEq)]
struct Digest {
    message: MessageDigest,
    blocks: Vec<BlockDigest>,
    strings: Vec<Vec<u8>>,
}

impl Digest {
    fn of(
        message: &MessageDigest,
        blocks: &[BlockDigest],
        string: impl Fn(u32) -> Vec<u8>,
    ) -> Self {
        let numbers = blocks.iter().flat_map(|block| [block.id, block.name]);
        let numbers = [message.uuid, message.response_id]
            .into_iter()
            .chain(numbers);
        let blocks = blocks.iter().map(|block| BlockDigest {
            id: 0,
            name: 0,
            ..*block
        });
        Self {
            strings: numbers.map(string).collect(),
            message: MessageDigest {
                uuid: 0,
                response_id: 0,
                first_block: 0,
                block_count: 0,
                ..*message
            },
            blocks: blocks.collect(),
        }
    }

    /// What a line of a transcript holds, if anyone could take its message.
    fn of_line<V: Value>(line: V) -> Option<Self> {
        let (mut strings, mut blocks) = (Strings::default(), Vec::new());
        let (_, read) = read_entry(line, None, &mut strings, &mut blocks);
        let message = read.ok()?;
        Some(Self::of(&message, &blocks, |number| {
            strings.get(number).to_vec()
        }))
    }

    fn of_item<V: Value>(item: V, weights: Option<&Weights>) -> Result<Self, Error> {
        let (mut strings, mut blocks) = (Strings::default(), Vec::new());
        let message = read_item(item, weights, &mut strings, &mut blocks)?;
        Ok(Self::of(&message, &blocks, |number| {
            strings.get(number).to_vec()
        }))
    }
}

/// Any bytes can be read as an item; those that `serde_json` takes are read as over its own tree, errors included.
pub(crate) fn item_reader(data: &[u8]) {
    let weights = weights();
    for weights in [None, Some(&weights)] {
        let found = agreed(|| Digest::of_item(Json(data), weights));
        let Some(tree) = std::str::from_utf8(data).ok().and_then(object) else {
            continue;
        };
        let cut = Json::first(data).expect("a value that is JSON can be cut out");
        assert_eq!(
            Digest::of_item(cut, weights),
            Digest::of_item(Tree(&tree), weights)
        );
        drop(found);
    }
}

/// Weights that tell all features, kinds and roles apart.
fn weights() -> Weights {
    let rising = |base: u32| move |at: usize| base + 257 * at as u32;
    Weights {
        features: std::array::from_fn::<_, FEATURES, _>(rising(100)),
        blocks: std::array::from_fn::<_, BLOCK_KINDS, _>(rising(4096)),
        messages: std::array::from_fn::<_, ROLES, _>(rising(8192)),
        image: ImageRule::default(),
        hidden: HiddenRule {
            free_chars: 40,
            per_char: 900,
        },
    }
}

// ---- texts --------------------------------------------------------------------------------------

/// Features and escapes depend on the characters alone: not on the machine, the width in which they are stored, nor on which
/// texts are counted together. ASCII is counted as a look at each byte counts it.
pub(crate) fn text_kernel(data: &[u8]) {
    let whole = agreed(|| seen(Text::Wtf8(data)));
    agreed(|| has_long_digits(data));
    let ascii: Vec<u8> = data.iter().map(|byte| byte & 0x7F).collect();
    let counted = agreed(|| seen(Text::Ascii(&ascii)));
    assert_eq!(counted.0.0[..feature::SCRIPTS], plainly(&ascii));
    assert_eq!(counted.2, ascii.len());
    if let Ok(text) = std::str::from_utf8(data) {
        any_width(text, &whole);
        any_split(
            text,
            usize::from(data.first().copied().unwrap_or(1)) % 70 + 1,
        );
    }
}

/// All that is asked of a text.
fn seen(text: Text<'_>) -> (Features, u64, usize) {
    (Features::of(text), string_escapes(text), text.char_len())
}

fn any_width(text: &str, expected: &(Features, u64, usize)) {
    let points: Vec<u32> = text.chars().map(u32::from).collect();
    let mut again = Vec::new();
    each_point(text.into(), |point| {
        again.push(point);
        true
    });
    assert_eq!(again, points);
    assert_eq!(agreed(|| seen(Text::Ucs4(&points))), *expected);
    if let Ok(units) = points
        .iter()
        .map(|&point| u16::try_from(point))
        .collect::<Result<Vec<_>, _>>()
    {
        assert_eq!(agreed(|| seen(Text::Ucs2(&units))), *expected);
    }
    if let Ok(bytes) = points
        .iter()
        .map(|&point| u8::try_from(point))
        .collect::<Result<Vec<_>, _>>()
    {
        assert_eq!(agreed(|| seen(Text::Latin1(&bytes))), *expected);
    }
}

/// Parts that are counted together count as much as each by itself.
fn any_split(text: &str, size: usize) {
    let characters: Vec<char> = text.chars().collect();
    let (mut together, mut sums) = (Counter::default(), [0; FEATURES]);
    for part in characters.chunks(size) {
        let part: String = part.iter().collect();
        together.text((&*part).into());
        for (sum, count) in sums.iter_mut().zip(Features::of((&*part).into()).0) {
            *sum += count;
        }
    }
    assert_eq!(together.take().0, sums);
}

/// What each feature of ASCII means, one byte at a time.
fn plainly(bytes: &[u8]) -> [u64; feature::SCRIPTS] {
    let mut counts = [0; feature::SCRIPTS];
    let [mut word, mut number, mut sign, mut space] = [0; 4];
    let mut before = 0;
    for byte in bytes {
        let grown = |run: usize, goes_on: bool| if goes_on { run + 1 } else { 0 };
        word = grown(word, byte.is_ascii_alphabetic());
        number = grown(number, byte.is_ascii_digit());
        sign = grown(sign, byte.is_ascii_punctuation());
        space = grown(space, *byte == b' ');
        let upper = byte.is_ascii_uppercase();
        let facts = [
            byte.is_ascii_lowercase(),
            upper,
            word == 1,
            word == 5,
            word == 9,
            word == 13,
            word == 1 && before != b' ',
            upper && before.is_ascii_lowercase(),
            upper && before.is_ascii_uppercase(),
            b"jkqvwxz".contains(&byte.to_ascii_lowercase()),
            number > 0,
            number == 1,
            number == 4,
            sign > 0,
            sign == 1,
            sign > 0 && b" \t\n".contains(&before),
            sign > 1 && *byte == before,
            space > 0,
            space == 2,
            *byte == b'\t',
            *byte == b'\t' && before != b'\t',
            *byte == b'\n',
            *byte == b'\n' && before != b'\n',
            byte.is_ascii_control() && !b"\t\n".contains(byte),
        ];
        for (count, yes) in counts.iter_mut().zip(facts) {
            *count += u64::from(yes);
        }
        before = *byte;
    }
    counts
}

// ---- exact counts -------------------------------------------------------------------------------

static ENCODINGS: LazyLock<[(Tokenizer, CoreBPE); 2]> = LazyLock::new(|| {
    let own = |name, data: &[u8]| Tokenizer::new(name, data).expect("the file is whole");
    [
        (
            own(
                "o200k_base",
                include_bytes!("../../../../python/ullage/data/o200k_base.bpe"),
            ),
            o200k_base().expect("the crate brings it"),
        ),
        (
            own(
                "cl100k_base",
                include_bytes!("../../../../python/ullage/data/cl100k_base.bpe"),
            ),
            cl100k_base().expect("the crate brings it"),
        ),
    ]
});

/// Tokens are those of tiktoken, counted or encoded, from the cache or not, up to a limit or without.
pub(crate) fn exact_count(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for (own, peer) in &*ENCODINGS {
        let ids = peer.encode_ordinary(&text);
        assert_eq!(own.encode(&text), ids);
        assert_eq!(own.count(&text), ids.len());
        assert_eq!(own.count(&text), ids.len(), "from the cache");
        assert_eq!(own.count_up_to(&text, ids.len()), Some(ids.len()));
        if let Some(less) = ids.len().checked_sub(1) {
            assert_eq!(own.count_up_to(&text, less), None);
        }
    }
}

/// A file that was damaged is refused, or still a vocabulary: whose tokens together are the text, and are as many as counted.
pub(crate) fn vocabulary(data: &[u8]) {
    for name in ["o200k_base", "cl100k_base"] {
        let Ok(tokenizer) = Tokenizer::new(name, data) else {
            continue;
        };
        for text in ["", "a", "the cat's  12345\n\n naïve 漢字 \u{1F600}"] {
            assert_eq!(
                tokenizer.encode(text).len(),
                tokenizer.count(text),
                "{text}"
            );
        }
    }
}
