//! A message that speaks: its role, flags, content and cost.

use super::blocks::read_block;
use super::calls::read_call;
use super::draft::{Draft, Tools};
use super::keys::{BARE_MESSAGE, Fields, bits, message};
use super::meter::Meter;
use super::path::Path;
use super::results::read_result_content;
use super::usage::usage_total;
use super::{MessageFields, envelope_flags, intern, invalid, time_of};
use crate::digest::{
    BlockDigest, BlockKind, MessageDigest, Role, block_flag, message_flag as flag,
};
use crate::error::Error;
use crate::units::{saturate, saturate_len};
use crate::view::{Value, is_blank, shown, with_utf8};

const ROLE_AND_CONTENT: u64 = bits(&[message::ROLE, message::CONTENT]);

/// Fields other than the content that hold text.
const TEXTS: u64 = bits(&[
    message::REASONING_CONTENT,
    message::REFUSAL,
    message::FUNCTION_CALL,
]);

fn bit(flag: u32, set: bool) -> u32 {
    if set { flag } else { 0 }
}

/// A message with what stands around it; for a bare one both are the same.
pub(super) struct Reader<'a, V> {
    outer: &'a MessageFields<V>,
    fields: &'a MessageFields<V>,
    enveloped: bool,
}

impl<'a, V: Value> Reader<'a, V> {
    pub(super) fn bare(fields: &'a MessageFields<V>) -> Self {
        Self {
            outer: fields,
            fields,
            enveloped: false,
        }
    }

    pub(super) fn enveloped(outer: &'a MessageFields<V>, fields: &'a MessageFields<V>) -> Self {
        Self {
            outer,
            fields,
            enveloped: true,
        }
    }

