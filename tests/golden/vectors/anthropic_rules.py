"""Anthropic, rule by rule: at least three more for each row, legal and illegal neighbours."""

from __future__ import annotations

from vectors.short import (
    FIVE,
    HOUR,
    MID,
    NEW,
    OLD,
    SEARCH,
    TOOL,
    A,
    S,
    U,
    document,
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

LOOP = (U("q"), A(use("t1")), U(result("t1")))
DONE = (*LOOP, A("done"), U("next"))
BINDING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
HEADER = "thinking-binding-controls-2026-08-01"
CHANGES = "mid-conversation-tool-changes-2026-07-01"
EFFORT = "mid-conversation-output-config-2026-07-01"
ON_DEMAND = "compact-2026-09-04"
AUTOMATIC = "compact-2026-01-12 context-management-2025-06-27"
EDITING = "context-management-2025-06-27"
MANUAL = {"type": "enabled", "budget_tokens": 2000}


def drop(messages, *places):
    """Without the blocks at these (message, block) places."""
    return [
        {**m, "content": [b for at, b in enumerate(m["content"]) if (n, at) not in places]}
        if isinstance(m["content"], list)
        else m
        for n, m in enumerate(messages)
    ]


def mcp(name):
    return {"type": "mcp_tool_use", "id": name, "name": "ask", "server_name": "s", "input": {}}


def mcp_result(name):
    return {
        "type": "mcp_tool_result",
        "tool_use_id": name,
        "content": [text("ok")],
        "is_error": False,
    }


def search_result(on):
    citations = {} if on is None else {"citations": {"enabled": on}}
    return {
        "type": "search_result",
        "source": "s",
        "title": "t",
        "content": [text("x")],
        **citations,
    }


def compaction(words="summary"):
    return {
        "type": "compaction",
        "content": words,
        "signature": "c2ln",
        "encrypted_content": "ZW5j",
    }


def edit(kind, **fields):
    return {"edits": [{"type": kind, **fields}]}


LATE = {"name": "Late", "description": "d", "input_schema": {"type": "object"}}


def change(kind, tool=LATE):
    return {"type": kind, "tool": tool}


DEFINED = change("tool_addition", {"type": "tool_definition", "definition": LATE})
NAMED = {"type": "tool_reference", "name": "Late"}
ON_SERVER = {"type": "mcp_tool_reference", "server_name": "s", "name": "far"}
SERVER = {"type": "mcp_toolset_reference", "server_name": "s"}


FALLBACK = {"type": "fallback", "from": {"model": "claude-fable-5-1"}, "to": {"model": MID}}
CITED = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None,
         "start_char_index": 0, "end_char_index": 1}  # fmt: skip

TALK = signed(
    U("q"),
    A(think("a"), "one"),
    U("r"),
    A(think("b"), "two"),
    U("s"),
    A(think("c"), "three"),
    U("t"),
)
RUN = signed(*LOOP[:1], A(think("a"), use("t1")), LOOP[2], tools=[TOOL])
MANUAL_RUN = signed(*LOOP[:1], A(think("a"), use("t1")), LOOP[2], tools=[TOOL], model=OLD)
MID_TALK = signed(*TALK, model=MID)
ORIGINAL = {"messages": TALK}
RUN_ORIGINAL = {"messages": RUN, "tools": [TOOL]}


def altered(messages, place, **changes):
    """With keys of one block changed."""
    return [
        {
            **m,
            "content": [
                {**b, **changes} if (n, at) == place else b for at, b in enumerate(m["content"])
            ],
        }
        if isinstance(m["content"], list)
        else m
        for n, m in enumerate(messages)
    ]


