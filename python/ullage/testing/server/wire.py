"""What came in and what goes out, before and after HTTP, and the refusals between them.

Refusals are in the providers' own words, each with the place where its words were read (November 2026): `docs` is the
provider's documentation, `sdk` the types of its official SDK, all else a public report of the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ullage.counting.models import lookup
from ullage.legality import Violation, validate
from ullage.testing._seal import unseal
from ullage.testing.script import Failure, Step, overflow

if TYPE_CHECKING:
    from ullage.testing.server import ScriptedServer


_CHUNK = 400  # characters per event


@dataclass
class Recorded:
    """One request as it stood on the wire, and what became of it.

    Attributes:
        body: Exactly the bytes that came.
        headers: Names in lower case.
        status: Of the answer; 0: none was sent.
        step: Kind of the script's step that was used; empty: none, for example for a refused request.
        rules: Ids of the rules that it broke.
        fault: The step itself, for what it does to the wire.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    step: str = ""
    rules: tuple[str, ...] = ()
    fault: Step | None = None

    @cached_property
    def json(self) -> Any:
        """The body as an object; `None` if it is no JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def betas(self) -> tuple[str, ...]:
        """What the `anthropic-beta` header lists."""
        return tuple(
            part.strip() for part in self.headers.get("anthropic-beta", "").split(",") if part
        )

    def __repr__(self) -> str:
        size = f"{len(self.body)} bytes"
        return (
            f"Recorded({self.method} {self.path}, {size}, status={self.status}, step={self.step!r})"
        )


class Event(NamedTuple):
    """One server-sent event; `name` empty: data only."""

    name: str
    data: object

    def encode(self) -> bytes:
        """Its bytes on the wire."""
        data = self.data if isinstance(self.data, str) else orjson.dumps(self.data).decode()
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {data}\n\n".encode()


@dataclass
class Reply:
    """An answer: one body, or a stream of events."""

    status: int = 200
    body: object = None
    events: Iterable[Event] | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the answer: event by event, or all at once."""
        if self.events is None:
            yield orjson.dumps(self.body)
            return
        for event in self.events:
            yield event.encode()


def refuse(failure: Failure, provider: str) -> Reply:
    """The reply that a failure makes, in this provider's form."""
    return Reply(failure.status, failure.body(provider), headers=dict(failure.headers))


def pieces(text: str) -> Iterator[str]:
    """A text as a stream delivers it."""
    for at in range(0, len(text), _CHUNK):
        yield text[at : at + _CHUNK]


# What every endpoint asks of a request before the script answers it.


_KEYS = {
    "openai_responses": ("input", "instructions"),
    "gemini": ("contents", "systemInstruction"),
}
_READ = "system instructions systemInstruction tools messages input contents".split()


def count_tokens(body: dict[str, Any]) -> int:
    """Tokens of a request by this server: a quarter of the bytes of what the model reads, media included."""
    read = {key: body[key] for key in _READ if key in body}
    return len(orjson.dumps(read)) // 4


def refusal(
    server: ScriptedServer,
    recorded: Recorded,
    provider: str,
    needed: tuple[str, ...],
    *,
    counting: bool = False,
    model: str = "",
) -> Failure | None:
    """The first thing that is wrong with a request; `None`: it is answered.

    Args:
        server: For its settings.
        recorded: The request; the rules that it breaks are noted in it.
        provider: Whose rules hold.
        needed: Keys that the body must have.
        counting: The request only asks for a count, so its size breaks no rule.
        model: The model in use, where the body does not name it.
    """
    body = recorded.json
    early = _unreadable(body, needed) or _unnamed(recorded)
    if early is not None or not server.enforce:
        return early
    early = ill_formed(provider, body, sealed=server.sealed)
    if early is not None:
        recorded.rules = ("form",)
        return early
    violations = _broken(provider, {"model": model, **body} if model else body)
    if not (violations or counting):
        too_large = _too_large(server, provider, body)
        recorded.rules = ("window",) if too_large else ()
        return too_large
    recorded.rules = tuple(violation.rule for violation in violations)
    return worded(violations[0], provider) if violations else None


_KEY_HEADERS = ("x-api-key", "authorization", "x-goog-api-key")


def _unnamed(recorded: Recorded) -> Failure | None:
    if any(recorded.headers.get(name) for name in _KEY_HEADERS):
        return None
    return Failure(401, "authentication_error", "no API key is in the headers", "invalid_api_key")


