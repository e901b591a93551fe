"""The sessions of the comparison: made ones with planted facts, and contexts of real ones at the moment when they were nearly full."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benches.fidelity.cuts import cuts
from benches.fidelity.measures import needs
from benches.peers.context import TOKENS, Messages

from ullage import outgoing, validate
from ullage.counting import count_tokens_exact, strip_media
from ullage.exceptions import UllageError
from ullage.facts import collect
from ullage.report.session_figures import facts_in
from ullage.testing import scenario

SEEDS = range(1, 7)
"""Of the made sessions."""
FULL = "80 %"
"""Which cuts of a real session are taken: where its prompt first reached 160,000 tokens."""

NOT_TEXT = frozenset(
    {"type", "id", "role", "tool_use_id", "tool_call_id", "call_id", "toolUseId", "status"}
)


@dataclass(frozen=True)
class Talk:
    """A context in the provider's forms, with the texts that a good smaller context still holds.

    Attributes:
        ahead: Names that the agent's next 20 tool calls use and that stand in this context; only of real sessions.
    """

    name: str
    forms: dict[str, Messages]
    facts: tuple[str, ...]
    ahead: tuple[str, ...] = ()


def made() -> Iterator[Talk]:
    """Generated sessions with planted facts."""
    for seed in SEEDS:
        found = scenario(seed, tokens=TOKENS)
        truth = found.truth
        planted = (
            *truth.user_messages, *truth.files_edited, *truth.files_written, *truth.errors,
            *truth.decisions, *truth.pending_todos, *truth.instructions, *truth.urls,
        )  # fmt: skip
        yield _talk(f"made {seed}", found.messages, planted)


def real(folder: Path, most: int) -> Iterator[Talk]:
    """Nearly full contexts of recorded sessions, one for each session, evenly over the folder if there are more than `most`."""
    found = {cut.session: cut for cut in cuts(folder) if cut.kind == FULL}
    chosen = list(found.values())
    if most and len(chosen) > most:
        chosen = [chosen[at * len(chosen) // most] for at in range(most)]
    for cut in chosen:
        try:
            messages = _plain(cut.before)
            facts = facts_in(collect(messages)).values()
            named = needs(cut)
            yield _talk(cut.session, messages, (text for each in facts for text in each), named)
        except (UllageError, AssertionError) as error:
            print(f"left out: {cut.session}: {type(error).__name__}: {error}", file=sys.stderr)


def _plain(items: Messages) -> Messages:
    """Repaired, without thinking and pictures, which not every form has a word for."""
    messages = [
        {**message, "content": [each for each in blocks if "thinking" not in str(each.get("type"))]}
        for message in outgoing(strip_media(items), provider="anthropic").parts["messages"]
        for blocks in [_blocks(message["content"])]
    ]
    messages = [message for message in messages if message["content"]]
    return list(outgoing(messages, provider="anthropic").parts["messages"])


def _blocks(content: Any) -> Messages:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _talk(name: str, messages: Messages, facts: Iterable[str], ahead: Iterable[str] = ()) -> Talk:
    forms = {"anthropic": messages}
    for form in ("bedrock", "openai_chat", "openai_responses"):
        sent = outgoing(messages, provider=form)
        forms[form] = list(sent.parts[sent.list_key])
    for form, items in forms.items():
        assert legal(items, form), (name, form)
    return Talk(name, forms, tuple(dict.fromkeys(facts)), tuple(sorted(ahead)))


def legal(items: Messages, form: str) -> bool:
    """Whether a provider would take it; that Bedrock wants the tools' definitions too is the caller's business."""
    return validate(items, provider=form, skip={"B03"}).ok


def saved(talks: Iterable[Talk], path: Path) -> None:
    """For another interpreter to read."""
    path.write_text(json.dumps([asdict(talk) for talk in talks]), encoding="utf-8")


def loaded(path: Path) -> list[Talk]:
    return [Talk(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


# ---- what a context holds ----------------------------------------------------------------------


@cache
def _count(text: str) -> int:
    return count_tokens_exact(text)


def size_of(value: Any) -> int:
    """Exact tokens of the texts, names and arguments (o200k_base): not of the JSON around them, which each form has more or less of."""
    if isinstance(value, str):
        return _count(value)
    if isinstance(value, list):
        return sum(map(size_of, value))
    if not isinstance(value, dict):
        return 0
    return sum(
        _count(json.dumps(inner, ensure_ascii=False))
        if key == "input" and isinstance(inner, dict)
        else size_of(inner)
        for key, inner in value.items()
        if key not in NOT_TEXT
    )


def held(wanted: Iterable[str], context: Messages) -> float | None:
    """The share of the texts that stand in a context, arguments of calls read as JSON; `None`: nothing is wanted."""
    text = "\n".join(_texts(context))
    found = [each in text for each in wanted]
    return sum(found) / len(found) if found else None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value[:1] in "{[":
            yield from _within(value)
        return
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _texts(each)


def _within(text: str) -> Iterator[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return
    if not isinstance(found, str):
        yield from _texts(found)
