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
from ullage.facts.sections import CLOSING
from ullage.facts.whose_words import is_standing
from ullage.proxy.client_calls import ClientCall
from ullage.summarizers.extractive import DEFAULT_TOKENS, MIN_TOKENS, render
from ullage.summarizers.handed_ledger import without_ledger

__all__ = [
    "AskedCompaction",
    "asked_compaction",
    "compacted_messages",
    "completed_text",
    "extractive_text",
    "within",
]

REPAIR_TOKENS = 4_000
"""Most that is added to a model's summary, in UTF-8 bytes / 4: about a summary's own length."""

_MARKS = {
    "messages": (b"summary of the conversation so far",),
    "responses": (b'"compaction_trigger"', b"CONTEXT CHECKPOINT COMPACTION"),
}
"""By call: what stands in the bytes of every one to be recognised. A search in a megabyte costs 0.3 ms, so no other is made."""

_OPENINGS = ("CRITICAL: Respond with TEXT ONLY", "Your task is to create a detailed summary")
_PHRASES = ("create a detailed summary of the conversation so far", "<analysis>", "<summary>")
"""Claude Code's request: how the text begins, and what is in it. Parts of it, such as the recent messages only, are not ours to answer."""

_INSTRUCTIONS = re.compile(r"\nAdditional Instructions:\n(.*?)(?:\n\nREMINDER:|\Z)", re.DOTALL)

_CODEX_OPENING = (
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM"
)
"""Codex's request for a summary where its provider is not named "OpenAI"; it offers no tools then."""

Client = Literal["claude_code", "codex_compact", "codex_trigger", "codex_prompt"]


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
        return None if call.items is None else AskedCompaction("codex_compact", call.items)
    marks = _MARKS.get(kind, ())
    if not any(mark in call.raw for mark in marks) or call.items is None:
        return None
    return _of_claude_code(call) if kind == "messages" else _of_codex(call, call.items)


def _of_codex(call: ClientCall, items: Sequence[Any]) -> AskedCompaction | None:
    before, last = items[:-1], items[-1]
    if not before or not isinstance(last, Mapping):
        return None
    if last.get("type") == "compaction_trigger":
        return AskedCompaction("codex_trigger", before)
    asked = _split(last, "input_text")[0].startswith(_CODEX_OPENING)
    if not asked or (call.body or {}).get("tools"):
        return None
    # Codex sends its own instructions again after the summary: they have no place in it.
    own = ("system", "developer")
    said = [each for each in before if isinstance(each, dict) and each.get("role") not in own]
    return AskedCompaction("codex_prompt", said) if said else None


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


def _split(message: object, kind: str = "text") -> tuple[str, Mapping[str, Any] | None]:
    """The last text of a user message, and the message without it; `None`: nothing is left of it."""
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return "", None
    content = message.get("content")
    if isinstance(content, str):
        return content.strip(), None
    blocks = content if isinstance(content, list) else []
    last = blocks[-1] if blocks else None
    if not isinstance(last, Mapping) or last.get("type") != kind:
        return "", None
    rest = blocks[:-1]
    return str(last.get("text", "")).strip(), {**message, "content": rest} if rest else None


# ---- answers ---------------------------------------------------------------------------------


def compacted_messages(asked: AskedCompaction, model: str) -> list[dict[str, Any]] | None:
    """What an item for Codex stands for: the compacted conversation; `None`: nothing could be compacted."""
    try:
        result = compact(asked.items, model=model or None, provider="openai_responses", keep=0)
    except UllageError:
        return None
    if not result.compacted:
        return None
    # Codex puts its instructions in again by itself.
    return [dict(item) for item in result.messages if not is_standing(item)]


def extractive_text(asked: AskedCompaction, *, max_tokens: int | None = None) -> str | None:
    """A summary as text, for Claude Code between its tags; `None`: the messages cannot be read.

    Args:
        asked: The conversation.
        max_tokens: Most output that the client asked for; `None`: no limit but the summarizer's own.
    """
    try:
        facts = collect(asked.items)
    except UllageError:
        return None
    room = max(MIN_TOKENS, min(DEFAULT_TOKENS, max_tokens or DEFAULT_TOKENS))
    text = render(facts, tokens=room, instructions=asked.instructions)
    return within(text) if asked.client == "claude_code" else text.strip()


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
    """A summary between the client's tags, with its end mark: the client's own words follow it in its next request."""
    return f"<summary>\n{_safe(summary.strip())}\n\n{CLOSING}\n</summary>"


def _safe(text: str) -> str:
    """Copies of the client's tags in a text cannot begin or end anything."""
    return re.sub(r"<(/?)(summary|analysis)>", r"<\1 \2>", text)
