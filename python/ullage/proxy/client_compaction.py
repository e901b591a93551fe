"""A client's own compaction: recognised by documented marks, and answered without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ullage.compaction import compact
from ullage.compaction.summary_repair import repair
from ullage.exceptions import UllageError
from ullage.facts import collect
from ullage.proxy.client_calls import ClientCall
from ullage.proxy.handed_out import item_of, opened
from ullage.summarizers.extractive import DEFAULT_TOKENS, MIN_TOKENS, render
from ullage.summarizers.handed_ledger import without_ledger

__all__ = [
    "AskedCompaction",
    "asked_compaction",
    "completed_text",
    "extractive_items",
    "extractive_text",
    "within",
]

REPAIR_TOKENS = 4_000
"""Most that is added to a model's summary, in UTF-8 bytes / 4: about a summary's own length."""

_MARKS = {"messages": b"summary of the conversation so far", "responses": b'"compaction_trigger"'}
"""By call: what stands in the bytes of every one to be recognised. A search in a megabyte costs 0.3 ms, so no other is made."""

_OPENINGS = ("CRITICAL: Respond with TEXT ONLY", "Your task is to create a detailed summary")
_PHRASES = ("create a detailed summary of the conversation so far", "<analysis>", "<summary>")
"""Claude Code's request: how the text begins, and what is in it. Parts of it, such as the recent messages only, are not ours to answer."""

_INSTRUCTIONS = re.compile(r"\nAdditional Instructions:\n(.*?)(?:\n\nREMINDER:|\Z)", re.DOTALL)

Client = Literal["claude_code", "codex_compact", "codex_trigger"]


@dataclass(frozen=True, slots=True)
class AskedCompaction:
    """What a client wants to be compacted.

    Attributes:
        client: Who asks, and in which way the answer is expected.
        items: The conversation, without the request for the summary.
        instructions: What the user wants the summary to focus on, without the ledger that Ullage's own hook added; empty: nothing.
    """

    client: Client
    items: Sequence[Mapping[str, Any]]
    instructions: str = ""


def asked_compaction(call: ClientCall) -> AskedCompaction | None:
    """The compaction that a call asks for; `None`: it asks for something else."""
    kind = call.endpoint.kind
    if kind == "compact":
        return None if call.items is None else AskedCompaction("codex_compact", _plain(call.items))
    mark = _MARKS.get(kind)
    if mark is None or mark not in call.raw or call.items is None:
        return None
    last = call.items[-1]
    if kind == "messages":
        return _of_claude_code(call)
    asked = isinstance(last, Mapping) and last.get("type") == "compaction_trigger"
    if not asked or len(call.items) < 2:
        return None
    return AskedCompaction("codex_trigger", _plain(call.items[:-1]))


def _plain(items: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    return opened(items) or items


def _of_claude_code(call: ClientCall) -> AskedCompaction | None:
    given = call.items or [None]
    before = given[:-1]
    text, rest = _split(given[-1])
    if not text.startswith(_OPENINGS) or any(phrase not in text for phrase in _PHRASES):
        return None
    found = _INSTRUCTIONS.search(text)
    items = [*before, *([] if rest is None else [rest])]
    asked = without_ledger(found[1]) if found else ""
    return AskedCompaction("claude_code", items, asked) if items else None


def _split(message: object) -> tuple[str, Mapping[str, Any] | None]:
    """The last text of a user message, and the message without it; `None`: nothing is left of it."""
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return "", None
    content = message.get("content")
    if isinstance(content, str):
        return content.strip(), None
    blocks = content if isinstance(content, list) else []
    last = blocks[-1] if blocks else None
    if not isinstance(last, Mapping) or last.get("type") != "text":
        return "", None
    rest = blocks[:-1]
    return str(last.get("text", "")).strip(), {**message, "content": rest} if rest else None


# ---- answers ---------------------------------------------------------------------------------


def extractive_items(asked: AskedCompaction, model: str) -> list[dict[str, Any]] | None:
    """What Codex is given: one item that stands for the compacted conversation; `None`: nothing could be compacted."""
    try:
        result = compact(asked.items, model=model or None, provider="openai_responses", keep=0)
    except UllageError:
        return None
    if not result.compacted:
        return None
    return [item_of([dict(item) for item in result.messages])]


def extractive_text(asked: AskedCompaction, *, max_tokens: int | None = None) -> str | None:
    """What Claude Code is given: a summary between its tags; `None`: the messages cannot be read.

    Args:
        asked: The conversation.
        max_tokens: Most output that the client asked for; `None`: no limit but the summarizer's own.
    """
    try:
        facts = collect(asked.items)
    except UllageError:
        return None
    room = max(MIN_TOKENS, min(DEFAULT_TOKENS, max_tokens or DEFAULT_TOKENS))
    return within(render(facts, tokens=room, instructions=asked.instructions))


def completed_text(asked: AskedCompaction, summary: str) -> str:
    """A model's summary with what it lost of the user's messages, files, commands and names, inside of its tags."""
    lost = repair(collect(asked.items), summary, tokens=REPAIR_TOKENS).text
    if not lost:
        return summary
    before, tag, after = summary.rpartition("</summary>")
    if not tag:
        return f"{summary}\n\n{_safe(lost)}"
    return f"{before.rstrip()}\n\n{_safe(lost)}\n{tag}{after}"


def within(summary: str) -> str:
    """A summary between the client's tags."""
    return f"<summary>\n{_safe(summary.strip())}\n</summary>"


def _safe(text: str) -> str:
    """Copies of the client's tags in a text cannot begin or end anything."""
    return re.sub(r"<(/?)(summary|analysis)>", r"<\1 \2>", text)
