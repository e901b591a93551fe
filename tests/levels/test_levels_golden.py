"""For each level one conversation in which it alone acts, and one next to it in which it must not.

The levels run in the pipeline's own order, all of them, so that a case also shows that the others keep still.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.oracle.legality import assert_legal
from ullage.counting.models import ModelTable
from ullage.levels.pipeline import ORDER
from ullage.levels.turn_snip import SNIP_TOOL
from ullage.manager import ContextManager
from ullage.policy import Policy
from ullage.recall.store import MemoryStore
from ullage.testing.generator import png

pytestmark = pytest.mark.both_engines

MODEL = "claude-opus-4-5"
NOON = 1_767_268_800_000  # 1 January 2026, 12:00 UTC
HOUR = 3_600_000


def step(number: int, words: int, tool: str = "Bash", **given: Any) -> list[dict]:
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": tool,
        "input": given or {"command": f"run {number}"},
    }
    text = f"result {number}\n" + "word " * words
    return [
        {"role": "assistant", "content": [call], "timestamp": "2026-01-01T12:00:00Z"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text}]},
    ]  # fmt: skip


def screenshots(count: int) -> list[list[dict]]:
    """Steps whose results are an image each, after a word."""
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(png(200, 200)).decode(),
    }
    taken = [step(number, 1, "Browser", url=f"/{number}") for number in range(count)]
    for _, result in taken:
        block = result["content"][0]
        text = {"type": "text", "text": block["content"]}
        block["content"] = [text, {"type": "image", "source": source}]
    return taken


def asked(*steps: list[dict]) -> list[dict]:
    return [{"role": "user", "content": "Please go on."}, *(m for each in steps for m in each)]


def at_once(*steps: list[dict]) -> list[dict]:
    """Calls of one response, and their results in one message."""
    calls, results = zip(*steps, strict=True)
    return [
        {"role": "user", "content": "Please go on."},
        {"role": "assistant", "content": [block for each in calls for block in each["content"]]},
        {"role": "user", "content": [block for each in results for block in each["content"]]},
    ]


def long_words(words: int, *rest: dict) -> list[dict]:
    return [
        {"role": "user", "content": "word " * words},
        {"role": "assistant", "content": "ok"},
        *rest,
    ]


def turns(count: int, words: int) -> list[dict]:
    said: list[dict] = []
    for turn in range(count):
        said += [
            *asked(step(turn, words)),
            {"role": "assistant", "content": f"Turn {turn} is done."},
        ]
    return [*said, {"role": "user", "content": "And now?"}]


def nothing(manager: ContextManager) -> None:
    """Before the request that counts."""


def snip_first(manager: ContextManager) -> None:
    manager.prepare()
    name = manager.messages[0]["content"][-1]["text"][4:-1]
    assert not manager.answer("Snip", {"ids": [name]}).is_error


def snip_current(manager: ContextManager) -> None:
    manager.prepare()
    name = manager.messages[-1]["content"][-1]["text"][4:-1]
    assert manager.answer("Snip", {"ids": [name]}).is_error


def cleared_by(count: int) -> Callable[[ContextManager], None]:
    """An answer in which the provider says what it cleared."""
    edit = {
        "type": "clear_tool_uses_20250919",
        "cleared_tool_uses": count,
        "cleared_input_tokens": 9,
    }
    managed = {"applied_edits": [edit] if count else []}

    def before(manager: ContextManager) -> None:
        manager.prepare()
        manager.observe({"role": "assistant", "content": "ok", "context_management": managed})
        manager.add({"role": "user", "content": "go on"})

    return before


@dataclass(frozen=True)
class Case:
    """`acts` lies just inside of the level's mark, `still` just outside. `left`: whose results, and how many messages; `None` where
    that hangs on the weights of the estimate."""

    stage: str
    acts: list[dict]
    still: list[dict]
    left: tuple[tuple[str, ...], int] | None
    policy: dict[str, Any] = field(default_factory=dict)
    before: tuple[Callable[[ContextManager], None], Callable[[ContextManager], None]] = (
        nothing,
        nothing,
    )
    window: int = 200_000
    now_ms: tuple[int | None, int | None] = (None, None)
    more: dict[str, Any] = field(default_factory=dict)


OTHERS_OFF = {"snip.enabled": False, "tool_budget.enabled": False, "micro.by_supersession": False}
CLEAR = {
    "edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 5}}]
}

CASES = [
    Case("tool_budget", asked(step(1, 10_000)), asked(step(1, 9_990)), (("t1",), 0), {"snip.enabled": False}),
    Case("tool_budget", at_once(*(step(n, 8_100) for n in range(5))), at_once(*(step(n, 7_900) for n in range(5))),
         (("t0",), 0), {"snip.enabled": False}),
    Case("snip", asked(step(1, 2_000), step(2, 1)), asked(step(1, 1_990), step(2, 1)), (("t1",), 0), {"snip.start_percent": 0}),
    Case("turn_snip", turns(3, 100), turns(3, 100), ((), 4), before=(snip_first, snip_current),
         more={"tools": [SNIP_TOOL.definition()]}),
    Case("context_edits", asked(*(step(n, 400) for n in range(5))), asked(*(step(n, 400) for n in range(4))),
         (("t0", "t1"), 0), more={"model": "gpt-5", "context_management": CLEAR}),
    Case("provider_clearing", turns(6, 100), turns(6, 100), (("t0", "t1"), 0), {"micro.by_provider": True},
         before=(cleared_by(2), cleared_by(0))),
    Case("microcompact", asked(*(step(n, 900) for n in range(9))), asked(*(step(n, 900) for n in range(9))),
         (("t0", "t1", "t2", "t3"), 0), {"micro.by_time": True}, now_ms=(NOON + HOUR, NOON + HOUR - 1)),
    Case("microcompact", asked(*(step(n, 900, "Read", file_path="/a") for n in range(11))),
         asked(*(step(n, 900, "Read", file_path=f"/{n}") for n in range(11))), (("t0", "t1", "t2"), 0), window=60_000,
         policy={"micro.supersede_start_percent": 10}),
    Case("microcompact", asked(*(step(n, 900) for n in range(17))), asked(*(step(n, 900) for n in range(13))),
         (("t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"), 0), {**OTHERS_OFF, "auto.enabled": False, "micro.by_line": True},
         window=32_000),
    Case("collapse", turns(40, 400), turns(24, 400), None, {**OTHERS_OFF, "collapse.enabled": True,
         "collapse.min_span_tokens": 500}, window=30_000),
    Case("autocompact", turns(40, 400), turns(20, 400), None, {**OTHERS_OFF, "auto.start_percent": 60},
         window=40_000),
    Case("fold", turns(40, 400), turns(30, 400), None, {**OTHERS_OFF, "auto.enabled": False}, window=22_500),
    Case("truncate", long_words(8_000, *turns(10, 400)), long_words(1_000, *turns(4, 400)), None,
         {**OTHERS_OFF, "auto.enabled": False}, window=8_000),
    Case("image_limit", asked(*screenshots(101)), asked(*screenshots(100)), (tuple(f"t{n}" for n in range(26)), 0)),
    Case("squeeze", asked(step(1, 30_000)), asked(step(1, 8_000)), (("t1",), 0),
         {**OTHERS_OFF, "auto.enabled": False}, window=20_000),
]  # fmt: skip


def request_of(case: Case, messages: list[dict], which: int) -> Any:
    table = ModelTable.builtin().learned(MODEL, case.window)
    policy = Policy.buffered().change(case.policy)
    options = {
        "model": MODEL,
        "table": table,
        "policy": policy,
        "store": MemoryStore(),
        **case.more,
    }
    manager = ContextManager(**options)
    for message in messages:
        manager.add(message)
    case.before[which](manager)
    return manager.prepare(now_ms=case.now_ms[which])


@pytest.mark.parametrize("case", CASES, ids=[f"{c.stage}-{at}" for at, c in enumerate(CASES)])
def test_only_this_level_acts(case):
    request = request_of(case, case.acts, 0)
    assert [report.stage for report in request.reports] == [case.stage]
    (report,) = request.reports
    assert case.left in (None, (report.tool_use_ids, report.removed_messages))
    assert report.freed > 0
    assert_legal("anthropic", request.messages, model=MODEL)


@pytest.mark.parametrize("case", CASES, ids=[f"{c.stage}-{at}" for at, c in enumerate(CASES)])
def test_and_here_it_must_not(case):
    assert [report.stage for report in request_of(case, case.still, 1).reports] == []


def test_an_empty_result_gets_a_note_and_one_with_a_word_does_not():
    call, result = step(1, 0)
    empty = {"role": "user", "content": [{**result["content"][0], "content": ""}]}
    case = Case("tool_budget", asked([call, empty]), asked([call, result]), None)
    noted, still = request_of(case, case.acts, 0), request_of(case, case.still, 1)
    assert [(report.stage, report.tool_use_ids) for report in noted.reports] == [
        ("tool_budget", ("t1",))
    ]
    assert noted.reports[0].why == "empty results"
    assert noted.messages[-1]["content"][0]["content"] == "(the tool gave no output)"
    assert still.reports == ()


def test_truncation_comes_only_where_a_fold_cannot():
    def after(words: int) -> list[str]:
        messages = long_words(words, *turns(10, 400))
        case = Case("", messages, [], None, {**OTHERS_OFF, "auto.enabled": False}, window=8_000)
        return [report.stage for report in request_of(case, messages, 0).reports]

    assert after(8_000) == ["truncate"]
    assert after(3_500) == ["fold"]


def test_cache_edits_alone_are_named_and_below_the_mark_nothing_is():
    steps = [step(n, 900) for n in range(20)]
    case = Case(
        "microcompact", asked(*steps), asked(*steps[:8]), None,
        {**OTHERS_OFF, "auto.enabled": False, "micro.by_cache_edit": True}, window=32_000,
    )  # fmt: skip
    named, still = request_of(case, case.acts, 0), request_of(case, case.still, 1)
    assert [(report.stage, report.freed) for report in named.reports] == [("microcompact", 0)]
    assert named.cache_edits == tuple(f"t{n}" for n in range(15))
    assert [m["content"] for m in named.messages] == [m["content"] for m in case.acts]
    assert (still.reports, still.cache_edits) == ((), ())


def test_every_level_has_a_case():
    # Nothing is taken from a request by these: tools and notices, thinking that is stale, what was pinned.
    apart = {"offers", "drop_stale_thinking", "pins", "autocompact_after_collapse"}
    assert {case.stage for case in CASES} == {level.name for level in ORDER} - apart


def test_a_level_has_the_name_of_its_file():
    # One file holds both looks of autocompact: before collapse and after it.
    named = {level.name: level.run.__module__.rpartition(".")[2] for level in ORDER}
    assert named.pop("autocompact_after_collapse") == "autocompact"
    assert all(name == module for name, module in named.items())
