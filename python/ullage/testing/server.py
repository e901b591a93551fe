"""A loopback server that speaks three APIs, by a script: threaded, on 127.0.0.1, with everything that can go wrong on a wire.

First the APIs of Anthropic, Google and OpenAI: what came in, refusals, then the answer of the script, plain or as a stream, before and
after HTTP. Then the server.
"""

from __future__ import annotations

import base64
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter
from typing import Any, ClassVar, Final, NamedTuple

import orjson

from ullage.counting.models import lookup
from ullage.exceptions import InvalidPolicy
from ullage.legality import Violation, validate
from ullage.legality.gemini import DUMMY_SIGNATURES
from ullage.messages import Item
from ullage.providers.answers import message_events, pieces, response_events
from ullage.providers.registry import provider_of
from ullage.testing.generator import EPOCH_SECONDS, unseal
from ullage.testing.script import WORDS, Answer, Failure, Script, Step, answer, failure, overflow

_CHUNK = 400  # characters per event

Items = list[dict[str, Any]]


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
        listed = self.headers.get("anthropic-beta", "").split(",")
        return tuple(part.strip() for part in listed if part)

    def __repr__(self) -> str:
        state = f"{len(self.body)} bytes, status={self.status}, step={self.step!r}"
        return f"Recorded({self.method} {self.path}, {state})"


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
    """An answer: one body, as an object or as it stands, or a stream of events."""

    status: int = 200
    body: object = None
    events: Iterable[Event] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = ""  # content type; empty: JSON, or that of a stream

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the answer: event by event, or all at once."""
        if self.events is None:
            yield self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)
            return
        for event in self.events:
            yield event.encode()


def refuse(failure: Failure, provider: str) -> Reply:
    """The reply that a failure makes, in this provider's form."""
    return Reply(failure.status, failure.body(provider), headers=dict(failure.headers))


# What every endpoint asks of a request before the script answers it.


_READ = "system instructions systemInstruction tools messages input contents".split()
_INVALID: Final = "invalid_request_error"


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
    """The first thing that is wrong with a request; `None`: it is answered. The rules that it breaks are noted in it.

    `needed`: keys that the body must have. `counting`: it only asks for a count, so its size breaks no rule. `model`: where the
    body does not name it.
    """
    body = recorded.json
    if not isinstance(body, dict):
        return _invalid("The request body is not valid JSON")
    for key in needed:
        if key not in body:
            return _invalid(f"{key}: Field required", "missing_required_parameter")
    key_headers = ("x-api-key", "authorization", "x-goog-api-key")
    if not any(recorded.headers.get(name) for name in key_headers):
        text = "no API key is in the headers"
        return Failure(401, "authentication_error", text, "invalid_api_key")
    if not server.enforce:
        return None
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


def _broken(provider: str, body: dict[str, Any]) -> list[Violation]:
    row = provider_of(provider)
    messages = body.get(row.list_key)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list):
        return [Violation("A01", "error", -1, -1, f"{row.list_key} must be a list")]
    parts = ("model", "tools", "stream", row.list_key, row.system_key)
    report = validate(
        messages,
        provider=row,
        model=body.get("model"),
        system=body.get(row.system_key),
        tools=body.get("tools"),
        params={name: value for name, value in body.items() if name not in parts},
        facts={"window": 0},  # this server's own count says what fits
    )
    return list(report.errors)


def _too_large(server: ScriptedServer, provider: str, body: dict[str, Any]) -> Failure | None:
    limit, tokens = server.window, count_tokens(body)
    if limit is None:
        limit = lookup(body["model"]).context_window if provider == "anthropic" else 0
    if not limit or tokens <= limit:
        return None
    words = provider if provider in ("anthropic", "mistral", "gemini") else "openai"
    return overflow(words, used=tokens, limit=limit)


_NAME: Final = re.compile(r"(?:tool use|tool call|output|function_call\w*|reasoning) (\S+)")
_NUMBER: Final = re.compile(r"\d+")


