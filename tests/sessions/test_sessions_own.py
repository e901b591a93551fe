"""Compactions in the words of Codex and of pi: what those tools would show their model is what was compacted."""

from __future__ import annotations

import json

import pytest

from tests.oracle.legality import assert_legal
from ullage.exceptions import InvalidPolicy, LogConflict, StoreError
from ullage.sessions import compact_session, open_session, save
from ullage.sessions.save import shown

WORDS = "The parser drops the last row when the file has no line end. "


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# ---- Codex -----------------------------------------------------------------------------------


def said(role, text):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def turn(at):
    arguments = json.dumps({"path": f"src/file_{at}.py"})
    return [
        said("user", f"{at}: {WORDS}"),
        {"type": "reasoning", "summary": [], "encrypted_content": f"sealed-{at}"},
        {"type": "function_call", "name": "read", "call_id": f"call {at}", "arguments": arguments},
        {"type": "function_call_output", "call_id": f"call {at}", "output": WORDS * 9},
        said("assistant", f"Done with {at}."),
    ]


def rollout(tmp_path, *, turns=30, more=()):
    lines = [{"type": "session_meta", "payload": {"id": "s1", "cwd": "/w"}}]
    lines += [{"type": "response_item", "payload": said("developer", "Be brief.")}]
    for at in range(turns):
        lines += [{"type": "response_item", "payload": item} for item in turn(at)]
    path = tmp_path / "rollout.jsonl"
    stamped = ({"timestamp": "2026-01-01T00:00:00.000Z", **line} for line in [*lines, *more])
    path.write_text("".join(json.dumps(line) + "\n" for line in stamped))
    return path


def as_codex_reads(path):
    """What Codex goes on from: the newest replacement, and the items after it."""
    history = []
    for line in lines_of(path):
        if line["type"] == "compacted":
            history = list(line["payload"]["replacement_history"])
        elif line["type"] == "response_item":
            history.append(line["payload"])
    return history


def test_codex_goes_on_from_what_was_compacted(tmp_path):
    path, target = rollout(tmp_path), tmp_path / "out.jsonl"
    opened = open_session(path)
    done = compact_session(opened, output=target, keep=1_000)
    assert (done.format, dict(done.losses)) == ("codex", {})
    assert target.read_bytes().startswith(path.read_bytes())
    *_, compacted, event = lines_of(target)
    assert (compacted["type"], event["payload"]) == ("compacted", {"type": "context_compacted"})
    payload = compacted["payload"]
    assert payload["message"] == payload["replacement_history"][0]["content"][0]["text"]
    assert as_codex_reads(target) == shown("codex", done.messages)
    assert "sealed-29" in str(as_codex_reads(target))
    assert "sealed-3'" not in str(as_codex_reads(target))


def test_a_compacted_codex_session_opens_as_it_was_handed_out(tmp_path):
    target = tmp_path / "out.jsonl"
    done = compact_session(open_session(rollout(tmp_path)), output=target, keep=1_000)
    again = open_session(target)
    assert (again.format, again.messages, again.warnings) == ("codex", done.messages, ())
    assert [bool(item.get("isCompactSummary")) for item in again.items][:2] == [True, False]
    assert len(again.boundaries) == 1
    # The calls that stay are the same calls, though their ids stand in the file twice.
    assert "call 29" in str(again.messages)
    assert "call 29-2" not in str(again.messages)
    request = again.request(provider="openai_responses")
    assert request.messages[0]["role"] == "user"
    assert_legal("anthropic", [*again.request().messages, {"role": "user", "content": "go on"}])


def test_a_compaction_of_a_compaction_replaces_the_first_summary(tmp_path):
    session = open_session(rollout(tmp_path))
    for number, keep in enumerate((2_000, 500, 0)):
        target = tmp_path / f"{number}.jsonl"
        done = compact_session(session, output=target, keep=keep)
        session = open_session(target)
        assert session.messages == done.messages
        assert len(session.boundaries) == number + 1
        assert sum(bool(item.get("isCompactSummary")) for item in session.items) == 1
        assert as_codex_reads(target) == shown("codex", session.messages)


