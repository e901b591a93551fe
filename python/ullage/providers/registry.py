"""The providers' request forms: one row names all that the library has to know of each, and where its code is.

Rows hold names of modules, which are imported when a form is first used: so that a row can name what stands in
rooms above this one, and so that a program loads only the forms it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from ullage._start import Frozen, loaded
from ullage.exceptions import InvalidPolicy
from ullage.messages import Block, Item
from ullage.providers._common import Internal, Shaped


class Form(Protocol):
    """What the module of a form has: a writer and a reader."""

    def to_provider(
        self,
        messages: Sequence[Item],
        *,
        system: str | Sequence[Block] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Shaped:
        """A conversation in the provider's form.

        Args:
            messages: Anthropic-shaped messages or entries; not changed.
            system: The system prompt; `None` sends none.
            tools: Anthropic-shaped definitions; `None` sends none.

        Returns:
            Keys of the body (the conversation and, if given, system prompt and tools); losses; what had to change.
        """

    def from_provider(self, request: Mapping[str, Any] | Sequence[Item]) -> Internal:
        """A request, or its messages, in the internal view; not changed. A system prompt is read where it is the first message."""


class PlainForm(Protocol):
    """What a form's module has for plain messages, which most of a conversation is: text, reasoning, calls, results that are text.

    What it does not recognise is not wrong: it takes the longer way, which gives the same for what is recognised
    (`tests/providers/test_plain_forms.py`).
    """

    def read_plain(
        self, item: Item, position: int, open_calls: Callable[[], Sequence[tuple[str, str]]], /
    ) -> Item | None:
        """One item as the one message that `native_lists.read_item` makes of it; `None`: it is not plain.

        `position`: where it will stand in the history; makes ids of calls that have none. `open_calls`: id and name of calls that
        wait for a result, oldest first.
        """

    def write_plain(self, messages: Sequence[Item], provider: Provider, /) -> list[Item] | None:
        """Whole rounds (`manager.written_form.rounds`) as the form's writer writes them after others; `None`: they are not all plain."""


class ChatRules(Frozen, kw_only=True):
    """How a server that speaks Chat Completions differs from OpenAI, for the rules and the repairs.

    Attributes:
        id_rule: The rule that ids of calls break.
        max_id_chars: The longest id of a call.
        exact_ids: Ids are exactly so many letters and digits.
        strict: One system message, roles alternate, no `null` content.
        reasoning: Its thinking mode requires `reasoning_content` with calls.
        blank_answers: An assistant's empty string counts as content.
    """

    id_rule: str = "O05"
    max_id_chars: int = 40
    exact_ids: bool = False
    strict: bool = False
    reasoning: bool = False
    blank_answers: bool = True


