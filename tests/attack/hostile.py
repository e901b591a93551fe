"""Hypothesis strategies for what no provider would take, and for transcripts that were damaged."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st

from tests.attack.mutations import MUTATIONS, mutate
from tests.kit.strategies import entries, json_values, legal_conversations

__all__ = ["hostile_conversations", "hostile_entries"]


def hostile_conversations(
    *, max_mutations: int = 4, features: Collection[str] | None = None
) -> st.SearchStrategy[list[Any]]:
    """Lists that no provider would take, or not for long: legal ones, damaged one to four times.

    One in eight is no conversation at all but any JSON. `tests.attack.mutations` has the names.
    """
    steps = st.lists(
        st.tuples(st.sampled_from(sorted(MUTATIONS)), st.integers(0, 40)),
        min_size=1,
        max_size=max_mutations,
    )
    talks = legal_conversations(features=features, max_turns=2, max_rounds=2)
    damaged = st.builds(lambda messages, chosen: mutate(messages, *chosen), talks, steps)
    wild = st.lists(json_values(surrogates=True) | _wild_messages(), max_size=5)
    return st.one_of(*[damaged] * 7, wild)


def _wild_messages() -> st.SearchStrategy[dict[str, Any]]:
    kinds = st.sampled_from(
        ("text", "tool_use", "tool_result", "thinking", "image", "server_tool_use", "")
    )
    keys = st.sampled_from(("text", "id", "tool_use_id", "input", "content", "source", "signature"))
    block = st.builds(
        lambda kind, rest: {"type": kind, **rest},
        kinds,
        st.dictionaries(keys, json_values(max_leaves=3, surrogates=True), max_size=3),
    )
    content = st.lists(block | json_values(max_leaves=2), max_size=4) | json_values(max_leaves=2)
    roles = st.sampled_from(("user", "assistant", "system", "tool", "")) | json_values(max_leaves=1)
    return st.fixed_dictionaries({"role": roles, "content": content})


_ODD_FIELDS: tuple[tuple[str, Any], ...] = (
    ("type", "hologram"),
    ("type", None),
    ("uuid", ""),
    ("uuid", 7),
    ("parentUuid", "nowhere"),
    ("parentUuid", []),
    ("message", None),
    ("message", "text"),
    ("message", {"role": "user"}),
    ("timestamp", "yesterday"),
    ("isSidechain", True),
    ("isMeta", True),
    ("compactMetadata", {"preservedSegment": {"headUuid": "a", "tailUuid": "b"}}),
    ("toolUseResult", {"x": 1}),
)


def hostile_entries(*, max_damage: int = 4) -> st.SearchStrategy[list[Any]]:
    """Lines that are out of order, doubled, cut out or damaged."""
    steps = st.lists(
        st.tuples(st.sampled_from(("drop", "double", "swap", "odd")), st.integers(0, 400)),
        min_size=1,
        max_size=max_damage,
    )
    return st.builds(_damage, entries(max_turns=3), steps)


def _damage(lines: list[dict[str, Any]], steps: list[tuple[str, int]]) -> list[Any]:
    out: list[Any] = list(lines)
    for kind, number in steps:
        if not out:
            break
        at = number % len(out)
        if kind == "drop":
            del out[at]
        elif kind == "double":
            out.insert(at, out[at])
        elif kind == "swap":
            out[at], out[-1] = out[-1], out[at]
        else:
            key, value = _ODD_FIELDS[number % len(_ODD_FIELDS)]
            out[at] = {**out[at], key: value}
    return out