def _unreadable(body: Any, needed: tuple[str, ...]) -> Failure | None:
    if not isinstance(body, dict):
        return Failure(400, "invalid_request_error", "The request body is not valid JSON")
    missing = [key for key in needed if key not in body]
    if not missing:
        return None
    text = f"{missing[0]}: Field required"
    return Failure(400, "invalid_request_error", text, "missing_required_parameter")


def _broken(provider: str, body: dict[str, Any]) -> list[Violation]:
    key, system_key = _KEYS.get(provider, ("messages", "system"))
    messages = body.get(key)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list):
        return [Violation("A01", "error", -1, -1, f"{key} must be a list")]
    parts = ("model", "tools", "stream", key, system_key)
    report = validate(
        messages,
        provider=provider,
        model=body.get("model"),
        system=body.get(system_key),
        tools=body.get("tools"),
        params={name: value for name, value in body.items() if name not in parts},
        facts={"window": 0},  # this server's own count says what fits
    )
    return list(report.errors)


def _too_large(server: ScriptedServer, provider: str, body: dict[str, Any]) -> Failure | None:
    limit = server.window
    if limit is None:
        limit = lookup(body["model"]).context_window if provider == "anthropic" else 0
    tokens = count_tokens(body)
    if not limit or tokens <= limit:
        return None
    words = provider if provider in ("anthropic", "mistral", "gemini") else "openai"
    return overflow(words, used=tokens, limit=limit)


class _Words(NamedTuple):
    text: str
    source: str
    code: str = ""


_ANTHROPIC: Final[Mapping[str, _Words]] = {
    "A02": _Words(
        "{at}: text content blocks must contain non-whitespace text", "sdk issues, Portkey's list"
    ),
    "A05": _Words(
        "{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {name}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        "anthropics/claude-code #8210",
    ),
    "A06": _Words(
        "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each `tool_result` block "
        "must have a corresponding `tool_use` block in the previous message.",
        "anthropics/claude-code #18947",
    ),
    "A08": _Words("{at}: `tool_use` ids must be unique", "trycua/cua #524"),
    "A11": _Words(
        "This model does not support assistant message prefill. The conversation must end with a user "
        "message.",
        "docs: api/errors, prefill",
    ),
    "A14": _Words(
        "{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found another block",
        "n8n #22550",
    ),
    "A17": _Words(
        "A maximum of 4 blocks with cache_control may be provided. Found {number}.",
        "docs: prompt-caching",
    ),
    "A18": _Words(
        "{at}: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
        "anthropics/claude-code #82816",
    ),
    "A19": _Words(
        "{at}: cache_control cannot be set for empty text blocks", "anthropics/claude-code #50082"
    ),
    "A23": _Words("Request exceeds the maximum allowed number of bytes", "docs: api/errors"),
}
_UNANSWERED: Final = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {name}"
)
_EMPTY: Final = (
    "Invalid '{place}': empty array. Expected an array with minimum length 1, but got an empty array "
    "instead."
)
_CHAT: Final[Mapping[str, _Words]] = {
    "O01": _Words(_UNANSWERED, "google-gemini/gemini-cli #5031"),
    "O02": _Words(
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
        "'tool_calls'.",
        "OpenAI's community forum; the spelling is the API's",
    ),
    "O03": _Words(
        _EMPTY.replace("{place}", "{at}.tool_calls"), "openai/openai-node #1341", "empty_array"
    ),
    "O08": _Words(
        "Invalid '{at}.content': string too long. Expected a string with maximum length 10485760.",
        "litellm: exception_mapping_utils",
        "string_above_max_length",
    ),
}
_RESPONSES: Final[Mapping[str, _Words]] = {
    "R01": _Words("No tool output found for function call {name}.", "openai/openai-python issues"),
    "R01 output": _Words(
        "No tool call found for function call output with call_id {name}.",
        "openai/openai-python issues",
    ),
    "R02": _Words(
        "Item of type 'reasoning' was provided without its required following item. ({at})",
        "vercel/ai #7099",
    ),
}
_GEMINI: Final[Mapping[str, _Words]] = {
    "G02": _Words(
        "Please ensure that function call turn comes immediately after a user turn or after a function "
        "response turn.",
        "google-gemini/gemini-cli issues",
    ),
    "G03": _Words(
        "Please ensure that the number of function response parts is equal to the number of function "
        "call parts of the function call turn.",
        "google-gemini/gemini-cli #3814",
    ),
    "G04": _Words(
        "Function call is missing a thought_signature in functionCall parts.",
        "docs: thought-signatures",
    ),
    "G05": _Words(
        "* GenerateContentRequest.{at}.parts: contents.parts must not be empty.", "reports"
    ),
}
_BY_API: Final[Mapping[str, Mapping[str, _Words]]] = {
    "anthropic": _ANTHROPIC,
    "openai_responses": _RESPONSES,
    "gemini": _GEMINI,
}
_LISTS: Final = {"openai_responses": "input", "gemini": "contents"}
_NAME: Final = re.compile(r"(?:tool use|tool call|output|function_call\w*|reasoning) (\S+)")
_NUMBER: Final = re.compile(r"\d+")


