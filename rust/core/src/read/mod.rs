//! One message or entry → its digest, wherever it lies: the same statements over any [`Value`].

mod blocks;
mod keys;
mod meter;
mod path;
mod sources;
mod times;

pub use blocks::{CLEARED_TEXT, COMPACTED_START, OFFLOADED_START, kind_of};
pub use times::timestamp_ms;

use crate::digest::{
    BlockDigest, BlockKind, MessageDigest, Role, block_flag, message_flag as flag,
};
use crate::error::Error;
use crate::strings::Strings;
use crate::text::Weights;
use crate::units::{saturate, saturate_len};
use crate::view::{Value, is_blank, shown, with_utf8};
use blocks::{Draft, read_block, read_result_content};
use keys::{BARE_MESSAGE, Fields, message};
use meter::Meter;
use path::Path;

type MessageFields<V> = Fields<V, 36>;

/// Digests a bare message or an entry; its blocks are appended to `blocks`.
///
/// # Errors
/// [`Error::InvalidMessage`]: it is no object, has no known role, or holds what JSON does not have. Strings may have been interned
/// by then; the caller rolls them back.
pub fn read_item<V: Value>(
    item: V,
    weights: Option<&Weights>,
    strings: &mut Strings,
    blocks: &mut Vec<BlockDigest>,
) -> Result<MessageDigest, Error> {
    if !item.is_map() {
        return Err(invalid("must be an object", "", shown(item)));
    }
    let mut outer = Fields::EMPTY;
    message::fill(&mut outer, item);
    read_fields(&outer, weights, strings, blocks)
}

fn read_fields<V: Value>(
    outer: &MessageFields<V>,
    weights: Option<&Weights>,
    strings: &mut Strings,
    blocks: &mut Vec<BlockDigest>,
) -> Result<MessageDigest, Error> {
    if outer.get(message::ROLE).is_some() {
        let reader = Reader {
            outer,
            fields: outer,
            enveloped: false,
            weights,
        };
        return reader.read(strings, blocks);
    }
    match outer.get(message::MESSAGE).filter(|inner| inner.is_map()) {
        Some(inner) => {
            let mut fields = Fields::EMPTY;
            message::fill(&mut fields, inner);
            let reader = Reader {
                outer,
                fields: &fields,
                enveloped: true,
                weights,
            };
            reader.read(strings, blocks)
        }
        None => read_metadata(outer, strings),
    }
}

/// What an entry says of itself, as string numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names {
    /// `type`.
    pub kind: u32,
    /// `subtype`.
    pub subtype: u32,
    /// `uuid`.
    pub uuid: u32,
    /// `parentUuid`.
    pub parent: u32,
}

/// Like [`read_item`], for a line of a transcript: what it says of itself holds even if nobody could take its message.
pub fn read_entry<V: Value>(
    item: V,
    weights: Option<&Weights>,
    strings: &mut Strings,
    blocks: &mut Vec<BlockDigest>,
) -> (Names, Result<MessageDigest, Error>) {
    let mut outer = Fields::EMPTY;
    message::fill(&mut outer, item);
    let names = Names {
        kind: intern(outer.get(message::TYPE), strings),
        subtype: intern(outer.get(message::SUBTYPE), strings),
        uuid: intern(outer.get(message::UUID), strings),
        parent: intern(outer.get(message::PARENT_UUID), strings),
    };
    let known = strings.len();
    let read = read_fields(&outer, weights, strings, blocks);
    if read.is_err() {
        strings.rollback(known);
    }
    (names, read)
}

fn invalid(reason: &str, field: &str, got: String) -> Error {
    Error::InvalidMessage {
        reason: reason.to_owned(),
        field: field.to_owned(),
        got,
    }
}

fn intern<V: Value>(value: Option<V>, strings: &mut Strings) -> u32 {
    let text = value.filter(|value| value.is_text());
    text.map_or(0, |value| {
        value.with_text(|text| with_utf8(text, |bytes| strings.intern(bytes)))
    })
}

fn time_of<V: Value>(outer: &MessageFields<V>) -> i64 {
    let written = outer.text(message::TIMESTAMP);
    written.map_or(0, |value| {
        value.with_text(|text| with_utf8(text, timestamp_ms))
    })
}

