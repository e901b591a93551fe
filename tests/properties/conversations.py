"""Hypothesis strategies: legal conversations of the internal view, and of Chat Completions."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

texts = st.text('abc äß中🙂\n"\\{}<>', min_size=1, max_size=12).filter(lambda text: text.strip())
names = st.sampled_from(["Read", "Bash", "mcp__x__y", "search_web"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
inputs = st.dictionaries(
    texts,
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=2), max_leaves=4),
    max_size=3,
)
images = st.sampled_from(
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ]
)
documents = st.just(
    {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="},
        "title": "report",
    }
)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


text_blocks = texts.map(text_block)
ID_STYLES = ("toolu_{}", "call_{}", "functions.Read:{}", "x" * 70 + "{}", "{}")


@st.composite
def conversations(
    draw: st.DrawFn,
    *,
    thinking: bool = False,
    media: bool = True,
    url_images: bool = True,
    styles: tuple[str, ...] = ID_STYLES,
) -> list[dict[str, Any]]:
    """A legal one: it starts with a user, all calls are answered, it ends with a user."""
    made = draw(st.integers(0, 10_000)) * 1000
    media_blocks = [
        images if url_images else images.filter(lambda b: b["source"]["type"] == "base64")
    ]
    block = st.one_of(text_blocks, *([*media_blocks, documents] if media else []))
    result = st.one_of(
        texts,
        st.just(""),
        st.lists(st.one_of(text_blocks, *(media_blocks if media else [])), max_size=3),
    )
    messages: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(
            {
                "role": "user",
                "content": draw(st.one_of(texts, st.lists(block, min_size=1, max_size=3))),
            }
        )
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                made += 1
                one = draw(st.sampled_from(styles)).format(made)
                calls.append(
                    {"type": "tool_use", "id": one, "name": draw(names), "input": draw(inputs)}
                )
            before = draw(st.lists(text_blocks, max_size=2))
            if thinking and draw(st.booleans()):
                before.insert(0, {"type": "thinking", "thinking": draw(texts), "signature": "c2ln"})
            messages.append({"role": "assistant", "content": before + calls})
            messages.extend(draw(answers(calls, result, text_blocks)))
        said = st.one_of(texts, st.lists(text_blocks, min_size=1, max_size=2))
        messages.append({"role": "assistant", "content": draw(said)})
    messages.append({"role": "user", "content": draw(texts)})
    return messages


@st.composite
def answers(
    draw: st.DrawFn, calls: list[dict[str, Any]], result: Any, said: Any
) -> list[dict[str, Any]]:
    """Results in one user message or two, in any order, with or without words after them."""
    blocks = []
    for call in draw(st.permutations(calls)):
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": draw(result)}
        blocks.append(block)
    cut = draw(st.integers(0, len(blocks)))
    halves = [half for half in (blocks[:cut], blocks[cut:]) if half]
    if draw(st.booleans()):
        halves[-1] = [*halves[-1], draw(said)]
    return [{"role": "user", "content": half} for half in halves]


systems = st.none() | texts | st.lists(text_blocks, min_size=1, max_size=2)
tools = st.none() | st.lists(
    names.map(
        lambda name: {"name": name, "description": "does", "input_schema": {"type": "object"}}
    ),
    max_size=2,
)


def without(messages: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """The conversation without blocks of these types; messages that become empty go too."""
    kept = []
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            content = [block for block in content if block["type"] not in kinds]
        if content:
            kept.append({**message, "content": content})
    return kept


# ---- Chat Completions as servers and agents write it ---------------------------------------------

arguments = st.one_of(
    inputs.map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))),
    inputs.map(json.dumps),
    inputs.map(lambda value: json.dumps(value, indent=2)),
    st.sampled_from(["", "{", "[1]", "NaN", '{"a":1,"a":2}', '{"a":1.0e2}', "null", '"text"']),
)
chat_parts = st.one_of(
    text_blocks,
    st.just({"type": "text", "text": "kept", "annotations": []}),
    st.just(
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}}
    ),
    st.just({"type": "image_url", "image_url": {"url": "https://example.org/b.png"}}),
    st.just({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
    st.just(
        {
            "type": "file",
            "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a"},
        }
    ),
    st.just({"type": "file", "file": {"file_id": "file-1"}}),
)
extras = st.sampled_from([{}, {}, {"name": "bob"}])


@st.composite
def chats(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Chat messages in OpenAI's own notation, with what real ones carry besides."""
    made = 0
    chat: list[dict[str, Any]] = []
    if draw(st.booleans()):
        content = draw(texts | st.lists(text_blocks, min_size=1, max_size=2))
        chat.append(
            {
                "role": draw(st.sampled_from(["system", "developer"])),
                "content": content,
                **draw(extras),
            }
        )
    for _ in range(draw(st.integers(1, 3))):
        content = draw(texts | st.lists(chat_parts, min_size=1, max_size=3))
        chat.append({"role": "user", "content": content, **draw(extras)})
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                made += 1
                calls.append(draw(chat_calls(f"call_{made}")))
            message = {"role": "assistant", "content": draw(st.none() | texts), "tool_calls": calls}
            if draw(st.booleans()):
                message[draw(st.sampled_from(["reasoning_content", "reasoning"]))] = draw(
                    texts | st.just("")
                )
            chat.append(message)
            for call in draw(st.permutations(calls)):
                content = draw(texts | st.just("") | st.lists(text_blocks, min_size=1, max_size=2))
                chat.append(
                    {"role": "tool", "tool_call_id": call["id"], "content": content, **draw(extras)}
                )
            if draw(st.booleans()):
                chat.append(
                    {
                        "role": draw(st.sampled_from(["system", "developer", "user"])),
                        "content": draw(texts),
                    }
                )
        said = draw(texts | st.lists(text_blocks, min_size=2, max_size=3))
        chat.append(
            {"role": "assistant", "content": said, **draw(st.sampled_from([{}, {"refusal": "no"}]))}
        )
    return chat


