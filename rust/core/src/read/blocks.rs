//! One content block → its digest.

use super::keys::{Fields, bits, block};
use super::meter::Meter;
use super::path::Path;
use super::sources;
use crate::digest::{BlockDigest, BlockKind, block_flag as flag};
use crate::error::Error;
use crate::strings::Strings;
use crate::text::{Text, Weights};
use crate::view::{Value, equals, is_blank, is_space, last_point, starts_with, with_utf8};

type BlockFields<V> = Fields<V, 39>;

/// What a cleared result says.
pub const CLEARED_TEXT: &str = "[Old tool result content cleared]";
/// How a result begins that became one line.
pub const COMPACTED_START: &str = "[Compacted:";
/// How a result begins that lies in the offload store.
pub const OFFLOADED_START: &str = "<persisted-output>";

/// The kind of a block by its `type`.
#[must_use]
pub fn kind_of(name: &[u8]) -> BlockKind {
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
const fn known_keys(kind: BlockKind) -> u64 {
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

/// A block's digest while it is being read.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) digest: BlockDigest,
    pub(super) meter: Meter<'a>,
    weights: Option<&'a Weights>,
    strings: &'a mut Strings,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        kind: BlockKind,
        weights: Option<&'a Weights>,
        strings: &'a mut Strings,
    ) -> Self {
        let digest = BlockDigest {
            kind,
            ..BlockDigest::default()
        };
        Self {
            digest,
            meter: Meter::new(weights),
            weights,
            strings,
        }
    }

    pub(super) fn set_id<V: Value>(&mut self, value: Option<V>) {
        let Some(value) = value.filter(|value| value.is_text()) else {
            self.digest.flags |= flag::MISSING_ID;
            return;
        };
        value.with_text(|text| {
            with_utf8(text, |id| {
                self.digest.id = self.strings.intern(id);
                let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                if id.is_empty() || !id.iter().all(fits) {
                    self.digest.flags |= flag::BAD_ID;
                }
            });
        });
    }

    pub(super) fn set_name<V: Value>(&mut self, value: Option<V>, prefix: &str) {
        let Some(value) = value.filter(|value| value.is_text()) else {
            return;
        };
        value.with_text(|text| {
            with_utf8(text, |name| {
                self.digest.name = if prefix.is_empty() {
                    self.strings.intern(name)
                } else {
                    self.strings.intern(&[prefix.as_bytes(), name].concat())
                };
            });
        });
    }

    /// Counts the block's main text and notes if it is empty, blank, or ends in white space.
    pub(super) fn count_text<V: Value>(
        &mut self,
        value: Option<V>,
        field: Path<'_>,
    ) -> Result<(), Error> {
        self.meter.either(value, field)?;
        self.digest.flags |= match value.filter(|value| value.is_text()) {
            Some(value) => value.with_glimpse(text_flags),
            None => flag::EMPTY_TEXT,
        };
        Ok(())
    }

    pub(super) fn finish(mut self) -> BlockDigest {
        let overhead = self
            .weights
            .map_or(0, |weights| weights.blocks[self.digest.kind as usize]);
        let (tokens, rough, chars) = self.meter.close(overhead);
        self.digest.tokens = tokens;
        self.digest.rough = rough;
        self.digest.chars = chars;
        self.digest
    }
}

fn text_flags(text: Text<'_>) -> u32 {
    match last_point(text) {
        None => flag::EMPTY_TEXT,
        Some(last) if !is_space(last) => 0,
        Some(_) if is_blank(text) => flag::BLANK_TEXT | flag::TRAILING_SPACE,
        Some(_) => flag::TRAILING_SPACE,
    }
}

/// Digests one item of a content list; what is no block at all is counted as its JSON.
pub(super) fn read_block<V: Value>(
    value: V,
    field: Path<'_>,
    weights: Option<&Weights>,
    strings: &mut Strings,
) -> Result<BlockDigest, Error> {
    let mut fields = Fields::EMPTY;
    block::fill(&mut fields, value);
    let Some(name) = fields.text(block::TYPE).filter(|_| value.is_map()) else {
        let mut draft = Draft::new(BlockKind::Unknown, weights, strings);
        draft.digest.flags |= flag::NOT_A_BLOCK;
        draft.meter.json(value, field)?;
        return Ok(draft.finish());
    };
    let kind = name.with_text(|text| with_utf8(text, kind_of));
    let mut draft = Draft::new(kind, weights, strings);
    draft.digest.flags |= common_flags(&fields, kind, name);
    if own_type(kind).is_some_and(|own| !name.is(own)) {
        draft.set_name(Some(name), "");
    }
    read_kind(&mut draft, value, &fields, field)?;
    Ok(draft.finish())
}

