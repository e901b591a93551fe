"""Bad input: through the library a typed error with place, value and limit, through the command line one line and
exit code 2; nothing changes, and no traceback reaches a user."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from ullage.cli import main
from ullage.counting.models import ModelTable
from ullage.exceptions import (
    ContextTooLarge,
    InvalidMessage,
    InvalidPolicy,
    InvalidTranscript,
    StoreError,
    UnknownModel,
)
from ullage.levels.breakdown import inspect_messages
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.sessions import compact_session, open_session

COMMANDS = ("inspect", "compact", "resume", "validate", "replay")
HI = {"role": "user", "content": "hi"}


def line(message: Any, **more: Any) -> str:
    """A line of a Claude Code transcript."""
    kind = message.get("role") if isinstance(message, dict) else "user"
    kind = kind if kind in ("user", "assistant") else "user"
    entry = {"type": kind, "uuid": "u1", "parentUuid": None, "sessionId": "s", "message": message}
    return json.dumps({**entry, **more}) + "\n"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def call(given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "t1", "name": "Read", "input": given}
    return {"role": "assistant", "content": [block]}


def run(*words: Any) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session that is worth a compaction."""
    path, parent = tmp_path / "session.jsonl", None
    lines = []
    for at in range(40):
        for role in ("user", "assistant"):
            message = {"role": role, "content": f"{role} {at}: " + "the parser drops a row. " * 40}
            uuid = f"{role}-{at}"
            lines.append(line(message, uuid=uuid, parentUuid=parent))
            parent = uuid
    path.write_text("".join(lines))
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its bytes."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- files that hold no conversation ---------------------------------------------------------

NO_TRANSCRIPT: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "not json": (b"hello\nworld\n", "format: line 1, column 1 is not JSON, at 'hello"),
    "binary": (bytes(range(256)) * 10, "format: byte 128 is not UTF-8"),
    "null bytes": (b"\0" * 1000, "is of no known format"),
    "another encoding": (line(HI).encode("utf-16"), "format: byte 0 is not UTF-8"),
    "json without messages": (b'{"a": 1}\n', "format: it holds an object with the keys 'a'"),
    "numbers": (b"[1, 2, 3]\n", "format: it holds a list that begins with the int 1"),
    "a number": (b"17\n", "format: it holds the int 17"),
    "wrong roles only": (
        b'[{"role": "wizard", "content": "x"}]',
        "format: it holds a list that begins with a message whose role is 'wizard'",
    ),
    "broken on its second line": (
        b'[\n {"role": "user" "content": "x"}]',
        "line 2, column 18 is not JSON",
    ),
    "cut off": (b'{"role": "user", "content":', "line 1, column 28 is not JSON, where it ends"),
    "one long value": (b'"' + b"a" * 3_000_000, "not at its end after 1,048,576 characters"),
    "an empty list": (b"[]", "format: it holds an empty list"),
    "nesting without end": (
        b'{"type":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
        "is of no known format",
    ),
    "entries without a message": (
        b'{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s"}\n',
        "holds no message",
    ),
    "a message that is a number": (line(5).encode(), "holds no message"),
    "content that is a number": (line({"role": "user", "content": 7}).encode(), "holds no message"),
    "only a broken line": (line(HI).replace('"hi"', "NaN").encode(), "holds no message"),
}


