"""The checker judges every golden vector rightly; the vectors cover every rule."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle.checker import PROVIDERS, check
from tests.oracle.checker.models import facts
from ullage.exceptions import InvalidPolicy
from ullage.testing import conversation, scenario

GOLDEN = Path(__file__).parent.parent / "golden"
VECTORS = json.loads((GOLDEN / "vectors.json").read_text(encoding="utf-8"))
# These two need the messages as they came, which a server does not have.
NOT_ON_THE_WIRE = ("R07", "G07")
REQUESTS = [
    v for v in VECTORS if "request" in v and v["rule"] not in NOT_ON_THE_WIRE and "ours" not in v
]
RULES = (
    *[f"A{n:02}" for n in range(1, 33)],
    *[f"O{n:02}" for n in range(1, 11)],
    *[f"R{n:02}" for n in range(1, 7)],  # R07 is marked as unverified in every source
    *[f"G{n:02}" for n in range(1, 7)],  # G07 needs the original parts
    *[f"B{n:02}" for n in range(1, 9)],
    *[f"M{n:02}" for n in range(1, 6)],
    *[f"D{n:02}" for n in range(1, 4)],
    *[f"L{n:02}" for n in range(1, 5)],
)


def grown(vector):
    """The request with its repeated parts, as the vector's `repeat` says."""
    body = copy.deepcopy(vector["request"])
    for path, count in vector.get("repeat", []):
        parent = body
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = parent[path[-1]] * count
    return body


def judge(vector):
    return check(
        vector["provider"],
        grown(vector),
        version=vector.get("version", "2026-10-21"),
        betas=vector.get("betas", ()),
        resume=vector.get("resume", ""),
        original=vector.get("original"),
        window=vector.get("window"),
        strict=vector.get("strict", False),
    )


@pytest.mark.parametrize("vector", REQUESTS, ids=[vector["id"] for vector in REQUESTS])
def test_vector(vector):
    found = judge(vector)
    errors = {finding.rule for finding in found if finding.severity == "error"}
    warnings = {finding.rule for finding in found if finding.severity == "warning"}
    required, either = set(vector["errors"]), set(vector["any"])
    assert required <= errors <= required | either | set(vector["also"])
    assert not either or errors & either
    assert set(vector["warnings"]) <= warnings
    assert all(finding.text and finding.status >= 400 for finding in found)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_three_vectors_of_both_kinds(rule):
    about = [vector for vector in REQUESTS if vector["rule"] == rule]
    broken = [v for v in about if rule in (*v["errors"], *v["any"], *v["warnings"])]
    assert len(about) >= 3
    assert broken
    assert len(broken) < len(about)


def test_vectors_are_what_their_sources_say():
    made = subprocess.run(
        [
            sys.executable,
            "-c",
            "import make_vectors, sys; sys.stdout.buffer.write(make_vectors.text().encode())",
        ],
        cwd=GOLDEN,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(GOLDEN), *sys.path])},
        capture_output=True,
        check=True,
    ).stdout
    assert made == (GOLDEN / "vectors.json").read_bytes()


def test_vectors_are_not_changed_by_the_check():
    for vector in REQUESTS[::7]:
        body = grown(vector)
        before = copy.deepcopy(body)
        check(vector["provider"], body)
        assert body == before


@pytest.mark.parametrize("style", ["coding", "mixed", "media"])
def test_generated_sessions_are_legal_with_strict_seals(style):
    for seed in range(3):
        made = scenario(seed, tokens=25_000, style=style)
        body = {
            "model": made.model,
            "system": made.system,
            "tools": list(made.tools),
            "max_tokens": 64,
        }
        assert check("anthropic", {**body, "messages": made.messages}, sealed=True) == []


def test_every_prefix_that_ends_with_the_user_is_legal():
    made = scenario(1, tokens=20_000, style="mixed")
    body = {"model": made.model, "system": made.system, "tools": list(made.tools), "max_tokens": 64}
    for end, message in enumerate(made.messages, start=1):
        found = check("anthropic", {**body, "messages": made.messages[:end]}, sealed=True)
        if message["role"] == "user":
            assert found == []
        else:
            assert {finding.rule for finding in found} & {"A05", "A11"}


def test_an_open_ending_is_not_legal():
    messages = conversation(3, tokens=5_000, ending="open")
    rules = {finding.rule for finding in check("anthropic", {"messages": messages})}
    assert {"A05", "A11"} <= rules


def test_foreign_signatures_are_refused_only_where_seals_are_asked_for():
    block = {"type": "thinking", "thinking": "x", "signature": "EqQBCkYIBRgCKkDforeign"}
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [block]}]
    body = {"model": "claude-opus-5-5", "messages": [*talk, {"role": "user", "content": "go"}]}
    assert check("anthropic", body) == []
    (found,) = check("anthropic", body, sealed=True)
    assert found.rule == "A13"
    assert found.text == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_errors_come_first_and_name_the_place():
    body = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": " "}]}
    first, second = check("anthropic", body)
    assert (first.rule, first.severity, first.message) == ("A02", "error", 1)
    assert (second.rule, second.severity) == ("A29", "warning")


@pytest.mark.parametrize(
    ("model", "prefill", "mid_system", "bound", "window"),
    [
        ("claude-opus-5-5", False, True, True, 1_000_000),
        ("claude-opus-5", False, True, False, 1_000_000),
        ("claude-sonnet-5", False, False, False, 1_000_000),
        ("claude-opus-4-8", False, True, False, 1_000_000),
        ("claude-opus-4-6", False, False, False, 1_000_000),
        ("claude-sonnet-4-5-20250929", True, False, False, 200_000),
        ("claude-haiku-4-5", True, False, False, 200_000),
        ("claude-haiku-5-5", False, True, True, 1_000_000),
        ("claude-fable-5", False, True, False, 1_000_000),
        ("claude-fable-5-1", False, True, True, 1_000_000),
        ("claude-mythos-5-1", False, True, False, 1_000_000),
        ("claude-3-5-sonnet-20241022", True, False, False, 200_000),
        ("claude-sonnet-4-20250514", True, False, False, 200_000),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", True, False, False, 200_000),
        ("gpt-5.2", False, True, False, 0),
    ],
)
def test_model_facts(model, prefill, mid_system, bound, window):
    known = facts(model)
    assert (known.prefill, known.mid_system, known.bound, known.window) == (
        prefill,
        mid_system,
        bound,
        window,
    )


def test_a_provider_that_nobody_knows():
    with pytest.raises(InvalidPolicy, match="provider"):
        check("oracle", {})


HOSTILE = [
    {},
    {"messages": None},
    {"messages": [None, 3, "x", [], {}]},
    {"messages": [{"role": ["user"], "content": {"type": "text"}}]},
    {"messages": [{"role": "user", "content": [None, [], {"type": None}, {"type": ["x"]}]}]},
    {"messages": [{"role": "user", "content": "\ud800"}], "system": 3, "tools": "none"},
    {"input": [None, 3, {"type": None}], "contents": [None, {"parts": [3]}]},
    {"messages": [{"role": "assistant", "tool_calls": [None, {"id": 3, "function": None}]}]},
    {"messages": [{"role": "user", "content": [{"image": {"source": {"bytes": 3}}}] * 30}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": [], "name": {}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": {}}]}]},
    {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use", "id": []}]}]},
    {"messages": [{"role": "assistant", "content": [{"type": "thinking", "signature": 3}]}]},
    {"messages": [{"role": "tool", "tool_call_id": []}]},
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_bodies_are_judged_without_a_crash(provider, body):
    assert isinstance(check(provider, copy.deepcopy(body)), list)
