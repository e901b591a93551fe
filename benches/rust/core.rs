//! Wall times of the core's hot paths, without Python: `make bench-rust`.
//!
//! Inputs are made here, the same in every run; each answer is checked before it is timed. Ratios within one run are what counts.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use serde_json::{Value as Any, json};
use std::fmt::Write;
use ullage_core::bpe::Tokenizer;
use ullage_core::json::Json;
use ullage_core::jsonl::Index;
use ullage_core::ledger::Ledger;
use ullage_core::limits::{KEEP_MAX_TOKENS, KEEP_MIN_TEXT_MESSAGES, KEEP_MIN_TOKENS};
use ullage_core::media::holds_media;
use ullage_core::rounds::rounds;
use ullage_core::text::{Features, HiddenRule, ImageRule, Text, Weights, estimate_text};
use ullage_core::window::{Enough, keep_window};

const MESSAGES: usize = 1_000;

fn main() {
    divan::main();
}

/// Lines of code, each a little different.
fn code(lines: usize) -> String {
    (0..lines).fold(String::new(), |mut text, line| {
        let name = ["index", "token", "budget", "message"][line % 4];
        let _ = writeln!(
            text,
            "    {name}_{line} = call(\"{name} {line}\", {});",
            line * line % 997
        );
        text
    })
}

/// A question, a call and its result, again and again; each tenth result has an image.
fn conversation() -> Vec<Any> {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    (0..MESSAGES)
        .map(|at| match at % 3 {
            0 => json!({"role": "user", "content": format!("Please look at number {at}.")}),
            1 => json!({"role": "assistant", "id": format!("msg_{at}"), "content": [
                {"type": "text", "text": "I read the file."},
                {"type": "tool_use", "id": format!("toolu_{at}"), "name": "Read", "input": {"file_path": "/src/a.py", "limit": at}},
            ]}),
            _ => {
                let mut content = vec![json!({"type": "text", "text": code(at % 40)})];
                content.extend((at % 10 == 0).then(|| image.clone()));
                json!({"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": format!("toolu_{}", at - 1), "content": content},
                ]})
            }
        })
        .collect()
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    for message in conversation() {
        let written = message.to_string();
        ledger
            .read(Json(written.as_bytes()), None)
            .expect("a message");
    }
    ledger
}

fn weights() -> Weights {
    Weights {
        features: [1024; _],
        blocks: [0; _],
        messages: [0; _],
        image: ImageRule::default(),
        hidden: HiddenRule::default(),
    }
}

#[divan::bench]
fn text_estimate(bencher: Bencher<'_, '_>) {
    let (text, weights) = (code(2_000), weights());
    let features = Features::of(Text::from(&*text)).0;
    assert_eq!(
        estimate_text(Text::from(&*text), &weights),
        (features.iter().sum::<u64>() * 1024 + 2048) / 4096
    );
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| estimate_text(Text::from(black_box(&*text)), &weights));
}

#[divan::bench]
fn jsonl_index(bencher: Bencher<'_, '_>) {
    let lines = conversation().into_iter().enumerate();
    let lines: Vec<String> = lines
        .map(|(at, message)| {
            let output = code(at % 60);
            let line = json!({"type": "user", "uuid": format!("uuid-{at}"), "toolUseResult": {"stdout": output}, "message": message});
            line.to_string()
        })
        .collect();
    let lines = lines.join("\n");
    let index = Index::read(lines.as_bytes(), None);
    assert_eq!((index.lines().len(), index.bad().len()), (MESSAGES, 0));
    assert!(
        index
            .lines()
            .iter()
            .all(|line| index.message(line).is_some())
    );
    bencher
        .counter(BytesCount::of_str(&lines))
        .bench(|| Index::read(black_box(lines.as_bytes()), None));
}

#[divan::bench]
fn scan(bencher: Bencher<'_, '_>) {
    let messages: Vec<String> = conversation().iter().map(Any::to_string).collect();
    let read = |messages: &[String]| {
        let mut ledger = Ledger::default();
        for message in messages {
            ledger
                .read(Json(message.as_bytes()), None)
                .expect("a message");
        }
        ledger
    };
    assert_eq!(read(&messages).open_calls(), []);
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .bench(|| read(black_box(&messages)));
}

#[divan::bench]
fn keep(bencher: Bencher<'_, '_>) {
    let (ledger, enough) = (
        ledger(),
        Enough {
            min_tokens: KEEP_MIN_TOKENS,
            max_tokens: KEEP_MAX_TOKENS,
            min_text_messages: KEEP_MIN_TEXT_MESSAGES,
        },
    );
    let kept = keep_window(&ledger, MESSAGES, 0, &enough);
    assert!(kept.orphans.is_empty() && kept.tokens >= KEEP_MIN_TOKENS);
    assert_eq!(kept.tokens, ledger.tokens(kept.start, MESSAGES));
    bencher.bench(|| keep_window(black_box(&ledger), MESSAGES, 0, &enough));
}

#[divan::bench]
fn group_rounds(bencher: Bencher<'_, '_>) {
    let ledger = ledger();
    // One for each response; what stands before the first belongs to the first.
    assert_eq!(rounds(&ledger, 0, MESSAGES).len(), MESSAGES / 3);
    bencher.bench(|| rounds(black_box(&ledger), 0, MESSAGES));
}

#[divan::bench]
fn find_media(bencher: Bencher<'_, '_>) {
    let messages: Vec<String> = conversation().iter().map(Any::to_string).collect();
    let count = |messages: &[String]| {
        let each = messages.iter();
        each.filter(|message| holds_media(Json(message.as_bytes())))
            .count()
    };
    let expected = (0..MESSAGES)
        .filter(|at| at % 3 == 2 && at % 10 == 0)
        .count();
    assert_eq!(count(&messages), expected);
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .bench(|| count(black_box(&messages)));
}

#[divan::bench]
fn exact_count(bencher: Bencher<'_, '_>) {
    let data = include_bytes!("../../python/ullage/data/o200k_base.bpe");
    let tokenizer = Tokenizer::new("o200k_base", data).expect("the file is whole");
    let text = code(2_000);
    let peer = tiktoken_rs::o200k_base().expect("the crate brings it");
    assert_eq!(tokenizer.count(&text), peer.encode_ordinary(&text).len());
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| tokenizer.count(black_box(&text)));
}
