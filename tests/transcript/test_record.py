"""Records of requests (REC-1): each is rebuilt byte for byte, whatever happened, and nothing is reported that did not happen."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jsonschema
import pytest

from tests.kit import result, said, use, user
from tests.transcript import mutated_logs
from tests.transcript.mutated_logs import KINDS, is_found, mutated_requests, mutations, played
from ullage import compact, ullage_check as check
from ullage.exceptions import StoreError
from ullage.facts.sections import HEADINGS
from ullage.integrations.conversations import NATIVE, HeldConversations, ModelFacts, Translator
from ullage.manager import ContextManager
from ullage.sessions import compact_session, open_session
from ullage.transcript import record as record_module
from ullage.transcript.record import RecordFile, compaction_record, redacted

CHECKER = Path(check.__file__)
PAGE = Path(__file__).parents[2] / "docs" / "record.md"


def texts(request: Any) -> list[str]:
    return [check.canonical(message) for message in request.messages]


def records_of(log: bytes) -> list[dict[str, Any]]:
    lines = map(json.loads, log.splitlines())
    return [line for line in lines if line["type"] == check.RECORD]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Any]]:
    return played(tmp_path_factory.mktemp("recorded"))


def test_each_request_is_rebuilt_byte_for_byte(recorded: tuple[bytes, list[Any]]):
    log, requests = recorded
    found = check.LogCheck(log)
    assert found.problems == []
    assert found.requests == [texts(request) for request in requests]
    assert found.counts["removed"] == found.counts["of these in the log, to be recalled"] > 0
    assert {"autocompact", "snip"} <= {
        act[0] for each in records_of(log) for act in each.get("acts", ())
    }


@pytest.mark.parametrize("preset", ["ladder", "buffered"])
def test_each_request_is_rebuilt_under_each_preset(tmp_path: Path, preset: str):
    log, requests = played(tmp_path, 3, turns=8, policy=preset)
    found = check.LogCheck(log)
    assert found.problems == []
    assert found.requests == [texts(request) for request in requests]


@pytest.mark.parametrize("kind", KINDS)
def test_each_mutation_is_found(recorded: tuple[bytes, list[Any]], kind: str):
    missed = [
        made
        for _, made in mutations(recorded[0], 30, 7, [kind])
        if not check.LogCheck(made).problems
    ]
    assert missed == []


def test_each_mutated_request_is_found(recorded: tuple[bytes, list[Any]]):
    log, requests = recorded
    following, sent = check.LogCheck(log), json.loads(check.canonical(requests[-1].messages))
    assert not is_found(following, sent)
    tried = list(mutated_requests(sent, 200, 7))
    assert {kind for kind, _ in tried} == {each for each in tried_kinds() if "request_" in each}
    assert [kind for kind, made in tried if not is_found(following, made)] == []


def test_a_changed_line_end_of_a_record_is_found(recorded: tuple[bytes, list[Any]]):
    for end in (b"\r", b" ", b"\t"):
        assert check.LogCheck(recorded[0][:-1] + end).problems


def tried_kinds() -> list[str]:
    return [name for name in vars(mutated_logs) if callable(vars(mutated_logs)[name])]


def test_the_checker_is_one_short_file_that_imports_nothing_of_ours():
    text = CHECKER.read_text()
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, int(node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(text.split("\n"), 1)
    code = [line for at, line in lines if line.strip() and at not in docstrings]
    assert len(code) <= 300
    assert "fmt: off" not in text
    assert "ullage." not in "".join(line for line in text.split("\n") if "import" in line)
    kinds = {promise.__name__ for promise in check.PROMISES}
    page = PAGE.read_text()
    assert all(f"`{kind}`" in page for kind in kinds)


def test_records_fit_their_schema(recorded: tuple[bytes, list[Any]]):
    schema = json.loads((CHECKER.parent / "data" / "record.schema.json").read_text())
    found = records_of(recorded[0])
    assert {key for each in found for key in each} <= set(schema["properties"])
    for each in found:
        jsonschema.validate(each, schema)


def test_a_redacted_log_can_still_be_checked(recorded: tuple[bytes, list[Any]]):
    lines = recorded[0].splitlines(keepends=True)
    secret = next(at for at, line in enumerate(lines) if b"Step 2:" in line)
    ours = [
        redacted(line) if at == secret or b'"texts"' in line else line
        for at, line in enumerate(lines)
    ]
    found = check.LogCheck(b"".join(ours))
    assert found.problems == []
    assert found.counts["redacted, known by hash"] > 0 < found.counts["rebuilt"]
    damaged = [line.replace(b"Step 3:", b"Step 4:") for line in ours]
    assert {kind for kind, *_ in check.LogCheck(b"".join(damaged)).problems} >= {"seal", "missing"}


def test_records_go_on_after_a_resume(tmp_path: Path):
    log, _ = played(tmp_path, 1)
    path = tmp_path / "1.jsonl"
    with ContextManager.resume(path, record=True) as manager:
        manager.add(said("Gladly."))
        manager.add(user("One more thing."))
        request = manager.prepare()
    found = check.LogCheck(path.read_bytes())
    assert found.problems == []
    assert found.requests[-1] == texts(request)
    assert len(path.read_bytes()) > len(log)


def test_after_a_failed_write_records_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "log.jsonl"
    with ContextManager(model="claude-opus-4-5", log=path, record=True) as manager:
        manager.add(user("hello"))
        manager.prepare()
        manager.add(said("hello"))
        manager.add(user("again"))
        with monkeypatch.context() as patched:
            patched.setattr(type(manager.log._file), "append", Mock(side_effect=StoreError("full")))
            with pytest.raises(StoreError):
                manager.prepare()
        request = manager.prepare()
    found = check.LogCheck(path.read_bytes())
    assert found.problems == []
    assert found.requests[-1] == texts(request)
    assert [each.get("base") for each in records_of(path.read_bytes())] == [True, True]


def test_a_record_of_a_long_talk_takes_less_than_one_percent(tmp_path: Path):
    talk = [*long_talk(400)[:-2], *long_talk(400)[1:]]
    record = compaction_record(talk, compact(talk, keep=2000))
    whole = sum(len(check.canonical(message)) for message in talk)
    assert 0 < len(record["texts"]) < len(check.canonical(record)) < whole / 100


def test_a_rewind_a_manual_compaction_and_a_models_summary_are_recorded(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    made = []
    given: dict[str, Any] = {
        "model": "claude-opus-4-5",
        "context_window": 30_000,
        "log": path,
        "record": True,
    }
    with ContextManager(summarizer=lambda asked: SUMMARY, **given) as manager:
        for message in long_talk(60):
            manager.add(message)
            if message["role"] == "user":
                made.append(manager.prepare())
        manager.compact()
        made.append(manager.prepare())
        manager.rewind(7)
        manager.add(said("Well."))
        manager.add(user("Go on."))
        made.append(manager.prepare())
    found = check.LogCheck(path.read_bytes())
    assert found.problems == []
    assert found.requests == [texts(request) for request in made]
    assert found.counts["unverifiable"] > 0


SUMMARY = "\n\n".join(
    f"## {n}. {title}\nSomething about {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)


def test_another_form_is_recorded_as_it_was_before_it_was_written(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    with ContextManager(model="gpt-5", provider="openai_chat", log=path, record=True) as manager:
        manager.add({"role": "user", "content": "hello"})
        manager.prepare()
    (record,) = records_of(path.read_bytes())
    assert record["form"] == "openai_chat"
    assert check.LogCheck(path.read_bytes()).problems == []


def test_without_being_asked_nothing_is_recorded(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    with ContextManager(model="claude-opus-4-5", log=path) as manager:
        manager.add(user("hello"))
        manager.prepare()
        size = path.stat().st_size
        manager.prepare()
        assert path.stat().st_size - size < 500
    assert records_of(path.read_bytes()) == []


# ---- one compaction, in files of its own, checked by the file alone ------------------------------------


def long_talk(lines: int = 90) -> list[dict[str, Any]]:
    talk = [user("Port the parser to the new lexer and keep the tests green.")]
    for at in range(40):
        talk += [
            said([use(f"c{at}", path=f"src/part_{at}.py")]),
            user([result(f"c{at}", f"def part_{at}(): ...\n" * lines)]),
        ]
    return [*talk, said("All parts are ported."), user("Now write the changelog.")]


def alone(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    (folder / "ullage_check.py").write_bytes(CHECKER.read_bytes())
    command = [sys.executable, "-I", "ullage_check.py", *names]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_compaction_is_checked_from_an_empty_folder(tmp_path: Path):
    talk = long_talk()
    done = compact(talk, keep=2000)
    assert done.compacted
    record = compaction_record(talk, done)
    (tmp_path / "talk.json").write_text(json.dumps(talk))
    (tmp_path / "record.jsonl").write_text(json.dumps(record))
    found = alone(tmp_path, "talk.json", "record.jsonl")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.endswith("\nnothing broken\n")
    assert "rebuilt: 1" in found.stdout
    assert check.LogCheck(json.dumps(talk).encode(), json.dumps(record).encode()).requests == [
        [check.canonical(message) for message in done.messages]
    ]
    talk[1]["content"][0]["input"]["path"] = "src/other.py"
    (tmp_path / "talk.json").write_text(json.dumps(talk))
    found = alone(tmp_path, "talk.json", "record.jsonl")
    assert found.returncode == 1
    assert "BROKEN missing" in found.stdout


def test_a_compacted_session_is_checked_against_its_file(tmp_path: Path):
    entries = [
        {
            "type": each["role"],
            "uuid": f"u{at}",
            "parentUuid": f"u{at - 1}" if at else None,
            "message": each,
        }
        for at, each in enumerate(long_talk())
    ]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    session, path = open_session(tmp_path / "talk.jsonl"), tmp_path / "out.jsonl"
    done = compact_session(session, output=path, keep=2000).result
    log = path.read_bytes()
    record = compaction_record(session.items, done, log=map(json.loads, log.splitlines()))
    found = check.LogCheck(log, json.dumps(record).encode())
    assert found.problems == []
    assert found.counts["rebuilt"] == 1
    assert found.counts["removed"] == found.counts["of these in the log, to be recalled"] > 0


def test_a_codex_sessions_record_holds_what_it_is_checked_against(tmp_path: Path):
    items = [
        {"type": "session_meta", "payload": {"id": "s1", "cwd": "/w"}},
        *({"type": "response_item", "payload": item} for item in responses_items()),
    ]
    (tmp_path / "rollout.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    session, out = open_session(tmp_path / "rollout.jsonl"), tmp_path / "out.jsonl"
    record = tmp_path / "record.jsonl"
    done = compact_session(session, output=out, keep=500, record=record)
    assert done.format == "codex"
    assert "rebuilt: 1" in alone(tmp_path, "record.jsonl").stdout
    found = check.LogCheck(record.read_bytes())
    assert found.problems == []
    shown = filter(None, map(check.sent, done.result.messages))
    assert found.requests == [list(map(check.canonical, shown))]
    # A second compaction goes on in the same file.
    again = open_session(out)
    compact_session(again, output=out, keep=50, record=record)
    found = check.LogCheck(record.read_bytes())
    assert found.problems == []
    assert found.counts["records"] == 2


def responses_items() -> list[dict[str, Any]]:
    """A talk as items of the Responses API."""
    items: list[dict[str, Any]] = []
    for at in range(30):
        said_text = [{"type": "input_text", "text": f"Step {at}: read part {at} of the parser."}]
        call = {"type": "function_call", "call_id": f"c{at}", "name": "read", "arguments": "{}"}
        output = f"def part_{at}(): return {at}\n" * 40
        items += [
            {"type": "message", "role": "user", "content": said_text},
            call,
            {"type": "function_call_output", "call_id": f"c{at}", "output": output},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"Part {at} is read."}],
            },
        ]
    return items


# ---- lists that a client or a framework hands over whole, in each form ---------------------------------


def chat_items() -> list[dict[str, Any]]:
    """A talk in the form of OpenAI's chat."""
    items: list[dict[str, Any]] = []
    for at in range(30):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        output = f"def part_{at}(): return {at}\n" * 40
        items += [
            user(f"Step {at}: read part {at} of the parser."),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{at}", "content": output},
            said(f"Part {at} is read."),
        ]
    return items