/// Another API's word for the same kind is told by the digest's name.
fn own_type(kind: BlockKind) -> Option<&'static str> {
    match kind {
        BlockKind::Text => Some("text"),
        BlockKind::Image => Some("image"),
        BlockKind::Document => Some("document"),
        _ => None,
    }
}

fn common_flags<V: Value>(fields: &BlockFields<V>, kind: BlockKind, name: V) -> u32 {
    let known = known_keys(kind);
    let mut flags = cache_flags(fields.given(block::CACHE_CONTROL));
    if known != u64::MAX && (fields.others || fields.mask & !known != 0) {
        flags |= flag::UNKNOWN_KEYS;
    }
    if fields.get(block::CACHE_REFERENCE).is_some() || name.is("cache_edits") {
        flags |= flag::CACHE_EDIT;
    }
    if fields.given(block::CALLER).is_some() {
        flags |= flag::HAS_CALLER;
    }
    flags
}

fn cache_flags<V: Value>(control: Option<V>) -> u32 {
    let Some(control) = control else { return 0 };
    if !control.is_map() {
        return flag::CACHE_BAD;
    }
    let (mut kind, mut ttl, mut others) = (None, None, false);
    let visited = control.each_member(|key, value| {
        if equals(key, b"type") {
            kind = Some(value);
        } else if equals(key, b"ttl") {
            ttl = Some(value);
        } else {
            others = true;
        }
    });
    if others || visited.is_err() || !kind.is_some_and(|kind| kind.is("ephemeral")) {
        return flag::CACHE_BAD;
    }
    match ttl {
        None => flag::CACHE_5M,
        Some(ttl) if ttl.is("5m") => flag::CACHE_5M,
        Some(ttl) if ttl.is("1h") => flag::CACHE_1H,
        Some(_) => flag::CACHE_BAD,
    }
}

fn read_kind<V: Value>(
    draft: &mut Draft<'_>,
    value: V,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    match draft.digest.kind {
        BlockKind::Text => read_text(draft, fields, field),
        BlockKind::ToolUse => read_tool_use(draft, fields, field),
        BlockKind::ToolResult => read_tool_result(draft, fields, field),
        BlockKind::Thinking => read_thinking(draft, fields, field),
        BlockKind::RedactedThinking => read_redacted(draft, fields, field),
        BlockKind::Image => {
            read_image(draft, fields);
            Ok(())
        }
        BlockKind::Document => {
            read_document(draft, fields);
            Ok(())
        }
        _ => {
            read_opaque(draft, fields);
            draft.meter.json(value, field)
        }
    }
}

/// Flags and names of the kinds that are counted as their JSON.
fn read_opaque<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    match draft.digest.kind {
        BlockKind::ServerToolUse => read_server_tool_use(draft, fields),
        BlockKind::ServerToolResult => read_server_tool_result(draft, fields),
        BlockKind::SearchResult => draft.digest.flags |= search_flags(fields),
        BlockKind::Compaction => draft.digest.flags |= compaction_flags(fields),
        BlockKind::ToolChange => read_tool_change(draft, fields),
        BlockKind::Unknown => {
            draft.set_name(fields.get(block::TYPE), "");
            if fields.given(block::ENCRYPTED_CONTENT).is_some() {
                draft.digest.flags |= flag::OPAQUE;
            }
        }
        _ => {}
    }
}

fn read_text<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.count_text(fields.get(block::TEXT), Path::Key(&field, "text"))?;
    if let Some(citations) = fields.get(block::CITATIONS).filter(|list| is_filled(*list)) {
        draft.digest.flags |= flag::HAS_CITATIONS | opaque(citations);
    }
    Ok(())
}

fn is_filled<V: Value>(value: V) -> bool {
    value.is_list() && value.size() > 0
}

fn not_an_object<V: Value>(input: Option<V>) -> u32 {
    if input.is_some_and(Value::is_map) {
        0
    } else {
        flag::INPUT_NOT_OBJECT
    }
}

fn read_tool_use<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.set_id(fields.get(block::ID));
    draft.set_name(fields.get(block::NAME), "");
    draft
        .meter
        .either(fields.get(block::NAME), Path::Key(&field, "name"))?;
    let input = fields.get(block::INPUT);
    draft.digest.flags |= not_an_object(input);
    input.map_or(Ok(()), |input| {
        draft.meter.json(input, Path::Key(&field, "input"))
    })
}

fn read_server_tool_use<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    draft.set_id(fields.get(block::ID));
    let mcp = fields
        .get(block::TYPE)
        .is_some_and(|name| name.is("mcp_tool_use"));
    draft.set_name(fields.get(block::NAME), if mcp { "mcp:" } else { "" });
    draft.digest.flags |= not_an_object(fields.get(block::INPUT));
}

