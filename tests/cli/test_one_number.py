"""One context has one size: before and after a compaction, in every command, in one unit."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("rich")

from ullage.cli import main
from ullage.testing import conversation
from ullage.transcript import TranscriptLog


def session(tmp_path, usage):
    path = tmp_path / "s.jsonl"
    with TranscriptLog.open(path) as log:
        for item in conversation(seed=3, tokens=40_000):
            reported = {
                "usage": {"input_tokens": usage, "output_tokens": 9},
                "model": "claude-opus-4-5",
            }
            log.append({**item, **(reported if usage and item["role"] == "assistant" else {})})
    return path


def printed(capsys, *arguments):
    main([*map(str, arguments), "--json"])
    return json.loads(capsys.readouterr().out)["result"]


@pytest.mark.parametrize("usage", [0, 9_000, 60_000, 110_000])
@pytest.mark.parametrize("where", ["in place", "elsewhere"])
def test_what_compact_reports_is_what_inspect_reports(usage, where, tmp_path, capsys):
    path = session(tmp_path, usage)
    before = printed(capsys, "inspect", path)["window"]["used_tokens"]
    out = path if where == "in place" else tmp_path / "o.jsonl"
    to = ["--in-place"] if where == "in place" else ["-o", out]
    done = printed(capsys, "compact", path, *to)
    assert done["tokens_before"] == before
    assert f"{before:,} tokens before" in done["notice"]
    if usage:  # less than the estimate of the messages, about as much, and more
        assert before >= usage
    after = printed(capsys, "inspect", out)
    assert done["tokens_after"] == after["window"]["used_tokens"]
    assert printed(capsys, "batch", "inspect", out)["files"][0]["tokens"] == done["tokens_after"]
    boundary = after["boundaries"][-1]
    assert (boundary["tokens_before"], boundary["tokens_after"]) == (before, done["tokens_after"])
    again = printed(capsys, "compact", "-n", out, "--keep", "500")
    assert again["tokens_before"] == done["tokens_after"]
    assert done["messages_kept"] + done["messages_summarized"] == done["messages_before"]
    assert done["messages_kept"] < done["messages_after"] <= done["messages_before"]
    for report in (after, printed(capsys, "inspect", path)):
        assert sum(report["categories"].values()) == report["window"]["used_tokens"]
