"""The loops of the pages send prompts that a provider reads from its cache, also where levels act."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.docs.test_examples import DOCUMENTS, TOOLS_OF, run_blocks
from tests.oracle.server.cache import PromptCache, StepCache
from ullage import ContextManager
from ullage.counting.models import lookup
from ullage.testing import ScriptedServer

QUESTIONS = 60
LEAST_SHARE = 0.9
PAGES = {path.name: path for path in DOCUMENTS if path.name in TOOLS_OF}
LOG = "".join(f"{number:05} GET /v1/invoices/{number * 7} 200 {number % 91} ms\n" for number in range(90))  # fmt: skip


def share(cache: PromptCache | StepCache, bodies: list[dict[str, Any]]) -> float:
    """Of all prompts, what the cache was read for."""
    used = [cache.use(body) for body in bodies]
    return sum(use.read for use in used) / sum(map(sum, used))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", sorted(PAGES))
def test_nine_tenths_of_what_a_page_s_loop_sends_are_read_from_the_cache(
    page, tmp_path, monkeypatch
):
    for module in ("anthropic", "openai", "google.genai"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "40000")  # levels act in a short test
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "test")
    with ScriptedServer(*("tool_call", "good") * (QUESTIONS + 4)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        names = run_blocks(PAGES[page])
        first = len(server.requests)
        manager = talked(names)
        if "client" in names:
            names["client"].close()
        assert server.errors == []
        assert {each.status for each in server.requests} == {200}
    bodies = [each.json for each in server.requests[first:]]
    assert len(bodies) > QUESTIONS
    assert {report.stage for report in manager.machine.reports} >= {"autocompact"}
    marks = manager.model.cache.breakpoints
    cache = PromptCache(manager.model.cache.min_tokens) if marks else StepCache()
    found = share(cache, bodies)
    assert found >= LEAST_SHARE, found


def talked(names: dict[str, Any]) -> ContextManager:
    """The page's own functions, asked again and again; its tool answers with a log that differs each time."""
    number = iter(range(10**6))
    given = names["run_tool"]

    def run_tool(*args: Any) -> Any:
        answer = given(*args)
        text = f"run {next(number)}\n{LOG}"
        if isinstance(answer, str):
            return text
        answer.function_response.response = {"output": text}
        return answer

    names["run_tool"] = run_tool
    questions = [f"Question {at}: what does run {at} show?" for at in range(QUESTIONS)]
    if "answer" in names and asyncio.iscoroutinefunction(names["answer"]):
        return asyncio.run(talked_async(names, questions))
    for question in questions:
        names.get("turn", names.get("ask"))(question)
    return names["manager"]


async def talked_async(names: dict[str, Any], questions: list[str]) -> ContextManager:
    manager = ContextManager(model=names["MODEL"], system="Be brief.", tools=[names["READ"]])
    async with names["anthropic"].AsyncAnthropic() as client:
        for question in questions:
            await names["answer"](client, manager, question)
    return manager


def test_nine_tenths_of_bedrocks_prompts_are_read_from_the_cache():
    model = "anthropic.claude-opus-4-5-v1:0"
    manager = ContextManager(
        model=model, provider="bedrock", system="Be brief. " * 500, context_window=100_000
    )
    bodies = []
    for at in range(2 * QUESTIONS):
        manager.add({"role": "user", "content": [{"text": f"Run {at} says:\n{LOG[:2_000]}"}]})
        bodies.append(as_marked(manager.prepare().body))
        manager.add({"role": "assistant", "content": [{"text": f"Run {at} is fine."}]})
    assert {report.stage for report in manager.machine.reports} >= {"autocompact"}
    found = share(PromptCache(lookup(model).cache.min_tokens), bodies)
    assert found >= LEAST_SHARE, found


def as_marked(body: dict[str, Any]) -> dict[str, Any]:
    """A body of Bedrock with its cache points as marks of the blocks before them."""
    messages = [{**each, "content": moved(each["content"])} for each in body["messages"]]
    return {"system": moved(body["system"]), "messages": messages}


def moved(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in blocks:
        if "cachePoint" in block:
            found[-1]["cache_control"] = {"type": "ephemeral"}
        else:
            found.append({"type": "text", **block})
    return found
