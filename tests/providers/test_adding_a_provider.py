"""CONTRIBUTING's recipe "Adding a provider", done: one file, and one row."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

from ullage import ContextManager, estimate_tokens
from ullage.exceptions import InvalidPolicy
from ullage.legality import validate
from ullage.legality.repairs import repair
from ullage.providers import PROVIDERS, Provider, classify, provider_of
from ullage.providers.registry import Form
from ullage.requests.to_request import outgoing

# The file: a writer and a reader. Its list is called `talk`, and no block or key has a name that another form has.
FORM = '''
"""Toy: a list of turns, each with a speaker and pieces."""

from ullage.messages import message_of
from ullage.providers import Internal, Shaped

SIDES = {"user": "person", "assistant": "machine"}


def to_provider(messages, *, system=None, tools=None):
    turns = []
    for item in messages:
        message = message_of(item)
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        turns.append({"who": SIDES[message["role"]], "pieces": [piece(block) for block in blocks]})
    parts = {"talk": turns}
    if system:
        parts["prompt"] = system
    if tools is not None:
        parts["skills"] = [{"skill": tool["name"]} for tool in tools]
    return Shaped(parts)


def piece(block):
    if block["type"] == "tool_use":
        return {"ask": [block["id"], block["name"], block["input"]]}
    if block["type"] == "tool_result":
        return {"got": [block["tool_use_id"], block["content"]]}
    if block["type"] == "foreign":
        return block["foreign"]["toy"]
    return {"say": block["text"]}


def from_provider(request):
    talk = request["talk"] if isinstance(request, dict) else request
    return Internal([message(turn) for turn in talk])


def message(turn):
    role = next(role for role, side in SIDES.items() if side == turn["who"])
    return {"role": role, "content": [block(piece) for piece in turn["pieces"]]}


def block(piece):
    if "ask" in piece:
        name, tool, given = piece["ask"]
        return {"type": "tool_use", "id": name, "name": tool, "input": given}
    if "got" in piece:
        return {"type": "tool_result", "tool_use_id": piece["got"][0], "content": piece["got"][1]}
    if "say" in piece:
        return {"type": "text", "text": piece["say"]}
    return {"type": "foreign", "foreign": {"toy": piece}}
'''

ERRORS = r"""
[[groups]]
name = "toy"
source = "https://toy.example/docs/errors"
read = 2026-11-22
rows = [["toy.full", "overflow_tokens", "toy", 'the jar holds (?P<limit>{N}) pebbles, not (?P<used>{N})']]
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """The row, and the two files that it names, in a folder that Python imports from."""
    (tmp_path / "toy_form.py").write_text(FORM, encoding="utf-8")
    (tmp_path / "toy_errors.toml").write_text(ERRORS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_form", raising=False)
    return Provider(
        name="toy",
        form="toy_form",
        errors=str(tmp_path / "toy_errors.toml"),
        list_key="talk",
        system_key="prompt",
        answer=("reply",),
        speakers_only=False,
        item_key="pieces",
    )


def said(who: str, *pieces: dict[str, Any]) -> dict[str, Any]:
    return {"who": who, "pieces": list(pieces)}


ASK = {"ask": ["c1", "ls", {"path": "."}]}
GOT = {"got": ["c1", "a.py " * 50]}
TALK = [
    said("person", {"say": "Which files are there?"}),
    said("machine", {"say": "I look."}, ASK),
    said("person", GOT),
    said("machine", {"say": "a.py"}),
    said("person", {"say": "Thanks."}, {"wave": 1}),
]


def test_it_reads_and_writes(toy: Provider) -> None:
    form: Form = toy.shape
    read = form.from_provider({"talk": TALK})
    assert [message["role"] for message in read.messages][:2] == ["user", "assistant"]
    assert form.to_provider(read.messages).parts["talk"] == TALK
    sent = outgoing(read.messages, provider=toy, system="Be brief.")
    assert (sent.provider, sent.messages, sent.parts["prompt"]) == ("toy", TALK, "Be brief.")
    assert not sent.repairs


def test_it_counts(toy: Provider) -> None:
    whole = estimate_tokens(TALK, provider=toy)
    assert whole == estimate_tokens(toy.shape.from_provider(TALK).messages)
    assert whole > estimate_tokens(TALK[:2], provider=toy) > 0


def test_it_validates_by_what_holds_for_every_provider(toy: Provider) -> None:
    assert validate(TALK, provider=toy).ok
    report = validate([*TALK[:2], *TALK[3:]], provider=toy)
    assert [(found.rule, found.message) for found in report.errors] == [("A05", 1)]
    assert [found.message for found in validate([TALK[0], 7], provider=toy).errors] == [1]


def test_it_repairs_and_what_nothing_touches_stays_the_same_objects(toy: Provider) -> None:
    assert repair(TALK, provider=toy).messages is TALK
    broken = [TALK[0], TALK[1], TALK[3], said("person", {"got": ["c9", "lost"]}), 7, TALK[4]]
    before = copy.deepcopy(broken)
    done = repair(broken, provider=toy)
    assert done.ok
    assert broken == before
    assert validate(done.messages, provider=toy).ok
    kept = [item for item in done.messages if any(item is each for each in TALK)]
    assert kept == [TALK[0], TALK[1], TALK[3], TALK[4]]
    assert {each.message for each in done.repairs} == {1, 3, 4}
    assert "interrupted" in str(done.messages[3]["pieces"][0])
    again = repair(done.messages, provider=toy)
    assert again.messages is done.messages


def test_a_manager_speaks_it(toy: Provider) -> None:
    manager = ContextManager(
        model="toy-1", provider=toy, system="Be brief.", context_window=100_000
    )
    manager.add(TALK[0])
    manager.observe({"reply": [TALK[1]]})
    for item in TALK[2:]:
        manager.add(item)
    request = manager.prepare()
    assert request.body["talk"] == TALK
    assert request.body["prompt"] == "Be brief."
    assert request.rewritten_from is None


def test_a_manager_answers_calls_that_were_interrupted(toy: Provider) -> None:
    manager = ContextManager(model="toy-1", provider=toy, context_window=100_000)
    for item in (*TALK[:2], TALK[4]):
        manager.add(item)
    request = manager.prepare()
    assert request.repairs
    assert validate(request.messages, provider=toy).ok


def test_a_manager_is_saved_and_goes_on(toy: Provider) -> None:
    manager = ContextManager(model="toy-1", provider=toy, context_window=100_000)
    for item in TALK:
        manager.add(item)
    saved = manager.save()
    assert saved["provider"] == "toy"
    again = ContextManager.restore(saved, manager.history, provider=toy)
    assert again.prepare().body == manager.prepare().body


def test_its_errors_are_known(toy: Provider) -> None:
    text = "The jar holds 1,000 pebbles, not 1,200."
    assert classify(text).kind == "unknown"
    found = classify(text, provider=toy)
    assert (found.kind, found.provider, found.gap_tokens) == ("overflow_tokens", "toy", 200)
    assert classify("prompt is too long: 2000 tokens > 1000 maximum", provider=toy).is_overflow


def test_a_name_that_no_row_has_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="toy"):
        provider_of("toy")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_row_names_modules_that_have_what_it_says(name: str) -> None:
    row = provider_of(name)
    assert callable(row.shape.to_provider)
    assert callable(row.shape.from_provider)
    for module, function in ((row.check, "check"), (row.repair, "repair")):
        assert callable(getattr(__import__(module, fromlist=[function]), function))
    assert all(provider_of(alias) is row for alias in (name, *row.aliases))
