"""OpenAI's two forms, rule by rule."""

from __future__ import annotations

from vectors.short import vector


def user(text="q"):
    return {"role": "user", "content": text}


def said(text="ok", **extra):
    return {"role": "assistant", "content": text, **extra}


def calls(*ids, **function):
    made = {"name": "f", "arguments": "{}", **function}
    listed = [{"id": name, "type": "function", "function": made} for name in ids]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def tool(name, content="ok"):
    return {"role": "tool", "tool_call_id": name, "content": content}


def chat(name, rule, about, messages, **options):
    return vector(name, rule, about, messages, provider="openai_chat", model="gpt-5.2", **options)


def responses(name, rule, about, items, **options):
    return vector(
        name,
        rule,
        about,
        items,
        provider="openai_responses",
        model="gpt-5.2",
        key="input",
        **options,
    )


def call(name, **extra):
    return {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}", **extra}


def output(name):
    return {"type": "function_call_output", "call_id": name, "output": "ok"}


def reasoning(name, **extra):
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": "ZW5j", **extra}


def message(name="msg_1"):
    content = [{"type": "output_text", "text": "hm", "annotations": []}]
    return {"type": "message", "id": name, "role": "assistant", "content": content}


PART = {"type": "text", "text": "x"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://e.example/a.png"}}
THOUGHT = [user(), reasoning("rs_1"), call("c1", id="fc_1"), output("c1")]
ORIGINAL = {"input": THOUGHT}
COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "ZW5j"}

