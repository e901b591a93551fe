"""The 27 vectors that every checker must get right."""

from __future__ import annotations

from vectors.short import (
    FIVE,
    HOUR,
    MID,
    OLD,
    TOOL,
    A,
    S,
    U,
    found,
    image,
    result,
    server,
    signed,
    text,
    think,
    use,
    vector,
)

_STEPS = (
    U("q"), A(think("one"), use("t1")), U(result("t1")), A(think("two"), use("t2")), U(result("t2"))
)  # fmt: skip
_LOOP = signed(*_STEPS, tools=[TOOL])
_CLOSED = signed(*_STEPS, A(think("three"), "done"), U("next"), tools=[TOOL])


def _without(messages, *positions):
    """The conversation without the thinking of the messages at these positions."""
    return [
        {**m, "content": [b for b in m["content"] if b["type"] != "thinking"]}
        if n in positions
        else m
        for n, m in enumerate(messages)
    ]


_ELSEWHERE = signed(U("another question"), A(think("other"), "text"))[1]
_HERE = signed(U("s"), A(think("mine"), "text"), U("go on"))
_MOVED = [U("s"), _ELSEWHERE, U("go on")]
_BINDING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
_HEADER = "thinking-binding-controls-2026-08-01"
_COMPACT = "compact-2026-09-04"


def _compaction(words):
    return {
        "type": "compaction",
        "content": words,
        "signature": "c2ln",
        "encrypted_content": "ZW5j",
    }


def _chat(*ids):
    calls = [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for name in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _tool(name):
    return {"role": "tool", "tool_call_id": name, "content": "ok"}


_CITED = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None,
          "start_char_index": 0, "end_char_index": 1}  # fmt: skip

_RESPONSES = [
    {"role": "user", "content": "q"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "ok"},
]
_SAID = {"type": "message", "id": "msg_1", "role": "assistant",
         "content": [{"type": "output_text", "text": "hm", "annotations": []}]}  # fmt: skip

