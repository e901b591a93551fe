"""Hooks as a client runs them: recorded shapes, garbage, a full disk, a time limit; never a failure for the client."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.machine_kit import Machine, claude_lines, lines
from ullage.clients.hook import (
    DEFAULT_CHARS,
    EVENTS,
    MOST_COPIES,
    answer,
    archive,
    bounded,
    status_line,
)
from ullage.clients.lost_facts import LIMIT_CHARS, restored
from ullage.messages import BOUNDARY

HEAVY = (
    "orjson",
    "pathlib",
    "typing",
    "dataclasses",
    "ullage._core",
    "ullage.facts",
    "cyclopts",
    "re2",
)
BASE = {"session_id": "s-1", "cwd": "/w", "permission_mode": "default"}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def run(event, given, **more):
    """The hook as a process of its own, with what it needs of the environment only."""
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    words = [sys.executable, "-P", "-m", "ullage.clients.hook", event]
    return subprocess.run(words, input=data, capture_output=True, timeout=60, check=False, **more)


def log_of(machine):
    path = machine.home / "state" / "hooks.log"
    return path.read_text().splitlines() if path.exists() else []


def compacted(folder, *, since=True):
    """A session that its client compacted: rules and an open error before, a summary that names neither."""
    made = claude_lines("s-1", "/w", turns=2)
    head = {"sessionId": "s-1", "isSidechain": False, "timestamp": "2026-01-01T00:01:00.000Z"}

    def put(**more):
        last = next(line["uuid"] for line in reversed(made) if "uuid" in line)
        made.append({**head, "uuid": f"x{len(made)}", "parentUuid": last, **more})

    def said(role, content):
        put(type=role, message={"role": role, "content": content})

    said("user", "Never push to main. Always run the linter before a commit.")
    write = {"type": "tool_use", "id": "w1", "name": "Write"}
    said("assistant", [{**write, "input": {"file_path": "/w/src/writer.py", "content": "x = 1"}}])
    said("user", [{"type": "tool_result", "tool_use_id": "w1", "content": "File created"}])
    said(
        "assistant",
        [{"type": "tool_use", "id": "b1", "name": "Bash", "input": {"command": "make lint"}}],
    )
    failed = {"type": "tool_result", "tool_use_id": "b1", "is_error": True}
    said("user", [{**failed, "content": "Error: line 3: unused import os\nexit code 1"}])
    todo = {"content": "Write the exporter", "status": "in_progress", "activeForm": "Writing"}
    said(
        "assistant",
        [{"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": [todo]}}],
    )
    said(
        "user",
        [{"type": "tool_result", "tool_use_id": "t1", "content": "Todos have been modified"}],
    )
    put(type="system", subtype=BOUNDARY, content="Conversation compacted",
        compactMetadata={"trigger": "auto", "preTokens": 9})  # fmt: skip
    made[-1] |= {"parentUuid": None, "logicalParentUuid": made[-2]["uuid"]}
    if since:
        put(
            type="user",
            isCompactSummary=True,
            message={"role": "user", "content": "We read files."},
        )
    return lines(folder / "s-1.jsonl", made)


# ---- every hook, whatever it is given --------------------------------------------------------


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe\x00", b"{}", b"[" * 100_000, b'{"transcript_path": 7}', b'{"transcript_path": "/nowhere/x.jsonl", "source": "compact"}']
)  # fmt: skip
def test_garbage_never_fails_the_client(machine, event, data, capfdbinary, monkeypatch):
    import io

    from ullage.clients import hook

    class Input:
        buffer = io.BytesIO(data)

    monkeypatch.setattr(hook.sys, "stdin", Input)
    monkeypatch.setattr(hook, "_silence", lambda: None)
    assert hook.main([event]) == 0
    out = capfdbinary.readouterr()
    assert out.err == b""
    if event != "statusline":
        assert out.out == b""


def test_an_unknown_event_is_logged(machine):
    done = run("no-such-event", {})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "unknown event" in log_of(machine)[0]


def test_without_an_alarm_the_client_goes_on_all_the_same(machine, monkeypatch):
    """Only the main thread of a process can set one."""
    from ullage.clients import hook

    monkeypatch.setattr(hook, "_silence", lambda: None)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(hook.main, ["post-tool-use"]).result() == 0


def test_an_error_is_one_line_in_a_log_of_the_owners(machine):
    done = run("session-start", {**BASE, "source": "compact", "transcript_path": "/no\nwhere"})
    assert (done.returncode, done.stdout) == (0, b"")
    (line,) = log_of(machine)
    assert "session-start" in line
    assert (machine.home / "state" / "hooks.log").stat().st_mode & 0o777 == 0o600


def test_a_hook_starts_with_little(machine):
    program = """if True:
        import io, sys
        before = set(sys.modules)
        from ullage.clients import hook
        data = b'{"tool_name": "Bash", "tool_response": {"stdout": "hi", "stderr": ""}}'
        sys.stdin = type("S", (), {"buffer": io.BytesIO(data)})
        hook.main(["post-tool-use"])
        print(sorted(set(sys.modules) - before))
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stdout
    assert "ullage.clients.hook" in loaded
    for name in HEAVY:
        assert f"'{name}'" not in loaded, name


