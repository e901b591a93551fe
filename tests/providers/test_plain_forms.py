"""The quick way for plain messages gives what the form's own reader and writer give, or nothing."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import pytest
from benches import bodies

from ullage.exceptions import InvalidMessage
from ullage.legality.originals import json_of
from ullage.manager.written_form import calls_of, rounds
from ullage.providers.incoming import given_as_json, read_response
from ullage.providers.native_lists import read_item
from ullage.providers.registry import Provider, provider_of
from ullage.requests.to_request import Continued
from ullage.testing import scenario

FORMS = ("openai_chat", "openai_responses", "mistral", "gemini", "bedrock")
CALL = "c12345678"
"""An id that every form takes."""

BEFORE = {"role": "user", "content": "."}


def by_its_reader(item: Any, row: Provider) -> list[Any]:
    """As the longer way reads it, which leaves out what is null."""
    longer = replace(row, plain="")
    return read_item(given_as_json(item, row), longer, position=1, open_calls=waiting)


def waiting() -> list[tuple[str, str]]:
    return [("c7", "ls"), ("c8", "ls"), ("c9", "cat")]


def quickly_read(item: Any, row: Provider) -> Any:
    assert row.plain_form is not None
    return row.plain_form.read_plain(item, 1, waiting)


TEXTS = (
    "words",
    "",
    " ",
    "[The conversation continues here.]",
    None,
    3,
    [{"type": "text", "text": "a"}],
    [],
)
ARGUMENTS = (
    '{"a":1}',
    '{"a": 1}',
    "{}",
    "",
    "nonsense",
    "[1]",
    '{"a":NaN}',
    '{"ü":"\\u00fc"}',
    None,
    {"a": 1},
)
NAMES = ("c1", "unknown_ls", "", "x" * 70, None, 5)


VALUES = (
    {},
    {"a": 1},
    {"a": None},
    {"a": 1.5},
    {"a": float("nan")},
    {"a": 10**20},
    {3: 4},
    {"ü": "\ud83d"},
    {"output": "fine"},
    {"output": ""},
    {"error": "bad"},
    {"output": [1]},
    {"output": ["a"]},
    {"output": {"a": 1}},
    {"output": "fine", "a": 1},
    [],
    "fine",
    None,
)
"""What a call is made with, or a result holds."""

MORE: tuple[dict[str, Any], ...] = (
    {},
    {"thoughtSignature": "c2ln"},
    {"thoughtSignature": "skip_thought_signature_validator"},
    {"thought": True},
    {"thought": True, "thoughtSignature": "c2ln"},
    {"thought": False},
    {"thought_signature": "c2ln"},
    {"willContinue": True},
    {"foreign": {}},
)


def odd_parts() -> Iterator[dict[str, Any]]:
    """Parts of Gemini's contents and blocks of Converse, plain and odd."""
    for text, more in product(TEXTS, MORE):
        yield {"text": text, **more}
    for name, value in product(NAMES, VALUES):
        for more in MORE:
            yield {"functionCall": {"name": name, "args": value}, **more}
        yield {"functionCall": {"name": "ls", "id": name, "args": value}}
        yield {"functionCall": {"name": "ls", "args": value, "more": name}}
        yield {"functionResponse": {"name": name, "response": value}}
        yield {"functionResponse": {"name": "ls", "response": value}}
        yield {"functionResponse": {"name": "ls", "id": name, "response": value}}
        yield {"functionResponse": {"name": "ls", "response": value, "parts": []}}
        yield {"toolUse": {"toolUseId": name, "name": "ls", "input": value}}
        yield {"toolUse": {"toolUseId": name, "name": "ls", "input": value, "more": 1}}
        for status in ({}, {"status": "success"}, {"status": "error"}, {"status": 3}):
            held: Any = [{"json": value}]
            yield {"toolResult": {"toolUseId": name, "content": held, **status}}
            yield {"toolResult": {"toolUseId": "c7", "content": [*held, {"text": "a"}], **status}}
            yield {"toolResult": {"toolUseId": "c7", "content": [], **status}}
    for text, signature in product(TEXTS, ("c2ln", "", None)):
        thought = {"text": text, "signature": signature}
        yield {"reasoningContent": {"reasoningText": thought}}
        yield {"reasoningContent": {"reasoningText": {"text": text}}}
        yield {"reasoningContent": {"redactedContent": text}}
    for kind in ("image/png", "image/tiff", "application/pdf", 5):
        data = {"mimeType": kind, "data": "aGk="}
        yield from ({"inlineData": data}, {"inlineData": {**data, "displayName": "x"}})
        yield {"image": {"format": str(kind).removeprefix("image/"), "source": {"bytes": "aGk="}}}
        yield {"image": {"format": kind, "source": {"bytes": b"hi"}}}
    yield from ({"cachePoint": {"type": "default"}}, {"fileData": {"mimeType": "image/png"}}, {})


