"""Gemini, Bedrock, Mistral, DeepSeek and local servers, rule by rule."""

from __future__ import annotations

from vectors.openai_rules import calls, said, tool, user
from vectors.short import image, vector

SIGNED = {"thoughtSignature": "c2ln"}
SYSTEM = {"role": "system", "content": "s"}


def gemini(name, rule, about, contents, **options):
    return vector(
        name,
        rule,
        about,
        contents,
        provider="gemini",
        model="gemini-3-pro",
        key="contents",
        **options,
    )


def turn(role, *parts):
    return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def fc(name, **extra):
    return {"functionCall": {"name": name, "args": {}}, **extra}


def fr(name):
    return {"functionResponse": {"name": name, "response": {"ok": True}}}


def bedrock(name, rule, about, messages, **options):
    model = "anthropic.claude-opus-4-6"
    return vector(name, rule, about, messages, provider="bedrock", model=model, **options)


def talk(role, *blocks):
    return {"role": role, "content": [{"text": b} if isinstance(b, str) else b for b in blocks]}


def tu(name):
    return {"toolUse": {"toolUseId": name, "name": "f", "input": {}}}


def tr(name, **extra):
    return {
        "toolResult": {"toolUseId": name, "content": [{"text": "ok"}], "status": "success", **extra}
    }


def mistral(name, rule, about, messages, **options):
    model = "mistral-large-latest"
    return vector(name, rule, about, messages, provider="mistral", model=model, **options)


def deepseek(name, rule, about, messages, **options):
    return vector(
        name, rule, about, messages, provider="deepseek", model="deepseek-v3.2", **options
    )


def local(name, rule, about, messages, **options):
    return vector(name, rule, about, messages, provider="local", model="qwen3", **options)


CONFIG = {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]}
LOOP = (turn("user", "q"), turn("model", fc("f", **SIGNED)), turn("user", fr("f")))
THINKING = {"type": "enabled"}
NINE = "abcdefgh1"
WIDE = {"image": {"format": "png", "source": {"bytes": image(2001, 8)["source"]["data"]}}}
PDF = {"document": {"format": "pdf", "name": "d", "source": {"bytes": "JVBERg=="}}}
PNG = {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}