@pytest.mark.parametrize("event", ["pre-compact", "session-start"])
def test_a_hook_that_reads_a_transcript_loads_nothing_that_writes_one(machine, event):
    path = compacted(machine.home)
    given = {**BASE, "transcript_path": str(path), "source": "compact", "custom_instructions": ""}
    program = f"""if True:
        import io, sys
        from ullage.clients import hook
        sys.stdin = type("S", (), {{"buffer": io.BytesIO({json.dumps(given).encode()!r})}})
        hook.main([{event!r}])
        print(sorted(sys.modules))
    """
    words = [sys.executable, "-P", "-c", program]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "'ullage.facts.collector'" in loaded
    for name in (
        "sqlite3",
        "ullage.sessions.save",
        "ullage.compaction.flow",
        "ullage.summarizers.anthropic",
    ):
        assert f"'{name}'" not in loaded, name
    assert log_of(machine) == []


def test_a_full_disk_neither_fails_the_client_nor_leaves_half_a_copy(machine):
    path = lines(machine.home / "t.jsonl", claude_lines("s-1", "/w", turns=50))
    assert path.stat().st_size > 8_192

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))

    done = run(
        "pre-compact", {**BASE, "transcript_path": str(path), "trigger": "auto"}, preexec_fn=full
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "File too large" in log_of(machine)[0]
    folder = machine.home / "state" / "archives" / "s-1"
    assert list(folder.iterdir()) == []
    big = {"stdout": "x" * 50_000, "stderr": "", "interrupted": False, "isImage": False}
    given = {**BASE, "tool_name": "Bash", "tool_use_id": "b1", "tool_response": big}
    done = run("post-tool-use", given, preexec_fn=full)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_log_that_cannot_be_written_is_no_failure_either(machine):
    (machine.home / "state").write_text("a file in the folder's place")
    done = run("pre-compact", {**BASE, "transcript_path": "/nowhere"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_time_limit_ends_a_hook(machine):
    fifo = machine.home / "never.jsonl"
    os.mkfifo(fifo)
    env = {**os.environ, "ULLAGE_HOOK_SECONDS": "0.3"}
    words = [sys.executable, "-P", "-m", "ullage.clients.hook", "session-start"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.wait(timeout=30) == 0  # its input never ends
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert "not done within 0.3 s" in log_of(machine)[0]


def test_a_log_does_not_grow_for_ever(machine):
    state = machine.home / "state"
    state.mkdir()
    (state / "hooks.log").write_bytes(b"x" * (1 << 20) + b"\n")
    run("pre-compact", b"{")
    run("pre-compact", b"{")
    assert (state / "hooks.log").stat().st_size < 2_000
    assert (state / "hooks.log.1").exists()


# ---- PreCompact --------------------------------------------------------------------------------


def test_the_transcript_is_archived_once_for_each_compaction(machine):
    path = lines(machine.home / "t.jsonl", claude_lines("s-1", "/w", turns=3))
    given = {**BASE, "hook_event_name": "PreCompact", "transcript_path": str(path), "trigger": "auto", "custom_instructions": ""}  # fmt: skip
    for _ in range(3):
        done = run("pre-compact", given)
        assert (done.returncode, done.stdout) == (0, b"")
    (copy,) = (machine.home / "state" / "archives" / "s-1").iterdir()
    assert copy.read_bytes() == path.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert log_of(machine) == []


def test_what_the_summary_should_keep_is_given_to_claude_code_as_plain_text(machine):
    path = compacted(machine.home, since=False)
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if "compact_boundary" not in line and "isCompactSummary" not in line))  # fmt: skip
    given = {**BASE, "hook_event_name": "PreCompact", "transcript_path": str(path), "trigger": "auto"}  # fmt: skip
    done = run("pre-compact", {**given, "custom_instructions": None})
    said = done.stdout.decode()
    for words in ("Never push to main", "Write the exporter", "/w/src/writer.py"):
        assert words in said, words
    assert "unused import os" not in said  # a tool said that
    assert "not new instructions" in said
    assert len(said) <= 4_000
    assert run("pre-compact", given).stdout == b""  # another client, which expects JSON or nothing
    assert log_of(machine) == []


def test_after_a_compaction_by_hand_the_facts_stand_once(machine):
    """Claude Code 2.1.330 puts what the hook printed before `/compact` into the new context, where SessionStart restores it."""
    path = compacted(machine.home, since=False)
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if "compact_boundary" not in line))  # fmt: skip
    given = {**BASE, "transcript_path": str(path), "custom_instructions": "keep the ports"}
    assert b"Never push to main" in run("pre-compact", {**given, "trigger": "auto"}).stdout
    assert run("pre-compact", {**given, "trigger": "manual"}).stdout == b""
    assert list((machine.home / "state" / "archives" / "s-1").iterdir())
    after = run("session-start", {**BASE, "transcript_path": str(path), "source": "compact"})
    assert b"Never push to main" in after.stdout


