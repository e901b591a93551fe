"""A conversation without a provider's form, and the forms that it takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ullage.messages import SystemPrompt
from ullage.testing.generator import pdf, png, sign_thinking

__all__ = ["FORMS", "Exchange", "Round", "Talk", "Turn"]

Messages = list[dict[str, Any]]


class Exchange(NamedTuple):
    """A tool call and its answer. `output` may be a kind of media in angle brackets."""

    tool: str
    input: dict[str, Any]
    output: str
    failed: bool = False


class Round(NamedTuple):
    """One response with calls, and what comes back."""

    exchanges: tuple[Exchange, ...]
    thinking: str | None = None  # None: no thinking; "": thinking that is not shown
    say: str = ""
    after: str = ""  # what the user types while the calls run
    search: str = ""  # words of a search that the provider itself runs


class Turn(NamedTuple):
    """A user input and the work on it."""

    words: str
    rounds: tuple[Round, ...] = ()
    answer: str = "ok"
    media: str = ""  # "image", "document" or nothing
    thinking: str | None = None
    system: str = ""  # a system message right after the user's words


class Talk(NamedTuple):
    """Turns; `last` are the newest words, empty: the talk ends with results, if it can."""

    turns: tuple[Turn, ...]
    last: str = "go on"
    marks: tuple[bool, ...] = ()  # cache markers on the first text blocks, in turn
    split: bool = False  # neighbours of one role are left apart


def _media_block(kind: str) -> dict[str, Any]:
    data, media_type = (
        (pdf(1), "application/pdf") if kind == "document" else (png(4, 4), "image/png")
    )
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": encoded}}


def _ids(talk: Talk, make: Callable[[int], str]) -> dict[tuple[int, int, int], str]:
    """A name for each call, by its turn, round and place."""
    places = [
        (t, r, e)
        for t, turn in enumerate(talk.turns)
        for r, round_ in enumerate(turn.rounds)
        for e, _ in enumerate(round_.exchanges)
    ]
    return {place: make(number) for number, place in enumerate(places)}


def _loop_ends(talk: Talk) -> bool:
    return not talk.last and bool(talk.turns) and bool(talk.turns[-1].rounds)


def _thought(text: str | None) -> Messages:
    if text is None:
        return []
    if text == "<redacted>":
        return [{"type": "redacted_thinking", "data": ""}]
    return [{"type": "thinking", "thinking": text, "signature": ""}]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def anthropic(
    talk: Talk,
    *,
    model: str = "claude-opus-5-5",
    system: SystemPrompt | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> Messages:
    """Anthropic's messages; thinking is signed for this model, system prompt and tools."""
    ids, out = _ids(talk, lambda n: f"toolu_{n:02}"), Messages()
    for t, turn in enumerate(talk.turns):
        words = [_media_block(turn.media), _text(turn.words)] if turn.media else turn.words
        out.append({"role": "user", "content": words})
        if turn.system:
            out.append({"role": "system", "content": turn.system})
        for r, round_ in enumerate(turn.rounds):
            names = [ids[t, r, e] for e in range(len(round_.exchanges))]
            out += _anthropic_round(round_, names, talk.split, f"srvtoolu_{t}_{r}")
        if not (_loop_ends(talk) and turn is talk.turns[-1]):
            content = [*_thought(turn.thinking), _text(turn.answer)]
            out.append({"role": "assistant", "content": content})
    if not _loop_ends(talk):
        out.append({"role": "user", "content": talk.last or "go on"})
    return sign_thinking(_marked(out, talk.marks), model=model, system=system, tools=tools)


def _anthropic_round(round_: Round, names: list[str], split: bool, search: str) -> Messages:
    content = [*_thought(round_.thinking)]
    if round_.search:
        given = {"query": round_.search}
        content.append(
            {"type": "server_tool_use", "id": search, "name": "web_search", "input": given}
        )
        found = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
        content.append({"type": "web_search_tool_result", "tool_use_id": search, "content": found})
    content += [_text(round_.say)] if round_.say else []
    results = []
    for name, exchange in zip(names, round_.exchanges, strict=True):
        content.append(
            {"type": "tool_use", "id": name, "name": exchange.tool, "input": exchange.input}
        )
        results.append(_result(name, exchange))
    after = [_text(round_.after)] if round_.after else []
    answer = {"role": "assistant", "content": content}
    if not split or len(results) + len(after) < 2:
        return [answer, {"role": "user", "content": [*results, *after]}]
    return [answer, *({"role": "user", "content": [block]} for block in (*results, *after))]


def _result(name: str, exchange: Exchange) -> dict[str, Any]:
    output: Any = exchange.output
    if output in ("<image>", "<document>"):
        output = [_media_block(output[1:-1]), _text("see above")]
    failed = {"is_error": True} if exchange.failed else {}
    return {"type": "tool_result", "tool_use_id": name, "content": output, **failed}


def _marked(messages: Messages, marks: tuple[bool, ...]) -> Messages:
    """Cache markers on the texts of the first messages, where `marks` says so."""
    out = list(messages)
    for index, (message, mark) in enumerate(zip(messages, marks, strict=False)):
        content = message["content"]
        if mark and message["role"] == "user":
            blocks = [_text(content)] if isinstance(content, str) else list(content)
            blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
            out[index] = {**message, "content": blocks}
    return out


def _calls(round_: Round, names: list[str]) -> Messages:
    return [
        {
            "id": name,
            "type": "function",
            "function": {"name": e.tool, "arguments": json.dumps(e.input)},
        }
        for name, e in zip(names, round_.exchanges, strict=True)
    ]


def _plain(exchange: Exchange) -> str:
    return "see above" if exchange.output.startswith("<") else exchange.output


