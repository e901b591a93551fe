"""A real, small model: through the gateway the official clients get what they get without it."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")
pytest.importorskip("xllamacpp")

import anthropic
import openai

from tests.oracle.legality import assert_legal
from tests.proxy.kit import Proxy
from tests.small_model import SmallModel
from ullage.exceptions import MissingExtra
from ullage.proxy.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ASKED = [{"role": "user", "content": "Say one word."}]


def messages(url):
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        asked = {"model": "smollm2", "max_tokens": 8, "messages": ASKED}
        asked["extra_body"] = {"temperature": 0}
        plain = client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
    return [(each.content[0].text, each.stop_reason) for each in (plain, streamed)]


def chat(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        asked = {"model": "smollm2", "max_tokens": 8, "temperature": 0, "messages": ASKED}
        plain = client.chat.completions.create(**asked).choices[0].message.content
        stream = client.chat.completions.create(**asked, stream=True)
        return plain, "".join(
            each.choices[0].delta.content or "" for each in stream if each.choices
        )


TOOL = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}


def responses(url):
    """Plain, streamed (text and kinds of events), and with a call and its result in the input."""
    asked = {"model": "smollm2", "max_output_tokens": 8, "temperature": 0, "input": ASKED}
    called = [
        *ASKED,
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "README.md"},
    ]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        plain = client.responses.create(**asked)
        events = list(client.responses.create(**asked, stream=True))
        after = client.responses.create(**{**asked, "input": called}, tools=[TOOL])
    texts = "".join(each.delta for each in events if each.type == "response.output_text.delta")
    return plain.output_text, plain.status, texts, [each.type for each in events], after.output_text


def worked(turns):
    """Items of an agent that read files."""
    made = [{"type": "message", "role": "user", "content": "Look at the files."}]
    for n in range(turns):
        call = {"type": "function_call", "call_id": f"c{n}", "name": "shell"}
        made += [
            {**call, "arguments": json.dumps({"command": f"cat file{n}"})},
            {"type": "function_call_output", "call_id": f"c{n}", "output": f"word{n} " * 60},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"File {n} is read."}]},
            {"type": "message", "role": "user", "content": f"And file {n + 1}?"},
        ]  # fmt: skip
    return made


def test_the_responses_api_of_a_real_model(monkeypatch):
    try:
        loaded = SmallModel(window_tokens=512, max_output_tokens=16)
    except MissingExtra as error:
        pytest.skip(str(error))
    sent, ask = [], Upstream.request

    async def noted(self, endpoint, method, target, headers, body):
        answer = await ask(self, endpoint, method, target, headers, body)
        sent.append((json.loads(body), answer.status))
        return answer

    monkeypatch.setattr(Upstream, "request", noted)
    with loaded as model, Proxy(model.url) as proxy:
        assert responses(proxy.url) == responses(model.url)
        before = len(sent)
        asked = {"model": "smollm2", "max_output_tokens": 8, "tools": [TOOL]}
        with openai.OpenAI(base_url=f"{model.url}/v1", api_key="k", max_retries=0) as client:
            with pytest.raises(openai.BadRequestError):
                client.responses.create(**asked, input=worked(5))
        with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
            answers = [client.responses.create(**asked, input=worked(turns)) for turns in (5, 6)]
    assert all(answer.usage.input_tokens < 512 for answer in answers)
    statuses = [status for _, status in sent[before:]]
    assert statuses.count(400) == 1  # the first, as it came; its limit is known from then on
    for body, status in sent[before:]:
        assert_legal("openai_responses", body["input"])
        assert (len(body["input"]) < len(worked(5))) == (status == 200)


def test_a_real_model_answers_the_same_and_its_overflow_is_recovered():
    try:
        loaded = SmallModel(window_tokens=2048)
    except MissingExtra as error:
        pytest.skip(str(error))
    with loaded as model:
        base = model.url
        with Proxy(base) as proxy:
            assert messages(proxy.url) == messages(base)
            assert chat(proxy.url) == chat(base)
            long = [
                {"role": "user", "content": "Look at the files."},
                *(each for n in range(6) for each in (
                    {"role": "assistant", "content": f"File {n}: " + f"word{n} " * 250},
                    {"role": "user", "content": f"And file {n + 1}?"},
                )),
            ]  # fmt: skip
            with anthropic.Anthropic(base_url=base, api_key="k", max_retries=0) as client:
                with pytest.raises(anthropic.BadRequestError):
                    client.messages.create(model="smollm2", max_tokens=8, messages=long)
            with anthropic.Anthropic(base_url=proxy.url, api_key="k", max_retries=0) as client:
                answered = client.messages.create(model="smollm2", max_tokens=8, messages=long)
    assert answered.usage.input_tokens < 2048
