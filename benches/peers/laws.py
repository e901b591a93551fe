"""`make laws`: every contender of `make compare`, and some more, held to the laws of `ullage.testing.laws`.

The settings are those of the comparison, which are the ones that each library's documentation shows; where it takes a size, that is the
case's target. A model that is asked answers at once from a script. What one environment lacks is asked of the next (`--also`).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benches.peers import context, frameworks, more_libraries
from benches.peers.compare import CONTENDERS, versions
from benches.peers.context import Contender, harness, langchain_back, pydantic_in, pydantic_out
from benches.peers.frameworks import _to_chat, _to_framework
from benches.peers.more_libraries import llama_memory

import ullage
from ullage import Policy, compact, estimate_tokens
from ullage.policy import SummaryPolicy
from ullage.testing import laws
from ullage.testing.laws import Compactor

MODEL = "gpt-4o"
SECONDS = 120
"""For one contender; the table says how many cases there was time for."""
PEERS = (
    "langchain", "langchain-core", "deepagents", "pydantic-ai-harness", "openai-agents", "strands-agents", "agent-framework-core",
    "inspect-ai", "llama-index-core", "convopack", "autogen-core", "litellm", "semantic-kernel",
)  # fmt: skip
ROOT = Path(__file__).parents[2]
PAGE, TABLES = ROOT / "docs" / "laws.md", ROOT / "benches" / "TABLES.md"
BEGIN, END = "<!-- make laws: begin -->", "<!-- make laws: end -->"

Messages = list[dict[str, Any]]
Told = dict[str, dict[str, Any]]
"""By contender: its findings as JSON, and how many cases were tried, refused, changed."""


# ---- ours --------------------------------------------------------------------------------------


def tokens(messages: Sequence[dict[str, Any]]) -> int:
    return estimate_tokens(list(messages), model=MODEL)


def by_code(messages: Messages, target: int) -> Messages:
    """As a loop calls it: where the target is passed; a warning that it cannot be met refuses."""
    if tokens(messages) <= target:
        return messages
    result = compact(messages, model=MODEL, target_tokens=target)
    if unmet := [each for each in result.report.warnings if each.startswith("over_target")]:
        raise OverflowError(unmet[0])
    return list(result.messages)


def model_is_down(*_: object) -> str:
    raise ValueError("model is down")


def by_a_model(messages: Messages, target: int) -> Messages:
    once = Policy(summary=SummaryPolicy(retries=0))
    result = compact(
        messages, model=MODEL, target_tokens=target, summarizer=model_is_down, policy=once
    )
    return list(result.messages)


OURS = Compactor("ullage compact", by_code, size=tokens, failing=by_a_model)


# ---- peers that the comparison does not have ---------------------------------------------------


def langchain_summary(answer: Callable[..., str] = lambda *_: SUMMARY) -> Contender:
    core: Any = importlib.import_module("langchain_core.messages")
    models: Any = importlib.import_module("langchain_core.language_models.fake_chat_models")
    module: Any = importlib.import_module("langchain.agents.middleware.summarization")
    budget = context.BUDGET
    middleware = module.SummarizationMiddleware(
        model=models.FakeListChatModel(responses=[SUMMARY]),
        trigger=("tokens", budget),
        keep=("tokens", max(budget // 4, 1)),
        summarizer=answer,
    )

    def run(messages: Any) -> Any:
        changed = middleware.before_model({"messages": messages}, None)
        return messages if changed is None else changed["messages"][1:]

    return Contender(
        "langchain SummarizationMiddleware",
        "openai_chat",
        core.convert_to_messages,
        run,
        langchain_back,
    )


SUMMARY = "The user works on a service; see the newest messages."


def agent_framework_truncation() -> Contender:
    module: Any = importlib.import_module("agent_framework")
    budget = context.BUDGET

    def run(messages: Any) -> Any:
        counter = module.CharacterEstimatorTokenizer()
        strategy = module.TruncationStrategy(
            max_n=budget, compact_to=max(budget // 2, 1), tokenizer=counter
        )
        return asyncio.run(module.apply_compaction(messages, strategy=strategy, tokenizer=counter))

    return Contender(
        "agent-framework TruncationStrategy", "openai_chat", _to_framework, run, _to_chat
    )


def llama_buffer() -> Contender:
    memories: Any = importlib.import_module("llama_index.core.memory")
    budget, whole = context.BUDGET, llama_memory()

    def run(messages: Any) -> Any:
        memory = memories.ChatMemoryBuffer.from_defaults(token_limit=budget)
        memory.put_messages(messages)
        return memory.get()

    return Contender("llama-index ChatMemoryBuffer", "openai_chat", whole.native, run, whole.back)


def autogen_head_and_tail() -> Contender:
    module: Any = importlib.import_module("autogen_core.model_context")
    models: Any = importlib.import_module("autogen_core.models")
    call: Any = importlib.import_module("autogen_core").FunctionCall

    def native(chat: Messages) -> Any:
        made: list[Any] = []
        for message in chat:
            text, calls = message.get("content") or "", message.get("tool_calls")
            if message["role"] == "user":
                made.append(models.UserMessage(content=text, source="user"))
            elif message["role"] == "tool":
                one = models.FunctionExecutionResult(
                    content=text, call_id=message["tool_call_id"], name="tool", is_error=False
                )
                made.append(models.FunctionExecutionResultMessage(content=[one]))
            elif calls:
                own = [
                    call(each["id"], each["function"]["arguments"], each["function"]["name"])
                    for each in calls
                ]
                made.append(models.AssistantMessage(content=own, source="assistant"))
            else:
                made.append(models.AssistantMessage(content=text, source="assistant"))
        return made

    def run(messages: Any) -> Any:
        own = module.HeadAndTailChatCompletionContext(
            head_size=1, tail_size=10, initial_messages=messages
        )
        return asyncio.run(own.get_messages())

    def back(messages: Any) -> Messages:
        found: Messages = []
        for message in messages:
            if message.type == "FunctionExecutionResultMessage":
                found += [
                    {"role": "tool", "tool_call_id": one.call_id, "content": one.content}
                    for one in message.content
                ]
            elif isinstance(message.content, list):
                made = [
                    more_libraries._call(one.id, one.name, json.loads(one.arguments))
                    for one in message.content
                ]
                found.append({"role": "assistant", "content": None, "tool_calls": made})
            else:
                role = "user" if message.type == "UserMessage" else "assistant"
                found.append({"role": role, "content": message.content})
        return found

    return Contender("autogen HeadAndTail, 1 + 10", "openai_chat", native, run, back)


def semantic_kernel_truncation() -> Contender:
    contents: Any = importlib.import_module("semantic_kernel.contents")

    def native(chat: Messages) -> Any:
        made: list[Any] = []
        for message in chat:
            items: list[Any] = [
                contents.FunctionCallContent(
                    id=each["id"],
                    name=each["function"]["name"],
                    arguments=each["function"]["arguments"],
                )
                for each in message.get("tool_calls") or ()
            ]
            if message["role"] == "tool":
                items.append(
                    contents.FunctionResultContent(
                        id=message["tool_call_id"], name="tool", result=message["content"]
                    )
                )
            elif message.get("content"):
                items.append(contents.TextContent(text=message["content"]))
            made.append(contents.ChatMessageContent(role=message["role"], items=items))
        return made

    def run(messages: Any) -> Any:
        reducer = contents.ChatHistoryTruncationReducer(
            messages=messages, target_count=10, threshold_count=5
        )
        asyncio.run(reducer.reduce())
        return reducer.messages

    def back(messages: Any) -> Messages:
        found: Messages = []
        for message in messages:
            calls = [
                more_libraries._call(one.id, one.name, json.loads(one.arguments))
                for one in message.items
                if one.content_type == "function_call"
            ]
            told = [one for one in message.items if one.content_type == "function_result"]
            found += [
                {"role": "tool", "tool_call_id": one.id, "content": str(one.result)} for one in told
            ]
            if not told:
                made: dict[str, Any] = {
                    "role": message.role.value,
                    "content": message.content or None,
                }
                found.append({**made, "tool_calls": calls} if calls else made)
        return found

    return Contender("semantic-kernel Truncation, 10 + 5", "openai_chat", native, run, back)


def harness_tiered() -> Contender:
    def make(module: Any) -> Any:
        clear = module.ClearToolResults(max_tokens=context.BUDGET, keep_pairs=3)
        window = module.SlidingWindowCompaction(
            max_tokens=context.BUDGET, keep_tokens=context.BUDGET // 2
        )
        return module.TieredCompaction(tiers=[clear, window], target_tokens=context.BUDGET)

    name = "pydantic-ai-harness Tiered"
    one = harness(name, make)()
    return Contender(name, "openai_chat", pydantic_in, one.run, pydantic_out)


def model_down() -> Contender:
    return langchain_summary(model_is_down)


FURTHER: dict[str, Callable[[], Contender]] = {
    "langchain SummarizationMiddleware": langchain_summary,
    "pydantic-ai-harness Tiered": harness_tiered,
    "agent-framework TruncationStrategy": agent_framework_truncation,
    "llama-index ChatMemoryBuffer": llama_buffer,
    "autogen HeadAndTail, 1 + 10": autogen_head_and_tail,
    "semantic-kernel Truncation, 10 + 5": semantic_kernel_truncation,
}
FOREIGN = {name: make for name, make in CONTENDERS.items() if not name.startswith("ullage")}
FOREIGN |= FURTHER
NO_TARGET = frozenset(
    {
        "langchain ContextEditing", "pydantic-ai-harness ClearToolResults", "openai-agents ToolOutputTrimmer", "litellm clear_tool_uses",
        "strands SlidingWindow, 40 messages", "autogen HeadAndTail, 1 + 10",
        "semantic-kernel Truncation, 10 + 5",
    }
)  # fmt: skip
"""They count messages or results, or a size is only what sets them off."""
SEES_ALL = frozenset(
    {
        "langchain trim_messages", "langchain ContextEditing", "openai-agents ToolOutputTrimmer", "convopack Recency", "litellm trim_messages",
        "litellm compress", "litellm clear_tool_uses", "autogen HeadAndTail, 1 + 10",
    }
)  # fmt: skip
"""They make the request out of the whole history each time; the others go on from what they left."""
FAILING = {"langchain SummarizationMiddleware": model_down}


def peer(name: str) -> Compactor:
    """A contender of the comparison as the laws want it; its size is the target."""

    def run(make: Callable[[], Contender], messages: Messages, target: int) -> Messages:
        for module in (context, frameworks, more_libraries):
            module.BUDGET = target
        one = make()
        left = json.dumps(one.back(one.run(one.native(messages))))
        # deepagents names a file by a thread, which an agent has for longer than one call.
        return list(json.loads(re.sub(r"session_[0-9a-f]+", "session_1", left)))

    make, failing = FOREIGN[name], FAILING.get(name)
    return Compactor(
        name,
        lambda messages, target: run(make, messages, target),
        form=make().form,
        has_target=name not in NO_TARGET,
        sees_all=name in SEES_ALL,
        notice=laws.NOTICE + r"|\[Tool results:",  # how agent-framework begins such a text
        failing=failing and (lambda messages, target: run(failing, messages, target)),
    )


# ---- all of them -------------------------------------------------------------------------------


def judged(names: Sequence[str], count: int) -> Told:
    """What is installed here, held to the laws."""
    found: Told = {}
    for name in names:
        try:
            one = OURS if name == OURS.name else peer(name)
        except ModuleNotFoundError as error:
            print(f"not here: {name}: {error}", file=sys.stderr)
            continue
        end = time.monotonic() + SECONDS
        broken, counts = laws.hold(one, count, until=lambda end=end: time.monotonic() > end)
        told = {each.law.id: [str(each.case), each.words] for each in broken}
        spared = [each.id for each in laws.LAWS if not each.applies(one)]
        found[name] = {"broken": told, "spared": spared, **counts}
        print(f"{name}: {len(told)} broken, {dict(counts)}", file=sys.stderr)
    return found


def everywhere(count: int, also: Sequence[str]) -> tuple[Told, dict[str, str]]:
    """Each contender in the first environment that has it."""
    names = [OURS.name, *FOREIGN]
    found, known = judged(names, count), versions(PEERS)
    for python in also:
        lack = [name for name in names if name not in found]
        command = [python, "-m", "benches.peers.laws", "--cases", str(count), "--inner", *lack]
        more = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        out = subprocess.run(command, check=True, env=more, stdout=subprocess.PIPE).stdout
        other = json.loads(out.splitlines()[-1])
        found, known = {**found, **other["found"]}, {**other["versions"], **known}
    return {name: found[name] for name in names if name in found}, known


def tables(found: Told, known: dict[str, str], count: int) -> dict[Path, str]:
    """The table for the page, and the smallest case of each broken cell for the full tables."""
    ids = [each.id for each in laws.LAWS]
    rows = ["| contender | laws that a case broke | that do not apply |", "| --- | --- | --- |"]
    for name, told in found.items():
        cells = (
            ", ".join(str(at) for at, law in enumerate(ids, 1) if law in told[key]) or "none"
            for key in ("broken", "spared")
        )
        rows.append(f"| {name} | {' | '.join(cells)} |")
    lines = [
        f"- {name}, law {ids.index(law) + 1}: {words}. `{case}`"
        for name, told in found.items()
        for law, (case, words) in told["broken"].items()
    ]
    named = ", ".join(f"{name} {version}" for name, version in known.items())
    lack = [name for name in FOREIGN if name not in found]
    rest = f" Not installed: {', '.join(lack)}." if lack else ""
    said = f"`make laws` with {count} made cases each; ullage {ullage.__version__}, {named}.{rest}"
    return {PAGE: "\n".join([*rows, "", said]), TABLES: "\n".join(lines)}


def write(path: Path, text: str) -> None:
    """A text between the marks of a page."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="made conversations for each")
    parser.add_argument("--also", action="append", default=[], help="a further interpreter")
    parser.add_argument(
        "--write", action="store_true", help="into docs/laws.md and benches/TABLES.md"
    )
    parser.add_argument("--inner", nargs="*", default=None, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        if given.inner is not None:
            print(
                json.dumps({"found": judged(given.inner, given.cases), "versions": versions(PEERS)})
            )
            return 0
        texts = tables(*everywhere(given.cases, given.also), given.cases)
    for path, text in texts.items():
        if given.write:
            write(path, text)
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
