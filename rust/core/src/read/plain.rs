//! Messages that need no second look: text, signed thinking, calls, results that are text. Most messages of an agent are like that.
//!
//! What is not recognised here is not wrong: it takes the longer way.

use super::keys::{Fields, bits, block, message};
use super::results::{CLEARED_TEXT, COMPACTED_START, OFFLOADED_START};
use crate::text::is_id;
use crate::view::{Value, starts_with, with_utf8};

/// What is known of a plain message.
#[derive(Debug)]
pub struct Plain<V> {
    /// Whether the model said it; else the user, or the host on their behalf.
    pub answer: bool,
    /// Ids of its calls, or of the calls that its results answer.
    pub names: Vec<V>,
    /// Characters of its longest result.
    pub longest: u64,
    /// Characters of all its results.
    pub chars: u64,
}

const MESSAGE: u64 = bits(&[
    message::ROLE,
    message::CONTENT,
    message::ID,
    message::TYPE,
    message::MODEL,
    message::USAGE,
    message::STOP_REASON,
    message::STOP_SEQUENCE,
]);
const WORDS: u64 = bits(&[block::TYPE, block::TEXT, block::CACHE_CONTROL]);
const CALL: u64 = bits(&[
    block::TYPE,
    block::ID,
    block::NAME,
    block::INPUT,
    block::CACHE_CONTROL,
]);
const RESULT: u64 = bits(&[
    block::TYPE,
    block::TOOL_USE_ID,
    block::CONTENT,
    block::IS_ERROR,
    block::CACHE_CONTROL,
]);
const THOUGHT: u64 = bits(&[block::TYPE, block::THINKING, block::SIGNATURE]);
const REDACTED: u64 = bits(&[block::TYPE, block::DATA]);
const LONGEST_ID: usize = 40;

type BlockFields<V> = Fields<V, 39>;

/// Reads a message in Anthropic's form; `None`: it takes a closer look.
///
/// `own`: the provider's form, whose own data may travel with a message and its blocks; empty: Anthropic's.
///
/// ```
/// use ullage_core::json::Json;
/// use ullage_core::read::read_plain;
///
/// let text = br#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "42"}]}"#;
/// let found = read_plain(Json(text), "").unwrap();
/// assert_eq!((found.answer, found.names.len(), found.chars), (false, 1, 2));
/// assert!(read_plain(Json(br#"{"role": "user", "content": []}"#), "").is_none());
/// ```
pub fn read_plain<V: Value>(item: V, own: &str) -> Option<Plain<V>> {
    let mut fields = Fields::EMPTY;
    message::fill(&mut fields, item);
    let role = fields.get(message::ROLE).filter(|role| is_string(*role))?;
    let kind = fields.get(message::TYPE);
    if !carries(item, &fields, MESSAGE, own) || kind.is_some_and(|kind| !kind.is("message")) {
        return None;
    }
    let mut found = Plain {
        answer: role.is("assistant"),
        names: Vec::new(),
        longest: 0,
        chars: 0,
    };
    let content = fields.get(message::CONTENT)?;
    if !item.is_map() || !item.is_exact() || !(found.answer || role.is("user")) {
        return None;
    }
    let fine = says(content) || found.blocks(content, own);
    fine.then_some(found)
}

impl<V: Value> Plain<V> {
    fn blocks(&mut self, content: V, own: &str) -> bool {
        let mut fine = content.is_list() && content.is_exact() && content.size() > 0;
        let mut fields = Fields::EMPTY;
        if fine {
            content.each_item(|item| fine = fine && self.block(item, &mut fields, own));
        }
        fine
    }

    fn block(&mut self, item: V, fields: &mut BlockFields<V>, own: &str) -> bool {
        if !item.is_map() || !item.is_exact() {
            return false;
        }
        block::fill(fields, item);
        let Some(kind) = fields.text(block::TYPE) else {
            return false;
        };
        if kind.is("text") {
            return carries(item, fields, WORDS, own) && fields.get(block::TEXT).is_some_and(says);
        }
        if !self.answer {
            return kind.is("tool_result") && self.result(item, fields, own);
        }
        if kind.is("tool_use") {
            return self.call(item, fields, own);
        }
        is_thought(item, kind, fields, own)
    }

