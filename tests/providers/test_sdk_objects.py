"""What the providers' SDKs return is taken in as it comes: objects, their parts, and their dumps in each spelling."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.oracle.checker import check
from ullage import ContextManager
from ullage.providers.incoming import given_as_json
from ullage.providers.registry import provider_of

GIVEN = {"path": "a.txt", "until": None, "thought_signature": "a word of the user's"}
SIGNATURE = b"\xfb\xff\xfe signed"


def anthropic_answer() -> Any:
    types = pytest.importorskip("anthropic").types
    return types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-5",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "Reading.", "citations": None},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": GIVEN},
            ],
            "usage": {"input_tokens": 900, "output_tokens": 20},
        }
    )


def chat_answer() -> Any:
    types = pytest.importorskip("openai.types.chat")
    return types.ChatCompletion.model_validate(CHAT)


CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5.4",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "audio": None,
                "function_call": None,
                "tool_calls": [
                    {
                        "id": "call_1abcd",
                        "type": "function",
                        "function": {"name": "read", "arguments": json.dumps(GIVEN)},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
}


def parsed_chat_answer() -> Any:
    """What `client.chat.completions.parse` returns."""
    types = pytest.importorskip("openai.types.chat")
    found = json.loads(json.dumps(CHAT))
    call = found["choices"][0]["message"]["tool_calls"][0]
    call["function"]["parsed_arguments"] = GIVEN
    found["choices"][0]["message"]["parsed"] = None
    return types.ParsedChatCompletion.model_validate(found)


def responses_answer() -> Any:
    types = pytest.importorskip("openai.types.responses")
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read"}
    return types.Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-5.4",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "hm"}],
                    "encrypted_content": "c2VhbGVk",
                },
                {**call, "arguments": json.dumps(GIVEN), "status": "completed"},
            ],
            "usage": {
                "input_tokens": 900,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 920,
            },
        }
    )


def gemini_answer() -> Any:
    types = pytest.importorskip("google.genai").types
    call = types.FunctionCall(name="read", args=GIVEN)
    parts = [
        types.Part(text="hm", thought=True),
        types.Part(function_call=call, thought_signature=SIGNATURE),
    ]
    return types.GenerateContentResponse(
        candidates=[
            types.Candidate(content=types.Content(role="model", parts=parts), finish_reason="STOP")
        ],
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=900, candidates_token_count=15, thoughts_token_count=5
        ),
        response_id="r1",
    )


def litellm_answer() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own types, when they are built
        types = pytest.importorskip("litellm.types.utils")
        return types.ModelResponse(**json.loads(json.dumps(CHAT)))


def mistral_answer() -> Any:
    models = pytest.importorskip("mistralai.client.models")
    return models.ChatCompletionResponse.model_validate(
        {
            "id": "c1",
            "object": "chat.completion",
            "model": "mistral-large-latest",
            "created": 1,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {
                                "id": "abcdef123",
                                "function": {"name": "read", "arguments": json.dumps(GIVEN)},
                            }
                        ],
                    },
                }
            ],
            "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
        }
    )


Answer = Callable[[], Any]
ANSWERS: dict[str, tuple[str, str, Answer]] = {
    "anthropic": ("anthropic", "claude-opus-4-5", anthropic_answer),
    "openai_chat": ("openai_chat", "gpt-5.4", chat_answer),
    "openai_chat, parsed": ("openai_chat", "gpt-5.4", parsed_chat_answer),
    "openai_responses": ("openai_responses", "gpt-5.4", responses_answer),
    "google-genai": ("gemini", "gemini-3-pro", gemini_answer),
    "litellm": ("openai_chat", "anthropic/claude-opus-4-5", litellm_answer),
    "mistral": ("mistral", "mistral-large-latest", mistral_answer),
}
SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "object": lambda answer: answer,
    "model_dump()": lambda answer: answer.model_dump(),
    "without None": lambda answer: answer.model_dump(exclude_none=True),
    "by alias": lambda answer: answer.model_dump(by_alias=True),
    "by alias, without None": lambda answer: answer.model_dump(by_alias=True, exclude_none=True),
    "as JSON": lambda answer: answer.model_dump(mode="json"),
    "of JSON text": lambda answer: json.loads(answer.model_dump_json(by_alias=True)),
}


def asked(provider: str | None, model: str) -> ContextManager:
    """A manager that has sent one question."""
    manager = ContextManager(model=model, provider=provider)
    question: Any = {"role": "user", "content": "Read a.txt."}
    if provider == "gemini":
        question = pytest.importorskip("google.genai").types.Content(
            role="user", parts=[{"text": "Read a.txt."}]
        )
    manager.add(question)
    manager.prepare()
    return manager


def result_for(body: dict[str, Any], provider: str) -> Any:
    """A result of the one call in a request, in the provider's form."""
    if provider == "gemini":
        answer = {"name": "read", "response": {"result": "row 1"}}
        return {"role": "user", "parts": [{"functionResponse": answer}]}
    if provider == "openai_responses":
        return {"type": "function_call_output", "call_id": "call_1", "output": "row 1"}
    if provider == "anthropic":
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "row 1"}
        return {"role": "user", "content": [block]}
    name = "abcdef123" if provider == "mistral" else "call_1abcd"
    return {"role": "tool", "tool_call_id": name, "content": "row 1"}


