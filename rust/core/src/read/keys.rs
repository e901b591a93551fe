//! The keys that messages and blocks are read by: one pass over an object finds them all.

use crate::view::{LeafFault, Value, ascii};

/// The values of the keys that are known, whether there were others, and which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<V, const N: usize> {
    // Holds what an earlier object had where `mask` has no bit: emptying it costs as much as reading a block.
    values: [Option<V>; N],
    /// A bit for each key that is there.
    pub(super) mask: u64,
    /// Whether there are keys other than the known ones.
    pub(super) others: bool,
}

impl<V: Value, const N: usize> Fields<V, N> {
    pub(super) const EMPTY: Self = Self {
        values: [None; N],
        mask: 0,
        others: false,
    };

    /// Reads an object in place of the one before: moving fields costs as much as finding the keys.
    #[inline(always)]
    fn fill(&mut self, value: V, find: impl Fn(&[u8]) -> Option<usize>) {
        let fields = self;
        (fields.mask, fields.others) = (0, false);
        let visited: Result<(), LeafFault> = value.each_member(|key, value| {
            if let Some(place) = find(ascii(key)) {
                fields.values[place] = Some(value);
                fields.mask |= 1 << place;
            } else {
                fields.others = true;
            }
        });
        // A key of a foreign type is no known key; whoever counts the object reports it.
        fields.others |= visited.is_err();
    }

    /// The value of a key, `null` as well.
    pub(super) fn get(&self, place: usize) -> Option<V> {
        if self.mask >> place & 1 == 1 {
            self.values[place]
        } else {
            None
        }
    }

    /// Whether there are keys other than those of `known`.
    pub(super) fn beyond(&self, known: u64) -> bool {
        self.others || self.mask & !known != 0
    }

    /// The value of a key, if it is there and not `null`.
    pub(super) fn given(&self, place: usize) -> Option<V> {
        self.get(place).filter(|value| !value.is_null())
    }

    /// Whether a key is there and `true`.
    pub(super) fn yes(&self, place: usize) -> bool {
        self.get(place)
            .is_some_and(|value| value.kind() == crate::view::Kind::True)
    }

    /// The value of a key, if it is a string.
    pub(super) fn text(&self, place: usize) -> Option<V> {
        self.get(place).filter(|value| value.is_text())
    }
}

/// The place of a key, by its length first: keys of one length are compared as numbers, not byte by byte.
macro_rules! by_length {
    ($found:expr, $keys:tt; $($length:literal)*) => {
        match $found.len() {
            $($length => same_length!($found, $length, $keys),)*
            _ => None,
        }
    };
}

macro_rules! same_length {
    ($found:expr, $length:literal, [$($key:literal = $place:literal),*]) => {{
        $(if $key.len() == $length && $found == $key {
            return Some($place);
        })*
        None
    }};
}

macro_rules! keys {
    ($(#[$doc:meta])* $module:ident $count:literal: $($name:ident $key:literal = $place:literal),* $(,)?) => {
        $(#[$doc])*
        pub(super) mod $module {
            use super::{Fields, Value};

            $(pub(crate) const $name: usize = $place;)*

            /// Reads an object in place of the one before.
            #[inline]
            pub(crate) fn fill<V: Value>(fields: &mut Fields<V, $count>, value: V) {
                fields.fill(value, |key| {
                    by_length!(key, [$($key = $place),*]; 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 23)
                })
            }

            // A key of a length that is not looked for would never be found.
            const _: () = {
                $(assert!(matches!($key.len(), 2 | 4..=18 | 23));)*
            };

            // Keys that only have to be distinguished from unknown ones.
            const _: &[usize] = &[$($name),*];
        }
    };
}

/// The bits of keys.
pub(super) const fn bits(places: &[usize]) -> u64 {
    let (mut mask, mut at) = (0, 0);
    while at < places.len() {
        mask |= 1 << places[at];
        at += 1;
    }
    mask
}

keys! {
    /// Of content blocks.
    block 39:
    TYPE b"type" = 0, TEXT b"text" = 1, CACHE_CONTROL b"cache_control" = 2, CITATIONS b"citations" = 3,
    ID b"id" = 4, NAME b"name" = 5, INPUT b"input" = 6, CALLER b"caller" = 7,
    TOOLSET_NAME b"toolset_name" = 8, TOOL_USE_ID b"tool_use_id" = 9, CONTENT b"content" = 10,
    IS_ERROR b"is_error" = 11, THINKING b"thinking" = 12, SIGNATURE b"signature" = 13, DATA b"data" = 14,
    SOURCE b"source" = 15, IMAGE_URL b"image_url" = 16, FILE_ID b"file_id" = 17, DETAIL b"detail" = 18,
    BREAKPOINT b"prompt_cache_breakpoint" = 19, TRANSFORMATIONS b"transformations" = 20,
    ANNOTATIONS b"annotations" = 21, LOGPROBS b"logprobs" = 22, CONTEXT b"context" = 23,
    TITLE b"title" = 24, FILE b"file" = 25, FILE_DATA b"file_data" = 26, FILE_URL b"file_url" = 27,
    FILENAME b"filename" = 28, SERVER_NAME b"server_name" = 29,
    ENCRYPTED_CONTENT b"encrypted_content" = 30, TOOL_CHANGES b"tool_changes" = 31, FROM b"from" = 32,
    TO b"to" = 33, TRIGGER b"trigger" = 34, TOOL b"tool" = 35, TOOL_NAME b"tool_name" = 36,
    CACHE_REFERENCE b"cache_reference" = 37, MEDIA_TYPE b"media_type" = 38,
}

keys! {
    /// Of messages and of the envelopes around them.
    message 36:
    ROLE b"role" = 0, CONTENT b"content" = 1, NAME b"name" = 2, TOOL_CALLS b"tool_calls" = 3,
    TOOL_CALL_ID b"tool_call_id" = 4, FUNCTION_CALL b"function_call" = 5, REFUSAL b"refusal" = 6,
    AUDIO b"audio" = 7, REASONING_CONTENT b"reasoning_content" = 8, REASONING b"reasoning" = 9,
    REASONING_DETAILS b"reasoning_details" = 10, PREFIX b"prefix" = 11, ID b"id" = 12,
    TYPE b"type" = 13, MODEL b"model" = 14, USAGE b"usage" = 15, STOP_REASON b"stop_reason" = 16,
    STOP_SEQUENCE b"stop_sequence" = 17, STOP_DETAILS b"stop_details" = 18,
    CONTAINER b"container" = 19, CONTEXT_MANAGEMENT b"context_management" = 20,
    DIAGNOSTICS b"diagnostics" = 21, OUTPUT_CONFIG b"output_config" = 22, CLEAR_AT b"clear_at" = 23,
    PHASE b"phase" = 24, UUID b"uuid" = 25, TIMESTAMP b"timestamp" = 26, ANNOTATIONS b"annotations" = 27,
    IS_META b"isMeta" = 28, IS_COMPACT_SUMMARY b"isCompactSummary" = 29,
    IS_SIDECHAIN b"isSidechain" = 30, IS_API_ERROR b"isApiErrorMessage" = 31, MESSAGE b"message" = 32,
    SUBTYPE b"subtype" = 33, PARENT_UUID b"parentUuid" = 34, ARGUMENTS b"arguments" = 35,
}

/// Of bare messages: what requests of any provider carry, what responses carry, what a view adds.
pub(super) const BARE_MESSAGE: u64 = (1 << 28) - 1;
