"""What Ullage itself sends keeps the rules on rewrites (X) and on the provider's cache (C)."""

from __future__ import annotations

import pytest

from tests.kit.compare import compare_requests
from tests.kit.rewrites import check_operation
from tests.kit.transcripts import session_287k
from ullage import ContextManager, compact
from ullage.testing import conversation


@pytest.mark.parametrize("policy", ["buffered", "ladder"])
def test_requests_of_a_session_follow_each_other(policy):
    """C09 is left out: two levels may act in two neighbouring requests."""
    manager = ContextManager(model="claude-opus-4-5", policy=policy)
    earlier, rewritten = None, 0
    for message in session_287k(5).messages:
        if message["role"] == "user":
            manager.add(message)
            continue
        request = manager.prepare()
        acted = bool(request.reports)
        if earlier is not None:
            found = compare_requests(
                earlier, request.body, announced=acted, acted=acted, skip=("C09",)
            )
            assert found.violations == ()
            rewritten += found.rewritten
        earlier = request.body
        manager.observe(message)
    assert rewritten > 0


def test_a_compaction_is_a_lawful_rewrite():
    report = check_operation(
        lambda items: compact(items, keep=2_000).messages,
        conversation(3, tokens=60_000),
        model="claude-opus-4-5",
    )
    assert report.ok, str(report)
