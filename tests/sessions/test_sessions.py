"""Sessions on disk: what is written can be sent, and its sizes are its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.oracle.legality import assert_legal
from ullage.sessions import compact_session, open_session
from ullage.sessions.inspected import inspect_opened

pytest.importorskip("cyclopts")
pytest.importorskip("rich")
from ullage.cli.inspect import report_of

WORDS = "The parser drops the last row when the file has no line end. "


def codex(tmp_path):
    """A Codex rollout: encrypted reasoning, one call and its output in each turn."""
    items = [{"type": "session_meta", "payload": {"id": "s1", "cwd": "/w"}}]
    for at in range(30):
        items += [
            _item(_said("user", "input_text", f"{at}: {WORDS}")),
            _item({"type": "reasoning", "summary": [], "encrypted_content": f"sealed-{at}"}),
            _item(_call(at)),
            _item({"type": "function_call_output", "call_id": f"call {at}", "output": WORDS * 9}),
            _item(_said("assistant", "output_text", f"Done with {at}.")),
        ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "t", **item}) + "\n" for item in items))
    return path


def _item(payload):
    return {"type": "response_item", "payload": payload}


def _said(role, kind, text):
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _call(at):
    arguments = json.dumps({"path": f"src/file_{at}.py"})
    return {
        "type": "function_call",
        "name": "read",
        "call_id": f"call {at}",
        "arguments": arguments,
    }


def test_a_codex_session_goes_back_to_its_provider_with_its_reasoning(tmp_path):
    opened = open_session(codex(tmp_path))
    there = opened.request(provider="openai_responses")
    assert "sealed-29" in str(there.parts)
    here = opened.request()
    assert "sealed" not in str(here.parts)
    assert {loss.what for loss in here.losses} >= {"thinking"}
    assert_legal("anthropic", [*here.messages, {"role": "user", "content": "go on"}])


def test_a_codex_session_written_for_claude_code_holds_no_foreign_data(tmp_path):
    opened = open_session(codex(tmp_path))
    target = tmp_path / "out.jsonl"
    done = compact_session(opened, output=target, keep=1_000, format="claude_code")
    assert done.result.compacted
    assert done.losses["thinking"] == 30
    text = target.read_text(encoding="utf-8")
    assert "foreign" not in text
    assert "call 3" not in text  # an id that Anthropic refuses; mapped, calls and results alike
    again = open_session(target)
    assert again.format == "claude_code"
    assert again.messages == done.messages
    assert again.check().ok


def with_usage(tmp_path):
    """A Claude Code session whose every answer reports a prompt of 60 000 tokens and more."""
    lines, parent = [], None
    for at in range(120):
        for role in ("user", "assistant"):
            message = {"role": role, "content": f"{at}: {WORDS * 12}"}
            if role == "assistant":
                message["id"], message["model"] = f"msg_{at}", "claude-opus-4-5"
                message["usage"] = {"input_tokens": 60_000 + at, "output_tokens": 9}
            stamp = f"2026-01-01T{at // 60:02}:{at % 60:02}:{0 if role == 'user' else 30:02}.000Z"
            lines.append(
                {"type": role, "uuid": f"{role}-{at}", "parentUuid": parent, "sessionId": "s"}
                | {"timestamp": stamp, "message": message}
            )
            parent = f"{role}-{at}"
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_usage_of_what_was_kept_is_of_the_context_before(tmp_path):
    """Else a compacted session looks as full as it was, and would be compacted at once again."""
    opened = open_session(with_usage(tmp_path))
    assert report_of(inspect_opened(opened))["window"]["used_tokens"] > 60_000
    target = tmp_path / "out.jsonl"
    done = compact_session(opened, output=target, keep=2_000)
    assert done.result.kept
    again = open_session(target)
    assert again.messages == done.messages
    found = report_of(inspect_opened(again))["window"]
    assert not found["from_usage"]
    assert found["used_tokens"] < 30_000
    second = compact_session(again, keep=0)
    assert second.result.report.tokens_before < 30_000


def test_a_list_of_entries_after_a_compaction_is_measured_from_scratch_too(tmp_path):
    from ullage._engine import core

    done = compact_session(open_session(with_usage(tmp_path)), keep=2_000)
    assert core.Ledger(None, done.result.messages).anchor() is None


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


@pytest.mark.parametrize(
    ("model", "bound"), [("claude-opus-5-5", True), ("claude-opus-4-5", False)]
)
def test_thinking_that_is_bound_to_the_old_prefix_is_not_sent_after_a_compaction(
    tmp_path, model, bound
):
    lines = []
    for at in range(30):
        thought = {**THOUGHT, "signature": f"c2ln{at:02}=="}
        blocks = [thought, {"type": "text", "text": f"Done with {at}. {WORDS * 5}"}]
        said = {"role": "assistant", "id": f"msg_{at}", "model": model, "content": blocks}
        asked = {"role": "user", "content": f"{at}: {WORDS}"}
        lines += [
            {"type": "user", "uuid": f"u{at}", "sessionId": "s", "message": asked},
            {"type": "assistant", "uuid": f"a{at}", "sessionId": "s", "message": said},
        ]
    path, target = tmp_path / "session.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = open_session(path).request()
    assert str(before.parts).count("'thinking'") == 60
    assert before.repairs == ()
    compact_session(open_session(path), output=target, keep=500)
    after = open_session(target).request()
    assert ("signature" in str(after.parts)) is not bound
    assert after.left == ()


# ---- kill -9 ---------------------------------------------------------------------------------

COMPACTOR = """if True:
    import shutil, sys
    from pathlib import Path
    from ullage.sessions import compact_session, open_session
    source, folder = map(Path, sys.argv[1:])
    for number in range(10_000):
        own = folder / f"own-{number}.jsonl"
        shutil.copyfile(source, own)
        print(number, flush=True)
        compact_session(open_session(own), output=own, keep=2_000)
        compact_session(open_session(source), output=folder / f"new-{number}.jsonl", keep=2_000)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_kill_while_compacting_leaves_each_file_as_before_or_as_after(tmp_path):
    """Four writers, each killed at another moment: some hundred files, at most one of a writer between."""
    source = with_usage(tmp_path)
    before = open_session(source).messages
    after = compact_session(open_session(source), keep=2_000).messages
    seen = {"before": 0, "after": 0}
    for round_, pause in enumerate((0.0, 0.013, 0.057, 0.211)):
        folder = tmp_path / str(round_)
        folder.mkdir()
        child = subprocess.Popen(
            [sys.executable, "-c", COMPACTOR, str(source), str(folder)], stdout=subprocess.PIPE
        )
        with child:
            child.stdout.readline()
            time.sleep(pause)
            child.send_signal(signal.SIGKILL)
        for path in folder.glob("*.jsonl"):
            if path.stat().st_size < source.stat().st_size:
                continue  # the copy that the test itself makes
            found = open_session(path)
            text = json.dumps(found.messages)
            state = "before" if found.messages == before else "after"
            assert state == "before" or text.count("[End of the summary]") == 1
            assert state == "before" or len(found.messages) == len(after)
            assert state == "after" or path.name.startswith("own")
            assert compact_session(found, output=path, keep=0).result.outcome is not None
            seen[state] += 1
    assert sum(seen.values()) >= 4
