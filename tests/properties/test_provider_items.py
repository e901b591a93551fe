"""The provider's own compaction item is never lost: through every level, form, save and log, or there is a named error."""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import (
    CompactionError,
    ContextManager,
    ContextTooLarge,
    Policy,
    WindowSettings,
    compact,
    compact_session,
    open_session,
)
from ullage.compaction.job import Remembered
from ullage.facts.sections import newest_item
from ullage.legality import validate
from ullage.providers import SHAPES
from ullage.requests.to_request import outgoing

WINDOW = 12_000
MODELS = {
    "anthropic": "claude-opus-4-5",
    "bedrock": "claude-opus-4-5",
    "openai_chat": "gpt-5.4",
    "openai_responses": "gpt-5.4",
    "gemini": "gemini-2.5-pro",
    "mistral": "mistral-large-latest",
}
SEALED = "c2VhbGVk" * 30
WORDS = "ticket 4711 is open"

EXAMPLES = int(os.environ.get("ULLAGE_EXAMPLES", "10"))
few = settings(max_examples=EXAMPLES, deadline=None)
seeds = st.integers(0, 2**32)


def foreign(kind: str) -> dict[str, Any]:
    item = {"type": kind, "id": f"cmp_{kind}", "encrypted_content": SEALED}
    return {"type": "foreign", "foreign": {"openai_responses": {"item": item}}}


ITEMS: dict[str, dict[str, Any]] = {
    "plain": {"type": "compaction", "content": WORDS},
    "signed": {"type": "compaction", "content": WORDS, "signature": "EqQBsig"},
    "sealed": {"type": "compaction", "content": None, "encrypted_content": SEALED},
    "openai": foreign("compaction"),
    "codex": foreign("compaction_summary"),
}
FAMILY = {"plain": "anthropic", "signed": "anthropic", "sealed": "anthropic"}


def text(rng: random.Random, words: int) -> str:
    return " ".join(f"w{rng.randrange(10**6)}" for _ in range(words))


def talk(rng: random.Random, item: dict[str, Any]) -> list[dict[str, Any]]:
    """A legal conversation in the internal view with one item or several, the newest of which is `item`."""
    made: list[dict[str, Any]] = []
    rounds = rng.randrange(2, 40)
    place = rng.choice([0, rng.randrange(rounds), rounds - 1])
    first = rng.random() < 0.5 or "signature" in item
    if first:
        made.append({"role": "assistant", "content": [item]})
    made.append({"role": "user", "content": text(rng, 20)})
    for number in range(rounds):
        blocks: list[Any] = []
        if not first and number == place:
            older = [] if rng.random() < 0.7 else [{"type": "compaction", "content": "older"}]
            blocks += [*older, item]
        if rng.random() < 0.6:
            blocks.append({"type": "text", "text": text(rng, rng.randrange(1, 60))})
        calls = [f"toolu_{number}_{at}" for at in range(rng.choice([0, 1, 1, 3]))]
        blocks += [{"type": "tool_use", "id": one, "name": "run", "input": {}} for one in calls]
        if not blocks:
            continue
        made.append({"role": "assistant", "content": blocks})
        size = rng.choice([5, 100, 400])
        results = [
            {"type": "tool_result", "tool_use_id": one, "content": text(rng, size)} for one in calls
        ]
        said = [{"type": "text", "text": text(rng, 10)}] if not calls or rng.random() < 0.2 else []
        made.append({"role": "user", "content": [*results, *said]})
    return made


class Notes:
    """Notes that stand for all but the newest messages."""

    def recall_flow(self, items: Any, measure: Any) -> Any:
        yield from ()
        return Remembered(max(0, len(items) - 3), lambda tokens: "# Current State\nwork goes on")

    def answered(self, *args: Any, **kwargs: Any) -> None: ...

    def compacted(self, tokens: int) -> None: ...


def changed(**changes: Any) -> Policy:
    shares = {"auto.start_percent": 60, "micro.min_freed_tokens": 100}
    return Policy.buffered().change(
        {**shares, **{k.replace("__", "."): v for k, v in changes.items()}}
    )


