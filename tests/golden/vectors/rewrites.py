"""What requests and operations do to the ones before: C01 to C10, L05, X01 to X09; and G07, R07."""

from __future__ import annotations

from vectors.short import (
    FIVE,
    MID,
    TOOL,
    A,
    U,
    found,
    image,
    pair,
    result,
    rewrite,
    server,
    text,
    use,
    vector,
)

TALK = [U("q"), A("a"), U("more")]
LOOP = [U("q"), A(use("t1")), U(result("t1", "long " * 40)), A("done"), U("next")]
CLEARED = [LOOP[0], LOOP[1], U(result("t1", "[cleared]")), *LOOP[3:]]
MARKED = U(text("q", cache_control=FIVE))
LATER = [A("b"), U("and more")]
ASK = U("Summarise.")


def stamped(moment):
    return [*LOOP[:2], U(result("t1", f"[cleared at {moment}]")), *LOOP[3:]]


def shown(*numbers):
    return [U("q", *[image(8 + n, 8) for n in numbers]), A("a"), U("more")]


def long_turn(blocks, *marked):
    parts = [
        text(f"b{n}", **({"cache_control": FIVE} if n in marked else {})) for n in range(blocks)
    ]
    return [MARKED, A(*parts), U(text("end", cache_control=FIVE))]


def system(words, **more):
    return {"system": words, "messages": TALK, **more}


def keyed(key):
    return {"messages": TALK, "prompt_cache_key": key}


ODD = {"type": "hologram", "data": "x"}
CHAT = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
CHAT_LOOP = [
    U("q"),
    {"role": "assistant", "content": None, "tool_calls": [CHAT]},
    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
]
SIGNED = {"text": "a", "thoughtSignature": "c2ln"}
QUESTION = {"role": "user", "parts": [{"text": "q"}]}


def gemini(name, about, *parts, errors=""):
    contents = [QUESTION, {"role": "model", "parts": list(parts)}, QUESTION]
    original = [QUESTION, {"role": "model", "parts": [SIGNED]}, QUESTION]
    return vector(
        name,
        "G07",
        about,
        contents,
        provider="gemini",
        model="gemini-3.1-pro",
        key="contents",
        original=original,
        errors=errors,
    )


SAID = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "phase": "final",
    "content": [{"type": "output_text", "text": "a"}],
}


def responses(name, about, item, *, warnings=""):
    made = [{"role": "user", "content": "q"}, item, {"role": "user", "content": "more"}]
    original = [{"role": "user", "content": "q"}, SAID]
    return vector(
        name,
        "R07",
        about,
        made,
        provider="openai_responses",
        model="gpt-5.2",
        key="input",
        original=original,
        warnings=warnings,
    )


def answer(name, about, provider, status, words, overflow):
    made = {"id": name, "rule": "X10", "about": about, "provider": provider, "model": ""}
    return {**made, "error": {"status": status, "text": words}, "overflow": overflow}


