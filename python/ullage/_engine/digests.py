"""What is remembered of a message: fixed-size digests, and the words for their parts; and what a ledger answers with.

The numbers are part of the contract between the engines (`rust/core/src/digest.rs`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ullage._start import NamedTuple


class Role(IntEnum):
    """Who speaks. `NONE`: an entry that is no message (a boundary, metadata)."""

    USER = 0
    ASSISTANT = 1
    SYSTEM = 2  # also OpenAI's `developer`
    TOOL = 3  # OpenAI's `tool` role; its message is one TOOL_RESULT block
    NONE = 4


class BlockKind(IntEnum):
    """What a content block is. A string content counts as one TEXT block."""

    TEXT = 0
    TOOL_USE = 1  # also each entry of OpenAI's `tool_calls`
    TOOL_RESULT = 2
    THINKING = 3
    REDACTED_THINKING = 4
    IMAGE = 5  # also `image_url`, `input_image`
    DOCUMENT = 6  # also `file`, `input_file`
    SERVER_TOOL_USE = 7  # `server_tool_use`, `mcp_tool_use`
    SERVER_TOOL_RESULT = 8  # `*_tool_result` other than `tool_result`
    SEARCH_RESULT = 9
    CONTAINER_UPLOAD = 10
    COMPACTION = 11
    FALLBACK = 12
    TOOL_CHANGE = 13  # `tool_addition`, `tool_removal`
    UNKNOWN = 14


class MessageFlag:
    """Facts about a message or its envelope: bits as plain numbers, since arithmetic on members of an enumeration takes ten times as long."""

    META = 1 << 0  # isMeta
    SUMMARY = 1 << 1  # isCompactSummary
    SIDECHAIN = 1 << 2  # isSidechain
    BOUNDARY = 1 << 3  # type system, subtype compact_boundary
    SYNTHETIC = 1 << 4  # model "<synthetic>" or isApiErrorMessage: the model never said it
    STRING_CONTENT = 1 << 5
    EMPTY_CONTENT = 1 << 6  # "" or [] or None
    BLANK_CONTENT = 1 << 7  # a string of white space only, not empty
    BAD_CONTENT = 1 << 8  # neither string nor list nor None
    HAS_TEXT = 1 << 9  # a text block that is not blank, or such a string
    HAS_MEDIA = 1 << 10  # image or document, also inside a tool result
    USER_INPUT = 1 << 11  # a user wrote it: user, not meta, not summary, not only tool results
    UNKNOWN_KEYS = 1 << 12  # a bare message with keys that no provider's message has
    HAS_USAGE = 1 << 13
    OUTPUT_CONFIG = 1 << 15  # a system message's `output_config`
    OPENAI_CHAT = 1 << 17  # has `tool_calls`, role tool, or role developer
    EMPTY_CALLS = 1 << 18  # OpenAI: `tool_calls` is there and is [] or no list
    OTHER_CONTENT = 1 << 19  # OpenAI: `refusal`, `audio` or `function_call` stands for content
    REASONING = 1 << 20  # `reasoning_content` is a string, "" included
    FUNCTION_ROLE = 1 << 22  # OpenAI's legacy role `function`: Role.TOOL
    PREFIX = 1 << 23  # Mistral: an assistant message with `prefix: true`


class BlockFlag:
    """Facts about a content block, for the rules: bits."""

    EMPTY_TEXT = 1 << 0
    BLANK_TEXT = 1 << 1  # white space only, not empty
    TRAILING_SPACE = 1 << 2  # text that ends in white space
    UNKNOWN_KEYS = 1 << 3
    BAD_ID = 1 << 4  # id does not match ^[A-Za-z0-9_-]+$
    MISSING_ID = 1 << 5
    INPUT_NOT_OBJECT = 1 << 6
    IS_ERROR = 1 << 7
    HAS_SIGNATURE = 1 << 8  # a string, for thinking; for redacted_thinking: has `data`
    HAS_CITATIONS = 1 << 9  # non-empty, also inside nested search results
    NESTED_MEDIA = 1 << 10
    BAD_NESTED = 1 << 11  # a tool_result holds a block type that it may not
    CACHE_5M = 1 << 12
    CACHE_1H = 1 << 13
    CACHE_BAD = 1 << 14  # a cache_control of unknown form
    CLEARED = 1 << 16  # content is one of Ullage's own placeholders
    OFFLOADED = 1 << 17  # content starts with <persisted-output>
    CITATIONS_ON = 1 << 19  # "citations": {"enabled": true}
    NOT_A_BLOCK = 1 << 20  # an item of the content list that is not a mapping, or has no type
    NESTED_CACHE = 1 << 21  # cache_control on a block inside a tool_result (counted for A17)
    BAD_ARGUMENTS = 1 << 23  # OpenAI: `function.arguments` is no string
    BAD_FORMAT = 1 << 24  # base64 image, also nested, that is not jpeg, png, gif or webp
    NULL_CONTENT = 1 << 25  # compaction whose content is null or absent ("" is EMPTY_TEXT)
    CITATIONS_OFF = 1 << 26  # a search result, also nested, without citations enabled
    CACHE_EDIT = 1 << 27  # block type `cache_edits`, or a key `cache_reference`
    OVER_5MB = 1 << 28  # base64 data of an image, also nested, over 5 * 2**20 characters
    OVER_10MB = 1 << 29  # the same over 10 * 2**20
    OVER_2000PX = 1 << 30  # a side of an image, also nested, as far as it can be read
    OVER_8000PX = 1 << 31
    NESTED_BLANK = 1 << 32  # a text inside a result or a search result that is empty or white space


class BlockDigest(NamedTuple):
    """One content block. 0 in `id` and `name` means none; else they index `Ledger.string`.

    `aux` holds for images width << 16 | height (0 if unknown), for tool results the images in them | nested 5m markers << 16 | nested 1h markers << 24,
    for tool changes 1 (addition by reference), 2 (removal), 3 (addition that defines the tool) or 4 (of
    what an MCP server holds).
    """

    kind: int
    flags: int
    tokens: int
    chars: int  # code points of what is counted
    id: int  # tool_use.id, tool_result.tool_use_id, server tool ids
    name: int  # tool name, "mcp:" before it for mcp_tool_use; SERVER_TOOL_RESULT, UNKNOWN: the type
    aux: int  # by kind; see below


class MessageDigest(NamedTuple):
    """One message. Token counts include the message's own overhead."""

    role: int
    flags: int
    tokens: int  # calibrated (TOK-2); without weights characters / 4 (TOK-1)
    first_block: int
    block_count: int
    response_id: int  # string index of the response's message id, 0 none
    uuid: int  # string index of the entry's uuid, 0 none
    usage: int  # input + cache creation + cache read + output, 0 if none
    timestamp: int  # milliseconds since the epoch, 0 unknown


