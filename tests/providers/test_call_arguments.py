"""Arguments of calls are read the quick way as `json` reads them."""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from ullage.providers import _common as _json
from ullage.providers._common import arguments_in, arguments_out, dumps, loads_object

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(["\x7f", "\u2028", "é\"\\\b\x1f", 10**18, -(2**63), 2**64])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
GIVEN = st.dictionaries(st.text(), VALUES, max_size=4) | VALUES
ODD = (
    '{"a":1,"a":2}', '{"a":-0}', '{"a":-0.0}', '{"a":1e16}', '{"a":1E5}', '{"a":123456789012345678901234}', '{"a":NaN}', '{"a":"\\ud800"}',
    '{"a":"\ud800"}', '{"a":"\\u00e9"}', '{"a":"\\/"}', ' {"a":1}', '{"a":1} ', '{"a":1}}', '{"a":"\t"}', "", "{}", "[]", "null", '"x"', '{"a":01}',
    '{"a":[' * 400 + "]}" * 400, '{"a":' * 200 + "1" + "}" * 200, "\ufeff{}", '{"e1":"1.5"}',
)  # fmt: skip


def by_json(text: str) -> Any:
    value = loads_object(text)
    if value is None:
        return {"arguments": text}, {"unparsed": True}
    return value, ({} if dumps(value) == text else {"arguments": text})


def alike(text: str) -> None:
    ours, theirs = arguments_in(text), by_json(text)
    assert repr(ours) == repr(theirs)


@settings(max_examples=300)
@given(GIVEN, st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_as_json_reads_them(value: Any, separators: tuple[str, str], ascii_only: bool) -> None:
    alike(json.dumps(value, separators=separators, ensure_ascii=ascii_only))


@pytest.mark.parametrize("text", ODD)
def test_odd_texts(text: str) -> None:
    alike(text)


def test_most_texts_are_read_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_json, "loads_object")  # the longer way's
    for text in (
        '{"command":"make all"}',
        '{"path": "/src/a_1.py", "limit": 200}',
        '{"q":"naïve 漢字"}',
    ):
        assert arguments_in(text)[0] == json.loads(text)


def test_long_texts_cost_little_more_than_reading_and_writing_their_json() -> None:
    text = json.dumps({"path": "a.py", "content": "for at in range(10): print(at)\n" * 3_000})
    read, data = arguments_in(text)
    block = {"input": read}

    def seconds(work: Callable[[], object]) -> float:
        return min(timeit.repeat(work, number=5, repeat=5))

    bare = seconds(lambda: orjson.dumps(orjson.loads(text)) == text.encode())
    # A pattern that was searched for in the text took 200 times as long.
    assert seconds(lambda: arguments_in(text)) < 20 * bare
    assert seconds(lambda: arguments_out(block, data)) < 20 * bare
