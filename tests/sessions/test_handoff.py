"""Sessions handed over: there and back with ids, the user's words and the facts, legal for each provider, as large as fits."""

from __future__ import annotations

import json

import pytest

from tests.kit import report, ullage
from tests.kit.transcripts import Layout, session_file
from tests.machine_kit import IDS, WORDS, Machine, lines
from tests.oracle.legality import assert_legal
from ullage.exceptions import ContextTooLarge, InvalidPolicy
from ullage.facts import collect
from ullage.facts.words import blocks_of
from ullage.sessions import found_sessions, open_session
from ullage.sessions.handoff import handoff
from ullage.sessions.inspected import context_tokens
from ullage.testing import scenario

TOOLS = ("claude-code", "codex", "pi", "opencode")
PROVIDERS = {
    "claude-code": "anthropic",
    "codex": "openai_responses",
    "pi": "anthropic",
    "opencode": "anthropic",
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def made(folder, seed=3, **more):
    folder.mkdir(exist_ok=True)
    return session_file(scenario(seed, turns=8), layout=Layout(**more)).write(folder)


def ids(session):
    """Of calls and results; where a response's pieces stand apart, another tool puts them together."""
    return sorted(
        (block["type"], block.get("id") or block.get("tool_use_id"))
        for item in session.items
        for block in blocks_of(item)
        if block["type"] in ("tool_use", "tool_result")
    )


def ledger(session):
    """What is known of a session, without where it stands in the file."""
    found = collect(session.items)
    return {
        "inputs": [(entry.text.strip(), entry.kind) for entry in found.inputs],
        "rules": {rule.text.strip() for rule in found.standing},
        "files": [(file.path, file.reads, file.edits, file.writes) for file in found.files],
        "commands": [(command.text, command.ok) for command in found.commands],
        "failures": [(failure.what, failure.line) for failure in found.failures],
        "tasks": [(task.subject, task.status) for task in found.tasks],
        "decisions": [(each.question, each.answer) for each in found.decisions],
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("to", TOOLS)
def test_there_and_back_keeps_ids_words_and_facts(machine, to, seed):
    before = open_session(made(machine.home / "made", seed))
    there = handoff(before, to)
    away = open_session(there.path)
    assert away.format == to.replace("-", "_")
    assert (ids(away), ledger(away)) == (ids(before), ledger(before))
    back = open_session(handoff(away, "claude-code").path)
    assert (ids(back), ledger(back)) == (ids(before), ledger(before))
    assert not there.compacted


@pytest.mark.parametrize("to", TOOLS)
@pytest.mark.parametrize("tool", ["claude-code", "codex", "pi", "gemini", "copilot", "opencode"])
def test_every_tools_session_goes_to_every_other(machine, to, tool):
    machine.fill().stored(database=False)
    (found,) = [each for each in found_sessions() if each.tool == tool]
    before = open_session(found.path)
    done = handoff(before, to)
    now = open_session(done.path)
    assert [kind for kind, _ in ids(now)] == [kind for kind, _ in ids(before)]
    said = [entry[0] for entry in ledger(now)["inputs"]]
    assert said == [f"{at}: {WORDS.strip()}" for at in range(3)]
    sent = now.request(provider=PROVIDERS[to])
    assert sent.left == ()
    provider = "anthropic"
    assert_legal(
        provider, [*now.request(provider=provider).messages, {"role": "user", "content": "go on"}]
    )
    assert now.cwd == (before.cwd or now.cwd)


@pytest.mark.parametrize("to", TOOLS)
def test_what_does_not_fit_is_compacted(machine, to):
    before = open_session(made(machine.home / "made", 5))
    done = handoff(before, to, window_tokens=20_000, target_tokens=6_000)
    assert done.compacted
    assert done.tokens_after < done.tokens_before
    now = open_session(done.path)
    assert now.items[0].get("isCompactSummary") is True
    assert now.request(provider=PROVIDERS[to]).left == ()
    newest = ledger(before)["inputs"][-1]
    assert newest in ledger(now)["inputs"]


@pytest.mark.parametrize("window", [100, 2_000, 30_000])
def test_a_window_is_never_overrun(machine, window):
    before = open_session(made(machine.home / "made", 5))
    try:
        done = handoff(before, "codex", window_tokens=window)
    except (ContextTooLarge, InvalidPolicy):
        assert not (machine.home / "codex").exists()
    else:
        assert done.tokens_after <= window
        assert context_tokens(open_session(done.path)) <= window


def test_what_no_compaction_can_shorten_is_refused(machine):
    from tests.machine_kit import claude_lines

    path = lines(machine.home / "s.jsonl", claude_lines("s", "/w", turns=1)[:1])
    with pytest.raises(ContextTooLarge) as caught:
        handoff(open_session(path), "codex", window_tokens=10)
    assert "larger window" in caught.value.hint
    assert not (machine.home / "codex").exists()


def test_a_session_lies_where_its_tool_looks_and_can_be_resumed(machine):
    before = open_session(made(machine.home / "made"))
    for to in TOOLS:
        done = handoff(before, to)
        if to != "opencode":
            assert (to, done.id) in {(each.tool, each.id) for each in found_sessions()}
        assert done.id in done.resume_line
        assert done.path.stat().st_mode & 0o777 == 0o600
    assert handoff(before, "opencode").resume_line.startswith("opencode import ")


def test_what_a_host_wrote_does_not_become_the_users_words(machine):
    from tests.machine_kit import claude_lines

    found = claude_lines("s", "/w", turns=2)
    found[4] |= {"isMeta": True}
    found[4]["message"]["content"] = "Note of the host, not the user's."
    path = lines(machine.home / "s.jsonl", found)
    for to in TOOLS:
        now = open_session(handoff(open_session(path), to).path)
        assert [entry[0] for entry in ledger(now)["inputs"]] == [f"0: {WORDS.strip()}"], to
        assert "Note of the host" in str(now.messages)


def test_a_damaged_session_is_repaired_on_the_way(machine):
    from tests.machine_kit import claude_lines

    found = claude_lines("s", "/w", turns=2)
    del found[2]  # the result of a call
    path = lines(machine.home / "s.jsonl", found)
    for to in TOOLS:
        now = open_session(handoff(open_session(path), to).path)
        assert now.request(provider=PROVIDERS[to]).left == ()
        assert "toolu_0" in str(now.messages)


def test_blank_texts_go_and_the_entries_keep_their_flags(machine):
    from tests.machine_kit import claude_lines

    found = claude_lines("s", "/w", turns=2)
    found[3]["message"]["content"].append({"type": "text", "text": " \n"})
    found[2]["message"]["content"][0]["content"] = [{"type": "text", "text": ""}]
    found[4] |= {"isMeta": True}
    path = lines(machine.home / "s.jsonl", found)
    for to in TOOLS:
        now = open_session(handoff(open_session(path), to).path)
        assert [entry[0] for entry in ledger(now)["inputs"]] == [f"0: {WORDS.strip()}"], to
        assert now.request(provider="anthropic").repairs == (), to


def test_a_failed_call_is_known_as_failed_after_codex(machine):
    from tests.machine_kit import claude_lines

    found = claude_lines("s", "/w", turns=1)
    found[2]["message"]["content"][0] |= {"is_error": True, "content": "no such file"}
    path = lines(machine.home / "s.jsonl", found)
    now = open_session(handoff(open_session(path), "codex").path)
    assert now.messages[2]["content"][0]["is_error"] is True


def test_nothing_is_written_by_a_dry_run(machine):
    before = open_session(made(machine.home / "made"))
    done = handoff(before, "codex", write=False)
    assert not done.path.exists()


def test_odd_text_survives(machine):
    from tests.machine_kit import claude_lines

    found = claude_lines("s", "/w x/ü", turns=1)
    found[0]["message"]["content"] = 'a\u2028b \U0001f600 \\ " </x> \x00 \ud800'
    path = lines(machine.home / "s.jsonl", found)
    for to in TOOLS:
        done = handoff(open_session(path), to)
        said = str(open_session(done.path).messages[0]["content"])
        assert "\U0001f600" in said, to
        json.dumps(said)


def test_the_command(machine):
    pytest.importorskip("cyclopts")
    machine.fill()
    done = report("handoff", IDS["claude-code"], "--to", "codex")
    assert done["resume_line"] == f"codex resume {done['id']}"
    shown = ullage("handoff", IDS["codex"], "--to", "pi", "--dry-run")
    assert "nothing written" in shown.stdout
    assert ullage("handoff", IDS["codex"], "--to", "nope").returncode == 2
    assert ullage("handoff", IDS["codex"]).returncode == 2


@pytest.mark.parametrize("to", ["pi", "opencode"])
def test_parallel_calls_are_one_message_where_claude_code_wrote_a_line_for_each(
    machine, tmp_path, to
):
    def line(uuid, parent, kind, message):
        return {"parentUuid": parent, "isSidechain": False, "cwd": "/p", "sessionId": "s", "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-01-01T00:00:00.000Z"}  # fmt: skip

    def calls(name):
        block = {"type": "tool_use", "id": name, "name": "Read", "input": {}}
        return {"id": "m1", "role": "assistant", "model": "claude-opus-4-5", "content": [block]}

    def answers(name):
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": f"of {name}"}]}  # fmt: skip

    rows = [
        line("u", None, "user", {"role": "user", "content": "go"}),
        line("a", "u", "assistant", calls("A")), line("b", "a", "assistant", calls("B")),
        line("c", "a", "user", answers("A")), line("d", "b", "user", answers("B")),
    ]  # fmt: skip
    path = tmp_path / "parallel.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = handoff(open_session(path), to)
    read = open_session(done.path).messages
    assert done.messages == len(read) == 3
    assert [block["type"] for block in read[1]["content"]] == ["tool_use", "tool_use"]
