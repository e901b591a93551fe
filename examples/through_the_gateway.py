"""An agent that knows nothing of Ullage, through the gateway: its list outgrows the window, its requests do not.

    pip install 'ullage[cli,proxy,anthropic]'
    python examples/through_the_gateway.py

It starts `ullage proxy` and, as the provider, a scripted server that refuses what the real one would refuse: no key, no cost. With
`--upstream https://api.anthropic.com` and ANTHROPIC_API_KEY the provider is the real one.
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import anthropic
from anthropic.types import MessageParam, ToolParam

from ullage.testing import ScriptedServer

TOOLS: list[ToolParam] = [
    {
        "name": "Read",
        "description": "Reads a build log.",
        "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
    }
]


@contextmanager
def gateway(upstream: str) -> Iterator[str]:
    """`ullage proxy` on a free port, as it would run in another terminal; yields its URL."""
    with tempfile.TemporaryDirectory() as state:
        words = [sys.executable, "-m", "ullage", "proxy", "--port", "0", "--state", state]
        process = subprocess.Popen(  # noqa: S603 - words of our own
            [*words, "--upstream", upstream],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        with process as running:
            try:
                assert running.stdout is not None  # noqa: S101 - asked for above
                yield running.stdout.readline().split()[2].rstrip(";")
            finally:
                running.terminate()


def answer(
    client: anthropic.Anthropic, model: str, messages: list[MessageParam], log: str
) -> anthropic.types.Message:
    """The agent's turn. Its list only grows; the gateway makes room."""
    while True:
        message = client.messages.create(
            model=model, max_tokens=1024, tools=TOOLS, messages=messages
        )
        messages.append({"role": "assistant", "content": message.content})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return message
        messages.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call.id, "content": log}
                    for call in calls
                ],
            }
        )


def figures(url: str) -> dict[str, float]:
    """The gateway's own sums; `/ullage` shows the same as a page."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    plain = (line.split() for line in lines if "{" not in line and not line.startswith("#"))
    return {name: float(value) for name, value in plain}


def run(upstream: str, given: argparse.Namespace) -> dict[str, float]:
    log = "".join(
        f"12:00 step {at}: compiled module {at * 7 % 1000}\n" for at in range(given.lines)
    )
    messages: list[MessageParam] = []
    with gateway(upstream) as url, anthropic.Anthropic(base_url=url) as client:
        for number in range(given.questions):
            messages.append({"role": "user", "content": f"Why did build {number} fail?"})
            message = answer(client, given.model, messages, log)
            sent = message.usage.input_tokens
            print(f"question {number + 1}: {len(messages)} messages here, {sent:,} tokens sent")
        found = figures(url)
    print(f"changed {found['ullage_proxy_changed_total']:.0f} of", end=" ")
    print(f"{found['ullage_proxy_calls_total']:.0f} requests", end=", ")
    print(f"{found['ullage_proxy_saved_tokens_total']:,.0f} tokens not sent")
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", help="a provider; default: a scripted one on this machine")
    parser.add_argument("--model", default="claude-opus-5-5")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--lines", type=int, default=1_500, help="length of each build log")
    given = parser.parse_args(arguments)
    if given.upstream:
        return run(given.upstream, given)
    os.environ.setdefault("ANTHROPIC_API_KEY", "none is needed here")
    script = ["tool_call", "good"] * given.questions
    with ScriptedServer(*script) as provider:
        return run(provider.url, given)


if __name__ == "__main__":
    main()
