"""Compactions taken back and parts removed by appended lines, and sessions under a new id."""

from __future__ import annotations

import json
import os

import pytest

from tests.machine_kit import IDS, Machine, claude_lines, gemini_lines, lines, pi_lines, rollout
from tests.oracle.legality import assert_legal
from ullage.exceptions import InvalidPolicy, LogConflict, StoreError
from ullage.messages import CLEARED
from ullage.sessions import compact_session, open_session
from ullage.sessions.edit import remove_parts, session_parts, undo_compaction
from ullage.sessions.inspected import dollars_of
from ullage.sessions.save import new_session

TALK = ("user", "assistant", "attachment")


def objects(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def by_the_boundary(path):
    """A loader that takes what follows the newest boundary, with the messages that it names in their place."""
    found = objects(path)
    cuts = [at for at, line in enumerate(found) if line.get("subtype") == "compact_boundary"]
    cut = cuts[-1] if cuts else 0
    metadata = found[cut].get("compactMetadata") or {}
    kept = metadata.get("preservedMessages") or {"uuids": [], "anchorUuid": ""}
    view = []
    for line in found[cut:]:
        if line.get("type") in TALK:
            view.append(line)
        if kept["uuids"] and line.get("uuid") == kept["anchorUuid"]:
            known = {each.get("uuid"): each for each in found}
            view += [known[uuid] for uuid in kept["uuids"]]
    return [said_in(line) for line in view]


def said_in(line):
    """A message's content; what a client attached stands in another key of its line."""
    return line["message"]["content"] if "message" in line else line["attachment"]


def along_parents(path):
    """A loader that only walks from the newest entry to its oldest ancestor."""
    known = {line["uuid"]: line for line in objects(path) if "uuid" in line}
    at = [line for line in objects(path) if line.get("type") in TALK][-1]["uuid"]
    view = []
    while at:
        if known[at]["type"] in TALK:
            view.append(said_in(known[at]))
        at = known[at].get("parentUuid")
    return view[::-1]


@pytest.fixture(params=["claude_code", "codex", "pi"])
def path(request, tmp_path):
    made = claude_lines(IDS["claude-code"], "/w", turns=12, title="Rows")
    if request.param == "codex":
        made = rollout(IDS["codex"], "/w", turns=12)
    if request.param == "pi":
        made = pi_lines(IDS["pi"], "/w", turns=12)
        for line in made:
            line.get("message", {}).get("usage", {}).update(input=4_000)
    return lines(tmp_path / "s.jsonl", made)


def say(path, text):
    """One more turn, as the tool itself would append it."""
    if open_session(path).format == "codex":
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
        more = {"timestamp": "2026-01-02T00:00:00.000Z", "type": "response_item", "payload": item}
    elif open_session(path).format == "pi":
        said = {"role": "user", "content": [{"type": "text", "text": text}]}
        more = {"type": "message", "id": os.urandom(4).hex(), "parentId": objects(path)[-1]["id"]}
        more |= {"timestamp": "2026-01-02T00:00:00.000Z", "message": said}
    else:
        last = [line for line in objects(path) if "uuid" in line][-1]["uuid"]
        more = {"type": "user", "uuid": f"say-{text}", "parentUuid": last, "sessionId": "s"}
        more |= {"isSidechain": False, "message": {"role": "user", "content": text}}
    with path.open("a") as file:
        file.write(json.dumps(more) + "\n")


def texts(session):
    return str([message["content"] for message in session.messages])


def test_an_undo_shows_what_was_there_and_what_was_said_since(path):
    before = open_session(path)
    compact_session(before, output=path, keep=500)
    compacted = path.read_bytes()
    say(path, "and now the writer")
    size = path.stat().st_size
    done = undo_compaction(open_session(path))
    assert path.read_bytes()[:size].startswith(compacted)
    now = open_session(path)
    assert now.messages[: len(before.messages)] == before.messages
    assert texts(now).count("and now the writer") == 1
    assert (done.messages_after, done.left) == (len(now.messages), 0)
    assert done.tokens_after > done.tokens_before
    assert dollars_of(now) == dollars_of(before)
    assert_legal("anthropic", now.request().messages)


def test_each_undo_takes_back_one_compaction_more(path):
    views = [open_session(path).messages]
    for keep in (1_000, 300):
        done = compact_session(open_session(path), output=path, keep=keep)
        assert done.result.compacted
        views.append(open_session(path).messages)
    assert undo_compaction(open_session(path)).left == 1
    assert open_session(path).messages == views[1]
    assert undo_compaction(open_session(path)).left == 0
    assert open_session(path).messages == views[0]
    with pytest.raises(InvalidPolicy, match="no compaction to take back") as caught:
        undo_compaction(open_session(path))
    assert "going on from this one" in caught.value.hint


def test_a_compaction_after_an_undo_is_taken_back_as_well(path):
    before = open_session(path).messages
    for _ in range(2):
        compact_session(open_session(path), output=path, keep=500)
        undo_compaction(open_session(path))
        assert open_session(path).messages == before


def test_both_loaders_find_the_same_after_an_undo_and_an_edit(tmp_path):
    path = lines(tmp_path / "s.jsonl", claude_lines("s", "/w", turns=12))
    before = open_session(path)
    compact_session(before, output=path, keep=500)
    say(path, "go on")
    undo_compaction(open_session(path))
    assert by_the_boundary(path) == along_parents(path)
    remove_parts(open_session(path), ["t2", "r5"])
    assert by_the_boundary(path) == along_parents(path)
    shown = [line["content"] for line in open_session(path).messages]
    assert str(shown[0])[:9] == str(by_the_boundary(path)[0])[:9]
    assert len({line["uuid"] for line in objects(path)}) == len(objects(path))


def test_nothing_is_written_by_a_dry_run(path):
    compact_session(open_session(path), output=path, keep=500)
    data = path.read_bytes()
    undo_compaction(open_session(path), write=False)
    remove_parts(open_session(path), [session_parts(open_session(path))[-1].name], write=False)
    assert path.read_bytes() == data


def test_a_file_that_grew_meanwhile_is_left_alone(path):
    compact_session(open_session(path), output=path, keep=500)
    opened = open_session(path)
    say(path, "meanwhile")
    data = path.read_bytes()
    with pytest.raises(LogConflict):
        undo_compaction(opened)
    with pytest.raises(LogConflict):
        remove_parts(opened, ["t1"])
    assert path.read_bytes() == data
    assert [each.name for each in path.parent.iterdir()] == ["s.jsonl"]


def test_an_edit_only_ever_appends(path, monkeypatch):
    """A file that is missing for a moment, as while another program saves it, is not replaced by the copy that was tried."""
    session, before = open_session(path), path.read_bytes()
    inode = path.stat().st_ino
    monkeypatch.setattr("ullage.sessions.save._is_own", lambda session, target: False)
    remove_parts(session, ["t1"])
    assert path.stat().st_ino == inode
    assert path.read_bytes().startswith(before)


def test_a_format_without_words_for_it_is_refused_with_advice(tmp_path):
    path = lines(tmp_path / "gemini.jsonl", gemini_lines(IDS["gemini"]))
    with pytest.raises(InvalidPolicy, match="Claude Code, Codex and pi") as caught:
        remove_parts(open_session(path), ["t1"])
    assert "handoff" in caught.value.hint
    made = pi_lines(IDS["pi"], "/w", turns=12)
    old = [{k: v for k, v in line.items() if k not in ("id", "parentId")} for line in made[1:]]
    path = lines(tmp_path / "old.jsonl", [made[0], *old])
    with pytest.raises(InvalidPolicy, match="without ids"):
        remove_parts(open_session(path), ["t1"])
    compact_session(open_session(path), output=path, keep=500)
    with pytest.raises(InvalidPolicy, match="without ids"):
        undo_compaction(open_session(path))


def test_an_undo_in_pis_file_is_another_branch(tmp_path):
    path = lines(tmp_path / "s.jsonl", pi_lines(IDS["pi"], "/w", turns=12))
    before = open_session(path)
    views = [before.messages]
    for keep in (1_000, 300):
        compact_session(open_session(path), output=path, keep=keep)
        views.append(open_session(path).messages)
    data = path.read_bytes()
    assert undo_compaction(open_session(path), write=False).messages_after == len(views[1])
    assert path.read_bytes() == data
    assert undo_compaction(open_session(path)).left == 1
    assert open_session(path).messages == views[1]
    said = {"role": "user", "content": [{"type": "text", "text": "and now the writer"}]}
    last = objects(path)[-1]["id"]
    with path.open("a") as file:
        more = {
            "type": "message",
            "id": "deadbeef",
            "parentId": last,
            "timestamp": "2026-01-02T00:00:00.000Z",
        }
        file.write(json.dumps({**more, "message": said}) + "\n")
    done = undo_compaction(open_session(path))
    assert path.read_bytes().startswith(data)
    now = open_session(path)
    assert now.messages[:-1] == views[0]
    assert texts(now).count("and now the writer") == 1
    assert (done.left, done.messages_after) == (0, len(now.messages))
    assert dollars_of(now) == dollars_of(before)
    ids = [line["id"] for line in objects(path)]
    assert len(set(ids)) == len(ids)
    with pytest.raises(InvalidPolicy, match="no compaction to take back"):
        undo_compaction(now)


@pytest.fixture
def compacted(tmp_path):
    """A pi session whose compaction keeps its newest turns, with one turn more."""
    made = pi_lines(IDS["pi"], "/w", turns=12)
    made.insert(
        1, {"type": "model_change", "id": "model", "parentId": None, "modelId": "claude-opus-4-5"}
    )
    made[2]["parentId"] = "model"
    path = lines(tmp_path / "s.jsonl", made)
    compact_session(open_session(path), output=path, keep=1_000)
    say(path, "and now the writer")
    return path


@pytest.mark.parametrize("chosen", ["t1", "t2", "t3", "t4", "r1", "r2"])
def test_parts_of_a_compacted_pi_session_go_and_come_back(compacted, chosen):
    before = open_session(compacted)
    part = next(each for each in session_parts(before) if each.name == chosen)
    now = remove_parts(before, [chosen])
    gone = part.messages if part.kind == "turn" else 0
    assert len(now.messages) == len(before.messages) - gone
    assert now.messages == open_session(compacted).messages
    assert now.model == before.model
    assert texts(now).count(CLEARED) == (part.kind == "result")
    say(compacted, "go on")
    done = undo_compaction(open_session(compacted))
    assert done.session.messages[:-1] == before.messages[:-1]
    assert texts(done.session).count("go on") == texts(done.session).count("the writer") == 1
    assert done.left == 1
    assert len(undo_compaction(done.session).session.messages) == 49
    ids = [line["id"] for line in objects(compacted)]
    assert len(set(ids)) == len(ids)


def test_a_pi_session_is_compacted_after_an_edit_and_both_are_taken_back(compacted):
    views = [open_session(compacted).messages]
    views.append(remove_parts(open_session(compacted), ["t2", "r1"]).messages)
    compact_session(open_session(compacted), output=compacted, keep=300)
    assert undo_compaction(open_session(compacted)).session.messages == views[1]
    assert undo_compaction(open_session(compacted)).session.messages == views[0]


# ---- edit -------------------------------------------------------------------------------------


def test_the_parts_are_turns_with_their_results(path):
    opened = open_session(path)
    parts = session_parts(opened)
    turns = [part for part in parts if part.kind == "turn"]
    results = [part for part in parts if part.kind == "result"]
    assert [part.name for part in turns] == [f"t{at}" for at in range(1, 13)]
    assert [part.name for part in results] == [f"r{at}" for at in range(1, 13)]
    assert sum(part.messages for part in turns) == len(opened.items)
    assert all(
        part.first <= result.first <= part.last for part, result in zip(turns, results, strict=True)
    )
    assert ("f4.py" if opened.format == "pi" else "file_4.py") in results[4].title
    assert all(
        turn.tokens > result.tokens > 50 for turn, result in zip(turns, results, strict=True)
    )


def test_chosen_parts_leave_the_view_and_come_back(path):
    before = open_session(path)
    now = remove_parts(before, ["t3", "r7"])
    assert now.messages == open_session(path).messages
    assert len(now.messages) == len(before.messages) - 4
    assert "Done with 2." not in texts(now)
    assert "file_2.py" not in texts(now)
    assert texts(now).count(CLEARED) == 1
    parts = {part.call: part for part in session_parts(now) if part.call}
    assert [part.name for part in parts.values() if part.cleared] == ["r6"]
    assert_legal("anthropic", [*now.request().messages, {"role": "user", "content": "go on"}])
    assert undo_compaction(now).left == 0
    assert open_session(path).messages == before.messages


def test_a_result_goes_by_the_id_of_its_call_too(path):
    call = session_parts(open_session(path))[1].call
    assert texts(remove_parts(open_session(path), [call])).count(CLEARED) == 1


@pytest.mark.parametrize("names", [["t99"], ["x"], [f"t{at}" for at in range(1, 13)]])
def test_a_wrong_choice_changes_nothing(path, names):
    data = path.read_bytes()
    with pytest.raises(InvalidPolicy, match="--remove"):
        remove_parts(open_session(path), names)
    assert path.read_bytes() == data


def test_an_incomplete_last_line_stays_and_the_view_follows_it(tmp_path):
    path = lines(tmp_path / "s.jsonl", claude_lines("s", "/w", turns=4))
    with path.open("a") as file:
        file.write('{"type":"user","uu')
    now = remove_parts(open_session(path), ["t1"])
    assert '{"type":"user","uu\n' in path.read_text()
    assert len(now.messages) == 12


# ---- a new session ----------------------------------------------------------------------------


def compacted_in_place(session, path):
    return compact_session(session, output=path, keep=500)


@pytest.mark.parametrize(
    ("made", "command"),
    [
        (lambda: claude_lines(IDS["claude-code"], "/w", turns=12), "claude --resume new-id"),
        (lambda: rollout(IDS["codex"], "/w", turns=12), "codex resume new-id"),
        (lambda: pi_lines(IDS["pi"], "/w", turns=12), "pi --session "),
    ],
)
def test_a_new_session_has_an_id_of_its_own_and_leaves_the_old_one(tmp_path, made, command):
    path = lines(tmp_path / "old name.jsonl", made())
    data = path.read_bytes()
    before = open_session(path)
    fresh = new_session(before, compacted_in_place, name="new-id")
    assert path.read_bytes() == data
    assert fresh.path.parent == path.parent
    now = open_session(fresh.path)
    assert (now.id, now.format) == ("new-id", before.format)
    assert now.messages == fresh.done.messages
    assert len(now.messages) < len(before.messages)
    assert fresh.resume_line.startswith(command)
    assert before.id not in {line.get("sessionId") for line in objects(fresh.path)}
    assert fresh.path.stat().st_mode & 0o777 == 0o600


def test_where_nothing_is_compacted_no_file_stays(tmp_path):
    path = lines(tmp_path / "s.jsonl", claude_lines("s", "/w", turns=1))
    fresh = new_session(
        open_session(path), lambda session, into: compact_session(session, output=into)
    )
    assert not fresh.done.result.compacted
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_session_that_exists_is_never_replaced(tmp_path):
    path = lines(tmp_path / "s.jsonl", claude_lines("s", "/w", turns=12))
    (tmp_path / "taken.jsonl").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        new_session(open_session(path), compacted_in_place, name="taken")
    assert (tmp_path / "taken.jsonl").read_text() == "mine"


def test_words_in_a_session_that_look_like_its_id_stay(tmp_path):
    made = claude_lines("old", "/w", turns=12)
    made[0]["message"]["content"] = '"sessionId":"old" is the key'
    path = lines(tmp_path / "old.jsonl", made)
    fresh = new_session(open_session(path), compacted_in_place, name="new")
    assert objects(fresh.path)[0]["message"]["content"] == '"sessionId":"old" is the key'


def test_the_commands(tmp_path, monkeypatch):
    pytest.importorskip("cyclopts")
    from tests.kit import report, ullage

    machine = Machine(tmp_path, monkeypatch).fill(turns=12)
    made = report("compact", IDS["claude-code"], "--new-session", "--keep", "500")
    assert made["resume"] == f"claude --resume {made['session']}"
    said = ullage("compact", IDS["claude-code"], "--new-session", "--keep", "400").stdout
    assert made["folder"]
    assert f"  (in {made['folder']})" in said
    undone = report("undo", made["session"])
    assert undone["messages_after"] > undone["messages_before"]
    assert undone["would_be_refused"] == []
    listed = report("edit", IDS["codex"])
    assert len(listed["parts"]) == 24
    removed = report("edit", IDS["codex"], "--remove", "t1", "r3", "--dry-run")
    assert removed["messages_before"] - removed["messages_after"] == 4
    assert removed["tokens_after"] < removed["tokens_before"]
    assert ullage("edit", IDS["codex"], "--remove", "t1").returncode == 0
    assert "r1" in ullage("edit", IDS["codex"]).stdout
    refused = ullage("compact", machine.files["gemini"], "--new-session")
    assert (refused.returncode, "handoff" in refused.stderr) == (2, True)


def test_what_codex_is_given_back_keeps_its_items_and_roles(tmp_path):
    stamp = "2026-01-01T00:00:00.000Z"

    def line(payload, kind="response_item"):
        return {"timestamp": stamp, "type": kind, "payload": payload}

    def message(role, text):
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        return line({"type": "message", "role": role, "content": [part]})

    name = "019f0000-0000-7000-8000-000000000001"
    path = tmp_path / f"rollout-2026-01-01T00-00-00-{name}.jsonl"
    rows = [
        line({"id": name, "timestamp": stamp, "cwd": "/p"}, "session_meta"),
        message("developer", "<permissions instructions>never push</permissions instructions>"),
        message("user", "first task"),
        line({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}),
        line({"type": "function_call_output", "call_id": "c1", "output": "x" * 3000}),
        message("assistant", "ok"), message("user", "second"), message("user", "quick"),
        message("assistant", "ok"),
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = [part.name for part in session_parts(open_session(path))]
    remove_parts(open_session(path), ["r1"])
    assert [part.name for part in session_parts(open_session(path))] == before
    history = objects(path)[-1]["payload"]["replacement_history"]
    assert [item.get("role") for item in history] == ["developer", "user", None, None, "assistant", "user", "user", "assistant"]  # fmt: skip


def test_a_line_without_a_uuid_does_not_hinder_an_undo(tmp_path):
    from tests.kit.transcripts import Layout, session_file
    from ullage.testing import scenario

    path = tmp_path / "session.jsonl"
    rows = [json.loads(row) for row in session_file(scenario(7, tokens=30_000), layout=Layout()).to_bytes().splitlines()]  # fmt: skip
    del rows[-3]["uuid"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = open_session(path).messages
    compact_session(open_session(path), output=path, overwrite=True)
    undo_compaction(open_session(path))
    assert open_session(path).messages == before
