"""A request that is made without asking the levels is the one that they would have left, in every part of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import calls, result, said, text, use, user
from ullage import ContextManager, Policy
from ullage._engine import NAME
from ullage.exceptions import UllageError
from ullage.levels import pipeline
from ullage.levels.level import NEVER, Level
from ullage.manager.prepare import Marks
from ullage.recall.store import MemoryStore

MODEL = "claude-opus-4-5"
WINDOW = 24_000
MINUTE = 60_000

POLICIES: dict[str, dict[str, Any]] = {
    "default": {},
    "snip": {"snip.start_percent": 20, "snip.max_chars": 2_000},
    "on arrival": {"snip.on_arrival": True, "snip.max_chars": 2_000},
    "lines": {
        "micro.by_line": True, "micro.line_start_percent": 25, "micro.supersede_start_percent": 20,
        "micro.min_freed_tokens": 100, "micro.keep_recent": 1, "protect.tool_results": 1,
    },
    "time": {"micro.by_time": True, "micro.idle_minutes": 5, "micro.min_freed_tokens": 0},
    "cache edits": {
        "micro.by_cache_edit": True, "micro.edit_start_percent": 20, "micro.min_freed_tokens": 0,
    },
    "provider": {"micro.by_provider": True},
    "collapse": {"collapse.enabled": True},
    "notices": {"offer.notice_percent": 25},
    "ladder": {"snip.start_percent": 40, "micro.by_line": True, "auto.start_percent": 80},
    "early": {"auto.start_percent": 40},
    "ahead": {"auto.background_percent": 40},
}  # fmt: skip


class Counted(Marks):
    """Counts the requests that were made without the levels."""

    def __init__(self) -> None:
        super().__init__(pipeline.ORDER)
        self.made = 0

    def hold(self, *args: Any) -> bool:
        found = super().hold(*args)
        self.made += found
        return found


class Never(Marks):
    """Has all levels run for every request."""

    def hold(self, *args: Any) -> bool:
        return False


class Written:
    """A summarizer that asks nobody, but counts as one that does."""

    def summarize(self, request: Any) -> str:
        return f"## Summary\n{len(request.messages)} messages were about the build. " * 3


class Pair:
    """The same conversation twice: with requests that skip the levels, and without."""

    def __init__(self, folder: Path | None, policy: str, **given: Any) -> None:
        self.now = 1_700_000_000_000
        self.numbers = count()
        logs = [None if folder is None else folder / f"{name}.jsonl" for name in "ab"]
        self.both = [self._made(log, policy, given) for log in logs]
        self.fast, self.slow = self.both
        self.fast._marks = Counted()
        self.slow._marks = Never(pipeline.ORDER)

    def _made(self, log: Path | None, policy: str, given: dict[str, Any]) -> ContextManager:
        rules = Policy.buffered().change(POLICIES[policy])
        given = {name: make() if callable(make) else make for name, make in given.items()}
        made = ContextManager(
            model=MODEL, policy=rules, context_window=WINDOW, clock=lambda: self.now, log=log,
            transcript_path="/session.jsonl", session_id="s", **given
        )  # fmt: skip
        ids, keeper = count(), made._keeper
        keeper._ids = lambda: f"00000000-0000-4000-8000-{next(ids):012}"
        if keeper._journal is not None:
            keeper._journal._ids = keeper._ids
        return made

    def each(self, act: Any) -> None:
        """Does the same to both; both answer or refuse alike."""
        told = []
        for manager in self.both:
            try:
                told.append(act(manager))
            except UllageError as error:
                told.append((type(error).__name__, str(error)))
        assert told[0] == told[1]

    def prepare(self) -> None:
        self.each(lambda manager: shown(manager.prepare()))

    def check(self) -> None:
        self.each(lambda manager: manager.usage())
        self.each(lambda manager: manager.explain())
        self.each(lambda manager: manager.machine.records)
        self.each(lambda manager: manager.save(history=True))


def shown(request: Any) -> dict[str, Any]:
    names = (
        "number", "tokens", "messages", "reports", "repairs", "losses", "parts", "params", "headers", "tools",
        "applied_edits", "cache_edits", "rewritten_from", "body", "records",
    )  # fmt: skip
    return {name: getattr(request, name) for name in names}


# ---- steps -----------------------------------------------------------------------------------

sizes = st.sampled_from([1, 40, 40, 40, 400, 2_500, 2_500, 9_000])
KINDS = (
    "round", "round", "round", "round", "round", "observed", "observed", "words", "words", "two rounds", "parallel", "empty",
    "marker", "blocks", "thinking", "thinking round", "marked", "image", "again", "late", "pause", "prepare", "usage", "pin", "compact", "rewind",
    "refused", "saved",
)  # fmt: skip
steps = st.lists(st.tuples(st.sampled_from(KINDS), sizes), min_size=3, max_size=30)


def parallel(pair: Pair, chars: int) -> Iterator[Any]:
    names = [f"t{next(pair.numbers)}" for _ in range(3)]
    yield said([use(name, "Read", file_path=f"/src/{name}.py") for name in names])
    yield user([result(name, "word " * (chars // 5 + 1)) for name in names])


def one_round(pair: Pair, chars: int, content: Any = None, **more: Any) -> Iterator[Any]:
    name = f"t{next(pair.numbers)}"
    call = use(name, "Read", file_path=f"/src/{chars}.py")
    yield said([text("Next."), call], **more)
    yield user([result(name, "line of text\n" * (chars // 13 + 1) if content is None else content)])


def add(pair: Pair, messages: Iterator[Any]) -> None:
    for message in in_form(pair.slow.machine.provider, list(messages)):
        pair.each(lambda manager, message=message: manager.add(message))


def body_of(provider: Any, answer: Any) -> Any:
    """A response as the provider gives it."""
    if provider.internal:
        return answer
    items, usage = in_form(provider, [answer]), answer["usage"]
    match provider.name:
        case "openai_responses":
            return {"id": answer["id"], "output": items, "usage": usage}
        case "gemini":
            return {"responseId": answer["id"], "candidates": [{"content": items[0]}]}
        case "bedrock":
            return {"output": {"message": items[0]}}
    return {"id": answer["id"], "choices": [{"message": items[0]}], "usage": usage}


def in_form(provider: Any, messages: list[Any]) -> list[Any]:
    """Messages in the provider's form, none of them the first."""
    if provider.internal or not messages:
        return messages
    before = [user(".")] if messages[0]["role"] == "assistant" else []
    shape = provider.shape.to_provider([*before, *messages])
    return list(shape.parts[provider.list_key][len(before) :])


