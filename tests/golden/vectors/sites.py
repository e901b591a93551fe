"""One vector for each place where a rule speaks that no other vector reaches; judged by `validate` alone (`ours`)."""

from __future__ import annotations

from vectors.short import (
    FIVE,
    HOUR,
    MID,
    NEW,
    A,
    S,
    U,
    document,
    pair,
    result,
    text,
    use,
    vector,
)

LOOP = [U("q"), A(use("t1")), U(result("t1"))]
SEALED = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
HELD = [U("q"), A(SEALED, "a"), U("more")]
COMPACTED = {"type": "compaction", "content": "all of it", "signature": "c2ln"}
CHAT = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


def calling(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def chat(name, rule, about, *messages, errors, **more):
    return vector(
        name,
        rule,
        about,
        list(messages),
        provider="openai_chat",
        model="gpt-5.2",
        errors=errors,
        **more,
    )


def talk(role, *parts):
    return {"role": role, "content": list(parts)}


def bedrock(name, rule, about, *messages, errors, also="", **more):
    return vector(
        name,
        rule,
        about,
        list(messages),
        provider="bedrock",
        model="anthropic.claude-opus-4-6",
        errors=errors,
        also=also,
        toolConfig={"tools": [{"toolSpec": {"name": "Read"}}]},
        **more,
    )


def tu(name, **more):
    return {"toolUse": {"toolUseId": name, "name": "Read", "input": {}, **more}}


def tr(name):
    return {"toolResult": {"toolUseId": name, "content": [{"text": "ok"}]}}


Q, MORE = talk("user", {"text": "q"}), talk("user", {"text": "more"})
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "x", "signature": "c2ln"}}}


def gemini(name, rule, about, *contents, errors, also=""):
    return vector(
        name,
        rule,
        about,
        list(contents),
        provider="gemini",
        model="gemini-2.5-pro",
        key="contents",
        errors=errors,
        also=also,
    )


def part(role, *parts):
    return {"role": role, "parts": list(parts)}


def fc(name):
    return {"functionCall": {"name": name, "args": {}}} if name else {"functionCall": {"args": {}}}


def fr(name):
    return {"functionResponse": {"name": name, "response": {}}}


def items(name, rule, about, *made, errors="", warnings="", also="", **more):
    return vector(
        name,
        rule,
        about,
        list(made),
        provider="openai_responses",
        model="gpt-5.2",
        key="input",
        errors=errors,
        warnings=warnings,
        also=also,
        **more,
    )


CALL = {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{}"}
OUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
ASKED = {"role": "user", "content": "q"}
REASON = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
SAID = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "content": [{"type": "output_text", "text": "a"}],
}
OTHER = {**SAID, "id": "msg_2"}
KEPT = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}