def odd_items(form: str) -> Iterator[dict[str, Any]]:
    """Items that are plain, and each of their parts in other forms."""
    if form in ("gemini", "bedrock"):
        key, model = ("parts", "model") if form == "gemini" else ("content", "assistant")
        for part in odd_parts():
            for role in (model, "user"):
                yield {"role": role, key: [part]}
                yield {"role": role, key: [{"text": "Now."}, part, part]}
            yield {"role": "system", key: [part]}
            yield {"role": "user", key: [part], "more": 1}
        return
    roles = ("user", "assistant", "tool", "system", "developer", "function", None)
    for role, text in product(roles, TEXTS):
        yield {"role": role, "content": text}
        yield {"role": role, "content": text, "name": "n"}
        yield {"role": role, "content": text, "type": "message"}
        yield {"role": role, "content": text, "foreign": {}}
    for url in ("data:image/png;base64,aGk=", "https://a.b/c.png", "data:,", "", None):
        words: Any = {"type": "text", "text": "See."}
        for image in ({"url": url}, {"url": url, "detail": "low"}, {}, url):
            for kind in ("image_url", "file"):
                part = {"type": kind, "image_url": image}
                yield {"role": "user", "content": [words, part]}
                yield {"role": "user", "content": [part]}
                yield {"role": "tool", "tool_call_id": "c", "content": [part]}
        words = {"type": "input_text", "text": "See."}
        for part in (
            {"type": "input_image", "image_url": url},
            {"type": "input_image", "image_url": url, "detail": "low"},
        ):
            yield {"role": "user", "content": [words, part]}
            yield {"type": "message", "role": "user", "content": [words, part]}
            yield {"type": "function_call_output", "call_id": "c", "output": [part]}
    for name, text in product(NAMES, TEXTS):
        yield {"role": "tool", "tool_call_id": name, "content": text}
        yield {"type": "function_call_output", "call_id": name, "output": text}
        yield {"type": "function_call_output", "call_id": name, "output": text, "id": "i"}
    for name, arguments in product(NAMES, ARGUMENTS):
        yield {"type": "function_call", "call_id": "c", "name": name, "arguments": arguments}
        told = {"type": "function_call", "call_id": name, "name": "ls", "arguments": arguments}
        yield told
        yield {**told, "id": "fc_1", "status": "completed"}
        call = {"id": name, "type": "function", "function": {"name": "ls", "arguments": arguments}}
        for text in ("Now.", "", None):
            said = {"role": "assistant", "content": text, "tool_calls": [call]}
            yield said
            yield {**said, "tool_calls": []}
            yield {**said, "reasoning_content": "hm"}
            yield {**said, "reasoning": "hm", "reasoning_content": text, "annotations": []}
            yield {**said, "audio": None, "refusal": "no", "reasoning_details": [{"text": "hm"}]}
            yield {**said, "tool_calls": [{**call, "index": 0}]}
            yield {**said, "tool_calls": [call, {"id": "c2", "type": "custom", "custom": {}}]}
    for content in ([], [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]):
        head = {"type": "message", "role": "assistant", "content": content}
        yield from (
            head,
            {**head, "id": "m1", "status": "completed"},
            {**head, "id": "m1", "x": None},
        )
        yield {**head, "id": "m1", "content": [*content, *content]}
    for summary in ([], [{"type": "summary_text", "text": "hm"}], None, "hm"):
        thought = {"id": "rs_1", "type": "reasoning", "summary": summary}
        yield from (thought, {**thought, "encrypted_content": "gAAA", "content": None})
        yield {**thought, "content": [{"type": "reasoning_text", "text": "hm"}]}
    yield {
        "type": "function_call_output",
        "call_id": "c",
        "output": [{"type": "input_text", "text": "a"}],
    }


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_quickly_is_what_the_reader_gives(form: str):
    row, quick = provider_of(form), 0
    for item in odd_items(form):
        found = quickly_read(item, row)
        if found is not None:
            quick += 1
            assert repr([found]) == repr(by_its_reader(item, row)), item
    assert quick > 20


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(1, 5))
def test_conversations_are_read_alike(form: str, seed: int):
    row = provider_of(form)
    items = row.shape.to_provider(scenario(seed, tokens=8_000).messages).parts[row.list_key]
    found = [(item, quickly_read(item, row)) for item in items]
    assert all([one] == by_its_reader(item, row) for item, one in found if one is not None)
    assert sum(one is not None for _, one in found) > len(found) / 2


