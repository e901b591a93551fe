"""Each transcript format by a small file of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.transcripts import read
from ullage.exceptions import InvalidTranscript, StoreError
from ullage.providers import openai_responses
from ullage.transcript import formats

pytestmark = pytest.mark.both_engines


def jsonl(path: Path, *lines: Any, end: str = "\n") -> Path:
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end
    )
    return path


def document(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value, indent=1))
    return path


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


# ---- Codex ---------------------------------------------------------------------------------------


def item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": "response_item", "payload": payload}


def said(role: str, text: str, **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}], **more)


def counted(tokens: int, cached: int, output: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "cached_input_tokens": cached, "output_tokens": output}
    info = {"last_token_usage": usage, "model_context_window": 258400}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def call(one: str, **more: Any) -> dict[str, Any]:
    return item(type="function_call", name="shell", arguments='{"cmd": "ls"}', call_id=one, **more)


def output(one: str, text: str = "ok") -> dict[str, Any]:
    return item(type="function_call_output", call_id=one, output=text)


META = {
    "type": "session_meta",
    "payload": {
        "id": "s-1",
        "cwd": "/w",
        "cli_version": "0.140",
        "base_instructions": {"text": "You are."},
    },
}
TURN = {"type": "turn_context", "payload": {"model": "gpt-5.6", "cwd": "/w"}}


def test_codex_reads_what_the_model_saw_and_nothing_twice(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "rollout.jsonl",
        META,
        TURN,
        said("developer", "sandbox rules"),
        said("user", "<environment_context>\n</environment_context>"),
        said("user", "fix it"),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "fix it"}},
        item(
            type="reasoning",
            id="rs_1",
            summary=[{"type": "summary_text", "text": "think"}],
            encrypted_content="e",
        ),
        said("assistant", "on it", phase="commentary"),
        call("c1"),
        call("c2"),
        counted(1000, 400, 20),
        output("c2"),
        output("c1"),
        said("assistant", "done"),
        counted(1100, 1000, 5),
        counted(1100, 1000, 5),
    )
    transcript = read(path)
    session = transcript.sessions[0]
    assert (transcript.format, session.id, session.system) == ("codex", "s-1", "You are.")
    assert session.metadata["context_window_tokens"] == 258400
    assert roles(session.messages) == ["user", "user", "user", "assistant", "user", "assistant"]
    assert [entry.get("isMeta", False) for entry in session.entries[:3]] == [True, True, False]
    first, results, last = session.messages[3:]
    assert [block["type"] for block in first["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert first["usage"] == {
        "input_tokens": 600,
        "cache_read_input_tokens": 400,
        "cache_creation_input_tokens": 0,
        "output_tokens": 20,
    }
    assert [block["tool_use_id"] for block in results["content"]] == ["c2", "c1"]
    assert (last["usage"]["output_tokens"], last["model"]) == (5, "gpt-5.6")
    assert transcript.warnings == []


def test_codex_items_can_go_back_as_they_came(tmp_path: Path) -> None:
    lines = [
        said("developer", "rules"),
        said("user", "go"),
        item(type="reasoning", id="rs_1", summary=[], encrypted_content="e"),
        item(
            type="custom_tool_call",
            id="ct_1",
            status="completed",
            call_id="c1",
            name="apply_patch",
            input="*** x",
        ),
        item(
            type="custom_tool_call_output",
            call_id="c1",
            output=[{"type": "input_text", "text": "ok"}],
        ),
        item(type="web_search_call", status="completed", action={"type": "search", "query": "q"}),
        said("assistant", "done", id="msg_1", phase="final_answer"),
    ]
    session = read(jsonl(tmp_path / "r.jsonl", META, *lines)).sessions[0]
    shaped = openai_responses.to_provider(session.messages)
    assert shaped.parts["input"] == [line["payload"] for line in lines]


def test_codex_after_a_compaction_only_the_replacement_counts(tmp_path: Path) -> None:
    history = [said("user", "fix it")["payload"], {"type": "compaction", "encrypted_content": "zz"}]
    compacted = {"type": "compacted", "payload": {"message": "", "replacement_history": history}}
    path = jsonl(
        tmp_path / "r.jsonl",
        META,
        said("user", "fix it"),
        said("assistant", "long story"),
        counted(5000, 0, 50),
        compacted,
        counted(700, 0, 0),
        said("assistant", "onwards"),
        counted(800, 0, 7),
    )
    session = read(path).sessions[0]
    boundary = next(
        entry for entry in session.entries if entry.get("subtype") == "compact_boundary"
    )
    assert boundary["compactMetadata"]["preTokens"] == 5050
    assert roles(session.messages) == ["user", "assistant", "assistant"]
    assert [block["type"] for block in session.messages[1]["content"]] == ["foreign"]
    assert "usage" not in session.messages[1], "a count right after a compaction is no response's"
    assert session.messages[2]["usage"]["output_tokens"] == 7
    assert len(session.entries) == 6, "history stays"


def test_codex_puts_a_late_result_next_to_its_call(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "r.jsonl",
        META,
        said("user", "go"),
        call("c1"),
        said("developer", "approved"),
        output("c1"),
        said("assistant", "k"),
    )
    transcript = read(path)
    assert roles(transcript.messages) == ["user", "assistant", "user", "user", "assistant"]
    assert transcript.messages[2]["content"][0]["type"] == "tool_result"
    assert [line for line, _ in transcript.warnings] == [5]


def test_two_values_in_one_line_and_a_incomplete_last_line(tmp_path: Path) -> None:
    both = json.dumps(said("user", "a")) + json.dumps(said("assistant", "b"))
    transcript = read(jsonl(tmp_path / "r.jsonl", META, both, '{"type": "respo', end=""))
    assert roles(transcript.messages) == ["user", "assistant"]
    assert [line for line, _ in transcript.warnings] == [2, 3]
    assert "unfinished" in transcript.warnings[1][1]


def test_a_long_first_line_and_a_long_file_are_recognised_by_their_start(tmp_path: Path) -> None:
    long = {**META, "payload": {**META["payload"], "base_instructions": {"text": "x" * 300_000}}}
    path = jsonl(tmp_path / "r.jsonl", long, said("user", "a"))
    assert formats.detect(path) == "codex"
    short = jsonl(tmp_path / "s.jsonl", META, *[said("user", "y" * 1000)] * 500)
    source = formats.OpenedFile(short)
    assert len(source.head) == 40
    assert "data" not in vars(source), "the rest of the file was not read"


def test_a_bad_line_in_the_middle_loses_only_itself(tmp_path: Path) -> None:
    transcript = read(
        jsonl(tmp_path / "r.jsonl", META, said("user", "a"), "not json", "[1]", said("user", "b"))
    )
    assert len(transcript.messages) == 2
    assert [line for line, _ in transcript.warnings] == [3, 4]


@pytest.mark.parametrize("more", [0, 300_000], ids=["small", "read in part first"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, more: int) -> None:
    entry = {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "s"}
    files = {
        "claude_code": json.dumps({**entry, "message": said("user", "x" * more)["payload"]}),
        "codex": json.dumps(META) + "\n" + json.dumps(said("user", "x" * more)),
        "openai_chat": json.dumps([*CHAT, {"role": "user", "content": "x" * more}]),
    }
    for name, text in files.items():
        found = []
        for mark in ("", "\ufeff"):
            path = tmp_path / "same.jsonl"
            path.write_text(mark + text + "\n", encoding="utf-8")
            assert formats.detect(path) == name
            transcript = read(path)
            found.append((transcript.messages, transcript.warnings))
        assert found[0] == found[1]
        assert found[0][0], name
    path.write_bytes(b"\xef\xbb\xbf \n")
    with pytest.raises(InvalidTranscript, match="is empty"):
        formats.detect(path)


# ---- pi ------------------------------------------------------------------------------------------


def pi_line(**message: Any) -> dict[str, Any]:
    return {"type": "message", "timestamp": "2026-01-01T00:00:00Z", "message": message}


def pi_answer(*content: Any, stop: str = "stop", **more: Any) -> dict[str, Any]:
    usage = {"input": 3, "output": 4, "cacheRead": 5, "cacheWrite": 6}
    return pi_line(
        role="assistant",
        content=list(content),
        api="anthropic-messages",
        model="m",
        usage=usage,
        stopReason=stop,
        **more,
    )


PI = {"type": "session", "id": "p", "cwd": "/w", "provider": "anthropic", "modelId": "m"}


def pi_call(one: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": one, "name": "read", "arguments": {"path": "x"}}


def test_pi(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "s.jsonl",
        PI,
        pi_line(role="user", content=[{"type": "text", "text": "hi"}]),
        pi_answer(
            {"type": "thinking", "thinking": "t", "thinkingSignature": "sig"},
            pi_call("a"),
            stop="toolUse",
        ),
        pi_line(
            role="toolResult",
            toolCallId="a",
            toolName="read",
            content=[{"type": "text", "text": "r"}],
            isError=True,
        ),
        pi_answer({"type": "text", "text": "half"}, pi_call("b"), stop="aborted"),
        pi_answer(stop="error", errorMessage="overloaded"),
        pi_line(role="bashExecution", command="ls", output="x\n", exitCode=1),
        pi_answer({"type": "text", "text": "ok"}),
    )
    transcript = read(path)
    assert (transcript.format, transcript.sessions[0].id) == ("pi", "p")
    messages = transcript.messages
    assert roles(messages) == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert messages[1]["content"][0] == {"type": "thinking", "thinking": "t", "signature": "sig"}
    assert messages[1]["usage"]["cache_creation_input_tokens"] == 6
    assert messages[2]["content"][0]["is_error"] is True
    assert messages[3]["content"] == [{"type": "text", "text": "half"}]
    assert "usage" not in messages[3]
    assert messages[4]["content"] == "Ran `ls`\n```\nx\n```\n(exit status 1)"
    assert [entry.get("isApiErrorMessage", False) for entry in transcript.entries].count(True) == 1


def test_pi_keeps_what_its_compaction_kept(tmp_path: Path) -> None:
    compaction = {
        "type": "compaction",
        "summary": "so far",
        "firstKeptEntryIndex": 3,
        "tokensBefore": 99,
    }
    path = jsonl(
        tmp_path / "s.jsonl",
        PI,
        pi_line(role="user", content="old"),
        pi_answer({"type": "text", "text": "old answer"}),
        pi_line(role="user", content="new"),
        pi_answer({"type": "text", "text": "new answer"}),
        compaction,
        pi_line(role="user", content="next"),
    )
    session = read(path).sessions[0]
    contents = [message["content"] for message in session.messages]
    assert contents == ["so far", "new", [{"type": "text", "text": "new answer"}], "next"]
    assert len(session.entries) == 7


# ---- Cline and Roo -------------------------------------------------------------------------------


def test_cline(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "read_files", "input": {}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "name": "read_files",
        "content": [{"query": "q", "result": "r", "success": True}],
    }
    metrics = {"inputTokens": 10, "outputTokens": 2, "cacheReadTokens": 4, "cacheWriteTokens": 0}
    stored = {
        "version": "1",
        "sessionId": "c",
        "system_prompt": "You are.",
        "messages": [
            {
                "id": "m0",
                "role": "user",
                "ts": 1_700_000_000_000,
                "content": [
                    {"type": "text", "text": "x"},
                    {"type": "file", "path": "/a", "content": "body"},
                ],
                "metadata": {"kind": "compaction", "reason": "manual_compaction"},
            },
            {
                "id": "m1",
                "role": "assistant",
                "content": [use],
                "modelInfo": {"id": "claude"},
                "metrics": metrics,
            },
            {"id": "m2", "role": "user", "content": [result]},
        ],
    }
    session = read(document(tmp_path / "a.json", stored)).sessions[0]
    assert (session.system, session.metadata["model"]) == ("You are.", "claude")
    assert session.entries[0]["compactMetadata"]["trigger"] == "manual"
    assert session.entries[1]["timestamp"] == "2023-11-14T22:13:20.000Z"
    assert session.messages[0]["content"][1]["text"] == '<file path="/a">\nbody\n</file>'
    assert session.messages[1]["usage"]["input_tokens"] == 6
    assert session.messages[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [{"type": "text", "text": '{"query":"q","result":"r","success":true}'}],
        }
    ]


def test_roo(tmp_path: Path) -> None:
    stored = [
        {"role": "user", "ts": 1, "content": [{"type": "text", "text": "old"}]},
        {
            "role": "assistant",
            "ts": 2,
            "content": [{"type": "text", "text": "sum"}],
            "isSummary": True,
        },
        {"role": "user", "ts": 3, "content": [{"type": "text", "text": "go"}]},
    ]
    transcript = read(document(tmp_path / "api_conversation_history.json", stored))
    assert (transcript.format, roles(transcript.messages)) == ("roo", ["assistant", "user"])
    assert formats.detect(tmp_path / "api_conversation_history.json") == "roo"


# ---- chat and what is built on it ----------------------------------------------------------------

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
CHAT = [
    {"role": "system", "content": "You are."},
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "r"},
    {"role": "assistant", "content": "done", "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
]


@pytest.mark.parametrize("form", ["list", "body", "lines", "conversations"])
def test_openai_chat_in_every_form(tmp_path: Path, form: str) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    path = {
        "list": lambda: document(tmp_path / "a.json", CHAT),
        "body": lambda: document(
            tmp_path / "a.json", {"model": "gpt", "messages": CHAT, "tools": tools}
        ),
        "lines": lambda: jsonl(tmp_path / "a.jsonl", *CHAT),
        "conversations": lambda: jsonl(
            tmp_path / "a.jsonl", {"messages": CHAT}, {"messages": CHAT[:2]}
        ),
    }[form]()
    transcript = read(path)
    session = transcript.sessions[0]
    assert (transcript.format, len(transcript.sessions)) == (
        "openai_chat",
        2 if form == "conversations" else 1,
    )
    assert (session.system, roles(session.messages)) == (
        "You are.",
        ["user", "assistant", "user", "assistant"],
    )
    assert session.messages[1]["content"] == [
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
    ]
    assert session.messages[3]["usage"]["input_tokens"] == 9
    assert bool(session.tools) == (form == "body")


def test_a_repeated_call_id_becomes_one_of_its_own(tmp_path: Path) -> None:
    transcript = read(document(tmp_path / "a.json", CHAT + CHAT[2:4]))
    ids = [
        b["id"]
        for m in transcript.messages
        if m["role"] == "assistant"
        for b in m["content"]
        if "id" in b
    ]
    answered = [
        b["tool_use_id"]
        for m in transcript.messages[1:]
        if m["role"] == "user"
        for b in m["content"]
    ]
    assert ids == answered == ["c1", "c1-2"]
    assert [line for line, _ in transcript.warnings] == [6]


def test_a_late_system_message_is_meta_and_remembers_its_role(tmp_path: Path) -> None:
    chat = [*CHAT[:2], {"role": "assistant", "content": "k"}, {"role": "system", "content": "mode"}]
    entry = read(document(tmp_path / "a.json", chat)).entries[-1]
    assert (entry["type"], entry["isMeta"], entry["message"]["role"]) == ("user", True, "user")
    assert entry["message"]["foreign"]["openai_chat"]["role"] == "system"


def test_tau_bench(tmp_path: Path) -> None:
    stored = [{"task_id": 3, "trial": 0, "reward": 1.0, "info": {}, "traj": CHAT}] * 2
    transcript = read(document(tmp_path / "r.json", stored))
    assert [session.id for session in transcript.sessions] == ["task-3-trial-0", "task-3-trial-0#2"]


def test_tau2_leaves_out_what_the_agent_did_not_see(tmp_path: Path) -> None:
    messages = [
        {"role": "assistant", "content": "hi", "turn_idx": 0},
        {
            "role": "user",
            "content": None,
            "tool_calls": [{"id": "u1", "name": "toggle", "arguments": {}, "requestor": "user"}],
        },
        {"role": "tool", "id": "u1", "content": "on", "requestor": "user"},
        {"role": "user", "content": "it is on"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a1", "name": "get", "arguments": {"x": 1}, "requestor": "assistant"}
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1},
        },
        {
            "role": "tool",
            "id": "a1",
            "content": "no such line",
            "requestor": "assistant",
            "error": True,
        },
    ]
    stored = {
        "timestamp": "t",
        "info": {},
        "tasks": [],
        "simulations": [{"id": "s1", "messages": messages}],
    }
    transcript = read(document(tmp_path / "r.json", stored))
    assert (transcript.format, formats.detect(tmp_path / "r.json")) == ("tau2", "tau2")
    assert roles(transcript.messages) == ["assistant", "user", "assistant", "user"]
    assert transcript.messages[2]["content"] == [
        {"type": "tool_use", "id": "a1", "name": "get", "input": {"x": 1}}
    ]
    assert transcript.messages[3]["content"][0]["is_error"] is True
    assert "left out" in transcript.warnings[0][1]


def test_few_shot_examples(tmp_path: Path) -> None:
    shown = "user: help\nme\nassistant: None\ntool: Error: no user\nassistant: sorry\nuser: bye"
    transcript = read(jsonl(tmp_path / "f.jsonl", {"messages_display": shown}))
    assert roles(transcript.messages) == ["user", "assistant", "user", "assistant", "user"]
    assert transcript.messages[0]["content"] == "help\nme"
    assert transcript.messages[2]["content"][0]["content"] == "Error: no user"


def test_swe_agent_with_calls_and_with_text(tmp_path: Path) -> None:
    calls = [
        {"role": "system", "content": "SETTING", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "issue", "agent": "main", "message_type": "observation"},
        {
            "role": "assistant",
            "content": "look",
            "thought": "look",
            "action": "ls",
            "agent": "main",
            "tool_calls": [CALL],
        },
        {"role": "tool", "content": "files", "agent": "main", "tool_call_ids": ["c1"]},
    ]
    transcript = read(
        document(tmp_path / "a.traj", {"history": calls, "trajectory": [], "info": {}})
    )
    assert transcript.format == "swe_agent"
    assert transcript.messages[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "files",
    }
    text = [
        {"role": "user", "content": "demo", "agent": "primary", "is_demo": True},
        {"role": "user", "content": "issue", "agent": "primary"},
        {"role": "assistant", "content": "look\n<command>\nls\n</command>", "agent": "primary"},
        {"role": "user", "content": "files", "agent": "primary"},
    ]
    entries = read(document(tmp_path / "b.traj", {"history": text, "info": {}})).entries
    assert [entry.get("isMeta", False) for entry in entries] == [True, False, False, True]


def test_mini_swe_agent(tmp_path: Path) -> None:
    response = {"model": "claude", "usage": {"prompt_tokens": 8, "completion_tokens": 1}}
    stored = {
        "info": {"exit_status": "Submitted", "model_stats": {}},
        "messages": [
            *CHAT[:2],
            {**CHAT[2], "extra": {"response": response}},
            CHAT[3],
            {"role": "exit", "content": "Submitted"},
        ],
        "trajectory_format": "mini-swe-agent-1",
    }
    transcript = read(document(tmp_path / "a.traj.json", stored))
    assert (transcript.format, roles(transcript.messages)) == (
        "mini_swe_agent",
        ["user", "assistant", "user"],
    )
    assert transcript.messages[1]["model"] == "claude"


def test_openhands(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "You are.", "cache_control": {"type": "ephemeral"}}]
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "done"}}],
        "model": "m",
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    stored = {
        "messages": [{"role": "system", "content": parts}, *CHAT[1:4]],
        "response": answer,
        "kwargs": {"tools": tools},
        "cost": 0.1,
    }
    transcript = read(document(tmp_path / "a.json", stored))
    session = transcript.sessions[0]
    assert (transcript.format, session.metadata) == ("openhands", {"model": "m"})
    assert session.messages[-1] == {
        "role": "assistant",
        "content": "done",
        "usage": session.messages[-1]["usage"],
    }
    assert (session.messages[-1]["usage"]["input_tokens"], len(session.tools or [])) == (7, 1)
    assert session.system[0]["cache_control"] == {"type": "ephemeral"}


# ---- others --------------------------------------------------------------------------------------


def test_gemini_cli_after_a_compression(tmp_path: Path) -> None:
    stored = [
        {"role": "user", "parts": [{"text": "<state_snapshot>so far</state_snapshot>"}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "user", "parts": [{"text": "go"}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "ls", "args": {}}, "thoughtSignature": "s"}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a"}}}],
        },
    ]
    session = read(document(tmp_path / "h.json", stored)).sessions[0]
    assert session.entries[0]["subtype"] == "compact_boundary"
    assert session.entries[1]["isCompactSummary"] is True
    call, result = session.messages[3]["content"][0], session.messages[4]["content"][0]
    assert (call["id"], result["content"]) == (result["tool_use_id"], "a")


def test_copilot(tmp_path: Path) -> None:
    def event(kind: str, **data: Any) -> dict[str, Any]:
        return {
            "type": kind,
            "data": data,
            "id": kind,
            "parentId": None,
            "timestamp": "2026-01-01T00:00:00Z",
        }

    request = {"toolCallId": "t1", "name": "bash", "arguments": {"cmd": "ls"}}
    path = jsonl(
        tmp_path / "e.jsonl",
        event("session.start", sessionId="cp", cwd="/w"),
        event("system.message", content="You are."),
        event("user.message", content="x", transformedContent="<date/>x"),
        event("assistant.message", content="look", toolRequests=[request]),
        event("tool.execution_start", toolCallId="t1"),
        event("tool.execution_complete", toolCallId="t1", result={"content": "no"}, success=False),
        event("session.shutdown", totalTokens=5),
    )
    session = read(path).sessions[0]
    assert (session.id, session.system, session.metadata["cwd"]) == ("cp", "You are.", "/w")
    assert session.messages[0]["content"] == "<date/>x"
    assert session.messages[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": "no",
        "is_error": True,
    }


def test_bare_anthropic_messages(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    stored = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [use]}]
    path = document(tmp_path / "m.json", {"system": "s", "messages": stored})
    transcript = read(path)
    assert (transcript.format, transcript.messages, transcript.sessions[0].system) == (
        "anthropic",
        stored,
        "s",
    )


def test_claude_code_goes_through_its_own_index(tmp_path: Path) -> None:
    base = {"sessionId": "s", "version": "2.1.7", "isSidechain": False}
    path = jsonl(
        tmp_path / "c.jsonl",
        {"type": "summary", "summary": "t", "leafUuid": "b"},
        {
            **base,
            "type": "user",
            "uuid": "a",
            "parentUuid": None,
            "message": {"role": "user", "content": "x"},
        },
        {
            **base,
            "type": "assistant",
            "uuid": "b",
            "parentUuid": "a",
            "message": {
                "id": "m",
                "model": "claude",
                "role": "assistant",
                "content": [{"type": "text", "text": "y"}],
            },
        },
    )
    transcript = read(path)
    assert (transcript.format, transcript.sessions[0].id, len(transcript.entries)) == (
        "claude_code",
        "s",
        3,
    )
    assert roles(transcript.messages) == ["user", "assistant"]
    assert transcript.sessions[0].metadata["model"] == "claude"


# ---- what cannot be read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", ["hello\n", "[1, 2]", "{}", '{"a": [}', '{"messages": []}', "null"]
)
def test_unknown_files_are_refused_with_the_list_of_formats(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    for ask in (formats.detect, read):
        with pytest.raises(InvalidTranscript) as caught:
            ask(path)
        assert str(path) in str(caught.value)
        assert all(name in caught.value.hint for name in formats.FORMATS)


def test_empty_missing_and_directory(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(InvalidTranscript, match="is empty"):
        read(tmp_path / "empty")
    with pytest.raises(InvalidTranscript, match="is a directory"):
        formats.detect(tmp_path)
    with pytest.raises(StoreError):
        read(tmp_path / "absent")
