"""Made sessions with facts of known kinds in them, and with findings that later calls go on from."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ullage.testing import conversation

__all__ = ["Planted", "planned_session", "planted_session"]

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Planted:
    """One fact: who said it, its words, and what must be found afterwards."""

    kind: str
    source: str
    text: str
    telling: str

    def held(self, text: str) -> bool:
        """Whether the telling words are there."""
        return self.telling in text


_NOUNS = "harbor lantern orchid falcon quartz meadow cobalt juniper saffron glacier tundra walnut ember delta prairie onyx".split()
_VERBS = ["deploy", "rename", "migrate", "benchmark", "archive", "translate", "reindex", "verify"]

_USER = {
    "constraint": [
        "The {a}_{b} module must keep working on Python 3.{n2} as it does today.",
        "Responses of /{a}/{b} have to stay under {n} ms.",
        "Only the {a} team may approve changes of {b}_{n}.toml.",
        "Whatever you change, {a}-{b} needs to be backwards compatible with release {n}.",
    ],
    "prohibition": [
        "Do not touch {a}/{b}_{n}.sql, the DBA owns that file.",
        "Never push to the branch release-{a}-{n}.",
        "Don't add new dependencies to {a}-{b}-{n}.",
        "No network calls from {a}_{b}_{n}.py, please.",
        "Please leave {a}/{b}-{n}.lock alone.",
    ],
    "preference": [
        "I prefer {a}-{b}-{n} over the old helper.",
        "I would rather see the {a} tables sorted by {b}_{n}.",
        "Use {a}_{b}_{n} for names of fixtures in future.",
        "Please answer with the {a} {b} {n} format when you report numbers.",
    ],
    "decision": [
        "We decided to store {a} in {b}_{n}.",
        "Let's go with {a}-{b} version {n}.",
        "Agreed: the {a} queue moves to {b}-{n}.",
    ],
    "todo": [
        "Later you still have to {v} {a}_{b}_{n}.",
        "Remember that {a}/{b}{n}.md is still to be written.",
        "Before the release we also need to {v} the {a} {b} {n} job.",
    ],
    "number": [
        "The quota of {a} is {n} requests per {b}.",
        "Our {a} budget for {b} is {n} euros.",
    ],
    "URL": [
        "The design is at https://{a}.example.com/{b}/{n}.",
        "See https://docs.{a}.example/{b}?page={n} for the format.",
    ],
}  # fmt: skip
_CORRECTIONS = [
    ("The {a} {b} port is {old}.", "Correction: the {a} {b} port is {n}."),
    ("The {a} bucket is {b}-{old}.", "Sorry, the {a} bucket is {b}-{n}, not {b}-{old}."),
    ("Use {a}.{b}-{old}.internal as the host.", "Use {a}.{b}-{n}.internal instead of {a}.{b}-{old}.internal."),
]  # fmt: skip
_ASSISTANT = {
    "decision": [
        "We decided to use a {a} index on {b}_{n} because lookups dominate.",
        "I went with the {a} parser; {b}_{n} stays the fallback.",
        "The decision is to keep {a}_{b}_{n} and drop the other table.",
    ],
    "todo": [
        "TODO: {v} {a}_{b}_{n} after the migration.",
        "Still open: {v} the {a} {b}-{n} handler.",
        "We still need to {v} {a}/{b}{n}.py.",
    ],
    "number": ["The {a} run took {n} ms for {b}.", "There are {n} rows left in {a}_{b}."],
    "URL": ["The report is at https://ci.{a}.example/{b}/runs/{n}."],
}  # fmt: skip
_TOOL = {
    "number": ["{a}_{b}_rejected: {n}", "total {a} {b}: {n}"],
    "URL": ["see https://logs.{a}.example/{b}/{n}", "uploaded to https://{a}.example/{b}/{n}.tar"],
}  # fmt: skip
_ERRORS = [
    "{A}Error: {b}_{n} is not defined",
    "error: cannot open {a}/{b}.{n}: permission denied",
    "FAILED tests/test_{a}.py::test_{b}_{n} - AssertionError",
]  # fmt: skip
_FINDINGS = [
    "The {a} parser drops trailing {b} rows, so the repair belongs into {p}.",
    "We keep {p} as the only writer of {a}, because two writers lost {b} updates.",
    "{p} has to check the {a} limit before it opens the {b} stream.",
    "Measured: the {a} cache of {p} makes the nightly {b} report slow.",
    "Rejected: another {a} queue; {p} already retries every {b} request.",
]
_FILLER = (
    "I looked at this with the others yesterday and we went through the whole history of it. "
    "It came up twice in the retrospective, and the notes of that meeting are somewhere in the wiki. "
    "As far as I remember the first version was written in a hurry. "
)


class _Words:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"planted {seed}")

    def fill(self, template: str) -> tuple[str, dict[str, str]]:
        rng = self.rng
        a, b = rng.sample(_NOUNS, 2)
        values = {"a": a, "b": b, "A": a.title(), "v": rng.choice(_VERBS), "n2": str(rng.randint(8, 14)),
                  "n": str(rng.randint(10_000, 99_999)), "old": str(rng.randint(1_000, 9_999))}  # fmt: skip
        return template.format(**values), values


def planted_session(seed: int, tokens: float) -> tuple[Messages, list[Planted]]:
    """A session of about so many tokens, and the facts in it."""
    words = _Words(seed)
    messages = copy.deepcopy(conversation(seed=seed, tokens=int(tokens), ending="assistant"))
    facts: list[Planted] = []
    spoken = [*_spoken(words)]
    places = sorted(
        words.rng.sample(_turn_starts(messages), min(len(spoken), len(_turn_starts(messages))))
    )
    for at, (fact, turn) in sorted(
        zip(_spread(places, len(spoken)), spoken, strict=True), key=lambda p: -p[0]
    ):
        messages[at:at] = turn
        facts += [fact]
    facts += _in_texts(words, messages)
    return messages, facts


def planned_session(seed: int, tokens: int) -> tuple[Messages, Messages, list[str]]:
    """A session in whose turns findings are reported, the calls that go on from them, and the findings."""
    words = _Words(seed)
    messages = copy.deepcopy(conversation(seed=seed, tokens=tokens, ending="assistant"))
    later, found = [], []
    places = sorted(words.rng.choices(_turn_starts(messages), k=10), reverse=True)
    for at, place in enumerate(places):
        template = _FINDINGS[at % len(_FINDINGS)].replace("{p}", "src/{a}/{b}_{n}.py")
        text, values = words.fill(template)
        path = "src/{a}/{b}_{n}.py".format(**values)
        messages[place:place] = [
            {"role": "user", "content": f"What did you find out about {values['a']}?"},
            {"role": "assistant", "content": f"{_FILLER * 6}{text}"},
        ]
        found.append(text)
        later += [{"role": "assistant", "content": text}, *_edited(words, path)[1:3]]
        later += _call(words, "Bash", {"command": f"pytest {path}"}, "1 passed", bad=False)[1:3]
    return messages, later, found


def _spread(places: list[int], count: int) -> list[int]:
    return [places[at * len(places) // count] for at in range(count)]


def _turn_starts(messages: Messages) -> list[int]:
    """Where the user speaks after an answer, in the first nine tenths."""
    most = len(messages) * 9 // 10
    return [at for at in range(2, most) if _plain(messages[at]) and messages[at - 1]["role"] == "assistant"]  # fmt: skip


def _plain(message: dict[str, Any]) -> bool:
    blocks = message["content"] if isinstance(message["content"], list) else []
    return message["role"] == "user" and not any(b.get("type") == "tool_result" for b in blocks)


def _spoken(words: _Words) -> Iterator[tuple[Planted, Messages]]:
    """Facts that take a turn of their own, in the order in which they are said."""
    turns: list[tuple[Planted, Messages]] = []
    for kind, templates in _USER.items():
        for template in words.rng.sample(templates, 2):
            text, values = words.fill(template)
            turns.append((Planted(kind, "user", text, _telling(text, values)), _said(words, text)))
    for template, _ in zip(_ERRORS, range(2), strict=False):
        text, values = words.fill(template)
        turns.append((Planted("error", "tool", text, values["n"]), _failed(words, text)))
    for _ in range(3):
        text, values = words.fill("src/{a}/{b}_{n}.py")
        turns.append((Planted("edited path", "tool", text, text), _edited(words, text)))
    words.rng.shuffle(turns)
    yield from turns
    for first, second in words.rng.sample(_CORRECTIONS, 2):
        old, values = words.fill(first)
        new = second.format(**values)
        turn = [*_said(words, old), *_said(words, new)]
        yield Planted("correction", "user", new, values["n"]), turn


def _telling(text: str, values: dict[str, str]) -> str:
    """The rule as a whole, so that half of it does not count."""
    return text.rstrip(".") if values["n"] in text or "{n}" not in text else values["n"]


def _said(words: _Words, text: str) -> Messages:
    if words.rng.random() < 0.3:
        text = f"{_FILLER * 4}{text} {_FILLER * 3}".strip()
    return [
        {"role": "user", "content": text},
        {"role": "assistant", "content": words.rng.choice(["Understood.", "I will. " * 30, "Noted, I go on with it."])},
    ]  # fmt: skip


def _call(words: _Words, name: str, given: dict[str, Any], result: str, bad: bool) -> Messages:
    ident = f"toolu_{words.rng.randrange(16**12):012x}"
    use = {"type": "tool_use", "id": ident, "name": name, "input": given}
    block = {"type": "tool_result", "tool_use_id": ident, "content": result}
    return [
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{**block, "is_error": True} if bad else block]},
        {"role": "assistant", "content": "I have seen it."},
    ]


def _failed(words: _Words, text: str) -> Messages:
    lines = "\n".join(f"  at step {n} of the run" for n in range(20))
    command = f"make {words.rng.choice(_NOUNS)}"
    return _call(words, "Bash", {"command": command}, f"Exit code 1\n{lines}\n{text}", True)


def _edited(words: _Words, path: str) -> Messages:
    given = {"file_path": path, "old_string": "a = 1", "new_string": "a = 2"}
    return _call(words, "Edit", given, f"The file {path} has been updated.", False)


def _in_texts(words: _Words, messages: Messages) -> list[Planted]:
    """Facts inside texts of the assistant and results of tools that are there already."""
    most = len(messages) * 9 // 10
    said = [m for m in messages[:most] if m["role"] == "assistant" and _text_block(m) is not None]
    results = [b for m in messages[:most] for b in _results(m) if len(b["content"]) > 400]
    facts = []
    for kind, templates in _ASSISTANT.items():
        for message in words.rng.sample(said, 2):
            text, values = words.fill(words.rng.choice(templates))
            _append(message, text)
            facts.append(Planted(kind, "assistant", text, values["n"]))
    for kind, templates in _TOOL.items():
        for block in words.rng.sample(results, 2):
            text, values = words.fill(words.rng.choice(templates))
            lines = block["content"].split("\n")
            lines.insert(words.rng.randint(1, len(lines)), text)
            block["content"] = "\n".join(lines)
            facts.append(Planted(kind, "tool", text, values["n"]))
    return facts


def _text_block(message: dict[str, Any]) -> dict[str, Any] | None:
    content = message["content"]
    if isinstance(content, str):
        return message
    return next((b for b in content if b.get("type") == "text"), None)


def _append(message: dict[str, Any], text: str) -> None:
    block = _text_block(message)
    assert block is not None
    key = "content" if isinstance(message["content"], str) else "text"
    block[key] = f"{block[key]} {text}"


def _results(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"] if isinstance(message["content"], list) else []
    return [b for b in content if b.get("type") == "tool_result" and isinstance(b["content"], str)]