class Provider(Frozen, kw_only=True):
    """One row: a provider's request form.

    Attributes:
        name: What `provider=` says.
        aliases: Other usual names.
        form: Module with `to_provider` and `from_provider`; see `Form`.
        check: Module whose `check` finds what the provider would refuse. As it stands: what the internal view shows.
        repair: Module whose `repair` makes it legal. As it stands: the repairs of the internal view, written back.
        rule_set: The engine's rules that `check` asks for; empty: those of its name.
        errors: A TOML file of error wordings of its own, tried before the common ones; empty: none. See
            `errors.toml`.
        vendor: Whose models it serves, as the model table names them; a model of another vendor does not count.
        list_key: What the request calls the conversation.
        system_key: Where the system prompt stands; empty: it is the first message.
        tools_at: The way to the list of tool definitions in a request.
        answer: The way from a response's body to the model's message, or to a list of items.
        internal: The form is the internal view itself: messages go in and out as they are.
        read_as_is: The engine's ledger reads the form without translation.
        writable: Requests can be written in it; else there are only rules and repairs.
        untyped: Blocks have no `type`: their key says what they are.
        speakers_only: Every item has a role, so an answer without one is none.
        item_key: The key of which one that has no role is known to be a message of this form.
        item_types: Types of items without a role.
        item_ends: What types of such items end in.
        guess_types: Those of them that no other format has: a list is recognised by them.
        guess_ends: The same for the ends of types.
        own_ids: Ids of calls must be mapped to a form of its own.
        by_place: Whoever writes the request pairs calls and results by their place: a list keeps its ids, repeated ones too.
        claude_thinking: `thinking` is Anthropic's parameter, with its types.
        edits: Which part of `context_management` the API supports: Anthropic's `edits`, only `compaction`, or nothing.
        chat: How its chat differs from OpenAI's; of no meaning to forms that are no chat.
        camel_case: Its SDK's objects spell names in snake_case, the API in camelCase.
        plain: Module with a quick `read_plain` and `write_plain` of plain messages; empty: there is none.
        carrier: Under which form's name its data travel in the internal view; empty: its own.
    """

    name: str
    form: str
    aliases: tuple[str, ...] = ()
    check: str = "ullage.legality.internal"
    repair: str = "ullage.legality.internal"
    rule_set: str = ""
    errors: str = ""
    vendor: str = ""
    list_key: str = "messages"
    system_key: str = ""
    tools_at: tuple[str, ...] = ("tools",)
    answer: tuple[str | int, ...] = ("choices", 0, "message")
    internal: bool = False
    read_as_is: bool = False
    writable: bool = True
    untyped: bool = False
    speakers_only: bool = True
    item_key: str = ""
    item_types: tuple[str, ...] = ()
    item_ends: tuple[str, ...] = ()
    guess_types: tuple[str, ...] = ()
    guess_ends: tuple[str, ...] = ()
    own_ids: bool = False
    by_place: bool = False
    claude_thinking: bool = False
    edits: Literal["", "edits", "compaction"] = ""
    chat: ChatRules = ChatRules()
    camel_case: bool = False
    plain: str = ""
    carrier: str = ""

    @property
    def rules(self) -> str:
        """The engine's name of the rules."""
        return self.rule_set or self.name

    @property
    def shape(self) -> Form:
        """The form's reader and writer."""
        return cast("Form", loaded(self.form))

    @property
    def plain_form(self) -> PlainForm | None:
        """The quick reader and writer of plain messages, where the form has them."""
        return cast("PlainForm", loaded(self.plain)) if self.plain else None

    def user_message(self, text: str) -> dict[str, Any]:
        """A user's message with this text."""
        written = self.shape.to_provider([{"role": "user", "content": text}])
        return cast("dict[str, Any]", written.parts[self.list_key][-1])

    def definition(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        """A tool's definition, given in Anthropic's form, as the request lists it."""
        parts: Any = self.shape.to_provider((), tools=[tool]).parts
        for step in self.tools_at:
            parts = parts[step]
        return cast("dict[str, Any]", parts[0])

    def owns(self, item: Mapping[str, Any]) -> bool:
        """Whether something without a role is an item of this form."""
        if self.item_key and isinstance(item.get(self.item_key), list):
            return True
        return _is_kind(item.get("type"), self.item_types, self.item_ends)

    def recognises(self, item: Mapping[str, Any]) -> bool:
        """Whether an item can only be of this form."""
        if self.item_key:
            return self.item_key in item and "content" not in item
        return "role" not in item and _is_kind(item.get("type"), self.guess_types, self.guess_ends)

    def __repr__(self) -> str:
        return f"Provider({self.name})"


def _is_kind(kind: object, types: Iterable[str], ends: tuple[str, ...]) -> bool:
    return isinstance(kind, str) and (kind in types or kind.endswith(ends))


AnyProvider: TypeAlias = str | Provider
"""A provider's name, or a row of one's own."""

_LEGALITY: Final = "ullage.legality"
_CHAT: Final = Provider(
    name="openai_chat",
    aliases=("openai", "azure", "compatible", "chat"),
    form="ullage.providers.openai_chat",
    check=f"{_LEGALITY}.chat",
    repair=f"{_LEGALITY}.chat",
    vendor="openai",
    read_as_is=True,
    plain="ullage.providers.openai_chat",
)

_ROWS: Final = (
    Provider(
        name="anthropic",
        aliases=("claude",),
        form="ullage.providers.anthropic",
        check=f"{_LEGALITY}.anthropic",
        repair=f"{_LEGALITY}.anthropic",
        vendor="anthropic",
        system_key="system",
        answer=(),
        internal=True,
        read_as_is=True,
        claude_thinking=True,
        edits="edits",
    ),
    _CHAT,
    Provider(
        name="openai_responses",
        aliases=("responses",),
        form="ullage.providers.openai_responses",
        check=f"{_LEGALITY}.responses",
        repair=f"{_LEGALITY}.responses",
        vendor="openai",
        list_key="input",
        system_key="instructions",
        answer=("output",),
        speakers_only=False,
        item_types=tuple(
            "message reasoning compaction context_compaction item_reference additional_tools "
            "program".split()
        ),
        item_ends=tuple(
            "_call _output _list_tools _approval_request _approval_response _summary".split()
        ),
        # Of `item_types` those that no other program writes: a "message" stands in many transcripts.
        guess_types=("reasoning", "compaction", "item_reference", "mcp_list_tools"),
        guess_ends=("_call", "_call_output", "_approval_request", "_approval_response"),
        edits="compaction",
        plain="ullage.providers.openai_responses",
    ),
    Provider(
        name="gemini",
        aliases=("google",),
        form="ullage.providers.gemini",
        check=f"{_LEGALITY}.gemini",
        repair=f"{_LEGALITY}.gemini",
        vendor="google",
        list_key="contents",
        system_key="systemInstruction",
        answer=("candidates", 0, "content"),
        untyped=True,
        speakers_only=False,
        item_key="parts",
        camel_case=True,
        plain="ullage.providers.gemini",
    ),
    Provider(
        name="bedrock",
        aliases=("converse",),
        tools_at=("toolConfig", "tools"),
        form="ullage.providers.bedrock",
        check=f"{_LEGALITY}.bedrock",
        repair=f"{_LEGALITY}.bedrock",
        vendor="anthropic",
        system_key="system",
        answer=("output", "message"),
        untyped=True,
        claude_thinking=True,
        plain="ullage.providers.bedrock",
    ),
    replace(
        _CHAT,
        name="mistral",
        aliases=(),
        form="ullage.providers.mistral",
        vendor="mistral",
        own_ids=True,
        carrier="openai_chat",
        # Nine letters or digits, or its API answers 400; OpenAI takes any forty characters.
        chat=ChatRules(id_rule="M03", max_id_chars=9, exact_ids=True),
    ),
    replace(
        _CHAT,
        name="deepseek",
        aliases=(),
        vendor="",
        writable=False,
        # Its thinking mode answers 400 where a message with calls has lost its `reasoning_content` (D01).
        chat=ChatRules(reasoning=True, blank_answers=False),
    ),
    replace(
        _CHAT,
        name="local",
        aliases=("ollama", "vllm", "llama.cpp"),
        vendor="",
        writable=False,
        # Templates of open models raise on a second system message and on two messages of one role (L01, L02).
        chat=ChatRules(strict=True),
    ),
)

_BY_NAME: Final[Mapping[str, Provider]] = {
    name: row for row in _ROWS for name in (row.name, *row.aliases)
}

PROVIDERS: Final[tuple[str, ...]] = tuple(row.name for row in _ROWS)
"""Names of all forms; `provider=` takes them and their usual other names."""

SHAPES: Final[tuple[str, ...]] = tuple(row.name for row in _ROWS if row.writable)
"""Names of the forms in which requests can be written."""


def provider_of(provider: AnyProvider, *, writable: bool = False) -> Provider:
    """The row of a name; a row as it is.

    Args:
        provider: One of `PROVIDERS`, a usual name for it, or a row.
        writable: Refuse forms that have rules only.

    Raises:
        InvalidPolicy: Nobody of that name is known.
    """
    if isinstance(provider, Provider):
        return provider
    try:
        row = _BY_NAME.get(provider)
    except TypeError:  # a dict or a list, from JSON
        row = None
    if row is None or (writable and not row.writable):
        rows = SHAPES if writable else PROVIDERS
        raise InvalidPolicy("provider", provider, f"must be one of {', '.join(rows)}")
    return row


def recognised(items: Iterable[object]) -> Provider | None:
    """The provider whose format a list has, by its first unambiguous item; `None`: unknown."""
    for item in items:
        if not isinstance(item, (dict, Mapping)) or "message" in item:
            continue
        if "role" in item and "content" in item:
            continue  # of several forms
        provider = next((row for row in _ROWS if row.recognises(item)), None)
        if provider is not None:
            return provider
    return None


# What a message or a response shows of the form it is in; the form that a model's name suggests.


CHAT_FORMS: Final = ("openai_chat", "mistral")
"""Forms whose messages and tools look alike: the one does not show that it is not the other."""
_RESPONSES: Final = ("openai_responses",)
_ANTHROPIC: Final = ("anthropic",)

_BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys("tool_use tool_result server_tool_use redacted_thinking".split(), _ANTHROPIC),
    "image_url": CHAT_FORMS,
    **dict.fromkeys("input_text output_text input_image input_file".split(), _RESPONSES),
}
"""Types of blocks that one form alone has."""

