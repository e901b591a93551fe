"""Both engines give the same digests, answers and exceptions, on valid and on hostile input."""

from __future__ import annotations

import datetime
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ullage import _reference as twin
from ullage._engine.digests import BlockFlag, BlockKind, MessageFlag, Role
from ullage.exceptions import UllageError

core = pytest.importorskip("ullage._core")

SOME = settings(max_examples=150, deadline=None)


# ---- what is compared ------------------------------------------------------------------------


def outcome(ask: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """A plain value, or what an exception says."""
    try:
        return ask(*args, **named)
    except UllageError as error:
        facts = {key: value for key, value in vars(error).items() if key != "value"}
        return type(error), error.code, str(error), facts
    except (TypeError, IndexError, KeyError, ValueError, OverflowError) as error:
        return type(error)


def digests(ledger: Any) -> list[Any]:
    """Every number of a ledger, and every string that one of them stands for."""
    found: list[Any] = []
    for index in range(len(ledger)):
        message, blocks = ledger.message(index), ledger.blocks(index)
        found.append(tuple(message))
        found.extend(tuple(block) for block in blocks)
        numbers = [message.uuid, message.response_id]
        numbers += [number for block in blocks for number in (block.id, block.name)]
        found += [ledger.string(number) for number in numbers]
    return found


def answers(ledger: Any) -> list[Any]:
    """All that a ledger tells of a conversation as a whole."""
    length = len(ledger)
    found = [length, ledger.version, ledger.tokens(), ledger.tokens(1, -1)]
    found += [
        ledger.anchor(),
        ledger.anchor(900),
        ledger.overhead,
        ledger.anchored(7),
        ledger.anchored(7, 900),
        ledger.open_calls(),
    ]
    found.append(ledger.media_indices())
    found += [ledger.results(), ledger.results(-2), ledger.roles(), ledger.roles(1, -1)]
    found += [ledger.with_kinds(2, 14), ledger.whole_cuts(), ledger.whole_cuts(length // 2)]
    found += [ledger.rounds(), ledger.rounds(length // 2), ledger.changed_since(1)]
    found += [ledger.find_call("a"), ledger.find_result("b")]
    for start in {0, length // 2, length}:
        kept = {"min_tokens": 3, "max_tokens": 9, "min_text_messages": 2}
        found.append(ledger.keep_window(start, floor=length // 3, **kept))
        found += [ledger.truncate_head(gap, start=start) for gap in (None, 0, 5)]
    return found


def weights_of(engine: Any) -> Any:
    features = [(7 * place + 300) % 2999 for place in range(len(engine.FEATURE_NAMES))]
    blocks = [500 + 100 * kind for kind in range(15)]
    return engine.Weights(features, blocks=blocks, messages=[9000, 8000, 7000, 6000, 0])


def read(engine: Any, items: Any, *, weighed: bool = False) -> Any:
    ledger = engine.Ledger(weights_of(engine) if weighed else None, items)
    return digests(ledger), answers(ledger)


def test_the_vocabularies_agree() -> None:
    for flags, named in ((MessageFlag, core._MESSAGE_FLAGS), (BlockFlag, core._BLOCK_FLAGS)):
        assert {name: bit for name, bit in vars(flags).items() if name.isupper()} == dict(named)


# ---- strategies ------------------------------------------------------------------------------

IDS = st.sampled_from(["a", "b", "c", "toolu_1", "", "x:3", "é", "a\n", "\ud800", "a" * 300])
TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "\x1c\x85\u3000",
            "hello world ",
            "[Old tool result content cleared]",
            "[Compacted: x]",
            "<persisted-output>\n",
            "naïve",
            "漢字",
            "\ud83d",
            "🎉",
            'a\\"b\x00\x1f\x7f\n',
        ]
    ),
    st.text(max_size=30),
    st.text(st.characters(), max_size=12),
)


class Text(str):
    __slots__ = ()


class Items(list):  # type: ignore[type-arg]
    pass


class Object(dict):  # type: ignore[type-arg]
    pass


class Whole(int):
    pass


class Half(float):
    pass


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.sampled_from(
        [
            0,
            -1,
            2**31,
            2**63,
            -(2**63),
            2**64,
            10**400,
            (1 << 14_000) - 1,
            -(1 << 14_000) + 1,
            Whole(7),
            Half(0.5),
        ]
    ),
    st.floats(allow_nan=True, allow_infinity=True),
    TEXTS,
    TEXTS.map(Text),
)
FOREIGN = st.sampled_from(
    [b"x", 1j, {1}, frozenset(), datetime.date(2026, 1, 1), 1 << 14_000, object, range(3)]
)
KEYS = st.one_of(TEXTS, TEXTS.map(Text), st.integers(), st.none(), st.booleans(), st.floats())


def nested(leaves: Any, keys: Any = KEYS) -> Any:
    def deeper(inner: Any) -> Any:
        lists = st.lists(inner, max_size=4)
        objects = st.dictionaries(keys, inner, max_size=4)
        return lists | lists.map(tuple) | lists.map(Items) | objects | objects.map(Object)

    return st.recursive(leaves, deeper, max_leaves=8)


VALUES = nested(LEAVES)
ODD_KEYS = st.one_of(KEYS, st.tuples(st.integers()), st.binary(max_size=2))
HOSTILE = nested(st.one_of(LEAVES, FOREIGN), ODD_KEYS)
CACHE = st.sampled_from(
    [
        None,
        {"type": "ephemeral"},
        {"type": "ephemeral", "ttl": "1h"},
        {"type": "ephemeral", "ttl": "5m"},
        {"type": "ephemeral", "ttl": "9h"},
        {"ttl": "1h"},
        "ephemeral",
    ]
)
CITATIONS = st.sampled_from(
    [None, [], [{}], [{"encrypted_index": "x"}], {"enabled": True}, {"enabled": 1}, "x"]
)
PNG = "iVBORw0KGgoAAAANSUhEUgAACAAAAAgACAYAAACyp9Mw"
SOURCES = st.one_of(
    st.sampled_from(
        [
            {"type": "base64", "media_type": "image/png", "data": PNG},
            {"type": "base64", "media_type": "image/tiff", "data": "é"},
            {"type": "base64", "data": ""},
            {"type": "base64", "data": 5},
            {"type": "url", "url": "https://x"},
            {"type": "text", "data": "words and words"},
            {"type": "text", "data": None},
            {"type": "content", "content": "words"},
            {"type": "content", "content": [{"text": "a"}, {"text": 5}, "b", None]},
            {"type": "content"},
            "data",
            None,
        ]
    )
)
URLS = st.sampled_from(
    [
        f"data:image/png;base64,{PNG}",
        f"data:image/bmp;base64,{PNG}",
        "data:image/png",
        "data:,",
        "https://x",
        {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
        {"url": 5},
        None,
        "é",
    ]
)
TYPES = st.one_of(
    st.sampled_from(
        "text input_text output_text tool_use tool_result thinking redacted_thinking image image_url "
        "input_image document file input_file server_tool_use mcp_tool_use web_search_tool_result "
        "search_result container_upload compaction fallback tool_addition tool_removal "
        "tool_reference browser_state cache_edits brand_new é_tool_result".split()
    ),
    st.sampled_from(["", Text("text"), None, 5, "\ud800"]),
)


def fields(values: Any, **known: Any) -> Any:
    """An object with any of the known keys, and sometimes a foreign one; in any order."""

    def shuffled(pair: tuple[dict[str, Any], Any]) -> Any:
        found, order = pair
        return {key: found[key] for key in sorted(found, key=lambda key: hash((str(key), order)))}

    known = {key: st.one_of(st.just(None), strategy) for key, strategy in known.items()}
    objects = st.fixed_dictionaries({}, optional={**known, "extra": values})
    return st.tuples(objects, st.integers(0, 99)).map(shuffled)


def blocks(values: Any, content: Any) -> Any:
    return fields(
        values,
        type=TYPES,
        text=st.one_of(TEXTS, values),
        id=st.one_of(IDS, values),
        tool_use_id=IDS,
        name=st.one_of(TEXTS, values),
        input=values,
        content=content,
        is_error=st.sampled_from([True, False, 1, "true"]),
        thinking=st.one_of(TEXTS, values),
        signature=st.one_of(TEXTS, st.integers()),
        data=st.one_of(TEXTS, values),
        cache_control=CACHE,
        citations=CITATIONS,
        caller=values,
        source=SOURCES,
        image_url=URLS,
        file=st.sampled_from([{"file_data": "x" * 99}, {"file_data": 5}, {}, "f"]),
        file_data=TEXTS,
        encrypted_content=TEXTS,
        cache_reference=TEXTS,
        tool=st.sampled_from([{"name": "x"}, {"name": 5}, "x"]),
        tool_name=TEXTS,
        toolset_name=TEXTS,
    )


def contents(values: Any) -> Any:
    inner = st.one_of(TEXTS, values, st.lists(blocks(values, values), max_size=3))
    listed = st.lists(st.one_of(blocks(values, inner), values), max_size=4)
    return st.one_of(TEXTS, listed, listed.map(tuple), st.none(), values)


def calls(values: Any) -> Any:
    body = fields(values, name=TEXTS, arguments=st.one_of(TEXTS, values), input=TEXTS)
    call = fields(values, id=IDS, type=TEXTS, function=body, custom=body, name=TEXTS, input=values)
    return st.one_of(st.lists(st.one_of(call, values), max_size=3), values)


COUNTS = st.one_of(
    st.integers(-5, 10**6), st.integers(0, 2**70), st.sampled_from([None, True, 1.5])
)


FIGURES = (
    "input_tokens cache_creation_input_tokens cache_read_input_tokens output_tokens total_tokens "
    "prompt_tokens completion_tokens"
).split()


def usages(values: Any) -> Any:
    figures = dict.fromkeys(FIGURES, COUNTS)
    plain = fields(values, **figures)
    iteration = fields(values, type=st.sampled_from(["message", "compaction", 5]), **figures)
    iterations = st.one_of(st.lists(st.one_of(iteration, values), max_size=3), values)
    return st.one_of(plain, values, fields(values, iterations=iterations, **figures))


ROLES = st.sampled_from(["user", "assistant", "assistant", "user", "system", "developer", "tool"])
ODD_ROLES = st.one_of(ROLES, st.sampled_from(["function", "robot", Text("user"), None, 5, [], "é"]))
FLAGS = st.sampled_from([True, False, 1, "true"])
TIMES = st.one_of(
    st.sampled_from(["2026-01-27T12:36:48.287Z", "1970-01-01T00:00:00+00:01", "é", 5]),
    st.datetimes().map(lambda time: time.isoformat() + "Z"),
    st.from_regex(r"\A20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9]{2}:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,10})?"
                  r"(Z|[+-][0-9]{2}:[0-9]{2})?\Z"),
)  # fmt: skip


def messages(values: Any, roles: Any = ROLES) -> Any:
    more = fields(
        values,
        content=contents(values),
        id=IDS,
        name=TEXTS,
        model=st.sampled_from(["claude", "<synthetic>", 5]),
        usage=usages(values),
        tool_calls=calls(values),
        tool_call_id=st.one_of(IDS, values),
        function_call=values,
        refusal=st.one_of(TEXTS, values),
        reasoning_content=st.one_of(TEXTS, values),
        audio=values,
        prefix=FLAGS,
        output_config=values,
        clear_at=values,
        isSidechain=FLAGS,
        uuid=IDS,
    )
    return st.tuples(roles, more).map(lambda pair: {**pair[1], "role": pair[0]})


def items(values: Any, roles: Any = ROLES) -> Any:
    message = messages(values, roles)
    entry = fields(
        values,
        type=st.sampled_from(["user", "assistant", "system", "title", 5, Text("system")]),
        subtype=st.sampled_from(["compact_boundary", "compact_boundary", "other"]),
        message=st.one_of(message, values),
        uuid=st.one_of(IDS, values),
        timestamp=TIMES,
        isMeta=FLAGS,
        isCompactSummary=FLAGS,
        isSidechain=FLAGS,
        isApiErrorMessage=FLAGS,
    )
    boundary = st.just({"type": "system", "subtype": "compact_boundary"})
    return st.one_of(message, message, entry, boundary)


VALID = items(VALUES)
ANY = st.one_of(items(HOSTILE, ODD_ROLES), HOSTILE)


# ---- comparisons -----------------------------------------------------------------------------


@SOME
@given(st.lists(VALID, max_size=6), st.booleans())
def test_digests_and_answers(found: list[Any], weighed: bool) -> None:
    assert outcome(read, core, found, weighed=weighed) == outcome(
        read, twin, found, weighed=weighed
    )


@SOME
@given(st.lists(ANY, max_size=3), st.booleans())
def test_hostile_items(found: list[Any], weighed: bool) -> None:
    assert outcome(read, core, found, weighed=weighed) == outcome(
        read, twin, found, weighed=weighed
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(VALID, VALID, ANY), max_size=12), st.randoms(use_true_random=False))
def test_changes(found: list[Any], rng: Any) -> None:
    """One script of changes, some of which fail, on both engines."""
    ledgers = [engine.Ledger() for engine in (core, twin)]
    model: list[Any] = []
    for item in found:
        step, at = rng.randrange(5), rng.randint(-1, len(model) + 1)
        if step == 2:
            model = [*model[: max(at, 0)], item, *model[max(at, 0) + 1 :]]
        name, args = (
            ("replace", (at, item)),
            ("truncate", (at,)),
            ("sync", (model,)),
            ("extend", ([item, item],)),
            ("append", (item,)),
        )[step]
        ours, theirs = (outcome(getattr(ledger, name), *args) for ledger in ledgers)
        assert ours == theirs
        assert digests(ledgers[0]) == digests(ledgers[1])
        assert answers(ledgers[0]) == answers(ledgers[1])


@SOME
@given(st.lists(ANY, max_size=4))
def test_media(found: list[Any]) -> None:
    assert core.media_indices(found) == twin.media_indices(found)


@SOME
@given(TIMES)
def test_timestamps(time: Any) -> None:
    item = {"type": "title", "timestamp": time}
    assert core.Ledger(None, [item]).message(0) == twin.Ledger(None, [item]).message(0)


ARGUMENTS = st.one_of(
    st.integers(-3, 9), st.sampled_from([None, True, 2**70, -(2**70), 1.5, "1", [], Whole(2)])
)


@SOME
@given(
    st.sampled_from(
        "append extend replace truncate sync changed_since tokens message blocks "
        "string anchored rounds find_call find_result keep_window truncate_head".split()
    ),
    st.lists(ARGUMENTS, max_size=2),
    st.dictionaries(
        st.sampled_from(["floor", "min_tokens", "max_tokens", "start", "share_percent", "freed"]),
        ARGUMENTS,
        max_size=2,
    ),
)
def test_arguments(name: str, args: list[Any], named: dict[str, Any]) -> None:
    items = [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": "efgh"}] * 2
    ledgers = [engine.Ledger(None, items) for engine in (core, twin)]
    ours, theirs = (outcome(getattr(ledger, name), *args, **named) for ledger in ledgers)
    assert ours == theirs
    assert digests(ledgers[0]) == digests(ledgers[1])


def test_roles_and_kinds_are_plain_numbers() -> None:
    item = {"role": "assistant", "content": [{"type": "tool_use"}]}
    for engine in (core, twin):
        ledger = engine.Ledger(None, [item])
        assert type(ledger.message(0).role) is int
        assert type(ledger.blocks(0)[0].kind) is int
        assert (ledger.message(0).role, ledger.blocks(0)[0].kind) == (
            Role.ASSISTANT,
            BlockKind.TOOL_USE,
        )


# ---- single hard cases -----------------------------------------------------------------------


def looped() -> Any:
    value: list[Any] = [1]
    value += [value] * 100
    return value


def shared() -> Any:
    value: Any = []
    for _ in range(60):
        value = [value, value]
    return value


HARD = {
    "cycle": {"role": "user", "content": [{"type": "tool_use", "input": looped()}]},
    "content in itself": {"role": "user", "content": looped()},
    "10 MB": {"role": "user", "content": "é" * 10_000_000},
    "10 MB of escapes": {"role": "user", "content": [{"type": "x", "a": '"\n' * 5_000_000}]},
    "integers of every length": {
        "role": "user",
        "content": [
            {
                "type": "tool_use",
                "input": [s * (10**n + d) for s in (1, -1) for n in range(20) for d in (-1, 0)],
            }
        ],
    },
    "many blocks": {"role": "user", "content": [{"type": "text", "text": "a"}] * 20_000},
    "two wrong values": {"role": "user", "content": [{"type": "x", "a": {"b": [1j], (1,): 1}}]},
    "many keys": {"role": "user", "content": [{"type": "x", **{str(n): n for n in range(9999)}}]},
}


@pytest.mark.parametrize("item", HARD.values(), ids=HARD)
def test_hard_cases(item: Any) -> None:
    assert outcome(read, core, [item]) == outcome(read, twin, [item])


def removed(**members: Any) -> dict[str, Any]:
    """A dict that once had more: the places of what was removed stay in its table."""
    made = {"first": 1, **members, "last": 2}
    del made["first"], made["last"]
    return made


class Instance:
    pass


def of_instance(**members: Any) -> dict[str, Any]:
    """An instance's own dict, whose keys are shared with others of its class."""
    instance = Instance()
    for key, value in members.items():
        setattr(instance, key, value)
    return vars(instance)


def emptied(**members: Any) -> dict[str, Any]:
    made = dict.fromkeys(range(9), 0)
    made.clear()
    made.update(members)
    return made


def mixed(**members: Any) -> dict[Any, Any]:
    """Keys of other types, or that were: the table then holds their hashes."""
    made: dict[Any, Any] = {1: 1, **members}
    del made[1]
    return made


def wide(**members: Any) -> dict[str, Any]:
    return {**members, "schlüssel": 1, "鍵": 2, "\ud800": 3}


def large(**members: Any) -> dict[str, Any]:
    return {**{f"key {number}": number for number in range(700)}, **members}


DICTS = [dict, removed, of_instance, emptied, mixed, wide, large, Object, OrderedDict]


@pytest.mark.parametrize("inner", DICTS)
@pytest.mark.parametrize("outer", DICTS)
def test_dicts_however_they_were_made(outer: Any, inner: Any) -> None:
    call = inner(type="tool_use", id="a", name="Edit", input=inner(path="/a", old='b"\n'))
    result = inner(type="tool_result", tool_use_id="a", content=[inner(type="text", text="x")])
    items = [
        outer(role="assistant", content=[call, inner(type="text", text="é")]),
        outer(role="user", content=(result,)),
        outer(uuid="u", type="user", message=inner(role="user", content=[inner()])),
    ]
    assert read(core, items) == read(twin, items)
    assert read(core, items, weighed=True) == read(twin, items, weighed=True)


def named(number: int) -> list[Any]:
    """A call and its answer, whose ids nobody had before."""
    call = {"type": "tool_use", "id": f"call_{number}", "name": "Read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": "x"}
    said = {"id": f"msg_{number}", "role": "assistant", "content": [call]}
    return [
        {"type": "assistant", "uuid": f"{number}", "message": said},
        {"role": "user", "content": [result]},
    ]


def strings(ledger: Any) -> int:
    """How many a ledger holds."""
    with pytest.raises(IndexError) as raised:
        ledger.string(10**9)
    return int(str(raised.value).rpartition(" ")[2])


@pytest.mark.parametrize("how", ["truncate", "replace", "sync"])
def test_strings_of_what_was_removed_are_forgotten(how: str) -> None:
    ledgers = [engine.Ledger(None, named(0)) for engine in (core, twin)]
    kept, most = named(0), 0
    for number in range(1, 3000, 7):
        new = [item for each in range(7) for item in named(number + each)]
        for ledger in ledgers:
            if how == "truncate":
                ledger.extend(new)
                ledger.truncate(2)
            elif how == "replace":
                ledger.replace(1, new[-2])
            else:
                ledger.sync([*kept, *new])
                ledger.sync(kept)
        ours, theirs = (strings(ledger) for ledger in ledgers)
        assert ours == theirs
        most = max(most, ours)
        assert digests(ledgers[0]) == digests(ledgers[1])
        assert answers(ledgers[0]) == answers(ledgers[1])
    # 1 024 are kept at least, and those that the messages have.
    assert 600 < most < 2500


def test_what_unfolds_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of 10 million values is tried on the fast engine only."""
    item = {"role": "user", "content": [{"type": "tool_use", "input": shared()}]}
    kind, code, said, _ = outcome(core.Ledger, None, [item])
    assert (kind.__name__, code) == ("InvalidMessage", "invalid_message")
    monkeypatch.setattr("ullage._reference.read.MAX_NODES", 1000)
    assert outcome(twin.Ledger, None, [item])[2] == said.replace("10000000", "1000")


def test_deep_dicts_are_freed_without_overflow() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = {"a": value}
    item = {"role": "user", "content": [{"type": "tool_use", "input": value}]}
    assert outcome(read, core, [item]) == outcome(read, twin, [item])