def worded(violation: Violation, provider: str) -> Failure:
    """A broken rule as the provider puts it, with the rule's id; in our words where the provider's are not known."""
    table = _BY_API.get(provider, _CHAT)
    kind = f"{violation.rule} output" if "answers no" in violation.detail else violation.rule
    words = table.get(kind) or table.get(violation.rule)
    status, name = (413, "request_too_large") if violation.rule == "A23" else (400, _INVALID)
    key = _LISTS.get(provider, "messages")
    if words is None:
        place = "" if violation.message < 0 else f"{key}.{violation.message}: "
        return Failure(status, name, f"{place}{violation.detail} ({violation.rule})")
    dotted = provider == "anthropic"
    at = f"{key}.{violation.message}" if dotted else f"{key}[{violation.message}]"
    called, number = _NAME.search(violation.detail), _NUMBER.search(violation.detail)
    text = words.text.format(
        at=at, name=called[1] if called else "", number=number[0] if number else ""
    )
    return Failure(status, name, f"{text} ({violation.rule})", words.code)


_INVALID: Final = "invalid_request_error"

# ---- what no rule on messages sees: tools, parameters, types of items, signatures ----------------


def ill_formed(provider: str, body: Mapping[str, Any], *, sealed: bool) -> Failure | None:
    """What the API refuses before it looks at the conversation; `None`: nothing.

    Args:
        provider: Whose API.
        body: The request.
        sealed: Refuse signatures of thinking that the test kit did not make.
    """
    checks = _CHECKS.get(provider, (_chat_parameters, _chat_messages, _chat_tools))
    failures = (failure for check in checks for failure in check(body))
    return next(failures, None) or (_unsealed(body) if sealed and provider == "anthropic" else None)


def _invalid(text: str, code: str = "") -> Failure:
    return Failure(400, _INVALID, text, code)


def _missing(place: str) -> Failure:
    """Source: openai/openai-cookbook #1248, icebear0828/codex-proxy #399."""
    return _invalid(f"Missing required parameter: '{place}'.", "missing_required_parameter")