fn read_server_tool_result<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    draft.set_id(fields.get(block::TOOL_USE_ID));
    draft.set_name(fields.get(block::TYPE), "");
    if fields.yes(block::IS_ERROR) {
        draft.digest.flags |= flag::IS_ERROR;
    }
    draft.digest.flags |= fields.get(block::CONTENT).map_or(0, opaque);
}

fn read_tool_result<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.set_id(fields.get(block::TOOL_USE_ID));
    if fields.yes(block::IS_ERROR) {
        draft.digest.flags |= flag::IS_ERROR;
    }
    read_result_content(
        draft,
        fields.get(block::CONTENT),
        Path::Key(&field, "content"),
    )
}

/// The content of a tool result: text, or a list of blocks.
pub(super) fn read_result_content<V: Value>(
    draft: &mut Draft<'_>,
    content: Option<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    let given = content.filter(|content| !content.is_null());
    let Some(list) = given.filter(|content| content.is_list()) else {
        if given.is_some_and(|content| !content.is_text()) {
            draft.digest.flags |= flag::BAD_NESTED;
        }
        draft.meter.either(given, field)?;
        draft.digest.flags |= result_flags(given);
        return Ok(());
    };
    let (mut blank, mut fault, mut index) = (true, None, 0);
    list.each_item(|item| {
        if fault.is_none() {
            match read_nested(draft, item, Path::Item(&field, index)) {
                Ok(says_nothing) => blank &= says_nothing,
                Err(error) => fault = Some(error),
            }
            draft.meter.end_part();
        }
        index += 1;
    });
    if let Some(error) = fault {
        return Err(error);
    }
    draft.digest.flags |= if blank { flag::EMPTY_RESULT } else { 0 };
    if let Some(only) = list.only_item()
        && nested_kind(only) == Some(BlockKind::Text)
    {
        let text = only.get("text").filter(|text| !text.is_null());
        draft.digest.flags |= result_flags(text) & (flag::CLEARED | flag::OFFLOADED);
    }
    Ok(())
}

/// What a tool result's whole text says of it.
fn result_flags<V: Value>(content: Option<V>) -> u32 {
    let Some(content) = content else {
        return flag::EMPTY_RESULT;
    };
    if !content.is_text() {
        return 0;
    }
    content.with_glimpse(|text| {
        if is_blank(text) {
            flag::EMPTY_RESULT
        } else if equals(text, CLEARED_TEXT.as_bytes())
            || starts_with(text, COMPACTED_START.as_bytes())
        {
            flag::CLEARED
        } else if starts_with(text, OFFLOADED_START.as_bytes()) {
            flag::OFFLOADED
        } else {
            0
        }
    })
}

fn nested_kind<V: Value>(item: V) -> Option<BlockKind> {
    let name = if item.is_map() {
        item.get("type")
    } else {
        None
    };
    let name = name.filter(|name| name.is_text())?;
    Some(name.with_text(|text| with_utf8(text, kind_of)))
}

/// Counts a block inside a result; whether it is a text that says nothing.
fn read_nested<V: Value>(draft: &mut Draft<'_>, item: V, field: Path<'_>) -> Result<bool, Error> {
    let mut fields = Fields::EMPTY;
    block::fill(&mut fields, item);
    let name = fields.text(block::TYPE);
    let kind = name.map_or(BlockKind::Unknown, |name| {
        name.with_text(|text| with_utf8(text, kind_of))
    });
    if item.is_map() {
        count_marker(draft, cache_flags(fields.given(block::CACHE_CONTROL)));
        let checked = own_type(kind).is_some() || kind == BlockKind::SearchResult;
        if checked && (fields.others || fields.mask & !known_keys(kind) != 0) {
            draft.digest.flags |= flag::UNKNOWN_KEYS;
        }
    }
    match kind {
        BlockKind::Text => return read_nested_text(draft, &fields, field),
        BlockKind::Image => {
            draft.digest.flags |= flag::NESTED_MEDIA;
            draft.digest.aux += u32::from(draft.digest.aux & 0xFFFF < 0xFFFF);
            let image = sources::image(&fields);
            draft.meter.image(image.width, image.height);
            draft.digest.flags |= image.flags;
        }
        BlockKind::Document => {
            draft.digest.flags |= flag::NESTED_MEDIA;
            draft.meter.document(&sources::document(&fields));
        }
        _ => {
            if kind == BlockKind::SearchResult {
                draft.digest.flags |= search_flags(&fields);
            } else if !name
                .is_some_and(|name| name.is("tool_reference") || name.is("browser_state"))
            {
                draft.digest.flags |= flag::BAD_NESTED;
            }
            draft.meter.json(item, field)?;
        }
    }
    Ok(false)
}

