"""The sessions of a machine: found in each tool's folder, named by id or its beginning, listed with size and cost."""

from __future__ import annotations

import json
import os
from decimal import Decimal

import pytest

from tests.machine_kit import IDS, WORDS, Machine, claude_lines, lines, opencode_export, rollout
from ullage.exceptions import InvalidPolicy, StoreError
from ullage.sessions import find_session, found_sessions, last_session, open_session
from ullage.sessions.find import opened_path, session_path, tool_folders
from ullage.sessions.inspected import dollars_of, listed


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("database", [False, True])
def test_every_tools_session_is_found_opened_and_listed(machine, database):
    machine.fill().stored(database=database)
    found = {each.tool: each for each in found_sessions()}
    assert {tool: each.id for tool, each in found.items()} == IDS
    for tool, each in found.items():
        row = listed(each)
        assert row.problem == "", tool
        assert row.messages >= 9, tool
        assert row.tokens > 100, tool
        assert row.window_tokens >= 200_000
        assert row.title in ("Fix the parser", "Rows at the end", f"0: {WORDS.strip()}"), tool
        said = [str(message["content"]) for message in open_session(opened_path(each)).messages]
        assert sum(WORDS.strip() in text for text in said) >= 3
        assert any("Done with 2." in text for text in said)


def test_titles_and_costs_are_those_of_the_files(machine):
    machine.fill()
    rows = {each.tool: listed(each) for each in found_sessions()}
    assert rows["claude-code"].title == "Fix the parser"
    assert rows["gemini"].title == "Rows at the end"
    assert rows["claude-code"].cwd == machine.cwd
    # Six responses of 4,000, 4,001 and 4,002 tokens, 100 written each, at 5 and 25 dollars a million.
    usage = sum(2 * (4_000 + at) for at in range(3))
    assert rows["claude-code"].dollars == (Decimal(usage) * 5 + 600 * 25) / 1_000_000
    assert rows["copilot"].dollars is None


def test_pieces_of_one_response_cost_once(machine, tmp_path):
    made = claude_lines(IDS["claude-code"], "/w", turns=1)
    answer = next(line for line in made if line["type"] == "assistant")
    path = lines(tmp_path / "s.jsonl", [*made[:2], {**answer, "uuid": "again"}, *made[2:]])
    assert dollars_of(open_session(path)) == (Decimal(8_000) * 5 + 200 * 25) / 1_000_000


def test_newest_first_and_last_is_the_newest(machine):
    machine.fill()
    assert [each.tool for each in found_sessions()] == [
        "copilot",
        "gemini",
        "pi",
        "codex",
        "claude-code",
    ]
    assert last_session().id == IDS["copilot"]


def test_an_id_or_its_beginning_stands_for_the_file(machine):
    machine.fill().stored(database=False)
    assert session_path(IDS["codex"]) == machine.files["codex"]
    assert session_path("019f") == machine.files["codex"]
    assert find_session("469c").id == IDS["opencode"]
    assert session_path("ses_469c").name == f"{IDS['opencode']}.json"


def test_a_beginning_of_several_ids_is_refused_with_their_names(machine):
    machine.fill()
    other = "11111111-aaaa-4bbb-8ccc-00000000000f"
    machine.put("claude-code", claude_lines(other, "/w"), at=f"claude/projects/-w/{other}.jsonl")
    with pytest.raises(InvalidPolicy, match="fits 2 sessions") as caught:
        session_path("1111")
    assert other in caught.value.hint
    assert find_session(other).id == other


def test_what_is_no_session_is_refused_and_a_missing_path_stays_a_path(machine, tmp_path):
    with pytest.raises(InvalidPolicy, match="no session has an id that begins with it") as caught:
        session_path("deadbeef")
    assert "ullage list" in caught.value.hint
    for path in (tmp_path / "no" / "such", tmp_path / "gone.jsonl"):
        assert session_path(path) == path
    with pytest.raises(StoreError):
        open_session(session_path("gone.jsonl"))
    with pytest.raises(InvalidPolicy, match="no session was found"):
        last_session()


def test_a_file_of_that_name_counts_before_an_id(machine, tmp_path, monkeypatch):
    machine.fill()
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "019f", claude_lines("s", "/w"))
    assert open_session(session_path("019f")).format == "claude_code"


def test_files_that_cannot_be_read_are_rows_with_a_reason(machine):
    machine.fill()
    folder = machine.home / "claude" / "projects" / "-odd"
    folder.mkdir(parents=True)
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "noise.jsonl").write_bytes(b"\x00\xff\xfe" * 9)
    (folder / "agent-1234.jsonl").write_text("{}")
    (folder / ".hidden.jsonl").write_text("{}")
    (folder / "folder.jsonl").mkdir()
    (folder / "dangling.jsonl").symlink_to(folder / "nowhere")
    rows = {each.path.name: listed(each) for each in found_sessions() if each.path.parent == folder}
    assert rows.keys() == {"empty.jsonl", "noise.jsonl"}
    assert "empty" in rows["empty.jsonl"].problem
    assert "no known format" in rows["noise.jsonl"].problem