VECTORS = [
    gemini("G01a", "G01", "the model first", [turn("model", "x"), turn("user", "q")], errors="G01"),
    gemini("G01b", "G01", "two user turns", [turn("user", "a"), turn("user", "b")], errors="G01"),
    gemini("G01c", "G01", "alternating", [turn("user", "a"), turn("model", "b"), turn("user", "c")]),
    gemini("G02a", "G02", "a call after the model's words", [turn("user", "q"), turn("model", "x"), turn("model", fc("f", **SIGNED)), turn("user", fr("f"))], errors="G01 G02"),
    gemini("G02b", "G02", "a call after a response", [*LOOP, turn("model", fc("g", **SIGNED)), turn("user", fr("g"))]),
    gemini("G02c", "G02", "the history begins with a call", [LOOP[1], LOOP[2]], errors="G01 G02"),
    gemini("G03a", "G03", "no response", [*LOOP[:2], turn("user", "x")], errors="G03"),
    gemini("G03b", "G03", "a response too many", [*LOOP[:2], turn("user", fr("f"), fr("g"))], errors="G03"),
    gemini("G03c", "G03", "two and two", [turn("user", "q"), turn("model", fc("f", **SIGNED), fc("g")), turn("user", fr("f"), fr("g"))]),
    gemini("G03d", "G03", "a response without a call", [turn("user", "q"), turn("model", "x"), turn("user", fr("f"))], errors="G03"),
    gemini("G04a", "G04", "no signature in the current turn", [turn("user", "q"), turn("model", fc("f")), turn("user", fr("f"))], errors="G04"),
    gemini("G04b", "G04", "no signature in an earlier turn", [turn("user", "q"), turn("model", fc("f")), turn("user", fr("f")), turn("model", "x"), turn("user", "go")]),
    gemini("G04c", "G04", "the dummy signature", [turn("user", "q"), turn("model", fc("f", thoughtSignature="skip_thought_signature_validator")), turn("user", fr("f"))]),
    gemini("G04d", "G04", "the second step without one", [*LOOP, turn("model", fc("g")), turn("user", fr("g"))], errors="G04"),
    gemini("G05a", "G05", "no parts", [turn("user")], errors="G05"),
    gemini("G05b", "G05", "a part without data", [turn("user", "q", {"thought": True})], errors="G05"),
    gemini("G05c", "G05", "inline data", [turn("user", "q", {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}})]),
    gemini("G06a", "G06", "a call last", [*LOOP[:2]], errors="G06"),
    gemini("G06b", "G06", "a second call last", [*LOOP, turn("model", fc("g", **SIGNED))], errors="G06"),
    gemini("G06c", "G06", "its response last", [*LOOP]),
    bedrock("B01a", "B01", "an assistant first", [talk("assistant", "x"), talk("user", "q")], errors="B01"),
    bedrock("B01b", "B01", "two user messages", [talk("user", "a"), talk("user", "b")], errors="B01"),
    bedrock("B01c", "B01", "an assistant last", [talk("user", "a"), talk("assistant", "b")], errors="B01"),
    bedrock("B01d", "B01", "alternating", [talk("user", "a"), talk("assistant", "b"), talk("user", "c")]),
    bedrock("B02a", "B02", "blank text", [talk("user", " ")], errors="B02"),
    bedrock("B02b", "B02", "an error without content", [talk("user", "q"), talk("assistant", tu("t1")), talk("user", tr("t1", status="error", content=[]))], toolConfig=CONFIG, errors="B02"),
    bedrock("B02c", "B02", "a success without content", [talk("user", "q"), talk("assistant", tu("t1")), talk("user", tr("t1", content=[]))], toolConfig=CONFIG),
    bedrock("B02d", "B02", "blank text inside a result", [talk("user", "q"), talk("assistant", tu("t1")), talk("user", tr("t1", content=[{"text": " "}]))], toolConfig=CONFIG, errors="B02"),
    bedrock("B03a", "B03", "with toolConfig", [talk("user", "q"), talk("assistant", tu("t1")), talk("user", tr("t1"))], toolConfig=CONFIG),
    bedrock("B03b", "B03", "toolConfig without tools", [talk("user", "q"), talk("assistant", tu("t1")), talk("user", tr("t1"))], toolConfig={"tools": []}, errors="B03"),
    bedrock("B03c", "B03", "no tool blocks, no config", [talk("user", "q")]),
    bedrock("B04a", "B04", "unanswered", [talk("user", "q"), talk("assistant", tu("t1")), talk("user", "x")], toolConfig=CONFIG, errors="B04"),
    bedrock("B04b", "B04", "a result of nobody", [talk("user", tr("t1")), talk("assistant", "x"), talk("user", "y")], toolConfig=CONFIG, errors="B04"),
    bedrock("B04c", "B04", "an id of 65 characters", [talk("user", "q"), talk("assistant", tu("t" * 65)), talk("user", tr("t" * 65))], toolConfig=CONFIG, errors="B04"),
    bedrock("B04d", "B04", "text before the result", [talk("user", "q"), talk("assistant", tu("t1")), talk("user", "x", tr("t1"))], toolConfig=CONFIG, errors="B04"),
    bedrock("B04e", "B04", "two and two", [talk("user", "q"), talk("assistant", tu("t1"), tu("t2")), talk("user", tr("t2"), tr("t1"), "x")], toolConfig=CONFIG),
    bedrock("B05a", "B05", "reasoning without a signature", [talk("user", "q"), talk("assistant", {"reasoningContent": {"reasoningText": {"text": "x"}}}, "y"), talk("user", "z")], errors="B05"),
    bedrock("B05b", "B05", "signed reasoning", [talk("user", "q"), talk("assistant", {"reasoningContent": {"reasoningText": {"text": "x", "signature": "c2ln"}}}, "y"), talk("user", "z")]),
    bedrock("B05c", "B05", "redacted reasoning", [talk("user", "q"), talk("assistant", {"reasoningContent": {"redactedContent": "ZGF0YQ=="}}, "y"), talk("user", "z")]),
    bedrock("B06a", "B06", "five cache points", [talk("user", *["x", {"cachePoint": {"type": "default"}}] * 5)], errors="B06"),
    bedrock("B06b", "B06", "four cache points", [talk("user", *["x", {"cachePoint": {"type": "default"}}] * 4)]),
    bedrock("B06c", "B06", "spread over system and messages", [talk("user", *["x", {"cachePoint": {"type": "default"}}] * 4)], system=[{"text": "s"}, {"cachePoint": {"type": "default"}}], errors="B06"),
    bedrock("B07a", "B07", "21 images", [talk("user", "x", *[PNG] * 21)], errors="B07"),
    bedrock("B07b", "B07", "20 images", [talk("user", "x", *[PNG] * 20)]),
    bedrock("B07c", "B07", "six documents", [talk("user", "x", *[PDF] * 6)], errors="B07"),
    bedrock("B08a", "B08", "21 with documents, one image too wide", [talk("user", "x", *[PNG] * 18, WIDE), talk("assistant", "y"), talk("user", "z", PDF, PDF)], errors="B08"),
    bedrock("B08b", "B08", "20 with documents", [talk("user", "x", *[PNG] * 17, WIDE), talk("assistant", "y"), talk("user", "z", PDF, PDF)]),
    bedrock("B08c", "B08", "21, all small", [talk("user", "x", *[PNG] * 19), talk("assistant", "y"), talk("user", "z", PDF, PDF)]),
    mistral("M01a", "M01", "a call without a result", [user(), calls(NINE, "abcdefgh2"), tool(NINE)], errors="M01", also="O01"),
    mistral("M01b", "M01", "a result without a call", [user(), calls(NINE), tool(NINE), tool("abcdefgh2")], errors="M01", also="O02 O01"),
    mistral("M01c", "M01", "as many as calls", [user(), calls(NINE, "abcdefgh2"), tool(NINE), tool("abcdefgh2")]),
    mistral("M02a", "M02", "system after tool", [user(), calls(NINE), tool(NINE), SYSTEM, user()], errors="M02", also="M05"),
    mistral("M02b", "M02", "another call after tool", [user(), calls(NINE), tool(NINE), calls("abcdefgh2"), tool("abcdefgh2")]),
    mistral("M02c", "M02", "user after tool, later on", [user(), said(), user(), calls(NINE), tool(NINE), user()], errors="M02"),
    mistral("M03a", "M03", "Claude's ids", [user(), calls("toolu_01A"), tool("toolu_01A")], errors="M03"),
    mistral("M03b", "M03", "ten characters", [user(), calls("abcdefghij"), tool("abcdefghij")], errors="M03"),
    mistral("M03c", "M03", "nine letters and digits", [user(), calls("ABCdef123"), tool("ABCdef123")]),
    mistral("M04a", "M04", "an assistant last", [user(), said()], errors="M04"),
    mistral("M04b", "M04", "an assistant last, as prefix", [user(), said(prefix=True)]),
    mistral("M04c", "M04", "a tool last", [user(), calls(NINE), tool(NINE)]),
    mistral("M05a", "M05", "system in the middle", [user(), said(), SYSTEM, user()], errors="M05"),
    mistral("M05b", "M05", "system first", [SYSTEM, user()]),
    mistral("M05c", "M05", "two systems", [SYSTEM, SYSTEM, user()], errors="M05"),
    deepseek("D01a", "D01", "reasoning not passed back", [user(), calls("c1"), tool("c1")], thinking=THINKING, errors="D01"),
    deepseek("D01b", "D01", "an empty field counts", [user(), {**calls("c1"), "reasoning_content": ""}, tool("c1")], thinking=THINKING),
    deepseek("D01c", "D01", "not thinking", [user(), calls("c1"), tool("c1")]),
    deepseek("D01d", "D01", "no calls, no field", [user(), said(), user()], thinking=THINKING),
    deepseek("D02a", "D02", "neither content nor calls", [user(), said(None), user()], any_of="D02 O04", also="D02 O04"),
    deepseek("D02b", "D02", "content", [user(), said(), user()]),
    deepseek("D02c", "D02", "calls", [user(), calls("c1"), tool("c1")]),
    deepseek("D03a", "D03", "unanswered", [user(), calls("c1"), user()], any_of="D03 O01", also="D03 O01"),
    deepseek("D03b", "D03", "a stray tool message", [user(), tool("c1")], any_of="D03 O02", also="D03 O02"),
    deepseek("D03c", "D03", "answered", [user(), calls("c1"), tool("c1"), said(), user()]),
    local("L01a", "L01", "system in the middle", [user(), said(), SYSTEM, user()], errors="L01"),
    local("L01b", "L01", "system first", [SYSTEM, user()]),
    local("L01c", "L01", "two systems", [SYSTEM, SYSTEM, user()], errors="L01"),
    local("L02a", "L02", "two user messages", [user(), user()], errors="L02"),
    local("L02b", "L02", "two answers", [user(), said(), said(), user()], errors="L02"),
    local("L02c", "L02", "calls, results, words", [user(), calls("c1"), tool("c1"), said(), user()]),
    local("L03a", "L03", "an answer last", [user(), said()], errors="L03"),
    local("L03b", "L03", "a tool last", [user(), calls("c1"), tool("c1")]),
    local("L04a", "L04", "prompt and output over the window", [user("words and ")], window=1000, max_tokens=900, repeat=[[["messages", 0, "content"], 100]], errors="L04"),
    local("L04b", "L04", "the prompt over the window", [user("words and ")], window=1000, repeat=[[["messages", 0, "content"], 500]], errors="L04"),
    local("L04c", "L04", "within the window", [user("words and ")], window=1000, max_tokens=500, repeat=[[["messages", 0, "content"], 100]]),
    local("L03c", "L03", "a user last", [user(), said(), user()]),
]  # fmt: skip