def _chat(talk: Talk, make: Callable[[int], str], *, reasoning: bool, bridge: str) -> Messages:
    """OpenAI's chat form. `bridge`: an assistant's line between results and a user's words."""
    ids, out = _ids(talk, make), Messages()
    for t, turn in enumerate(talk.turns):
        out.append({"role": "user", "content": turn.words})
        for r, round_ in enumerate(turn.rounds):
            names = [ids[t, r, e] for e in range(len(round_.exchanges))]
            thought = {"reasoning_content": round_.thinking or ""} if reasoning else {}
            said = {"role": "assistant", "content": round_.say or None, **thought}
            out.append({**said, "tool_calls": _calls(round_, names)})
            for name, exchange in zip(names, round_.exchanges, strict=True):
                out.append({"role": "tool", "tool_call_id": name, "content": _plain(exchange)})
            if round_.after:
                out += [{"role": "assistant", "content": bridge}] if bridge else []
                out.append({"role": "user", "content": round_.after})
        if not (_loop_ends(talk) and turn is talk.turns[-1]):
            out.append({"role": "assistant", "content": turn.answer})
    if not _loop_ends(talk):
        out.append({"role": "user", "content": talk.last or "go on"})
    return out


def openai_chat(talk: Talk) -> Messages:
    """OpenAI's chat messages."""
    return _chat(talk, lambda n: f"call_{n:02}", reasoning=False, bridge="")


def mistral(talk: Talk) -> Messages:
    """Mistral's: ids of nine letters and digits, no user's words right after results."""
    return _chat(talk, lambda n: f"call{n:05}", reasoning=False, bridge="I see.")


def deepseek(talk: Talk) -> Messages:
    """DeepSeek's, in thinking mode."""
    return _chat(talk, lambda n: f"call_{n:02}", reasoning=True, bridge="")


def local(talk: Talk) -> Messages:
    """What strict templates take: roles alternate."""
    return _chat(talk, lambda n: f"call_{n:02}", reasoning=False, bridge="I see.")


def openai_responses(talk: Talk) -> Messages:
    """Items of the Responses form; reasoning is encrypted and stands before its item."""
    ids, out = _ids(talk, lambda n: f"call_{n:02}"), Messages()
    for t, turn in enumerate(talk.turns):
        out.append({"role": "user", "content": turn.words})
        for r, round_ in enumerate(turn.rounds):
            if round_.thinking is not None:
                name = f"rs_{t}_{r}"
                out.append(
                    {"type": "reasoning", "id": name, "summary": [], "encrypted_content": "ZQ=="}
                )
            for e, exchange in enumerate(round_.exchanges):
                call = {"type": "function_call", "call_id": ids[t, r, e], "name": exchange.tool}
                out.append({**call, "arguments": json.dumps(exchange.input)})
            for e, exchange in enumerate(round_.exchanges):
                output = {"type": "function_call_output", "call_id": ids[t, r, e]}
                out.append({**output, "output": _plain(exchange)})
        if not (_loop_ends(talk) and turn is talk.turns[-1]):
            content = [{"type": "output_text", "text": turn.answer, "annotations": []}]
            out.append(
                {"type": "message", "role": "assistant", "id": f"msg_{t}", "content": content}
            )
    if not _loop_ends(talk):
        out.append({"role": "user", "content": talk.last or "go on"})
    return out


def gemini(talk: Talk) -> Messages:
    """Gemini's contents; the first call of each step is signed."""
    out = Messages()
    for turn in talk.turns:
        out.append({"role": "user", "parts": [{"text": turn.words}]})
        for round_ in turn.rounds:
            calls: Messages = [
                {"functionCall": {"name": e.tool, "args": e.input}} for e in round_.exchanges
            ]
            calls[0]["thoughtSignature"] = "c2lnbmVk"
            said = [{"text": round_.say}] if round_.say else []
            out.append({"role": "model", "parts": [*said, *calls]})
            answers = [
                {"functionResponse": {"name": e.tool, "response": {"output": _plain(e)}}}
                for e in round_.exchanges
            ]
            out.append({"role": "user", "parts": answers})
        if not (_loop_ends(talk) and turn is talk.turns[-1]):
            out.append({"role": "model", "parts": [{"text": turn.answer}]})
    if not _loop_ends(talk):
        out.append({"role": "user", "parts": [{"text": talk.last or "go on"}]})
    return out


def bedrock(talk: Talk) -> Messages:
    """Bedrock Converse's messages."""
    ids, out = _ids(talk, lambda n: f"tooluse_{n:02}"), Messages()
    for t, turn in enumerate(talk.turns):
        out.append({"role": "user", "content": [{"text": turn.words}]})
        for r, round_ in enumerate(turn.rounds):
            said = [{"text": round_.say}] if round_.say else []
            calls, results = Messages(), Messages()
            for e, exchange in enumerate(round_.exchanges):
                use = {"toolUseId": ids[t, r, e]}
                calls.append({"toolUse": {**use, "name": exchange.tool, "input": exchange.input}})
                status = "error" if exchange.failed else "success"
                content = [{"text": _plain(exchange) or "(no output)"}]
                results.append({"toolResult": {**use, "content": content, "status": status}})
            after = [{"text": round_.after}] if round_.after else []
            out.append({"role": "assistant", "content": [*said, *calls]})
            out.append({"role": "user", "content": [*results, *after]})
        if not (_loop_ends(talk) and turn is talk.turns[-1]):
            out.append({"role": "assistant", "content": [{"text": turn.answer}]})
    if not _loop_ends(talk):
        out.append({"role": "user", "content": [{"text": talk.last or "go on"}]})
    return out


FORMS: Mapping[str, Callable[..., Messages]] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "bedrock": bedrock,
    "mistral": mistral,
    "deepseek": deepseek,
    "local": local,
}
"""How a talk looks to each provider."""
