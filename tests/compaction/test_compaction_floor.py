"""A compaction by hand gains something, or changes nothing and says what would go further (P-8a)."""

from __future__ import annotations

import json
import sys

import pytest

from ullage import Policy, compact
from ullage.sessions import compact_session, open_session
from ullage.testing import conversation
from ullage.transcript import TranscriptLog


def entries(items):
    return [
        {"type": item["role"], "uuid": f"u{at}", "parentUuid": None, "message": dict(item)}
        for at, item in enumerate(items)
    ]


@pytest.mark.parametrize("form", [list, entries], ids=["messages", "entries"])
@pytest.mark.parametrize("keep", [None, 0, 500, 5_000])
@pytest.mark.parametrize("seed", [1, 3, 8])
def test_compacting_twice_with_nothing_new_changes_nothing(seed, keep, form):
    items = form(conversation(seed=seed, tokens=40_000))
    first = compact(items, keep=keep)
    assert first.compacted
    again = compact(list(first.messages), keep=keep)
    assert again.outcome == "no_op"
    assert again.messages == first.messages
    assert again.report.removed == ()
    assert again.user_notice.startswith("Nothing was changed: ")


@pytest.mark.parametrize("least", [0, 5, 60])
def test_less_than_the_least_share_is_no_compaction(least):
    items = conversation(seed=3, tokens=40_000)
    rules = Policy.buffered().change({"summary.min_freed_percent": least})
    found = []
    for keep in (20_000, 44_000, 68_000, 72_000, 76_000):
        done = compact(items, keep=keep, policy=rules)
        report = done.report
        freed = report.tokens_before - report.tokens_after
        found.append(done.compacted)
        if done.compacted:
            assert freed * 100 >= least * report.tokens_before
        else:
            assert done.messages == tuple(items)
            assert "keep=0" in done.user_notice
            assert "--keep" in done.user_notice
    assert len(set(found)) == 2


def test_a_shorter_summary_that_frees_enough_has_all_that_fits():
    """Thirteen rounds of which two leave: their words take less than what has to be freed."""
    filler = "The build prints many lines that nobody needs to see again. " * 12
    items, words = [], [f"Please mind word{number}." for number in range(13)]
    for number, said in enumerate(words):
        use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "make"}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": filler}
        items += [
            {"role": "user", "content": said},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": f"Done with number {number}."},
        ]
    done = compact(items, keep=3_000)
    assert done.compacted
    assert [said for said in words if said not in json.dumps(done.messages)] == []


def test_what_happens_by_itself_has_no_floor():
    """An automatic compaction is asked for because the window is full."""
    items = conversation(seed=3, tokens=40_000)
    rules = Policy.buffered().change({"summary.min_freed_percent": 60})
    found = [compact(items, keep=40_000, policy=rules, trigger=how) for how in ("auto", "manual")]
    assert [done.outcome for done in found] == ["compacted", "no_op"]
    assert found[1].reason == "frees_too_little"


def test_a_summary_alone_is_never_summarised_whatever_is_freed():
    first = compact(conversation(seed=3, tokens=40_000), keep=0)
    small = [
        *first.messages,
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "go on"},
    ]
    rules = Policy.buffered().change({"summary.min_freed_percent": 0})
    done = compact(small, keep=10, policy=rules)
    assert not (done.compacted and len(done.report.removed) == 1)


def session(tmp_path):
    path = tmp_path / "s.jsonl"
    with TranscriptLog.open(path) as log:
        log.extend(conversation(seed=3, tokens=40_000))
    return path


def test_a_file_is_not_written_to_for_nothing(tmp_path):
    path = session(tmp_path)
    assert compact_session(open_session(path), output=path).result.compacted
    size = path.stat().st_size
    done = compact_session(open_session(path), output=path)
    assert (done.result.outcome, done.path, path.stat().st_size) == ("no_op", None, size)


def test_the_command_says_why_and_what_would_go_further(tmp_path, capsys):
    pytest.importorskip("cyclopts")
    from ullage.cli import main

    path = session(tmp_path)
    assert main(["compact", "--in-place", str(path), "--keep", "76000"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Nothing was changed" in said
    assert "--keep" in said
    assert main(["compact", "--in-place", "--json", str(path), "--keep", "76000"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["result"]["reason"] in ("frees_too_little", "nothing_to_compact")
    assert "keep=0" in told["result"]["notice"]


def test_the_file_itself_is_no_output_unless_that_is_said(tmp_path, capsys):
    pytest.importorskip("cyclopts")
    from ullage.cli import main

    path = session(tmp_path)
    before = path.read_bytes()
    other = tmp_path / "link.jsonl"
    other.hardlink_to(path)
    for output in (path, other):
        assert main(["compact", str(path), "--output", str(output)]) == 2
        assert "--in-place" in capsys.readouterr().err
        assert path.read_bytes() == before
    assert main(["compact", str(path), "--output", str(path), "--force"]) == 0
    assert path.read_bytes().startswith(before)


def test_a_batch_leaves_the_notes_of_sessions_alone(tmp_path, capsys):
    pytest.importorskip("cyclopts")
    from ullage.cli import main

    path = session(tmp_path)
    assert main(["session-memory", "update", str(path)]) == 0
    assert list(tmp_path.rglob("state.json"))
    for action in (["inspect"], ["compact", "--output", str(tmp_path / "out")]):
        capsys.readouterr()
        assert main(["batch", action[0], str(tmp_path), *action[1:], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["result"]["totals"]["failed"] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_what_a_batch_writes_is_private(tmp_path):
    import os
    import stat

    pytest.importorskip("cyclopts")
    from ullage.cli import main

    path = session(tmp_path)
    path.chmod(0o600)
    before = os.umask(0)
    try:
        assert main(["batch", "compact", str(path), "--output", str(tmp_path / "out")]) == 0
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "out").iterdir()}
    assert modes == {0o600}
