"""With manual thinking no request begins an open turn without its thinking (A14), whatever level, window or cut (P-1a)."""

from __future__ import annotations

import copy
import json
import os
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import (
    CompactionError,
    ContextManager,
    ContextTooLarge,
    InvalidPolicy,
    Policy,
    WindowSettings,
    compact,
    keep_window,
    truncate_head,
)
from ullage.compaction import CompactionResult
from ullage.legality import validate

MANUAL = {"type": "enabled", "budget_tokens": 2_000}
MODELS = ("claude-opus-4-6", "claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5")
EXAMPLES = int(os.environ.get("ULLAGE_EXAMPLES", "10"))
several = settings(max_examples=2 * EXAMPLES, deadline=None)
seeds = st.integers(0, 2**32)


def text(rng: random.Random, words: int) -> str:
    return " ".join(f"w{rng.randrange(10**6)}" for _ in range(words))


def thought(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.2:
        return {"type": "redacted_thinking", "data": f"d{rng.randrange(10**9)}"}
    return {"type": "thinking", "thinking": text(rng, 15), "signature": f"s{rng.randrange(10**9)}"}


def talk(rng: random.Random, *, interleaved: float) -> list[dict[str, Any]]:
    """Turns as a model with manual thinking makes them; `interleaved`: how often it thinks between calls."""
    made: list[dict[str, Any]] = []
    for turn in range(rng.randrange(1, 5)):
        made.append({"role": "user", "content": text(rng, rng.choice([5, 40]))})
        steps = rng.choice([0, 1, 4, 25])
        for number in range(steps):
            calls = [f"toolu_{turn}_{number}_{at}" for at in range(rng.choice([1, 1, 1, 3]))]
            blocks: list[Any] = []
            if not number or rng.random() < interleaved:
                blocks.append(thought(rng))
            if rng.random() < 0.3:
                blocks.append({"type": "text", "text": text(rng, 10)})
            blocks += [{"type": "tool_use", "id": one, "name": "run", "input": {}} for one in calls]
            results: list[Any] = [
                {
                    "type": "tool_result",
                    "tool_use_id": one,
                    "content": text(rng, rng.choice([5, 200])),
                }
                for one in calls
            ]
            if rng.random() < 0.1:
                results.append({"type": "text", "text": text(rng, 5)})
            made += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
        if turn < 3 and rng.random() < 0.7:
            said = [*([] if steps else [thought(rng)]), {"type": "text", "text": "done"}]
            made.append({"role": "assistant", "content": said})
    if made[-1]["role"] == "assistant":
        made.append({"role": "user", "content": "go on"})
    return made


def faults(messages: Any, model: str) -> list[Any]:
    found = validate(list(messages), model=model, thinking=MANUAL, skip=("A24",))
    return [each for each in found.errors if each.rule != "A11"]


def changed(**changes: Any) -> Policy:
    fields = {name.replace("__", "."): value for name, value in changes.items()}
    return Policy.buffered().change({"micro.min_freed_tokens": 100, **fields})


LEVELS = {
    "autocompact": changed(auto__start_percent=60),
    "fold": changed(auto__enabled=False),
    "early": changed(auto__enabled=False, truncate__start_percent=40, truncate__margin_tokens=100),
    "collapse": changed(
        collapse__enabled=True, collapse__min_span_tokens=200, collapse__keep_recent_rounds=1
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("interleaved", [0.0, 0.5, 1.0])
@settings(max_examples=max(3, EXAMPLES // 4), deadline=None)
@given(seed=seeds, model=st.sampled_from(MODELS), window=st.sampled_from([5_000, 9_000, 20_000]))
def test_no_level_of_a_manager_sends_a_split_turn(
    level: str, interleaved: float, seed: int, model: str, window: int
) -> None:
    rng = random.Random(seed)
    items = talk(rng, interleaved=interleaved)
    before = copy.deepcopy(items)
    marks = WindowSettings(auto_compact_window=window)
    made = ContextManager(model=model, policy=LEVELS[level], thinking=MANUAL, settings=marks)
    for at, message in enumerate(items):
        made.add(message)
        act = rng.choice(["", "", "", "", "compact", "overflow", "save"])
        with suppress(ContextTooLarge, CompactionError):
            if act == "compact":  # also between calls and their results
                made.compact()
            elif act == "overflow" and made.machine.requests:
                made.on_overflow(ValueError("prompt is too long: 9000 tokens > 5000 maximum"))
            elif act == "save":
                made = ContextManager.restore(
                    json.loads(json.dumps(made.save(history=True))), settings=marks
                )
            if message["role"] == "user" and (rng.random() < 0.3 or at == len(items) - 1):
                request = made.prepare()
                assert faults(request.messages, model) == []
    assert items == before


@several
@given(
    seed=seeds,
    model=st.sampled_from(MODELS),
    keep=st.sampled_from([None, 0, 300, 2_000, 6_000]),
    interleaved=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_a_compacted_list_is_no_split_turn(
    seed: int, model: str, keep: int | None, interleaved: float
) -> None:
    rng = random.Random(seed)
    items = talk(rng, interleaved=interleaved)
    done = compact(items, model=model, keep=keep, thinking=MANUAL)
    assert faults(done.messages, model) == []
    assert all(any(kept is item for item in items) for kept in done.kept[:-2])


@several
@given(
    seed=seeds,
    model=st.sampled_from(MODELS),
    target=st.sampled_from([300, 900, 2_000, 5_000, 12_000]),
    keep=st.sampled_from([None, 0, 2_000, 20_000]),
    interleaved=st.sampled_from([0.0, 0.3, 1.0]),
    share=st.floats(0.2, 1.0),
)
def test_a_list_compacted_to_a_target_is_no_split_turn(
    seed: int, model: str, target: int, keep: int | None, interleaved: float, share: float
) -> None:
    """Also between calls and their results: what comes then continues after what was kept."""
    items = talk(random.Random(seed), interleaved=interleaved)
    place = max(int(len(items) * share), 1)
    done, target = to_target(items[:place], target, model=model, keep=keep)
    calls = {block["id"] for block in blocks(items[place - 1]) if block["type"] == "tool_use"}
    coming = items[place:][:1] if calls else []
    if done.messages[-1]["role"] == "assistant" and not coming:
        coming = [{"role": "user", "content": "go on"}]
    assert faults([*done.messages, *coming], model) == []
    over = [warning for warning in done.report.warnings if warning.startswith("over_target:")]
    assert bool(over) == (done.report.messages_after > target)


def to_target(
    items: list[dict[str, Any]], target: int, *, model: str, keep: int | None
) -> tuple[CompactionResult, int]:
    """The list compacted to the target, or where that is refused to the smallest one, which the error names."""
    try:
        done = compact(items, model=model, keep=keep, target_tokens=target, thinking=MANUAL)
    except ContextTooLarge as exc:
        target = exc.floor_tokens
        done = compact(items, model=model, keep=keep, target_tokens=target, thinking=MANUAL)
    return done, target


def blocks(message: dict[str, Any]) -> list[Any]:
    return message["content"] if isinstance(message["content"], list) else []


def test_calls_that_wait_are_kept_from_their_thinking_on_whatever_the_target() -> None:
    steps = talk(random.Random(0), interleaved=0.0)
    steps = [message for message in steps if message["role"] == "user"][:1]
    thinking: dict[str, Any] = {"type": "thinking", "thinking": "so", "signature": "s1"}
    for number in range(12):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "run", "input": {}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "row " * 300}
        content = [call] if number else [thinking, call]
        steps += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    old = [
        {"role": "user", "content": "before " * 900},
        {"role": "assistant", "content": "done " * 900},
    ]
    items = [*old, *steps]
    done, _ = to_target(items[:-1], 900, model=MODELS[0], keep=0)
    assert thinking in done.kept[0]["content"] or thinking in done.kept[1]["content"]
    assert faults([*done.messages, items[-1]], MODELS[0]) == []


@several
@given(seed=seeds, tokens=st.sampled_from([1, 500, 4_000]), interleaved=st.sampled_from([0.0, 0.5]))
def test_what_list_functions_cut_is_no_split_turn(
    seed: int, tokens: int, interleaved: float
) -> None:
    items = talk(random.Random(seed), interleaved=interleaved)
    window = keep_window(
        items, min_tokens=0, max_tokens=tokens, min_text_messages=0, thinking=MANUAL
    )
    head = truncate_head(items, share_percent=min(90, 1 + tokens // 50), thinking=MANUAL)
    summary = {"role": "user", "content": "What came before."}
    for kept in (window.messages, head.messages):
        assert faults([summary, *kept], MODELS[0]) == []


def test_other_modes_and_providers_are_left_alone() -> None:
    items = talk(random.Random(3), interleaved=0.0)
    items = [message for message in items if message["role"] in ("user", "assistant")]
    for thinking in (None, {"type": "adaptive"}, {"type": "disabled"}):
        made = ContextManager(model="claude-opus-4-6", thinking=thinking)
        for message in items:
            made.add(message)
        assert list(made.prepare().messages) == items
    same = compact(items, model="gpt-5.4", keep=0, thinking={"effort": "high"})
    assert same.messages == compact(items, model="gpt-5.4", keep=0).messages


def test_a_setting_that_is_none_is_refused_by_name() -> None:
    for wrong, field in (("enabled", "thinking"), ({"type": "on"}, "thinking.type")):
        with pytest.raises(InvalidPolicy) as caught:
            ContextManager(model="claude-opus-4-5", thinking=wrong)  # type: ignore[arg-type]
        assert caught.value.field == field
        with pytest.raises(InvalidPolicy):
            compact([{"role": "user", "content": "x"}], thinking=wrong)  # type: ignore[arg-type]


def test_the_setting_is_saved_with_the_manager() -> None:
    made = ContextManager(model="claude-opus-4-5", thinking=MANUAL)
    made.add({"role": "user", "content": "x"})
    stored = json.loads(json.dumps(made.save(history=True)))
    assert stored["thinking"] == MANUAL
    again = ContextManager.restore(stored)
    assert again.save(history=True)["thinking"] == MANUAL
    other = ContextManager.restore(stored, thinking={"type": "adaptive"})
    assert other.save(history=True)["thinking"] == {"type": "adaptive"}
