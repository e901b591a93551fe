"""Every real session: opened, cut at twenty places, compacted, compacted again, resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ullage import _reference
from ullage._engine import core
from ullage.sessions import Session, compact_session, open_session
from ullage.testing import assert_legal

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

CUTS = 20
WINDOW = {"min_tokens": 2_000, "max_tokens": 8_000}


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


@pytest.fixture(scope="module")
def opened(corpus_file: Path) -> Session:
    return open_session(corpus_file)


def test_kept_part_is_whole_at_every_cut(opened):
    items = list(opened.items)
    for cut in sorted({len(items) * at // CUTS for at in range(1, CUTS + 1)}):
        part = items[:cut]
        ledger = core.Ledger(None, part)
        kept = ledger.keep_window(len(part), **WINDOW)
        twin = _reference.Ledger(None, part).keep_window(len(part), **WINDOW)
        assert tuple(kept) == tuple(twin)
        boundary = ledger.last_boundary()
        floor = 0 if boundary is None else boundary + 1
        assert kept.start >= min(floor, len(part))
        calls, orphans = calls_of(part[kept.start :]), set(kept.orphans)
        for at in range(kept.start, len(part)):
            for number, block in enumerate(ledger.blocks(at)):
                if block.kind == 2 and block.id and (at, number) not in orphans:
                    assert ledger.string(block.id) in calls
        assert not responses(part[kept.start :]) & responses(part[floor : kept.start])


def test_compacted_twice_and_resumed(opened, tmp_path):
    first = compact_session(opened, output=tmp_path / "once.jsonl", keep=2_000)
    if not first.result.compacted:
        assert first.result.reason
        return
    assert_legal("anthropic", first.messages, model="claude-opus-4-5")
    again = open_session(tmp_path / "once.jsonl")
    assert again.messages == first.messages
    second = compact_session(again, output=tmp_path / "twice.jsonl", keep=0)
    if second.result.compacted:
        assert open_session(tmp_path / "twice.jsonl").messages == second.messages
        assert second.result.report.tokens_after < second.result.report.tokens_before