VECTORS = [
    chat("O01a", "O01", "unanswered at the end", [user(), calls("c1")], errors="O01"),
    chat("O01b", "O01", "a user message between", [user(), calls("c1"), user("x"), tool("c1")], errors="O01", also="O02"),
    chat("O01c", "O01", "answered twice", [user(), calls("c1"), tool("c1"), tool("c1")], errors="O01"),
    chat("O01d", "O01", "two, in any order", [user(), calls("c1", "c2"), tool("c2"), tool("c1")]),
    chat("O01e", "O01", "a developer message between", [user(), calls("c1"), {"role": "developer", "content": "x"}, tool("c1")], errors="O01", also="O02"),
    chat("O02a", "O02", "a tool message first", [tool("c1"), user()], errors="O02"),
    chat("O02b", "O02", "a tool message of nobody", [user(), calls("c1"), tool("c1"), tool("c9")], errors="O02"),
    chat("O02c", "O02", "a tool message after plain words", [user(), said(), tool("c1")], errors="O02"),
    chat("O02d", "O02", "each after its own call", [user(), calls("c1"), tool("c1"), calls("c2"), tool("c2"), said()]),
    chat("O03a", "O03", "an empty list of calls", [user(), said(tool_calls=[]), user()], errors="O03"),
    chat("O03b", "O03", "arguments as an object", [user(), calls("c1", arguments={}), tool("c1")], errors="O03"),
    chat("O03c", "O03", "arguments that are no JSON", [user(), calls("c1", arguments="{oops"), tool("c1")], warnings="O03"),
    chat("O03d", "O03", "a custom tool's free text", [user(), {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}]}, tool("c1")]),
    chat("O04a", "O04", "neither words nor calls", [user(), said(None), user()], errors="O04"),
    chat("O04b", "O04", "null with calls", [user(), calls("c1"), tool("c1")]),
    chat("O04c", "O04", "a refusal stands for content", [user(), said(None, refusal="no"), user()]),
    chat("O05a", "O05", "an id used again", [user(), calls("c1"), tool("c1"), calls("c1"), tool("c1")], errors="O05"),
    chat("O05b", "O05", "an id of 41 characters", [user(), calls("c" * 41), tool("c" * 41)], errors="O05"),
    chat("O05c", "O05", "an id of 40 characters", [user(), calls("c" * 40), tool("c" * 40)]),
    chat("O06a", "O06", "a role that does not exist", [user(), {"role": "model", "content": "x"}], errors="O06"),
    chat("O06b", "O06", "no messages", [], errors="O06"),
    chat("O06c", "O06", "a function message without its call", [user(), {"role": "function", "name": "f", "content": "x"}], errors="O06"),
    chat("O06d", "O06", "developer first", [{"role": "developer", "content": "s"}, user()]),
    chat("O07a", "O07", "an image in a tool message", [user(), calls("c1"), tool("c1", [PICTURE])], errors="O07"),
    chat("O07b", "O07", "text parts in a tool message", [user(), calls("c1"), tool("c1", [PART, PART])]),
    chat("O07c", "O07", "an object in a tool message", [user(), calls("c1"), tool("c1", {"a": 1})], errors="O07"),
    chat("O08a", "O08", "a string that is too long", [user("0123456789")], repeat=[[["messages", 0, "content"], 1_048_577]], errors="O08", also="O09"),
    chat("O08b", "O08", "too long in a part", [user([{"type": "text", "text": "0123456789"}])], repeat=[[["messages", 0, "content", 0, "text"], 1_048_577]], errors="O08", also="O09"),
    chat("O08c", "O08", "a long string", [user("0123456789")], repeat=[[["messages", 0, "content"], 50_000]]),
    chat("O09a", "O09", "longer than the window", [user("words and ")], window=1000, repeat=[[["messages", 0, "content"], 500]], errors="O09"),
    chat("O09b", "O09", "input and output over the window", [user("words and ")], window=1000, max_completion_tokens=900, repeat=[[["messages", 0, "content"], 100]], errors="O09"),
    chat("O09c", "O09", "within the window", [user("words and ")], window=1000, max_completion_tokens=500, repeat=[[["messages", 0, "content"], 100]]),
    chat("O10a", "O10", "null content for a strict server", [user(), calls("c1"), tool("c1")], strict=True, errors="O10"),
    chat("O10b", "O10", "two user messages for a strict server", [user(), user()], strict=True, errors="O10"),
    chat("O10c", "O10", "system in the middle for a strict server", [user(), said(), {"role": "system", "content": "s"}, user()], strict=True, errors="O10"),
    chat("O10d", "O10", "an empty string for a strict server", [user(), {**calls("c1"), "content": ""}, tool("c1")], strict=True),
    chat("O10e", "O10", "OpenAI itself takes them all", [user(), user(), calls("c1"), tool("c1"), {"role": "system", "content": "s"}, user()]),
    responses("R01a", "R01", "no output", [user(), call("c1")], errors="R01"),
    responses("R01b", "R01", "no call", [user(), output("c1")], errors="R01"),
    responses("R01c", "R01", "the output first", [user(), output("c1"), call("c1")], errors="R01"),
    responses("R01d", "R01", "parallel", [user(), call("c1"), call("c2"), output("c1"), output("c2")]),
    responses("R01e", "R01", "the output of another kind", [user(), {"type": "custom_tool_call", "call_id": "c1", "name": "p", "input": "x"}, output("c1")], errors="R01"),
    responses("R02a", "R02", "reasoning last", [user(), reasoning("rs_1")], errors="R02"),
    responses("R02b", "R02", "reasoning before the user's words", [user(), reasoning("rs_1"), user("x")], errors="R02"),
    responses("R02c", "R02", "a call without its reasoning", [THOUGHT[0], *THOUGHT[2:]], original=ORIGINAL, errors="R02"),
    responses("R02d", "R02", "as the model gave it", THOUGHT, original=ORIGINAL),
    responses("R02e", "R02", "both dropped", [user(), user("x")], original=ORIGINAL),
    responses("R02f", "R02", "the reasoning dropped with the call's id", [user(), call("c1"), output("c1")], original=ORIGINAL),
    responses("R03a", "R03", "not stored, not encrypted", [user(), {"type": "reasoning", "id": "rs_1", "summary": []}, message(), user("x")], store=False, errors="R03"),
    responses("R03b", "R03", "not stored, encrypted", [user(), reasoning("rs_1"), message(), user("x")], store=False),
    responses("R03c", "R03", "stored, not encrypted", [user(), {"type": "reasoning", "id": "rs_1", "summary": []}, message(), user("x")], store=True),
    responses("R04a", "R04", "a compaction item first", [COMPACTED, user()]),
    responses("R04b", "R04", "a compaction item without its content", [{"type": "compaction", "id": "cmp_1"}, user()], errors="R04"),
    responses("R04c", "R04", "user messages before it", [user("old"), COMPACTED, user()]),
    responses("R05a", "R05", "chained and a conversation", [user()], previous_response_id="resp_1", conversation="conv_1", errors="R05"),
    responses("R05b", "R05", "chained: the call lies on the server", [output("c1")], previous_response_id="resp_1"),
    responses("R05c", "R05", "not chained: the call is missing", [output("c1")], errors="R01"),
    responses("R06a", "R06", "an item twice", [user(), message(), user("x"), message()], errors="R06"),
    responses("R06b", "R06", "items without ids twice", [user(), user()]),
    responses("R06c", "R06", "items with ids of their own", [user(), message("msg_1"), user("x"), message("msg_2"), user()]),
]  # fmt: skip