VECTORS = [
    # A01
    vector("A01a", "A01", "no messages", [], errors="A01"),
    vector("A01b", "A01", "a role that does not exist", [{"role": "tool", "content": "x"}], errors="A01"),
    vector("A01c", "A01", "no role", [U("a"), {"content": "x"}], errors="A01"),
    vector("A01d", "A01", "100 001 messages", [U("a")], repeat=[[["messages"], 100_001]], errors="A01", warnings="A29"),
    vector("A01e", "A01", "one message", [U("a")]),
    # A02
    vector("A02a", "A02", "an empty string", [U("a"), A("b"), U("")], errors="A02"),
    vector("A02b", "A02", "an empty list", [{"role": "user", "content": []}], errors="A02"),
    vector("A02c", "A02", "white space only", [U("a"), A("b"), U(" \n\t")], errors="A02"),
    vector("A02d", "A02", "a blank block among others", [U("a", " ")], errors="A02"),
    vector("A02e", "A02", "null content", [{"role": "user", "content": None}], errors="A02"),
    vector("A02f", "A02", "the empty last answer of an old model", [U("a"), A("")], model=OLD),
    vector("A02g", "A02", "an empty answer in the middle", [U("a"), A(""), U("b")], model=OLD, errors="A02"),
    vector("A02h", "A02", "an empty result is legal", [U("q"), A(use("t1")), U(result("t1", ""))], tools=[TOOL]),
    vector("A02i", "A02", "no-break spaces only", [U("\u00a0\u2003")], errors="A02"),
    vector("A02j", "A02", "a zero-width space is text", [U("\u200b")]),
    # A03
    vector("A03a", "A03", "a call in a user message", [U(use("t1")), A("b"), U("c")], errors="A03", also="A05"),
    vector("A03b", "A03", "a result in an answer", [U("a"), A(result("t1")), U("c")], errors="A03", also="A06"),
    vector("A03c", "A03", "an image in an answer", [U("a"), A(image()), U("c")], errors="A03"),
    vector("A03d", "A03", "a type that does not exist", [U({"type": "input_text", "text": "x"})], errors="A03"),
    vector("A03e", "A03", "a call inside a result", [U("q"), A(use("t1")), U(result("t1", [use("t2")]))], errors="A03"),
    vector("A03f", "A03", "an image inside a result", [U("q"), A(use("t1")), U(result("t1", [image()]))], tools=[TOOL]),
    vector("A03g", "A03", "thinking in a user message", [U(think(signature="c2ln"), "x")], errors="A03", also="A15 A13 A16"),
    vector("A03h", "A03", "a block without a type", [U({"text": "x"})], errors="A03"),
    vector("A03i", "A03", "a string among the blocks", [{"role": "user", "content": ["x"]}], errors="A03"),
    vector("A02n", "A02", "a blank text beside another inside a result", [U("q"), A(use("t1")), U(result("t1", [text("done"), text("")]))], tools=[TOOL], errors="A02"),
    vector("A02o", "A02", "only white space inside a result", [U("q"), A(use("t1")), U(result("t1", [text(" \n")]))], tools=[TOOL], errors="A02"),
    vector("A02p", "A02", "a result without any content", [U("q"), A(use("t1")), U(result("t1", []))], tools=[TOOL]),
    vector("A02q", "A02", "an empty string as a result", [U("q"), A(use("t1")), U(result("t1", ""))], tools=[TOOL]),
    vector("A02r", "A02", "a blank text inside a search result", [U({**search_result(True), "content": [text("x"), text(" ")]}, "x")], errors="A02"),
    # T01
    vector("T01a", "T01", "a lone surrogate in a text", [U("q \ud83d x")], errors="T01"),
    vector("T01b", "T01", "a lone surrogate deep in the input of a call", [U("q"), A({**use("t1"), "input": {"a": [{"b\udc00": 1}]}}), U(result("t1"))], tools=[TOOL], errors="T01"),
    vector("T01c", "T01", "a lone surrogate inside a result", [U("q"), A(use("t1")), U(result("t1", [text("x\udfff")]))], tools=[TOOL], errors="T01"),
    vector("T01d", "T01", "a lone surrogate in the system prompt", [U("q")], system="be \ud800", errors="T01"),
    vector("T01e", "T01", "characters beyond the first plane", [U("q \U0001f600 \U0010ffff")]),
    # A04
    vector("A04a", "A04", "a library's own key on a text", [U(text("x", _id="7"))], errors="A04"),
    vector("A04b", "A04", "a key on a call", [U("q"), A(use("t1", status="done")), U(result("t1"))], errors="A04"),
    vector("A04c", "A04", "a key on a result", [U("q"), A(use("t1")), U(result("t1", cleared=True))], errors="A04"),
    vector("A04d", "A04", "a key inside a result", [U("q"), A(use("t1")), U(result("t1", [text("x", note=1)]))], errors="A04"),
    vector("A04e", "A04", "a message with an id", [{**U("q"), "id": "m1"}], errors="A04"),
    vector("A04f", "A04", "is_error, caller and citations are known", [U("q"), A(use("t1", caller={"type": "direct"})), U(result("t1", is_error=True))], tools=[TOOL]),
    # A05
    vector("A05a", "A05", "the answer comes a turn too late", [U("q"), A(use("t1")), U("wait"), A("ok"), U(result("t1"))], errors="A05 A06"),
    vector("A05b", "A05", "no results at all", [U("q"), A(use("t1"), use("t2")), U("go")], errors="A05"),
    vector("A05c", "A05", "parallel, both answered", [U("q"), A(use("t1"), use("t2")), U(result("t2"), result("t1"))], tools=[TOOL]),
    vector("A05d", "A05", "answered in two neighbouring messages", [U("q"), A(use("t1"), use("t2")), U(result("t1")), U(result("t2"))], tools=[TOOL], warnings="A29"),
    vector("A05e", "A05", "one response in two neighbouring messages", [U("q"), A(use("t1")), A(use("t2")), U(result("t1"), result("t2"))], tools=[TOOL], warnings="A29"),
    vector("A05f", "A05", "answered twice in neighbours", [U("q"), A(use("t1")), U(result("t1")), U(result("t1"))], errors="A05"),
    # A06
    vector("A06a", "A06", "a result of nobody", [U("q"), A(use("t1")), U(result("t1"), result("t9"))], errors="A06"),
    vector("A06b", "A06", "a result after an answer without calls", [U("q"), A("x"), U(result("t1"))], errors="A06"),
    vector("A06c", "A06", "a result of an earlier turn", [*DONE[:4], U(result("t1"), "next")], errors="A06"),
    vector("A06d", "A06", "a result without an id", [U("q"), A(use("t1")), U(result("t1"), {"type": "tool_result", "content": "x"})], errors="A06"),
    vector("A06e", "A06", "a result after its call", [*LOOP], tools=[TOOL]),
    # A07
    vector("A07a", "A07", "text between two results", [U("q"), A(use("t1"), use("t2")), U(result("t1"), "x", result("t2"))], errors="A07"),
    vector("A07b", "A07", "an image before the result", [U("q"), A(use("t1")), U(image(), result("t1"))], errors="A07"),
    vector("A07c", "A07", "text after the results", [U("q"), A(use("t1")), U(result("t1"), "and hurry")], tools=[TOOL]),
    vector("A07d", "A07", "results in one message, text in the next", [U("q"), A(use("t1")), U(result("t1")), U("hurry")], tools=[TOOL], warnings="A29"),
    # A08
    vector("A08a", "A08", "a foreign id", [U("q"), A(use("functions.Read:3")), U(result("functions.Read:3"))], errors="A08"),
    vector("A08b", "A08", "an id with a colon", [U("q"), A(use("Bash:12")), U(result("Bash:12"))], errors="A08"),
    vector("A08c", "A08", "the same id twice in one response", [U("q"), A(use("t1"), use("t1")), U(result("t1"))], errors="A08", also="A05"),
    vector("A08d", "A08", "input as a string", [U("q"), A({**use("t1"), "input": "{}"}), U(result("t1"))], errors="A08"),
    vector("A08e", "A08", "input null", [U("q"), A({**use("t1"), "input": None}), U(result("t1"))], errors="A08"),
    vector("A08f", "A08", "an empty id", [U("q"), A(use("")), U(result(""))], errors="A08", also="A05 A06"),
    vector("A08g", "A08", "OpenAI's ids are fine", [U("q"), A(use("call_a-B_9")), U(result("call_a-B_9"))], tools=[TOOL]),
    vector("A08h", "A08", "a line end at the end of an id", [U("q"), A(use("t1\n")), U(result("t1\n"))], errors="A08"),
    # A09
    vector("A09a", "A09", "call and result in one answer", [U("q"), A(server("srvtoolu_1"), found("srvtoolu_1"), "x"), U("go")], tools=[SEARCH]),
    vector("A09b", "A09", "the result of another tool", [U("q"), A(server("srvtoolu_1"), found("srvtoolu_1", "code_execution_tool_result"), "x"), U("go")], tools=[SEARCH], errors="A09"),
    vector("A09c", "A09", "the result before the call", [U("q"), A(found("srvtoolu_1"), server("srvtoolu_1"), "x"), U("go")], tools=[SEARCH], errors="A09", also="A10"),
    vector("A09d", "A09", "paused, to be resumed", [U("q"), A("let me see", server("srvtoolu_1"))], tools=[SEARCH], resume="pause_turn"),
    vector("A09e", "A09", "an MCP call without its result", [U("q"), A(mcp("mcptoolu_1"), "x"), U("go")], errors="A09", also="A10"),
    vector("A09f", "A09", "an MCP call with its result", [U("q"), A(mcp("mcptoolu_1"), mcp_result("mcptoolu_1"), "x"), U("go")]),
    vector("A09g", "A09", "left open long ago", [U("q"), A(server("srvtoolu_1"), use("t1")), U(result("t1")), A("x"), U("go")], tools=[SEARCH, TOOL], errors="A09"),
    vector("A09h", "A09", "the result in the next answer", [U("q"), A(server("srvtoolu_1"), use("t1")), U(result("t1")), A(found("srvtoolu_1"), "x"), U("go")], tools=[SEARCH, TOOL]),
    # A10
    vector("A10a", "A10", "open, then results and words", [U("q"), A(server("srvtoolu_1"), use("t1")), U(result("t1"), "go on")], tools=[SEARCH, TOOL], errors="A10", also="A09"),
    vector("A10b", "A10", "open, then results only", [U("q"), A(server("srvtoolu_1"), use("t1")), U(result("t1"))], tools=[SEARCH, TOOL]),
    vector("A10c", "A10", "open, the server tool is gone", [U("q"), A(server("srvtoolu_1"), use("t1")), U(result("t1"))], tools=[TOOL], errors="A10"),
    # A11
    vector("A11a", "A11", "an old model takes prefill", [U("q"), A("{")], model=OLD),
    vector("A11b", "A11", "prefill that ends in a space", [U("q"), A("The answer is ")], model=OLD, errors="A11"),
    vector("A11c", "A11", "prefill that ends in a line end", [U("q"), A(text("x\n"))], model=OLD, errors="A11"),
    vector("A11d", "A11", "no prefill on a new model", [U("q"), A("{")], model=NEW, errors="A11"),
    vector("A11e", "A11", "a compaction block is resumed", [A(compaction(None))], betas=AUTOMATIC, resume="compaction", warnings="A29"),
    vector("A11f", "A11", "system last, after an answer", [U("q"), A("x"), S("s")], errors="A12"),
    # A12
    vector("A12a", "A12", "system after results", [*LOOP, S("s")], tools=[TOOL]),
    vector("A12b", "A12", "two in a row are one", [U("q"), S("a"), S("b"), A("c"), U("d")]),
    vector("A12c", "A12", "after a server tool's result", [U("q"), A(server("srvtoolu_1"), found("srvtoolu_1")), S("s")], tools=[SEARCH]),
    vector("A12d", "A12", "after a plain answer", [U("q"), A("x"), S("s"), A("y"), U("z")], errors="A12"),
    vector("A12e", "A12", "the answer after it was deleted", [U("q"), S("s"), U("z")], errors="A12"),
    vector("A12f", "A12", "an effort-only one may stand anywhere", [U("q"), A("x"), S(output_config={"effort": "low"}), U("z")], betas=EFFORT),
    vector("A12g", "A12", "neither content nor effort", [U("q"), S()], errors="A12", also="A02"),
    vector("A12h", "A12", "Sonnet 5 does not take it", [U("q"), S("s")], model="claude-sonnet-5", errors="A12", also="A11"),
    # A13
    vector("A13x", "A13", "a signature that is empty", [U("q"), A({"type": "thinking", "thinking": "hm", "signature": ""}, "a"), U("more")], model=MID, errors="A13"),
    vector("A13y", "A13", "redacted thinking without its data", [U("q"), A({"type": "redacted_thinking", "data": ""}, "a"), U("more")], model=MID, errors="A13"),
    vector("A13a", "A13", "no signature", [U("q"), A({"type": "thinking", "thinking": "x"}, "y"), U("z")], errors="A13", also="A15"),
    vector("A13b", "A13", "redacted without data", [U("q"), A({"type": "redacted_thinking"}, "y"), U("z")], errors="A13", also="A15"),
    vector("A13c", "A13", "untouched in an open loop", RUN, tools=[TOOL], original=RUN_ORIGINAL),
    vector("A13d", "A13", "hidden thinking: empty text, signed", signed(U("q"), A(think(""), "y"), U("z"))),
    vector("A13e", "A13", "a null signature", altered(TALK, (1, 0), signature=None), original=ORIGINAL, errors="A13", also="A15 A16"),
    # A14
    vector("A14a", "A14", "manual mode, the loop begins with a call", [*LOOP], model=OLD, thinking=MANUAL, tools=[TOOL], errors="A14"),
    vector("A14b", "A14", "manual mode, the loop begins with thinking", MANUAL_RUN, model=OLD, thinking=MANUAL, tools=[TOOL], original={"messages": MANUAL_RUN, "tools": [TOOL]}),
    vector("A14c", "A14", "manual mode, the loop is closed", [*DONE], model=OLD, thinking=MANUAL, tools=[TOOL]),
    vector("A14d", "A14", "adaptive mode does not ask for it", [*LOOP], model=MID, thinking={"type": "adaptive"}, tools=[TOOL]),
    # A15
    vector("A15a", "A15", "an earlier text changed", [U("changed"), *TALK[1:]], original=ORIGINAL, errors="A15"),
    vector("A15b", "A15", "the system prompt changed", TALK, system="other", original=ORIGINAL, errors="A15"),
    vector("A15c", "A15", "the tools changed", TALK, tools=[TOOL], original=ORIGINAL, errors="A15"),
    vector("A15d", "A15", "only a cache marker moved", [U(text("q", cache_control=FIVE)), *TALK[1:]], original=ORIGINAL),
    vector("A15e", "A15", "all thinking gone, the text changed", [U("changed"), *drop(TALK, (1, 0), (3, 0), (5, 0))[1:]], original=ORIGINAL),
    vector("A15f", "A15", "drop_block without its header", [U("changed"), *TALK[1:]], thinking=BINDING, original=ORIGINAL, errors="A15"),
    vector("A15g", "A15", "a model that does not bind", [U("changed"), *MID_TALK[1:]], model=MID, original={"messages": MID_TALK}),
    vector("A15h", "A15", "an old result cleared, later thinking kept", altered(signed(*LOOP, A(think("a"), "b"), U("c"), tools=[TOOL]), (2, 0), content="[cleared]"), tools=[TOOL], original={"messages": signed(*LOOP, A(think("a"), "b"), U("c"), tools=[TOOL]), "tools": [TOOL]}, errors="A15"),
    # A16
    vector("A16a", "A16", "the first two dropped", drop(TALK, (1, 0), (3, 0)), original=ORIGINAL),
    vector("A16b", "A16", "the last two dropped", drop(TALK, (3, 0), (5, 0)), original=ORIGINAL),
    vector("A16c", "A16", "the middle dropped", drop(TALK, (3, 0)), original=ORIGINAL, errors="A16"),
    vector("A16d", "A16", "only the middle kept", drop(TALK, (1, 0), (5, 0)), original=ORIGINAL),
    # A17
    vector("A17a", "A17", "four markers", [U(*[text(str(n), cache_control=FIVE) for n in range(4)])]),
    vector("A17b", "A17", "four and the automatic one", [U(*[text(str(n), cache_control=FIVE) for n in range(4)])], cache_control=FIVE, errors="A17"),
    vector("A17c", "A17", "one of them inside a result", [U("q"), A(use("t1")), U(result("t1", [text("x", cache_control=FIVE)]), *[text(str(n), cache_control=FIVE) for n in range(4)])], tools=[TOOL], errors="A17"),
    vector("A17d", "A17", "spread over tools, system and messages", [U(*[text(str(n), cache_control=FIVE) for n in range(3)])], tools=[{**TOOL, "cache_control": FIVE}], system=[text("s", cache_control=FIVE)], errors="A17"),
    # A18
    vector("A18a", "A18", "1h in messages after 5m", [U(text("a", cache_control=FIVE), text("b", cache_control=HOUR))], errors="A18"),
    vector("A18b", "A18", "1h, then 5m", [U(text("a", cache_control=HOUR), text("b", cache_control=FIVE))]),
    vector("A18c", "A18", "an explicit 5m counts as one", [U(text("a", cache_control={**FIVE, "ttl": "5m"}), text("b", cache_control=HOUR))], errors="A18"),
    vector("A18d", "A18", "the automatic one of another duration on the same block", [U(text("a", cache_control=HOUR))], cache_control=FIVE, errors="A18"),
    # A19
    vector("A19a", "A19", "on thinking", altered(TALK, (1, 0), cache_control=FIVE), original=ORIGINAL, errors="A19", also="A04"),
    vector("A19b", "A19", "on redacted thinking", [U("q"), A({"type": "redacted_thinking", "data": "ZGF0YQ==", "cache_control": FIVE}, "x"), U("y")], errors="A19", also="A04 A15"),
    vector("A19c", "A19", "on blank text", [U("x", text("  ", cache_control=FIVE))], errors="A02 A19"),
    vector("A19d", "A19", "on a call and on a result", [U("q"), A(use("t1", cache_control=FIVE)), U(result("t1", cache_control=FIVE))], tools=[TOOL]),
    # A20
    vector("A20a", "A20", "a document in an answer", [U("q"), A(document(), "x"), U("y")], errors="A20", also="A03"),
    vector("A20b", "A20", "temperature", [U("q")], temperature=0.5, errors="A20"),
    vector("A20c", "A20", "top_k and top_p", [U("q")], top_k=5, top_p=0.9, errors="A20"),
    vector("A20d", "A20", "temperature, older version", [U("q")], temperature=0.5, version="2023-06-01"),
    vector("A20e", "A20", "citations in an answer", [U("q"), A(text("x", citations=[CITED])), U("y")]),
    vector("A20f", "A20", "citations switched on for a document", [U({**document(), "citations": {"enabled": True}}, "x")]),
    vector("A20g", "A20", "citations inside a search result", [U({**search_result(True), "content": [text("x", citations=[CITED])]}, "x")], errors="A20"),
    # A21
    vector("A21a", "A21", "8001 pixels", [U(image(8001, 8))], errors="A21"),
    vector("A21b", "A21", "8000 pixels", [U(image(8000, 8))]),
    vector("A21c", "A21", "a format that is not taken", [U(image(media_type="image/bmp"))], errors="A21"),
    vector("A21d", "A21", "101 images for a 200k model", [U(*[image(1, 1)] * 101)], model=OLD, errors="A21"),
    vector("A21e", "A21", "101 images for a 1M model", [U(*[image(1, 1)] * 101)], model=NEW),
    vector("A21f", "A21", "21, the large one inside a result", [U("q"), A(use("t1")), U(result("t1", [image(8, 2001)]), *[image()] * 20)], tools=[TOOL], errors="A21"),
    # A22
    vector("A22a", "A22", "101 pages for a 200k model", [U(document(101))], model=OLD, errors="A22", also="A24"),
    vector("A22b", "A22", "101 pages in two documents", [U(document(50), document(51))], model=OLD, errors="A22", also="A24"),
    vector("A22c", "A22", "101 pages for a 1M model", [U(document(101))], model=NEW),
    # A23
    vector("A23a", "A23", "33 MB", [U("0123456789")], repeat=[[["messages", 0, "content"], 3_300_000]], errors="A23", also="A24"),
    vector("A23b", "A23", "33 MB in a result", [U("q"), A(use("t1")), U(result("t1", "0123456789"))], tools=[TOOL], repeat=[[["messages", 2, "content", 0, "content"], 3_300_000]], errors="A23", also="A24"),
    vector("A23c", "A23", "1 MB", [U("0123456789")], repeat=[[["messages", 0, "content"], 100_000]]),
    # A24
    vector("A24a", "A24", "6 MB of words for a 1M model", [U("words and ")], repeat=[[["messages", 0, "content"], 600_000]], errors="A24"),
    vector("A24b", "A24", "more output than the model has", [U("q")], model=OLD, max_tokens=64_001, errors="A24"),
    vector("A24c", "A24", "input and output over the window of Opus 4.1", [U("words and ")], model="claude-opus-4-1", max_tokens=60_000, repeat=[[["messages", 0, "content"], 78_000]], errors="A24"),
    vector("A24d", "A24", "the same for Sonnet 4.5, which then stops early", [U("words and ")], model=OLD, max_tokens=60_000, repeat=[[["messages", 0, "content"], 50_000]]),
    # A25
    vector("A25a", "A25", "first and alone", [A(compaction()), U("go")], betas=ON_DEMAND, warnings="A29"),
    vector("A25b", "A25", "not first", [U("q"), A(compaction()), U("go")], betas=ON_DEMAND, errors="A25"),
    vector("A25c", "A25", "with a compact edit", [A(compaction()), U("go")], betas=f"{ON_DEMAND} {AUTOMATIC}", context_management=edit("compact_20260112"), errors="A25"),
    vector("A25d", "A25", "empty content", [A(compaction("")), U("go")], betas=AUTOMATIC, errors="A25"),
    vector("A25e", "A25", "a failed one is a no-op", [U("q"), A(compaction(None), "x"), U("go")], betas=AUTOMATIC),
    # A26
    vector("A26a", "A26", "a trigger that is too low", [U("q")], betas=AUTOMATIC, context_management=edit("compact_20260112", trigger={"type": "input_tokens", "value": 49_999}), errors="A26"),
    vector("A26b", "A26", "the lowest trigger", [U("q")], betas=AUTOMATIC, context_management=edit("compact_20260112", trigger={"type": "input_tokens", "value": 50_000})),
    vector("A26c", "A26", "clear_thinking second", [U("q")], betas=EDITING, context_management={"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]}, errors="A26"),
    vector("A26d", "A26", "clear_thinking first", [U("q")], betas=EDITING, context_management={"edits": [{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}]}),
    vector("A26e", "A26", "no thinking turn kept", [U("q")], betas=EDITING, context_management=edit("clear_thinking_20251015", keep={"type": "thinking_turns", "value": 0}), errors="A26"),
    # A27
    vector("A27a", "A27", "one with citations, one without", [U(search_result(True), search_result(None))], errors="A27"),
    vector("A27b", "A27", "both with", [U(search_result(True), search_result(True))]),
    vector("A27c", "A27", "neither", [U(search_result(False), search_result(None))]),
    vector("A27d", "A27", "the odd one in a later result", [U(search_result(True), "q"), A(use("t1")), U(result("t1", [search_result(False)]))], tools=[TOOL], errors="A27"),
    # A28
    vector("A28a", "A28", "a call before the fallback", [U("q"), A(use("t1"), FALLBACK, use("t2")), U(result("t1"), result("t2"))], tools=[TOOL], errors="A28"),
    vector("A28b", "A28", "thinking before the fallback", signed(U("q"), A(think("a"), FALLBACK, "x"), U("y")), errors="A28"),
    vector("A28c", "A28", "words before it", [U("q"), A("I was saying", FALLBACK, "x"), U("y")]),
    vector("A28d", "A28", "an open server call before it", [U("q"), A(server("srvtoolu_1"), FALLBACK, "x"), U("y")], tools=[SEARCH], errors="A28", also="A09 A10"),
    # A29
    vector("A29a", "A29", "two answers in a row", [U("a"), A("b"), A("c"), U("d")], warnings="A29"),
    vector("A29b", "A29", "results and words in two messages", [*LOOP, U("x")], tools=[TOOL], warnings="A29"),
    vector("A29c", "A29", "alternating", [U("a"), A("b"), U("c")]),
    # A30
    vector("A30a", "A30", "calls without tools", [*LOOP], warnings="A30"),
    vector("A30b", "A30", "calls and an empty list of tools", [*LOOP], tools=[], warnings="A30"),
    vector("A30c", "A30", "calls with tools", [*LOOP], tools=[TOOL]),
    # A31
    vector("A31a", "A31", "the addition is gone, the call stays", [U("q"), A(use("t1", tool="Late")), U(result("t1"))], tools=[TOOL], betas=CHANGES, errors="A31"),
    vector("A31b", "A31", "addition and call", [U("q"), S(change("tool_addition")), A(use("t1", tool="Late")), U(result("t1"))], tools=[TOOL], betas=CHANGES),
    vector("A31c", "A31", "a tool is removed that was never added", [U("q"), S(change("tool_removal")), A("x"), U("y")], tools=[TOOL], betas=CHANGES, errors="A31"),
    vector("A31d", "A31", "a tool is defined twice", [U("q"), S(DEFINED), A("x"), U("y"), S(DEFINED), A("z"), U("w")], tools=[TOOL], betas=CHANGES, errors="A31"),
    vector("A31e", "A31", "a tool of the request is defined again", [U("q"), S(DEFINED), A("x"), U("y")], tools=[TOOL, LATE], betas=CHANGES, errors="A31"),
    vector("A31f", "A31", "defined, removed and referred to again", [U("q"), S(DEFINED), A("x"), U("y"), S(change("tool_removal", NAMED)), A("z"), U("w"), S(change("tool_addition", NAMED)), A(use("t1", tool="Late")), U(result("t1"))], tools=[TOOL], betas=CHANGES),
    vector("A31g", "A31", "tools of a server, which the request does not list", [U("q"), S(change("tool_addition", ON_SERVER), change("tool_addition", SERVER)), A("x"), U("y"), S(change("tool_removal", SERVER)), A("z"), U("w")], tools=[TOOL], betas=CHANGES),
    # A32
    vector("A32a", "A32", "cache_edits as a parameter", [U("q")], cache_edits=[{"delete": "t1"}], errors="A32"),
    vector("A32b", "A32", "cache_reference on a result", [U("q"), A(use("t1")), U(result("t1", cache_reference="t1"))], tools=[TOOL], errors="A32", also="A04"),
    vector("A32c", "A32", "a marker with a scope", [U(text("x", cache_control={**FIVE, "scope": "global"}))], errors="A32"),
    vector("A32d", "A32", "a marker of another type", [U(text("x", cache_control={"type": "persistent"}))], errors="A32"),
    vector("A32e", "A32", "a duration of an hour", [U(text("x", cache_control=HOUR))]),
]  # fmt: skip
