"""Every request of every real session's replay is rebuilt from its record and its log, byte for byte, and nothing is called broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage import ullage_check as check
from ullage.manager import ContextManager, Request
from ullage.policy import Policy
from ullage.replay import replay_session, script_of
from ullage.sessions import open_session

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning"),
]

MODEL = "claude-opus-4-5"
"""As in `test_replay`."""


@pytest.mark.parametrize("preset", ["buffered", "ladder"])
def test_every_request_is_rebuilt(corpus_file: Path, preset: str, tmp_path: Path):
    script = script_of(open_session(corpus_file))
    if not script.messages:
        pytest.skip("nothing was said")
    made: list[list[str]] = []
    managers: list[ContextManager] = []

    def seen(manager: ContextManager, request: Request) -> None:
        managers[:] = [manager]
        made.append([check.canonical(message) for message in request.messages])

    log = tmp_path / "log.jsonl"
    policy = Policy.ladder() if preset == "ladder" else Policy.buffered()
    replay_session(script, policy, model=MODEL, seen=seen, log=log, record=True)
    for manager in managers:
        manager.close()
    written = log.read_bytes()
    found = check.LogCheck(written)
    assert found.problems == []
    assert found.requests == made
    records = sum(len(line) for line in written.splitlines() if check.RECORD.encode() in line[:30])
    contexts = sum(len(text) for request in made for text in request)
    assert records < contexts / 100 or contexts < 30_000 * len(made)


def test_without_records_a_real_session_is_read_to_its_end(corpus_file: Path):
    found = check.LogCheck(corpus_file.read_bytes())
    assert found.problems == []
    assert found.counts["compactions without a record"] == len(found.notes)