@pytest.mark.parametrize("kind", NO_TRANSCRIPT)
def test_a_file_without_a_conversation_is_named(kind, folder):
    data, reason = NO_TRANSCRIPT[kind]
    path = folder / "bad.jsonl"
    path.write_bytes(data)
    with pytest.raises(InvalidTranscript) as found:
        open_session(path)
    assert reason in str(found.value)
    assert found.value.path == str(path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", NO_TRANSCRIPT)
def test_a_file_without_a_conversation_is_one_line_on_the_command_line(
    kind, command, folder, capsys
):
    data, reason = NO_TRANSCRIPT[kind]
    path = folder / "bad.jsonl"
    path.write_bytes(data)
    assert run(command, path) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: {path}")
    assert reason in told.err.splitlines()[0]
    assert tree(folder) == {str(path): data}


def test_the_line_that_is_broken_is_named(folder):
    path = folder / "bad.jsonl"
    path.write_text(line(HI).replace('"hi"', "NaN"))
    with pytest.raises(InvalidTranscript, match="line 1: holds no message; this line is") as found:
        open_session(path)
    assert found.value.line == 1


PLACES: dict[str, Callable[[Path], Path]] = {
    "a directory": lambda folder: folder,
    "missing": lambda folder: folder / "none.jsonl",
    "no file": lambda folder: Path("/dev/null"),
    "below a file": lambda folder: (folder / "f", (folder / "f").write_text("x"))[0] / "x.jsonl",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", PLACES)
def test_a_place_where_no_transcript_can_be(kind, command, folder, capsys):
    path = PLACES[kind](folder)
    before = tree(folder)
    with pytest.raises((InvalidTranscript, StoreError)) as found:
        open_session(path)
    assert found.value.path == str(path)
    assert run(command, path) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: {path}: ")
    assert tree(folder) == before


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_may_not_be_read(command, session, monkeypatch, capsys):
    """Root may read all files, so the refusal is the system's only where the tests run as somebody else."""
    session.chmod(0)
    if os.access(session, os.R_OK):

        def refuse(self: Path, *args: Any, **more: Any) -> Any:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", refuse)
        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"[Pp]ermission denied") as found:
        open_session(session)
    assert found.value.path == str(session)
    assert run(command, session) == 2
    assert "ermission denied" in capsys.readouterr().err
    session.chmod(stat.S_IRUSR | stat.S_IWUSR)


# ---- messages that nobody could send ---------------------------------------------------------

# Message, what is wrong with it, and where.
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a wrong role": (
        {"role": "wizard", "content": "x"},
        "must be user, assistant, system, developer or tool",
        "role",
    ),
    "200 levels": (
        call({"x": nested(200)}),
        "nested more than 128 levels deep",
        "content[0].input",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_message_that_cannot_be_read_is_named_with_index_and_field(kind):
    message, reason, field = REFUSED[kind]
    with pytest.raises(InvalidMessage, match=reason) as found:
        inspect_messages([HI, message])
    assert (found.value.index, found.value.field) == (1, field)
    manager = ContextManager(model="claude-opus-4-5")
    manager.add(HI)
    # The manager's own forms have two roles more; it names them.
    at_once = reason.replace("must be user", "must be (one of )?user").partition(", developer")[0]
    with pytest.raises(InvalidMessage, match=at_once) as found:
        manager.add(message)
    assert found.value.field == field
    assert manager.history == [HI]
    assert manager.prepare().messages == [HI]


@pytest.mark.parametrize("command", ["inspect", "compact"])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_message_that_cannot_be_read_on_the_command_line(kind, command, folder, capsys):
    message, reason, field = REFUSED[kind]
    path = folder / "bad.jsonl"
    path.write_text(line(HI) + line(message, uuid="u2", parentUuid="u1"))
    before = tree(folder)
    assert run(command, path) == 2
    errors = [row for row in capsys.readouterr().err.splitlines() if not row.startswith("note: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: message")
    assert reason in errors[0]
    assert field in errors[0]
    assert tree(folder) == before


@pytest.mark.parametrize("kind", REFUSED)
def test_what_can_be_sent_of_it_is_shown_all_the_same(kind, folder, capsys):
    """`resume` repairs, like one for a model that has to continue; it says so."""
    message, _, _ = REFUSED[kind]
    path = folder / "bad.jsonl"
    path.write_text(line(HI) + line(message, uuid="u2", parentUuid="u1"))
    assert run("resume", path, "--json") == 0
    told = capsys.readouterr()
    assert json.dumps(HI["content"]) in told.out
    assert "note: repaired: " in told.err or "note: role 'wizard', read as user (1×)" in told.err


ODD: dict[str, str] = {
    "blocks that are none": line({"role": "user", "content": [1, {"text": "x"}]}),
    "a call without id and name": line({"role": "assistant", "content": [{"type": "tool_use"}]}),
    "an input that is text": line(call("x")),
    "usage in words": line(
        {"role": "assistant", "content": "x", "usage": {"input_tokens": "many"}}
    ),
    "a boundary with nonsense in it": json.dumps(
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s"}
        | {"compactMetadata": {"preTokens": "x", "preservedMessages": {"uuids": 5}}}
    )
    + "\n"
    + line(HI),
    "parents in a circle": line(HI, uuid="a", parentUuid="b") + line(HI, uuid="b", parentUuid="a"),
    "an attachment of numbers": json.dumps(
        {"type": "attachment", "uuid": "a", "sessionId": "s", "parentUuid": None}
        | {"attachment": {"type": "file", "content": 7}}
    )
    + "\n"
    + line(HI),
    "lone surrogates": '{"type":"user","uuid":"u","sessionId":"s","parentUuid":null,'
    '"message":{"role":"user","content":"a\\ud800b"}}\n',
    "an integer beyond 64 bits": line(call({"n": 10**30})),
    "line ends of another system": line(HI).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ODD)
def test_odd_messages_never_end_in_a_traceback(kind, command, folder, capsys):
    path = folder / "odd.jsonl"
    path.write_text(ODD[kind], encoding="utf-8", newline="")
    before = tree(folder)
    for options in ((), ("--json",)):
        assert run(command, path, *options) in (0, 1)
        capsys.readouterr()
    assert tree(folder) == before


def test_lone_surrogates_are_repaired_in_what_reaches_a_pipe(folder):
    """No encoding can hold one and no provider takes one: `resume` gives what may be sent, and says so."""
    path = folder / "odd.jsonl"
    path.write_text(ODD["lone surrogates"])
    for words in (["resume", path], ["resume", path, "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "ullage", *map(str, words)], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert b"a\xef\xbf\xbdb" in done.stdout
        assert b"repaired: put U+FFFD for lone surrogates" in done.stderr
    messages = json.loads(done.stdout)["result"]["messages"]
    assert messages == [{"role": "user", "content": "a\ufffdb"}]


# ---- a line of 100 MB ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("huge") / "huge.jsonl"
    head, tail = line({"role": "user", "content": "@"}).encode().split(b"@")
    with path.open("wb") as file:
        file.write(head)
        for _ in range(100):
            file.write(b"word " * 200_000)
        file.write(tail)
    return path


def test_a_line_of_100_megabytes_is_read_and_its_size_refused_by_name(huge):
    opened = open_session(huge)
    assert len(opened.messages[0]["content"]) == 100_000_000
    (found,) = opened.request().left
    assert found.rule == "A23"
    assert "the limit is 30000000" in found.detail


def test_a_line_of_100_megabytes_on_the_command_line(huge, capsys):
    before = huge.stat()
    assert run("resume", huge) == 1
    told = capsys.readouterr()
    assert "note: would be refused: A23, 1000000" in told.err
    assert len(told.out) < 1_000
    assert huge.stat().st_mtime_ns == before.st_mtime_ns


# ---- the disk fills --------------------------------------------------------------------------

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from ullage.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of POSIX systems")
@pytest.mark.parametrize("room", [100, 4_000])
@pytest.mark.parametrize("where", ["--in-place", "--output"])
def test_a_disk_that_fills_changes_nothing(where, room, session):
    before = tree(session.parent)
    limit = session.stat().st_size + room if where == "--in-place" else room
    words = [where] if where == "--in-place" else [where, str(session.parent / "out.jsonl")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), "compact", str(session), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert "file too large" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert tree(session.parent) == before


@pytest.mark.parametrize("own", [True, False])
def test_a_disk_that_fills_is_a_typed_error_of_the_library(own, session, tmp_path, monkeypatch):
    before = tree(tmp_path)
    opened = open_session(session)
    target = session if own else tmp_path / "out.jsonl"
    writes: list[int] = []

    def full(fd: int, data: Any) -> int:
        writes.append(len(data))
        if len(writes) > 1:
            raise OSError(28, "No space left on device")
        return os.write(fd, data[:100])

    from ullage.transcript import log as logfile

    monkeypatch.setitem(logfile.LogFile.__init__.__kwdefaults__, "write", full)
    with pytest.raises(StoreError, match="no space left on device") as found:
        compact_session(opened, output=target)
    assert len(writes) > 1
    assert found.value.path
    assert tree(tmp_path) == before


WHERE_NOT: dict[str, Callable[[Path], str]] = {
    "a folder that is not there": lambda folder: str(folder / "none" / "x.jsonl"),
    "a directory": lambda folder: str(folder),
    "a device": lambda folder: "/dev/full",
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize("kind", WHERE_NOT)
def test_places_that_cannot_be_written(kind, session, tmp_path, capsys):
    before = tree(tmp_path)
    target = WHERE_NOT[kind](tmp_path)
    with pytest.raises(StoreError) as found:
        compact_session(open_session(session), output=target, overwrite=True)
    assert found.value.path == target
    assert run("compact", session, "--output", target, "--force") == 2
    assert capsys.readouterr().err.startswith(f"error: {target}: ")
    assert tree(tmp_path) == before


# ---- arguments -------------------------------------------------------------------------------

ARGUMENTS: dict[str, tuple[list[str], str]] = {
    "keep": (["compact", "--keep", "-5"], "keep: must be a number of tokens, at least 0 (got -5)"),
    "conversation": (
        ["resume", "--conversation", "7"],
        "conversation: must be 0: the file holds 1",
    ),
    "provider": (["validate", "--provider", "nobody"], "provider: must be one of"),
    "policy": (["inspect", "--policy", "none.toml"], "policy file: cannot be read"),
    "both outputs": (["compact", "--in-place", "-o", "x"], "--in-place: cannot be given together"),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_an_argument_out_of_range_is_named_with_value_and_limit(kind, session, tmp_path, capsys):
    before = tree(tmp_path)
    (command, *options), reason = ARGUMENTS[kind]
    assert run(command, session, *options) == 2
    assert capsys.readouterr().err.startswith(f"error: {reason}")
    assert tree(tmp_path) == before


def test_a_model_that_nobody_knows(session, capsys):
    with pytest.raises(UnknownModel, match="no model is named 'nobody-1'") as found:
        ModelTable.builtin().require("nobody-1")
    assert found.value.hint
    assert run("compact", session, "--model", "nobody-1", "--dry-run") == 0
    told = capsys.readouterr().err
    assert told.count("no model is named 'nobody-1': 200,000 tokens of context") == 1
    assert "Warning" not in told


def test_a_window_smaller_than_what_must_stay(tmp_path, capsys):
    """What may never be removed is named with its size and the limit; the history is as it was."""
    message = {"role": "user", "content": "keep every word of this. " * 60_000}
    manager = ContextManager(model="claude-opus-4-5", policy=Policy(), store=MemoryStore())
    manager.add(message)
    with pytest.raises(ContextTooLarge) as found:
        manager.prepare()
    assert found.value.floor_tokens > found.value.limit_tokens > 0
    assert manager.history == [message]
    path = tmp_path / "s.jsonl"
    path.write_text(line(message))
    assert run("replay", path, "--model", "claude-opus-4-5") == 1
    assert (
        "buffered ended early, after 0 requests: what has to stay needs " in capsys.readouterr().out
    )


def test_conversation_and_policy_errors_of_the_library(session):
    with pytest.raises(InvalidPolicy) as found:
        open_session(session, number=3)
    assert (found.value.field, found.value.value) == ("conversation", 3)
    with pytest.raises(InvalidPolicy) as found:
        Policy.buffered().change({"snip.max_chars": -1})
    assert (found.value.field, found.value.value) == ("snip.max_chars", -1)


# ---- the next step in an error -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("inspect", "01"), "too short for the id of a session: type at least 4 characters"),
        (("inspect", "{session}", "--policy", "{snipp}"), "did you mean 'snip.max_chars'?"),
        (("inspect", "{session}", "--policy", "laddder"), "cannot be read: No such file"),
        (
            ("compact", "{session}", "-o", "{folder}/none/x.jsonl"),
            "there is no folder {folder}/none",
        ),
    ],
)
def test_an_error_names_the_next_step(words, expected, session, folder, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    snipp = folder / "snipp.toml"
    snipp.write_text("[snipp]\nmax_chars = 1\n")
    places = {"session": session, "folder": folder, "snipp": snipp}
    assert run(*(word.format(**places) for word in words)) == 2
    assert expected.format(**places) in " ".join(capsys.readouterr().err.split())


def test_a_preset_is_taken_by_its_name(session):
    assert run("inspect", session, "--policy", "ladder") == 0
    assert Policy.load("ladder") == Policy.ladder() != Policy.load("buffered")


def test_output_that_nobody_reads_to_its_end_is_no_error():
    command = f"set -o pipefail; {sys.executable} -m ullage policy | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
