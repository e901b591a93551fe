"""A compaction where a fold, a collapse or a truncation was before reads what their texts stand for, not the texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit import result, said, use, user
from tests.oracle.legality import assert_legal
from ullage import ullage_check as check
from ullage.levels.fold import RECORD_HEAD
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.testing import ScriptedSummarizer

MODEL = "gpt-4o"

_OFF = {"auto.enabled": False}
LEVELS: dict[str, tuple[int, dict[str, Any]]] = {
    "fold": (8_000, _OFF),
    "collapse": (24_000, {**_OFF, "collapse.enabled": True}),
    "truncate": (8_000, _OFF),
}

pytestmark = pytest.mark.both_engines


def rules() -> list[str]:
    return [f"Never touch file number {n}, always ask me first." for n in range(0, 48, 6)]


def session(level: str, path: Path | None = None, **more: Any) -> tuple[ContextManager, set[str]]:
    """A session in which a level has acted on the beginning, and the levels that acted."""
    window, changes = LEVELS[level]
    manager = ContextManager(
        model=MODEL,
        context_window=window,
        policy=Policy().change(changes),
        log=path,
        record=path is not None,
        **more,
    )
    acted = set[str]()
    for n in range(48):
        rule = [f"Never touch file number {n}, always ask me first."] if n % 6 == 0 else []
        manager.add(user("\n\n".join([*rule, f"Look at part {n}."])))
        manager.add(said([use(f"t{n}", "Bash", command=f"cat src/part{n}.py")]))
        rows = "\n".join(f"line {at} of part {n} is {at * n}" for at in range(50))
        manager.add(user([result(f"t{n}", rows)]))
        manager.add(said(f"Part {n} returns {n * 7}."))
        acted |= {report.stage for report in manager.prepare().reports}
        if level == "truncate" and n == 20:
            acted |= {report.stage for report in truncated(manager)}
    manager.add(user("Go on."))
    manager.prepare()
    return manager, acted


def truncated(manager: ContextManager) -> Any:
    """What a refusal leads to where all but the last step was tried."""
    manager.machine.recovered = manager.machine.requests
    manager.machine.steps_tried = ["collapse", "compact", "fold"]
    error = "prompt is too long: 12000 tokens > 8000 maximum"
    return manager.on_overflow(ValueError(error)).reports


def text_of(messages: Any) -> str:
    return "\n".join(str(each["content"]) for each in messages)


@pytest.mark.parametrize("level", LEVELS)
def test_the_words_that_a_text_of_a_level_stands_for_are_in_the_summary(
    tmp_path: Path, level: str
) -> None:
    manager, acted = session(level, tmp_path / "log.jsonl")
    assert level in acted
    done = manager.compact(target_tokens=4_000)
    assert done.compacted
    text = text_of(done.messages)
    assert [rule for rule in rules() if rule not in text] == []
    assert RECORD_HEAD not in text
    assert not re.search(r"<context-collapse|earlier messages were dropped", text)
    assert "2. Look at part 1." in text
    request = manager.prepare()
    assert_legal("openai_chat", request.messages, model=MODEL)
    manager.close()
    assert check.LogCheck((tmp_path / "log.jsonl").read_bytes()).problems == []


@pytest.mark.parametrize("level", LEVELS)
def test_a_resumed_session_compacts_to_the_same(tmp_path: Path, level: str) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "other.jsonl"
    live, _ = session(level, first)
    second.write_bytes(first.read_bytes())
    with live, ContextManager.resume(second) as resumed:
        texts = [text_of(each.compact(target_tokens=4_000).messages) for each in (live, resumed)]
    assert texts[0] == texts[1].replace("other.jsonl", "first.jsonl")


def test_a_model_reads_what_the_level_wrote() -> None:
    """What it stands for may not fit a second time; only code reads that."""
    model = ScriptedSummarizer()
    manager, _ = session("fold", summarizer=model)
    assert manager.compact().compacted
    assert RECORD_HEAD in text_of(model.requests[0].messages)