@pytest.mark.parametrize(
    "name", ["--help.jsonl", "a b\n\tc.jsonl", "ünï\u202e\u0007.jsonl", "x" * 200 + ".jsonl"]
)
def test_names_of_any_kind_are_found(machine, name):
    machine.put("claude-code", claude_lines("s", "/w"), at=f"claude/projects/-w/{name}")
    (row,) = map(listed, found_sessions())
    assert (row.session.id, row.messages) == (name.removesuffix(".jsonl"), 12)


def test_bytes_in_names_that_no_encoding_has_are_found(machine):
    folder = machine.home / "claude" / "projects" / "-w"
    folder.mkdir(parents=True)
    path = os.fsencode(folder) + b"/\xff\xfe.jsonl"
    with open(path, "wb") as file:  # noqa: PTH123 - a name in bytes
        file.write(b"".join(json.dumps(line).encode() + b"\n" for line in claude_lines("s", "/w")))
    (row,) = map(listed, found_sessions())
    assert row.messages == 12


def test_folders_are_the_usual_ones_without_variables(machine, monkeypatch):
    for name in machine.variables:
        monkeypatch.delenv(name)
    places = {
        (each.tool, each.path.relative_to(machine.home).as_posix()) for each in tool_folders()
    }
    assert places == {
        ("claude-code", ".claude/projects"),
        ("codex", ".codex/sessions"),
        ("codex", ".codex/archived_sessions"),
        ("pi", ".pi/agent/sessions"),
        ("gemini", ".gemini/tmp"),
        ("copilot", ".copilot/session-state"),
        ("opencode", ".local/share/opencode/storage/session"),
        ("opencode", ".local/share/opencode"),
    }


# ---- what the readers of Gemini's recordings and OpenCode's sessions make of them -----------------


def test_a_compaction_of_opencode_is_a_boundary(tmp_path):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(opencode_export(IDS["opencode"], "/w", turns=3, summary=1)))
    opened = open_session(path)
    assert (opened.format, opened.id, opened.cwd) == ("opencode", IDS["opencode"], "/w")
    assert len(opened.boundaries) == 1
    assert [block["text"] for block in opened.messages[0]["content"]] == [
        "So far: all read.",
        f"2: {WORDS}",
    ]
    assert [bool(item.get("isCompactSummary")) for item in opened.items] == [True, *[False] * 4]
    assert opened.request().left == ()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"status": "error", "error": "no such file"}, "no such file"),
        ({"status": "running", "input": {}}, "[Tool execution was interrupted]"),
        ({"status": "completed", "output": "x", "time": {"compacted": 1}}, "[Old tool result content cleared]"),
        (None, "[Tool execution was interrupted]"),
    ],
)  # fmt: skip
def test_results_of_opencode_are_what_its_model_sees(tmp_path, state, text):
    made = opencode_export(IDS["opencode"], "/w", turns=1)
    made["messages"][1]["parts"][1]["state"] = state
    path = tmp_path / "export.json"
    path.write_text(json.dumps(made))
    (block,) = open_session(path).messages[2]["content"]
    assert (block["content"], block.get("is_error", False)) == (
        text,
        "status" not in (state or {}) or state["status"] != "completed",
    )


def test_a_recording_of_gemini_is_read_as_it_stands_at_the_end(tmp_path):
    from tests.machine_kit import gemini_lines

    made = gemini_lines("g", turns=3)
    path = lines(tmp_path / "r.jsonl", [*made, {"$rewindTo": "u2"}])
    opened = open_session(path)
    assert (opened.format, opened.id, opened.title) == ("gemini_cli", "g", "Rows at the end")
    said = str(opened.messages)
    assert said.count("functionCall") == 0
    assert "Done with 1." in said
    assert "Done with 2." not in said
    document = {
        **made[0],
        "messages": [line for line in made if "id" in line and "$set" not in line],
    }
    path.write_text(json.dumps(document))
    assert "Done with 2." in str(open_session(path).messages)


def test_a_broken_part_of_opencode_is_reported(machine):
    machine.stored(database=False)
    (part,) = machine.home.rglob("prt_00011.json")
    part.write_text("{")
    opened = open_session(session_path("ses_469c"))
    assert any("prt_00011.json" in warning for warning in opened.warnings)


def test_a_database_of_another_form_holds_no_session(machine):
    path = machine.home / "data" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database")
    assert found_sessions() == []


def test_a_rollout_without_an_id_goes_by_its_name(machine):
    machine.put("codex", rollout("x", "/w"), at="codex/sessions/rollout-old.jsonl")
    assert [each.id for each in found_sessions()] == ["rollout-old"]