def two_rounds(call: dict[str, Any], result: dict[str, Any], said: list[Any]) -> list[Any]:
    return [
        {
            "role": "assistant",
            "content": [*said, {"type": "tool_use", "id": CALL, "name": "ls", **call}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": CALL, **result}]},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Go on."},
    ]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_quickly_is_what_the_writer_gives(form: str):
    row, quick = provider_of(form), 0
    kept = [
        {},
        {"arguments": '{"a": 1}'},
        {"item": {"id": "i"}},
        {"unparsed": True},
        {"type": "custom"},
        {"call": {"index": 0}, "arguments": '{"a": 1}'},
    ]
    own = row.carrier or form
    calls = [{"input": {"a": 1}, "foreign": {own: each}} for each in kept] + [{"input": {"a": 1}}]
    calls += [{"input": {"a": 1}, "foreign": {"gemini": {}}}, {"input": {}, "cache_control": {}}]
    results = [{"content": "fine"}, {"content": [{"type": "text", "text": "a"}]}]
    results += [{"content": "fine", "foreign": {own: {"message": {"name": "ls"}}}}]
    results += [{"content": "bad", "is_error": True}, {"content": "fine", "cache_control": {}}]
    text = {"type": "text", "text": "Now."}
    for call, result, said in product(calls, results, ([], [text], [text, text])):
        messages = two_rounds(call, result, said)
        assert row.plain_form is not None
        found = row.plain_form.write_plain(messages, row)
        if found is not None:
            quick += 1
            written = row.shape.to_provider([BEFORE, *messages])
            assert written.losses == ()
            assert not written.ids
            assert not written.names
            assert json.dumps(found) == json.dumps(written.parts[row.list_key][1:])
    assert quick >= 4


@pytest.mark.parametrize("form", FORMS)
def test_a_block_of_another_type_is_not_written_as_its_text(form: str):
    row, messages = provider_of(form), two_rounds({"input": {}}, {"content": "fine"}, [])
    messages[0]["content"].insert(0, {"type": "novel", "text": "Now."})
    assert row.plain_form is not None
    assert row.plain_form.write_plain(messages, row) is None


def test_json_that_no_text_holds_takes_the_longer_way():
    row, value = provider_of("bedrock"), {"a": float("nan")}
    result = {"toolResult": {"toolUseId": CALL, "content": [{"json": value}]}}
    read = by_its_reader({"role": "user", "content": [result]}, row)
    messages = [two_rounds({"input": {}}, {}, [])[0], *read]
    assert row.plain_form is not None
    assert row.plain_form.write_plain(messages, row) is None


def real_rounds(form: str, seed: int) -> Iterator[list[Any]]:
    """Rounds as servers answer them, and as they come with a key or a block changed; in the internal view."""
    rng, row = random.Random(seed), provider_of(form)
    for number in range(12):
        turns = [bodies.turn(form, 3 * number + each, ugly=rng.random() < 0.8) for each in range(2)]
        items: list[Any] = []
        for turn in turns:
            said = read_response(turn.answer, row)[1] if turn.whole else turn.answer
            given = [copy.deepcopy(item) for item in (*said, *turn.results)]
            items += [changed(item, rng) if rng.random() < 0.2 else item for item in given]
        messages: list[Any] = []
        for item in (given_as_json(each, row) for each in items):
            with suppress(InvalidMessage):  # a change may make it unreadable
                place, still = len(messages) + 1, partial(still_open, messages)
                messages += read_item(item, row, position=place, open_calls=still)
        yield messages


def still_open(messages: list[Any]) -> list[tuple[str, str]]:
    """Id and name of each call that has no result."""
    blocks = [
        block for each in messages if isinstance(each["content"], list) for block in each["content"]
    ]
    done = {block.get("tool_use_id") for block in blocks}
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    return [(str(call["id"]), str(call["name"])) for call in calls if call["id"] not in done]


def changed(item: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """An item with one of its keys, or of its parts' keys, left out or of another value."""
    parts = [
        each
        for key in ("content", "tool_calls", "parts")
        for each in item.get(key) or ()
        if isinstance(each, dict)
    ]
    parts += [held for part in parts for held in part.values() if isinstance(held, dict) and held]
    place = rng.choice([item, *parts])
    key = rng.choice(list(place))
    if rng.random() < 0.5 and key not in ("role", "content", "type"):
        del place[key]
    else:
        place[key] = rng.choice(["", "other", [], {}, 7, place[key]])
    return item


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(25))
def test_real_rounds_are_written_as_the_longer_way_writes_and_repairs_them(form: str, seed: int):
    row, model, quick = provider_of(form), bodies.FORMS[form][0], 0
    parts = row.shape.to_provider((), tools=[{"name": "ls", "input_schema": {}}]).parts
    for messages in real_rounds(form, seed):
        assert row.plain_form is not None
        calls = rounds(messages, row)
        found = None if calls is None else row.plain_form.write_plain(messages, row)
        if found is not None and calls is not None and json_of(found):
            quick += 1
            shared = getattr(row.plain_form, "shared", lambda items: ())
            expected = [*calls_of(messages), *import_module(row.check).shared(messages, found)]
            assert {*calls, *shared(found)} == set(expected)
            whole = Continued(row, model, parts).write(messages)
            assert whole is not None
            assert [*whole.repairs, *whole.losses] == []
            assert json.dumps(found) == json.dumps(whole.messages)
    assert quick