VECTORS = [
    vector("V01", "A05", "unanswered at the end", [U("hi"), A(use("t1"))], model=OLD, errors="A05"),
    vector("V02", "A07", "text before the result", [U("hi"), A(use("t1")), U("x", result("t1"))], errors="A07"),
    vector("V03", "A07", "merged, the text stands first", [U("hi"), A(use("t1")), U("x"), U(result("t1"))], errors="A07", warnings="A29"),
    vector("V04", "A06", "cut between a pair", [U(result("t1")), A("ok"), U("go")], errors="A06"),
    vector("V05", "A05", "one of two answered", [U("hi"), A(use("t1"), use("t2")), U(result("t1"))], errors="A05"),
    vector("V06", "A05", "answered twice", [U("hi"), A(use("t1")), U(result("t1"), result("t1"))], errors="A05"),
    vector("V07", "A08", "an id used again", [U("q"), A(use("t1")), U(result("t1")), A(use("t1")), U(result("t1"))], errors="A08"),
    vector("V08", "A11", "prefill on a model without it", [U("hi"), A("hello")], model=MID, errors="A11"),
    vector("V09", "A09", "a server result without its call", [U("hi"), A(found("srvtoolu_1")), U("go")], errors="A09"),
    vector("V10", "A10", "a server call left open, then words", [U("hi"), A(server("srvtoolu_1")), U("next")], any_of="A09 A10", also="A30"),
    vector("V11a", "A15", "thinking of another prefix", _MOVED, original={"messages": _HERE}, errors="A15", also="A13"),
    vector("V11b", "A15", "the same with drop_block and its header", _MOVED, original={"messages": _HERE}, thinking=_BINDING, betas=_HEADER),
    vector("V11c", "A15", "the same without thinking", _without(_HERE, 1), original={"messages": _HERE}),
    vector("V11d", "A15", "unchanged", _HERE, original={"messages": _HERE}),
    vector("V12", "A13", "the first thinking of an open loop dropped", _without(_LOOP, 1), original={"messages": _LOOP, "tools": [TOOL]}, errors="A13", tools=[TOOL]),
    vector("V13a", "A16", "the first of a closed loop dropped", _without(_CLOSED, 1), original={"messages": _CLOSED, "tools": [TOOL]}, tools=[TOOL]),
    vector("V13b", "A16", "the last two of a closed loop dropped", _without(_CLOSED, 3, 5), original={"messages": _CLOSED, "tools": [TOOL]}, tools=[TOOL]),
    vector("V13c", "A16", "the one in the middle dropped", _without(_CLOSED, 3), original={"messages": _CLOSED, "tools": [TOOL]}, errors="A16", tools=[TOOL]),
    vector("V14", "A18", "5m in tools, then 1h in system", [U("hi")], errors="A18", tools=[{**TOOL, "cache_control": FIVE}], system=[text("s", cache_control=HOUR)]),
    vector("V15", "A17", "five markers", [U(*[text(str(n), cache_control=FIVE) for n in range(5)])], errors="A17"),
    vector("V16", "A19", "a marker on empty text", [U(text("", cache_control=FIVE))], errors="A02 A19"),
    vector("V17a", "A20", "citations in a user message", [U(text("x", citations=[_CITED]))], errors="A20"),
    vector("V17b", "A20", "an empty list of citations", [U(text("x", citations=[]))]),
    vector("V17c", "A20", "null citations", [U(text("x", citations=None))]),
    vector("V17d", "A20", "citations, older version", [U(text("x", citations=[_CITED]))], version="2023-06-01"),
    vector("V18a", "A12", "system between user messages", [U("a"), S("s"), U("b")], errors="A12"),
    vector("V18b", "A12", "system first", [S("s"), U("a")], errors="A12"),
    vector("V18c", "A12", "system between call and result", [U("a"), A(use("t1")), S("s"), U(result("t1"))], errors="A12", also="A05 A06"),
    vector("V18d", "A12", "system last", [U("a"), S("s")]),
    vector("V18e", "A12", "system before an answer", [U("a"), S("s"), A("b"), U("c")]),
    vector("V18f", "A12", "the model does not take it", [U("a"), S("s")], model=MID, errors="A12", also="A11"),
    vector("V19a", "A21", "21 images, one with 2500 pixels", [U(*[image()] * 20, image(2500, 8))], errors="A21"),
    vector("V19b", "A21", "20 images, one with 2500 pixels", [U(*[image()] * 19, image(2500, 8))]),
    vector("V20", "A25", "two compaction blocks", [A(_compaction("c")), U("q"), A(_compaction("c2")), U("go")], betas=_COMPACT, errors="A25", warnings="A29"),
    vector("V21", "O01", "one of two calls answered", [{"role": "user", "content": "q"}, _chat("c1", "c2"), _tool("c1"), {"role": "user", "content": "go"}], provider="openai_chat", model="gpt-5.2", errors="O01"),
    vector("V22", "R02", "reasoning followed by another item", [*_RESPONSES[:2], _SAID, *_RESPONSES[2:]], provider="openai_responses", model="gpt-5.2", key="input", original={"input": _RESPONSES}, errors="R02"),
    vector("V23", "G03", "two calls, one response", [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}, {"functionCall": {"name": "g", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"ok": 1}}}]},
    ], provider="gemini", model="gemini-3-pro", key="contents", errors="G03"),
    vector("V24a", "M02", "user after tool", [{"role": "user", "content": "q"}, _chat("abcdefgh1"), _tool("abcdefgh1"), {"role": "user", "content": "go"}], provider="mistral", model="mistral-large-latest", errors="M02"),
    vector("V24b", "M02", "an assistant line between", [{"role": "user", "content": "q"}, _chat("abcdefgh1"), _tool("abcdefgh1"), {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go"}], provider="mistral", model="mistral-large-latest"),
    vector("V25", "B03", "toolUse in the history, no toolConfig", [
        {"role": "user", "content": [{"text": "q"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "ok"}], "status": "success"}}]},
    ], provider="bedrock", model="anthropic.claude-opus-4-6", errors="B03"),
    # Not a request but an answer: a throttle that sounds like an overflow.
    {"id": "V26", "rule": "X10", "about": "a throttle is no overflow", "provider": "bedrock", "model": "anthropic.claude-opus-4-6",
     "error": {"status": 429, "text": "Too many tokens, please wait before trying again."}, "overflow": False},
    vector("V27a", "A29", "two user messages in a row", [U("a"), U("b")], warnings="A29"),
    vector("V27b", "A29", "an assistant message first", [A("x"), U("y")], warnings="A29"),
]  # fmt: skip
