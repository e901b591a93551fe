"""Images and documents of the newest user message are carried, or named, through every compaction."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.legality import assert_legal
from ullage.compaction import compact
from ullage.transcript.index import resume

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "A" * 3_000_000}
HUGE = {"type": "document", "source": PDF}


def work(count: int = 6) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n in range(count):
        call = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "Read",
            "input": {"file_path": f"/w/{n}"},
        }
        done = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "line\n" * 600}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [done]}]
    return messages


def asked(*media: Any) -> list[dict[str, Any]]:
    said = {"type": "text", "text": "Make it look like this."}
    return [{"role": "user", "content": [said, *media]}, *work()]


def entries(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made, parent = [], None
    for n, message in enumerate(messages):
        entry = {"type": message["role"], "uuid": f"u{n}", "parentUuid": parent, "sessionId": "s"}
        made.append({**entry, "timestamp": f"2026-01-01T00:00:{n:02}.000Z", "message": message})
        parent = f"u{n}"
    return made


def sent(result: Any) -> list[Any]:
    """The blocks of the first message of the new context."""
    messages = resume(result.messages).messages if result.boundary in result.messages else None
    content = (messages or result.messages)[0]["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


@pytest.mark.parametrize("form", [list, entries], ids=["bare", "entries"])
def test_an_image_goes_on_with_the_summary(form):
    result = compact(form(asked(IMAGE)), keep=0)
    assert IMAGE in sent(result)
    assert "Make it look like this." in sent(result)[0]["text"]
    assert_legal("anthropic", [{"role": "user", "content": sent(result)}])


@pytest.mark.parametrize("form", [list, entries], ids=["bare", "entries"])
def test_it_goes_on_through_the_next_compaction_too(form):
    first = compact(form(asked(IMAGE)), keep=0)
    more = [*first.messages, *(entries(work())[1:] if form is entries else work())]
    if form is entries:
        more = list(first.messages)
        parent = more[-1]["uuid"]
        for n, message in enumerate(work()):
            entry = {
                "type": message["role"],
                "uuid": f"v{n}",
                "parentUuid": parent,
                "sessionId": "s",
            }
            more.append({**entry, "timestamp": f"2026-01-02T00:00:{n:02}.000Z", "message": message})
            parent = f"v{n}"
    second = compact(more, keep=0)
    assert second.compacted
    assert IMAGE in sent(second)


def test_what_is_said_of_carried_images_is_not_the_newest_message_of_the_user():
    """A session's second compaction took the heading over the images for the user's words."""
    first = compact(asked(IMAGE, HUGE), keep=0)
    second = compact([*first.messages, *work()[1:]], keep=0)
    summary = second.summary_messages[0]["content"][0]["text"]
    assert "Images and documents" not in summary
    assert summary.count(asked()[0]["content"][0]["text"]) >= 1


def test_an_input_that_is_kept_keeps_its_image_itself():
    messages = [*work(), *asked(IMAGE)[:1]]
    result = compact(messages, keep=0)
    assert result.messages[-1] is messages[-1]
    assert isinstance(result.summary_messages[0]["content"], str)


def test_an_older_input_gives_way_to_the_newest():
    messages = [*asked(IMAGE), {"role": "user", "content": "Now something else."}, *work()]
    result = compact(messages, keep=0)
    assert isinstance(result.summary_messages[0]["content"], str)


def test_what_is_too_large_is_named():
    result = compact(entries(asked(HUGE, IMAGE)), keep=0, transcript_path="/t.jsonl")
    assert IMAGE in sent(result)
    assert HUGE not in sent(result)
    assert "too large to repeat: 1;" in sent(result)[-1]["text"]
    assert "u0 in /t.jsonl" in sent(result)[-1]["text"]


def test_a_cache_marker_does_not_go_along():
    marked = {**IMAGE, "cache_control": {"type": "ephemeral"}}
    assert IMAGE in sent(compact(asked(marked), keep=0))