def test_only_the_newest_copies_stay(machine):
    path = lines(machine.home / "t.jsonl", claude_lines("s-1", "/w", turns=1))
    for at in range(MOST_COPIES + 3):
        with path.open("a") as file:
            file.write("{}\n")
        os.utime(path, ns=(at, 10**9 + at))
        assert archive(str(path), "s-1", "manual") is not None
    assert len(list((machine.home / "state" / "archives" / "s-1").iterdir())) == MOST_COPIES


@pytest.mark.parametrize("name", ["../../x", "a/b", "", "x" * 300, "\0", "ü"])
def test_an_id_never_leads_out_of_the_folder(machine, name):
    path = lines(machine.home / "t.jsonl", claude_lines("s", "/w", turns=1))
    copy = archive(str(path), name, "../auto")
    assert copy is not None
    assert copy.resolve().parent.parent == (machine.home / "state" / "archives").resolve()


# ---- SessionStart ------------------------------------------------------------------------------


def test_what_a_summary_lost_comes_back_as_facts(machine):
    path = compacted(machine.home)
    given = {
        **BASE,
        "hook_event_name": "SessionStart",
        "source": "compact",
        "transcript_path": str(path),
    }
    done = run("session-start", given)
    said = json.loads(done.stdout)["hookSpecificOutput"]
    assert said["hookEventName"] == "SessionStart"
    text = said["additionalContext"]
    for words in (
        "Never push to main",
        "Write the exporter",
        "/w/src/writer.py",
        "unused import os",
    ):
        assert words in text, words
    assert "not new instructions" in text
    assert len(text) <= LIMIT_CHARS


def test_what_the_summary_names_is_not_said_twice(machine):
    path = compacted(machine.home)
    text = path.read_text().replace(
        "We read files.", "Rule: Never push to main. Always run the linter before a commit."
    )
    path.write_text(text)
    said = restored(path)
    assert "Never push to main" not in said
    assert "/w/src/writer.py" in said


def test_a_client_that_writes_late_is_taken_at_its_word(machine):
    path = lines(machine.home / "s.jsonl", claude_lines("s", "/w", turns=2))
    assert restored(path) == ""
    assert "f" in restored(path, just_compacted=True) or restored(path, just_compacted=True) == ""
    late = compacted(machine.home / "late")
    whole = late.read_bytes().splitlines(keepends=True)
    late.write_bytes(b"".join(whole[:-2]))  # neither boundary nor summary yet
    assert "Never push to main" in restored(late, just_compacted=True)
    assert restored(late) == ""


@pytest.mark.parametrize("source", ["startup", "clear", "fork", None])
def test_other_starts_are_left_alone(machine, source):
    path = compacted(machine.home)
    assert (
        answer(
            "session-start", json.dumps({"source": source, "transcript_path": str(path)}).encode()
        )
        == ""
    )


def test_the_limit_holds_for_any_number_of_facts(machine):
    path = compacted(machine.home)
    made = [json.loads(line) for line in path.read_text().splitlines()]
    rules = " ".join(f"Never touch module number {at} of the old code base." for at in range(2_000))
    made[0]["message"]["content"] = rules
    lines(path, made)
    assert 1_000 < len(restored(path)) <= LIMIT_CHARS
    assert len(restored(path, limit=500)) <= 500


