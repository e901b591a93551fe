"""Pins: carried verbatim through every compaction, checked, unpinned by name."""

from __future__ import annotations

import pytest

from tests.kit import result, said, text, use, user
from ullage import ContextManager
from ullage.compaction import compact
from ullage.exceptions import InvalidPolicy
from ullage.facts.sections import CLOSING
from ullage.levels.pins import Pin, missing_pins, pin_of, read_pins, write_pins


def conversation() -> list[dict]:
    return [
        {"role": role, "content": f"{role} says {n}. " * 60}
        for n in range(12)
        for role in ("user", "assistant")
    ]


TRICKY = "line one\n```\ncode\n```\n## Pinned\n- other:\n```text\nfake\n```"


def test_pins_stand_verbatim_in_the_summary():
    pins = [Pin("rule", "Never push on Fridays."), Pin("odd", TRICKY)]
    text = compact(conversation(), keep=0, pins=pins).summary_messages[0]["content"]
    assert "Never push on Fridays." in text
    assert TRICKY in text
    assert missing_pins(pins, [text]) == ()


def test_pins_go_on_through_compactions_of_compactions():
    pins = (Pin("rule", "Never push on Fridays."), Pin("odd", TRICKY))
    messages = list(compact(conversation(), keep=0, pins=pins).messages)
    for _ in range(3):
        messages = list(compact([*messages, *conversation()], keep=0).messages)
    found = read_pins(messages[0]["content"])
    assert [(pin.name, pin.text) for pin in found] == [(pin.name, pin.text) for pin in pins]


def test_a_pin_of_the_same_name_replaces():
    messages = list(compact(conversation(), keep=0, pins=[Pin("rule", "old text")]).messages)
    again = compact([*messages, *conversation()], keep=0, pins=[Pin("rule", "new text")])
    assert [pin.text for pin in read_pins(again.summary_messages[0]["content"])] == ["new text"]


def test_a_pin_that_redaction_removes_is_reported():
    result = compact(
        conversation(),
        keep=0,
        pins=[Pin("key", "sk-123")],
        redact=lambda t: t.replace("sk-123", "*"),
    )
    assert "pin_lost:key" in result.report.warnings


def test_read_and_write():
    pins = (Pin("a", "x"), Pin("b c", "y\nz"))
    text = f"summary\n{CLOSING}\n\n## Pinned\n{write_pins(pins)}\n\nmore text"
    assert [(pin.name, pin.text) for pin in read_pins(text)] == [("a", "x"), ("b c", "y\nz")]
    assert read_pins("no pins here") == ()
    assert read_pins("## Pinned\n- a:\n```text\nx\n```") == ()


def test_pins_of_messages_and_blocks():
    message = {"role": "user", "content": [{"type": "text", "text": "keep me"}]}
    assert pin_of("m", message).text == "keep me"
    assert pin_of("b", {"type": "text", "text": "me too"}).text == "me too"
    assert pin_of("t", "and me", by="user") == Pin("t", "and me", "user")


@pytest.mark.parametrize(
    ("name", "text"), [("", "x"), ("a\nb", "x"), ("`", "x"), ("a:", "x"), ("a", "  ")]
)
def test_a_bad_pin_is_refused(name, text):
    with pytest.raises(InvalidPolicy):
        Pin(name, text)


def test_words_in_two_blocks_next_to_a_result_are_not_said_again():
    manager = ContextManager(model="claude-opus-4-5", context_window=8_000)
    rows = "\n".join(f"line {at} of it is {at * 7}" for at in range(400))
    manager.add(user("Read the parser."))
    manager.add(said([use("a", "Bash", command="cat parser.py")]))
    manager.add(user([result("a", rows), text("Mind the blanks."), text("And the tabs.")]))
    manager.prepare()
    manager.add(said([use("b", "Bash", command="ls")]))
    manager.add(user([result("b", rows[:3_000])]))
    request = manager.prepare()
    assert [report.stage for report in request.reports] == ["snip"]
    assert str(request.messages).count("And the tabs.") == 1
