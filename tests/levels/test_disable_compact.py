"""`DISABLE_COMPACT` turns every way of compacting off; source names and variables of Claude Code are known."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ullage import (
    ContextManager,
    Policy,
    TranscriptLog,
    acompact,
    compact,
    compact_session,
    open_session,
)
from ullage.counting.window import WindowSettings
from ullage.exceptions import ContextTooLarge
from ullage.testing import conversation

MODEL = "claude-opus-4-5"


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISABLE_COMPACT", "yes")


def talk(tokens: int = 40_000) -> list[dict[str, Any]]:
    return conversation(seed=3, tokens=tokens)


def filled(tokens: int, **more: Any) -> ContextManager:
    manager = ContextManager(model=MODEL, **more)
    for message in talk(tokens):
        manager.add(message)
    return manager


def logged(folder: Path) -> Path:
    path = folder / "s.jsonl"
    with TranscriptLog.open(path) as log:
        log.extend(talk())
    return path


ENTRIES: dict[str, Callable[[Path], Any]] = {
    "compact": lambda folder: compact(talk(), model=MODEL),
    "compact, a part": lambda folder: compact(talk(), model=MODEL, direction="up_to", at=20),
    "acompact": lambda folder: asyncio.run(acompact(talk(), model=MODEL)),
    "a session": lambda folder: (
        compact_session(open_session(logged(folder)), output=folder / "o.jsonl").result
    ),
    "manager": lambda folder: filled(40_000).compact(),
    "manager, asynchronous": lambda folder: asyncio.run(filled(40_000).acompact()),
}


@pytest.mark.usefixtures("off")
@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES.keys())
def test_every_way_in_is_blocked(enter: Callable[[Path], Any], tmp_path: Path) -> None:
    result = enter(tmp_path)
    assert (result.outcome.value, result.reason) == ("blocked", "disabled")
    assert "DISABLE_COMPACT" in result.user_notice
    assert not (tmp_path / "o.jsonl").exists()


@pytest.mark.usefixtures("off")
@pytest.mark.parametrize(
    "changes",
    [{}, {"collapse.enabled": True}, {"auto.background_percent": 10}, {"auto.start_percent": 5}],
)
def test_no_request_is_compacted_folded_collapsed_or_cut(changes: dict[str, Any]) -> None:
    policy = Policy.buffered().change(
        {"snip.enabled": False, "micro.by_supersession": False, **changes}
    )
    manager = filled(90_000, policy=policy)
    assert manager.prepare().reports == ()
    assert manager.decide().code == "off"
    for message in talk(90_000):
        manager.add(message)
    with pytest.raises(ContextTooLarge) as caught:
        manager.prepare()
    assert "DISABLE_COMPACT" in caught.value.hint


@pytest.mark.usefixtures("off")
def test_nor_is_the_provider_asked_to_compact() -> None:
    policy = Policy.buffered().change({"micro.provider_compact_tokens": 100_000})
    assert filled(10_000, policy=policy).prepare().params == {}


@pytest.mark.usefixtures("off")
def test_the_command_line_writes_nothing(tmp_path: Path) -> None:
    path = logged(tmp_path)
    before = path.read_bytes()
    run = subprocess.run(
        [sys.executable, "-m", "ullage", "compact", str(path), "-o", str(tmp_path / "o.jsonl")],
        capture_output=True,
        timeout=60,
    )
    assert not (tmp_path / "o.jsonl").exists()
    assert path.read_bytes() == before
    assert b"DISABLE_COMPACT" in run.stdout + run.stderr


@pytest.mark.parametrize("source", ["compact", "session_memory", "collapse", "marble_origami"])
def test_who_writes_summaries_is_not_compacted(source: str) -> None:
    policy = Policy.buffered().change({"auto.start_percent": 5})
    assert filled(40_000, source=source, policy=policy).decide().code == "source"


def test_variables_and_settings_of_claude_code_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "150000")
    monkeypatch.setenv("CLAUDE_CONTEXT_COLLAPSE", "1")
    manager = ContextManager(model=MODEL)
    assert manager.window.context == 150_000
    assert manager.decide().code == "collapse"
    found = WindowSettings.from_env(
        {"autoCompactWindow": 120_000, "autoCompactEnabled": False, "env": {"DISABLE_COMPACT": "1"}}
    )
    assert (found.auto_compact_window, found.max_context_tokens) == (120_000, 150_000)
    assert found.disable_auto_compact
    assert found.disable_compact
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "110000")
    assert WindowSettings.from_env({"autoCompactWindow": 120_000}).auto_compact_window == 110_000
    assert WindowSettings.from_env({"autoCompactWindow": "much"}).ignored == ()


def test_collapse_can_be_turned_off_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONTEXT_COLLAPSE", "0")
    policy = Policy.buffered().change({"collapse.enabled": True})
    assert not ContextManager(model=MODEL, policy=policy).policy.collapse.enabled
