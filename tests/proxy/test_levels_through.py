"""Levels act on requests: legal, small enough, unchanged where nothing is due, and the same after side queries and restarts."""

from __future__ import annotations

import concurrent.futures
import itertools
import json

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")

from tests.oracle.server import OracleServer
from tests.proxy.kit import Proxy, asks, call
from ullage import outgoing
from ullage.proxy.client_calls import _without_marks
from ullage.stores import FolderStore
from ullage.testing import Step, conversation
from ullage.ullage_check import LogCheck, canonical, hashed, sent as sent_of

WINDOW = 32_768
FORMS = {
    "anthropic": ("/v1/messages", "messages"),
    "openai_chat": ("/v1/chat/completions", "messages"),
    "openai_responses": ("/v1/responses", "input"),
}
HEADERS = {
    "x-api-key": "k",
    "authorization": "Bearer k",
    "anthropic-version": "2026-10-21",
    "content-type": "application/json",
}
SMALL = "gpt-4-32k"


def talk(form="anthropic", tokens=45_000, seed=3):
    made = conversation(seed, tokens=tokens)
    while made[-1]["role"] == "assistant":
        made.pop()
    return made if form == "anthropic" else list(outgoing(made, provider=form).messages)


def body_of(form, items, **more):
    limit = {"max_tokens": 1000} if form == "anthropic" else {}
    return json.dumps({"model": SMALL, **limit, FORMS[form][1]: items, **more}, indent=1).encode()


def ask(proxy, form, items, headers=HEADERS, **more):
    return call(proxy.url, "POST", FORMS[form][0], body_of(form, items, **more), headers)


def run(proxy, server, form, items, *, start=0, end=None, **more):
    """What arrived upstream for each request of an agent that hands over its whole list each time."""
    sent = []
    for count in asks(items)[start:end]:
        status, _, said = ask(proxy, form, items[:count], **more)
        assert status == 200, said
        sent.append(server.requests[-1])
    return sent


@pytest.fixture
def server():
    with OracleServer(window=WINDOW) as made:
        yield made


@pytest.mark.parametrize("form", FORMS)
def test_a_session_that_outgrows_its_window_goes_on_and_every_request_is_legal(server, form):
    items = talk(form)
    with Proxy(server.url) as proxy:
        sent = run(proxy, server, form, items)
    counts = asks(items)
    assert all(each.status == 200 and not each.rules for each in server.requests)
    changed = [
        at for at, each in enumerate(sent) if each.body != body_of(form, items[: counts[at]])
    ]
    assert changed
    assert min(changed) > 3
    assert len(sent) == len(server.requests)
    assert len(sent[-1].body) < len(body_of(form, items)) * 3 // 4
    newest = json.loads(sent[-1].body)[FORMS[form][1]][-1]
    assert newest == items[-1]


@pytest.mark.parametrize("form", FORMS)
def test_records_rebuild_what_arrived_upstream(server, form, tmp_path):
    items, head = talk(form, tokens=40_000), {"system": "Be brief."} if form == "anthropic" else {}
    with Proxy(server.url, record=tmp_path) as proxy:
        sent = run(proxy, server, form, items, **head)
    (path,) = tmp_path.iterdir()
    found = LogCheck(path.read_bytes())
    assert found.problems == []
    lists = [json.loads(each.body)[FORMS[form][1]] for each in sent]
    bare = [
        [item if "role" not in item else _without_marks(item) for item in each] for each in lists
    ]
    assert found.requests == [[canonical(sent_of(item)) for item in each] for each in bare]
    assert any(each != items[: len(each)] for each in lists)
    records = [json.loads(line) for line in path.read_bytes().splitlines() if b'"seal"' in line]
    assert [each["wire"] for each in records] == [hashed(each.body) for each in sent]


def size(items):
    return sum(len(json.dumps(item)) for item in items)


@pytest.mark.parametrize("form", FORMS)
def test_requests_mostly_begin_with_the_one_before(server, form):
    """By a cache's prices (read 0.1, written 1.25) the session costs no more than the whole one would, which does not even fit."""
    items = talk(form)
    with Proxy(server.url) as proxy:
        lists = [json.loads(each.body)[FORMS[form][1]] for each in run(proxy, server, form, items)]
    wholes = [items[:count] for count in asks(items)]
    assert priced(lists) < priced(wholes)


def priced(lists):
    total, before = 0.0, []
    for now in lists:
        pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
        same = size(item for item, _ in pairs)
        total += 0.1 * same + 1.25 * (size(now) - same)
        before = now
    return total


