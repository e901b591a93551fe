"""The size of a request's body (A23): bytes of its JSON, whatever stands in it."""

from __future__ import annotations

import orjson
import pytest

from ullage.legality import validate
from ullage.legality.originals import json_of


@pytest.mark.parametrize(
    "value", [{"a": [1, "é", None]}, {1: "a", "b": {2.5: True}}, {"a": {"b": {None: "x"}}}, "text"]
)
def test_bytes_are_those_of_the_json(value):
    assert len(json_of(value)) == len(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))


def test_what_is_no_json_counts_as_its_repr():
    assert len(json_of({"a": object})) == len(orjson.dumps({"a": repr(object)}))
    assert len(json_of({1: object})) == len(orjson.dumps({"1": repr(object)}))


@pytest.mark.parametrize("value", [{"a": 2**70}, {1: 2**70}, {(1, 2): "a"}])
def test_what_cannot_be_written_counts_nothing(value):
    assert json_of(value) == b""


@pytest.mark.parametrize("key", ["a", 1])
def test_a_body_is_judged_by_its_size_whatever_its_keys_are(key):
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {key: "x" * 100}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [call]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}],
        },
    ]
    size = len(json_of({"messages": messages, "system": None, "tools": None}))
    assert validate(messages, facts={"body_limit": size}).ok
    assert validate(messages, facts={"body_limit": size - 1}).rules == {"A23"}