_MADE = [
    vector("S01", "A04", "a stray key of a message", [{**U("q"), "mood": "good"}], model=MID, errors="A04"),
    vector("S02", "A02", "an empty answer last, where nobody may answer for the model", [U("q"), {"role": "assistant", "content": ""}], model=MID, errors="A02 A11"),
    vector("S03", "A02", "content that is a number", [{"role": "user", "content": 3}], model=MID, errors="A02"),
    vector("S04", "A03", "an unknown block", [U("q"), A({"type": "hologram", "data": "x"}, "a"), U("more")], model=MID, errors="A03"),
    vector("S04b", "A03", "an unknown block of the user", [U({"type": "hologram", "data": "x"}, "a")], model=MID, errors="A03"),
    vector("S04c", "A03", "data of another provider", [U("q"), A("a", {"type": "foreign", "foreign": {"gemini": {}}}), U("more")], model=MID, errors="A03"),
    vector("S05", "A18", "an automatic 1h marker after a 5m one", [U(text("q", cache_control=FIVE)), A("a"), U("more")], model=MID, cache_control=HOUR, errors="A18"),
    vector("S06", "A22", "far too many pages", [U(document(700), "q")], model=NEW, errors="A22"),
    vector("S07", "A01", "a message of the chat form", [U("q"), {"role": "assistant", "content": "a", "tool_calls": [CHAT]}, U("x")], model=MID, errors="A01", also="A03 A04 A05"),
    vector("S08", "A12", "a system message first", [S("s"), U("q")], model=NEW, errors="A12"),
    vector("S09", "A08", "a server call twice", [U("q"), A({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}), A({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}, "a"), U("x")], model=MID, errors="A08", tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    vector("S10", "A25", "a signed block without its header", [A(COMPACTED), U("more")], model=NEW, errors="A25"),
    vector("S11", "A13", "thinking with another text", [U("q"), A({**SEALED, "thinking": "other"}, "a"), U("more")], model=MID, original={"messages": HELD}, errors="A13"),
    vector("S12", "A25", "a compaction block with another text", [A({**COMPACTED, "content": "some"}), U("more")], model=NEW, original={"messages": [A(COMPACTED), U("more")]}, betas="compact-2026-09-04", errors="A25"),
    vector("S13", "A26", "an edit that is no object", [U("q")], model=MID, context_management={"edits": ["x"]}, errors="A26"),
    vector("S14", "A15", "block_binding without its header", [U("q")], model=NEW, thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}, errors="A15"),
    vector("S15", "D01", "reasoning where the model refuses it", [U("q"), {"role": "assistant", "content": "a", "reasoning_content": "r"}, U("x")], provider="deepseek", model="deepseek-r1", errors="D01"),
    chat("S16", "O06", "an unknown role", {"role": "wizard", "content": "x"}, errors="O06"),
    chat("S17", "O05", "a call without an id", U("q"), calling({"type": "function", "function": {"name": "Read", "arguments": "{}"}}), U("x"), errors="O05"),
    chat("S18", "O05", "one id twice in one message", U("q"), calling(CHAT, CHAT), ANSWER, errors="O05"),
    chat("S19", "O04", "a part of another form", U("q"), {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]}, U("x"), errors="O04"),
    bedrock("S20", "B01", "no message", errors="B01"),
    bedrock("S21", "B01", "an unknown role", Q, talk("wizard", {"text": "a"}), MORE, errors="B01"),
    bedrock("S22", "B02", "no content", Q, talk("assistant"), MORE, errors="B02"),
    bedrock("S23", "B02", "a block that is a string", Q, talk("assistant", "a"), MORE, errors="B02"),
    bedrock("S24", "B02", "a block of two kinds", Q, talk("assistant", {"text": "a", **tu("t1")}), talk("user", tr("t1")), errors="B02", also="B04"),
    bedrock("S25", "B04", "a call by the user", Q, talk("assistant", {"text": "a"}), talk("user", tu("t1")), errors="B04"),
    bedrock("S26", "B04", "an input that is a string", Q, talk("assistant", tu("t1", input="x")), talk("user", tr("t1")), errors="B04"),
    bedrock("S27", "B05", "reasoning that is not as it came", Q, talk("assistant", THOUGHT, {"text": "a"}), MORE, original=[Q, talk("assistant", {"text": "a"}), MORE], errors="B05"),
    gemini("S28", "G01", "no contents", errors="G01"),
    gemini("S29", "G01", "an unknown role", part("user", {"text": "q"}), part("wizard", {"text": "a"}), part("user", {"text": "x"}), errors="G01"),
    gemini("S30", "G03", "a call without a name", part("user", {"text": "q"}), part("model", fc("")), part("user", fr("")), errors="G03"),
    gemini("S31", "G03", "answers in another order", part("user", {"text": "q"}), part("model", fc("a"), fc("b")), part("user", fr("b"), fr("a")), errors="G03"),
    items("S32", "R01", "neither type nor role", ASKED, {"content": "x"}, errors="R01"),
    items("S33", "R01", "one call twice", ASKED, CALL, CALL, OUT, errors="R01"),
    items("S34", "R04", "another compaction item", {**KEPT, "encrypted_content": "y"}, ASKED, original=[KEPT], errors="R04"),
    items("S35", "R05", "an item that the server has", SAID, ASKED, original=[SAID], previous_response_id="resp_1", warnings="R05"),
    items("S36", "R02", "reasoning before another item", ASKED, REASON, OTHER, original=[ASKED, REASON, SAID, OTHER], errors="R02"),
    vector("S38", "A21", "an image of 10.8 MB in base64", [U({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, "q")], model=MID, repeat=[[["messages", 0, "content", 0, "source", "data"], 2_700_000]], errors="A21", also="A24"),
    bedrock("S39", "B07", "an image over 5 MB", talk("user", {"image": {"format": "png", "source": {"bytes": "AAAA"}}}, {"text": "q"}), errors="B07", repeat=[[["messages", 0, "content", 0, "image", "source", "bytes"], 1_800_000]]),
    vector("S40", "A12", "a system message first, with nothing else wrong", [S("s"), A("a"), U("b")], errors="A12"),
    {**vector("S41", "A04", "a key of a host's own, also where those of responses may stay", [{**U("a"), "score": 3}], errors="A04"), "wire": False},
    {**vector("S42", "A04", "keys of a response, which a sender leaves out", [U("a"), {**A("b"), "id": "m1", "usage": {}}, U("c")]), "wire": False},
    pair("S37", "A16", "removed thinking is back", [U("q"), A("a"), U("more")], [U("q"), A(SEALED, "a"), U("more")], bound=True, announced=True, errors="A16"),
]  # fmt: skip

VECTORS = [{**made, "ours": True} for made in _MADE]
