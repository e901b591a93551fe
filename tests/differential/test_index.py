"""The transcript index: both engines say the same of every file, however damaged (LOG-3)."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings, strategies as st

from ullage import _reference as twin
from ullage._reference.jsonl import _entry
from ullage.exceptions import InvalidTranscript, StoreError

rust = pytest.importorskip("ullage._core")
ENGINES = [pytest.param(rust, id="rust"), pytest.param(twin, id="python")]

WEIGHTS = {"features": [7] * len(twin.features("")), "blocks": [3] * 15, "messages": [5] * 5}


def facts(index):
    """All that an index says, comparable."""
    lines = [index.line(at) for at in range(len(index))]
    return {
        "lines": lines,
        "heads": index.heads(),
        "strings": sorted({index.string(ref) for line in lines for ref in line[3:7]}),
        "raw": [index.raw(at) for at in range(len(index))],
        "loaded": [load(index, at) for at in range(len(index))],
        "bad": index.bad,
        "torn": index.torn,
        "size": index.size,
    }


def load(index, at):
    try:
        return json.dumps(index.load(at))
    except InvalidTranscript as error:
        return (str(error), error.line, error.offset, error.path)


def same(data, *, weights=False):
    made = [engine.Weights(**WEIGHTS) if weights else None for engine in (rust, twin)]
    ours, theirs = (
        engine.TranscriptIndex.from_bytes(data, weight)
        for engine, weight in zip((rust, twin), made, strict=True)
    )
    assert facts(ours) == facts(theirs)
    spoken = [at for at in range(len(ours)) if ours.line(at).message is not None]
    items = [_entry(ours.raw(at))[0] for at in spoken]
    assert ours.survey(spoken, [], []).facts() == twin.Survey(made[1], items).facts()
    return ours


# ---- whole files -----------------------------------------------------------------------------

ENTRY = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user"}}
GOOD = json.dumps({**ENTRY, "message": {"role": "user", "content": "héllo\n✓ 🙂"}}).encode()

FILES = {
    "empty": b"",
    "line ends only": b"\n\n\r\n \t\n",
    "bom": b"\xef\xbb\xbf" + GOOD + b"\n",
    "bom only": b"\xef\xbb\xbf",
    "bom inside": GOOD + b"\n\xef\xbb\xbf" + GOOD + b"\n",
    "crlf": GOOD + b"\r\n" + GOOD + b"\r\n",
    "no last line end": GOOD + b"\n" + GOOD,
    "blank lines": b"\n" + GOOD + b"\n\n  \n" + GOOD + b"\n",
    "spaces around": b" \t" + GOOD + b" \r\n",
    "torn": GOOD + b"\n" + GOOD[:-9],
    "torn and garbage": GOOD + b"\n\x00\x00\x00",
    "torn inside": GOOD[:20] + GOOD + b"\n" + GOOD + b"\n",
    "nul bytes": b"\0" * 40 + b"\n" + GOOD + b"\n",
    "no object": b'[1]\n"x"\n3\nnull\n' + GOOD + b"\n",
    "two objects": GOOD + GOOD + b"\n",
    "raw control characters": GOOD.replace(b"h", b"\x01h\0") + b"\n",
    "not utf-8": GOOD.replace(b"h", b"\xff\xc3") + b"\n" + GOOD.replace(b'"u1"', b'"\xed\xa0\x80"'),
    "not utf-8, uncounted": b'{"type":"user","toolUseResult":{"x":"\xff"}}\n',
    "not utf-8 and torn": GOOD + b"\n" + b'{"type":"\xff',
    "lone surrogates": b'{"type":"user","message":{"role":"user","content":"a\\ud800b\\ude00\\ud83d\\ude42"}}\n',
    "surrogate in uuid": b'{"type":"user","uuid":"\\ud800","message":{"role":"user","content":""}}\n',
    "escaped keys": b'{"ty\\u0070e":"user","mess\\u0061ge":{"r\\u006fle":"user","content":"x"}}\n',
    "duplicate keys": b'{"type":"a","type":"user","uuid":"1","uuid":"2",'
    b'"message":{"role":"x","role":"user","content":"1","content":[{"type":"text","text":"22"}]}}\n',
    "duplicate of a skipped key": b'{"type":"user","message":{"role":"user"},"message":7}\n',
    "many duplicates": b'{"type":"user",'
    + b",".join(b'"k%d":%d' % (n % 7, n) for n in range(40))
    + b',"message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{'
    + b",".join(b'"k%d":"%d"' % (n % 7, n * 1000) for n in range(40))
    + b"}}]}}\n",
    "uncounted nonsense": b'{"type":"user","toolUseResult":{"a":[}],"b" "c"},"message":{"role":"user","content":"x"}}\n',
    "uncounted unbalanced": b'{"type":"user","toolUseResult":{"a":[{"},"message":{"role":"user"}}\n',
    "counted nonsense": b'{"type":"user","message":{"role":"user","content":[1,}]}}\n',
    "bare words": b'{"a":tru}\n{"a":nul}\n{"a":NaN}\n{"a":-}\n{"a":01}\n{"a":1.}\n{"a":1e5}\n{"a":+1}\n{"a":?}\n',
    "missing parts": b'{"a"}\n{"a":}\n{,}\n{"a":1,}\n{"a":1 "b":2}\n{a:1}\n{\n{"a"\n{"a":\n{"a":1\n{"a":"\n',
    "bad escapes": b'{"type":"\\x"}\n{"type":"\\u12g4"}\n{"type":"\\u12"}\n{"type":"\\\n{"ty\\pe":1}\n',
    "backslash at the end": b'{"a":"' + b"x" * 57 + b"\\\n" + b'{"a":"' + b"x" * 58 + b"\\\n",
    "wrong types": b'{"type":1,"uuid":2,"parentUuid":3,"subtype":[],"message":"x"}\n{"type":"user"}\n'
    b'{"type":"user","message":{}}\n{"type":"user","message":{"role":"cat"}}\n{"message":[]}\n{}\n',
    "bare messages": b'{"role":"user","content":"x"}\n{"role":"assistant","content":null,"tool_calls":'
    b'[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}\n'
    b'{"role":"tool","tool_call_id":"c","content":"out"}\n{"role":"user","content":[{"type":"text"}],"x":{}}\n',
    "huge numbers": b'{"type":"user","message":{"role":"assistant","content":[{"type":"tool_use","id":"t",'
    b'"name":"n","input":{"a":123456789012345678901234567890,"b":1e400,"c":-0,"d":1.50E+3,"e":18446744073709551616}}]}}\n',
    "more digits than anyone writes": b'{"type":"user","message":{"role":"assistant","content":[{"type":"tool_use",'
    b'"id":"t","name":"n","input":{"a":' + b"9" * 5000 + b"}}]}}\n",
    "deep, counted": b'{"type":"user","message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n",'
    b'"input":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}]}}\n",
    "deep, just allowed": b'{"type":"user","message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n",'
    b'"input":' + b'{"a":' * 127 + b"1" + b"}" * 127 + b"}]}}\n",
    "deep, uncounted": b'{"type":"user","toolUseResult":' + b"[" * 900 + b"]" * 900 + b"}\n",
    "very deep, uncounted": b'{"toolUseResult":'
    + b"[" * 90_000
    + b"]" * 90_000
    + b',"type":"user"}\n',
    "media": b'{"type":"user","message":{"role":"user","content":[{"type":"image","source":{"type":"base64",'
    b'"media_type":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"}}]}}\n',
    "usage": b'{"type":"assistant","timestamp":"2026-01-27T12:36:48.287Z","message":{"id":"m","role":"assistant",'
    b'"model":"x","content":[],"usage":{"input_tokens":8,"cache_creation_input_tokens":3341,'
    b'"cache_read_input_tokens":152288,"output_tokens":1,"cache_creation":{"a":1}}}}\n',
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES.keys())
@pytest.mark.parametrize("weights", [False, True], ids=["rough", "calibrated"])
def test_both_engines_say_the_same(data, weights):
    same(data, weights=weights)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_they_say_is_right(engine):
    index = engine.TranscriptIndex.from_bytes(FILES["torn inside"])
    assert (len(index), index.torn) == (2, None)
    assert [number for number, _ in index.bad] == [1]
    assert index.raw(0) == GOOD[:20] + GOOD
    assert index.load(1)["message"]["content"] == "héllo\n✓ 🙂"
    with pytest.raises(InvalidTranscript, match="line 1: not a JSON object"):
        index.load(0)

    index = engine.TranscriptIndex.from_bytes(FILES["torn"])
    assert index.torn == (len(GOOD) + 1, len(GOOD) - 9)
    assert (len(index), index.bad) == (1, [])

    index = engine.TranscriptIndex.from_bytes(FILES["not utf-8"])
    assert index.bad == [(n, "not UTF-8, read with replacement characters") for n in (1, 2)]
    assert index.load(0)["message"]["content"] == "\ufffd\ufffdéllo\n✓ 🙂"

    index = engine.TranscriptIndex.from_bytes(FILES["blank lines"])
    assert [index.line(at).number for at in range(2)] == [2, 5]

    index = engine.TranscriptIndex.from_bytes(FILES["duplicate keys"])
    assert index.heads()[0][:3] == ("user", "", "2")
    assert index.line(0).message.tokens == 1

    index = engine.TranscriptIndex.from_bytes(FILES["huge numbers"])
    assert index.load(0)["message"]["content"][0]["input"]["a"] == 123456789012345678901234567890

    index = engine.TranscriptIndex.from_bytes(FILES["deep, counted"])
    assert index.line(0).message is None
    assert index.bad == []
    assert index.heads()[0][0] == "user"

    index = engine.TranscriptIndex.from_bytes(FILES["usage"])
    message = index.line(0).message
    assert (message.usage, message.timestamp) == (8 + 3341 + 152288 + 1, 1769517408287)


@pytest.mark.parametrize("engine", ENGINES)
def test_integers_of_any_length_come_back_exactly(engine):
    numbers = [int("9" * digits) * sign for digits in (9, 10, 18, 19, 20, 40) for sign in (1, -1)]
    lines = [
        json.dumps({"pad": "1:" * front, "n": number, "s": str(number), "last": [number]})
        for front in range(64)
        for number in numbers
    ]
    index = engine.TranscriptIndex.from_bytes("\n".join(lines).encode())
    assert [index.load(at) for at in range(len(index))] == [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_of_100_megabytes(engine):
    line = GOOD[:-3] + b"ab\\n\xc3\xa4" * 17_000_000 + b'"}}'
    assert len(line) > 100_000_000
    index = engine.TranscriptIndex.from_bytes(GOOD + b"\n" + line + b"\n" + GOOD[:-1])
    assert [index.line(at).length for at in range(2)] == [len(GOOD), len(line)]
    assert index.line(1).message.tokens > 16_000_000
    assert index.torn is not None


@pytest.mark.parametrize("engine", ENGINES)
def test_places_outside_are_refused(engine):
    index = engine.TranscriptIndex.from_bytes(GOOD)
    for ask in (index.line, index.raw, index.load):
        with pytest.raises(IndexError, match="line 1 of 1"):
            ask(1)
    with pytest.raises(IndexError, match="of"):
        index.string(99)


# ---- files on disk ---------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["torn", "no last line end", "bom", "empty", "not utf-8", "crlf"])
def test_a_file_is_read_as_its_bytes(engine, name, tmp_path):
    path = tmp_path / "s.jsonl"
    # Larger than what is looked at first for the last line end.
    data = FILES[name] + GOOD[:-3] * 40
    path.write_bytes(data)
    index = engine.TranscriptIndex.open(str(path))
    assert facts(index) == facts(engine.TranscriptIndex.from_bytes(data)) | {
        "loaded": [load(index, at) for at in range(len(index))]
    }


def fault(engine, path):
    with pytest.raises((InvalidTranscript, StoreError)) as caught:
        engine.TranscriptIndex.open(str(path))
    return type(caught.value), str(caught.value), caught.value.path


def test_what_is_no_file_is_refused_alike(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(GOOD)
    secret.chmod(0)
    places = [tmp_path, tmp_path / "missing", tmp_path / "secret" / "below"]
    if os.name == "posix":
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        places.append(fifo)
        if os.geteuid() != 0:
            places.append(secret)
    for place in places:
        found = fault(rust, place)
        assert found == fault(twin, place)
        assert found[2] == str(place)
    assert fault(rust, tmp_path)[:2] == (InvalidTranscript, f"{tmp_path}: is a directory")


def test_a_file_cut_back_to_whole_lines_stays_readable(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes((GOOD + b"\n") * 100 + GOOD[:-4] * 5000)
    index = rust.TranscriptIndex.open(str(path))
    os.truncate(path, (len(GOOD) + 1) * 100)
    assert all(index.raw(at) == GOOD for at in range(len(index)))
    assert index.torn == ((len(GOOD) + 1) * 100, (len(GOOD) - 4) * 5000)


# ---- random files ----------------------------------------------------------------------------

texts = st.text(max_size=90) | st.sampled_from(
    ["", " ", "\n", "[Old tool result content cleared]", "<persisted-output>\nx", "a\u2028\x85"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "text", "type", "é\n"]), inner, max_size=4)
    ),
    max_leaves=8,
)
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": texts, "signature": texts}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": texts, "name": st.just("Bash"), "input": values}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("tool_result"),
            "tool_use_id": texts,
            "content": texts
            | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=2),
        }
    ),
    values,
)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system", "x"]),
        "content": texts | st.lists(blocks, max_size=3),
    },
    optional={"id": texts, "model": st.sampled_from(["m", "<synthetic>"]), "usage": values},
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["user", "assistant", "system", "attachment", 7]),
        "subtype": st.just("compact_boundary"),
        "uuid": texts,
        "parentUuid": texts | st.none(),
        "timestamp": st.sampled_from(["2026-01-27T12:36:48.287Z", "x", 5]),
        "isMeta": st.booleans(),
        "isSidechain": st.booleans(),
        "isCompactSummary": st.booleans(),
        "toolUseResult": values,
        "message": messages,
        "content": values,
        "tool_calls": values,
        "role": st.sampled_from(["user", "tool", 5]),
    },
)
ways = st.sampled_from([True, False])


@st.composite
def files(draw):
    parts = []
    for entry in draw(st.lists(entries, max_size=4)):
        text = json.dumps(entry, ensure_ascii=draw(ways)).encode("utf-8", "surrogatepass")
        parts.append(text + draw(st.sampled_from([b"\n", b"\r\n", b"\n\n", b""])))
    return b"".join(parts)


@given(files(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_random_files(data, weights):
    same(data, weights=weights)


@given(files(), st.data())
@settings(max_examples=250, deadline=None)
def test_random_damage(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(damaged)))
        match draw.draw(st.sampled_from(["cut", "insert", "delete", "replace"])):
            case "cut":
                del damaged[at:]
            case "insert":
                damaged[at:at] = draw.draw(st.sampled_from(MARKS))
            case "delete":
                del damaged[at : at + draw.draw(st.integers(1, 5))]
            case "replace":
                damaged[at : at + 1] = draw.draw(st.sampled_from(MARKS))
    same(bytes(damaged))


MARKS = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\xff",
    b"\xc3",
    b"\0",
    b"7",
    b"\\u",
]
MARKS += [b"\\ud800", b"null", b"tru", b" ", b"\xed\xa0\x80", b"1" * 25, b'"type":', b'"message":{']


# ---- lean entries ----------------------------------------------------------------------------

LONG = "x" * 3_000


def answered(copy, **more):
    message = {"role": "user", "content": [{"type": "tool_result", "content": LONG}]}
    return {"type": "user", "message": message, "toolUseResult": copy, **more}


@pytest.mark.parametrize(
    ("copy", "left"),
    [
        ({"stdout": LONG}, True),
        ([{"text": LONG}], True),
        (LONG, False),
        (None, False),
        ({"answers": {"Which?": "this"}, "x": LONG}, False),
    ],
)
def test_a_lean_entry_leaves_the_copy_of_a_long_result_in_the_file(copy, left):
    short = {"type": "user", "toolUseResult": {"stdout": "a"}}
    data = b"".join(json.dumps(line).encode() + b"\n" for line in (short, answered(copy), short))
    for engine in (rust, twin):
        index = engine.TranscriptIndex.from_bytes(data)
        assert index.load(0, lean=True) == short
        assert index.load(1) == answered(copy)
        assert index.load(1, lean=True) == answered(None if left else copy)
        assert index.load(2, lean=True) == short


@pytest.mark.parametrize("tail", [b',"toolUseResult":{"a":1}}', b',"toolUse\\u0052esult":[1] }'])
def test_of_a_copy_that_comes_twice_the_last_is_left(tail):
    data = json.dumps(answered({"stdout": "é" + LONG})).encode()[:-1] + tail
    both = [engine.TranscriptIndex.from_bytes(data).load(0, lean=True) for engine in (rust, twin)]
    assert both[0] == both[1] == answered(None)


def test_a_line_that_is_not_utf8_stays_whole():
    data = json.dumps(answered({"stdout": "?" + LONG})).encode().replace(b'"?', b'"\xff')
    both = [engine.TranscriptIndex.from_bytes(data).load(0, lean=True) for engine in (rust, twin)]
    assert both[0] == both[1] == answered({"stdout": "�" + LONG})


# ---- parts of JSON that a body is written of again -------------------------------------------

JSON_PIECES = [b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b" ", b"\n", b"\x0c", b'"a"', b"-1.5", b"null", b"\xc3"]  # fmt: skip


@given(st.lists(st.sampled_from(JSON_PIECES), max_size=16).map(b"".join), st.integers(0, 3))
def test_the_parts_of_a_list_or_an_object(raw, at):
    assert rust.json_parts(raw, at) == twin.json_parts(raw, at)


def test_a_part_is_a_key_or_a_value():
    raw = b'{"a" : [1, {"b": "]"}] ,\n"c": -0.0}'
    parts = rust.json_parts(raw, 0)
    assert [raw[begin:end] for begin, end in parts] == [b'"a"', b'[1, {"b": "]"}]', b'"c"', b"-0.0"]