/// An entry without a message: it costs nothing, and may be a boundary.
fn read_metadata<V: Value>(
    outer: &MessageFields<V>,
    strings: &mut Strings,
) -> Result<MessageDigest, Error> {
    let Some(kind) = outer.text(message::TYPE) else {
        return Err(invalid(
            "has neither a role nor a message",
            "role",
            String::new(),
        ));
    };
    if kind.is("user") || kind.is("assistant") {
        let got = outer
            .get(message::MESSAGE)
            .map_or_else(|| "nothing".to_owned(), shown);
        return Err(invalid("must be an object", "message", got));
    }
    let mut flags = flag::ENTRY | envelope_flags(outer);
    if kind.is("system")
        && outer
            .get(message::SUBTYPE)
            .is_some_and(|value| value.is("compact_boundary"))
    {
        flags |= flag::BOUNDARY;
    }
    Ok(MessageDigest {
        role: Role::None,
        flags,
        uuid: intern(outer.get(message::UUID), strings),
        timestamp: time_of(outer),
        ..MessageDigest::default()
    })
}

fn envelope_flags<V: Value>(outer: &MessageFields<V>) -> u32 {
    let mut flags = if outer.yes(message::IS_META) {
        flag::META
    } else {
        0
    };
    flags |= if outer.yes(message::IS_COMPACT_SUMMARY) {
        flag::SUMMARY
    } else {
        0
    };
    flags
        | if outer.yes(message::IS_SIDECHAIN) {
            flag::SIDECHAIN
        } else {
            0
        }
}

/// A message with what stands around it; for a bare one both are the same.
struct Reader<'a, V> {
    outer: &'a MessageFields<V>,
    fields: &'a MessageFields<V>,
    enveloped: bool,
    weights: Option<&'a Weights>,
}