def take(pair: Pair, kind: str, chars: int) -> None:
    """One step of a conversation, and the request after it."""
    pair.now += 20_000
    match kind:
        case "round":
            add(pair, one_round(pair, chars))
        case "observed":
            answer, results = one_round(pair, chars)
            usage = {"input_tokens": pair.slow.usage().tokens + 40, "output_tokens": 30}
            answer = {**answer, "id": f"msg_{chars}_{next(pair.numbers)}", "usage": usage}
            body = body_of(pair.slow.machine.provider, answer)
            pair.each(lambda manager: manager.observe(body))
            add(pair, iter([results]))
        case "words":
            add(pair, iter([said("Done."), user("go on " * (chars // 6 + 1))]))
        case "two rounds":
            add(pair, one_round(pair, chars))
            add(pair, one_round(pair, 40))
        case "parallel":
            add(pair, parallel(pair, chars))
        case "empty":
            add(pair, one_round(pair, chars, ""))
        case "marker":
            add(pair, one_round(pair, chars, "[Old tool result content cleared]"))
        case "blocks":
            add(pair, one_round(pair, chars, [text("word " * (chars // 5 + 1))]))
        case "thinking":
            block = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
            add(pair, iter([said([block, text("So.")]), user("yes")]))
        case "thinking round":
            block = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
            answer, results = one_round(pair, chars)
            add(pair, iter([{**answer, "content": [block, *answer["content"]]}, results]))
        case "marked":
            marker = {"cache_control": {"type": "ephemeral"}}
            answer, results = one_round(pair, chars)
            add(pair, iter([answer, user([{**results["content"][0], **marker}])]))
        case "image":
            source = {"type": "url", "url": "https://example.org/a.png"}
            add(pair, iter([said("See."), user([{"type": "image", "source": source}])]))
        case "again":
            call = use("t0", "Read", file_path="/src/again.py")
            add(pair, iter([said([call]), user([result("t0", "second")])]))
        case "late":
            add(pair, iter([user("one"), user("two"), said("three"), user("four")]))
        case "pause":
            pair.now += 10 * MINUTE
        case "usage":
            pair.each(lambda manager: manager.usage())
        case "pin":
            pair.each(lambda manager: manager.pin("rule", "never push"))
        case "compact":
            pair.each(lambda manager: manager.compact().outcome)
        case "rewind":
            pair.each(lambda manager: manager.rewind(max(1, len(manager.history) - 3)))
        case "refused":
            error = {"error": {"type": "invalid_request_error", "message": "prompt is too long"}}
            pair.each(lambda manager: bool(manager.on_overflow(error)))
        case "saved":
            pair.check()
    pair.prepare()


def follow(pair: Pair, taken: Any) -> None:
    add(pair, iter([user("build all parts, never delete a file")]))
    pair.prepare()
    for kind, chars in taken:
        take(pair, kind, chars)
    pair.check()


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=6)
@given(taken=steps)
def test_every_request_is_what_the_levels_would_have_left(policy, taken):
    follow(Pair(None, policy), taken)


@settings(max_examples=5)
@given(taken=steps, policy=st.sampled_from(sorted(POLICIES)))
def test_with_a_log(policy, taken):
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder), policy)
        follow(pair, taken)
        for manager in pair.both:
            manager.close()
        again = [ContextManager.resume(Path(folder) / f"{name}.jsonl") for name in "ab"]
        assert again[0].messages == again[1].messages
        for manager in again:
            manager.close()


@settings(max_examples=5)
@given(taken=steps, policy=st.sampled_from(["default", "snip", "lines"]))
def test_with_a_store_tools_and_a_system_prompt(policy, taken):
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("Read", "recall")]
    follow(Pair(None, policy, store=MemoryStore, tools=tools, system="You build."), taken)


@pytest.mark.parametrize(
    "form", ["openai_chat", "openai_responses", "gemini", "bedrock", "mistral"]
)
@settings(max_examples=5)
@given(taken=steps, policy=st.sampled_from(["default", "snip", "lines"]))
def test_in_another_form(form, policy, taken):
    tools = [{"name": "Read", "description": "reads", "input_schema": {"type": "object"}}]
    follow(Pair(None, policy, provider=form, system="You build.", tools=tools), taken)


@pytest.mark.parametrize("form", ["openai_chat", "openai_responses", "gemini"])
def test_another_form_is_translated_as_it_grows(form):
    pair = Pair(None, "default", provider=form)
    add(pair, iter([user("build all parts")]))
    pair.prepare()
    for number in range(30):
        take(pair, "observed" if number % 2 else "round", 200)
    assert pair.fast._marks.made > 20
    before, after = pair.fast.prepare(), pair.fast.prepare()
    assert before.messages[-1] is after.messages[-1]


def test_a_summarizer_in_the_background_is_started_at_the_same_turn():
    pair = Pair(None, "ahead", summarizer=Written)
    add(pair, iter([user("build all parts")]))
    pair.prepare()
    started = [[], []]
    for at, manager in enumerate(pair.both):
        manager.host.ahead.start = lambda job, at=at, in_loop=False: started[at].append(
            len(job.items)
        )
    for _ in range(70):
        add(pair, one_round(pair, 900))
        pair.each(lambda manager: manager.prepare().number)
    assert pair.fast._marks.made > 20
    assert started[0] == started[1]
    assert started[0]


# ---- that it is taken, and what it costs -----------------------------------------------------


def test_most_turns_of_an_agent_ask_no_level():
    for policy in ("default", "snip", "lines", "time", "ladder"):
        pair = Pair(None, policy)
        add(pair, iter([user("build all parts")]))
        pair.prepare()
        for number in range(60):
            take(pair, "observed" if number % 2 else "round", 200)
        assert pair.fast._marks.made > 40, policy


def test_a_level_without_marks_is_asked_always_and_switches_nothing_else_off():
    asked: list[str] = []
    others = [level._replace(run=partial(asking, asked, level)) for level in pipeline.ORDER]

    def run(context: Any) -> None:
        asked.append("own")

    manager = ContextManager(model=MODEL, context_window=1_000_000)
    manager.machine.levels = (*others[:3], Level("own", run), *others[3:])
    manager._marks = Marks(manager.machine.levels)
    manager.add(user("build all parts"))
    manager.prepare()
    assert set(asked) == {"own", *(level.name for level in pipeline.ORDER)}
    for number in range(5):
        asked.clear()
        use_of = use(f"t{number}", "Bash", command="make")
        idle(manager, said([text("Next."), use_of]), user([result(f"t{number}", "fine")]), True)
        assert asked == ["own"]


def asking(asked: list[str], level: Level, context: Any) -> Any:
    asked.append(level.name)
    return level.run(context)


@pytest.mark.parametrize("acts", [False, True])
def test_what_such_a_level_changes_is_shown_to_the_levels_after_it(acts):
    seen: list[int] = []

    def own(context: Any) -> None:
        if acts and len(context.view) > 2:
            context.view.append_text(len(context.view) - 1, "noted")

    def after(context: Any) -> None:
        seen.append(len(context.view))

    manager = ContextManager(model=MODEL, context_window=1_000_000)
    asked = Level("after", after, rest=lambda context: NEVER)
    manager.machine.levels = (*pipeline.ORDER, Level("own", own), asked)
    manager._marks = Marks(manager.machine.levels)
    manager.add(user("build all parts"))
    manager.prepare()
    idle(manager, said("One."), user("go on"), True)
    assert seen == ([1, 3] if acts else [1])


@pytest.mark.skipif(
    NAME == "python", reason="its calls are the twin's, which are not counted in Rust"
)
@pytest.mark.parametrize("observes", [False, True])
def test_an_idle_turn_makes_few_calls(observes):
    manager = ContextManager(model=MODEL, context_window=1_000_000)
    manager.add(user("build all parts"))
    manager.prepare()
    spent = []
    for number in range(200):
        call = use(f"t{number}", "Bash", command=f"make {number}")
        answer, results = said([text("Next."), call]), user([result(f"t{number}", "fine\n" * 20)])
        spent.append(calls(partial(idle, manager, answer, results, observes)))
    assert max(spent[10:]) <= (250 if observes else 200)
    # From about the 60th on the request is long enough to be cached.
    assert min(spent[190:]) <= min(spent[90:100])


def idle(manager: ContextManager, answer: Any, results: Any, observes: bool) -> None:
    (manager.observe if observes else manager.add)(answer)
    manager.add(results)
    manager.prepare()