    fn call(&mut self, item: V, fields: &BlockFields<V>, own: &str) -> bool {
        let name = fields.get(block::NAME).is_some_and(is_string);
        let input = fields.get(block::INPUT);
        let Some(id) = fields.get(block::ID).filter(|id| is_call_id(*id)) else {
            return false;
        };
        self.names.push(id);
        name && input.is_some_and(|input| input.is_map() && input.is_exact())
            && carries(item, fields, CALL, own)
    }

    fn result(&mut self, item: V, fields: &BlockFields<V>, own: &str) -> bool {
        // Anthropic's API takes no other; other forms write ids in their own way.
        let is_named = if own.is_empty() {
            is_call_id
        } else {
            is_string
        };
        let Some(name) = fields
            .get(block::TOOL_USE_ID)
            .filter(|name| is_named(*name))
        else {
            return false;
        };
        let content = fields.get(block::CONTENT);
        let chars = content.map_or(0, |content| result_chars(content, own));
        self.names.push(name);
        self.chars += chars;
        self.longest = self.longest.max(chars);
        chars > 0 && carries(item, fields, RESULT, own)
    }
}

/// A string, not an instance of a subclass.
fn is_string<V: Value>(value: V) -> bool {
    value.is_text() && value.is_exact()
}

/// A string that is not empty.
fn says<V: Value>(value: V) -> bool {
    is_string(value) && !value.with_glimpse(|text| text.is_empty())
}

fn is_call_id<V: Value>(value: V) -> bool {
    is_string(value)
        && value.with_text(|text| {
            with_utf8(text, |id| (1..=LONGEST_ID).contains(&id.len()) && is_id(id))
        })
}

/// Whether an object has keys that are known, and besides them only what the provider's own form attached.
fn carries<V: Value, const N: usize>(
    item: V,
    fields: &Fields<V, N>,
    known: u64,
    own: &str,
) -> bool {
    fields.mask & !known == 0
        && (!fields.others || (is_one_more(item, fields.mask) && has_own(item, own)))
}

fn is_one_more<V: Value>(item: V, mask: u64) -> bool {
    item.size() == mask.count_ones() as usize + 1
}

/// Whether the provider's own form attached something, and no other.
fn has_own<V: Value>(item: V, own: &str) -> bool {
    let foreign = item.get("foreign").filter(|foreign| foreign.is_map());
    let known = foreign.filter(|foreign| foreign.is_exact() && foreign.size() == 1);
    !own.is_empty() && known.is_some_and(|known| known.get(own).is_some())
}

/// Whether a block is thinking as Anthropic's API gives it, or as another form's reader does.
fn is_thought<V: Value>(item: V, kind: V, fields: &BlockFields<V>, own: &str) -> bool {
    let filled = |place| fields.get(place).is_some_and(says);
    if kind.is("redacted_thinking") {
        return !fields.beyond(REDACTED) && filled(block::DATA);
    }
    let thinking = fields.get(block::THINKING).is_some_and(is_string);
    let known = kind.is("thinking") && thinking && carries(item, fields, THOUGHT, own);
    known && (fields.others || filled(block::SIGNATURE))
}

/// At least the characters of a result; 0: it is empty, holds something other than text, or stands for one that was removed.
fn result_chars<V: Value>(content: V, own: &str) -> u64 {
    if !content.is_exact() {
        return 0;
    }
    if content.is_text() {
        return own_chars(content);
    }
    let (mut fine, mut total) = (content.is_list(), 0);
    if fine {
        content.each_item(|item| {
            let chars = if fine { text_chars(item, own) } else { 0 };
            fine &= chars > 0;
            total += chars + 2;
        });
    }
    if fine { total } else { 0 }
}

/// Characters of a text block without further keys than the form's own; 0: it is none, or empty, or stands for something.
fn text_chars<V: Value>(item: V, own: &str) -> u64 {
    let known = item.is_map() && item.is_exact();
    let bare = known && (item.size() == 2 || (item.size() == 3 && has_own(item, own)));
    if !bare || !item.get("type").is_some_and(|kind| kind.is("text")) {
        return 0;
    }
    let text = item.get("text").filter(|text| is_string(*text));
    text.map_or(0, own_chars)
}

fn own_chars<V: Value>(text: V) -> u64 {
    let stands = text.with_glimpse(|text| {
        [CLEARED_TEXT, COMPACTED_START, OFFLOADED_START]
            .iter()
            .any(|marker| starts_with(text, marker.as_bytes()))
    });
    if stands { 0 } else { text.chars() }
}
