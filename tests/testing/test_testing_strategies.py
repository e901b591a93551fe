"""The strategies keep their promises: legal is legal, hostile is hostile, everything shrinks."""

from __future__ import annotations

import copy
import itertools
import json

import orjson
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings, strategies as st

from tests.attack import hostile
from tests.attack.mutations import MUTATIONS, mutate
from tests.kit import strategies
from tests.oracle.checker import PROVIDERS, check
from tests.oracle.legality import assert_legal, request_body
from tests.oracle.server import OracleServer
from ullage.exceptions import InvalidPolicy
from ullage.testing import conversation
from ullage.testing.server import Recorded, ScriptedServer
from ullage.transcript import resume

quick = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
search = settings(
    derandomize=True,
    max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink]
)  # fmt: skip
BEDROCK_TOOLS = [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_legal_conversations_are_legal(provider):
    facts = {"deepseek": {"thinking": {"type": "enabled"}}, "bedrock": {"tools": BEDROCK_TOOLS}}

    @quick
    @given(strategies.legal_conversations(provider))
    def run(messages):
        model = {"anthropic": "claude-opus-5-5", "gemini": "gemini-3-pro"}.get(provider)
        assert_legal(provider, messages, model=model, sealed=True, **facts.get(provider, {}))
        orjson.dumps(messages)

    run()


@quick
@given(strategies.legal_requests())
def test_legal_requests_are_legal_with_strict_seals(body):
    assert [f for f in check("anthropic", body, sealed=True) if f.severity == "error"] == []


@quick
@given(strategies.legal_conversations(features=()))
def test_without_features_there_is_nothing_but_words_and_calls(messages):
    kinds = {
        block["type"]
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
    }
    assert kinds <= {"text", "tool_use", "tool_result"}
    roles = [message["role"] for message in messages]
    assert all(a != b for a, b in itertools.pairwise(roles))


@pytest.mark.parametrize(
    "kind",
    [
        "thinking",
        "image",
        "tool_result",
        *(
            pytest.param(rare, marks=pytest.mark.slow)
            for rare in ("redacted_thinking", "document", "server_tool_use", "system")
        ),
    ],
)
def test_every_feature_occurs_and_shrinks_to_little(kind):
    smallest = find(
        strategies.legal_conversations(),
        lambda messages: f'"{kind}"' in orjson.dumps(messages).decode(),
        settings=search,
    )
    assert len(smallest) <= 5
    assert len(orjson.dumps(smallest)) < 1500


def test_parallel_calls_shrink_to_two_calls():
    smallest = find(
        strategies.legal_conversations(),
        lambda ms: any(sum(b["type"] == "tool_use" for b in m["content"]) > 1 for m in ms if isinstance(m["content"], list)),
        settings=search,
    )  # fmt: skip
    assert len(smallest) <= 5
    assert orjson.dumps(smallest).decode().count('"type":"tool_use"') == 2


@quick
@given(hostile.hostile_conversations())
def test_hostile_conversations_crash_no_checker(messages):
    for provider in PROVIDERS:
        body = request_body(provider, messages)
        before = copy.deepcopy(body)
        assert isinstance(check(provider, body), list)
        assert repr(body) == repr(before)


def test_hostile_conversations_are_mostly_refused():
    refused = []

    @settings(quick, max_examples=60, derandomize=True)
    @given(hostile.hostile_conversations())
    def run(messages):
        found = check("anthropic", {"model": "claude-opus-5-5", "messages": messages})
        refused.append(any(finding.severity == "error" for finding in found))

    run()
    assert sum(refused) * 10 > len(refused) * 7


# What each mutation breaks, in a conversation that has something of everything. None: nothing, or
# nothing that the API would refuse; it is there to hurt readers.
EXPECTED = {
    "orphan_result": "A06", "drop_result": "A05", "drop_call": "A06", "drop_thinking": "A16",
    "drop_server_call": "A09", "drop_server_result": "A09", "duplicate_result": "A05",
    "duplicate_call": "A08", "text_before_result": "A07", "foreign_id": "A08", "same_id": "A08",
    "unhashable_id": "A08", "missing_id": "A06", "wrong_input": "A08", "deep_input": None,
    "odd_input": None, "wrong_result": "A03", "nested_call": "A03", "stray_key": "A04",
    "stray_message_key": "A04", "blank_text": "A02", "huge_text": None, "lone_surrogate": "T01",
    "control_characters": None, "text_not_a_string": "A02", "empty_content": "A02",
    "wrong_content": "A02", "wrong_role": "A01", "no_role": "A01", "not_a_block": "A03",
    "unknown_block": "A03", "call_in_place": "A05", "bad_image": "A21", "five_markers": "A17",
    "markers_out_of_order": "A18", "thinking_unsigned": "A13", "thinking_altered": "A13",
    "server_call": "A09", "server_result": "A09", "system_inside": "A12",
    "ends_with_assistant": "A11", "not_a_message": "A01", "delete_message": "A06",
    "double_message": "A08", "swap_messages": "A06", "cut_head": "A06", "cut_tail": "A05",
}  # fmt: skip


def rich():
    """A legal conversation in which every mutation finds something."""
    return find(
        strategies.legal_conversations(max_turns=3),
        lambda ms: all(
            orjson.dumps(ms).decode().count(f'"{kind}"') >= count
            for kind, count in (
                ("tool_use", 3),
                ("thinking", 6),
                ("web_search_tool_result", 1),
                ("image", 1),
            )
        ),
        settings=settings(search, phases=[Phase.generate], derandomize=True),
    )


@pytest.fixture(scope="module")
def subject():
    return rich()


def test_the_table_names_every_mutation():
    assert EXPECTED.keys() == MUTATIONS.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_each_mutation_breaks_what_it_says(name, subject):
    before = repr(subject)
    found = set()
    changed = False
    for at in range(24):
        damaged = mutate(subject, (name, at))
        changed = changed or repr(damaged) != before
        body = {"model": "claude-opus-5-5", "messages": damaged}
        found |= {f.rule for f in check("anthropic", body, sealed=True) if f.severity == "error"}
    assert changed
    assert repr(subject) == before
    if EXPECTED[name]:
        assert EXPECTED[name] in found


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_total(name):
    for messages in (
        [],
        [None, 3],
        [{"role": "user"}],
        [{"content": "x"}],
        conversation(1, turns=1),
    ):
        for at in (0, 1, 7):
            once = mutate(messages, (name, at))
            assert isinstance(mutate(once, (name, at), ("empty_content", at)), list)


@quick
@given(strategies.session_files())
def test_session_files_resume_to_their_context(file):
    def turns(messages):
        out = []
        for message in messages:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if out and out[-1][0] == message["role"]:
                out[-1][1].extend(blocks)
            else:
                out.append((message["role"], list(blocks)))
        return out

    assert turns(resume(file.entries).messages) == turns(file.context)


@quick
@given(hostile.hostile_entries())
def test_hostile_entries_are_lists(lines):
    assert isinstance(lines, list)


@quick
@given(strategies.texts(blank=False), strategies.texts(surrogates=True), strategies.json_values())
def test_texts_and_json(words, any_words, value):
    assert words.strip()
    words.encode()
    assert isinstance(any_words, str)
    assert orjson.loads(orjson.dumps(value)) == value


def test_texts_reach_their_kinds():
    for wanted in ("请", "\x1b", "🏳", "QUJD"):
        assert wanted in find(strategies.texts(), lambda text, w=wanted: w in text, settings=search)
    lone = find(strategies.texts(surrogates=True), lambda t: any("\ud800" <= c <= "\udfff" for c in t), settings=search)  # fmt: skip
    with pytest.raises(UnicodeEncodeError):
        lone.encode()


@pytest.mark.parametrize(
    ("options", "field"),
    [({"provider": "oracle"}, "provider"), ({"features": ["magic"]}, "features")],
    ids=["provider", "features"],
)
def test_wrong_arguments_are_named(options, field):
    with pytest.raises(InvalidPolicy) as caught:
        strategies.legal_conversations(**options)
    assert caught.value.field == field


def test_strategies_are_strategies():
    for made in (strategies.entries(), hostile.hostile_entries(), strategies.json_values()):
        assert isinstance(made, st.SearchStrategy)


ENDPOINTS = {
    "/v1/messages": ("messages", {"model": "claude-opus-5-5", "max_tokens": 64}),
    "/v1/messages/count_tokens": ("messages", {"model": "claude-sonnet-4-5"}),
    "/v1/chat/completions": ("messages", {"model": "gpt-5.2"}),
    "/v1/responses": ("input", {"model": "gpt-5.2"}),
    "/v1/responses/compact": ("input", {"model": "gpt-5.2"}),
}


@pytest.mark.parametrize("enforce", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("made", [ScriptedServer, OracleServer])
def test_the_server_answers_whatever_comes(made, path, enforce):
    server = made(enforce=enforce)
    headers = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}
    key, rest = ENDPOINTS[path]

    @quick
    @given(hostile.hostile_conversations())
    def run(messages):
        body = json.dumps({**rest, key: messages}, skipkeys=True).encode()
        reply = server.handle(Recorded("POST", path, headers, body))
        assert reply.status in (200, 400, 404, 413)
        assert b"".join(reply.chunks())

    run()
    assert server.errors == []