FORMS = {
    "anthropic": lambda: long_talk(40),
    "openai_chat": chat_items,
    "openai_responses": responses_items,
}


@pytest.mark.parametrize("form", FORMS)
def test_records_of_whole_lists_rebuild_each_view(tmp_path: Path, form: str):
    items, views = FORMS[form](), list[Any]()
    conversations = HeldConversations[Any](
        NATIVE, form, context_window=8_000, record=tmp_path / "records"
    )
    held = conversations.of("thread/1", ModelFacts("gpt-5"))
    ends = [*range(4, len(items), 4), len(items)]
    views += [held.fit(items[:end]).messages for end in ends]
    edited = [*items[:20], user("Leave it at that.")]  # the client went back
    views.append(held.fit(edited).messages)
    (path,) = (tmp_path / "records").iterdir()
    found = check.LogCheck(path.read_bytes())
    assert found.problems == []
    assert found.requests == [[check.canonical(check.sent(one)) for one in view] for view in views]
    assert any(view != items[:end] for view, end in zip(views, ends, strict=False))
    hidden = b"".join(map(redacted, path.read_bytes().splitlines(keepends=True)))
    assert b"part_3()" not in hidden
    found = check.LogCheck(hidden)
    assert found.problems == []
    assert found.counts["redacted, known by hash"] == len(views)
    # Another process goes on in the same file, and holds no message twice.
    lines = path.read_bytes().count(b"ullage-given")
    later = HeldConversations[Any](NATIVE, form, context_window=8_000, record=path.parent)
    later.of("thread/1", ModelFacts("gpt-5")).fit(items)
    found = check.LogCheck(path.read_bytes())
    assert found.problems == []
    assert path.read_bytes().count(b"ullage-given") == lines


