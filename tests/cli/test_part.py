"""`ullage compact --from` and `--up-to`: a part of a session is summarised, the rest stays verbatim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from ullage.cli import main
from ullage.testing import conversation
from ullage.transcript import resume


@pytest.fixture
def session(tmp_path: Path) -> Path:
    messages = conversation(seed=5, tokens=30_000)
    ids = [f"{at:04d}-entry" for at in range(len(messages))]
    rows = [
        {"type": m["role"], "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": m}
        for m, uuid, parent in zip(messages, ids, [None, *ids], strict=False)
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def typed(path: Path) -> list[tuple[int, str]]:
    """Positions and texts of what the user typed."""
    messages = [json.loads(line)["message"] for line in path.read_text().splitlines()]
    return [
        (at, m["content"])
        for at, m in enumerate(messages)
        if m["role"] == "user" and isinstance(m["content"], str)
    ]


def compacted(path: Path, *more: str) -> list[str]:
    """Texts of the new context, one for each block; neighbours of one role are one message there."""
    target = path.with_name("out.jsonl")
    assert main(["compact", str(path), "-o", str(target), *more]) == 0
    contents: list[Any] = [message["content"] for message in resume(target).messages]
    return [
        text
        for content in contents
        for text in ([content] if isinstance(content, str) else [b.get("text") for b in content])
    ]


def test_up_to_an_entry_what_follows_stays_verbatim(session: Path) -> None:
    said = typed(session)
    at = said[len(said) // 2][0]
    shown = compacted(session, "--up-to", f"{at:04d}")
    kept = [json.loads(line)["message"] for line in session.read_text().splitlines()][at:]
    texts = [m["content"] for m in kept if isinstance(m["content"], str)]
    assert texts
    assert [text for text in shown if text in texts] == texts


def test_from_an_entry_what_is_before_stays_verbatim(session: Path) -> None:
    said = typed(session)
    at = said[len(said) // 2][0]
    shown = compacted(session, "--from", f"{at:04d}-entry")
    before = [text for place, text in said if place < at]
    assert before
    assert [text for text in shown if text in before] == before


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--from", "9999"], "--from"),
        (["--up-to", "0"], "--up-to"),  # begins many
        (["--from", "0001", "--up-to", "0002"], "--from"),
        (["--up-to", ""], "--up-to"),
    ],
)
def test_what_names_no_entry_is_refused(
    session: Path, capsys: pytest.CaptureFixture[str], more: list[str], word: str
) -> None:
    before = session.read_bytes()
    assert main(["compact", str(session), *more]) == 2
    assert word in capsys.readouterr().err
    assert session.read_bytes() == before
    assert not session.with_name("s.compacted.jsonl").exists()