def test_windows_are_numbered_on_where_the_file_numbers_them(tmp_path):
    ids = {"window_number": 4, "first_window_id": "w0", "window_id": "w4"}
    payload = {"message": "", "replacement_history": [said("user", WORDS * 40)], **ids}
    more = [{"type": "compacted", "payload": payload}]
    more += [
        {"type": "response_item", "payload": item} for at in range(90, 99) for item in turn(at)
    ]
    target = tmp_path / "out.jsonl"
    compact_session(open_session(rollout(tmp_path, more=more)), output=target, keep=500)
    written = [line["payload"] for line in lines_of(target) if line["type"] == "compacted"][-1]
    assert written["window_number"] == 5
    assert (written["first_window_id"], written["previous_window_id"]) == ("w0", "w4")
    assert written["window_id"] not in ("w0", "w4", "")
    plain = tmp_path / "plain.jsonl"
    compact_session(open_session(rollout(tmp_path)), output=plain, keep=500)
    assert "window_id" not in lines_of(plain)[-2]["payload"]


@pytest.mark.parametrize(
    "history", [[said("user", "Fix it."), said("user", "So far: all done.")], None]
)
def test_a_summary_that_codex_wrote_is_read_once(tmp_path, history):
    """Codex's own compaction without a server puts its summary in the line and in the history."""
    payload = {"message": "So far: all done.", "replacement_history": history}
    session = open_session(rollout(tmp_path, more=[{"type": "compacted", "payload": payload}]))
    texts = [str(message["content"]) for message in session.messages]
    assert sum("So far" in text for text in texts) == 1
    flags = [bool(item.get("isCompactSummary")) for item in session.items]
    assert flags == ([False, True] if history else [True])


def test_in_place_is_one_line_more_or_nothing(tmp_path):
    path = rollout(tmp_path)
    opened, before = open_session(path), path.read_bytes()
    done = compact_session(opened, output=path, keep=1_000)
    assert done.path == path
    assert path.read_bytes().startswith(before)
    assert open_session(path).messages == done.messages
    assert list(tmp_path.iterdir()) == [path]
    # Codex wrote in between: what was read is not what stands there.
    stale, now = opened, path.read_bytes()
    with pytest.raises(LogConflict, match="changed since"):
        compact_session(stale, output=path, keep=1_000)
    assert path.read_bytes() == now
    assert list(tmp_path.iterdir()) == [path]