READ_AGAIN = NATIVE._replace(read=lambda message: json.loads(json.dumps(message)))
"""Of a framework whose messages are read again at each call, as most are."""


@pytest.mark.parametrize("translator", [NATIVE, READ_AGAIN], ids=["native", "read again"])
def test_each_message_of_a_list_is_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, translator: Translator[Any]
):
    items = [
        part
        for at in range(200)
        for part in (
            user(f"Step {at}: read part {at} of the parser."),
            said([use(f"c{at}", path=f"src/part_{at}.py")]),
            user(
                [
                    result(
                        f"c{at}", f"def part_{at}(): return {at}\n" * (400 if at % 20 == 3 else 15)
                    )
                ]
            ),
            said(f"Part {at} is read."),
        )
    ]
    hashed_texts: list[str] = []

    def counted(value: Any) -> str:
        hashed_texts.append(check.canonical(value))
        return hashed_texts[-1]

    monkeypatch.setattr(record_module, "canonical", counted)
    conversations = HeldConversations[Any](
        translator, "anthropic", context_window=40_000, record=tmp_path
    )
    held = conversations.of("t", ModelFacts("claude-opus-4-5"))
    shown = [held.fit(items[: 4 * at + 1]).messages for at in range(200)]
    log = next(tmp_path.iterdir()).read_bytes()
    acts = [act for each in records_of(log) for act in each.get("acts", ())]
    assert {act[0] for act in acts} >= {"snip", "autocompact"}
    # Each message once, and again as source or text of what was rewritten; it was each of them in each call: 80,000 times.
    rewritten = sum(
        isinstance(op, dict) and "sha" in op for each in records_of(log) for op in each["list"]
    )
    assert len(hashed_texts) <= len(items) + 4 * rewritten
    found = check.LogCheck(log)
    assert found.problems == []
    assert found.requests == [[*map(check.canonical, view)] for view in shown]


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message["content"][0].update(name="Write"),
        lambda message: message.update(role=message.pop("role")),  # the order of its keys
        lambda message: message["content"][0]["input"].update(line=1.0),
        lambda message: message["content"][0]["input"].update(line=True),
    ],
    ids=["name", "order", "float", "bool"],
)
def test_a_message_changed_in_place_is_hashed_again(tmp_path: Path, change: Any):
    items = [user("hello"), said([use("c1", line=1)]), user([result("c1", "one")]), said("Well.")]
    records = RecordFile(tmp_path / "r.jsonl")
    records.add(items, items, range(4))
    requests = [[*map(check.canonical, items)]]
    change(items[1])
    records.add(items, items, range(4))
    requests.append([*map(check.canonical, items)])
    assert requests[0] != requests[1]
    log = (tmp_path / "r.jsonl").read_bytes()
    assert [each.get("base") for each in records_of(log)] == [True, True]
    assert check.LogCheck(log).requests == requests
    assert check.LogCheck(log).problems == []


