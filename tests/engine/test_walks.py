"""A walk over messages runs no Python code and depends on no setting: whatever they hold, and whenever the collector would run."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import subprocess
import sys
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ullage.exceptions import InvalidMessage

LONG = 10**3000  # below the limit on bits, past any low limit on digits


def call(value: Any, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "a", "name": "n", "input": value}
    return {"role": "assistant", "content": [block], **more}


@contextmanager
def digits(most: int):
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(most)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


# ---- hostile values: each notes when its own code is run -------------------------------------

RAN: list[str] = []


def hostile(base: type) -> type:
    """A subclass whose every method is Python code."""
    names = [
        "__getattribute__", "__len__", "__iter__", "__getitem__", "__contains__", "__eq__", "__hash__", "__repr__", "__str__", "__int__",
        "__index__", "__float__", "__bool__", "__format__", "__lt__", "items", "keys", "values", "get", "encode", "bit_length", "__del__",
    ]  # fmt: skip

    def method(name: str) -> Any:
        def run(self: Any, *given: Any) -> Any:
            RAN.append(f"{base.__name__}.{name}")
            return getattr(base, name)(self, *given) if hasattr(base, name) else None

        return run

    return type(f"Hostile{base.__name__}", (base,), {name: method(name) for name in names})


class Watched(type):
    def __getattribute__(cls, name: str) -> Any:
        RAN.append(f"type.{name}")
        return super().__getattribute__(name)


class Foreign(metaclass=Watched):
    pass


TEXT, MAP, LIST, INT, FLOAT = (hostile(base) for base in (str, dict, list, int, float))
HOSTILE = {
    "texts": lambda: [TEXT("plain"), TEXT("wide \u2603"), TEXT("half \ud800")],
    "numbers": lambda: [INT(7), INT(-(2**80)), INT(LONG), FLOAT(1.5), FLOAT("nan")],
    "containers": lambda: MAP(a=LIST([MAP(b=TEXT("c"))]), d=LIST()),
    "keys of other kinds": lambda: {None: 1, True: 2, 3: 4, 1.5: 5, LONG: 6, "\ud800": 7, "é": 8},
    "plain": lambda: {"a": [1, 2.5, None, True, "text", LONG, -LONG, ("tuple",)]},
}


def ran_during(act: Any) -> list[str]:
    """What Python code ran while `act` did: of the values, and of the collector where it is started inside of calls."""
    inside = sys.version_info < (3, 12)

    def collected(phase: str, _info: dict) -> None:
        RAN.append(f"collector: {phase}")

    gc.collect()
    gc.freeze()  # what the other tests hold takes no part, else each collection takes long
    before = gc.get_threshold()
    gc.disable()
    RAN.clear()
    if inside:
        gc.callbacks.append(collected)
        gc.set_threshold(1, 1000, 1000)
        gc.enable()
    try:
        act()
        gc.disable()
        return list(RAN)
    finally:
        gc.disable()
        if inside:
            gc.callbacks.remove(collected)
        gc.set_threshold(*before)
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("limit", [640, 4300, 0])
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_python_code_runs_inside_a_walk(kind, limit):
    core = pytest.importorskip("ullage._core")
    value = HOSTILE[kind]()
    item = call(value)
    calibrated = core.Weights([4096] * len(core.FEATURE_NAMES), blocks=[0] * 15, messages=[0] * 5)
    for weights in (None, calibrated):
        append = core.Ledger(weights).append
        with digits(limit):
            assert ran_during(lambda append=append: append(item)) == []
            plain = core.Ledger(weights).append_plain
            ran = ran_during(lambda plain=plain: plain(item, {}, set()))
            # What it returns is made after the walk.
            assert [each for each in ran if not each.startswith("collector")] == []


@pytest.mark.parametrize("place", ["value", "key", "message", "role", "content"])
def test_what_json_does_not_have_is_named_without_asking_its_class(place):
    core = pytest.importorskip("ullage._core")
    foreign = Foreign()
    item: Any = {
        "value": call({"a": foreign}),
        "key": call({foreign: 1}),
        "message": foreign,
        "role": {"role": foreign, "content": "x"},
        "content": {"role": "user", "content": foreign},
    }[place]
    append, said = core.Ledger().append, ""
    RAN.clear()
    try:
        append(item)
    except InvalidMessage as error:
        said = str(error)
    assert RAN == []
    assert "Foreign" in said or place in ("role", "content")


PROGRAM = """
import gc, sys
from ullage._core import Ledger
sys.set_int_max_str_digits({limit})
value = {value}
item = {{"role": "assistant", "content": [{{"type": "tool_use", "id": "a", "name": "n", "input": value}}]}}
expected = Ledger(None, [item]).tokens()
class Ends:
    def __init__(self): self.me = self
    def __del__(self): value.clear()