_UNTYPED: Final = frozenset(
    "text toolUse toolResult reasoningContent cachePoint image document video".split()
)
"""Keys of Converse's blocks, which have no type."""


def forms_of(item: Any) -> tuple[str, ...]:
    """Names of the forms that a message, an entry, an item or a whole response can be in; empty: it does not show."""
    if type(item) is not dict and not isinstance(item, Mapping):
        return ()
    if "role" not in item:
        return _of_body(item)
    role, content = item["role"], item.get("content")
    if role in ("tool", "function") or item.get("tool_calls") or item.get("function_call"):
        return CHAT_FORMS
    if content is None and isinstance(item.get("parts"), list):
        return ("gemini",)
    if role == "developer":
        return (*CHAT_FORMS, *_RESPONSES)
    return _of_blocks(content) if isinstance(content, list) else ()


def _of_body(item: Item) -> tuple[str, ...]:
    inner = item.get("message")
    if isinstance(inner, Mapping):
        return forms_of(inner)
    if isinstance(item.get("parts"), list):
        return ("gemini",)
    output = item.get("output")
    if isinstance(output, Mapping):
        return ("bedrock",) if "message" in output else ()
    if isinstance(output, list) and "call_id" not in item:
        return _RESPONSES
    if isinstance(item.get("choices"), list):
        return CHAT_FORMS
    if isinstance(item.get("candidates"), list):
        return ("gemini",)
    ends = ("_call", "_call_output", "_approval_request", "_approval_response")
    own = ("reasoning", "item_reference", "mcp_list_tools")
    return _RESPONSES if _is_kind(item.get("type"), own, ends) else ()


def _of_blocks(content: list[Any]) -> tuple[str, ...]:
    for block in content:
        if not isinstance(block, Mapping):
            return ()  # no provider's list holds anything else
        kind = block.get("type")
        if kind is None and not _UNTYPED.isdisjoint(block):
            return ("bedrock",)
        if isinstance(kind, str) and kind in _BLOCKS:
            return _BLOCKS[kind]
        if kind in ("image", "document") and isinstance(block.get("source"), Mapping):
            return _ANTHROPIC
    return ()


# ---- names -----------------------------------------------------------------------------------

_VENDORS: Final = {"openai": "openai_chat", "google": "gemini", "mistral": "mistral"}


def form_by_name(name: str, vendor: str) -> str:
    """The form in which a model is most often asked, as long as no message has shown another.

    Args:
        name: The model's name: one with a path, `anthropic/claude-opus-4-5`, is that of litellm or of a router,
            which all speak Chat Completions. Only Google's own names begin with a folder: `models/gemini-2.5-pro`.
        vendor: Whose model it is, by the model table; empty: unknown.
    """
    folder, slash, _ = name.partition("/")
    if slash and folder not in ("models", "publishers", "projects"):
        return "openai_chat"
    return _VENDORS.get(vendor, "anthropic")
