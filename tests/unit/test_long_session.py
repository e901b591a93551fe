"""One long session, handed from level to level."""

from __future__ import annotations

from ullage import ContextManager, Policy
from ullage.stages.report import StageReport
from ullage.testing import assert_legal, session_287k

MODEL = "claude-opus-4-5"


def test_the_long_session_is_handed_from_level_to_level(monkeypatch):
    """287 000 tokens → about 198 000 → 142 000 → 89 000 by snip, microcompact and summary, without truncation.

    Counted as the case is stated: four characters a token.
    """
    import ullage.context.machine as machine

    monkeypatch.setattr(machine, "weights_for", lambda model: None)
    session = session_287k(5)
    policy = Policy.ladder().change(
        {
            "micro.by_supersession": False,
            "auto.start_percent": 70,
            "auto.target_percent": 78,
            "auto.max_after_percent": 80,
        }
    )
    manager = ContextManager(model=MODEL, policy=policy)
    for message in session.messages:
        manager.add(message)
    request = manager.prepare()
    reports: tuple[StageReport, ...] = request.reports
    assert [report.stage for report in reports] == ["snip", "microcompact", "autocompact"]
    assert [report.tokens_before for report in reports[1:]] == [
        report.tokens_after for report in reports[:-1]
    ]
    sizes = [reports[0].tokens_before, *(report.tokens_after for report in reports)]
    for size, stated in zip(sizes, (287_000, 198_000, 142_000, 89_000), strict=True):
        assert abs(size - stated) < stated * 4 // 100
    assert session.times[-1] - session.times[0] == 45 * 60_000
    assert request.tokens == sizes[-1]
    assert_legal("anthropic", request.messages, model=MODEL)
    newest = [m for m in session.messages if m["role"] == "user" and isinstance(m["content"], str)][
        -1
    ]
    assert newest["content"] in str(request.messages)
    # And what left is all accounted for.
    left = {at for report in reports for span in report.removed for at in range(*span)}
    kept = {source for source in manager.machine.view.sources if isinstance(source, int)}
    assert left | kept == set(range(len(session.messages)))


def test_a_compaction_by_share_ends_at_its_target():
    manager = ContextManager(model=MODEL, policy=Policy.ladder())
    for message in session_287k(2).messages:
        manager.add(message)
    request = manager.prepare()
    assert request.compaction is not None
    trigger = manager.machine.trigger()
    assert trigger * 30 // 100 < request.tokens <= trigger * 50 // 100
