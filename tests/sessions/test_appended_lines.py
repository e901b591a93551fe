"""Lines appended to another program's file carry what its own lines carry, and its pointers name what is to be shown."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from tests.machine_kit import IDS, claude_lines, lines, pi_lines, rollout
from tests.oracle.legality import assert_legal
from ullage import ContextManager
from ullage.exceptions import StoreError
from ullage.messages import COPY_OF
from ullage.sessions import compact_session, inspect_session, open_session
from ullage.sessions.edit import remove_parts, undo_compaction
from ullage.sessions.save import new_session
from ullage.testing import conversation

MODEL = "claude-opus-4-5"


def objects(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def compact(path):
    assert compact_session(open_session(path), output=path, keep=300).result.compacted
    return path


def fresh(path):
    def act(session, target):
        return compact_session(session, output=target, keep=300)

    return new_session(open_session(path), act).path


def undo(path):
    undo_compaction(open_session(compact(path)))
    return path


def edit(path):
    remove_parts(open_session(path), ["r2"])
    return path


CHANGES = [compact, fresh, undo, edit, lambda path: undo(edit(path))]


# ---- Codex numbers its lines -------------------------------------------------------------------


def numbered(path, **more):
    """A rollout as Codex 0.163 writes it: each line with a number, the first window named."""
    made = rollout(IDS["codex"], "/w", turns=12)
    made[0]["payload"] |= {"history_mode": "paginated", "context_window": {"window_id": "w0"}}
    made = [{**line, "ordinal": at, **more} for at, line in enumerate(made)]
    # Some of its lines carry more, which is not for all.
    made[-1]["metadata"] = {"client_authored": False}
    return lines(path, made)


@pytest.mark.parametrize("change", CHANGES)
def test_the_numbers_of_codex_go_on(tmp_path, change):
    before = numbered(tmp_path / "rollout.jsonl").read_bytes()
    path = change(tmp_path / "rollout.jsonl")
    assert [line["ordinal"] for line in objects(path)] == list(range(len(objects(path))))
    added = objects(path)[len(before.splitlines()) :]
    assert {"ordinal", "payload", "timestamp", "type"} == {key for line in added for key in line}


def test_the_first_compaction_follows_the_window_that_the_session_began_with(tmp_path):
    path = compact(numbered(tmp_path / "rollout.jsonl"))
    one = next(line["payload"] for line in objects(path) if line["type"] == "compacted")
    undo_compaction(open_session(path))
    two = objects(path)[-1]["payload"]
    assert [each["window_number"] for each in (one, two)] == [1, 2]
    assert (one["first_window_id"], one["previous_window_id"]) == ("w0", "w0")
    assert (two["first_window_id"], two["previous_window_id"]) == ("w0", one["window_id"])


def test_what_a_boundary_names_and_the_file_never_held_is_said_without_alarm(tmp_path):
    made = claude_lines(IDS["claude-code"], "/w", turns=4)
    near = {"anchorUuid": "S", "uuids": [made[-1]["uuid"], "n1", "n2"]}
    mark = {"type": "system", "subtype": "compact_boundary", "uuid": "B", "parentUuid": None}
    mark["compactMetadata"] = {"trigger": "auto", "preTokens": 9, "preservedMessages": near}
    said = {"type": "user", "uuid": "S", "parentUuid": "B", "isCompactSummary": True}
    said["message"] = {"role": "user", "content": "So far: rows."}
    opened = open_session(lines(tmp_path / "s.jsonl", [*made, mark, said]))
    (warning,) = opened.warnings
    assert warning.startswith("an earlier compaction names 2 messages that were not in the file")


# ---- what cannot be continued --------------------------------------------------------------------


def codes() -> Iterator[str]:
    return (f"seal-{at * 7919 % 1000}" for at in itertools.count())


@pytest.mark.parametrize("change", [compact, edit])
@pytest.mark.parametrize("tool", ["claude-code", "codex", "pi"])
def test_a_field_that_cannot_be_continued_refuses_the_write(tmp_path, tool, change):
    made = {
        "claude-code": lambda: claude_lines(IDS[tool], "/w", turns=12, title="Rows"),
        "codex": lambda: rollout(IDS[tool], "/w", turns=12),
        "pi": lambda: pi_lines(IDS[tool], "/w", turns=12),
    }[tool]()
    sealed = [{**line, "seal": seal} for line, seal in zip(made, codes(), strict=False)]
    if tool == "pi":
        sealed[-1:-1] = [{**sealed[-2], "type": "model_change", "id": "9999aaaa", "message": None}]
    path = lines(tmp_path / "s.jsonl", sealed)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="'seal'") as error:
        change(path)
    assert str(path) in str(error.value)
    assert error.value.hint
    assert path.read_bytes() == before


def managers(path, **more):
    """The log of a manager that has compacted once."""
    with ContextManager(model=MODEL, log=path, context_window=20_000, **more) as manager:
        for seed, tokens in ((3, 30_000), (4, 8_000)):
            for message in conversation(seed, tokens=tokens):
                manager.add(message)
            manager.prepare()
    return path


@pytest.mark.parametrize("change", [compact, edit, fresh])
def test_only_a_manager_writes_to_its_log(tmp_path, change):
    path = managers(tmp_path / "agent.jsonl")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="the log of a ContextManager") as error:
        change(path)
    assert str(path) in str(error.value)
    assert "ContextManager.resume" in error.value.hint
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_a_managers_log_says_its_model_and_window(tmp_path):
    path = tmp_path / "agent.jsonl"
    with ContextManager(model="gpt-4o", log=path, context_window=20_000) as manager:
        for message in conversation(4, tokens=4_000):
            manager.add(message)
        manager.prepare()
    for session in (open_session(path), inspect_session(path)):
        assert (session.model, session.window_tokens) == ("gpt-4o", 20_000)


@pytest.mark.parametrize("record", [False, True])
def test_a_managers_log_is_compacted_into_another_file(tmp_path, record):
    path, other = managers(tmp_path / "agent.jsonl", record=record), tmp_path / "other.jsonl"
    before = path.read_bytes()
    session = open_session(path)
    done = compact_session(session, output=other, target_tokens=3_000, overhead_tokens=0)
    assert done.result.compacted
    assert path.read_bytes() == before
    assert open_session(other).messages == done.messages
    assert all("ullage" not in line and "ullage" not in line["type"] for line in objects(other))
    names = [line.get("uuid") for line in objects(path) if "ullage" in line]
    assert set(names) <= {line.get("uuid") for line in objects(other)}
    with ContextManager.resume(other, model=MODEL) as manager:
        assert manager.messages == done.messages
        assert_legal("anthropic", manager.prepare().messages, model=MODEL)


def test_what_all_entries_share_is_carried_over(tmp_path):
    made = claude_lines(IDS["claude-code"], "/w", turns=12, title="Rows")
    tree = [line for line in made if "uuid" in line]
    for at, line in enumerate(tree):
        line |= {"session_id": "live-1", "seq": at + 5}
    path = lines(tmp_path / "s.jsonl", made)
    count = len(made)
    edit(compact(path))
    added = [line for line in objects(path)[count:] if "uuid" in line]
    assert {line["session_id"] for line in added} == {"live-1"}
    assert [line["seq"] for line in added] == [len(tree) + 5 + at for at in range(len(added))]


# ---- Claude Code goes on from where the file says ----------------------------------------------------


def pieces(path):
    """A session in which responses stand in pieces, with parallel calls, and the prompt that was last."""
    made = claude_lines(IDS["claude-code"], "/w", turns=12, title="Rows")
    names = itertools.count()
    for line in made:
        if line.get("type") == "assistant":
            line["message"]["id"] = f"msg_{next(names) // 2}"
    leaf = [line["uuid"] for line in made if "uuid" in line][-1]
    prompt = {"type": "last-prompt", "lastPrompt": "go", "leafUuid": leaf}
    return lines(path, [*made, {**prompt, "sessionId": IDS["claude-code"]}])


@pytest.mark.parametrize("change", CHANGES)
def test_the_last_prompt_names_the_entry_to_go_on_from(tmp_path, change):
    path = change(pieces(tmp_path / f"{IDS['claude-code']}.jsonl"))
    found = objects(path)
    prompt = [line for line in found if line["type"] == "last-prompt"][-1]
    assert prompt["leafUuid"] == [line["uuid"] for line in found if "uuid" in line][-1]
    assert prompt["lastPrompt"] == "go"


@pytest.mark.parametrize("change", [undo, edit, lambda path: undo(edit(path))])
def test_copies_have_response_ids_of_their_own(tmp_path, change):
    path = change(pieces(tmp_path / "s.jsonl"))
    found = objects(path)
    cut = max(at for at, line in enumerate(found) if line.get("subtype") == "compact_boundary")
    known = {line["uuid"]: line["message"]["id"] for line in found if line["type"] == "assistant"}
    copies = [line for line in found[cut:] if line["type"] == "assistant"]
    assert copies
    pairs = {(known[line["uuid"]], known[line[COPY_OF]]) for line in copies}
    assert not {own for own, _ in pairs} & {
        line["message"]["id"] for line in found[:cut] if line["type"] == "assistant"
    }
    # Pieces of one response stay pieces of one response.
    assert len(pairs) == len({own for own, _ in pairs}) == len({old for _, old in pairs})


def test_attachments_are_copied_as_they_stand(tmp_path):
    made = claude_lines(IDS["claude-code"], "/w", turns=6, title="Rows")
    at = next(i for i, line in enumerate(made) if line.get("type") == "user")
    note = {"type": "queued_command", "prompt": "and the header row"}
    made.insert(at + 1, {**made[at], "type": "attachment", "uuid": "a1", "attachment": note})
    del made[at + 1]["message"]
    made[at + 2]["parentUuid"] = "a1"
    path = edit(lines(tmp_path / "s.jsonl", made))
    copy = next(line for line in objects(path) if line.get(COPY_OF) == "a1")
    assert (copy["type"], copy["attachment"]) == ("attachment", note)
