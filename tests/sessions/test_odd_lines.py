"""Lines whose fields are of types that no program writes: whatever reads a session takes them, or refuses the file with a typed error."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.machine_kit import IDS, claude_lines, lines, pi_lines, rollout
from ullage import ContextManager, UllageError
from ullage.exceptions import InvalidTranscript
from ullage.replay import script_of
from ullage.report.session_figures import figures_of
from ullage.sessions import (
    compact_session,
    inspect_session,
    open_session,
    session_parts,
    undo_compaction,
)
from ullage.sessions.handoff import handoff

ODD: list[Any] = [None, "", 0, -1, [], {}, True, ["a"], {"a": 1}, [[1]], 10**19, "user", "system"]
MADE = {
    "claude-code": lambda: claude_lines(IDS["claude-code"], "/w", turns=3),
    "codex": lambda: rollout(IDS["codex"], "/w", turns=3),
    "pi": lambda: pi_lines(IDS["pi"], "/w", turns=3),
}


def places(value, path=()):
    """Each place in a JSON value: what holds it, and its key."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def read_all(path):
    session = open_session(path)
    session.request()
    session.check()
    inspect_session(path)
    session_parts(session)
    script_of(session)
    compact_session(session, output=path.with_name("out.jsonl"), overwrite=True)
    for to in ("claude-code", "codex", "pi"):
        handoff(session, to, write=False)


@pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning")
@pytest.mark.parametrize("tool", MADE)
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_line_is_read_or_refused(tmp_path, tool, seed):
    rng = random.Random(seed)
    made = MADE[tool]()
    for _ in range(rng.choice((1, 2, 4))):
        holder, key = rng.choice(list(places(rng.choice(made))))
        holder[key] = rng.choice(ODD)
    try:
        read_all(lines(tmp_path / "s.jsonl", made))
    except UllageError as exc:
        assert str(exc)  # noqa: PT017 - both endings are fine; no other is


def test_a_replay_takes_an_id_that_is_no_string(tmp_path):
    made = MADE["claude-code"]()
    made[3]["uuid"] = ["a"]
    session = open_session(lines(tmp_path / "s.jsonl", made))
    assert script_of(session).messages
    assert figures_of(session).name


def test_a_message_without_content_is_handed_over(tmp_path):
    made = MADE["claude-code"]()
    del made[-1]["message"]["content"]
    session = open_session(lines(tmp_path / "s.jsonl", made))
    handoff(session, "claude-code", write=False)


def test_a_line_whose_type_is_no_string_does_not_stop_a_compaction(tmp_path):
    made = pi_lines(IDS["pi"], "/w", turns=12)
    made[-1]["type"] = {"a": 1}
    path = lines(tmp_path / "s.jsonl", made)
    assert compact_session(open_session(path), output=path, keep=300).path == path


def test_a_managers_line_without_its_message_is_named(tmp_path):
    path = tmp_path / "s.jsonl"
    with ContextManager(model="claude-opus-4-5", log=path) as manager:
        manager.add({"role": "user", "content": "hi"})
    made = [json.loads(line) for line in path.read_text().splitlines()]
    at = next(at for at, line in enumerate(made) if "message" in line)
    del made[at]["message"]
    lines(path, made)
    with pytest.raises(InvalidTranscript, match="part is missing") as error:
        ContextManager.resume(path)
    assert error.value.line == at + 1


def test_an_undo_takes_names_of_any_type(tmp_path):
    path = lines(tmp_path / "s.jsonl", claude_lines(IDS["claude-code"], "/w", turns=12))
    compact_session(open_session(path), output=path, keep=300)
    made = [json.loads(line) for line in path.read_text().splitlines()]
    mark = next(line for line in made if line.get("subtype") == "compact_boundary")
    mark["compactMetadata"]["groupUuids"] = [{"a": 1}, *mark["compactMetadata"]["groupUuids"]]
    assert undo_compaction(open_session(lines(path, made)), write=False).undone
