"""Small, independent checkers of what each API accepts, for shapes as they go over the wire.

They read the emitted dicts only and share no code with the library.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any


def broken_anthropic(messages: list[dict[str, Any]]) -> list[str]:
    """Rows A02, A03, A05 to A08: structure, pairing, ids. Neighbours of one role count as one turn."""
    turns: list[tuple[str, list[Any]]] = []
    found = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks or any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            found.append("A02")
        if set(message) - {"role", "content"}:
            found.append("A04")
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], list(blocks)))
    pending: list[str] = []
    seen: set[str] = set()
    for role, blocks in turns:
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(pending):
            found.append("A05/A06")
        kinds = [b["type"] == "tool_result" for b in blocks]
        if kinds != sorted(kinds, reverse=True):
            found.append("A07")
        calls = [b for b in blocks if b["type"] == "tool_use"]
        if role != "assistant" and calls:
            found.append("A03")
        for call in calls:
            good = re.fullmatch(r"[a-zA-Z0-9_-]+", call["id"]) and isinstance(call["input"], dict)
            if call["id"] in seen or not good:
                found.append("A08")
            seen.add(call["id"])
        pending = [call["id"] for call in calls]
        found.extend("A13" for b in blocks if b["type"] == "thinking" and "signature" not in b)
        found.extend("A16" for b in blocks if "foreign" in b)
    return found + (["A05 open"] if pending else [])


def broken_chat(
    messages: list[dict[str, Any]], *, strict: bool = False, reasoning: bool = False
) -> list[str]:
    """Rows O01 to O07, with `strict` O10 and L01 to L03, with `reasoning` D01 and D02."""
    found = []
    pending: list[str] = []
    seen: set[str] = set()
    for message in messages:
        role, calls = message["role"], message.get("tool_calls")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            found.append("O06")
        if role == "tool":
            if message["tool_call_id"] in pending:
                pending.remove(message["tool_call_id"])
            else:
                found.append("O02")
            content = message["content"]
            parts = content if isinstance(content, list) else []
            if content is None or any(part["type"] != "text" for part in parts):
                found.append("O07")
            continue
        if pending:
            found.append("O01")
            pending = []
        if role == "assistant" and calls is not None:
            if not calls:
                found.append("O03")
            for call in calls:
                kind = call["type"]
                told = call[kind]["input" if kind == "custom" else "arguments"]
                if not isinstance(told, str):
                    found.append("O03")
                if call["id"] in seen or not 0 < len(call["id"]) <= 40:
                    found.append("O05")
                seen.add(call["id"])
                pending.append(call["id"])
            if reasoning and not isinstance(message.get("reasoning_content"), str):
                found.append("D01")
        elif role == "assistant" and message.get("content") in (None, []):
            found.append("O04")
        if message.get("content") == []:
            found.append("empty")
    found += ["O01 open"] if pending else []
    return found + (_broken_strict(messages) if strict else [])


def _broken_strict(messages: list[dict[str, Any]]) -> list[str]:
    roles = [message["role"] for message in messages]
    found = ["L01"] if any(role in ("system", "developer") for role in roles[1:]) else []
    if "developer" in roles:
        found.append("L01")
    if any(message.get("content") is None for message in messages):
        found.append("O10")
    pairs = itertools.pairwise(roles)
    return found + (["L02"] if any(a == b and a != "tool" for a, b in pairs) else [])


def broken_mistral(messages: list[dict[str, Any]]) -> list[str]:
    """Rows M01 to M03 and M05."""
    found = []
    pending: list[str] = []
    for index, message in enumerate(messages):
        before = messages[index - 1]["role"] if index else ""
        role = message["role"]
        if role == "tool":
            found += [] if message["tool_call_id"] in pending else ["M01"]
            pending = [one for one in pending if one != message["tool_call_id"]]
            continue
        found += ["M01"] if pending else []
        found += ["M02"] if before == "tool" and role != "assistant" else []
        found += ["M05"] if role == "system" and index else []
        pending = [call["id"] for call in message.get("tool_calls") or ()]
        found += ["M03" for one in pending if not re.fullmatch(r"[A-Za-z0-9]{9}", one)]
    return found


def broken_responses(items: list[dict[str, Any]]) -> list[str]:
    """Rows R01 (calls and outputs), R03 (encrypted content) and R06 (ids)."""
    found = []
    calls: dict[str, str] = {}
    answered: set[str] = set()
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind.endswith("_call_output"):
            call = item["call_id"]
            if calls.get(call, "") + "_output" != kind or call in answered:
                found.append("R01")
            answered.add(call)
        elif "call_id" in item:
            if item["call_id"] in calls:
                found.append("R01")
            calls[item["call_id"]] = kind
            if kind == "function_call" and not isinstance(item["arguments"], str):
                found.append("R01")
        if kind == "reasoning":
            found += [] if item.get("encrypted_content") else ["R03"]
            followed = items[index + 1].get("type", "message") if index + 1 < len(items) else ""
            found += ["R02"] if followed in ("", "function_call_output") else []
    ids = [item["id"] for item in items if item.get("id")]
    return (
        found
        + (["R01"] if set(calls) != answered else [])
        + (["R06"] if len(ids) != len(set(ids)) else [])
    )


def broken_gemini(contents: list[dict[str, Any]]) -> list[str]:
    """Rows G01 to G07 as far as the emitted contents show them."""
    found = [] if contents[0]["role"] == "user" else ["G01"]
    roles = [content["role"] for content in contents]
    found += ["G01" for a, b in itertools.pairwise(roles) if a == b]
    expected: list[tuple[Any, Any]] = []
    for content in contents:
        parts = content["parts"]
        data = {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
        if not parts or any(not data & set(part) for part in parts):
            found.append("G05")
        calls = [part for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if [(one.get("id"), one["name"]) for one in answers] != expected:
            found.append("G03")
        if any(not isinstance(one["response"], dict) for one in answers):
            found.append("G03 response")
        if calls and content["role"] != "model":
            found.append("G02")
        if calls and "thoughtSignature" not in calls[0]:
            found.append("G04")
        expected = [
            (part["functionCall"].get("id"), part["functionCall"]["name"]) for part in calls
        ]
    return found + (["G06"] if expected else [])


def broken_bedrock(parts: dict[str, Any]) -> list[str]:
    """Rows B01 to B04 and B06."""
    messages = parts["messages"]
    roles = [message["role"] for message in messages]
    found = [] if roles[0] == "user" else ["B01"]
    found += ["B01" for a, b in itertools.pairwise(roles) if a == b]
    pending: list[str] = []
    tools = False
    for message in messages:
        blocks = message["content"]
        texts = [block["text"] for block in blocks if "text" in block]
        found += ["B02"] if not blocks or any(not text.strip() for text in texts) else []
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        for result in results:
            found += ["B02"] if result.get("status") == "error" and not result["content"] else []
        found += ["B04"] if sorted(one["toolUseId"] for one in results) != sorted(pending) else []
        kinds = ["toolResult" in block for block in blocks]
        found += ["B04"] if kinds != sorted(kinds, reverse=True) else []
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        pending = [call["toolUseId"] for call in calls]
        found += ["B04" for one in pending if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one)]
        tools = tools or bool(calls or results)
    points = json.dumps(parts).count('"cachePoint"')
    found += ["B06"] if points > 4 else []
    found += ["B03"] if tools and not parts.get("toolConfig", {}).get("tools") else []
    return found + (["B04 open"] if pending else [])
