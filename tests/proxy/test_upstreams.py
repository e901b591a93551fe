"""Where a request goes, and which part of a long answer is read (no server is needed for either)."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("uvicorn")

from ullage.proxy.compaction_answers import ClientAnswer
from ullage.proxy.gateway import _substance
from ullage.proxy.upstream import endpoint_of, message_in

ANTHROPIC = [(b"anthropic-version", b"2023-06-01"), (b"x-api-key", b"k")]
OPENAI = [(b"authorization", b"Bearer k")]


@pytest.mark.parametrize(
    ("method", "path", "headers", "provider"),
    [
        ("POST", "/v1/messages", ANTHROPIC, "anthropic"),
        ("POST", "/v1/messages", [], "anthropic"),
        ("GET", "/v1/messages/batches", [], "anthropic"),
        ("POST", "/v1/threads/t1/messages", OPENAI, "openai_chat"),
        ("GET", "/v1/threads/t1/messages", OPENAI, "openai_chat"),
        ("GET", "/v1/chat/completions/c1/messages", OPENAI, "openai_chat"),
        ("GET", "/v1/models", ANTHROPIC, "anthropic"),
        ("GET", "/v1/models", OPENAI, "openai_chat"),
    ],
)
def test_a_key_goes_to_its_own_provider(method, path, headers, provider):
    endpoint = endpoint_of(method, path, headers)
    assert endpoint.provider == provider
    assert endpoint.kind == ("messages" if path == "/v1/messages" else "other")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_events_are_known_by_either_line_end(end):
    created = f'event: a{end}data: {{"type": "response.created"}}{end}{end}'
    delta = f'event: b{end}data: {{"type": "response.output_text.delta"}}{end}{end}'
    assert _substance(created.encode()) is None
    assert _substance((created + delta[:20]).encode()) is None
    assert _substance((created + delta).encode()) == {"type": "response.output_text.delta"}


def test_of_an_answer_of_megabytes_the_usage_at_its_end_is_read():
    answer = ClientAnswer({}, None, None)
    start = b'data: {"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}\n\n'
    delta = (
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}\n\n'
        % (b"x" * 90)
    )
    end = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20000}}\n\ndata: {"type":"message_stop"}\n\n'

    async def relay():
        for piece in (start, *[delta] * 20_000, end):
            answer._note(piece)

    asyncio.run(relay())
    noted = answer.noted()
    assert len(noted) < 2_300_000
    message = message_in({"content-type": "text/event-stream"}, noted)
    assert message is not None
    assert message["usage"]["output_tokens"] == 20_000