class Violation(NamedTuple):
    """One broken rule. `message` -1: the request as a whole; `block` -1: the message as a whole."""

    rule: str  # such as "A05"
    severity: str  # "error" or "warning"
    message: int
    block: int
    detail: str


class LineDigest(NamedTuple):
    """One line of a transcript."""

    offset: int
    length: int  # bytes without the line end and white space around
    number: int  # from 1; blank lines count
    type: int  # string index of `type`
    subtype: int
    uuid: int
    parent: int
    message: MessageDigest | None


class Anchor(NamedTuple):
    """The newest usage figure that holds for the context.

    Looked for after the newest boundary, on responses that the model said (not synthetic, of the
    conversation's own thread). A message older than that boundary by its timestamp was kept by a
    compaction: its figure is of the context before it and is passed over.

    One response may lie in several messages (one response id) with tool results between them. The
    figure stands for what was before its first piece and for the output of all its pieces; the
    results between the pieces are not in it.
    """

    first: int  # first piece of that response
    last: int  # the newest piece that carries the usage
    covers: int  # first + 1: messages [0, covers) are inside the figure, and later pieces are too
    usage: int


class AnchoredCount(NamedTuple):
    """TOK-4: `total = usage + estimated - freed`, at least 0.

    `estimated` is of the messages from `anchor.covers` on that are no pieces of the anchor's
    response. `anchor` None: all after the newest boundary is estimated.
    """

    total: int
    estimated: int
    anchor: Anchor | None


class KeepWindow(NamedTuple):
    """KEEP-1 to KEEP-3: keep messages [start, end); blocks in `orphans` must be dropped."""

    start: int
    tokens: int
    text_messages: int
    orphans: list[tuple[int, int]]  # (message, block) of kept results whose call is not kept


class FoldedContext(NamedTuple):
    """Which lines of a transcript are in the context."""

    lines: list[int]  # in the order of the context
    attachments: list[int]  # places in `lines` of entries of the type `attachment`
    unmeasured: list[int]  # lines of which the usage is of a context before the newest boundary
    missing: int  # entries that a boundary says were kept, and that no line is


class SurveyFacts(NamedTuple):
    """What fills a conversation, as far as no setting decides it.

    Rows of tools and files are (name, calls, errors, tokens), the most tokens first; a tool's name is empty where its call
    is not in the context.
    """

    # Tokens: summary, user, assistant, thinking, calls, results, media, host text, other.
    categories: tuple[int, ...]
    rounds: int
    largest_round: int  # tokens
    user_inputs: int
    open_calls: int
    tools: list[tuple[str, int, int, int]]
    files: list[tuple[str, int, int, int]]
    media: tuple[int, int]  # tokens, blocks


# Keys of Anthropic's request types (SDK 2.11) and OpenAI's content parts (SDK 2.54), by block type; the digest flags any other.
_ROWS = """
text: type text cache_control citations prompt_cache_breakpoint annotations logprobs
tool_use: type id name input cache_control caller toolset_name
tool_result: type tool_use_id content is_error cache_control toolset_name
thinking: type thinking signature
redacted_thinking: type data
image: type source cache_control transformations image_url file_id detail prompt_cache_breakpoint
document: type source cache_control citations context title file file_data file_id file_url filename detail prompt_cache_breakpoint
server_tool_use: type id name input cache_control caller server_name
mcp_tool_use: type id name input cache_control caller server_name
search_result: type source title content citations cache_control
container_upload: type file_id cache_control
compaction: type content cache_control encrypted_content signature tool_changes
fallback: type from to trigger
tool_addition: type tool cache_control
tool_removal: type tool cache_control
"""
_BLOCK_KEYS = {
    row.split(":")[0]: frozenset(row.split(":")[1].split()) for row in _ROWS.strip().splitlines()
}
SERVER_RESULT_KEYS: Final = frozenset(
    "type tool_use_id content cache_control caller is_error".split()
)

# Of a bare message: what requests of any provider carry, what responses carry, and what a view of ours adds.
MESSAGE_KEYS: Final = frozenset(
    "role content name tool_calls tool_call_id function_call refusal audio reasoning_content "
    "reasoning reasoning_details prefix id type model usage stop_reason stop_sequence stop_details "
    "container context_management diagnostics output_config clear_at phase uuid timestamp "
    "annotations".split()
)


def known_keys(block_type: str) -> frozenset[str] | None:
    """Keys of a block type; `None`: an unknown type, of which nothing can be said."""
    if block_type not in _BLOCK_KEYS and block_type.endswith("_tool_result"):
        return SERVER_RESULT_KEYS
    return _BLOCK_KEYS.get(block_type)
