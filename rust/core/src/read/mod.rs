//! One message or entry → its digest, wherever it lies: the same statements over any [`Value`].

mod blocks;
mod calls;
mod draft;
mod keys;
mod kinds;
mod message;
mod meter;
mod path;
mod plain;
mod results;
mod sources;
mod times;
mod usage;

pub(crate) use kinds::kind_of;
pub use plain::{Plain, read_plain};
pub(crate) use times::timestamp_ms;

use self::message::Reader;
use crate::digest::{BlockDigest, MessageDigest, Role, message_flag as flag};
use crate::error::Error;
use crate::strings::Strings;
use crate::text::{JsonTally, Weights};
use crate::view::{Value, shown, with_utf8};
use draft::Tools;
use keys::{Fields, message as key};

type MessageFields<V> = Fields<V, 36>;

/// Digests a bare message or an entry; its blocks are appended to `blocks`.
///
///
/// ```
/// use ullage_core::digest::{BlockKind, Role};
/// use ullage_core::json::Json;
/// use ullage_core::read::read_item;
/// use ullage_core::strings::Strings;
///
/// let (mut strings, mut blocks) = (Strings::default(), Vec::new());
/// let item = br#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "42"}]}"#;
/// let message = read_item(Json(item), None, &mut strings, &mut blocks)?;
/// assert_eq!((message.role, blocks[0].kind), (Role::User, BlockKind::ToolResult));
/// assert_eq!(strings.get(blocks[0].id), b"a");
/// # Ok::<(), ullage_core::error::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidMessage`]: it is not a mapping, has no known role, or holds what JSON does not have. Strings may have been interned
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
    key::fill(&mut outer, item);
    read_fields(&outer, weights, strings, blocks)
}

fn read_fields<V: Value>(
    outer: &MessageFields<V>,
    weights: Option<&Weights>,
    strings: &mut Strings,
    blocks: &mut Vec<BlockDigest>,
) -> Result<MessageDigest, Error> {
    let mut tally = weights.map(|_| JsonTally::default());
    let tools = &mut Tools::new(strings, weights.zip(tally.as_mut()));
    if outer.get(key::ROLE).is_some() {
        return Reader::bare(outer).read(tools, blocks);
    }
    match outer.get(key::MESSAGE).filter(|inner| inner.is_map()) {
        Some(inner) => {
            let mut fields = Fields::EMPTY;
            key::fill(&mut fields, inner);
            Reader::enveloped(outer, &fields).read(tools, blocks)
        }
        None => read_metadata(outer, tools.strings),
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
    key::fill(&mut outer, item);
    let names = Names {
        kind: intern(outer.get(key::TYPE), strings),
        subtype: intern(outer.get(key::SUBTYPE), strings),
        uuid: intern(outer.get(key::UUID), strings),
        parent: intern(outer.get(key::PARENT_UUID), strings),
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
    let written = outer.text(key::TIMESTAMP);
    written.map_or(0, |value| {
        value.with_text(|text| with_utf8(text, timestamp_ms))
    })
}

/// An entry without a message: it costs nothing, and may be a boundary.
fn read_metadata<V: Value>(
    outer: &MessageFields<V>,
    strings: &mut Strings,
) -> Result<MessageDigest, Error> {
    let Some(kind) = outer.text(key::TYPE) else {
        return Err(invalid(
            "has neither a role nor a message",
            "role",
            String::new(),
        ));
    };
    if kind.is("user") || kind.is("assistant") {
        let got = outer
            .get(key::MESSAGE)
            .map_or_else(|| "nothing".to_owned(), shown);
        return Err(invalid("must be an object", "message", got));
    }
    let mut flags = envelope_flags(outer);
    if kind.is("system")
        && outer
            .get(key::SUBTYPE)
            .is_some_and(|value| value.is("compact_boundary"))
    {
        flags |= flag::BOUNDARY;
    }
    Ok(MessageDigest {
        role: Role::None,
        flags,
        uuid: intern(outer.get(key::UUID), strings),
        timestamp: time_of(outer),
        ..MessageDigest::default()
    })
}

fn envelope_flags<V: Value>(outer: &MessageFields<V>) -> u32 {
    let mut flags = if outer.yes(key::IS_META) {
        flag::META
    } else {
        0
    };
    flags |= if outer.yes(key::IS_COMPACT_SUMMARY) {
        flag::SUMMARY
    } else {
        0
    };
    flags
        | if outer.yes(key::IS_SIDECHAIN) {
            flag::SIDECHAIN
        } else {
            0
        }
}
