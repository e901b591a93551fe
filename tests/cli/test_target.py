"""`ullage compact --target`, and what a compaction that is turned off tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from ullage.cli import main
from ullage.cli.target_option import read_target
from ullage.exceptions import InvalidPolicy
from ullage.sessions import open_session
from ullage.testing import conversation

NOTICE = "Compaction is turned off (DISABLE_COMPACT)."


def words(count: int) -> str:
    return " ".join(f"w{n * 7919 % 100_003}" for n in range(count))


def written(path: Path, messages: list[dict[str, Any]]) -> Path:
    ids = [f"00000000-0000-4000-8000-{at:012d}" for at in range(len(messages))]
    rows = [
        {"type": m["role"], "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": m}
        for m, uuid, parent in zip(messages, ids, [None, *ids], strict=False)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    return written(folder / "s.jsonl", conversation(seed=5, tokens=30_000))


def told(capsys: pytest.CaptureFixture[str], *args: str | Path) -> dict[str, Any]:
    main(["compact", *map(str, args), "--dry-run", "--json"])
    return json.loads(capsys.readouterr().out)["result"]


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ("6000", 6_000),
        ("6k", 6_000),
        ("6K", 6_000),
        ("6.5k", 6_500),
        ("6_000", 6_000),
        ("6,000", 6_000),
        (" 6 k ", 6_000),
        ("1.5m", 1_500_000),
    ],
)
def test_tokens_in_any_spelling(session, given, tokens, capsys):
    found = told(capsys, session, "--target", given)
    assert found["target_tokens"] == tokens
    assert found["over_target"] == 0
    assert found["tokens_after"] <= min(tokens, found["tokens_before"])


@pytest.mark.parametrize("percent", ["10%", "33.3%", "50 %", "100%"])
def test_a_share_is_of_the_context_before(session, percent, capsys):
    found = told(capsys, session, "--target", percent)
    share = float(percent.rstrip(" %")) / 100
    assert found["target_tokens"] == int(share * found["tokens_before"])
    assert found["tokens_after"] <= found["target_tokens"]


@pytest.mark.parametrize(
    "given",
    ["0", "0%", "101%", "1e3", "many", "", "k", "-5", "1.5", "0.0001k", "1,5k", "٣", "20k%"],
)
def test_what_is_no_size_is_refused_with_the_value(session, given, capsys):
    assert main(["compact", str(session), "--dry-run", f"--target={given}"]) == 2
    error = capsys.readouterr().err
    assert "--target" in error
    assert repr(given) in error
    assert "Traceback" not in error
    with pytest.raises(InvalidPolicy) as caught:
        read_target(given, open_session(session))
    assert (caught.value.field, caught.value.value) == ("--target", given)


def test_without_a_target_nothing_is_said_of_it(session, capsys):
    found = told(capsys, session)
    assert (found["target_tokens"], found["over_target"]) == (None, 0)
    main(["compact", str(session), "--dry-run"])
    assert "\ntarget " not in capsys.readouterr().out


def test_the_printed_line_names_the_target(session, capsys):
    assert main(["compact", str(session), "--dry-run", "--target", "6k"]) == 0
    assert "target  6,000 tokens: kept" in capsys.readouterr().out


def test_what_is_over_the_target_is_reported(tmp_path, capsys):
    items = [
        *conversation(seed=3, tokens=20_000, ending="assistant"),
        {"role": "user", "content": words(3_000)},  # nobody answered it: it stays
    ]
    path = written(tmp_path / "s.jsonl", items)
    found = told(capsys, path, "--target", "2k")
    over = found["tokens_after"] - 2_000
    assert found["over_target"] == over > 0
    assert f"over_target:{over}" in found["warnings"]
    assert main(["compact", str(path), "--dry-run", "--target", "2k"]) == 0
    shown = capsys.readouterr()
    assert f"target  2,000 tokens: exceeded by {over:,}" in shown.out
    assert f"over_target:{over}" in shown.err


def test_a_result_in_a_kept_line_stays_whole_and_is_reported(tmp_path, capsys):
    """Two calls at once, one of them still open: their lines have to stay as they are."""
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}} for n in (1, 2)]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": words(3_000)}
    items = [
        *conversation(seed=3, tokens=20_000, ending="assistant"),
        {"role": "user", "content": "read both"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [result]},
    ]
    found = told(capsys, written(tmp_path / "s.jsonl", items), "--target", "3k")
    assert found["over_target"] > 0
    assert f"over_target:{found['over_target']}" in found["warnings"]
    assert any(warning.startswith("results_kept_whole:") for warning in found["warnings"])


def test_a_written_file_holds_the_target(session, tmp_path, capsys):
    target = tmp_path / "out.jsonl"
    assert main(["compact", str(session), "--output", str(target), "--target", "6k"]) == 0
    capsys.readouterr()
    main(["inspect", str(target), "--json"])
    assert (
        json.loads(capsys.readouterr().out)["result"]["window"]["estimated_messages_tokens"]
        <= 6_000
    )


@pytest.mark.parametrize("command", [("compact", "--dry-run"), ("batch", "compact")])
def test_what_is_turned_off_names_the_variable(session, command, monkeypatch, capsys):
    monkeypatch.setenv("DISABLE_COMPACT", "1")
    main([command[0], *command[1:], str(session)])
    shown = capsys.readouterr()
    assert NOTICE in shown.out + shown.err
    main([command[0], *command[1:], str(session), "--json"])
    found = json.loads(capsys.readouterr().out)["result"]
    found = found["files"][0] if command[0] == "batch" else found
    assert (found["outcome"], found["reason"], found["notice"]) == ("blocked", "disabled", NOTICE)