def test_a_message_of_ours_that_the_client_changes_in_place_is_hashed_again(tmp_path: Path):
    items, summary = [user("hello"), said("Well.")], user("A summary.")
    records = RecordFile(tmp_path / "r.jsonl")
    records.add(items, [summary], [None])
    summary["content"] = "hello, well."
    records.add(items, [summary], [None])
    found = check.LogCheck((tmp_path / "r.jsonl").read_bytes())
    assert found.requests[-1] == [check.canonical(summary)]


@pytest.mark.parametrize("form", ["openai_chat", "openai_responses"])
def test_a_result_without_its_call_is_found_in_each_form(tmp_path: Path, form: str):
    items = FORMS[form]()[:4]
    RecordFile(tmp_path / "r.jsonl").add(items, [items[0], *items[2:]], [0, 2, 3])
    found = check.LogCheck((tmp_path / "r.jsonl").read_bytes())
    assert "pair" in {kind for kind, *_ in found.problems}


def test_without_being_asked_an_integration_records_nothing(tmp_path: Path):
    held = HeldConversations[Any](NATIVE, "anthropic").of("t", ModelFacts("gpt-5"))
    held.fit(long_talk(1))
    assert held.records is None
    assert list(tmp_path.iterdir()) == []


def test_a_request_is_held_to_its_record_from_an_empty_folder(tmp_path: Path):
    log, requests = played(tmp_path, 2, turns=3)
    body = {
        "model": "claude-opus-4-5",
        "messages": json.loads(check.canonical(requests[-1].messages)),
    }
    (tmp_path / "talk.jsonl").write_bytes(log)
    (tmp_path / "body.json").write_text(json.dumps(body))
    found = alone(tmp_path, "talk.jsonl", "talk.jsonl", "body.json")
    assert found.returncode == 0, found.stdout + found.stderr
    body["messages"].pop()
    (tmp_path / "body.json").write_text(json.dumps(body))
    found = alone(tmp_path, "talk.jsonl", "talk.jsonl", "body.json")
    assert found.returncode == 1
    assert "BROKEN sent (the request)" in found.stdout


