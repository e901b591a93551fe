"""Types and roles that are no strings are passed over wherever they are compared; nothing raises for them."""

from __future__ import annotations

import json

import pytest

import ullage
from ullage.cli import main
from ullage.exceptions import UllageError
from ullage.transcript.formats import detect

pytestmark = pytest.mark.both_engines

STRANGE = ([], {}, ["image"], 3, None, True)


@pytest.mark.parametrize("kind", STRANGE, ids=repr)
def test_a_block_of_a_strange_type_is_compacted_with_the_rest(kind):
    talk = []
    for number in range(8):
        block = {"type": kind, "text": "x", "content": [{"type": kind}]}
        talk += [
            {"role": "user", "content": [{"type": "text", "text": f"question {number}"}, block]},
            {"role": "assistant", "content": [{"type": "text", "text": "answer " * 400}]},
        ]
    talk.append({"role": "user", "content": [{"type": kind}, {"type": "text", "text": "go on"}]})
    talk.append({"role": "assistant", "content": "done"})
    for keep in (0, None):
        try:
            result = ullage.compact(talk, **({} if keep is None else {"keep": keep}))
        except UllageError:
            continue
        assert "go on" in json.dumps(result.messages)


@pytest.mark.parametrize("kind", STRANGE, ids=repr)
@pytest.mark.parametrize("key", ["type", "role"])
def test_a_file_of_strange_lines_is_of_no_known_format(tmp_path, kind, key):
    path = tmp_path / "strange.jsonl"
    line = json.dumps({key: kind, "content": [{"type": kind}], "message": {"role": kind}})
    path.write_text(f"{line}\n" * 3)
    try:
        name = detect(path)
    except UllageError:
        name = "refused"
    assert name


LINES = {
    "codex": [
        {"type": "session_meta", "payload": {"id": "a"}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": 5}},
        {"type": "response_item", "payload": {"type": "function_call", "call_id": [], "name": 3}},
    ],
    "pi": [
        {"type": "session", "id": "a"},
        {
            "type": "message",
            "id": {},
            "timestamp": 1e300,
            "message": {"role": "user", "content": 5},
        },
    ],
    "claude_code": [
        {"type": "user", "uuid": [], "message": {"role": ["user"], "content": "hi"}},
        {
            "type": "assistant",
            "uuid": {},
            "message": {"role": "assistant", "content": [{"type": []}]},
        },
    ],
}
DOCUMENTS = {
    "cline": [{"role": "user", "content": 5, "ts": 10**30}, {"role": "assistant", "content": [3]}],
    "chat": {
        "messages": [{"role": "user", "content": [5]}, {"role": "assistant", "tool_calls": 3}]
    },
    "swe_agent": {"trajectory": 3, "history": [{"role": "user", "content": 5, "agent": []}]},
    "tau_bench": [{"traj": [{"role": "user", "content": "x", "tool_calls": [3]}], "task_id": {}}],
}


@pytest.mark.parametrize("name", [*LINES, *DOCUMENTS])
def test_values_that_no_tool_writes_end_in_one_typed_error(tmp_path, name, capsys):
    path = tmp_path / ("session.jsonl" if name in LINES else "session.json")
    rows = LINES.get(name) or [DOCUMENTS[name]]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    for command in ("inspect", "resume", "validate"):
        code = main([command, str(path)])  # an exception would come through
        shown = capsys.readouterr()
        assert code in (0, 1, 2)
        assert "Traceback" not in shown.err
        assert (code == 2) == shown.err.startswith("error: ")


def test_a_traceback_shows_the_hint():
    error = UllageError("no", hint="try this")
    assert (str(error), error.__notes__) == ("no", ["hint: try this"])
    assert not hasattr(UllageError("no"), "__notes__")
