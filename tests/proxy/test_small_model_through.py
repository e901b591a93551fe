"""A real, small model: through the gateway the official clients get what they get without it."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("aiohttp")
pytest.importorskip("starlette")
pytest.importorskip("xllamacpp")

import anthropic
import openai

from tests.proxy.kit import Proxy
from tests.small_model import SmallModel
from ullage.exceptions import MissingExtra

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
