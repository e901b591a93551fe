"""The quick way for plain messages of OpenAI's forms gives what the form's own reader and writer give, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from ullage.providers.registry import Provider, provider_of
from ullage.testing import scenario

FORMS = ("openai_chat", "openai_responses")
BEFORE = {"role": "user", "content": "."}


def by_its_reader(item: Any, row: Provider) -> list[Any]:
    return list(row.shape.from_provider([item]).messages)


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
            yield {**said, "tool_calls": [{**call, "index": 0}]}
            yield {**said, "tool_calls": [call, {"id": "c2", "type": "custom", "custom": {}}]}
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
            "content": [*said, {"type": "tool_use", "id": "c1", "name": "ls", **call}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", **result}]},
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
    ]
    calls = [{"input": {"a": 1}, "foreign": {form: each}} for each in kept] + [{"input": {"a": 1}}]
    calls += [{"input": {"a": 1}, "foreign": {"gemini": {}}}, {"input": {}, "cache_control": {}}]
    results = [{"content": "fine"}, {"content": [{"type": "text", "text": "a"}]}]
    results += [{"content": "bad", "is_error": True}, {"content": "fine", "cache_control": {}}]
    text = {"type": "text", "text": "Now."}
    for call, result, said in product(calls, results, ([], [text], [text, text])):
        messages = rounds(call, result, said)
        assert row.plain_form is not None
        found = row.plain_form.write_plain(messages)
        if found is not None:
            quick += 1
            written = row.shape.to_provider([BEFORE, *messages])
            assert written.losses == ()
            assert not written.ids
            assert not written.names
            assert json.dumps(found) == json.dumps(written.parts[row.list_key][1:])
    assert quick >= 4