OFF = {"auto__enabled": False}
LEVELS: dict[str, tuple[Policy, bool]] = {
    "autocompact": (changed(), False),
    "notes": (changed(), True),
    "fold": (changed(**OFF), False),
    "small steps": (changed(**OFF, truncate__start_percent=50, truncate__margin_tokens=100), False),
    "collapse": (
        changed(
            collapse__enabled=True, collapse__min_span_tokens=200, collapse__keep_recent_rounds=1
        ),
        False,
    ),
    "snip and clear": (changed(micro__by_time=True, snip__max_chars=1_000), False),
}


def manager(provider: str, level: str) -> ContextManager:
    policy, notes = LEVELS[level]
    return ContextManager(
        model=MODELS[provider],
        provider=provider,
        policy=policy,
        memory=Notes() if notes else None,
        settings=WindowSettings(auto_compact_window=WINDOW),
    )


def in_form(found: Any, provider: str) -> Any:
    """The item as this provider's request holds it."""
    return found["foreign"]["openai_responses"]["item"] if provider == "openai_responses" else found


def assert_there(kind: str, item: Any, request: Any, provider: str) -> None:
    body = json.dumps([dict(request.parts), list(request.messages)], default=str)
    if FAMILY.get(kind, "openai_responses") == provider:
        held = json.dumps(in_form(item, provider))
        assert held in body, f"the item is gone from {provider}"
    elif WORDS in json.dumps(item):
        assert WORDS in body
    else:
        assert any(loss.what == "compaction" for loss in request.losses)
    around = {key: value for key, value in request.parts.items() if key == "toolConfig"}
    found = validate(list(request.messages), provider=provider, model=MODELS[provider], **around)
    assert not found.errors, found.errors[:3]


def step(made: ContextManager, rng: random.Random, provider: str) -> ContextManager:
    """Something a host may do between two requests."""
    act = rng.choice(["none", "compact", "overflow", "save", "expand", "older"])
    if act == "compact":
        made.compact()
    elif act == "overflow":
        made.on_overflow(ValueError("prompt is too long: 14000 tokens > 9000 maximum"))
    elif act == "save":
        stored = json.loads(json.dumps(made.save(history=True)))
        memory = made.host.memory
        return ContextManager.restore(
            stored, memory=memory, settings=WindowSettings(auto_compact_window=WINDOW)
        )
    return made


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=max(2, EXAMPLES // 10), deadline=None)
@given(seed=seeds)
def test_through_every_level_and_provider(level: str, kind: str, seed: int) -> None:
    for provider in random.Random(seed).sample(sorted(SHAPES), 3):
        rng = random.Random(seed)
        item = ITEMS[kind]
        items = talk(rng, item)
        given_items = copy.deepcopy(items)
        made = manager(provider, level)
        for at, message in enumerate(items):
            made.add({"type": message["role"], "message": message})
            ready = message["role"] == "user" and any(newest_item([m]) for m in items[: at + 1])
            if not ready or (rng.random() > 0.15 and at < len(items) - 1):
                continue
            try:
                assert_there(kind, item, made.prepare(now_ms=at * 10**7), provider)
                made = step(made, rng, provider)
            except (ContextTooLarge, CompactionError):
                pass
        assert items == given_items


@few
@given(
    seed=seeds,
    kind=st.sampled_from(sorted(ITEMS)),
    keep=st.sampled_from([0, 500, 3_000]),
    direction=st.sampled_from(["full", "up_to", "from"]),
    own=st.booleans(),
)
def test_through_compact_of_a_list(
    seed: int, kind: str, keep: int, direction: str, own: bool
) -> None:
    rng = random.Random(seed)
    item = ITEMS[kind]
    items: list[Any] = talk(rng, item)
    before = copy.deepcopy(items)
    if own:
        items = [{"type": m["role"], "uuid": f"u{at}", "message": m} for at, m in enumerate(items)]
    at = None if direction == "full" else rng.randrange(len(items))
    provider = FAMILY.get(kind, "openai_responses")
    try:
        done = compact(items, model=MODELS[provider], keep=keep, direction=direction, at=at)
    except CompactionError as exc:
        refused = exc.code
    else:
        refused = ""
    assert refused in ("", "provider_compaction")
    if refused:
        return
    held = json.dumps(item)
    assert held in json.dumps(list(done.messages))
    sent = outgoing(done.messages, provider=provider, model=MODELS[provider])
    assert json.dumps(in_form(item, provider)) in json.dumps(sent.parts)
    assert not sent.left
    if done.compacted and WORDS in held and direction == "full":
        told = json.dumps(done.summary_messages[-1])
        removed = newest_item(items).at not in {int(str(n).strip("u")) for n in done.report.kept}
        assert WORDS in told or not removed
    assert [m.get("message", m) for m in items] == before


# ---- logs of the Codex CLI -------------------------------------------------------------------


def rollout(path: Path, rng: random.Random, item: dict[str, Any]) -> None:
    """A rollout with the item somewhere: sent inline, or in the history of a compaction."""
    lines: list[tuple[str, dict[str, Any]]] = [
        ("session_meta", {"id": "s1", "cli_version": "0.140.0"})
    ]

    def said(role: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text(rng, 20)}]}

    def work(count: int, name: str) -> None:
        for number in range(count):
            one = f"call_{name}{number}"
            call = {"type": "function_call", "call_id": one, "name": "sh", "arguments": "{}"}
            out = {"type": "function_call_output", "call_id": one, "output": text(rng, 150)}
            lines.extend([("response_item", call), ("response_item", out)])

    lines.append(("response_item", said("user")))
    work(rng.randrange(6), "a")
    place = rng.choice(["inline", "inline", "history", "end"])
    if place == "history":
        history = [said("user"), item] if rng.random() < 0.5 else [item, said("user")]
        lines.append(("compacted", {"message": "", "replacement_history": history}))
    elif place == "inline":
        lines.append(("response_item", item))
    lines.append(("response_item", said("user")))
    work(rng.randrange(1, 25), "b")
    if place == "end":
        lines.append(("response_item", item))
    lines.append(("response_item", said(rng.choice(["user", "assistant"]))))
    stamp = "2026-01-01T00:00:00.000Z"
    body = [{"timestamp": stamp, "type": kind, "payload": payload} for kind, payload in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in body))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rollouts")