def test_side_queries_do_not_disturb_the_main_line():
    items = talk()
    title = [{"role": "user", "content": "Write a title of five words for: " + "x" * 40_000}]
    with OracleServer(window=WINDOW) as server, Proxy(server.url) as proxy:
        plain = [each.body for each in run(proxy, server, "anthropic", items)]
    disturbed = []
    session = {**HEADERS, "x-claude-code-session-id": "s1"}
    with OracleServer(window=WINDOW) as server, Proxy(server.url) as proxy:
        for count in asks(items):
            ask(proxy, "anthropic", items[:count], headers=session)
            disturbed.append(server.requests[-1].body)
            ask(proxy, "anthropic", title, headers=session)
            aside = [*items[: count - 1], {"role": "user", "content": "How is it going? One line."}]
            if items[count - 1]["role"] == "user" and isinstance(items[count - 1]["content"], str):
                assert ask(proxy, "anthropic", aside, headers=session)[0] == 200
        assert all(not each.rules for each in server.requests)
    assert disturbed == plain


def test_decisions_survive_a_restart(tmp_path):
    items = talk()
    with OracleServer(window=WINDOW) as server, Proxy(server.url) as proxy:
        plain = [each.body for each in run(proxy, server, "anthropic", items)]
    half = len(plain) * 3 // 4
    with OracleServer(window=WINDOW) as server:
        with Proxy(server.url, store=FolderStore(tmp_path)) as proxy:
            first = run(proxy, server, "anthropic", items, end=half)
        with Proxy(server.url, store=FolderStore(tmp_path)) as proxy:
            second = run(proxy, server, "anthropic", items, start=half)
    assert [each.body for each in (*first, *second)] == plain
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert kept
    longest = max(
        (block["content"] for message in items if isinstance(message["content"], list) for block in message["content"]
         if block["type"] == "tool_result" and isinstance(block["content"], str)), key=len,
    )  # fmt: skip
    assert longest[: len(longest) // 2].encode() not in kept


def test_a_store_that_is_damaged_or_fails_stops_nothing(tmp_path):
    items = talk()
    with (
        OracleServer(window=WINDOW) as server,
        Proxy(server.url, store=FolderStore(tmp_path)) as proxy,
    ):
        run(proxy, server, "anthropic", items)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_bytes(b"\x00not json")
    with (
        OracleServer(window=WINDOW) as server,
        Proxy(server.url, store=FolderStore(tmp_path)) as proxy,
    ):
        run(proxy, server, "anthropic", items, start=-3)
        assert all(not each.rules for each in server.requests)


def test_two_requests_of_one_conversation_at_once(server):
    items = talk()
    counts = asks(items)[-6:]
    with Proxy(server.url) as proxy, concurrent.futures.ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda count: ask(proxy, "anthropic", items[:count])[0], counts))
    assert found == [200] * 6
    assert all(not each.rules for each in server.requests)


def marked(items, *places):
    """As Claude Code marks: the newest message, and one before."""
    made = json.loads(json.dumps(items))
    for at in places:
        content = made[at]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
        made[at]["content"] = blocks
    return made


def test_cache_marks_that_move_are_no_edit_and_stay_where_the_client_put_them(server):
    items = talk()
    with Proxy(server.url) as proxy:
        for count in asks(items):
            given = marked(items[:count], -1)
            assert ask(proxy, "anthropic", given)[0] == 200
            sent = json.loads(server.requests[-1].body)["messages"]
            assert sent[-1] == given[-1]
            assert json.dumps(sent).count("cache_control") == 1
        _, _, figures = call(proxy.url, "GET", "/metrics")
    assert len(server.requests[-1].body) < len(body_of("anthropic", items)) * 3 // 4
    # A text that is a block only while it is marked is no edit.
    assert b"ullage_proxy_lines 1.0" in figures


# ---- refused as too large ----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_an_overflow_is_recovered_before_the_client_sees_it(form):
    """The provider's window is smaller than the table says."""
    items = talk(form, tokens=12_000)
    with OracleServer(window=6_000) as server, Proxy(server.url) as proxy:
        status, _, said = ask(proxy, form, items)
        assert status == 200, said
        assert [each.status for each in server.requests] == [400, 200]
    first, second = server.requests
    assert len(second.body) < len(first.body)
    assert json.loads(second.body)[FORMS[form][1]][-1] == items[-1]


@pytest.mark.parametrize("form", FORMS)
def test_after_a_refusal_the_next_call_is_made_to_fit_at_once(form):
    """The table gives this model 200,000 tokens, its server a tenth of that."""
    items = talk(form, tokens=25_000)
    counts = asks(items)[-2:]
    with OracleServer(window=20_000) as server, Proxy(server.url) as proxy:
        for count in counts:
            status, _, said = ask(proxy, form, items[:count], model="claude-opus-4-5")
            assert status == 200, said
        assert [each.status for each in server.requests] == [400, 200, 200]