append = Ledger().append
gc.collect(); gc.disable(); Ends(); gc.set_threshold(1, 1000, 1000); gc.enable()
append(item)
print(expected)
"""


@pytest.mark.parametrize("limit", [640, 4300])
@pytest.mark.parametrize(
    "value",
    [
        "{f'k{i}': 10**3000 for i in range(6000)}",
        "[10**3000 for i in range(6000)]",
        "{f'k{i}': chr(0xd800) for i in range(6000)}",
        "{i: -10**3000 - i for i in range(6000)}",
        "{10**3000 + i: i for i in range(2000)}",
    ],
)
def test_a_collection_that_empties_what_is_read_does_no_harm(value, limit):
    pytest.importorskip("ullage._core")
    program = PROGRAM.format(value=value, limit=limit)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 1000


# ---- long integers: the same digits under every limit ----------------------------------------

LONGS = st.integers(-(2**13_990), 2**13_990) | st.integers(-(2**70), 2**70)


@given(number=LONGS, limit=st.sampled_from([640, 700, 4300, 0]))
def test_integers_are_as_long_as_json_writes_them(engine, number, limit):
    with digits(0):
        expected = len(json.dumps({"a": [number]}, separators=(",", ":")))
    with digits(limit):
        ledger = engine.Ledger(None, [call({"a": [number]})])
        assert ledger.blocks(0)[0].chars == expected + len("n")


@pytest.mark.parametrize("bits", [13_999, 14_000, 14_001, 20_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_limit_on_bits_is_the_only_one(engine, bits, sign):
    number = sign * (2**bits - 1)
    with digits(0):
        written = len(str(number))
    for limit in (640, 4300):
        with digits(limit):
            if bits > 14_000:
                with pytest.raises(InvalidMessage, match="too many digits"):
                    engine.Ledger(None, [call([number])])
            else:
                block = engine.Ledger(None, [call([number])]).blocks(0)[0]
                assert block.chars == len("n[]") + written


@given(number=LONGS)
def test_engines_see_the_same_features_of_a_long_integer(number):
    core, twin = pytest.importorskip("ullage._core"), pytest.importorskip("ullage._reference")
    with digits(640):
        features = range(1, 1 + 9 * len(core.FEATURE_NAMES), 9)
        tokens = [
            engine.Ledger(
                engine.Weights(tuple(features), blocks=(0,) * 15, messages=(0,) * 5),
                [call({"a": [number]})],
            ).tokens()
            for engine in (core, twin)
        ]
        assert tokens[0] == tokens[1]


# ---- strings of a constructor that 3.12 no longer has ----------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 and later have no such strings")
@pytest.mark.parametrize("text", ["plain text", "caf\u00e9", "\u2603 snow", "\U0001f600 face"])
@pytest.mark.parametrize("place", ["content", "block", "input", "id"])
def test_a_string_that_is_not_ready_counts_as_any_other(engine, text, place):
    def item(value: str) -> dict[str, Any]:
        if place == "content":
            return {"role": "user", "content": value}
        if place == "block":
            return {"role": "user", "content": [{"type": "text", "text": value}]}
        return call({"a": value}) if place == "input" else call({}, uuid=value)

    expected = engine.Ledger(None, [item(text)])
    found = engine.Ledger(None, [item(unready(text))])
    assert found.message(0) == expected.message(0)
    assert found.blocks(0) == expected.blocks(0)
    if place == "id":
        assert found.string(found.message(0).uuid) == text


def unready(text: str) -> str:
    """Made in the two steps of the deprecated constructor: length first, then the characters."""
    api = ctypes.pythonapi
    make, write = api.PyUnicode_FromUnicode, api.PyUnicode_AsUnicode
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t]
    write.restype, write.argtypes = ctypes.c_void_p, [ctypes.py_object]
    made = make(None, len(text))
    ctypes.memmove(write(made), ctypes.create_unicode_buffer(text), len(text) * ctypes.sizeof(ctypes.c_wchar))  # fmt: skip
    return made


# ---- named tuples ----------------------------------------------------------------------------


def test_named_tuples_hash_and_compare_as_their_fields(engine):
    usage = {"input_tokens": 5, "output_tokens": 2}
    items = [{"role": "user", "content": "hi"}, call({}, usage=usage)]
    ledger = engine.Ledger(None, items)
    data = b"".join(json.dumps(item).encode() + b"\n" for item in items)
    found = [
        ledger.message(0),
        ledger.blocks(1)[0],
        ledger.anchor(),
        ledger.anchored(),
        engine.TranscriptIndex.from_bytes(data).line(0),
    ]
    for each in found:
        assert each is not None
        same = type(each)(*each)
        assert each == same
        assert hash(each) == hash(same) == hash(tuple(each))
        assert len({each, same}) == 1
        assert each._asdict() == same._asdict()
        assert gc.is_tracked(each) == gc.is_tracked(same)
    kept = ledger.keep_window(0)
    assert kept == type(kept)(*kept)
    assert repr(kept) == repr(type(kept)(*kept))


# ---- messages that are known by their objects ------------------------------------------------


def differs(core: Any, before: Any, now: Any, *constants: type) -> bool:
    objects = core.MessageObjects(*constants)
    objects.note([before], 0)
    return objects.differing([now], 0, 1) == [0]


def test_a_message_is_known_by_the_very_objects_it_is_made_of():
    core = pytest.importorskip("ullage._core")
    text, number, half = "".join(["a", "b"]), int("1234567"), float("1.5")
    item = call({"t": text, "n": [number, half, None, True, {}], "e": []})
    assert not differs(core, item, item)
    assert not differs(core, item, copy.deepcopy(item))
    others = [
        call({"t": "".join(["a", "b"]), "n": [number, half, None, True, {}], "e": []}),
        call({"n": [number, half, None, True, {}], "t": text, "e": []}),
        call({"t": text, "n": [number, half, None, True, {}], "e": {}}),
        call({"t": text, "n": [number, half, None, True], "e": []}),
        call({"t": text, "n": [number, half, None, True, {}, tuple], "e": []}),
        call({"t": text, "n": [number, half, None, 1, {}], "e": []}),
        call({"t": text, "n": dict, "e": []}),
        call({"t": text, "n": (number, half, None, True, {}), "e": []}),
        call({"t": text, "n": [number, half, None, True, {}]}),
        call({"t": text, "n": [number, half, None, True, {}], "e": [], "f": None}),
        {"role": item["role"]},
        "text",
    ]
    assert all(differs(core, item, other) for other in others)
    assert all(differs(core, other, item) for other in others)
    assert not any(differs(core, other, other) for other in others[:4])


@pytest.mark.parametrize(
    "value",
    [object(), (1,), dict, MAP(a=1), TEXT("a"), {(1,): 2}, b"x", 1j],
    ids=lambda value: type(value).__name__,
)
def test_what_may_change_unseen_is_never_known(value):
    core = pytest.importorskip("ullage._core")
    item = call({"a": value})
    assert differs(core, item, item)
    assert not differs(core, item, item, type(value)) or type(value) in (dict, type)


def test_what_is_very_deep_or_very_much_is_never_known():
    core = pytest.importorskip("ullage._core")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, [0] * 20_000):
        item = call(value)
        assert differs(core, item, item)
        assert differs(core, call([]), item)


def test_the_objects_of_each_place_are_held_by_themselves():
    core = pytest.importorskip("ullage._core")
    items = [call(str(number) * 9) for number in range(5)]
    objects = core.MessageObjects()
    objects.note(items, 3)
    assert objects.differing(items, 0, 7) == [0, 1, 2, 4, 5, 6]
    for at in range(5):
        objects.note(items, at)
    assert objects.differing([*items[:2], items[3], *items[3:]], 0, 5) == [2]
    objects.cut(2)
    assert objects.differing(items, 1, 4) == [2, 3]
    with pytest.raises(IndexError):
        objects.note(items, 5)


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_python_code_runs_where_objects_are_compared(kind):
    core = pytest.importorskip("ullage._core")
    items = [call(HOSTILE[kind]())]
    objects = core.MessageObjects()
    assert ran_during(lambda: objects.note(items, 0)) == []
    ran = ran_during(lambda: objects.differing(items, 0, 1))
    assert [each for each in ran if not each.startswith("collector")] == []


def test_both_engines_may_be_asked_for_what_differs(engine):
    objects = engine.MessageObjects(int)
    items = [call(object())]
    objects.note(items, 0)
    objects.cut(1)
    assert objects.differing(items, 0, 1) == [0]