def _tools(body: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    tools = body.get("tools")
    for at, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield at, tool if isinstance(tool, Mapping) else {}


def _chat_parameters(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: sdk openai, `completion_create_params`: these are parameters of other APIs."""
    for key in ("system", "input", "instructions", "contents", "toolConfig", "tool_config"):
        if key in body:
            yield _invalid(f"Unknown parameter: '{key}'.", "unknown_parameter")


_CHAT_ROLES: Final = ("system", "assistant", "user", "function", "tool", "developer")


def _chat_messages(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: openai/openai-node #1341 for an empty array; sdk openai, `chat_completion_message_param`."""
    messages = body.get("messages")
    if messages == []:
        yield _invalid(_EMPTY.format(place="messages"), "empty_array")
    for message in messages if isinstance(messages, list) else ():
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in _CHAT_ROLES:
            roles = ", ".join(f"'{name}'" for name in _CHAT_ROLES)
            text = f"Invalid value: '{role}'. Supported values are: {roles}."
            yield _invalid(text, "invalid_value")


def _chat_tools(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: openai/openai-node #1341 for an empty array, bolna-ai/bolna #144 for what is missing."""
    if body.get("tools") == []:
        yield _invalid(_EMPTY.format(place="tools"), "empty_array")
    for at, tool in _tools(body):
        kind = tool.get("type")
        if kind is None:
            yield _missing(f"tools[{at}].type")
        elif kind not in ("function", "custom"):
            text = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
            yield _invalid(text, "invalid_value")
        elif not isinstance(tool.get(kind), Mapping):
            yield _missing(f"tools[{at}].{kind}")
        elif not tool[kind].get("name"):
            yield _missing(f"tools[{at}].{kind}.name")


def _responses_tools(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: icebear0828/codex-proxy #399. An empty list is legal here: OpenAI's own agents send one."""
    for at, tool in _tools(body):
        if "type" not in tool:
            yield _missing(f"tools[{at}].type")
        elif tool["type"] in ("function", "custom") and not tool.get("name"):
            yield _missing(f"tools[{at}].name")


_ITEM_ENDS: Final = (
    "_call",
    "_output",
    "_tools",
    "_request",
    "_response",
    "_reference",
    "_summary",
)
_ITEMS: Final = ("message", "reasoning", "compaction", "context_compaction", "program")
_ROLES: Final = ("assistant", "system", "developer", "user")


def _responses_items(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: sdk openai, `response_input_item_param`; the words as in openai/openai-python issues."""
    items = body.get("input")
    for at, item in enumerate(items if isinstance(items, list) else ()):
        kind = item.get("type", "message") if isinstance(item, Mapping) else None
        if kind not in _ITEMS and not str(kind).endswith(_ITEM_ENDS):
            yield _invalid(f"Invalid value: '{kind}'. (input[{at}].type)", "invalid_value")
        elif kind == "message" and item.get("role") not in _ROLES:
            roles = "'assistant', 'system', 'developer', and 'user'"
            text = f"Invalid value: '{item.get('role')}'. Supported values are: {roles}."
            yield _invalid(text, "invalid_value")


_ANTHROPIC_OWN: Final = re.compile(r"_20\d{6}$|^mcp_toolset$|^tool_search_tool_(?:bm25|regex)$")


def _anthropic_tools(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: dirac-run/dirac #57; sdk anthropic, `tool_union_param`."""
    for at, tool in _tools(body):
        kind = tool.get("type") or "custom"
        if kind != "custom" and not _ANTHROPIC_OWN.search(str(kind)):
            yield _invalid(
                f"tools.{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
            )
        elif kind == "custom":
            for key in ("name", "input_schema"):
                if key not in tool:
                    yield _invalid(f"tools.{at}.custom.{key}: Field required")


def _anthropic_parameters(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: "Extra inputs are not permitted" in many reports; these are parameters of other APIs."""
    for key in ("input", "instructions", "contents", "toolConfig", "max_completion_tokens"):
        if key in body:
            yield _invalid(f"{key}: Extra inputs are not permitted")


def _gemini_parameters(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: the words of Google's JSON reader, in reports for every unknown field."""
    for key in ("messages", "input", "instructions", "system", "model"):
        if key in body:
            yield _invalid(
                f'Invalid JSON payload received. Unknown name "{key}": Cannot find field.'
            )
    for at, tool in _tools(body):
        kinds = [key for key in tool if key not in ("type", "name", "function", "input_schema")]
        if not any(tool[key] is not None and tool[key] != [] for key in kinds):
            # Source: CherryHQ/cherry-studio #3090, a tool without a function.
            text = f"* GenerateContentRequest.tools[{at}].tool_type: required one_of 'tool_type' must have one initialized field"
            yield _invalid(text)


_CHECKS: Final[Mapping[str, Sequence[Any]]] = {
    "anthropic": (_anthropic_parameters, _anthropic_tools),
    "openai_responses": (_responses_tools, _responses_items),
    "gemini": (_gemini_parameters,),
}


def _unsealed(body: Mapping[str, Any]) -> Failure | None:
    """Source: docs extended-thinking: a signature is the model's own, unchanged."""
    for at, message in enumerate(body.get("messages") or ()):
        content = message.get("content") if isinstance(message, Mapping) else None
        for place, block in enumerate(_thoughts(content)):
            if block and unseal(block.get("signature"), str(block.get("thinking", ""))) is None:
                return _invalid(
                    f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block (A13)"
                )
    return None


def _thoughts(content: Any) -> Iterable[Mapping[str, Any] | None]:
    """Blocks of signed thinking at their places; `None` for others."""
    for block in content if isinstance(content, list) else ():
        thinks = isinstance(block, Mapping) and block.get("type") == "thinking"
        yield block if thinks and block.get("signature") else None
