"""More screenshots than a request may hold: the oldest go in one batch, so that the prefix then stays as it is."""

from __future__ import annotations

import pytest

from tests.levels.test_levels_golden import MODEL, asked, screenshots
from tests.oracle.legality import assert_legal
from ullage.manager import ContextManager

pytestmark = pytest.mark.both_engines


def taken(count: int, **options) -> ContextManager:
    manager = ContextManager(model=MODEL, context_window=1_000_000, **options)
    for message in asked(*screenshots(count)):
        manager.add(message)
    return manager


def images(messages) -> int:
    return str(messages).count("'type': 'image'")


def test_after_a_batch_the_next_screenshots_change_nothing_before_them():
    manager, steps = taken(101), screenshots(125)[101:]
    first = manager.prepare()
    assert [report.stage for report in first.reports] == ["image_limit"]
    assert (first.repairs, images(first.messages)) == ((), 75)
    for messages in steps:
        for message in messages:
            manager.add(message)
        after = manager.prepare()
        assert (after.reports, after.repairs) == ((), ())
        assert after.messages[: len(first.messages)] == first.messages
        assert_legal("anthropic", after.messages, model=MODEL)
    assert images(after.messages) == 99


def test_the_text_next_to_an_image_stays_and_says_what_is_missing():
    request = taken(101).prepare()
    assert request.messages[2]["content"][0]["content"] == (
        "result 0\nword \n[image left out: a request holds at most 100]"
    )


def test_images_that_no_answer_has_followed_are_shown():
    call, result = zip(*screenshots(101), strict=True)
    manager = ContextManager(model=MODEL, context_window=1_000_000)
    manager.add({"role": "user", "content": "Look at all of them."})
    manager.add({"role": "assistant", "content": [each["content"][0] for each in call]})
    manager.add({"role": "user", "content": [each["content"][0] for each in result]})
    request = manager.prepare()
    assert request.reports == ()
    # Only the one too many is replaced, and only in this request.
    assert [repair.rule for repair in request.repairs] == ["A21"]
    assert images(request.messages) == 100


def test_a_form_without_such_a_limit_keeps_all():
    manager = ContextManager(model="gpt-5.4", provider="openai_chat", context_window=1_000_000)
    for message in asked(*screenshots(101)):
        manager.add(message)
    assert manager.prepare().reports == ()


def test_what_was_left_out_stays_so_after_a_restart(tmp_path):
    manager = taken(101, log=tmp_path / "log.jsonl")
    first = manager.prepare()
    manager.close()
    with ContextManager.resume(tmp_path / "log.jsonl") as again:
        assert again.prepare().messages == first.messages