impl<V: Value> Reader<'_, V> {
    fn root(&self) -> Path<'static> {
        Path::Root {
            enveloped: self.enveloped,
        }
    }

    fn read(
        &self,
        strings: &mut Strings,
        blocks: &mut Vec<BlockDigest>,
    ) -> Result<MessageDigest, Error> {
        let role = self.role()?;
        let uuid = intern(self.outer.get(message::UUID), strings);
        let assistant = role == Role::Assistant;
        let response_id = if assistant {
            intern(self.fields.get(message::ID), strings)
        } else {
            0
        };
        let mut flags = envelope_flags(self.outer) | self.own_flags(role);
        let first = blocks.len();
        self.content(role, strings, blocks)?;
        let blocks = &blocks[first..];
        flags |= content_flags(self.fields.get(message::CONTENT)) | block_facts(blocks);
        flags |= user_input(role, flags, blocks);
        let counts = assistant && flags & flag::SYNTHETIC == 0;
        let usage = if counts { usage_total(self.fields) } else { 0 };
        flags |= if usage == 0 { 0 } else { flag::HAS_USAGE };
        let (tokens, rough) = self.own_tokens(role)?;
        let all_tokens: u64 = blocks.iter().map(|block| u64::from(block.tokens)).sum();
        let all_rough: u64 = blocks.iter().map(|block| u64::from(block.rough)).sum();
        Ok(MessageDigest {
            role,
            flags,
            tokens: saturate(u64::from(tokens) + all_tokens),
            rough: saturate(u64::from(rough) + all_rough),
            first_block: 0,
            block_count: saturate_len(blocks.len()),
            response_id,
            uuid,
            usage,
            timestamp: time_of(self.outer),
        })
    }

    fn role(&self) -> Result<Role, Error> {
        let field = if self.enveloped {
            "message.role"
        } else {
            "role"
        };
        let Some(name) = self.fields.get(message::ROLE) else {
            return Err(invalid("is missing", field, String::new()));
        };
        let role = name.with_text(|text| {
            with_utf8(text, |bytes| match bytes {
                b"user" => Some(Role::User),
                b"assistant" => Some(Role::Assistant),
                b"system" | b"developer" => Some(Role::System),
                b"tool" | b"function" => Some(Role::Tool),
                _ => None,
            })
        });
        role.ok_or_else(|| {
            let reason = "must be user, assistant, system, developer or tool";
            invalid(reason, field, shown(name))
        })
    }

    fn role_is(&self, name: &str) -> bool {
        self.fields
            .get(message::ROLE)
            .is_some_and(|value| value.is(name))
    }

    fn own_flags(&self, role: Role) -> u32 {
        let fields = self.fields;
        let given = |place| fields.given(place).is_some();
        let mut flags = 0;
        if role == Role::System {
            flags |= if given(message::OUTPUT_CONFIG) {
                flag::OUTPUT_CONFIG
            } else {
                0
            };
            flags |= if given(message::CLEAR_AT) {
                flag::CLEAR_AT
            } else {
                0
            };
        }
        let calls = fields.given(message::TOOL_CALLS);
        if calls.is_some() || role == Role::Tool || self.role_is("developer") {
            flags |= flag::OPENAI_CHAT;
        }
        if calls.is_some_and(|calls| !calls.is_list() || calls.size() == 0) {
            flags |= flag::EMPTY_CALLS;
        }
        if given(message::REFUSAL) || given(message::AUDIO) || given(message::FUNCTION_CALL) {
            flags |= flag::OTHER_CONTENT;
        }
        flags |= if fields.text(message::REASONING_CONTENT).is_some() {
            flag::REASONING
        } else {
            0
        };
        flags |= if self.role_is("function") {
            flag::FUNCTION_ROLE
        } else {
            0
        };
        flags |= if fields.yes(message::PREFIX) {
            flag::PREFIX
        } else {
            0
        };
        flags |= if self.enveloped { flag::ENTRY } else { 0 };
        if !self.enveloped && (self.outer.others || self.outer.mask & !BARE_MESSAGE != 0) {
            flags |= flag::UNKNOWN_KEYS;
        }
        let synthetic = fields
            .get(message::MODEL)
            .is_some_and(|model| model.is("<synthetic>"));
        flags
            | if synthetic || self.outer.yes(message::IS_API_ERROR) {
                flag::SYNTHETIC
            } else {
                0
            }
    }

    fn content(
        &self,
        role: Role,
        strings: &mut Strings,
        blocks: &mut Vec<BlockDigest>,
    ) -> Result<(), Error> {
        let root = self.root();
        let field = Path::Key(&root, "content");
        let content = self.fields.get(message::CONTENT);
        if role == Role::Tool {
            blocks.push(self.tool_message(content, field, strings)?);
            return Ok(());
        }
        if let Some(text) = content.filter(|content| content.is_text()) {
            if !text.with_glimpse(|text| text.is_empty()) {
                blocks.push(self.text_block(text, field, strings)?);
            }
        } else if let Some(list) = content.filter(|content| content.is_list()) {
            each(list, |item, index| {
                blocks.push(read_block(
                    item,
                    Path::Item(&field, index),
                    self.weights,
                    strings,
                )?);
                Ok(())
            })?;
        }
        let calls = self
            .fields
            .get(message::TOOL_CALLS)
            .filter(|calls| calls.is_list());
        let field = Path::Key(&root, "tool_calls");
        calls.map_or(Ok(()), |calls| {
            each(calls, |call, index| {
                blocks.push(read_call(
                    call,
                    Path::Item(&field, index),
                    self.weights,
                    strings,
                )?);
                Ok(())
            })
        })
    }

    /// A string content is one text block.
    fn text_block(
        &self,
        text: V,
        field: Path<'_>,
        strings: &mut Strings,
    ) -> Result<BlockDigest, Error> {
        let mut draft = Draft::new(BlockKind::Text, self.weights, strings);
        draft.count_text(Some(text), field)?;
        Ok(draft.finish())
    }

    fn tool_message(
        &self,
        content: Option<V>,
        field: Path<'_>,
        strings: &mut Strings,
    ) -> Result<BlockDigest, Error> {
        let mut draft = Draft::new(BlockKind::ToolResult, self.weights, strings);
        draft.set_id(self.fields.get(message::TOOL_CALL_ID));
        draft.set_name(self.fields.get(message::NAME), "");
        read_result_content(&mut draft, content, field)?;
        Ok(draft.finish())
    }

    /// What the message costs beside its blocks: its role, and fields that hold text.
    fn own_tokens(&self, role: Role) -> Result<(u32, u32), Error> {
        let mut meter = Meter::new(self.weights);
        for place in [message::REASONING_CONTENT, message::REFUSAL] {
            if let Some(value) = self.fields.text(place) {
                value.with_text(|text| meter.text(text));
            }
        }
        if let Some(call) = self.fields.given(message::FUNCTION_CALL) {
            let root = self.root();
            meter.json(call, Path::Key(&root, "function_call"))?;
        }
        let overhead = self
            .weights
            .map_or(0, |weights| weights.messages[role as usize]);
        let (tokens, rough, _) = meter.close(overhead);
        Ok((tokens, rough))
    }
}