def worded(violation: Violation, provider: str) -> Failure:
    """A broken rule as the provider puts it, with the rule's id; in our words where the provider's are not known."""
    table = WORDS["rules"][provider if provider in _CHECKS else "openai_chat"]
    kind = f"{violation.rule} output" if "answers no" in violation.detail else violation.rule
    words = table.get(kind) or table.get(violation.rule)
    status, name = (413, "request_too_large") if violation.rule == "A23" else (400, _INVALID)
    key = provider_of(provider).list_key
    if words is None:
        place = "" if violation.message < 0 else f"{key}.{violation.message}: "
        return Failure(status, name, f"{place}{violation.detail} ({violation.rule})")
    dotted = provider == "anthropic"
    at = f"{key}.{violation.message}" if dotted else f"{key}[{violation.message}]"
    called, number = _NAME.search(violation.detail), _NUMBER.search(violation.detail)
    text = words["text"].format(
        at=at, name=called[1] if called else "", number=number[0] if number else ""
    )
    return Failure(status, name, f"{text} ({violation.rule})", words.get("code", ""))


# ---- what no rule on messages sees: tools, parameters, types of items, signatures ----------------


def ill_formed(provider: str, body: Mapping[str, Any], *, sealed: bool) -> Failure | None:
    """What the API refuses before it looks at the conversation; `None`: nothing. `sealed`: also signatures of others."""
    form = provider if provider in _CHECKS else "openai_chat"
    words = WORDS["parameters"].get(form, {})
    for name in words.get("names", ()):
        if name in body:
            return _invalid(words["text"].format(name=name), words.get("code", ""))
    failure = next(_CHECKS[form](body), None)
    return failure or (_unsealed(body) if sealed and form == "anthropic" else None)


def _invalid(text: str, code: str = "") -> Failure:
    return Failure(400, _INVALID, text, code)


def _missing(place: str) -> Failure:
    """Source: openai/openai-cookbook #1248, icebear0828/codex-proxy #399."""
    return _invalid(f"Missing required parameter: '{place}'.", "missing_required_parameter")


def _not_among(value: object, values: str) -> Failure:
    text = f"Invalid value: '{value}'. Supported values are: {values}."
    return _invalid(text, "invalid_value")


def _tools(body: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    tools = body.get("tools")
    for at, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield at, tool if isinstance(tool, Mapping) else {}


_CHAT_ROLES: Final = ("system", "assistant", "user", "function", "tool", "developer")


def _chat_faults(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Sources: openai/openai-node #1341 for an empty array, sdk openai, `chat_completion_message_param`, bolna-ai/bolna #144."""
    empty = "Invalid '{place}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    messages = body.get("messages")
    if messages == []:
        yield _invalid(empty.format(place="messages"), "empty_array")
    for message in messages if isinstance(messages, list) else ():
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in _CHAT_ROLES:
            yield _not_among(role, ", ".join(f"'{name}'" for name in _CHAT_ROLES))
    if body.get("tools") == []:
        yield _invalid(empty.format(place="tools"), "empty_array")
    for at, tool in _tools(body):
        kind = tool.get("type")
        if kind is None:
            yield _missing(f"tools[{at}].type")
        elif kind not in ("function", "custom"):
            yield _not_among(kind, "'function' and 'custom'")
        elif not isinstance(tool.get(kind), Mapping):
            yield _missing(f"tools[{at}].{kind}")
        elif not tool[kind].get("name"):
            yield _missing(f"tools[{at}].{kind}.name")


_ITEM_ENDS: Final = tuple("_call _output _tools _request _response _reference _summary".split())
_ITEMS: Final = ("message", "reasoning", "compaction", "context_compaction", "program")
_ROLES: Final = ("assistant", "system", "developer", "user")


def _responses_faults(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Sources: icebear0828/codex-proxy #399; sdk openai, `response_input_item_param`, in the words of openai/openai-python issues."""
    # An empty list of tools is legal here: OpenAI's own agents send one.
    for at, tool in _tools(body):
        if "type" not in tool:
            yield _missing(f"tools[{at}].type")
        elif tool["type"] in ("function", "custom") and not tool.get("name"):
            yield _missing(f"tools[{at}].name")
    items = body.get("input")
    for at, item in enumerate(items if isinstance(items, list) else ()):
        kind = item.get("type", "message") if isinstance(item, Mapping) else None
        if kind not in _ITEMS and not str(kind).endswith(_ITEM_ENDS):
            yield _invalid(f"Invalid value: '{kind}'. (input[{at}].type)", "invalid_value")
        elif kind == "message" and item.get("role") not in _ROLES:
            yield _not_among(item.get("role"), "'assistant', 'system', 'developer', and 'user'")


_ANTHROPIC_OWN: Final = re.compile(r"_20\d{6}$|^mcp_toolset$|^tool_search_tool_(?:bm25|regex)$")


def _anthropic_faults(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Sources: dirac-run/dirac #57; sdk anthropic, `tool_union_param`."""
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


def _gemini_faults(body: Mapping[str, Any]) -> Iterator[Failure]:
    """Source: CherryHQ/cherry-studio #3090, a tool without a function."""
    for at, tool in _tools(body):
        kinds = [key for key in tool if key not in ("type", "name", "function", "input_schema")]
        if not any(tool[key] is not None and tool[key] != [] for key in kinds):
            text = f"* GenerateContentRequest.tools[{at}].tool_type: required one_of 'tool_type' must have one initialized field"
            yield _invalid(text)


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Failure]]]] = {
    "anthropic": _anthropic_faults,
    "openai_chat": _chat_faults,
    "openai_responses": _responses_faults,
    "gemini": _gemini_faults,
}


