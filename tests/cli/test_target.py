"""`--target` and `--window`, and what a compaction that is turned off tells."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from ullage import estimate_tokens
from ullage.cli import main
from ullage.cli.output import read_target, read_window
from ullage.exceptions import InvalidPolicy
from ullage.sessions import open_session
from ullage.testing import conversation
from ullage.ullage_check import LogCheck

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
    assert found["target_tokens"] == int(
        share * (found["tokens_before"] - found["overhead_tokens"])
    )
    assert found["tokens_after"] - found["overhead_tokens"] <= found["target_tokens"]


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
    assert "target  6,000 tokens of messages: 5," in capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], path: Path, target: str) -> dict[str, Any]:
    """A target that cannot be met: exit code 2, and no file is written or changed."""
    before = path.read_bytes()
    for more in (["--dry-run"], ["--in-place"], ["--new-session"], []):
        assert main(["compact", str(path), "--target", target, "--json", *more]) == 2
        found = json.loads(capsys.readouterr().out)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    return found["error"]


@pytest.mark.parametrize("length", range(0, 60, 6))
def test_a_target_below_what_must_stay_is_refused_with_the_smallest(tmp_path, capsys, length):
    """Also where the path of the transcript, which a small summary names if it has room, is long."""
    items = [
        *conversation(seed=3, tokens=20_000, ending="assistant"),
        {"role": "user", "content": words(3_000)},  # nobody answered it: it stays
    ]
    path = written(tmp_path / f"s{'x' * length}.jsonl", items)
    error = refused(capsys, path, "2k")
    assert error["code"] == "context_too_large"
    assert "but the target of messages is 2,000" in error["message"]
    smallest = re.search(r"smallest target is ([\d,]+)", error["hint"])[1].replace(",", "")
    found = told(capsys, path, "--target", smallest)
    assert found["tokens_after"] - found["overhead_tokens"] <= int(smallest)
    assert main(["compact", str(path), "--dry-run", "--target", smallest]) == 0


def test_a_result_in_a_kept_line_counts_as_what_must_stay(tmp_path, capsys):
    """Two calls at once, one of them still open: their lines have to stay as they are."""
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}} for n in (1, 2)]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": words(3_000)}
    items = [
        *conversation(seed=3, tokens=20_000, ending="assistant"),
        {"role": "user", "content": "read both"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [result]},
    ]
    error = refused(capsys, written(tmp_path / "s.jsonl", items), "3k")
    assert "messages that wait for an answer" in error["message"]


def test_system_prompt_and_tools_are_reported_apart_from_the_target(tmp_path, capsys):
    """The line of the Quickstart, in a session whose system prompt and tools alone are larger than the target."""
    items = conversation(seed=5, tokens=60_000, ending="assistant")
    seen = 0
    for number, item in enumerate(items):
        seen += estimate_tokens([item], model="claude-opus-4-5")
        if item["role"] == "assistant":
            usage = {"input_tokens": 50_000 + seen, "output_tokens": 1}
            item |= {"id": f"r{number}", "model": "claude-opus-4-5", "usage": usage}
    path = written(tmp_path / "s.jsonl", items)
    found = told(capsys, path, "--target", "20k")
    assert 18_000 < found["tokens_after"] - found["overhead_tokens"] <= 20_000
    assert 49_000 < found["overhead_tokens"] < 52_000
    assert found["messages_kept"] > 0
    assert found["over_target"] == 0
    assert main(["compact", str(path), "--dry-run", "--target", "20k"]) == 0
    assert "system prompt and tools take 50," in capsys.readouterr().out


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


# ---- --window ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "tokens"), [("200k", 200_000), ("1m", 1_000_000), ("80_000", 80_000), (None, None)]
)
def test_a_window_is_read_in_every_spelling(given, tokens):
    assert read_window(given).auto_compact_window == tokens


@pytest.mark.parametrize("given", ["10%", "0", "x", "", "-5"])
def test_what_is_no_window_is_refused_by_name(given):
    with pytest.raises(InvalidPolicy, match="--window"):
        read_window(given)


def test_a_lower_window_is_what_inspect_and_replay_go_by(session, capsys):
    assert main(["inspect", str(session), "--window", "30k", "--json"]) == 0
    window = json.loads(capsys.readouterr().out)["result"]["window"]
    assert window["context_tokens"] == 30_000
    runs = {}
    for name, size in {"whole": [], "lower": ["--window", "30k"]}.items():
        assert main(["replay", str(session), *size, "--json"]) == 0
        runs[name] = json.loads(capsys.readouterr().out)["result"]
    assert runs["lower"]["working_tokens"] == 30_000
    assert runs["whole"]["working_tokens"] == runs["whole"]["window_tokens"]
    largest = {name: run["largest_request_tokens"] for name, run in runs.items()}
    assert largest["lower"] <= 30_000
    assert largest["lower"] < largest["whole"]


def test_a_compaction_for_a_lower_window_leaves_a_smaller_context(session, capsys):
    left = []
    for size in ([], ["--window", "8k"]):
        assert main(["compact", str(session), "--dry-run", "--json", *size]) == 0
        left.append(json.loads(capsys.readouterr().out)["result"]["tokens_after"])
    assert left[1] < min(8_000, left[0])
    assert main(["compact", str(session), "--dry-run", "--window", "10%"]) == 2


def test_prices_of_a_file_change_dollars_alone(session: Path, tmp_path: Path, capsys) -> None:
    own = tmp_path / "own.toml"
    prices = "{input = 10, output = 50, cache_write_5m = 12.5, cache_write_1h = 20, cache_read = 1}"
    own.write_text(f'version = "2030-01-01"\n[models."claude-opus-4-5"]\nprices = {prices}\n')
    found = []
    for words in ([], ["--prices", str(own)]):
        options = ["--model", "claude-opus-4-5", "--frontier", "--json"]
        assert main(["replay", str(session), *options, *words]) == 0
        found.append(json.loads(capsys.readouterr().out)["result"])
    plain, priced = found
    assert plain["prices"] < priced["prices"] == "2030-01-01"
    for before, now in zip(plain["working_sizes"], priced["working_sizes"], strict=True):
        assert now == {**before, "nanousd": 2 * before["nanousd"]}
        assert before["nanousd"] > 0
    assert plain["requests"] == priced["requests"]
    worth = []
    for words in ([], ["--prices", str(own)]):
        assert main(["compact", str(session), *options[:2], "--dry-run", "--json", *words]) == 0
        worth.append(json.loads(capsys.readouterr().out)["result"]["worth"])
    # Both are rounded to a hundredth of a cent, and one is doubled.
    assert worth[1]["dollars_each"] == pytest.approx(2 * worth[0]["dollars_each"], abs=1.6e-4)
    prompts = []
    for words in ([], ["--prices", str(own)]):
        assert main(["inspect", str(session), *options[:2], "--json", *words]) == 0
        prompts.append(json.loads(capsys.readouterr().out)["result"]["prompt"])
    assert prompts[1]["prices"] == "2030-01-01"
    for name in ("dollars_read", "dollars_written"):
        assert prompts[1][name] == pytest.approx(2 * prompts[0][name], abs=2e-4) != 0


def test_record_is_written_next_to_the_session_and_holds(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "s.jsonl"
    assert main(["compact", str(session), "-o", str(out), "--record", "--json"]) == 0
    record = Path(json.loads(capsys.readouterr().out)["result"]["record"])
    assert record == tmp_path / "s.record.jsonl"
    found = LogCheck(out.read_bytes(), record.read_bytes())
    assert found.problems == []
    assert found.counts["rebuilt"] == 1
    assert record.stat().st_size < session.stat().st_size / 20
    assert main(["compact", str(session), "-o", "-", "--record"]) == 2
