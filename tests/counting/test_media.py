"""Which messages hold media, and how it is taken out (MED-1)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import ullage.counting.media_stripping

IMAGE = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
PDF = {"type": "document", "source": {"type": "base64", "data": "AAAA"}}
TEXT = {"type": "text", "text": "hi"}
SHOWN = {"type": "text", "text": "[image]"}
READ = {"type": "text", "text": "[document]"}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def result(*content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": list(content)}


WITH = [
    user(IMAGE),
    user(TEXT, PDF),
    user(result(TEXT, IMAGE)),
    {"type": "user", "message": user(IMAGE), "uuid": "u"},
    {"role": "tool", "tool_call_id": "t", "content": [{"type": "image_url", "image_url": "x"}]},
    user({"type": "input_file", "file_data": "x"}),
    {"role": "user", "content": (IMAGE,)},
]
WITHOUT = [
    user(TEXT),
    {"role": "user", "content": "image"},
    {"role": "assistant", "content": [IMAGE]},
    {"role": "system", "content": [IMAGE]},
    user({"type": "note", "content": [IMAGE]}),
    user(result(result(IMAGE))),
    {"type": "attachment", "content": [IMAGE]},
    {"role": ["user"], "content": [IMAGE]},
    {"role": "user"},
    user(None, "image", {"type": 5}),
    5,
    None,
]


@pytest.mark.parametrize("item", WITH)
def test_with_media(engine: Any, item: Any) -> None:
    items = [item, user(TEXT), item]
    assert engine.media_indices(items) == engine.Ledger(None, items).media_indices() == [0, 2]


@pytest.mark.parametrize("item", WITHOUT)
def test_without_media(engine: Any, item: Any) -> None:
    assert engine.media_indices([item]) == []


def test_sequences(engine: Any) -> None:
    assert engine.media_indices((user(IMAGE),)) == [0]
    assert engine.media_indices([]) == []


@pytest.fixture
def strip(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(ullage.counting.media_stripping, "core", engine)
    return ullage.counting.media_stripping.strip_media


def test_media_becomes_text(strip: Any) -> None:
    items = [user(TEXT, IMAGE, PDF), user(result(IMAGE, TEXT), TEXT)]
    assert strip(items) == [user(TEXT, SHOWN, READ), user(result(SHOWN, TEXT), TEXT)]


def test_the_rest_stays_the_same_object(strip: Any) -> None:
    calm, mixed = user(result(TEXT)), user(TEXT, result(TEXT), IMAGE)
    first, second = strip([calm, mixed])
    assert first is calm
    assert second["content"][0] is TEXT
    assert second["content"][1] is mixed["content"][1]


def test_entries_keep_their_envelope(strip: Any) -> None:
    message = {**user(IMAGE), "extra": 1}
    (changed,) = strip([{"type": "user", "uuid": "u", "message": message}])
    assert changed == {"type": "user", "uuid": "u", "message": {**user(SHOWN), "extra": 1}}


def test_the_input_is_not_changed(strip: Any) -> None:
    before = copy.deepcopy(WITH)
    strip(WITH)
    assert before == WITH


def test_placeholders_are_not_shared(strip: Any) -> None:
    (changed,) = strip([user(IMAGE, IMAGE)])
    changed["content"][0]["text"] = "mine"
    assert changed["content"][1] == SHOWN
    assert strip([user(IMAGE)]) == [user(SHOWN)]


def test_stripping_twice_changes_nothing(strip: Any) -> None:
    once = strip(WITH)
    assert all(new is old for new, old in zip(strip(once), once, strict=True))
