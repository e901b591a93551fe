//! Every check over the seeds of the fuzzers, over what becomes of them by small changes, and over made inputs.

mod checks;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// Inputs of each check.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/seeds")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("each check has seeds")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| fs::read(file).expect("a file"))
        .collect()
}

#[test]
fn every_check_holds_for_its_seeds() {
    for (name, check) in checks::ALL {
        let seeds = seeds(name);
        assert!(seeds.len() >= 3, "{name}");
        for seed in &seeds {
            check(seed);
        }
    }
}

/// Cut, doubled, overwritten: what an incomplete write or a bad disk makes of a seed.
fn damaged(name: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let seeds = seeds(name);
    let changes = vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 0..6);
    (prop::sample::select(seeds), changes).prop_map(|(mut bytes, changes)| {
        for (place, how, byte) in changes {
            let at = place.index(bytes.len() + 1);
            match how {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                2 => bytes.extend_from_within(at..),
                _ => bytes
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|old| *old = byte),
            }
        }
        bytes.truncate(1 << 16);
        bytes
    })
}

/// Any JSON, with the keys and words that messages are made of.
fn tree() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 21] = [
        "type",
        "text",
        "content",
        "role",
        "user",
        "assistant",
        "system",
        "tool_use",
        "tool_result",
        "image",
        "id",
        "name",
        "input",
        "source",
        "data",
        "usage",
        "message",
        "uuid",
        "timestamp",
        "cache_control",
        "is_error",
    ];
    let word = prop_oneof![
        prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        ".{0,12}"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no others", |float| float.is_finite())
            .prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        let members = vec((word.clone(), inner.clone()), 0..5);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

const KINDS: [&str; 8] = [
    "text",
    "tool_use",
    "tool_result",
    "thinking",
    "image",
    "document",
    "server_tool_use",
    "odd",
];

/// Most of what a provider or a transcript could hold.
fn message() -> impl Strategy<Value = Value> {
    let role =
        prop::sample::select(&["user", "assistant", "system", "tool", "developer", "none"][..]);
    let block = (prop::sample::select(&KINDS[..]), tree(), tree(), ".{0,40}").prop_map(|(kind, input, content, text)| {
        json!({"type": kind, "text": text, "id": "call", "tool_use_id": "call", "name": "Read", "input": input,
            "content": content, "thinking": "so", "signature": "c2lnbmVk"})
    });
    let content = prop_oneof![
        "(?s).{0,80}".prop_map(Value::from),
        vec(block, 0..4).prop_map(Value::from),
        tree()
    ];
    (role, content, tree(), any::<bool>()).prop_map(|(role, content, more, enveloped)| {
        let mut message = json!({"role": role, "content": content, "usage": more.clone()});
        if enveloped {
            message = json!({"type": role, "uuid": "u", "parentUuid": null, "message": message, "more": more});
        } else if let Value::Object(more) = more {
            message.as_object_mut().unwrap_or(&mut Map::new()).extend(more);
        }
        message
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn damaged_transcripts(data in damaged("jsonl_index")) {
        checks::jsonl_index(&data);
    }

    #[test]
    fn damaged_items(data in damaged("item_reader")) {
        checks::item_reader(&data);
    }

    #[test]
    fn damaged_texts(data in damaged("text_kernel")) {
        checks::text_kernel(&data);
        checks::exact_count(&data);
    }

    #[test]
    fn any_bytes(data in vec(any::<u8>(), 0..300)) {
        for (_, check) in &checks::ALL {
            check(&data);
        }
    }

    #[test]
    fn any_text(text in "(?s).{0,200}") {
        checks::text_kernel(text.as_bytes());
        checks::exact_count(text.as_bytes());
    }

    #[test]
    fn messages(messages in vec(message(), 1..4)) {
        let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
        for line in &lines {
            checks::item_reader(line.as_bytes());
        }
        checks::jsonl_index(lines.join("\n").as_bytes());
    }
}