def arguments_in(value: Any) -> Iterator[Any]:
    """What every call in a request is called with."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("input", "args") and isinstance(each, dict) and "name" in value:
                yield each
            elif key == "arguments":
                yield json.loads(each)
            else:
                yield from arguments_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from arguments_in(each)


def assert_both_halves(manager: ContextManager, provider: str, model: str) -> dict[str, Any]:
    """The next request has the call, with its arguments as they were, and its result; the provider takes it."""
    body = manager.prepare().body
    assert list(arguments_in(body)) == [GIVEN]
    assert "row 1" in json.dumps(body)
    assert "left out" not in json.dumps(body)
    nulls = json.dumps(body).replace('"content": null', "").replace('"until": null', "")
    assert "null" not in nulls.replace('\\"until\\": null', "")
    found = check(provider, {"model": model, "max_tokens": 100, **body}, window=0)
    assert [each for each in found if each.severity == "error"] == []
    return body


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_observed_in_each_of_its_forms(name, spelling):
    provider, model, made = ANSWERS[name]
    answer = SPELLINGS[spelling](made())
    for given in (provider, None):
        manager = asked(given, model)
        manager.observe(answer)
        manager.add(result_for(manager.prepare().body, provider))
        assert_both_halves(manager, provider, model)
        assert manager.usage().reported


def pieces_of(answer: Any, provider: str) -> list[Any]:
    """The answer's own messages or items, as a loop appends them."""
    if provider == "gemini":
        return [answer.candidates[0].content]
    if provider == "openai_responses":
        return list(answer.output)
    if provider == "anthropic":
        return [{"role": answer.role, "content": answer.content}]
    return [answer.choices[0].message]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_message_of_an_answer_is_added_as_the_object_that_it_is(name):
    provider, model, made = ANSWERS[name]
    manager = asked(provider, model)
    for piece in pieces_of(made(), provider):
        manager.add(piece)
    manager.add(result_for({}, provider))
    body = assert_both_halves(manager, provider, model)
    assert "parsed" not in json.dumps(body)


def test_a_signature_of_gemini_goes_back_as_the_bytes_that_came():
    types = pytest.importorskip("google.genai").types
    answer = gemini_answer()
    for given in (answer, answer.model_dump(), answer.model_dump(mode="json")):
        manager = asked("gemini", "gemini-3-pro")
        manager.observe(given)
        manager.add(result_for({}, "gemini"))
        sent = [types.Content.model_validate(each) for each in manager.prepare().messages]
        signed = [part for each in sent for part in each.parts if part.thought_signature]
        assert [part.thought_signature for part in signed] == [SIGNATURE]
        assert [part.function_call.args for part in signed] == [GIVEN]


def test_results_and_media_of_gemini_are_added_as_objects():
    types = pytest.importorskip("google.genai").types
    manager = asked("gemini", "gemini-2.5-pro")
    manager.observe(gemini_answer())
    result = types.Part.from_function_response(name="read", response={"result": "row 1"})
    image = types.Part.from_bytes(data=b"\xff\xfe\xfd", mime_type="image/png")
    manager.add(types.Content(role="user", parts=[result, image]))
    sent = assert_both_halves(manager, "gemini", "gemini-2.5-pro")["contents"]
    read = types.Content.model_validate(sent[-1])
    assert [part.inline_data.data for part in read.parts if part.inline_data] == [b"\xff\xfe\xfd"]


def test_json_that_is_spelt_as_the_api_spells_it_stays_the_same_object():
    for name in ("anthropic", "openai_chat", "openai_responses", "bedrock", "mistral"):
        item = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
        assert given_as_json(item, provider_of(name)) is item
