"""The prefix that the provider has cached is broken only where that pays, by the accounts of a server that keeps a cache."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

from tests.proxy.cache_kit import breaks, paid_after, run
from ullage.policy import Policy
from ullage.testing import conversation

EARLY = Policy.buffered().change(
    {"snip.start_percent": 5, "micro.supersede_start_percent": 5, "cost.wait_requests": 0}
)
"""Levels begin at 10 000 tokens of the model's 200 000, so that a short session shows what a long one does."""

WAITS = 10


@pytest.fixture(scope="module")
def sessions():
    items = conversation(5, tokens=50_000)
    while items[-1]["role"] == "assistant":
        items.pop()
    waiting = EARLY.change({"cost.wait_requests": WAITS})
    return run(items, levels=False), run(items, policy=waiting), run(items, policy=EARLY)


def dollars(asked):
    return sum(each.dollars for each in asked)


def test_what_would_not_pay_is_left(sessions):
    """Levels that never wait break the prefix again and again; those that wait leave these requests as they came."""
    whole, waiting, eager = sessions
    assert breaks(whole) == []
    late = [at for at in breaks(eager) if paid_after(eager, whole, at) > WAITS]
    assert late
    untouched = [at for at in late if at not in breaks(waiting)]
    assert untouched == late
    assert len(late) >= 3
    assert not any(waiting[at].changed for at in range(min(breaks(waiting))))


def test_what_pays_is_done_and_has_paid_before_the_session_ends(sessions):
    whole, waiting, _ = sessions
    places = breaks(waiting)
    assert places
    for at in places:
        assert paid_after(waiting, whole, at) <= min(WAITS, len(waiting) - at - 1)


def test_waiting_is_cheaper_than_never_and_than_always(sessions):
    whole, waiting, eager = sessions
    assert dollars(waiting) < dollars(whole)
    assert dollars(waiting) < dollars(eager)
