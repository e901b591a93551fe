"""Extraction of notes: two calls, writes inside the folder only, everything else refused and reported."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess

import pytest
from hypothesis import given, strategies as st

from ullage.exceptions import InvalidPolicy
from ullage.memory.notes import MemoryFolder, NoteKeeper, NoteRecall
from ullage.memory.notes.extraction import aextract, extract
from ullage.memory.notes.folder import PROGRAMS, read_only
from ullage.summarizers.protocol import SummaryReply

TALK = [
    {"role": "user", "content": "From now on always run make lint before you commit."},
    {"role": "assistant", "content": "I will."},
]


@pytest.fixture
def folder(tmp_path):
    made = MemoryFolder(tmp_path / "memory")
    made.add("Port", "where the server listens", "project", "It is 8123.")
    return made


class Model:
    """Answers in order; keeps the prompts."""

    name = "scripted"
    local = True

    def __init__(self, *answers):
        self.answers, self.prompts, self.sources = list(answers), [], []

    def summarize(self, request):
        self.prompts.append(request.prompt)
        self.sources.append(request.source)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return (
            answer
            if isinstance(answer, SummaryReply)
            else SummaryReply(text=answer if isinstance(answer, str) else json.dumps(answer))
        )


def test_reads_come_before_writes(folder):
    model = Model(
        {"read": ["port.md"]},
        {"write": [
            {"path": "port.md", "body": "It is 8124 since the move."},
            {"name": "Lint", "description": "before commits", "type": "feedback", "body": "Run make lint first."},
        ]},
    )  # fmt: skip
    done = extract(folder, TALK, model=model)
    assert done.written == ("port.md", "lint.md")
    assert done.refused == ()
    assert folder.read("port.md").body == "It is 8124 since the move."
    assert "port.md [project] Port" in model.prompts[0]
    assert "It is 8123." in model.prompts[1]
    assert model.sources == ["memory_extract"] * 2
    assert folder.problems() == []


def test_it_runs_without_blocking(folder):
    model = Model({}, {"write": [{"name": "A", "description": "b", "type": "user", "body": "c"}]})
    assert asyncio.run(aextract(folder, TALK, model=model)).written == ("a.md",)


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../secret.md", "body": "x"},
        {"path": "/etc/passwd", "body": "x"},
        {"path": "port.md", "body": "x"},  # not read first
        {"path": "port.md", "delete": True},
        {"name": "A", "description": "b", "type": "user", "body": " "},
        {"path": 3, "body": "x"},
        {"path": ["port.md"], "body": "x"},
        {"name": "A", "description": "b", "type": "secret", "body": "c"},
        {"name": "A\nB", "description": "b", "type": "user", "body": "c"},
        {"name": "A", "description": "b", "type": "user"},
        {"name": "Port", "description": "again", "type": "user", "body": "c"},
        {"name": "Big", "description": "b", "type": "user", "body": "x" * 2_000_000},
        "text",
        None,
    ],
)
def test_what_may_not_be_written_is_refused_and_reported(folder, change, tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    done = extract(folder, TALK, model=Model({"read": []}, {"write": [change]}))
    assert (done.written, len(done.refused)) == ((), 1)
    assert [note.path for note in folder.notes()] == ["port.md"]
    assert folder.read("port.md").body == "It is 8123."
    assert (tmp_path / "secret.md").read_text() == "secret"


def test_reading_outside_is_refused(folder, tmp_path):
    (tmp_path / "secret.md").write_text("---\nname: a\ntype: user\n---\nsecret")
    (folder.path / "link.md").symlink_to(tmp_path / "secret.md")
    model = Model({"read": ["../secret.md", "link.md", "port.md"]}, {})
    done = extract(folder, TALK, model=model)
    assert [each.tried for each in done.refused] == ["../secret.md", "link.md"]
    assert "secret" not in model.prompts[1]


def test_every_other_tool_is_refused(folder):
    reply = SummaryReply(text="{}", tool_calls=("Bash", "Write", "mcp__mail__send"))
    done = extract(folder, TALK, model=Model(reply, {}))
    assert [each.tried for each in done.refused] == ["Bash", "Write", "mcp__mail__send"]


@pytest.mark.parametrize(
    "answers", [("nonsense",), ("{broken",), ("[]",), (RuntimeError("503"),), ("",)]
)
def test_a_bad_first_answer_changes_nothing(folder, answers):
    done = extract(folder, TALK, model=Model(*answers))
    assert done.skipped
    assert [note.path for note in folder.notes()] == ["port.md"]


@pytest.mark.parametrize("answer", ["nonsense", RuntimeError("503"), {"write": "all"}, {}])
def test_a_bad_second_answer_changes_nothing(folder, answer):
    done = extract(folder, TALK, model=Model({"read": ["port.md"]}, answer))
    assert done.written == ()


def test_a_note_that_a_user_edits_meanwhile_is_kept(folder):
    class Slow(Model):
        def summarize(self, request):
            if len(self.answers) == 1:
                path = folder.path / "port.md"
                path.write_text(path.read_text().replace("8123", "9000"))
            return super().summarize(request)

    model = Slow({"read": ["port.md"]}, {"write": [{"path": "port.md", "body": "lost"}]})
    done = extract(folder, TALK, model=model)
    assert done.written == ()
    assert "changed" in done.refused[0].reason
    assert folder.read("port.md").body == "It is 9000."


@pytest.mark.parametrize(
    ("name", "given", "wrote"),
    [
        ("memory", {"command": "create", "path": "/memories/a.md"}, True),
        ("memory", {"command": "view", "path": "/memories"}, False),
        ("Write", {"file_path": "{root}/a.md"}, True),
        ("Read", {"file_path": "{root}/a.md"}, False),
        ("Write", {"file_path": "/elsewhere/a.md"}, False),
        ("Write", {"file_path": "{root}-of-another/a.md"}, False),
    ],
)
def test_it_stands_back_where_the_agent_wrote_notes_itself(folder, name, given, wrote):
    given = {key: value.format(root=folder.path) for key, value in given.items()}
    call = {"type": "tool_use", "id": "t", "name": name, "input": given}
    model = Model({}, {})
    done = extract(folder, [*TALK, {"role": "assistant", "content": [call]}], model=model)
    assert bool(done.skipped) is wrote
    assert bool(model.prompts) is not wrote


def test_without_a_model_lasting_instructions_are_copied_once(folder):
    done = extract(folder, TALK)
    assert len(done.written) == 1
    note = folder.read(done.written[0])
    assert note.body == TALK[0]["content"]
    assert note.type.value == "feedback"
    assert extract(folder, TALK).written == ()


def test_no_answer_deletes_or_empties_a_note(folder):
    for change in ({"delete": True}, {"delete": 1, "body": "x"}, {"body": ""}, {"body": " \n"}):
        model = Model({"read": ["port.md"]}, {"write": [{"path": "port.md", **change}]})
        done = extract(folder, TALK, model=model)
        assert (done.written, len(done.refused)) == ((), 1)
        assert folder.read("port.md").body == "It is 8123."


# ---- who is asked ------------------------------------------------------------------------------


def test_a_function_is_asked_wherever_a_model_is(folder):
    asked = []

    def model(request):
        asked.append(request.source)
        return '["port.md"]' if request.source == "memory_recall" else "{}"

    assert NoteRecall(folder, model=model).find("port").by == "model"
    assert extract(folder, TALK, model=model).skipped == ""
    keeper = NoteKeeper(folder, model=model, mode="inline")
    assert keeper.answered(TALK[-1], TALK)
    assert asked == ["memory_recall", *["memory_extract"] * 4]


async def _later(request):
    return "{}"


@pytest.mark.parametrize("model", ["anthropic", "nobody:model", 3, object()])
def test_what_is_no_model_is_refused_at_once(folder, model):
    for make in (NoteRecall, NoteKeeper):
        with pytest.raises(InvalidPolicy):
            make(folder, model=model)
    with pytest.raises(InvalidPolicy):
        extract(folder, TALK, model=model)


def test_a_coroutine_function_in_a_synchronous_call_is_reported(folder):
    with pytest.raises(InvalidPolicy):
        extract(folder, TALK, model=_later)
    with pytest.raises(InvalidPolicy):
        NoteRecall(folder, model=_later).find("port")
    assert asyncio.run(aextract(folder, TALK, model=_later)).skipped == ""


def test_a_line_names_the_model(folder, monkeypatch):
    pytest.importorskip("anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    assert NoteRecall(folder, model="anthropic:claude-haiku-4-5").model.name.startswith("anthropic")
    assert NoteRecall(folder, model="extractive").find("port").by == "words"
    assert len(extract(folder, TALK, model="extractive").written) == 1


# ---- commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("ls", ["ls"]),
        ("ls -lR .", ["ls", "-lR"]),
        ("grep -rn -m 3 port", ["grep", "-rn", "-m", "3", "-e", "port"]),
        ("grep -C2 port {root}", ["grep", "-C2", "-e", "port"]),
        ("stat {root}/", ["stat"]),
    ],
)
def test_commands_on_the_folder_are_run(folder, command, options):
    seen = []
    root = str(folder.path)
    model = Model({"run": [command.format(root=root)]}, {})
    done = extract(folder, TALK, model=model, run_command=lambda words: seen.append(words) or "out")
    assert (done.refused, seen) == ((), [[*options, "--", root]])
    assert "out" in model.prompts[1]


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("cat port.md", ["cat"]),
        ("cat ./port.md", ["cat"]),
        ("cat -- port.md", ["cat"]),
        ("head -20 port.md", ["head", "-20"]),
        ("tail -n 5 {root}/port.md", ["tail", "-n", "5"]),
        ("wc -l port.md", ["wc", "-l"]),
        ("grep -i 8123 port.md", ["grep", "-i", "-e", "8123"]),
    ],
)
def test_commands_on_a_note_get_its_absolute_path(folder, command, options):
    words = read_only(command.format(root=folder.path), folder.sandbox)
    assert words == [*options, "--", str(folder.path / "port.md")]
    assert subprocess.run(words, capture_output=True, check=False, cwd="/").returncode == 0


def test_commands_without_a_path_run_as_they_are(folder):
    assert read_only("date -u", folder.sandbox) == ["date", "-u"]
    assert read_only("date port.md", folder.sandbox) is None


OUTSIDE = ["../secret.md", "{up}/secret.md", "/etc/passwd", "~/x", "link.md", "hard.md", "inner/link/secret.md", "{root}/../secret.md",
           "missing.md", ".lock", "{root}x/a.md"]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_command_reaches_a_file_outside(folder, tmp_path, program, path):
    (tmp_path / "secret.md").write_text("secret")
    (folder.path / "link.md").symlink_to(tmp_path / "secret.md")
    (folder.path / "hard.md").hardlink_to(tmp_path / "secret.md")
    (folder.path / "inner").mkdir()
    (folder.path / "inner" / "link").symlink_to(tmp_path)
    path = path.format(root=folder.path, up=tmp_path)
    for words in ([path], ["port.md", path], ["--", path], ["x", path], ["-e", "x", path]):
        found = read_only(shlex.join([program, *words]), folder.sandbox)
        if words[0] == path and program == "grep":
            continue  # the pattern
        assert found is None or path not in found[found.index("--") :]
        assert found is None or "secret" not in " ".join(found[found.index("--") :])
    assert read_only(f"{program} port.md {shlex.quote(path)}", folder.sandbox) is None


@given(command=st.lists(st.sampled_from([
    *PROGRAMS, "-f", "-r", "-R", "-n", "3", "--file=/etc/passwd", "--files0-from=/etc/passwd", "-f/etc/passwd", "/etc/passwd", "..", "port.md",
    "--reference=/etc/passwd", "--exclude-from=/etc/passwd", "-e", "--", "-", "-m", "-C", "--include=a", "--follow", "-d", "recurse"]),
    min_size=1, max_size=6).map(" ".join))  # fmt: skip
def test_whatever_is_run_names_files_of_the_folder_only(tmp_path_factory, command):
    folder = MemoryFolder(tmp_path_factory.getbasetemp() / "notes")
    if not folder.notes():
        folder.add("Port", "d", "project", "b")
    words = read_only(command, folder.sandbox)
    if words is None or "--" not in words:
        return
    options, paths = words[1 : words.index("--")], words[words.index("--") + 1 :]
    assert all(path == str(folder.path) or path.startswith(f"{folder.path}/") for path in paths)
    plain = [each for at, each in enumerate(options) if options[max(at - 1, 0)] != "-e" or at == 0]
    assert not any("passwd" in each or ".." in each for each in plain)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x", "ls; rm x", "ls && rm x", "cat a > b", "cat $(rm x)", "cat `rm x`", "ls | sh", "git push", "git log --output=x",
        "git diff --ext-diff", "rg --pre sh x", "find . -delete", "sh -c ls", "", "'unclosed", "ls\nrm x", "env ls", "/bin/ls",
        "git -c core.pager=sh log", "git grep -O x", "python -c 1", "cat ~/.ssh/id", "tee x",
        "git log", "git show HEAD", "rg x", "tree", "file x", "cat src/main.py", "grep -r secret ..", "grep -f port.md x", "wc --files0-from=port.md",
        "date -f port.md", "date --file=port.md", "tail -f port.md", "grep -R x", "cat port.*", "ls [a-z]", "head -n", "cat -", "pwd",
    ],
)  # fmt: skip
def test_other_commands_are_refused(folder, command):
    assert read_only(command, folder.sandbox) is None
    seen = []
    done = extract(folder, TALK, model=Model({"run": [command]}, {}), run_command=seen.append)
    assert (len(done.refused), seen) == (1, [])


def test_without_a_runner_no_command_runs(folder):
    done = extract(folder, TALK, model=Model({"run": ["ls"]}, {}))
    assert [each.reason for each in done.refused] == ["no commands can be run here"]
