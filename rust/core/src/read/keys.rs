//! The keys that messages and blocks are read by: one pass over an object finds them all.

use crate::view::{LeafFault, Value, ascii};

/// The values of the keys that are known, whether there were others, and which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<V, const N: usize> {
    values: [Option<V>; N],
    /// A bit for each key that is there.
    pub(super) mask: u64,
    /// Whether there are keys beside the known ones.
    pub(super) others: bool,
}

impl<V: Value, const N: usize> Fields<V, N> {
    fn read(value: V, find: impl Fn(&[u8]) -> Option<usize>) -> Self {
        let mut fields = Self {
            values: [None; N],
            mask: 0,
            others: false,
        };
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
        fields
    }

    /// The value of a key, `null` as well.
    pub(super) fn get(&self, place: usize) -> Option<V> {
        self.values[place]
    }

    /// The value of a key, if it is there and not `null`.
    pub(super) fn given(&self, place: usize) -> Option<V> {
        self.values[place].filter(|value| !value.is_null())
    }

    /// Whether a key is there and `true`.
    pub(super) fn yes(&self, place: usize) -> bool {
        self.values[place].is_some_and(|value| value.kind() == crate::view::Kind::True)
    }

    /// The value of a key, if it is a string.
    pub(super) fn text(&self, place: usize) -> Option<V> {
        self.values[place].filter(|value| value.is_text())
    }
}

macro_rules! keys {
    ($(#[$doc:meta])* $module:ident $count:literal: $($name:ident $key:literal = $place:literal),* $(,)?) => {
        $(#[$doc])*
        pub(super) mod $module {
            use super::{Fields, Value};

            $(pub(crate) const $name: usize = $place;)*

            /// Reads an object.
            pub(crate) fn read<V: Value>(value: V) -> Fields<V, $count> {
                Fields::read(value, |key| {
                    Some(match std::str::from_utf8(key) {
                        $(Ok($key) => $place,)*
                        _ => return None,
                    })
                })
            }

            // Keys that are only told apart from unknown ones.
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
    TYPE "type" = 0, TEXT "text" = 1, CACHE_CONTROL "cache_control" = 2, CITATIONS "citations" = 3,
    ID "id" = 4, NAME "name" = 5, INPUT "input" = 6, CALLER "caller" = 7,
    TOOLSET_NAME "toolset_name" = 8, TOOL_USE_ID "tool_use_id" = 9, CONTENT "content" = 10,
    IS_ERROR "is_error" = 11, THINKING "thinking" = 12, SIGNATURE "signature" = 13, DATA "data" = 14,
    SOURCE "source" = 15, IMAGE_URL "image_url" = 16, FILE_ID "file_id" = 17, DETAIL "detail" = 18,
    BREAKPOINT "prompt_cache_breakpoint" = 19, TRANSFORMATIONS "transformations" = 20,
    ANNOTATIONS "annotations" = 21, LOGPROBS "logprobs" = 22, CONTEXT "context" = 23,
    TITLE "title" = 24, FILE "file" = 25, FILE_DATA "file_data" = 26, FILE_URL "file_url" = 27,
    FILENAME "filename" = 28, SERVER_NAME "server_name" = 29,
    ENCRYPTED_CONTENT "encrypted_content" = 30, TOOL_CHANGES "tool_changes" = 31, FROM "from" = 32,
    TO "to" = 33, TRIGGER "trigger" = 34, TOOL "tool" = 35, TOOL_NAME "tool_name" = 36,
    CACHE_REFERENCE "cache_reference" = 37, MEDIA_TYPE "media_type" = 38,
}

keys! {
    /// Of messages and of the envelopes around them.
    message 36:
    ROLE "role" = 0, CONTENT "content" = 1, NAME "name" = 2, TOOL_CALLS "tool_calls" = 3,
    TOOL_CALL_ID "tool_call_id" = 4, FUNCTION_CALL "function_call" = 5, REFUSAL "refusal" = 6,
    AUDIO "audio" = 7, REASONING_CONTENT "reasoning_content" = 8, REASONING "reasoning" = 9,
    REASONING_DETAILS "reasoning_details" = 10, PREFIX "prefix" = 11, ID "id" = 12,
    TYPE "type" = 13, MODEL "model" = 14, USAGE "usage" = 15, STOP_REASON "stop_reason" = 16,
    STOP_SEQUENCE "stop_sequence" = 17, STOP_DETAILS "stop_details" = 18,
    CONTAINER "container" = 19, CONTEXT_MANAGEMENT "context_management" = 20,
    DIAGNOSTICS "diagnostics" = 21, OUTPUT_CONFIG "output_config" = 22, CLEAR_AT "clear_at" = 23,
    PHASE "phase" = 24, UUID "uuid" = 25, TIMESTAMP "timestamp" = 26, ANNOTATIONS "annotations" = 27,
    IS_META "isMeta" = 28, IS_COMPACT_SUMMARY "isCompactSummary" = 29,
    IS_SIDECHAIN "isSidechain" = 30, IS_API_ERROR "isApiErrorMessage" = 31, MESSAGE "message" = 32,
    SUBTYPE "subtype" = 33, PARENT_UUID "parentUuid" = 34, ARGUMENTS "arguments" = 35,
}

/// Of bare messages: what requests of any provider carry, what responses carry, what a view adds.
pub(super) const BARE_MESSAGE: u64 = (1 << 28) - 1;