VECTORS = [
    answer("X10a", "a prompt too long", "anthropic", 400, "prompt is too long: 213462 tokens > 200000 maximum", True),
    answer("X10b", "a chat too long", "openai_chat", 400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 130123 tokens.", True),
    answer("X10c", "tokens per minute", "openai_chat", 429, "Rate limit reached: too many tokens per minute", False),
    answer("X10d", "a string that is too long", "openai_chat", 400, "string_above_max_length: expected a string with maximum length 10485760", False),
    answer("X10e", "Gemini's count", "gemini", 400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", True),
    answer("X10f", "a local server", "local", 400, "the request exceeds the available context size, try increasing it", True),
    gemini("G07a", "a signature moved to another part", {"text": "a"}, {"text": "b", "thoughtSignature": "c2ln"}, errors="G07"),
    gemini("G07b", "a signed part merged with another", {"text": "a and more", "thoughtSignature": "c2ln"}, errors="G07"),
    gemini("G07c", "a signed part as it came", SIGNED),
    gemini("G07d", "a signed part split", {"text": ""}, {"text": "", "thoughtSignature": "c2ln"}, errors="G07"),
    responses("R07a", "the phase is gone", {k: v for k, v in SAID.items() if k != "phase"}, warnings="R07"),
    responses("R07b", "the text is another", {**SAID, "content": [{"type": "output_text", "text": "b"}]}, warnings="R07"),
    responses("R07c", "an unknown field added", {**SAID, "mood": "good"}, warnings="R07"),
    responses("R07d", "as it came", SAID),
    pair("C01a", "C01", "nothing done, other key order", TALK, [{"content": [{"text": "q", "type": "text"}], "role": "user"}, *TALK[1:]], acted=False, warnings="C01"),
    pair("C01b", "C01", "nothing done, a text changed", TALK, [U("Q"), *TALK[1:]], acted=False, announced=True, warnings="C01"),
    pair("C01c", "C01", "nothing done, a message gone", TALK, TALK[:2], acted=False, announced=True, warnings="C01"),
    pair("C01d", "C01", "nothing done, extended", TALK, [*TALK, *LATER], acted=False),
    pair("C02a", "C02", "an old result cleared without a word", LOOP, CLEARED, warnings="C02"),
    pair("C02b", "C02", "the head dropped", LOOP, LOOP[3:], warnings="C02"),
    pair("C02c", "C02", "a message put in front", TALK, [U("hello"), *TALK], warnings="C02"),
    pair("C02d", "C02", "chat: arguments of an old call changed", {"messages": CHAT_LOOP}, {"messages": [CHAT_LOOP[0], {**CHAT_LOOP[1], "tool_calls": [{**CHAT, "id": "c2"}]}, CHAT_LOOP[2]]}, warnings="C02"),
    pair("C02e", "C02", "announced", LOOP, CLEARED, announced=True),
    pair("C02f", "C02", "extended", TALK, [*TALK, *LATER]),
    pair("C03a", "C03", "a rewrite that frees too little", LOOP, CLEARED, announced=True, clear_at_least=500, warnings="C03"),
    pair("C03b", "C03", "a rewrite that grows", LOOP, [U("a longer beginning " * 40), *LOOP[1:]], announced=True, clear_at_least=1, warnings="C03"),
    pair("C03c", "C03", "one that frees enough", LOOP, CLEARED, announced=True, clear_at_least=30),
    pair("C03d", "C03", "no rewrite frees nothing", TALK, [*TALK, *LATER], clear_at_least=500),
    pair("C03e", "C03", "one token short", LOOP, CLEARED, announced=True, clear_at_least=10_000, warnings="C03"),
    pair("C04a", "C04", "the system prompt changed", system("s"), system("t"), warnings="C04"),
    pair("C04b", "C04", "a tool added", system("s", tools=[TOOL]), system("s", tools=[TOOL, {**TOOL, "name": "Bash"}]), warnings="C04"),
    pair("C04c", "C04", "tools in another order", system("s", tools=[TOOL, {**TOOL, "name": "Bash"}]), system("s", tools=[{**TOOL, "name": "Bash"}, TOOL]), warnings="C04"),
    pair("C04d", "C04", "both the same", system("s", tools=[TOOL]), system("s", tools=[TOOL])),
    pair("C05a", "C05", "a time in a placeholder", LOOP, stamped("2026-11-21T07:00"), announced=True, warnings="C05"),
    pair("C05b", "C05", "a random id in a placeholder", LOOP, stamped("0b57d9a1-5f6f-4b8e-9d93-3a1d5a4e8f10"), announced=True, warnings="C05"),
    pair("C05c", "C05", "a time by day and hour", LOOP, stamped("2026-11-21 07:00"), announced=True, warnings="C05"),
    pair("C05d", "C05", "a constant", LOOP, CLEARED, announced=True),
    pair("C06a", "C06", "25 blocks without a marker", [MARKED], long_turn(25), warnings="C06"),
    pair("C06b", "C06", "20 blocks are too many", [MARKED], long_turn(19), warnings="C06"),
    pair("C06c", "C06", "a marker on the way, too late", [MARKED], long_turn(30, 24), warnings="C06"),
    pair("C06d", "C06", "a marker on the way", [MARKED], long_turn(25, 15)),
    pair("C06e", "C06", "a short turn", [MARKED], long_turn(5)),
    pair("C07a", "C07", "the instruction appended", TALK, [*TALK, ASK], summary_call=True),
    pair("C07b", "C07", "media taken out first", shown(1), [*shown(), ASK], summary_call=True, announced=True, warnings="C07"),
    pair("C07c", "C07", "another system prompt", system("s"), {**system("t"), "messages": [*TALK, ASK]}, summary_call=True, warnings="C07 C04"),
    pair("C07d", "C07", "two messages more", TALK, [*TALK, *LATER], summary_call=True, warnings="C07"),
    pair("C07e", "C07", "another model", system("s", model="a"), {**system("s", model="b"), "messages": [*TALK, ASK]}, summary_call=True, warnings="C07"),
    pair("C08a", "C08", "the last of three images gone", shown(1, 2, 3), shown(1, 2), warnings="C08 C02"),
    pair("C08b", "C08", "one in the middle gone", shown(1, 2, 3), shown(1, 3), warnings="C08 C02"),
    pair("C08c", "C08", "one of two in results gone", [*LOOP[:2], U(result("t1", [image(9, 9), image(10, 10)]))], [*LOOP[:2], U(result("t1", [image(9, 9)]))], warnings="C08 C02"),
    pair("C08d", "C08", "all at once", shown(1, 2), shown(), warnings="C02"),
    pair("C09a", "C09", "a window that slides", LOOP, LOOP[3:], announced=True, after_rewrite=True, warnings="C09"),
    pair("C09b", "C09", "cleared again", LOOP, CLEARED, announced=True, after_rewrite=True, warnings="C09"),
    pair("C09c", "C09", "extended after a rewrite", TALK, [*TALK, *LATER], after_rewrite=True),
    pair("C09d", "C09", "the first rewrite", LOOP, CLEARED, announced=True),
    pair("C09e", "C09", "a summary on a summary", [U("summary one"), *TALK[1:]], [U("summary two"), *TALK[1:]], announced=True, after_rewrite=True, warnings="C09"),
    pair("C10a", "C10", "another key", keyed("a"), keyed("b"), warnings="C10"),
    pair("C10b", "C10", "the key is gone", keyed("a"), {"messages": TALK}, warnings="C10"),
    pair("C10c", "C10", "a key from now on", {"messages": TALK}, keyed("a"), warnings="C10"),
    pair("C10d", "C10", "the same key", keyed("a"), keyed("a")),
    pair("L05a", "L05", "a template that only appends", TALK, [*TALK, *LATER], render="plain"),
    pair("L05b", "L05", "a template with the number of messages", TALK, [*TALK, *LATER], render="counted", warnings="L05"),
    pair("L05c", "L05", "a template that strips old answers", TALK, [*TALK, *LATER], render="stripped", warnings="L05"),
    pair("L05d", "L05", "a rewritten message", TALK, [U("Q"), *TALK[1:]], render="plain", announced=True, warnings="L05"),
    rewrite("X01a", "X01", "a result without its call", LOOP, LOOP[2:], errors="X01 X09"),
    rewrite("X01b", "X01", "an answer last", TALK, TALK[:2], model=MID, errors="X01 X03"),
    rewrite("X01c", "X01", "blank text", TALK, [U(" "), *TALK[1:]], errors="X01"),
    rewrite("X01d", "X01", "whole rounds gone", LOOP, [U("[earlier messages are gone]"), *LOOP[3:]]),
    rewrite("X02a", "X02", "a placeholder longer than the result", [*LOOP[:2], U(result("t1")), *LOOP[3:]], stamped("the first of many long afternoons"), errors="X02"),
    rewrite("X02b", "X02", "a summary longer than its source", TALK, [U("In the beginning " * 20), *TALK[2:]], errors="X02"),
    rewrite("X02c", "X02", "a message doubled", TALK, [*TALK[:2], U("more"), U("more")], errors="X02"),
    rewrite("X02d", "X02", "shorter", LOOP, CLEARED),
    rewrite("X03a", "X03", "the newest words gone", TALK, [U("q"), A("a"), U("go on")], errors="X03"),
    rewrite("X03b", "X03", "the newest words cut", [*TALK[:2], U("do it, but not on Fridays")], [*TALK[:2], U("do it")], errors="X03"),
    rewrite("X03c", "X03", "said by the assistant only", [U("please"), A("x" * 99)], [U("s"), A("please")], errors="X03", model="claude-sonnet-4-5"),
    rewrite("X03d", "X03", "within a summary", TALK, [U("summary; the newest message: more")], errors="X02"),
    rewrite("X03e", "X03", "older words gone", TALK, [U("more")]),
    rewrite("X04a", "X04", "an unknown block changed", [U("q"), A(ODD, "a"), U("more")], [U("q"), A({**ODD, "data": "y"}, "a"), U("more")], errors="X04"),
    rewrite("X04b", "X04", "an unknown block without a key", [U("q"), A(ODD, "a"), U("more")], [U("q"), A({"type": "hologram"}, "a"), U("more")], errors="X04"),
    rewrite("X04c", "X04", "an unknown block invented", [U("q"), A("a" * 99), U("more")], [U("q"), A(ODD, "a"), U("more")], errors="X01 X04"),
    rewrite("X04d", "X04", "dropped with its message", [U("q"), A(ODD, "a"), U("more")], [U("more")]),
    rewrite("X05a", "X05", "drops one message each time", LOOP, "drop_first", errors="X05"),
    rewrite("X05b", "X05", "shortens each time", [U("long " * 40), *TALK[1:]], "halve_first", errors="X05"),
    rewrite("X05c", "X05", "counts in its placeholder", [U("first " * 40), *TALK[1:]], "counted_marker", errors="X05"),
    rewrite("X05d", "X05", "clears once", LOOP, "clear_results"),
    rewrite("X06a", "X06", "clears in place", LOOP, "clear_in_place", errors="X06"),
    rewrite("X06b", "X06", "appends to the list", TALK, "append_to_input", errors="X06"),
    rewrite("X06c", "X06", "pops from the list", TALK, "pop_from_input", errors="X06"),
    rewrite("X06d", "X06", "leaves it alone", TALK, "nothing"),
    rewrite("X07a", "X07", "a call renamed with its result", LOOP, [LOOP[0], A(use("u1")), U(result("u1")), *LOOP[3:]], errors="X07"),
    rewrite("X07b", "X07", "chat: a call renamed", CHAT_LOOP, [CHAT_LOOP[0], {**CHAT_LOOP[1], "tool_calls": [{**CHAT, "id": "c2"}]}, {**CHAT_LOOP[2], "tool_call_id": "c2"}], provider="openai_chat", errors="X07"),
    rewrite("X07c", "X07", "a server call renamed", [U("q"), A(server("s1"), found("s1"), "a"), U("x")], [U("q"), A(server("s2"), found("s2"), "a"), U("x")], errors="X07"),
    rewrite("X07d", "X07", "Mistral's own ids", CHAT_LOOP, [CHAT_LOOP[0], {**CHAT_LOOP[1], "tool_calls": [{**CHAT, "id": "abcdefgh1"}]}, {**CHAT_LOOP[2], "tool_call_id": "abcdefgh1"}], provider="mistral"),
    rewrite("X08a", "X08", "one fault becomes two", [U("q"), A(use("t1")), U("x")], [U("q"), A(use("t1")), U("x"), A(use("t1")), U("x")], errors="X08 X02"),
    rewrite("X08b", "X08", "another rule is broken", [U(" "), A(use("t1")), U(result("t1"))], [U(" "), U(result("t1"))], errors="X08"),
    rewrite("X08c", "X08", "an answer last, too", [U("q"), A(use("t1")), U("x")], [U("x"), A(use("t1"))], model=MID, errors="X08"),
    rewrite("X08d", "X08", "as wrong as before", [U("q"), A(use("t1")), U("x")], [U("q"), A(use("t1")), U("x")]),
    rewrite("X09a", "X09", "a cut before a result", LOOP, [U("summary"), *LOOP[2:]], errors="X09 X01"),
    rewrite("X09b", "X09", "the result alone is gone", LOOP, [*LOOP[:2], *LOOP[3:]], errors="X09 X01"),
    rewrite("X09c", "X09", "a server call without its result", [U("q"), A(server("s1")), A(found("s1"), "a"), U("x")], [U("q"), A(found("s1"), "a"), U("x")], errors="X09 X01"),
    rewrite("X09d", "X09", "chat: the call alone is gone", [*CHAT_LOOP, {"role": "assistant", "content": "a"}, U("x")], [U("q"), *CHAT_LOOP[2:], {"role": "assistant", "content": "a"}, U("x")], provider="openai_chat", errors="X09 X01"),
    rewrite("X09e", "X09", "a cut before a call", LOOP, [U("summary"), *LOOP[1:]], errors="X02"),
]  # fmt: skip
