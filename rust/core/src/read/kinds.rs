//! The kinds of blocks, by their `type`, and the keys that each may have.

use super::keys::{bits, block};
use crate::digest::BlockKind;

/// The kind of a block by its `type`.
#[must_use]
pub(crate) fn kind_of(name: &[u8]) -> BlockKind {
    match name {
        b"text" | b"input_text" | b"output_text" => BlockKind::Text,
        b"tool_use" => BlockKind::ToolUse,
        b"tool_result" => BlockKind::ToolResult,
        b"thinking" => BlockKind::Thinking,
        b"redacted_thinking" => BlockKind::RedactedThinking,
        b"image" | b"image_url" | b"input_image" => BlockKind::Image,
        b"document" | b"file" | b"input_file" => BlockKind::Document,
        b"server_tool_use" | b"mcp_tool_use" => BlockKind::ServerToolUse,
        b"search_result" => BlockKind::SearchResult,
        b"container_upload" => BlockKind::ContainerUpload,
        b"compaction" => BlockKind::Compaction,
        b"fallback" => BlockKind::Fallback,
        b"tool_addition" | b"tool_removal" => BlockKind::ToolChange,
        _ if name.ends_with(b"_tool_result") => BlockKind::ServerToolResult,
        _ => BlockKind::Unknown,
    }
}

/// Keys that a kind may have, of Anthropic's request types (SDK 2.11) and `OpenAI`'s content parts (SDK 2.54); `u64::MAX`: any.
pub(super) const fn known_keys(kind: BlockKind) -> u64 {
    use block::{
        ANNOTATIONS, BREAKPOINT, CACHE_CONTROL, CALLER, CITATIONS, CONTENT, CONTEXT, DATA, DETAIL,
        ENCRYPTED_CONTENT, FILE, FILE_DATA, FILE_ID, FILE_URL, FILENAME, FROM, ID, IMAGE_URL,
        INPUT, IS_ERROR, LOGPROBS, NAME, SERVER_NAME, SIGNATURE, SOURCE, TEXT, THINKING, TITLE, TO,
        TOOL, TOOL_CHANGES, TOOL_USE_ID, TOOLSET_NAME, TRANSFORMATIONS, TRIGGER, TYPE,
    };
    match kind {
        BlockKind::Text => bits(&[
            TYPE,
            TEXT,
            CACHE_CONTROL,
            CITATIONS,
            BREAKPOINT,
            ANNOTATIONS,
            LOGPROBS,
        ]),
        BlockKind::ToolUse => bits(&[TYPE, ID, NAME, INPUT, CACHE_CONTROL, CALLER, TOOLSET_NAME]),
        BlockKind::ToolResult => bits(&[
            TYPE,
            TOOL_USE_ID,
            CONTENT,
            IS_ERROR,
            CACHE_CONTROL,
            TOOLSET_NAME,
        ]),
        BlockKind::Thinking => bits(&[TYPE, THINKING, SIGNATURE]),
        BlockKind::RedactedThinking => bits(&[TYPE, DATA]),
        BlockKind::Image => bits(&[
            TYPE,
            SOURCE,
            CACHE_CONTROL,
            TRANSFORMATIONS,
            IMAGE_URL,
            FILE_ID,
            DETAIL,
            BREAKPOINT,
        ]),
        BlockKind::Document => bits(&[
            TYPE,
            SOURCE,
            CACHE_CONTROL,
            CITATIONS,
            CONTEXT,
            TITLE,
            FILE,
            FILE_DATA,
            FILE_ID,
            FILE_URL,
            FILENAME,
            DETAIL,
            BREAKPOINT,
        ]),
        BlockKind::ServerToolUse => {
            bits(&[TYPE, ID, NAME, INPUT, CACHE_CONTROL, CALLER, SERVER_NAME])
        }
        BlockKind::ServerToolResult => {
            bits(&[TYPE, TOOL_USE_ID, CONTENT, CACHE_CONTROL, CALLER, IS_ERROR])
        }
        BlockKind::SearchResult => bits(&[TYPE, SOURCE, TITLE, CONTENT, CITATIONS, CACHE_CONTROL]),
        BlockKind::ContainerUpload => bits(&[TYPE, FILE_ID, CACHE_CONTROL]),
        BlockKind::Compaction => bits(&[
            TYPE,
            CONTENT,
            CACHE_CONTROL,
            ENCRYPTED_CONTENT,
            SIGNATURE,
            TOOL_CHANGES,
        ]),
        BlockKind::Fallback => bits(&[TYPE, FROM, TO, TRIGGER]),
        BlockKind::ToolChange => bits(&[TYPE, TOOL, CACHE_CONTROL]),
        BlockKind::Unknown => u64::MAX,
    }
}

/// Another API's word for the same kind shows in the digest's name.
pub(super) fn own_type(kind: BlockKind) -> Option<&'static str> {
    match kind {
        BlockKind::Text => Some("text"),
        BlockKind::Image => Some("image"),
        BlockKind::Document => Some("document"),
        _ => None,
    }
}
