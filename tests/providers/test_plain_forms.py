"""The quick way for plain messages of OpenAI's forms gives what the form's own reader and writer give, or nothing."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from benches import bodies

from ullage.exceptions import InvalidMessage
from ullage.legality.params import json_of
from ullage.manager.written_form import _are_rounds
from ullage.providers.native_lists import read_item
from ullage.providers.registry import Provider, provider_of
from ullage.providers.sdk_objects import given_as_json, read_response
from ullage.requests.to_request import Continued
from ullage.testing import scenario

FORMS = ("openai_chat", "openai_responses", "mistral")
CALL = "c12345678"
"""An id that every form takes."""

BEFORE = {"role": "user", "content": "."}


def by_its_reader(item: Any, row: Provider) -> list[Any]:
    """As the longer way reads it, which leaves out what is null."""
    return list(row.shape.from_provider([given_as_json(item, row)]).messages)


def quickly_read(item: Any, row: Provider) -> Any:
    assert row.plain_form is not None
    return row.plain_form.read_plain(item)


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


def odd_items(form: str) -> Iterator[dict[str, Any]]:
    """Items that are plain, and each of their parts in other forms."""
    roles = ("user", "assistant", "tool", "system", "developer", "function", None)
    for role, text in product(roles, TEXTS):
        yield {"role": role, "content": text}
        yield {"role": role, "content": text, "name": "n"}
        yield {"role": role, "content": text, "type": "message"}
        yield {"role": role, "content": text, "foreign": {}}
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
    del form


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_quickly_is_what_the_reader_gives(form: str):
    row, quick = provider_of(form), 0
    for item in odd_items(form):
        found = quickly_read(item, row)
        if found is not None:
            quick += 1
            assert [found] == by_its_reader(item, row), item
    assert quick > 20


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(1, 5))
def test_conversations_are_read_alike(form: str, seed: int):
    row = provider_of(form)
    items = row.shape.to_provider(scenario(seed, tokens=8_000).messages).parts[row.list_key]
    found = [(item, quickly_read(item, row)) for item in items]
    assert all([one] == by_its_reader(item, row) for item, one in found if one is not None)
    assert sum(one is not None for _, one in found) > len(found) / 2


def rounds(call: dict[str, Any], result: dict[str, Any], said: list[Any]) -> list[Any]:
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
        messages = rounds(call, result, said)
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
                messages += read_item(item, row, position=len(messages) + 1, open_calls=list)
        yield messages


def changed(item: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """An item with one of its keys, or of its parts' keys, left out or of another value."""
    parts = [
        each
        for key in ("content", "tool_calls")
        for each in item.get(key) or ()
        if isinstance(each, dict)
    ]
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
    for messages in real_rounds(form, seed):
        assert row.plain_form is not None
        plain = _are_rounds(messages, form)
        found = row.plain_form.write_plain(messages, row) if plain else None
        if found is not None and json_of(found):
            quick += 1
            whole = Continued(row, model, {}).write(messages)
            assert whole is not None
            assert [*whole.repairs, *whole.losses] == []
            assert json.dumps(found) == json.dumps(whole.messages)
    assert quick
