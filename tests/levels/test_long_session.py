"""One long session, handed from level to level."""

from __future__ import annotations

from typing import Any

import ullage.manager.machine as machine
from tests.kit.transcripts import session_287k
from tests.oracle.legality import assert_legal
from ullage import ContextManager, Policy
from ullage.compaction import api
from ullage.counting.models import ModelTable
from ullage.levels.view import StageReport

MODEL = "claude-opus-4-5"
SESSION = session_287k(5)
SNIPS = {"snip.max_chars": 16_000, "snip.head_percent": 45, "snip.tail_percent": 45}
"""The stated case snips to shares of each result; by shares of a limit, this comes to the same."""


def handed_down(policy: Policy, window: int, monkeypatch) -> tuple[ContextManager, Any, list[int]]:
    """The session put in at once, one request; and its sizes from level to level, at four characters a token as the case is stated."""
    for module in (machine, api):  # what weighs the view, and what weighs a compaction
        monkeypatch.setattr(module, "weights_for", lambda *model: None)
    table = ModelTable.builtin().learned(MODEL, window)
    manager = ContextManager(model=MODEL, policy=policy, table=table)
    for message in SESSION.messages:
        manager.add(message)
    request = manager.prepare()
    reports: tuple[StageReport, ...] = request.reports
    assert [report.stage for report in reports] == ["snip", "microcompact", "autocompact"]
    sizes = [reports[0].tokens_before, *(report.tokens_after for report in reports)]
    assert [report.tokens_before for report in reports] == sizes[:-1]
    assert request.tokens == sizes[-1]
    return manager, request, sizes


def assert_legal_and_accounted(manager: ContextManager, request: Any) -> None:
    assert_legal("anthropic", request.messages, model=MODEL)
    said = SESSION.messages
    typed = [m["content"] for m in said if m["role"] == "user" and isinstance(m["content"], str)]
    assert typed[-1] in str(request.messages)
    left = {at for report in request.reports for span in report.removed for at in range(*span)}
    kept = {source for source in manager.machine.view.sources if isinstance(source, int)}
    assert left | kept == set(range(len(said)))


def test_the_plain_ladder_hands_it_from_level_to_level(monkeypatch):
    """No field changed but how much a snip keeps: snip, lines and cleared reads, summary to half of its mark; no truncation.

    The window is one in which the third step is due at all. In 200 000 tokens it is not: what the second leaves (127 000, or
    142 000 in the stated case) lies below 80 %, which is 160 000.
    """
    manager, request, sizes = handed_down(Policy.ladder().change(SNIPS), 155_000, monkeypatch)
    for size, stated in zip(sizes[:2], (287_000, 198_000), strict=True):
        assert abs(size - stated) < stated * 4 // 100
    # With reads that a later one replaced, which the stated 142 000 still hold.
    assert 120_000 < sizes[2] < 135_000
    assert sizes[3] <= manager.machine.window.threshold * 50 // 100 == 62_000
    assert_legal_and_accounted(manager, request)


def test_in_the_stated_window_the_plain_ladder_needs_no_summary(monkeypatch):
    monkeypatch.setattr(machine, "weights_for", lambda model: None)
    manager = ContextManager(model=MODEL, policy=Policy.ladder())
    for message in SESSION.messages:
        manager.add(message)
    request = manager.prepare()
    assert [report.stage for report in request.reports] == ["snip", "microcompact"]
    assert request.tokens < manager.machine.window.threshold == 160_000


def test_the_stated_figures(monkeypatch):
    """287 000 tokens → about 198 000 → 142 000 → 89 000 in a window of 200 000, without truncation.

    The ladder's own numbers forbid three of these steps, so some fields are changed:

    - 142 000 is what lines alone leave: `micro.by_supersession` is off (with it the second step ends at 127 000).
    - 142 000 is 71 % of the window, and a summary is due from 80 %: `auto.start_percent` is 70.
    - 89 000 is 64 % of that mark, and a summary by share ends at 50 % of it: `auto.target_percent` is 78, of which the kept
      part takes three quarters.
    - `SNIPS`: a snip keeps shares of a limit, not of the result.
    - And whatever ends above 60 % of the mark is not installed (no hysteresis): `auto.max_after_percent` is 80.
    """
    policy = Policy.ladder().change(
        {
            **SNIPS,
            "micro.by_supersession": False,
            "auto.start_percent": 70,
            "auto.target_percent": 78,
            "auto.max_after_percent": 80,
        }
    )
    manager, request, sizes = handed_down(policy, 200_000, monkeypatch)
    for size, stated in zip(sizes, (287_000, 198_000, 142_000, 89_000), strict=True):
        assert abs(size - stated) < stated * 4 // 100
    assert SESSION.times[-1] - SESSION.times[0] == 45 * 60_000
    assert_legal_and_accounted(manager, request)


def test_a_compaction_by_share_ends_at_its_target():
    manager = ContextManager(model=MODEL, policy=Policy.ladder().change({"auto.start_percent": 50}))
    for message in session_287k(2).messages:
        manager.add(message)
    request = manager.prepare()
    assert request.compaction is not None
    trigger = manager.machine.window.threshold
    assert trigger * 30 // 100 < request.tokens <= trigger * 50 // 100
