"""Both engines read the same text, JSON and images alike."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ullage import _reference as twin

core: Any = pytest.importorskip("ullage._core")

TEXT = st.text(st.characters(codec=None, exclude_categories=[])) | st.text(
    st.sampled_from(
        "abzAZ059_-/. \n\t\r\0\x7féß\xa0«жЩאعक가漢字かー、！—→│✓\u0301\ud800\udfff🎉𠀀"
    ),
    max_size=80,
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON = st.recursive(
    SCALARS,
    lambda items: (
        st.lists(items, max_size=4)
        | st.dictionaries(
            TEXT | st.integers() | st.floats() | st.booleans() | st.none(), items, max_size=4
        )
    ),
    max_leaves=12,
)


def weights(module: Any, **changes: Any) -> Any:
    numbers: dict[str, Any] = {
        "features": [100 + 37 * at for at in range(len(twin.features("")))],
        "blocks": range(15),
        "messages": range(5),
    }
    numbers |= changes
    return module.Weights(
        numbers.pop("features"), **{name: tuple(n) for name, n in numbers.items()}
    )


def outcome(call: Any, *args: Any, **named: Any) -> Any:
    """The result, or all of an error that a caller can see."""
    try:
        return call(*args, **named)
    except Exception as error:  # every error must be the same one
        return type(error), str(error), vars(error)


@given(TEXT)
def test_features_of_a_text(text: str) -> None:
    assert core.features(text) == twin.features(text)


@given(TEXT, st.integers(0, 3000))
def test_features_do_not_depend_on_blocks(text: str, repeat: int) -> None:
    long = (text + "x") * (repeat // (len(text) + 1))
    assert core.features(long) == twin.features(long)


@given(TEXT)
def test_estimates_of_a_text(text: str) -> None:
    assert core.estimate_text(text, weights(core)) == twin.estimate_text(text, weights(twin))
    assert core.rough_text(text) == twin.rough_text(text)


def as_input(module: Any, value: Any) -> tuple[int, int]:
    """Characters and calibrated tokens of a value as the input of a call."""
    call = {"type": "tool_use", "id": "t", "name": "", "input": value}
    ledger = module.Ledger(weights(module), [{"role": "assistant", "content": [call]}])
    return ledger.blocks(0)[0].chars, ledger.blocks(0)[0].tokens


@given(JSON)
def test_json(value: Any) -> None:
    assert as_input(core, value) == as_input(twin, value)


@given(JSON)
def test_json_is_as_long_as_the_standard_library_writes_it(value: Any) -> None:
    built = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert as_input(core, value)[0] == len(built)


HEADS = [
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    b"GIF89a",
    b"RIFF\x10\0\0\0WEBPVP8X",
    b"RIFF\x10\0\0\0WEBPVP8L\0\0\0\0\x2f",
    b"RIFF\x10\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a",
    b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\x01\xff\xc0\0\x11\x08",
    b"\xff\xd8",
    b"",
]


@given(st.sampled_from(HEADS), st.binary(max_size=40), st.sampled_from(["", "é", "漢", "🎉", "="]))
def test_image_size(head: bytes, tail: bytes, after: str) -> None:
    data = base64.b64encode(head + tail).decode() + after
    assert core.image_size(data) == twin.image_size(data)


@given(st.text(st.sampled_from("ABCiVBORw0KGgo/9j=+é"), max_size=60))
def test_image_size_of_anything(data: str) -> None:
    assert core.image_size(data) == twin.image_size(data)


SIDES = st.integers(0, 5000) | st.integers(-1, 2**32)


@given(SIDES, SIDES, st.lists(st.integers(0, 3000), min_size=4, max_size=4))
def test_image_tokens(width: int, height: int, image: list[int]) -> None:
    ours = outcome(core.image_tokens, width, height, weights(core, image=image))
    assert ours == outcome(twin.image_tokens, width, height, weights(twin, image=image))


BAD_WEIGHTS = [
    {"features": [1]},
    {"blocks": []},
    {"messages": [1, 2, 3, 4, -1]},
    {"blocks": [2**20 + 1] * 15},
    {"image": [1, 2, 3]},
    {"image": [28, 1568, 1568, 2**32]},
    {"messages": ["1"] * 5},
    {"hidden": [1]},
    {"hidden": [1, 2**20 + 1]},
]


@pytest.mark.parametrize("changes", BAD_WEIGHTS)
def test_bad_weights(changes: dict[str, Any]) -> None:
    ours = outcome(weights, core, **changes)
    assert ours == outcome(weights, twin, **changes)
    assert issubclass(ours[0], (ValueError, TypeError))


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BAD_JSON = {
    "object": object(),
    "set": {1, 2},
    "bytes": {"a": b""},
    "tuple key": {(1,): 2},
    "long integer": [1 << 20_000],
    "deep": deep(129),
    "complex key": {"a": {2j: 1}},
}


@pytest.mark.parametrize("value", BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_no_json(value: Any) -> None:
    ours = outcome(as_input, core, value)
    assert ours == outcome(as_input, twin, value)
    assert ours[0].__name__ == "InvalidMessage"


def test_depth_up_to_the_limit_counts() -> None:
    assert as_input(core, deep(128))[0] == as_input(twin, deep(128))[0] == 257


@pytest.mark.parametrize("name", ["features", "rough_text", "image_size"])
def test_what_is_no_text_is_a_type_error(name: str) -> None:
    for module in (core, twin):
        with pytest.raises(TypeError):
            getattr(module, name)(b"bytes")