/// Counts a cache marker inside a result in `aux`, up to 255 of each TTL.
fn count_marker(draft: &mut Draft<'_>, flags: u32) {
    if flags == 0 {
        return;
    }
    let bad = flags & flag::CACHE_BAD;
    draft.digest.flags |= flag::NESTED_CACHE | bad;
    let shift = if flags & flag::CACHE_1H != 0 { 24 } else { 16 };
    if bad == 0 && draft.digest.aux >> shift & 0xFF < 0xFF {
        draft.digest.aux += 1 << shift;
    }
}

fn read_nested_text<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<bool, Error> {
    let text = fields.get(block::TEXT);
    draft.meter.either(text, Path::Key(&field, "text"))?;
    if fields.get(block::CITATIONS).is_some_and(is_filled) {
        draft.digest.flags |= flag::HAS_CITATIONS;
    }
    let text = text.filter(|text| text.is_text());
    Ok(text.is_none_or(|text| text.with_glimpse(is_blank)))
}

fn read_thinking<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.count_text(fields.get(block::THINKING), Path::Key(&field, "thinking"))?;
    if let Some(signature) = fields.text(block::SIGNATURE) {
        draft.digest.flags |= flag::HAS_SIGNATURE;
        let chars = signature.with_text(|text| text.char_len() as u64);
        draft.meter.hidden(chars);
    }
    Ok(())
}

fn read_redacted<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    let Some(data) = fields.text(block::DATA) else {
        return draft
            .meter
            .either(fields.get(block::DATA), Path::Key(&field, "data"));
    };
    draft.digest.flags |= flag::HAS_SIGNATURE;
    data.with_text(|text| draft.meter.encrypted(text));
    Ok(())
}

fn read_image<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    let image = sources::image(fields);
    draft.meter.image(image.width, image.height);
    draft.digest.flags |= image.flags;
    draft.digest.aux = image.width.min(0xFFFF) << 16 | image.height.min(0xFFFF);
}

fn read_document<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    if enabled(fields) {
        draft.digest.flags |= flag::CITATIONS_ON;
    }
    draft.meter.document(&sources::document(fields));
}

/// Citations of a search result: switched on or off, and those in its texts.
fn search_flags<V: Value>(fields: &BlockFields<V>) -> u32 {
    let mut flags = if enabled(fields) {
        flag::CITATIONS_ON
    } else {
        flag::CITATIONS_OFF
    };
    if let Some(content) = fields.get(block::CONTENT) {
        content.each_item(|item| {
            let citations = if item.is_map() {
                item.get("citations")
            } else {
                None
            };
            if citations.is_some_and(is_filled) {
                flags |= flag::HAS_CITATIONS;
            }
        });
    }
    flags
}

fn enabled<V: Value>(fields: &BlockFields<V>) -> bool {
    let citations = fields.get(block::CITATIONS).filter(|value| value.is_map());
    let switch = citations.and_then(|citations| citations.get("enabled"));
    switch.is_some_and(|value| value.kind() == crate::view::Kind::True)
}

fn compaction_flags<V: Value>(fields: &BlockFields<V>) -> u32 {
    let mut flags = match fields.given(block::CONTENT) {
        None => flag::NULL_CONTENT,
        Some(content) if content.is_text() => content.with_text(text_flags) & flag::EMPTY_TEXT,
        Some(_) => 0,
    };
    flags |= fields
        .text(block::SIGNATURE)
        .map_or(0, |_| flag::HAS_SIGNATURE);
    flags
        | fields
            .given(block::ENCRYPTED_CONTENT)
            .map_or(0, |_| flag::OPAQUE)
}

fn read_tool_change<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    let tool = fields.get(block::TOOL).filter(|tool| tool.is_map());
    let definition = tool
        .and_then(|tool| tool.get("definition"))
        .filter(|definition| definition.is_map());
    let own = definition.or(tool).and_then(|body| body.get("name"));
    let names = [own, fields.get(block::NAME), fields.get(block::TOOL_NAME)];
    draft.set_name(names.into_iter().flatten().find(|name| name.is_text()), "");
    let addition = fields
        .get(block::TYPE)
        .is_some_and(|name| name.is("tool_addition"));
    let schema = tool.and_then(|tool| tool.get("input_schema"));
    draft.digest.aux = match (addition, definition.or(schema).is_some()) {
        (true, true) => 3,
        (true, false) => 1,
        (false, _) => 2,
    };
}

/// `OPAQUE` if an object, or one in a list, has a key of encrypted data.
fn opaque<V: Value>(value: V) -> u32 {
    let mut found = has_encrypted(value);
    value.each_item(|item| found |= has_encrypted(item));
    if found { flag::OPAQUE } else { 0 }
}

fn has_encrypted<V: Value>(value: V) -> bool {
    value.is_map()
        && ["encrypted_content", "encrypted_index", "encrypted_stdout"]
            .iter()
            .any(|key| value.get(key).is_some())
}
