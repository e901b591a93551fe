"""Every real session: opened, cut at twenty places, compacted, compacted again, resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from tests.oracle.legality import assert_legal
from ullage import _reference
from ullage._engine import core
from ullage._engine.digests import MessageFlag
from ullage.cli.inspect import report_of
from ullage.cli.output import as_json
from ullage.legality import validate
from ullage.providers import SHAPES
from ullage.requests.to_request import rules_model
from ullage.sessions import Session, compact_session, open_session
from ullage.sessions.inspected import inspect_opened

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow,
    # One session was led by a model that no table lists.
    pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning"),
]

CUTS = 20
WINDOW = {"min_tokens": 2_000, "max_tokens": 8_000}
NEXT = {
    "gemini": {"role": "user", "parts": [{"text": "go on"}]},
    "bedrock": {"role": "user", "content": [{"text": "go on"}]},
}
USER = {"role": "user", "content": "go on"}


def calls_of(items: list[Any]) -> set[str]:
    calls = set()
    for item in items:
        content = item.get("message", item).get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") in ("tool_use", "server_tool_use"):
                calls.add(block["id"])
    return calls


def responses(items: list[Any]) -> set[str]:
    messages = (item.get("message", item) for item in items)
    return {each["id"] for each in messages if each.get("role") == "assistant" and each.get("id")}


def assert_sendable(session: Session, provider: str = "anthropic") -> None:
    """What `ullage resume` prints is legal, by both verifiers, as it is or with the user's next message."""
    sent = session.request(provider=provider)
    assert sent.left == ()
    messages = sent.messages + ([NEXT.get(provider, USER)] if sent.awaits_user else [])
    model = rules_model(session.model, provider)
    more = {key: value for key, value in sent.parts.items() if key == "toolConfig"}
    assert_legal(provider, messages, model=model, window=0, **more)
    assert validate(messages, provider=provider, model=model, **more).ok


@pytest.fixture(scope="module")
def opened(corpus_file: Path) -> Session:
    return open_session(corpus_file)


def test_inspected(opened):
    found = report_of(inspect_opened(opened))
    assert found["conversation"]["messages"] == len(opened.messages) > 0
    assert found["window"]["used_tokens"] > 0
    around = found["categories"].get("system prompt and tools", 0)
    of_messages = sum(found["categories"].values()) - around
    assert of_messages <= found["window"]["estimated_messages_tokens"]
    assert around + of_messages <= max(found["window"]["used_tokens"], of_messages)
    assert {level["level"] for level in found["freeable"]} >= {"snip", "microcompact", "summary"}


@pytest.mark.parametrize("provider", SHAPES)
def test_what_resume_prints_can_be_sent(opened, provider):
    assert_sendable(opened, provider)


def test_kept_part_is_whole_at_every_cut(opened):
    items = list(opened.items)
    for cut in sorted({len(items) * at // CUTS for at in range(1, CUTS + 1)}):
        part = items[:cut]
        ledger = core.Ledger(None, part)
        kept = ledger.keep_window(len(part), **WINDOW)
        twin = _reference.Ledger(None, part).keep_window(len(part), **WINDOW)
        assert tuple(kept) == tuple(twin)
        flags = [ledger.message(at).flags for at in range(len(part))]
        floor = max((at + 1 for at, f in enumerate(flags) if f & MessageFlag.BOUNDARY), default=0)
        assert kept.start >= min(floor, len(part))
        calls, orphans = calls_of(part[kept.start :]), set(kept.orphans)
        for at in range(kept.start, len(part)):
            for number, block in enumerate(ledger.blocks(at)):
                if block.kind == 2 and block.id and (at, number) not in orphans:
                    assert ledger.string(block.id) in calls
        assert not responses(part[kept.start :]) & responses(part[floor : kept.start])


def test_compacted_twice_and_resumed(opened, tmp_path):
    before = opened.path.read_bytes()
    path, kept = tmp_path / "once.jsonl", 2_000
    session, sizes = opened, []
    for name in ("once.jsonl", "twice.jsonl"):
        path = tmp_path / name
        done = compact_session(session, output=path, keep=kept)
        if not done.result.compacted:
            assert done.result.reason
            assert not path.exists()
            break
        session, kept = open_session(path), 0
        # The same bytes: what the compaction handed out is what a reader of the file finds.
        assert as_json(session.messages) == as_json(done.messages)
        own = opened.format in ("claude_code", "codex", "pi")
        assert session.format == done.format == (opened.format if own else "claude_code")
        # What was strange in the file still is; Claude Code's format holds what was made of it.
        assert session.warnings == (opened.warnings if own else ())
        assert '"foreign"' not in path.read_text(encoding="utf-8")
        assert_sendable(session)
        counts = done.result.report
        sizes += [counts.tokens_before, counts.tokens_after]
    assert sizes == sorted(sizes, reverse=True)
    assert opened.path.read_bytes() == before