    fn root(&self) -> Path<'static> {
        Path::Root {
            enveloped: self.enveloped,
        }
    }

    pub(super) fn read(
        &self,
        tools: &mut Tools<'_>,
        blocks: &mut Vec<BlockDigest>,
    ) -> Result<MessageDigest, Error> {
        let role = self.role()?;
        let mut digest = MessageDigest {
            role,
            ..MessageDigest::default()
        };
        if self.says_more(role) {
            self.envelope(&mut digest, tools);
        }
        let first = blocks.len();
        self.content(role, tools, blocks)?;
        let blocks = &blocks[first..];
        let content = self.fields.get(message::CONTENT);
        digest.flags |= content_flags(content) | block_facts(blocks);
        digest.flags |= user_input(role, digest.flags, blocks);
        let tokens = self.own_tokens(role, tools)?;
        let all_tokens: u64 = blocks.iter().map(|block| u64::from(block.tokens)).sum();
        digest.tokens = saturate(u64::from(tokens) + all_tokens);
        digest.block_count = saturate_len(blocks.len());
        Ok(digest)
    }

    /// Whether there is more to know of the message than its role and content: most have no more.
    fn says_more(&self, role: Role) -> bool {
        self.outer.beyond(ROLE_AND_CONTENT) || !matches!(role, Role::User | Role::Assistant)
    }

    /// The fields other than the content.
    fn envelope(&self, digest: &mut MessageDigest, tools: &mut Tools<'_>) {
        digest.uuid = intern(self.outer.get(message::UUID), tools.strings);
        digest.flags = envelope_flags(self.outer) | self.own_flags(digest.role);
        digest.timestamp = time_of(self.outer);
        if digest.role != Role::Assistant {
            return;
        }
        digest.response_id = intern(self.fields.get(message::ID), tools.strings);
        if digest.flags & flag::SYNTHETIC == 0 {
            digest.usage = usage_total(self.fields);
            digest.flags |= bit(flag::HAS_USAGE, digest.usage != 0);
        }
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
        let unknown = self.outer.beyond(BARE_MESSAGE);
        let model = self.fields.get(message::MODEL);
        let synthetic = model.is_some_and(|model| model.is("<synthetic>"));
        bit(flag::UNKNOWN_KEYS, !self.enveloped && unknown)
            | bit(
                flag::SYNTHETIC,
                synthetic || self.outer.yes(message::IS_API_ERROR),
            )
            | bit(flag::PREFIX, self.fields.yes(message::PREFIX))
            | self.system_flags(role)
            | self.openai_flags(role)
    }

    fn system_flags(&self, role: Role) -> u32 {
        let effort = self.fields.given(message::OUTPUT_CONFIG);
        bit(
            flag::OUTPUT_CONFIG,
            role == Role::System && effort.is_some(),
        )
    }

    fn openai_flags(&self, role: Role) -> u32 {
        let given = |place| self.fields.given(place).is_some();
        let calls = self.fields.given(message::TOOL_CALLS);
        let chat = calls.is_some() || role == Role::Tool || self.role_is("developer");
        let empty = calls.is_some_and(|calls| !calls.is_list() || calls.size() == 0);
        let other = [message::REFUSAL, message::AUDIO, message::FUNCTION_CALL]
            .into_iter()
            .any(given);
        let reasoning = self.fields.text(message::REASONING_CONTENT).is_some();
        bit(flag::OPENAI_CHAT, chat)
            | bit(flag::EMPTY_CALLS, empty)
            | bit(flag::OTHER_CONTENT, other)
            | bit(flag::REASONING, reasoning)
            | bit(flag::FUNCTION_ROLE, self.role_is("function"))
    }

    fn content(
        &self,
        role: Role,
        tools: &mut Tools<'_>,
        blocks: &mut Vec<BlockDigest>,
    ) -> Result<(), Error> {
        let root = self.root();
        let field = Path::Key(&root, "content");
        let content = self.fields.get(message::CONTENT);
        if role == Role::Tool {
            blocks.push(self.tool_message(content, field, tools)?);
            return Ok(());
        }
        if let Some(text) = content.filter(|content| content.is_text()) {
            if !text.with_glimpse(|text| text.is_empty()) {
                blocks.push(Self::text_block(text, field, tools)?);
            }
        } else if let Some(list) = content.filter(|content| content.is_list()) {
            let mut fields = Fields::EMPTY;
            each(list, |item, index| {
                let field = Path::Item(&field, index);
                blocks.push(read_block(item, field, tools, &mut fields)?);
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
                blocks.push(read_call(call, Path::Item(&field, index), tools)?);
                Ok(())
            })
        })
    }

    /// A string content is one text block.
    fn text_block(text: V, field: Path<'_>, tools: &mut Tools<'_>) -> Result<BlockDigest, Error> {
        let mut draft = Draft::new(BlockKind::Text, tools);
        draft.count_text(Some(text), field)?;
        Ok(draft.finish())
    }

    fn tool_message(
        &self,
        content: Option<V>,
        field: Path<'_>,
        tools: &mut Tools<'_>,
    ) -> Result<BlockDigest, Error> {
        let mut draft = Draft::new(BlockKind::ToolResult, tools);
        draft.set_id(self.fields.get(message::TOOL_CALL_ID));
        draft.set_name(self.fields.get(message::NAME), "");
        read_result_content(&mut draft, content, field)?;
        Ok(draft.finish())
    }

    /// What the message costs in addition to its blocks: its role, and fields that hold text.
    fn own_tokens(&self, role: Role, tools: &mut Tools<'_>) -> Result<u32, Error> {
        let mut meter = tools.meter();
        if self.fields.mask & TEXTS != 0 {
            self.own_texts(&mut meter)?;
        }
        Ok(meter.close(|weights| weights.messages[role as usize]).0)
    }

    fn own_texts(&self, meter: &mut Meter<'_>) -> Result<(), Error> {
        for place in [message::REASONING_CONTENT, message::REFUSAL] {
            if let Some(value) = self.fields.text(place) {
                meter.text(value);
            }
        }
        let Some(call) = self.fields.given(message::FUNCTION_CALL) else {
            return Ok(());
        };
        let root = self.root();
        meter.json(call, Path::Key(&root, "function_call"))
    }
}

/// Visits a list until the first error.
fn each<V: Value>(
    list: V,
    mut visit: impl FnMut(V, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut fault, mut index) = (None, 0);
    list.each_item(|item| {
        if fault.is_none()
            && let Err(error) = visit(item, index)
        {
            fault = Some(error);
        }
        index += 1;
    });
    fault.map_or(Ok(()), Err)
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