def test_an_overflow_that_a_stream_tells_is_recovered_too():
    items = talk("openai_responses", tokens=16_000)
    too_long = Step("overflow", provider="openai_new")
    with OracleServer(too_long) as server:
        assert b"response.failed" in ask(server, "openai_responses", items, stream=True)[2]
    with OracleServer(too_long) as server, Proxy(server.url) as proxy:
        status, _, said = ask(proxy, "openai_responses", items, stream=True)
    assert status == 200
    assert b"response.failed" not in said
    assert b"response.completed" in said
    assert len(server.requests) == 2
    assert len(server.requests[1].body) < len(server.requests[0].body)


def test_a_stream_that_fails_for_another_reason_is_passed_on_whole():
    items = talk("openai_responses", tokens=12_000)
    with OracleServer(after="stream_error") as server:
        direct = ask(server, "openai_responses", items, stream=True)
    with OracleServer(after="stream_error") as server, Proxy(server.url, levels=True) as proxy:
        through = ask(proxy, "openai_responses", items, stream=True)
        assert len(server.requests) == 1
    assert (through[0], b"overloaded" in through[2]) == (direct[0], b"overloaded" in direct[2])


def test_another_refusal_is_passed_on_and_not_repeated():
    items = talk(tokens=3_000)
    with OracleServer() as server, Proxy(server.url) as proxy:
        status, _, said = ask(
            proxy, "anthropic", [*items, {"role": "assistant", "content": [{"type": "nonsense"}]}]
        )
        assert (status, len(server.requests)) == (400, 1)
        assert json.loads(said)["error"]["type"] == "invalid_request_error"


def test_what_cannot_be_made_small_enough_is_refused_in_the_providers_words():
    items = [{"role": "user", "content": "word " * 30_000}]
    with OracleServer(window=1_000) as server, Proxy(server.url) as proxy:
        direct = ask(server, "anthropic", items)
        through = ask(proxy, "anthropic", items)
    assert through[0] == direct[0] == 400
    assert through[2] == direct[2]


# ---- left alone ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("openai_responses", {"previous_response_id": "resp_1"}),
        ("openai_responses", {"conversation": "conv_1"}),
        ("anthropic", {"thread": {"type": "create"}}),
    ],
)
def test_a_list_that_is_not_all_of_the_conversation_leaves_as_it_came(form, more):
    items = talk(form)
    with OracleServer(enforce=False) as server, Proxy(server.url) as proxy:
        ask(proxy, form, items, **more)
        assert server.requests[0].body == body_of(form, items, **more)


def test_an_illegal_list_that_no_level_changed_is_the_providers_to_refuse():
    """Large enough to be looked at, and nothing in it to make smaller."""
    words = [{"role": ("user", "assistant")[n % 2], "content": "word " * 900} for n in range(20)]
    call_ = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    items = [*words, {"role": "user", "content": "Go on."}, {"role": "assistant", "content": [call_]},
             {"role": "user", "content": "And?"}]  # fmt: skip
    with OracleServer(enforce=True) as server, Proxy(server.url) as proxy:
        assert len(body_of("anthropic", items)) > WINDOW * 2 * 40 // 100
        status, _, said = ask(proxy, "anthropic", items)
        assert (status, server.requests[0].body) == (400, body_of("anthropic", items))
    assert b"toolu_1" in said


def test_lone_surrogates_and_odd_bodies_are_passed_on():
    bodies = [
        b'{"model": "gpt-4-32k", "max_tokens": 9, "messages": [{"role": "user", "content": "\\ud800' + b"x" * 90_000 + b'"}]}',
        b'{"model": "gpt-4-32k", "messages": "' + b"x" * 90_000 + b'"}',
        b'{"model": "gpt-4-32k", "messages": [1, null, "' + b"x" * 90_000 + b'"]}',
        b"[" * 90_000,
        b"\xff" * 90_000,
    ]  # fmt: skip
    with OracleServer(enforce=False) as server, Proxy(server.url) as proxy:
        for body in bodies:
            call(proxy.url, "POST", "/v1/messages", body, HEADERS)
            assert server.requests[-1].body == body


def test_levels_can_be_turned_off(server):
    items = talk(tokens=30_000)
    with OracleServer(window=0) as server, Proxy(server.url, levels=False) as proxy:
        for count, sent in zip(asks(items), run(proxy, server, "anthropic", items), strict=True):
            assert sent.body == body_of("anthropic", items[:count])


def test_a_refusal_that_asks_to_wait_is_never_taken_for_an_overflow():
    items = talk(tokens=3_000)
    with OracleServer(Step("rate_limit", retry_after=3)) as server, Proxy(server.url) as proxy:
        status, headers, _ = ask(proxy, "anthropic", items)
        assert (status, len(server.requests)) == (429, 1)
        assert dict(headers)["retry-after"] == "3"