def test_messages_that_claude_code_preserved_count_as_kept(tmp_path: Path):
    """Its newer versions leave the last messages where they are, and name them in the boundary."""
    preserved = {"preservedMessages": {"anchorUuid": "4", "uuids": ["2", "nowhere"]}}
    boundary = {**CLAUDE[2], "compactMetadata": {"trigger": "auto", **preserved}}
    lines = [*CLAUDE[:2], boundary, CLAUDE[3]]
    (tmp_path / "session").write_text("\n".join(map(json.dumps, lines)))
    assert "a compaction of 2 messages: 1 kept verbatim, " in alone(tmp_path, "session").stdout


CLAUDE: list[dict[str, Any]] = [
    {
        "type": "user",
        "uuid": "1",
        "message": user("Port the parser, please, and keep the tests green."),
    },
    {"type": "assistant", "uuid": "2", "message": said("The parser is ported to the new lexer.")},
    {"type": "system", "subtype": "compact_boundary", "uuid": "3"},
    {
        "type": "user",
        "uuid": "4",
        "isCompactSummary": True,
        "message": user(
            "The parser is ported to the new lexer.\nEverybody was delighted with the outcome."
        ),
    },
]
CODEX = [
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            **user([{"type": "input_text", "text": "Port the parser."}]),
        },
    },
    {
        "type": "response_item",
        "payload": {"type": "message", **said([{"type": "output_text", "text": "Ported."}])},
    },
    {
        "type": "compacted",
        "payload": {
            "message": "",
            "replacement_history": [
                {"type": "message", **user([{"text": "Port the parser.", "type": "input_text"}])},
                {"type": "compaction", "encrypted_content": "gAAA"},
            ],
        },
    },
]
PI = [
    {"type": "message", "message": user("Port the parser.")},
    {"type": "compaction", "summary": "A delightful outcome was reached.", "firstKeptEntryId": "x"},
]
OPENCODE = {
    "info": {"id": "ses_1"},
    "messages": [
        {"info": {"role": "user"}, "parts": [{"type": "text", "text": "Port the parser."}]},
        {
            "info": {"role": "assistant", "summary": True},
            "parts": [{"type": "text", "text": "A delight."}],
        },
    ],
}


@pytest.mark.parametrize(
    ("session", "says", "unverifiable"),
    [
        (CLAUDE, "1 of 2 lines of the summary copied", 2),
        (CODEX, "1 kept verbatim, 1 sealed by the provider; 1 of 1 messages of the user quoted", 2),
        (PI, "0 of 1 messages of the user quoted; 0 of 1 lines of the summary copied", 2),
        (OPENCODE, "a compaction of 1 messages", 2),
    ],
    ids=["claude_code", "codex", "pi", "opencode"],
)
def test_of_a_compaction_by_another_program_it_says_what_can_be_said(
    tmp_path: Path, session: Any, says: str, unverifiable: int
):
    lines = [session] if isinstance(session, dict) else session
    (tmp_path / "session").write_text("\n".join(map(json.dumps, lines)))
    found = alone(tmp_path, "session")
    assert found.returncode == 0, found.stderr
    assert says in found.stdout
    assert f"unverifiable: {unverifiable}" in found.stdout
    assert found.stdout.endswith("\nnothing broken that shows without a record\n")