/// Visits a list until the first error.
fn each<V: Value>(
    list: V,
    mut visit: impl FnMut(V, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut result, mut index) = (Ok(()), 0);
    list.each_item(|item| {
        if result.is_ok() {
            result = visit(item, index);
        }
        index += 1;
    });
    result
}

fn content_flags<V: Value>(content: Option<V>) -> u32 {
    let Some(content) = content.filter(|content| !content.is_null()) else {
        return flag::EMPTY_CONTENT;
    };
    if content.is_list() {
        return if content.size() == 0 {
            flag::EMPTY_CONTENT
        } else {
            0
        };
    }
    if !content.is_text() {
        return flag::BAD_CONTENT;
    }
    content.with_glimpse(|text| {
        flag::STRING_CONTENT
            | if text.is_empty() {
                flag::EMPTY_CONTENT
            } else if is_blank(text) {
                flag::BLANK_CONTENT
            } else {
                0
            }
    })
}

/// One of `OpenAI`'s `tool_calls`, of type function or custom, or flat as other tools store it.
fn read_call<V: Value>(
    call: V,
    field: Path<'_>,
    weights: Option<&Weights>,
    strings: &mut Strings,
) -> Result<BlockDigest, Error> {
    let mut draft = Draft::new(BlockKind::ToolUse, weights, strings);
    if !call.is_map() {
        draft.digest.flags |= block_flag::NOT_A_BLOCK | block_flag::MISSING_ID;
        draft.meter.json(call, field)?;
        return Ok(draft.finish());
    }
    draft.set_id(call.get("id"));
    let nested = ["function", "custom"].into_iter().find_map(|key| {
        let body = call.get(key).filter(|body| body.is_map())?;
        Some((key, body))
    });
    let inner = nested.map_or(field, |(key, _)| Path::Key(&field, key));
    let body = nested.map_or(call, |(_, body)| body);
    draft.set_name(body.get("name"), "");
    draft
        .meter
        .either(body.get("name"), Path::Key(&inner, "name"))?;
    let key = if body.get("arguments").is_some() {
        "arguments"
    } else {
        "input"
    };
    let arguments = body.get(key);
    if !arguments.is_some_and(Value::is_text) {
        draft.digest.flags |= block_flag::BAD_ARGUMENTS;
    }
    draft.meter.either(arguments, Path::Key(&inner, key))?;
    Ok(draft.finish())
}

fn block_facts(blocks: &[BlockDigest]) -> u32 {
    let mut flags = 0;
    for block in blocks {
        let blank = block.flags & (block_flag::EMPTY_TEXT | block_flag::BLANK_TEXT) != 0;
        if block.kind == BlockKind::Text && !blank {
            flags |= flag::HAS_TEXT;
        }
        let media = matches!(block.kind, BlockKind::Image | BlockKind::Document);
        if media || block.has(block_flag::NESTED_MEDIA) {
            flags |= flag::HAS_MEDIA;
        }
    }
    flags
}

fn user_input(role: Role, flags: u32, blocks: &[BlockDigest]) -> u32 {
    let theirs = role == Role::User && flags & (flag::META | flag::SUMMARY) == 0;
    let said = blocks
        .iter()
        .any(|block| block.kind != BlockKind::ToolResult);
    if theirs && said { flag::USER_INPUT } else { 0 }
}

/// Tokens in the context after a response, by its usage; 0 if it says nothing.
///
/// Anthropic's four figures, of the last iteration of type `message` where there are several; else `OpenAI`'s total, or prompt
/// and completion.
fn usage_total<V: Value>(fields: &MessageFields<V>) -> u32 {
    let Some(usage) = fields.get(message::USAGE).filter(|usage| usage.is_map()) else {
        return 0;
    };
    let mut iteration = None;
    if let Some(iterations) = usage.get("iterations") {
        iterations.each_item(|item| {
            let kind = if item.is_map() {
                item.get("type")
            } else {
                None
            };
            if kind.is_some_and(|kind| kind.is("message")) {
                iteration = Some(item);
            }
        });
    }
    let source = iteration.filter(|item| item.size() > 0).unwrap_or(usage);
    let count = |value: V, key: &str| u64::from(value.get(key).and_then(Value::count).unwrap_or(0));
    let keys = [
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    ];
    let mut total = keys.iter().map(|key| count(source, key)).sum();
    if total == 0 {
        total = count(usage, "total_tokens");
    }
    if total == 0 {
        total = count(usage, "prompt_tokens") + count(usage, "completion_tokens");
    }
    saturate(total)
}
