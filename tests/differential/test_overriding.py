"""Instances of classes that answer for themselves: both engines count what is stored."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.differential.test_text import weights
from ullage import _reference as twin
from ullage.exceptions import InvalidMessage

rust = pytest.importorskip("ullage._core")


class Text(str):
    """Says something else than it holds."""

    __slots__ = ()

    def __len__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 1

    def __getitem__(self, at: Any) -> str:
        return "q"

    def __iter__(self) -> Any:
        return iter("q")

    def __str__(self) -> str:
        return "w"

    def encode(self, *_: Any) -> bytes:
        return b"x"

    def isascii(self) -> bool:
        return True

    def translate(self, *_: Any) -> str:
        return "q"


class Object(dict):  # type: ignore[type-arg]
    """Has nothing, to hear it."""

    def get(self, *_: Any) -> Any:
        return None

    def __getitem__(self, key: Any) -> Any:
        return "other"

    def __contains__(self, key: Any) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def keys(self) -> Any:
        return [].__iter__()

    def values(self) -> Any:
        return [].__iter__()

    def items(self) -> Any:
        return [].__iter__()


class Items(list):  # type: ignore[type-arg]
    """The same of a list."""

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, at: Any) -> Any:
        raise IndexError(at)


class Row(tuple):  # type: ignore[type-arg]
    """The same of a tuple."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def disguised(value: Any, draw: Any) -> Any:
    """The value with some of its parts in classes that answer for themselves."""
    hidden = draw(st.booleans())
    if isinstance(value, str):
        return Text(value) if hidden else value
    if isinstance(value, dict):
        named = {(Text(key) if draw(st.booleans()) else key): one for key, one in value.items()}
        made = {key: disguised(one, draw) for key, one in named.items()}
        return draw(st.sampled_from([Object, OrderedDict]))(made) if hidden else made
    if isinstance(value, list):
        parts = [disguised(one, draw) for one in value]
        return draw(st.sampled_from([Items, Row, tuple]))(parts) if hidden else parts
    return value


words = st.text(max_size=30)
values = st.recursive(
    st.one_of(words, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
contents = st.one_of(
    words,
    st.lists(
        st.one_of(
            words.map(lambda text: {"type": "text", "text": text}),
            values.map(lambda value: {"type": "tool_use", "id": "t", "name": "f", "input": value}),
            words.map(lambda t: {"type": "tool_result", "tool_use_id": "t", "content": t}),
            words.map(
                lambda t: {
                    "type": "image",
                    "source": {"type": "base64", "data": t, "media_type": "image/png"},
                }
            ),
        ),
        max_size=4,
    ),
)
items = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant", "system"]),
    contents,
)


def counted(engine: Any, item: Any) -> Any:
    """All that an engine tells of an item."""
    try:
        ledger = engine.Ledger(weights(engine), [item])
    except InvalidMessage as error:
        return error.reason, error.field, error.got
    return (
        tuple(ledger.message(0)),
        [tuple(block) for block in ledger.blocks(0)],
        ledger.tokens(),
        ledger.find_call(Text("t")),
        ledger.media_indices(),
        engine.media_indices([item]),
    )


@given(items, st.data())
def test_a_message_counts_as_what_it_holds(item: Any, data: Any) -> None:
    hidden = disguised(item, data.draw)
    plain = counted(rust, item)
    assert counted(rust, hidden) == plain
    assert counted(twin, hidden) == plain
    assert counted(twin, item) == plain


@given(words)
def test_texts_are_what_they_hold(text: str) -> None:
    for name in ("features", "rough_text", "count_text", "encode_text", "image_size"):
        expected = getattr(rust, name)(text)
        assert getattr(twin, name)(Text(text)) == getattr(rust, name)(Text(text)) == expected
    assert twin.count_text_up_to(Text(text), 2) == rust.count_text_up_to(Text(text), 2)


@pytest.mark.parametrize("key", [(0,), Row((0,)), 3, None])
def test_keys_that_json_does_not_have_are_treated_alike(key: Any) -> None:
    for made in (dict, Object):
        odd = made({key: Text("a")})
        for item in (odd, {"role": "user", "content": [odd]}):
            assert counted(twin, item) == counted(rust, item)


def test_rings_and_shared_parts_are_refused_or_counted_alike() -> None:
    ring = Object(type="tool_use", id="t", name="f")
    dict.__setitem__(ring, "input", {"a": ring})
    shared = Items([Object(a="x")])
    for _ in range(12):
        shared = Items([shared, shared])
    for block in (ring, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": shared}}):
        item = {"role": "assistant", "content": [block]}
        assert counted(twin, item) == counted(rust, item)


def test_nothing_is_copied_or_changed_without_need() -> None:
    item = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    before = copy.deepcopy(item)
    assert twin.ledger.stored(item) is item
    assert item == before
    odd = Object(role="user", content="a")
    ledger = twin.Ledger(None, [odd])
    assert ledger.sync([odd]) == 0, "the item itself is what is known"