def _unsealed(body: Mapping[str, Any]) -> Failure | None:
    """Source: docs extended-thinking: a signature is the model's own, unchanged."""
    for at, message in enumerate(body.get("messages") or ()):
        content = message.get("content") if isinstance(message, Mapping) else None
        for place, block in enumerate(content if isinstance(content, list) else ()):
            is_thinking = isinstance(block, Mapping) and block.get("type") == "thinking"
            signature = block.get("signature") if is_thinking else None
            if signature and unseal(signature, str(block.get("thinking", ""))) is None:
                return _invalid(
                    f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block (A13)"
                )
    return None


# ---- answers ---------------------------------------------------------------------------------


def _answered(
    server: ScriptedServer,
    recorded: Recorded,
    form: str,
    refused: Failure | None,
    items: Callable[[dict[str, Any]], Items],
    answer: Callable[[ScriptedServer, dict[str, Any], Answer, int], dict[str, Any]],
    stream: Callable[[dict[str, Any]], Iterable[Event]],
    *,
    streams: bool | None = None,
) -> Reply:
    """What every API does: it refuses, fails as the script says, or answers, whole or as a stream.

    `form`: of errors. `answer`: the body, from the script's answer and the prompt's tokens. `stream`: the events that add up to
    it. `streams`: whether these were asked for; `None`: the request's body says it.
    """
    if refused is not None:
        return refuse(refused, form)
    body = recorded.json
    tokens = count_tokens(body)
    scripted = server.answer(recorded, items(body), tokens)
    if scripted.failure is not None:
        return refuse(scripted.failure, form)
    answered = answer(server, body, scripted, tokens)
    streams = body.get("stream") is True if streams is None else streams
    return Reply(events=list(stream(answered))) if streams else Reply(body=answered)


