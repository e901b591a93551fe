"""`ullage.validate` against the test kit's checker: two readings of the same rules.

They share no code. On whether a request would be refused they must agree; which rule names the
trouble may differ where one broken thing breaks several.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st

from tests.attack import hostile
from tests.attack.mutations import MUTATIONS, mutate
from tests.kit import strategies
from tests.oracle.checker import PROVIDERS, check
from tests.oracle.legality import request_body
from ullage.legality import validate

quick = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))

MODELS = {"anthropic": "claude-opus-5-5", "gemini": "gemini-3-pro"}
BEDROCK = {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]}
PARAMS = {
    "anthropic": {"max_tokens": 100, "tools": []},
    "bedrock": {"toolConfig": BEDROCK},
    "deepseek": {"thinking": {"type": "enabled"}},
}
# What can be done to a list of messages of any provider.
ANYWHERE = (
    "delete_message", "double_message", "swap_messages", "cut_head", "cut_tail", "empty_content",
    "no_role", "blank_text",
)  # fmt: skip


def opinions(provider, messages):
    """Rules that each of the two says are broken; `validate`'s warnings too."""
    params, model = PARAMS.get(provider, {}), MODELS.get(provider)
    body = request_body(provider, messages, model=model, **params)
    found = [finding for finding in check(provider, body) if finding.severity == "error"]
    # Thinking is compared with an original there, with its seal here: neither knows the other's.
    ours = {f.rule for f in found if f.rule not in ("A15", "A16") and "modified" not in f.text}
    report = validate(messages, provider=provider, model=model, betas=[], wire=True, **params)
    theirs = {violation.rule for violation in report.errors}
    return ours, theirs, {violation.rule for violation in report.warnings}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_both_take_what_is_legal(provider):
    @quick
    @given(strategies.legal_conversations(provider))
    def run(messages):
        assert opinions(provider, messages)[:2] == (set(), set())

    run()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_both_refuse_the_same_damaged_requests(provider):
    steps = st.lists(
        st.tuples(st.sampled_from(ANYWHERE), st.integers(0, 9)), min_size=1, max_size=2
    )

    @quick
    @given(strategies.legal_conversations(provider, max_turns=3, max_rounds=2), steps)
    def run(messages, chosen):
        ours, theirs, _ = opinions(provider, mutate(messages, *chosen))
        assert bool(ours) == bool(theirs), (ours, theirs)
        event("the same rules" if ours == theirs else "the same verdict")

    run()


def test_both_refuse_the_same_hostile_conversations():
    @settings(quick, max_examples=80)
    @given(hostile.hostile_conversations())
    def run(messages):
        ours, theirs, _ = opinions("anthropic", messages)
        if theirs == {"A01"} and not ours:
            event("nested deeper than JSON readers take")
        else:
            assert bool(ours) == bool(theirs), (ours, theirs)
            event("the same rules" if ours == theirs else "the same verdict")

    run()


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_both_name_the_same_rules_for_a_single_damage(name):
    """One damage in a plain conversation: then even the names agree, but for what is listed."""
    block = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}}
    more = {**block, "id": "t2"}
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "ok"} for n in (1, 2)]
    talk = [
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, block, more]},
        {"role": "user", "content": results},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "go on"},
    ]
    for at in range(8):
        ours, theirs, _ = opinions("anthropic", mutate(talk, (name, at)))
        if "A01" in theirs:  # a message that cannot be read is not looked into there
            assert ours or name == "deep_input"
            continue
        if name == "wrong_role" and at % 7 == 2:
            continue  # `developer`: see the test below
        ours -= LOOSE.get(name, set())
        theirs -= LOOSE.get(name, set())
        assert ours == theirs, at


# Rules that only one of the two adds to what both find.
LOOSE = {
    "call_in_place": {"A05", "A08"},
    "unhashable_id": {"A05", "A06"},
    "wrong_content": {"A05", "A06"},
    "orphan_result": {"A07"},
    "system_inside": {"A05", "A06"},
    "swap_messages": {"A05", "A06", "A07"},
    "delete_message": {"A07"},
    "server_call": {"A09", "A10", "A11"},
}


def test_no_developers_at_anthropics():
    ours, theirs, _ = opinions(
        "anthropic", [{"role": "user", "content": "q"}, {"role": "developer", "content": "x"}]
    )
    assert ours == theirs == {"A01"}
