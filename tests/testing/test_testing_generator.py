"""The generator: deterministic, consistent with itself, legal in its pairing, sized as asked."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
import subprocess
import sys
import zlib

import orjson
import pytest

from tests.kit.transcripts import session_287k
from ullage.exceptions import InvalidPolicy
from ullage.testing import STYLES, MadeCommand, Style, conversation, scenario
from ullage.testing.generator import Walk, unseal

# Of scenario 11 below: a change of the generator changes every document's numbers.
GOLDEN = "7ab0b0f4"


def digest(messages):
    return hashlib.sha256(orjson.dumps(messages)).hexdigest()[:8]


def blocks(messages, kind):
    return [
        (index, block)
        for index, message in enumerate(messages)
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == kind
    ]


def test_equal_in_every_process():
    code = (
        "import hashlib, orjson\n"
        "from ullage.testing import conversation\n"
        "m = conversation(11, tokens=15_000, style='mixed')\n"
        "print(hashlib.sha256(orjson.dumps(m)).hexdigest()[:8])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "12345")
    }
    assert found == {GOLDEN}
    assert digest(conversation(11, tokens=15_000, style="mixed")) == GOLDEN


def test_other_seed_other_session():
    assert digest(conversation(1, turns=2)) != digest(conversation(2, turns=2))
    assert conversation(-3, turns=1) != conversation(3, turns=1)


@pytest.mark.parametrize("style", STYLES)
def test_calls_are_answered_at_once_and_ids_unique(style):
    for seed in range(4):
        messages = conversation(seed, tokens=15_000, style=style)
        ids = [block["id"] for _, block in blocks(messages, "tool_use")]
        assert len(ids) == len(set(ids))
        for index, message in enumerate(messages):
            calls = [b["id"] for i, b in blocks(messages, "tool_use") if i == index]
            answers = [
                b["tool_use_id"] for i, b in blocks(messages, "tool_result") if i == index + 1
            ]
            if message["role"] == "assistant":
                assert calls == answers
        assert messages[0]["role"] == messages[-1]["role"] == "user"


@pytest.mark.parametrize("tokens", [1_500, 20_000, 150_000])
def test_size_is_near_the_target(tokens):
    for seed in range(3):
        made = scenario(seed, tokens=tokens)
        assert tokens * 0.97 <= made.rough_tokens <= tokens * 1.1 + 900


def test_turns_count_user_inputs():
    for turns in (1, 2, 9):
        made = scenario(5, turns=turns, tokens=30_000, style=Style(interrupts=0))
        assert len(made.truth.user_messages) == turns
    assert len(scenario(5, turns=1).messages) == 1


@pytest.mark.parametrize(
    ("ending", "role", "kind"),
    [
        ("user", "user", "text"),
        ("loop", "user", "tool_result"),
        ("assistant", "assistant", "text"),
        ("open", "assistant", "tool_use"),
    ],
)
def test_endings(ending, role, kind):
    for seed in range(4):
        last = conversation(seed, tokens=8_000, ending=ending)[-1]
        found = last["content"][-1]["type"] if isinstance(last["content"], list) else "text"
        assert (last["role"], found) == (role, kind)


def test_edits_replace_what_the_file_showed():
    seen = 0
    for seed in range(6):
        messages = conversation(seed, tokens=40_000)
        outputs = {b["tool_use_id"]: b["content"] for _, b in blocks(messages, "tool_result")}
        shown: dict[str, str] = {}
        for _, call in blocks(messages, "tool_use"):
            path = call["input"].get("file_path", "")
            if (
                call["name"] == "Read"
                and "offset" not in call["input"]
                and isinstance(outputs[call["id"]], str)
            ):
                lines = outputs[call["id"]].split("\n")
                shown[path] = "\n".join(
                    line.lstrip().replace("→", "\t", 1).partition("\t")[2] for line in lines
                )
            if call["name"] == "Edit" and path in shown:
                assert shown[path].count(call["input"]["old_string"]) == 1
                shown[path] = shown[path].replace(
                    call["input"]["old_string"], call["input"]["new_string"]
                )
                seen += 1
    assert seen > 5


def test_a_fix_fails_and_then_passes():
    made = scenario(3, turns=3, style=Style(tasks=("fix",), detours=0))
    tests = [command for command in made.truth.commands if command.command != "git diff"]
    assert [command.ok for command in tests] == [False, True] * 2
    assert tests[0].command == tests[1].command
    assert made.truth.files_edited
    assert MadeCommand("git diff", ok=True) in made.truth.commands
    assert made.truth.errors


def test_truth_is_in_the_messages():
    made = scenario(8, tokens=60_000, style="mixed")
    text = orjson.dumps(made.messages).decode()
    for value in (
        *made.truth.files_read,
        *made.truth.files_edited,
        *made.truth.identifiers,
        *made.truth.urls,
    ):
        assert value in text, value
    for error in made.truth.errors:
        assert orjson.dumps(error).decode()[1:-1] in text
    written = [
        block["text"]
        for index, block in blocks(made.messages, "text")
        if made.messages[index]["role"] == "user"
    ]
    plain = [m["content"] for m in made.messages if isinstance(m["content"], str)]
    assert sorted(made.truth.user_messages) == sorted(written + plain)


def test_pending_steps_are_those_of_the_newest_list():
    made = scenario(2, turns=8, tokens=40_000, style=Style(tasks=("plan",)))
    lists = [
        b["input"]["todos"]
        for _, b in blocks(made.messages, "tool_use")
        if b["name"] == "TodoWrite"
    ]
    open_steps = tuple(item["content"] for item in lists[-1] if item["status"] != "completed")
    assert made.truth.pending_todos == open_steps


def test_thinking_is_sealed_to_its_prefix():
    made = scenario(4, tokens=20_000)
    walk, previous, found = Walk(made.system, made.tools), "", 0
    for message in made.messages:
        before = walk.enter(message)
        for _, block in blocks([message], "thinking"):
            value = unseal(block["signature"], block["thinking"])
            assert value is not None
            place = (value.prefix, value.previous, value.model, value.step)
            assert place == (before, previous, made.model, walk.step)
            previous, found, walk.step = value.name, found + 1, walk.step + 1
    assert found > 3
    assert unseal(block["signature"], "other words") is None
    assert unseal("c2VhbGVk") is None
    assert unseal(None) is None


def test_prefix_ignores_cache_markers_thinking_and_message_cuts():
    def value(*messages):
        walk = Walk("s", [{"name": "t", "cache_control": {"type": "ephemeral"}}])
        for role, content in messages:
            walk.enter({"role": role, "content": content})
        return walk.now()

    one, two = {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
    marked = {**one, "cache_control": {"type": "ephemeral"}}
    base = value(("user", [one, two]))
    assert value(("user", [marked]), ("user", "b")) == base
    assert (
        value(("user", [one, {"type": "thinking", "thinking": "x", "signature": ""}, two])) == base
    )
    assert value(("user", [two, one])) != base
    assert value(("assistant", [one, two])) != base


def test_media_are_what_they_say():
    kinds = set()
    for seed in range(8):
        messages = conversation(
            seed, tokens=15_000, style=Style(tasks=("review",), languages=("en",))
        )
        for kind in ("image", "document"):
            for _, block in blocks(messages, kind):
                raw = base64.b64decode(block["source"]["data"], validate=True)
                kinds.add(block["source"]["media_type"])
                if raw.startswith(b"\x89PNG"):
                    width, height = struct.unpack(">II", raw[16:24])
                    at = raw.index(b"IDAT")
                    size = struct.unpack(">I", raw[at - 4 : at])[0]
                    pixels = zlib.decompress(raw[at + 4 : at + 4 + size])
                    assert len(pixels) == height * (1 + (width + 7) // 8)
                elif raw.startswith(b"\xff\xd8"):
                    assert raw.endswith(b"\xff\xd9")
                else:
                    assert raw.startswith(b"%PDF-1.4")
                    assert raw.rstrip().endswith(b"%%EOF")
    assert kinds == {"image/png", "image/jpeg", "application/pdf"}


@pytest.mark.parametrize("seed", range(3))
def test_the_long_session_has_its_proportions(seed):
    made = session_287k(seed)
    assert made.rough_tokens == pytest.approx(287_000, rel=0.02)
    assert made.times[-1] - made.times[0] == 45 * 60 * 1000
    results = [b["content"] for _, b in blocks(made.messages, "tool_result")]
    sizes = [len(text) if len(text) <= 10_000 else len(text) * 6 // 10 for text in results]
    snipped = made.rough_tokens - sum(map(len, results)) // 4 + sum(sizes) // 4
    assert snipped == pytest.approx(200_000, rel=0.04)
    assert sum(sizes[: len(sizes) // 2]) // 4 == pytest.approx(60_000, rel=0.2)


@pytest.mark.parametrize(
    "wrong", [{"turns": 0}, {"tokens": 0}, {"tokens": -5}, {"style": "baroque"}]
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(InvalidPolicy) as caught:
        scenario(1, **wrong)
    assert caught.value.field == next(iter(wrong))


def test_reprs_are_short():
    made = scenario(1, turns=2)
    assert repr(made).startswith("Scenario(seed=1, ")
    assert len(repr(made)) < 200