def test_a_incomplete_last_line_stays_and_is_closed(tmp_path):
    path = rollout(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"timestamp": "t", "type": "resp')
    target = tmp_path / "out.jsonl"
    done = compact_session(open_session(path), output=target, keep=1_000)
    assert target.read_bytes().startswith(path.read_bytes() + b"\n{")
    assert open_session(target).messages == done.messages


def test_lone_surrogates_are_written_and_read(tmp_path):
    more = [{"type": "response_item", "payload": said("user", "half \ud83d of it")}]
    target = tmp_path / "out.jsonl"
    done = compact_session(open_session(rollout(tmp_path, more=more)), output=target, keep=500)
    assert done.messages[-1]["content"][0]["text"] == "half \ud83d of it"
    assert open_session(target).messages == done.messages


def test_a_try_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = rollout(tmp_path)
    done = compact_session(open_session(path), keep=1_000)
    assert (done.path, done.format, done.result.compacted) == (None, "codex", True)
    assert list(tmp_path.iterdir()) == [path]


# ---- pi --------------------------------------------------------------------------------------


def pi_session(tmp_path, *, linked):
    lines = [{"type": "session", "id": "p1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w"}]

    def add(message):
        line = {"type": "message", "timestamp": "2026-01-01T00:00:01.000Z", "message": message}
        if linked:
            line |= {"id": f"{len(lines):08x}", "parentId": lines[-1].get("id")}
        lines.append(line)

    for at in range(30):
        call = {
            "type": "toolCall",
            "id": f"c{at}",
            "name": "read",
            "arguments": {"path": f"{at}.py"},
        }
        add({"role": "user", "content": [{"type": "text", "text": f"{at}: {WORDS}"}]})
        add(
            {
                "role": "assistant",
                "content": [call],
                "api": "anthropic-messages",
                "model": "claude-opus-4-5",
            }
        )
        result = [{"type": "text", "text": WORDS * 9}]
        add({"role": "toolResult", "toolCallId": f"c{at}", "toolName": "read", "content": result})
        done = [{"type": "text", "text": f"Done with {at}."}]
        add(
            {
                "role": "assistant",
                "content": done,
                "api": "anthropic-messages",
                "model": "claude-opus-4-5",
            }
        )
    path = tmp_path / "pi.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def as_pi_reads(path):
    """The summary, the messages from the named place on, and those after the compaction."""
    lines = lines_of(path)
    at = max(at for at, line in enumerate(lines) if line["type"] == "compaction")
    line = lines[at]
    first = line.get("firstKeptEntryIndex")
    if first is None:
        first = next(
            at for at, each in enumerate(lines) if each.get("id") == line["firstKeptEntryId"]
        )
    return line["summary"], [each["message"] for each in lines[first:] if each["type"] == "message"]


@pytest.mark.parametrize("linked", [False, True])
def test_pi_goes_on_from_what_was_compacted(tmp_path, linked):
    path = pi_session(tmp_path, linked=linked)
    session, before = open_session(path), len(lines_of(path))
    for number, keep in enumerate((3_000, 1_500, 500)):
        target = tmp_path / f"{number}.jsonl"
        done = compact_session(session, output=target, keep=keep)
        assert (done.format, dict(done.losses)) == ("pi", {})
        summary, messages = as_pi_reads(target)
        assert summary in str(done.messages[0]["content"]).replace("\\n", "\n")
        assert len(messages) == len(done.result.report.kept)
        assert messages[-1] == lines_of(path)[-1]["message"]
        session = open_session(target)
        assert (session.format, session.messages, session.warnings) == ("pi", done.messages, ())
        assert sum(bool(item.get("isCompactSummary")) for item in session.items) == 1
        line = lines_of(target)[before + number]
        assert ("firstKeptEntryId" in line, "parentId" in line) == (linked, linked)


def test_nothing_kept_is_a_summary_alone(tmp_path):
    target = tmp_path / "out.jsonl"
    done = compact_session(open_session(pi_session(tmp_path, linked=False)), output=target, keep=0)
    assert done.format == "pi"
    assert len(as_pi_reads(target)[1]) == len(done.result.report.kept)


# ---- where there are no words ----------------------------------------------------------------


def test_what_a_format_cannot_say_goes_to_claude_codes(tmp_path, monkeypatch):
    path = pi_session(tmp_path, linked=False)
    opened, before = open_session(path), path.read_bytes()
    monkeypatch.setattr(save, "_pi", lambda *_: [])
    done = compact_session(opened, output=tmp_path / "out.jsonl", keep=500)
    assert done.format == open_session(tmp_path / "out.jsonl").format == "claude_code"
    for options in ({"format": "pi", "output": tmp_path / "other.jsonl"}, {"output": path}):
        with pytest.raises(StoreError, match="no words"):
            compact_session(opened, keep=500, **options)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.jsonl", "pi.jsonl"]


def test_lines_that_read_back_differently_are_not_written(tmp_path, monkeypatch):
    path, real = pi_session(tmp_path, linked=False), save._pi
    monkeypatch.setattr(save, "_pi", lambda *given: [{**real(*given)[0], "firstKeptEntryIndex": 3}])
    assert compact_session(open_session(path), keep=500).format == "claude_code"


@pytest.mark.parametrize("asked", ["codex", "cline", "pi"])
def test_a_format_that_is_not_the_sessions_is_refused(tmp_path, asked):
    path = tmp_path / "plain.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}]))
    with pytest.raises(InvalidPolicy, match="must be claude_code") as caught:
        compact_session(open_session(path), format=asked)
    assert asked in str(caught.value)


# ---- what only Codex may send ------------------------------------------------------------------


def agent_message(*parts):
    return {"type": "agent_message", "author": "a1", "recipient": "main", "content": list(parts)}


def test_what_codex_agents_wrote_each_other_is_no_item_for_others(tmp_path):
    """The public API has no such item: its text is a user's message there, what is sealed is left out and counted."""
    sealed = {"type": "encrypted_content", "encrypted_content": "REDACTED"}
    more = [
        agent_message({"type": "input_text", "text": "The tests pass now."}),
        {"type": "function_call", "name": "read", "call_id": "late", "arguments": "{}"},
        agent_message(sealed),
        {"type": "function_call_output", "call_id": "late", "output": "x"},
        said("assistant", "Good."),
        agent_message({"type": "input_text", "text": "I am done."}, sealed),
    ]
    lines = [{"type": "response_item", "payload": item} for item in more]
    opened = open_session(rollout(tmp_path, turns=2, more=lines))
    request = opened.request(provider="openai_responses")
    assert "agent_message" not in {item.get("type") for item in request.messages}
    assert [loss.what for loss in request.losses].count("agent_message") == 3
    text = json.dumps(request.messages)
    assert ("REDACTED" in text, text.count("The tests pass now."), text.count("I am done.")) == (
        False, 1, 1,
    )  # fmt: skip
    assert request.messages[-1]["role"] == "user"
    assert not request.left
    assert opened.check(provider="openai_responses").ok
    # Within Codex it stays.
    assert str(shown("codex", opened.messages)).count("agent_message") == 3