@few
@given(seed=seeds, keep=st.sampled_from([0, 500, 3_000]))
def test_through_a_codex_log_twice(folder: Path, seed: int, keep: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice(["compaction", "compaction_summary", "context_compaction"])
    item = {"type": kind, "encrypted_content": SEALED}
    path = folder / f"{seed}.jsonl"
    rollout(path, rng, item)
    for _ in range(2):
        session = open_session(path)
        done = compact_session(session, output=path, model="gpt-5.4", keep=keep)
        read = open_session(path)
        sent = outgoing(read.messages, provider="openai_responses", model="gpt-5.4").messages
        assert sent.count(item) == 1
        if done.result.compacted:
            assert sent[0] == item
        assert not validate(sent, provider="openai_responses", model="gpt-5.4").errors
        other = compact_session(read, model="gpt-5.4", keep=keep, format="claude_code")
        assert other.losses["compaction"] >= 1, "another tool's file cannot hold it, and says so"


def test_a_compaction_that_would_misplace_the_item_is_refused_by_name() -> None:
    def never(request: Any) -> str:
        raise AssertionError("nobody is asked for a summary that cannot be used")

    said = text(random.Random(5), 400)
    turn = [{"role": "user", "content": said}, {"role": "assistant", "content": said}]
    items = [*turn, *turn, {"role": "assistant", "content": [ITEMS["plain"]]}, *turn]
    with pytest.raises(CompactionError) as caught:
        compact(items, model="claude-opus-4-5", direction="from", at=2, summarizer=never)
    assert caught.value.code == "provider_compaction"
    assert "kept" in str(caught.value)


def test_what_the_provider_said_in_its_item_is_in_the_summary_too() -> None:
    said = text(random.Random(5), 400)
    turn = [{"role": "user", "content": said}, {"role": "assistant", "content": said}]
    items = [{"role": "assistant", "content": [ITEMS["plain"]]}, *turn * 5]
    for _ in range(3):
        done = compact(items, model="claude-opus-4-5", keep=0)
        assert done.messages[0]["content"] == [ITEMS["plain"]]
        assert WORDS in done.messages[1]["content"]
        items = [*done.messages, *turn * 5]
