"""`ullage schema`: what every command prints with `--json` has exactly the keys that its schema names."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest

from tests.kit import ullage
from tests.kit.transcripts import session_file
from tests.machine_kit import Machine
from ullage.testing import conversation, scenario
from ullage.transcript import TranscriptLog

pytest.importorskip("cyclopts")

COMMANDS = {
    "list": ["list"],
    "demo": ["demo --size 30000 --directory {folder}/demo"],
    "inspect": ["inspect {session}", "inspect {compacted}"],
    "compact": [
        "compact {session} --dry-run --summary --diff",
        "compact {session} --target 9000 -o {folder}/smaller.jsonl",
        "compact {codex} --format claude-code --dry-run",
        "compact {short} --dry-run",
    ],
    "undo": ["undo {compacted} --dry-run", "undo {compacted}"],
    "edit": ["edit {session}", "edit {session} --remove t2", "edit {session} --remove t2 -n"],
    "handoff": ["handoff {codex} --to pi --dry-run"],
    "watch": ["watch {session} --once", "watch {empty} --once"],
    "search": ["search parser", "search xyzzyplugh"],
    "resume": ["resume {session}", "resume {session} --provider openai_responses"],
    "replay": ["replay {session}"],
    "report": ["report {session} {codex} -o {folder}/report.html"],
    "batch": [
        "batch inspect {session} {broken}",
        "batch compact {session} {short}",
        "batch compact {session} -o {folder}/out",
        "batch validate {session} {illegal}",
        "batch count {session}",
        "batch replay {session}",
    ],
    "validate": ["validate {session} --warnings", "validate {illegal}"],
    "policy": ["policy", "policy --model claude-opus-4-5"],
    "memory list": ["memory list --folder {notes}"],
    "memory show": ["memory show {note} --folder {notes}"],
    "memory search": ["memory search flaky --folder {notes}"],
    "memory add": ["memory add Other text --folder {notes}"],
    "memory check": ["memory check --folder {notes}"],
    "session-memory show": ["session-memory show {session}", "session-memory show {noted}"],
    "session-memory update": ["session-memory update {session}"],
    "claude doctor": ["claude doctor"],
    "hooks doctor": ["hooks doctor"],
}
ERRORS = {
    "inspect": "inspect {broken}",
    "compact": "compact {session} --target 0",
    "watch": "watch {broken} --once",
    "memory show": "memory show missing --folder {notes}",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A session, and one that was compacted."""
    folder = tmp_path_factory.mktemp("made")
    session = session_file(scenario(3, turns=6, tokens=40_000, model="claude-opus-4-5"))
    written = session.write(folder)
    done = ullage("compact", written, "--keep", "2000", "-o", folder / "compacted.jsonl")
    assert done.returncode == 0, done.stderr
    return {"session": written, "compacted": folder / "compacted.jsonl"}


@pytest.fixture
def places(made, tmp_path, monkeypatch):
    """A machine of its own, with one of each kind of file."""
    machine = Machine(tmp_path / "machine", monkeypatch).fill()
    monkeypatch.chdir(tmp_path)
    names = {name: Path(shutil.copy(path, tmp_path)) for name, path in made.items()}
    names |= {"folder": tmp_path, "notes": tmp_path / "notes", "codex": machine.files["codex"]}
    for name, messages in _logs().items():
        names[name] = tmp_path / f"{name}.jsonl"
        with TranscriptLog.open(names[name]) as log:
            log.extend(messages)
    names["broken"] = tmp_path / "broken.jsonl"
    names["broken"].write_text("{no json")
    names["noted"] = Path(shutil.copy(made["session"], tmp_path / "noted.jsonl"))
    assert ullage("session-memory", "update", names["noted"]).returncode == 0
    added = ullage("memory", "add", "Flaky test", "Retry it.", "--folder", names["notes"], "--json")
    names["note"] = json.loads(added.stdout)["result"]["path"]
    return names


def _logs():
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    return {
        "short": [{"role": "user", "content": "hello"}],
        "empty": [{"role": "user", "content": " "}],
        "illegal": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": "and then?"},
            *conversation(3, tokens=2_000),
        ],
    }


@pytest.fixture
def checker():
    """A checker of a schema, which is itself checked."""
    jsonschema = pytest.importorskip("jsonschema")

    def made(schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)

    return made


def run(line, places):
    words = [word.format(**places) for word in line.split()]
    return ullage(*words, "--json")


def schema_of(command):
    done = ullage("schema", *command.split())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def closed(schema):
    """The schema without room for keys that it does not name."""
    made = copy.deepcopy(schema)
    _close(made)
    return made


def _close(part):
    if isinstance(part, dict):
        if "properties" in part and "required" in part:
            part.setdefault("additionalProperties", False)
        for each in part.values():
            _close(each)
    elif isinstance(part, list):
        for each in part:
            _close(each)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_output_has_the_keys_of_its_schema_and_no_others(command, places, checker):
    if command == "report":
        pytest.importorskip("jinja2")
    exact = checker(closed(schema_of(command)))
    for line in COMMANDS[command]:
        done = run(line, places)
        found = json.loads(done.stdout)
        assert "error" not in found, done.stderr
        assert list(map(_said, exact.iter_errors(found))) == []


def _said(error):
    """An error, and what stands below an `anyOf`: that names the key."""
    return (error.json_path, error.message[-300:], list(map(_said, error.context or ())))


@pytest.mark.parametrize("command", ERRORS)
def test_an_error_has_the_keys_of_its_schema(command, places, checker):
    done = run(ERRORS[command], places)
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert found["error"]["message"]
    checker(closed(schema_of(command))).validate(found)


def test_what_is_no_output_does_not_pass(places, checker):
    schema = checker(schema_of("inspect"))
    found = json.loads(run("inspect {session}", places).stdout)
    schema.validate(found)
    schema.validate({**found, "result": {**found["result"], "later": 1}})
    less = {name: value for name, value in found["result"].items() if name != "window"}
    for wrong in (
        {**found, "version": 2},
        {**found, "command": "compact"},
        {**found, "result": {**found["result"], "bytes": "12"}},
        {**found, "result": less},
    ):
        assert not schema.is_valid(wrong)


def test_every_command_with_json_has_a_schema_and_a_case_here():
    from ullage.cli.app import command_apps

    having = {
        name
        for name, app in command_apps()
        if app.default_command is not None
        and any("--json" in each.names for each in app.assemble_argument_collection())
    }
    listed = ullage("schema").stdout.split("\n")[:-1]
    assert having == set(listed) == set(COMMANDS)


def test_a_command_without_json_is_an_error_with_the_next_step():
    done = ullage("schema", "mcp")
    assert done.returncode == 2
    assert "mcp" in done.stderr
    assert "ullage schema" in done.stderr
    assert done.stdout == ""