@st.composite
def chat_calls(draw: st.DrawFn, one: str) -> dict[str, Any]:
    if draw(st.integers(0, 5)) == 0:
        return {
            "id": one,
            "type": "custom",
            "custom": {"name": "apply_patch", "input": draw(texts)},
        }
    call = {
        "id": one,
        "type": "function",
        "function": {"name": draw(names), "arguments": draw(arguments)},
    }
    return {
        **call,
        **draw(st.sampled_from([{}, {"extra_content": {"google": {"thought_signature": "s"}}}])),
    }


# ---- items of the Responses API ------------------------------------------------------------------

said_parts = st.one_of(
    texts.map(lambda text: {"type": "output_text", "text": text}),
    texts.map(lambda text: {"type": "output_text", "text": text, "annotations": []}),
    st.just({"type": "refusal", "refusal": "no"}),
)
given_parts = st.one_of(
    texts.map(lambda text: {"type": "input_text", "text": text}),
    st.just({"type": "input_image", "image_url": "https://example.org/c.png", "detail": "auto"}),
    st.just(
        {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a"}
    ),
    st.just({"type": "input_file", "file_id": "file-1"}),
)


@st.composite
def response_items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """An input as the API and Codex write it: reasoning units, opaque items, parallel calls."""
    items: list[dict[str, Any]] = []
    count = 0

    def named(prefix: str) -> dict[str, Any]:
        nonlocal count
        count += 1
        return {"id": f"{prefix}_{count}"} if draw(st.booleans()) else {}

    for _ in range(draw(st.integers(1, 3))):
        role = draw(st.sampled_from(["user", "user", "developer", "system"]))
        if draw(st.booleans()):
            items.append({"role": role, "content": draw(texts)})
        else:
            parts = draw(st.lists(given_parts, min_size=1, max_size=3))
            items.append({"type": "message", "role": role, "content": parts, **named("msg")})
        for _ in range(draw(st.integers(0, 2))):
            if draw(st.booleans()):
                summary = [{"type": "summary_text", "text": draw(texts)}] * draw(st.integers(0, 2))
                items.append(
                    {
                        "type": "reasoning",
                        "summary": summary,
                        "encrypted_content": "e",
                        **named("rs"),
                    }
                )
            if draw(st.booleans()):
                parts = draw(st.lists(said_parts, min_size=1, max_size=2))
                message = {"type": "message", "role": "assistant", "content": parts, **named("msg")}
                items.append({**message, **draw(st.sampled_from([{}, {"phase": "commentary"}]))})
            if draw(st.booleans()):
                items.append({"type": "web_search_call", "status": "completed", **named("ws")})
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                count += 1
                calls.append(draw(item_calls(f"call_{count}")))
            items += calls
            for call in draw(st.permutations(calls)):
                output = draw(texts | st.lists(given_parts, min_size=1, max_size=2))
                kind = call["type"] + "_output"
                items.append(
                    {"type": kind, "call_id": call["call_id"], "output": output, **named("out")}
                )
        if draw(st.booleans()):
            items.append({"type": "compaction", "encrypted_content": "zz", **named("cmp")})
        items.append({"role": "assistant", "content": draw(texts)})
    return items


@st.composite
def item_calls(draw: st.DrawFn, one: str) -> dict[str, Any]:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return {
            "type": "custom_tool_call",
            "call_id": one,
            "name": "apply_patch",
            "input": draw(texts),
        }
    if kind == 1:
        return {
            "type": "local_shell_call",
            "call_id": one,
            "action": {"command": ["ls"]},
            "id": f"sh_{one}",
        }
    call = {
        "type": "function_call",
        "call_id": one,
        "name": draw(names),
        "arguments": draw(arguments),
    }
    return {**call, **draw(st.sampled_from([{}, {"id": f"fc_{one}", "status": "completed"}]))}


# ---- Gemini contents -----------------------------------------------------------------------------

gemini_texts = st.one_of(
    texts.map(lambda text: {"text": text}),
    texts.map(lambda text: {"text": text, "thoughtSignature": "c2ln"}),
    texts.map(lambda text: {"text": text, "thought": True}),
    st.just({"text": "", "thoughtSignature": "c2ln"}),
    st.just({"executableCode": {"language": "PYTHON", "code": "1"}}),
)
gemini_given = st.one_of(
    texts.map(lambda text: {"text": text}),
    st.just({"inlineData": {"mimeType": "image/png", "data": PNG}}),
    st.just({"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}),
    st.just({"fileData": {"mimeType": "image/png", "fileUri": "gs://b/c"}}),
    st.just({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/c.mp4"}}),
)
gemini_responses = st.one_of(
    texts.map(lambda text: {"output": text}),
    texts.map(lambda text: {"error": text}),
    inputs,
    st.lists(texts, max_size=2).map(lambda said: {"output": said}),
)


@st.composite
def gemini_contents(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Contents as the API and its CLI write them: with ids or without, signed or not."""
    contents: list[dict[str, Any]] = []
    named = draw(st.booleans())
    made = 0
    for _ in range(draw(st.integers(1, 3))):
        contents.append(
            {"role": "user", "parts": draw(st.lists(gemini_given, min_size=1, max_size=3))}
        )
        for _ in range(draw(st.integers(0, 2))):
            parts = draw(st.lists(gemini_texts, max_size=2))
            calls = []
            for at in range(draw(st.integers(1, 3))):
                made += 1
                call = {
                    "name": draw(names),
                    "args": draw(inputs),
                    **({"id": f"fc_{made}"} if named else {}),
                }
                calls.append(call)
                parts.append({"functionCall": call, **({} if at else {"thoughtSignature": "c2ln"})})
            contents.append({"role": "model", "parts": parts})
            answers = []
            for call in calls:
                told = {"name": call["name"], "response": draw(gemini_responses)}
                answers.append(
                    {"functionResponse": {**told, **({"id": call["id"]} if named else {})}}
                )
            contents.append({"role": "user", "parts": answers})
        contents.append(
            {"role": "model", "parts": draw(st.lists(gemini_texts, min_size=1, max_size=2))}
        )
    return contents


# ---- Bedrock Converse ----------------------------------------------------------------------------

converse_said = st.one_of(
    texts.map(lambda text: {"text": text}),
    texts.map(
        lambda text: {"reasoningContent": {"reasoningText": {"text": text, "signature": "c2ln"}}}
    ),
    st.just({"reasoningContent": {"redactedContent": "enp6"}}),
)
converse_given = st.one_of(
    texts.map(lambda text: {"text": text}),
    st.just({"image": {"format": "png", "source": {"bytes": PNG}}}),
    st.just({"document": {"format": "pdf", "name": "report", "source": {"bytes": "JVBERi0="}}}),
    st.just({"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/k"}}}}),
    st.just({"guardContent": {"text": {"text": "x"}}}),
)
converse_inner = st.one_of(
    texts.map(lambda text: {"text": text}),
    inputs.map(lambda value: {"json": value}),
    st.just({"image": {"format": "png", "source": {"bytes": PNG}}}),
)
POINT = {"cachePoint": {"type": "default"}}


@st.composite
def converse(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages as Converse takes and gives them."""
    messages: list[dict[str, Any]] = []
    made = 0
    given: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        given += draw(st.lists(converse_given, min_size=1, max_size=3))
        given += [POINT] if draw(st.booleans()) and "guardContent" not in given[-1] else []
        messages.append({"role": "user", "content": given})
        for _ in range(draw(st.integers(0, 2))):
            content = draw(st.lists(converse_said, max_size=2))
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                made += 1
                calls.append(
                    {"toolUseId": f"tooluse_{made}", "name": draw(names), "input": draw(inputs)}
                )
            messages.append(
                {"role": "assistant", "content": content + [{"toolUse": call} for call in calls]}
            )
            results = []
            for call in draw(st.permutations(calls)):
                told = {
                    "toolUseId": call["toolUseId"],
                    "content": draw(st.lists(converse_inner, min_size=1, max_size=2)),
                }
                results.append(
                    {
                        "toolResult": {
                            **told,
                            **draw(
                                st.sampled_from([{}, {"status": "success"}, {"status": "error"}])
                            ),
                        }
                    }
                )
            messages.append({"role": "user", "content": results})
        messages.append(
            {"role": "assistant", "content": draw(st.lists(converse_said, min_size=1, max_size=2))}
        )
        given = []
    messages.append({"role": "user", "content": [{"text": "go"}]})
    return [message for message in messages if message["content"]]