def create_message(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/messages`."""
    refused = refusal(server, recorded, "anthropic", ("model", "max_tokens", "messages"))
    return _answered(
        server, recorded, "anthropic", refused, itemgetter("messages"), _message, events
    )


def count_message(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/messages/count_tokens`: the same checks, no answer, no step of the script."""
    refused = refusal(server, recorded, "anthropic", ("model", "messages"), counting=True)
    if refused is not None:
        return refuse(refused, "anthropic")
    return Reply(body={"input_tokens": count_tokens(recorded.json)})


def _message(
    server: ScriptedServer, body: dict[str, Any], reply: Answer, tokens: int
) -> dict[str, Any]:
    content, reason = text_and_calls(reply, len(body["messages"])), reply.stop_reason
    if len(reply.text) > body["max_tokens"] * 4:
        content, reason = shortened(content, body["max_tokens"] * 4), "max_tokens"
    return {
        "id": server.new_id("msg_01"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": _output_tokens(reply)},
    }


def _output_tokens(reply: Answer) -> int:
    return (len(reply.text) + 3) // 4 + 20 * len(reply.tool_calls)


def text_and_calls(reply: Answer, length: int) -> list[dict[str, Any]]:
    """The answer's words and tool calls as blocks; `length` (of the request) makes ids unique."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    harmless = {"file_path": "/home/dev/notes.md"}
    for number, (tool, arguments) in enumerate(reply.calls(harmless)):
        name = f"toolu_01scripted{length:04}x{number}"
        blocks.append({"type": "tool_use", "id": name, "name": tool, "input": arguments})
    return blocks


def shortened(blocks: list[dict[str, Any]], chars: int) -> list[dict[str, Any]]:
    """Blocks whose text is cut to so many characters each."""
    return [{**b, "text": b["text"][:chars]} if b["type"] == "text" else b for b in blocks]


def events(message: dict[str, Any]) -> list[Event]:
    """The stream that adds up to this message."""
    begun, *others = message_events(message, _CHUNK)
    begun["message"]["usage"] = {**message["usage"], "output_tokens": 1}
    return named([begun, {"type": "ping"}, *others])


def named(parts: Iterable[dict[str, Any]]) -> list[Event]:
    """Events that are called by their type."""
    return [Event(part["type"], part) for part in parts]


def generate_content(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1beta/models/NAME:generateContent`, and `:streamGenerateContent`."""
    path = recorded.path.partition("?")[0]
    model, _, method = path.rpartition("/")[2].partition(":")
    refused = refusal(server, recorded, "gemini", ("contents",), model=model)
    if refused is None and server.enforce:
        refused = _forged(server, recorded.json["contents"])
        recorded.rules = ("G04",) if refused else ()
    return _answered(
        server,
        recorded,
        "gemini",
        refused,
        itemgetter("contents"),
        lambda _server, _body, reply, tokens: _response(server, model, reply, tokens),
        lambda body: [Event("", body)],
        streams=method.startswith("stream"),
    )


def _forged(server: ScriptedServer, contents: list[Any]) -> Failure | None:
    """A signature that this server has not given out. Source: Google's page on thought signatures."""
    # The documented words in place of a signature go as base64 like one.
    signatures = {_bytes_of(text) for text in (*DUMMY_SIGNATURES, *server.signatures)}
    for content in contents:
        for part in (content.get("parts") or ()) if isinstance(content, dict) else ():
            signature = part.get("thoughtSignature") if isinstance(part, dict) else None
            if signature is not None and _bytes_of(signature) not in signatures:
                return _invalid("Corrupted thought signature. (G04)")
    return None


def _bytes_of(signature: Any) -> bytes:
    """What a signature stands for, in either alphabet of base64: Google's SDK writes the one for URLs."""
    with suppress(ValueError):
        return base64.b64decode(str(signature).replace("-", "+").replace("_", "/"))
    return b""


def _response(server: ScriptedServer, model: str, reply: Answer, tokens: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    calls: Items = [{"functionCall": {"name": name, "args": {}}} for name in reply.tool_calls]
    if calls:  # the first call of a step is signed
        thought = server.new_id("thought >?>? ").encode()
        signature = base64.b64encode(thought).decode("ascii")
        server.signatures.append(signature)
        calls[0] = {**calls[0], "thoughtSignature": signature}
    content = {"role": "model", "parts": [*parts, *calls]}
    reason = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}.get(reply.stop_reason, "STOP")
    output = _output_tokens(reply)
    return {
        "candidates": [{"content": content, "finishReason": reason, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": tokens,
            "candidatesTokenCount": output,
            "totalTokenCount": tokens + output,
        },
        "modelVersion": model,
        "responseId": server.new_id("r_"),
    }


_CUT = ("max_tokens", "model_context_window_exceeded")
_REASONS = {"tool_use": "tool_calls", **dict.fromkeys(_CUT, "length")}


def chat(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/chat/completions`."""
    refused = refusal(server, recorded, server.dialect, ("model", "messages"))
    stream = partial(chat_events, recorded.json)
    return _answered(
        server, recorded, "openai", refused, itemgetter("messages"), completion, stream
    )


def completion(
    server: ScriptedServer, body: dict[str, Any], reply: Answer, tokens: int
) -> dict[str, Any]:
    """The answer as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.stop_reason == "refusal":
        message |= {"content": None, "refusal": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = []
        for name, arguments in reply.calls({}):
            function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
            call = {"id": server.new_id("call_"), "type": "function", "function": function}
            message["tool_calls"].append(call)
    reason = _REASONS.get(reply.stop_reason, "stop")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if isinstance(limit, int) and len(reply.text) > limit * 4:
        message["content"], reason = reply.text[: limit * 4], "length"
    used = usage(reply, tokens)
    return {
        "id": server.new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": EPOCH_SECONDS,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {
            "prompt_tokens": tokens,
            "completion_tokens": used["output_tokens"],
            "total_tokens": used["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": used["output_tokens_details"],
        },
    }


def chat_events(body: dict[str, Any], answer: dict[str, Any]) -> Iterator[Event]:
    """The same as a stream."""
    shared = {key: answer[key] for key in ("id", "created", "model")}
    shared["object"] = "chat.completion.chunk"
    choice = answer["choices"][0]
    message, reason = choice["message"], choice["finish_reason"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if message.get("reasoning_content"):
        deltas.append({"reasoning_content": message["reasoning_content"]})
    deltas += [{"content": piece} for piece in pieces(message["content"] or "", _CHUNK)]
    if message.get("refusal"):
        deltas.append({"refusal": message["refusal"]})
    for index, call in enumerate(message.get("tool_calls", ())):
        deltas.append({"tool_calls": [{"index": index, **call}]})
    for delta in deltas:
        piece = {"index": 0, "delta": delta, "finish_reason": None}
        yield Event("", {**shared, "choices": [piece]})
    end = {"index": 0, "delta": {}, "finish_reason": reason}
    yield Event("", {**shared, "choices": [end]})
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield Event("", {**shared, "choices": [], "usage": answer["usage"]})
    yield Event("", "[DONE]")


def responses(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses`, each request whole: nothing is stored, so `previous_response_id` has no effect."""
    refused = refusal(server, recorded, "openai_responses", ("model", "input"))
    return _answered(
        server,
        recorded,
        "openai",
        refused,
        items_of,
        response,
        lambda body: named(response_events(body, _CHUNK)),
    )


def count_input(server: ScriptedServer, recorded: Recorded) -> Reply:
    """`POST /v1/responses/input_tokens`: no step of the script."""
    refused = refusal(server, recorded, "openai_responses", ("input",), counting=True)
    if refused is not None:
        return refuse(refused, "openai")
    tokens = count_tokens(recorded.json)
    return Reply(body={"object": "response.input_tokens", "input_tokens": tokens})


def items_of(body: dict[str, Any]) -> Items:
    """The items of this request alone."""
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    return [item for item in items or () if isinstance(item, dict)]


def response(
    server: ScriptedServer, body: dict[str, Any], reply: Answer, tokens: int
) -> dict[str, Any]:
    """The answer as one object."""
    limit, text, reason = body.get("max_output_tokens"), reply.text, reply.stop_reason
    if isinstance(limit, int) and len(text) > limit * 4:
        text, reason = text[: limit * 4], "max_tokens"
    output: Items = []
    if reply.reasoning or isinstance(body.get("reasoning"), dict):
        thought = {"type": "reasoning", "id": server.new_id("rs_"), "summary": []}
        sealed = base64.b64encode(b"thought").decode("ascii")
        output.append({**thought, "encrypted_content": sealed})
    for name, arguments in reply.calls({}):
        ids = {"id": server.new_id("fc_"), "call_id": server.new_id("call_")}
        call = {"type": "function_call", **ids}
        call |= {"arguments": orjson.dumps(arguments).decode(), "status": "completed"}
        space, _, bare = name.rpartition(".")  # names hold no dot: a tool of a namespace
        output.append({**call, "name": bare} | ({"namespace": space} if space else {}))
    if text:
        refused = reply.stop_reason == "refusal"
        part = {"type": "output_text", "text": text, "annotations": []}
        content = [{"type": "refusal", "refusal": text}] if refused else [part]
        message = {"type": "message", "id": server.new_id("msg_"), "role": "assistant"}
        output.append({**message, "status": "completed", "content": content})
    cut = reason in _CUT
    return {
        "id": server.new_id("resp_"),
        "object": "response",
        "created_at": EPOCH_SECONDS,
        "model": body["model"],
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": usage(reply, tokens),
    }


def usage(reply: Answer, tokens: int) -> dict[str, Any]:
    """What the answer says it used."""
    thought = (len(reply.reasoning) + 3) // 4
    output = (len(reply.text) + 3) // 4 + thought
    return {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": tokens + output,
    }


# The server.


_MAX_BODY = 64 * 1024 * 1024  # twice what any API takes: enough to be refused by the rules
_HTML = b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n</html>\r\n"

Route = Callable[[Any, Recorded], Reply]  # the server, as each endpoint knows it, and a request

_DIALECTS = ("openai_chat", "mistral", "deepseek", "local")


class ScriptedServer:
    """Speaks Anthropic's Messages, OpenAI's chat and Responses, and Gemini's `generateContent` on a free loopback port.

    A request that the API would refuse is refused in its words, as far as they are known, with the id of the rule of
    `ullage.legality`, and uses no step of the script: an empty list of tools, calls and results that do not pair, a
    signature that nobody gave out, and whatever else `words.toml` and `server.py` in `testing` list with their sources.
    All others are answered by the next step, in the API's form, plain or streamed.

    Args:
        *steps: `Step`s or names of kinds, in the order of the calls that pass the rules.
        after: What follows the last step.
        enforce: Check the rules at all.
        window: Context window in tokens, by the server's own count (a quarter of the bytes); `None`: that of
            the named model, and none for OpenAI's endpoints.
        dialect: Whose rules `/v1/chat/completions` follows: `openai_chat`, `mistral`, `deepseek`,
            `local`.
        sealed: Refuse Anthropic's thinking with a signature that the test kit did not make.

    Attributes:
        requests: All that came in, with the exact bytes.
        script: The steps; more can be pushed at any time.
        errors: What went wrong in the server itself; empty unless it has a defect.

    Example:
        >>> with ScriptedServer("overloaded", "good", window=50_000) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    _routes: ClassVar[Mapping[str, Route]] = {
        "/v1/messages": create_message,
        "/v1/messages/count_tokens": count_message,
        "/v1/chat/completions": chat,
        "/v1/responses": responses,
        "/v1/responses/input_tokens": count_input,
    }

    def __init__(
        self,
        *steps: Step | str,
        after: Step | str = "good",
        enforce: bool = True,
        window: int | None = None,
        dialect: str = "openai_chat",
        sealed: bool = True,
    ) -> None:
        if dialect not in _DIALECTS:
            raise InvalidPolicy("dialect", dialect, f"must be one of {', '.join(_DIALECTS)}")
        self.script = Script(steps, after=after)
        self.enforce, self.window, self.dialect = enforce, window, dialect
        self.sealed = sealed
        self.signatures: list[str] = []  # of Gemini's calls, as they were given out
        self.requests: list[Recorded] = []
        self.errors: list[Exception] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        self._http: _Server | None = None

    # ---- life ----

    def start(self) -> ScriptedServer:
        """Open the port and serve in background threads."""
        self.closing.clear()
        self._http = _Server(self)
        threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="scripted-server", daemon=True
        ).start()
        return self

    def stop(self) -> None:
        """Close the port; calls that wait are let go."""
        self.closing.set()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def __enter__(self) -> ScriptedServer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Base URL for Anthropic's SDK.

        Raises:
            RuntimeError: The server is not running.
        """
        if self._http is None:
            raise RuntimeError("the scripted server is not running")
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """Base URL for OpenAI's SDK."""
        return f"{self.url}/v1"

    def __repr__(self) -> str:
        place = self.url if self._http is not None else "stopped"
        return f"ScriptedServer({place}, {len(self.requests)} requests, {self.script!r})"

    # ---- what the endpoints use ----

    def answer(self, recorded: Recorded, messages: Sequence[Item], tokens: int) -> Answer:
        """Use the next step."""
        step = self.script.next()
        recorded.step = step.kind
        recorded.fault = step
        return answer(step, [m for m in messages if isinstance(m, dict)], tokens=tokens)

    def new_id(self, prefix: str) -> str:
        """An id that this server has not given out."""
        with self._lock:
            self._count += 1
            return f"{prefix}scripted{self._count:08}"

    def model(self, name: str) -> Reply:
        """`GET /v1/models/NAME`."""
        model = lookup(name)
        limits = {"max_input_tokens": model.context_window, "max_tokens": model.max_output_tokens}
        return Reply(body={"type": "model", "id": name, "display_name": name, **limits})

    def handle(self, recorded: Recorded) -> Reply:
        """The reply to one request."""
        with self._lock:
            self.requests.append(recorded)
        path = recorded.path.partition("?")[0]
        if recorded.method == "GET" and path.startswith("/v1/models/"):
            return self.model(path.rpartition("/")[2])
        route = self._routes.get(path) if recorded.method == "POST" else None
        if "/models/" in path and path.lower().endswith("generatecontent"):
            route = generate_content
        if route is None:
            form = "anthropic" if "anthropic-version" in recorded.headers else "openai"
            return refuse(Failure(404, "not_found_error", f"no such endpoint: {path}"), form)
        try:
            return route(self, recorded)
        except Exception as exc:  # an answer, and not a dropped connection, whatever was sent
            self.errors.append(exc)
            return refuse(Failure(500, "api_error", f"scripted server: {exc!r}"), "anthropic")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, owner: ScriptedServer) -> None:
        self.owner = owner
        self._open: set[Any] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close the connections that clients keep alive too."""
        super().server_close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        if "chunked" in self.headers.get("transfer-encoding", ""):
            self._serve(self._chunked())
        elif length <= _MAX_BODY:
            self._serve(self.rfile.read(length))
        else:
            self.close_connection = True
            self._serve(b"")

    def _chunked(self) -> bytes:
        parts, total = [], 0
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            total += size
            if total > _MAX_BODY:
                self.close_connection = True
                break
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        recorded = Recorded(self.command, self.path, headers, body)
        reply = self.server.owner.handle(recorded)
        step = recorded.fault or Step()
        kind = step.kind
        if kind in ("hang", "slow"):
            self._wait(step)
        if kind in ("hang", "drop", "network_error"):
            self.close_connection = True
        elif kind in ("stall", "cut_stream"):
            self._half(reply, recorded)
            if kind == "stall":
                self._wait(step)
            self.close_connection = True
        elif kind == "html_413":
            self._send(Reply(413, _HTML, kind="text/html"), recorded)
        elif kind == "truncated_json":
            whole = b"".join(reply.chunks())
            content = "application/json" if reply.events is None else "text/event-stream"
            self._send(Reply(body=whole[: len(whole) // 2], kind=content), recorded)
        elif kind == "wrong_type":
            self._send(Reply(body=b"OK", kind="text/plain"), recorded)
        elif kind == "stream_error" and reply.events is None:
            self._send(refuse(failure("overloaded"), "anthropic"), recorded)
        elif kind == "stream_error":  # in the middle of the stream
            self._half(reply, recorded)
            self._piece(Event("error", failure("overloaded").body("anthropic")).encode(), reply)
            self._end(reply)
        else:
            self._send(reply, recorded)

    def _wait(self, step: Step) -> None:
        self.server.owner.closing.wait(step.seconds)

    def _send(self, reply: Reply, recorded: Recorded) -> None:
        self._head(reply, recorded)
        for chunk in reply.chunks():
            self._piece(chunk, reply)
        self._end(reply)

    def _head(self, reply: Reply, recorded: Recorded) -> None:
        streamed = reply.events is not None
        recorded.status = reply.status
        self.send_response(reply.status)
        usual = "text/event-stream" if streamed else "application/json"
        self.send_header("content-type", reply.kind or usual)
        name = self.server.owner.new_id("req_")
        self.send_header("request-id", name)
        self.send_header("x-request-id", name)
        for key, value in reply.headers.items():
            self.send_header(key, value)
        if streamed:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(sum(map(len, reply.chunks()))))
        self.end_headers()

    def _piece(self, chunk: bytes, reply: Reply) -> None:
        if reply.events is not None:
            chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        self.wfile.write(chunk)
        self.wfile.flush()

    def _end(self, reply: Reply) -> None:
        if reply.events is not None:
            self.wfile.write(b"0\r\n\r\n")

    def _half(self, reply: Reply, recorded: Recorded) -> None:
        self._head(reply, recorded)
        chunks = list(reply.chunks())
        if len(chunks) == 1:
            self._piece(chunks[0][: len(chunks[0]) // 2], reply)
        for chunk in chunks[: len(chunks) // 2]:
            self._piece(chunk, reply)
