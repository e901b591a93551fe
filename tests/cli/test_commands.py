"""The command line as a user meets it: its output, its exit code, and in three tests a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import report, result_of, ullage
from tests.kit.transcripts import Layout, session_file
from ullage.testing import scenario

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

pytestmark = pytest.mark.both_engines


def process(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ullage", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1", **env},
        check=False,
    )


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that `ullage demo` made."""
    folder = tmp_path_factory.mktemp("demo")
    done = ullage("demo", "--seed", "3", "--size", "60000", "--directory", folder)
    assert done.returncode == 0, done.stderr
    return folder / "session-3.jsonl"


def test_demo_frees_most_and_keeps_what_matters(tmp_path):
    found = report("demo", "--seed", "7", "--size", "60000", "--directory", tmp_path)
    compaction = found["compaction"]
    assert compaction["outcome"] == "compacted"
    assert compaction["tokens_after"] < compaction["tokens_before"] // 2
    kept, wanted = found["kept"]["user messages"]
    assert kept == wanted > 0


def test_demo_replaces_its_session_and_follows_no_link(tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text("mine")
    (tmp_path / "session-7.jsonl").symlink_to(other)
    ullage("demo", "--seed", "7", "--size", "30000", "--directory", tmp_path)
    assert other.read_text() == "mine"
    assert (tmp_path / "session-7.jsonl").stat().st_mode & 0o777 == 0o600


def test_demo_is_the_same_each_time(tmp_path):
    first = ullage("demo", "--size", "30000", "--directory", tmp_path / "a").stdout
    words = ("demo", "--size", "30000", "--directory", tmp_path / "b")
    second = process(*words, COLUMNS="120", PYTHONHASHSEED="17").stdout
    # The last lines name the program as it was started.
    shown = (text.partition("\nTry:") for text in (first, second))
    (first, _, one), (second, _, two) = shown
    assert first.replace(str(tmp_path / "a"), "") == second.replace(str(tmp_path / "b"), "")
    assert one.split()[-3:-1] == two.split()[-3:-1] == ["ullage", "resume"]
    a, b = (tmp_path / name / "session-7.jsonl" for name in "ab")
    assert a.read_bytes() == b.read_bytes()


def test_inspect_adds_up(session):
    found = report("inspect", session)
    assert found["format"] == "claude_code"
    held = sum(found["categories"].values())
    assert 0.8 * found["window"]["estimated_messages_tokens"] <= held
    assert held <= found["window"]["estimated_messages_tokens"]
    assert {level["level"] for level in found["freeable"]} >= {"snip", "microcompact", "summary"}
    assert found["conversation"]["unanswered_calls"] == 0


def test_no_part_is_larger_than_the_whole_where_the_provider_counts_less(tmp_path):
    made = session_file(scenario(3, tokens=30_000), layout=Layout(usage_percent=60))
    found = report("inspect", made.write(tmp_path))
    used = found["window"]["used_tokens"]
    assert found["window"]["estimated_messages_tokens"] > used
    assert sum(each["tokens"] for each in found["tools"]) < used
    assert all(each["tokens"] <= used for each in [*found["files"], *found["freeable"]])


def test_inspect_in_words(session):
    done = ullage("inspect", session)
    assert done.returncode == 0
    assert "What the window holds" in done.stdout
    assert "What each level would free now" in done.stdout
    assert "\x1b[" not in done.stdout  # no colours in a pipe


def test_compact_then_resume_gives_the_new_context(session, tmp_path):
    target = tmp_path / "out.jsonl"
    found = report("compact", session, "--output", target, "--summary")
    assert found["written"] == str(target)
    assert target.read_bytes().startswith(session.read_bytes())
    messages = report("resume", target)["messages"]
    assert len(messages) == found["messages_after"]
    first = messages[0]["content"]
    text = first if isinstance(first, str) else first[0]["text"]
    assert found["summary"][0] in text


def test_dry_run_writes_nothing(session, tmp_path):
    before = sorted(session.parent.iterdir())
    assert report("compact", session, "--dry-run")["written"] is None
    assert sorted(session.parent.iterdir()) == before


def test_in_place_appends(session, tmp_path):
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(session.read_bytes())
    report("compact", copy, "--in-place")
    assert copy.read_bytes().startswith(session.read_bytes())
    assert len(copy.read_bytes()) > len(session.read_bytes())


def test_another_tools_file_keeps_its_format_or_becomes_claude_codes(tmp_path):
    path = tmp_path / "pi.jsonl"
    lines = [{"type": "session", "id": "p", "cwd": "/w", "timestamp": "2026-01-01T00:00:00.000Z"}]
    for at in range(60):
        for role in ("user", "assistant"):
            content = [{"type": "text", "text": f"{at}: the parser drops the last row. " * 9}]
            lines.append({"type": "message", "message": {"role": role, "content": content}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = report("compact", path, "--keep", "500")
    assert found["format"] == "pi"
    assert report("resume", path.with_name("pi.compacted.jsonl"))
    other = report("compact", path, "--keep", "500", "--format", "claude-code", "--force")
    assert (other["format"], other["losses"]) == ("claude_code", {})
    before = path.read_bytes()
    report("compact", path, "--keep", "500", "--in-place")
    assert path.read_bytes().startswith(before)
    assert json.loads(path.read_bytes().splitlines()[-1])["type"] == "compaction"


def test_an_existing_file_is_not_overwritten(session, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    done = ullage("compact", session, "--output", target)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert target.read_text() == "mine"


def test_instructions_reach_the_summary(session):
    found = report("compact", session, "--dry-run", "--summary", "--instructions", "mind the zebra")
    assert "zebra" in found["summary"][0]


def test_keep_decides_how_much_stays(session):
    few = report("compact", session, "--dry-run", "--keep", "2000")
    many = report("compact", session, "--dry-run", "--keep", "15000")
    assert few["messages_kept"] < many["messages_kept"]


def test_nothing_to_gain_is_exit_code_1(tmp_path):
    path = tmp_path / "short.jsonl"
    message = {"role": "user", "content": "hi"}
    line = {"type": "user", "uuid": "a", "parentUuid": None, "sessionId": "s", "message": message}
    path.write_text(json.dumps(line) + "\n")
    done = ullage("compact", path, "--dry-run")
    assert done.returncode == 1
    assert "nothing was changed" in done.stdout.lower()


def test_replay_stays_within_the_window(session):
    found = report("replay", session, "--model", "claude-opus-4-5")
    assert found["requests"]
    assert found["largest_request_tokens"] <= found["window_tokens"]
    assert found["largest_request_tokens"] <= found["largest_unmanaged_tokens"]
    for row in found["requests"]:
        assert len(set(row["acted"])) == len(row["acted"])
        # What one request frees was there before: nothing is counted twice.
        assert row["freed_tokens"] <= found["largest_unmanaged_tokens"]


@pytest.mark.parametrize("columns", [80, 120])
def test_replay_fits_a_terminal_and_names_every_run(session, columns, monkeypatch, capsys):
    """At a terminal rich would rather leave out a column than wrap a number: the names are the first to go."""
    from ullage.cli import output, replay

    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True, raising=False)
    replay.replay_command(session, model="claude-opus-4-5", ladder=True)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= columns
    for name in ("ladder", "unmanaged", "buffered"):
        row = next(line for line in shown.splitlines() if line.startswith(f"{name} "))
        assert "$" in row
    assert "contents" in shown
    acted = [line for line in shown.splitlines() if line.startswith("snip, ")]
    assert acted or "no level had to act" in shown


def test_validate_finds_nothing_in_a_good_session_and_something_in_a_bad_one(session, tmp_path):
    assert report("validate", session)["ok"]
    bad = tmp_path / "bad.jsonl"
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    lines = [
        {"type": "user", "uuid": "a", "message": {"role": "user", "content": "hi"}},
        {
            "type": "assistant",
            "uuid": "b",
            "parentUuid": "a",
            "message": {"role": "assistant", "content": [call]},
        },
    ]
    bad.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = ullage("validate", bad)
    assert done.returncode == 1
    assert "A05" in done.stdout


def codex(folder: Path) -> Path:
    """A Codex rollout with sealed reasoning and a call that nobody answered."""
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    call = {"type": "function_call", "name": "ls", "call_id": "call 1", "arguments": "{}"}
    payloads = [said, {"type": "reasoning", "summary": [], "encrypted_content": "sealed"}, call]
    lines = [{"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}]
    lines += [{"type": "response_item", "payload": payload} for payload in payloads]
    return _file(folder, "".join(json.dumps(line) + "\n" for line in lines).encode())


@pytest.mark.parametrize("command", ["resume", "validate"])
def test_another_provider_by_name(command, tmp_path):
    path = codex(tmp_path)
    done = ullage(command, path, "--provider", "openai_responses", "--json")
    found = result_of(done)
    if command == "resume":
        assert done.returncode == 0
        assert [item.get("type") for item in found["messages"]][-3:] == [
            "reasoning",
            "function_call",
            "function_call_output",
        ]
    else:
        assert done.returncode == 1
        assert {each["rule"] for each in found["violations"]} == {"R01"}
        assert found["left"] == []
    refused = ullage(command, path, "--provider", "nobody")
    assert refused.returncode == 2
    assert "provider: must be one of" in refused.stderr


def test_resume_prints_what_can_be_sent_and_tells_what_it_repaired(tmp_path):
    done = ullage("resume", codex(tmp_path), "--json")
    assert done.returncode == 0
    sent = result_of(done)["messages"]
    assert "foreign" not in done.stdout
    assert [block["type"] for block in sent[-1]["content"]] == ["tool_result"]
    assert "note: repaired: answered an interrupted tool call (1×)\n" in done.stderr
    assert "note: not sent: thinking (1×): " in done.stderr
    body = json.loads(ullage("resume", codex(tmp_path), "--body").stdout)
    assert body["messages"] == sent


def test_the_window_that_the_client_went_by_counts_unless_a_model_is_named(tmp_path):
    path = codex(tmp_path)
    counted = {"info": {"model_context_window": 258_400, "last_token_usage": {}}}
    line = {"type": "event_msg", "payload": {"type": "token_count", **counted}}
    path.write_text(path.read_text() + json.dumps(line) + "\n")
    assert report("inspect", path)["window"]["context_tokens"] == 258_400
    named = report("inspect", path, "--model", "claude-opus-4-5")
    assert named["window"]["context_tokens"] == 200_000


def test_many_notes_are_cut_short(tmp_path):
    lines = [json.dumps({"role": "user", "content": "hi"}), *["{broken"] * 30]
    path = _file(tmp_path, ("\n".join([*lines, lines[0], ""])).encode())
    done = ullage("inspect", path)
    assert done.returncode == 0
    notes = [line for line in done.stderr.splitlines() if "not JSON" in line]
    assert 3 < len(notes) < 12
    assert f"note: and {30 - len(notes)} more" in done.stderr


def test_an_unknown_model_is_a_note_without_a_place_in_the_code(session):
    done = ullage("inspect", session, "--model", "nobody-knows-1")
    assert done.returncode == 0
    assert done.stderr == (
        "note: no model is named 'nobody-knows-1': 200,000 tokens of context and 32,000 of output are assumed\n"
    )


def test_a_pipe_gets_one_whole_line_a_row(session):
    lines = ullage("resume", session).stdout.splitlines()
    numbers = [line.split()[0] for line in lines[1:]]
    assert numbers == sorted(numbers, key=int)
    assert all(line == line.rstrip() for line in lines)
    assert len(max(lines, key=len)) > 160


def test_policy_lists_settings():
    assert report("policy")["snip.max_chars"] == 10_000
    assert report("policy", "--ladder")["snip.start_percent"] == 40
    shown = report("policy", "--model", "claude-opus-4-5")
    assert (shown["window"]["threshold"], shown["ignored"]) == ("167,000", [])


def test_policy_shows_what_the_environment_says(monkeypatch):
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000")
    monkeypatch.setenv("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "500")
    shown = report("policy", "--model", "claude-opus-4-5")
    assert shown["window"]["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "100,000"
    assert shown["window"]["threshold"] == "67,000"
    assert shown["ignored"][0][0] == "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"


BAD = {
    "a directory": lambda folder: folder,
    "missing": lambda folder: folder / "none.jsonl",
    "empty": lambda folder: _file(folder, b""),
    "not json": lambda folder: _file(folder, b"hello\nworld\n"),
    "binary": lambda folder: _file(folder, bytes(range(256)) * 10),
    "json without messages": lambda folder: _file(folder, b'{"a": 1}\n'),
    "a list of numbers": lambda folder: _file(folder, b"[1, 2, 3]\n"),
    "deep nesting": lambda folder: _file(folder, b'{"type":' + b"[" * 5000 + b"]" * 5000 + b"}\n"),
}


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "bad.jsonl"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["inspect", "compact", "resume"])
def test_bad_input_is_one_line_and_exit_code_2(kind, command, tmp_path):
    done = ullage(command, BAD[kind](tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(session, tmp_path):
    path = tmp_path / "secret.jsonl"
    path.write_bytes(session.read_bytes())
    path.chmod(0)
    assert ullage("inspect", path).returncode == 2


def test_wrong_usage_is_exit_code_2():
    done = ullage("inspect")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_teaches():
    done = ullage("--help")
    assert done.returncode == 0
    for command in ("demo", "inspect", "compact", "resume", "policy"):
        assert command in done.stdout


def test_a_closed_pipe_is_no_error(session):
    command = f"{sys.executable} -m ullage resume {session} --lines | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert json.loads(done.stdout)["role"] == "user"


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    (tmp_path / "cyclopts.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'cyclopts'\", name='cyclopts')"
    )
    done = process(
        "demo", PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    assert done.returncode == 2
    assert "pip install 'ullage[cli]'" in done.stderr


def test_a_wrong_engine_is_one_line(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, "-m", "ullage", "demo"],
        capture_output=True, text=True, env={**os.environ, "ULLAGE_ENGINE": "foo"}, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "error: ULLAGE_ENGINE: must be rust or python (got 'foo')\n"


def test_the_screen_needs_a_terminal():
    run = subprocess.run(
        [sys.executable, "-m", "ullage", "tui"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert "needs a terminal" in run.stderr
    assert "hint: `ullage list`" in run.stderr
