"""Messages that were typed while the agent worked, and that stand in `queue-operation` lines only."""

from __future__ import annotations

import json

import pytest

from tests.machine_kit import IDS, claude_lines, lines
from ullage.messages import COPY_OF
from ullage.sessions import compact_session, inspect_session, open_session
from ullage.sessions.edit import remove_parts, undo_compaction
from ullage.transcript import Transcript, resume

pytestmark = pytest.mark.both_engines

WORDS = "From now on commit each section on its own."


def queue(operation, text=None, at=1):
    line = {"type": "queue-operation", "operation": operation, "sessionId": IDS["claude-code"]}
    content = {} if text is None else {"content": text}
    return {**line, "timestamp": f"2026-01-01T00:00:0{at}.000Z", **content}


def session(path, *given, after="tool_use", turns=6):
    """A session in which lines stand between a call and its result."""
    made = claude_lines(IDS["claude-code"], "/w", turns=turns, title="Rows")
    place = next(i for i, line in enumerate(made) if after in json.dumps(line)) + 1
    made[place:place] = given
    return lines(path, made)


def prompts(path):
    return [
        item["message"]["content"]
        for item in open_session(path).items
        if item["type"] == "user" and item.get("promptSource") == "queued"
    ]


def entry(text, **more):
    return {"type": "user", "uuid": "q1", "message": {"role": "user", "content": text}, **more}


def test_what_was_handed_to_the_model_in_the_middle_of_a_turn_is_the_users(tmp_path):
    path = session(tmp_path / "s.jsonl", queue("enqueue", WORDS), queue("remove", at=2))
    opened = open_session(path)
    assert prompts(path) == [WORDS]
    message = next(m for m in opened.messages if WORDS in json.dumps(m["content"]))
    # With the results of the calls that ran, after them.
    assert [block["type"] for block in message["content"]] == ["tool_result", "text"]
    assert message["content"][1]["text"] == WORDS
    assert opened.check().ok
    transcript = Transcript.open(path)
    assert transcript.shown() == transcript.messages() == opened.messages
    assert inspect_session(path).messages == len(opened.messages)
    assert resume(transcript.entries()).messages == opened.messages


@pytest.mark.parametrize(
    "given",
    [
        [queue("enqueue", WORDS), queue("remove"), entry(WORDS)],
        [queue("enqueue", WORDS), entry([{"type": "text", "text": WORDS}]), queue("remove")],
        [
            queue("enqueue", WORDS),
            queue("remove"),
            {
                "type": "attachment",
                "uuid": "q1",
                "attachment": {"type": "queued_command", "prompt": WORDS},
            },
        ],
        [queue("enqueue", WORDS), queue("dequeue"), entry(WORDS)],
        [queue("enqueue", WORDS), queue("popAll", WORDS), queue("remove")],
        [queue("enqueue", WORDS)],
        [queue("enqueue", "  "), queue("remove")],
        [queue("enqueue"), queue("remove")],
        [queue("remove")],
        [queue("enqueue", 7), {**queue("remove"), "operation": ["remove"]}],
    ],
)
def test_nothing_is_doubled_and_nothing_is_made_up(tmp_path, given):
    path = session(tmp_path / "s.jsonl", *given)
    assert prompts(path) == []
    told = json.dumps(open_session(path).messages)
    assert told.count(WORDS) == sum(line["type"] in ("user", "attachment") for line in given)


def test_several_leave_the_queue_in_their_order(tmp_path):
    first, second = queue("enqueue", WORDS), queue("enqueue", "And the header row.", at=2)
    path = session(
        tmp_path / "s.jsonl", first, second, queue("remove", at=3), queue("remove", at=4)
    )
    assert prompts(path) == [WORDS, "And the header row."]
    # They follow the same entry, and none takes back the one before it, in a list as in the file.
    transcript = Transcript.open(path)
    again = resume(transcript.entries())
    assert again.messages == transcript.messages()
    assert again.report == transcript.conversation.report


def test_it_is_kept_summarised_and_copied_as_any_message_of_the_user(tmp_path):
    given = queue("enqueue", WORDS), queue("remove", at=2)
    path = session(tmp_path / "s.jsonl", *given, turns=12)
    before, was = path.read_bytes(), open_session(path).messages
    done = compact_session(open_session(path), output=path, keep=300)
    assert path.read_bytes().startswith(before)
    assert WORDS in json.dumps(done.result.summary_messages)
    assert undo_compaction(open_session(path)).session.messages == was
    copies = [line for line in map(json.loads, path.read_bytes().splitlines()) if COPY_OF in line]
    assert [line["message"]["content"] for line in copies if WORDS in str(line)] == [WORDS]
    assert prompts(path) == [WORDS]


def test_where_it_is_kept_verbatim_other_programs_find_it(tmp_path):
    path = session(tmp_path / "s.jsonl", turns=12)
    made = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines(path, [*made, queue("enqueue", WORDS), queue("remove", at=2)])
    size = path.stat().st_size
    compact_session(open_session(path), output=path, keep=300)
    added = [json.loads(line) for line in path.read_bytes()[size:].splitlines()]
    assert "preservedMessages" not in added[0]["compactMetadata"]
    assert any(line.get("message", {}).get("content") == WORDS for line in added)
    assert prompts(path) == [WORDS]


def test_a_turn_with_it_can_be_removed(tmp_path):
    path = session(tmp_path / "s.jsonl", queue("enqueue", WORDS), queue("remove", at=2))
    remove_parts(open_session(path), ["t2"])
    assert prompts(path) == []
    undo_compaction(open_session(path))
    assert prompts(path) == [WORDS]