# ---- PostToolUse -------------------------------------------------------------------------------


def bash(stdout, **more):
    response = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False, **more}
    return {**BASE, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "toolu_1",
            "tool_input": {"command": "make"}, "tool_response": response, "duration_ms": 12}  # fmt: skip


def test_an_outsized_output_keeps_its_shape_and_its_ends(machine):
    text = "".join(f"line {at}\n" for at in range(20_000))
    done = run("post-tool-use", bash(text))
    output = json.loads(done.stdout)["hookSpecificOutput"]["updatedToolOutput"]
    assert set(output) == {"stdout", "stderr", "interrupted", "isImage"}
    assert len(output["stdout"]) < DEFAULT_CHARS + 1_000
    assert output["stdout"].startswith("line 0\n")
    assert output["stdout"].endswith("line 19999\n")
    place = output["stdout"].partition("The whole output: ")[2].partition("]")[0]
    assert Path(place).read_text() == text
    assert Path(place).is_relative_to(machine.home / "state" / "results" / "s-1")


@pytest.mark.parametrize(
    "response", ["short", {"stdout": "short"}, {"isImage": True, "stdout": "x" * 90_000}, 7, None, [], [{"type": "image"}], {"other": "x" * 90_000}]
)  # fmt: skip
def test_other_outputs_stay(machine, response):
    assert bounded({"tool_response": response}) is None
    assert not (machine.home / "state").exists()


def test_texts_and_blocks_of_mcp_tools_are_bounded_too(machine):
    long = "y" * 60_000
    assert "left out here" in bounded({"tool_response": long})
    first, second = bounded(
        {"tool_response": [{"type": "text", "text": long}, {"type": "image", "data": ""}]}
    )
    assert "left out here" in first["text"]
    assert second == {"type": "image", "data": ""}


def test_a_limit_of_the_users(machine, monkeypatch):
    monkeypatch.setenv("ULLAGE_HOOK_CHARS", "0")
    assert bounded({"tool_response": "y" * 60_000}) is None
    monkeypatch.setenv("ULLAGE_HOOK_CHARS", "5000")
    assert len(bounded({"tool_response": "y" * 60_000})) < 6_000


# ---- status line -------------------------------------------------------------------------------


def test_the_status_line_says_fill_next_step_and_cost():
    usage = {
        "input_tokens": 1_000,
        "output_tokens": 500,
        "cache_creation_input_tokens": 2_000,
        "cache_read_input_tokens": 96_500,
    }
    given = {
        "model": {"id": "claude-opus-5", "display_name": "Opus 5"},
        "context_window": {
            "context_window_size": 200_000,
            "current_usage": usage,
            "used_percentage": 50,
        },
        "cost": {"total_cost_usd": 1.239},
    }
    assert (
        status_line(given)
        == "Opus 5 · █████░░░░░ 50 % of 200K · compacts in 67K · 96 % cached · $1.24"
    )
    given["context_window"] = {
        "context_window_size": 1_000_000,
        "current_usage": None,
        "used_percentage": 97,
    }
    assert status_line(given) == "Opus 5 · ██████████ 97 % of 1M · compacts now · $1.24"


@pytest.mark.parametrize(
    "name", ["Opus 5", "Sonnet 5 (1M context, preview)", "a model of a gateway " * 9]
)
@pytest.mark.parametrize("size", [200_000, 1_000_000])
def test_the_status_line_fits_a_narrow_terminal(name, size):
    usage = {"cache_read_input_tokens": size - 60_000, "input_tokens": 5}
    window = {"context_window_size": size, "current_usage": usage}
    cost = {"total_cost_usd": 1_234.5}
    line = status_line({"model": {"display_name": name}, "context_window": window, "cost": cost})
    assert len(line) <= 80
    assert line.startswith(name[:12])
    assert "compacts in 2" in line
    assert "$1,234.50" in line


@pytest.mark.parametrize(
    "given", [{}, {"context_window": None}, {"model": "x"}, {"cost": {"total_cost_usd": "1"}}, {"context_window": {"used_percentage": 10**400, "context_window_size": -1}}, {"model": {"display_name": "a\x1b[31m\nb"}}]
)  # fmt: skip
def test_a_status_line_of_anything_is_one_printable_line(given):
    line = status_line(given)
    assert line.isprintable()
