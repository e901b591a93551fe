"""Makes `requests.json`: what a compaction sends, path by path, as the arguments of the SDKs.

Run `python tests/golden/make_requests.py` after a change of what is sent, look at the difference, and name it as a
behaviour change in the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kit.flows import Unhurried
from ullage.compaction.api import job_of
from ullage.compaction.flow import compaction_flow
from ullage.effects import drive
from ullage.summarizers.anthropic import AnthropicSummarizer
from ullage.summarizers.openai import OpenAISummarizer
from ullage.testing import ScriptedSummarizer, Step

PATH = Path(__file__).with_name("requests.json")
SYSTEM = "You are a coding agent."
READ = {"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}


def conversation(turns: int = 4) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n in range(turns):
        given = {"file_path": f"/srv/shop/part{n}.py"}
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": given}
        thinking = {"type": "thinking", "thinking": "I look first.", "signature": "c2ln"}
        text = "".join(f"{n}{line}: price = total * rate\n" for line in range(30))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": text}
        said = {"type": "text", "text": f"Part {n} computes prices."}
        messages += [
            {"role": "user", "content": f"Explain part {n} of the shop."},
            {"role": "assistant", "content": [thinking, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [said]},
        ]
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    messages[0]["content"] = [
        {"type": "text", "text": "Explain part 0 of the shop."},
        {"type": "image", "source": image},
    ]
    return [*messages, {"role": "user", "content": "And now fix the rounding."}]


class Recorder:
    """A summarizer that keeps what it would send, and answers from a script."""

    def __init__(self, writer: Any, *steps: Any, **limits: Any) -> None:
        self._writer, self._script = writer, ScriptedSummarizer(*steps)
        self.name, self.modes = writer.name, writer.modes
        self.window_tokens, self.max_output_tokens = limits.get("window"), limits.get("output")
        self.sent: list[Any] = []

    def summarize(self, request: Any) -> Any:
        self.sent.append(self._writer.body(request))
        return self._script.summarize(request)


def last_anthropic() -> dict[str, Any]:
    messages = conversation()
    marked = {
        "type": "text",
        "text": messages[-1]["content"],
        "cache_control": {"type": "ephemeral"},
    }
    messages[-1] = {"role": "user", "content": [marked]}
    frame = {"model": "claude-sonnet-4-5", "max_tokens": 8000, "system": SYSTEM, "tools": [READ]}
    return {**frame, "messages": messages}


def claude(*steps: Any, last: Any = None, **limits: Any) -> Recorder:
    writer = AnthropicSummarizer("claude-sonnet-4-5", client=object(), last_request=last)
    return Recorder(writer, *steps, **limits)


def gpt(api: Any, *steps: Any, **options: Any) -> Recorder:
    return Recorder(OpenAISummarizer("gpt-5.2", api=api, client=object(), **options), *steps)


def run(writer: Recorder, **options: Any) -> list[Any]:
    items = options.pop("items", None) or conversation()
    given = job_of(items, summarizer=writer, **{"keep": 0, **options})
    drive(compaction_flow(given), Unhurried())
    return writer.sent


def again() -> list[Any]:
    """A second compaction, of a conversation that begins with a summary."""
    first = job_of(conversation(), summarizer=ScriptedSummarizer(), keep=0)
    result = drive(compaction_flow(first), Unhurried())
    return run(claude(), items=[*result.messages, *conversation()[1:]])


def hooked() -> list[Any]:
    hooks = {"pre_compact": [lambda payload: "Mind the open ticket SHOP-7."]}
    return run(claude(), hooks=hooks, instructions="Keep the names of all tables.")


def redacted() -> list[Any]:
    return run(claude(), redact=lambda text: text.replace("shop", "[name]"))


GAP = Step("overflow", used=201_000, limit=200_600)
PATHS: dict[str, Callable[[], list[Any]]] = {
    "anthropic, first try": lambda: run(claude()),
    "anthropic, after an overflow with a gap": lambda: run(claude(GAP)),
    "anthropic, after an overflow without figures": lambda: run(
        claude(Step("overflow", provider="bedrock"))
    ),
    "anthropic, shared prefix": lambda: run(claude(last=last_anthropic())),
    "anthropic, shared prefix without an answer, then plain": lambda: run(
        claude("empty", last=last_anthropic())
    ),
    "anthropic, in parts": lambda: run(claude(window=3_300, output=300)),
    "anthropic, partial from a message": lambda: run(claude(), direction="from", at=8),
    "anthropic, partial up to a message": lambda: run(claude(), direction="up_to", at=12),
    "anthropic, newest part kept": lambda: run(claude(), keep=300),
    "anthropic, hooks and instructions": hooked,
    "anthropic, template": lambda: run(claude(), template="Be brief.\n{{scope}}\n{{sections}}"),
    "anthropic, redacted": redacted,
    "anthropic, a summary before": again,
    "openai chat, first try": lambda: run(gpt("chat")),
    "openai chat, compatible server": lambda: run(gpt("chat", base_url="http://127.0.0.1:1/v1")),
    "openai responses, first try": lambda: run(gpt("responses")),
}


def make() -> str:
    """The file's text: every path's requests, keys in the order in which they are sent."""
    made = {name: path() for name, path in PATHS.items()}
    return json.dumps(made, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(make(), encoding="utf-8")
