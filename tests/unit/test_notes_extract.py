"""Extraction of notes: two calls, writes inside the folder only, everything else refused and told."""

from __future__ import annotations

import asyncio
import json

import pytest

from ullage.memory.notes import MemoryFolder
from ullage.memory.notes.extract import aextract, extract, read_only
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
def test_what_may_not_be_written_is_refused_and_told(folder, change, tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    done = extract(folder, TALK, model=Model({"read": []}, {"write": [change]}))
    assert (done.written, done.deleted, len(done.refused)) == ((), (), 1)
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
    assert (done.written, done.deleted) == ((), ())


def test_a_note_that_a_person_edits_meanwhile_is_kept(folder):
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


# ---- commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "git log -3 --stat",
        "grep -rn port src",
        "cat README.md",
        "git show HEAD",
        "wc -l a.py",
    ],
)
def test_commands_that_read_are_run(folder, command):
    seen = []
    model = Model({"run": [command]}, {})
    done = extract(folder, TALK, model=model, run_command=lambda words: seen.append(words) or "out")
    assert (done.refused, seen) == ((), [command.split()])
    assert "out" in model.prompts[1]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x", "ls; rm x", "ls && rm x", "cat a > b", "cat $(rm x)", "cat `rm x`", "ls | sh", "git push", "git log --output=x",
        "git diff --ext-diff", "rg --pre sh x", "find . -delete", "sh -c ls", "", "'unclosed", "ls\nrm x", "env ls", "/bin/ls",
        "git -c core.pager=sh log", "git grep -O x", "python -c 1", "cat ~/.ssh/id", "tee x",
    ],
)  # fmt: skip
def test_commands_that_could_write_are_not(folder, command):
    assert read_only(command) is None
    seen = []
    done = extract(folder, TALK, model=Model({"run": [command]}, {}), run_command=seen.append)
    assert (len(done.refused), seen) == (1, [])


def test_without_a_runner_no_command_runs(folder):
    done = extract(folder, TALK, model=Model({"run": ["ls"]}, {}))
    assert [each.reason for each in done.refused] == ["no commands can be run here"]
