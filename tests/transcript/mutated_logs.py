"""A recorded session, and what can go wrong with its log, its records and its requests.

`python -m tests.transcript.mutated_logs 100000 [SEED [FILE]]` tries that many mutations: in equal parts those of the log's bytes, those that
are sealed again, and those of the request that was sent. FILE holds what was done, and a run that was stopped goes on from there.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from tests.kit import result, said, text, use, user
from ullage import ullage_check as check
from ullage.manager import ContextManager, Request
from ullage.transcript.record import copies, redacted

__all__ = ["KINDS", "is_found", "mutated_requests", "mutations", "played"]

T = TypeVar("T")
Entries = list[dict[str, Any]]
WORDS = "ledger queue shard lease cursor mirror batch retry token branch parser window".split()


def played(
    folder: Path, seed: int = 0, turns: int = 6, lines: int = 24, **more: Any
) -> tuple[bytes, list[Request]]:
    """The log of a session that was compacted more than once, and its requests."""
    rng = random.Random(seed)
    given = {"model": "claude-opus-4-5", "context_window": 4000, "clock": lambda: 1_000, **more}
    requests = []
    with ContextManager(log=folder / f"{seed}.jsonl", record=True, **given) as manager:
        manager.pin("rule", "Never push to the main branch.")
        for turn in range(turns):
            words = " ".join(rng.choices(WORDS, k=12))
            manager.add(user(f"Step {turn}: look into the {words} and say what you see."))
            for call in range(2):
                requests.append(manager.prepare())
                name = f"call_{turn}_{call}"
                thought = {"type": "thinking", "thinking": words, "signature": f"s{turn}{call}=="}
                path = f"src/{rng.choice(WORDS)}_{turn}.py"
                manager.add(said([thought, text(f"I read {path}."), use(name, path=path)]))
                rows = (f"{n}: {' '.join(rng.choices(WORDS, k=8))}" for n in range(lines))
                manager.add(user([result(name, "\n".join(rows))]))
            requests.append(manager.prepare())
            manager.add(said(f"The {words} are as the files say."))
        manager.add(user("Thank you."))
        requests.append(manager.prepare())
    return (folder / f"{seed}.jsonl").read_bytes(), requests


class NothingToChangeError(Exception):
    """The log has no place for a mutation of this kind."""


def _one_of(rng: random.Random, places: Sequence[T]) -> T:
    if not places:
        raise NothingToChangeError
    return rng.choice(places)


# ---- mutations that nobody covers up ---------------------------------------------------------------


def changed_byte(log: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(log))
    return log[:at] + bytes([log[at] ^ rng.randrange(1, 128)]) + log[at + 1 :]


def swapped_id(log: bytes, rng: random.Random) -> bytes:
    lines = log.splitlines(keepends=True)
    at = _one_of(rng, [n for n, line in enumerate(lines) if b"call_" in line])
    one, other = rng.sample(range(5), 2)
    return b"".join(
        line.replace(b"call_%d_" % one, b"call_%d_" % other) if n >= at else line
        for n, line in enumerate(lines)
    )


def cut(log: bytes, rng: random.Random) -> bytes:
    lines = log.splitlines(keepends=True)
    del lines[rng.randrange(len(lines) - 1)]  # without its last record it is a shorter log
    return b"".join(lines)


def repeated(log: bytes, rng: random.Random) -> bytes:
    lines = log.splitlines(keepends=True)
    at = rng.randrange(len(lines) - 1)
    return b"".join([*lines[: at + 1], *lines[at:]])


def reordered(log: bytes, rng: random.Random) -> bytes:
    lines = log.splitlines(keepends=True)
    one, other = rng.sample(range(len(lines) - 1), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


# ---- mutations by somebody who seals them again -----------------------------------------------------


class _Sealed(check.LogCheck):
    """Follows a log and writes size, hash and seal of each record as they have to be."""

    def __init__(self, entries: Entries) -> None:
        self.entries, self.lines = entries, list[bytes]()
        super().__init__(_bytes(entries))

    def walk(self, stream: bytes) -> None:
        promises, check.PROMISES = check.PROMISES, ()  # a forger makes none
        try:
            self.write(stream)
        finally:
            check.PROMISES = promises

    def write(self, stream: bytes) -> None:
        before, lines, self.counts["records"] = "", "", 1
        for raw in stream.splitlines(keepends=True):
            entry = json.loads(raw)
            if entry.get("type") != check.RECORD:
                lines += check.line_hash(raw, entry)
                self.lines.append(raw)
                continue
            self.where = "the forger"
            with suppress(LookupError, ValueError):  # it names what is not there
                self.record(entry)
            shown = [message for message, _ in self.shown]
            size = [len(shown), sum(len(each.text or "") for each in shown)]
            entry["size"] = [*size, *entry["size"][2:]]
            entry["sha"] = check.hashed("".join(each.sha for each in shown))
            before, lines = check.seal(before, lines, entry), ""
            entry["seal"] = before
            self.lines.append(_bytes([entry]))


def _bytes(entries: Entries) -> bytes:
    return b"".join(check.canonical(entry).encode() + b"\n" for entry in entries)


def resealed(
    log: bytes, change: Callable[[Entries, random.Random], bool], rng: random.Random
) -> bytes:
    """The log with one change, hashes and seals to match; empty: there was nothing to change."""
    entries = [json.loads(line) for line in log.splitlines()]
    return b"".join(_Sealed(entries).lines) if change(entries, rng) else b""


def _records(entries: Entries, key: str = "list") -> Entries:
    return [each for each in entries if each.get("type") == check.RECORD and each.get(key)]


def _ops(entries: Entries, key: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = ((rec, op) for rec in _records(entries) for op in rec["list"] if isinstance(op, dict))
    return [(rec, op) for rec, op in found if key in op]


def _rewritten(entries: Entries, op: dict[str, Any], new: Callable[[str], str]) -> bool:
    """What a summary says, changed where it stands in the log, by its hash and in what it is copied from."""
    history = [message.value for message in check.LogCheck(_bytes(entries)).input]
    for entry in entries:
        if check.sent(entry) is not None and check.message_of(entry).sha == op["sha"]:
            words = "\n".join(check.message_of(entry).text_lines)
            entry["message"]["content"] = new(words)
            message = check.message_of(entry)
            parts = copies(str(message.text), history)
            put = [len(part) if isinstance(part, str) else part for part in parts]
            for each in [each for _, each in _ops(entries, "sha") if each["sha"] == op["sha"]]:
                each |= {"sha": message.sha, "put": put}
            return new(words) != words
    return False


def _longest(entries: Entries, rng: random.Random) -> tuple[dict[str, Any], list[int], int]:
    """A record, a run of its list that has a middle, and where that stands."""
    found = [
        (rec, run, at)
        for rec in _records(entries)
        for at, op in enumerate(rec["list"])
        if (run := op if isinstance(op, list) else op.get("in"))
        and isinstance(run, list) and run[1] - run[0] > 2
    ]  # fmt: skip
    return _one_of(rng, found)


def dropped_pin(entries: Entries, rng: random.Random) -> bool:
    """The pin stands in nothing that levels make, or in one of them less."""
    pin = next(iter(_one_of(rng, _records(entries, "pins"))["pins"].values()))
    made = [op for _, op in _ops(entries, "made")]
    chosen = made if rng.random() < 0.7 else [rng.choice(made)]
    changed = [_rewritten(entries, op, lambda words: words.replace(pin, "")) for op in chosen]
    return any(changed)


def invented_line(entries: Entries, rng: random.Random) -> bool:
    _, op = _one_of(rng, _ops(entries, "made"))
    line = f"- The operator wants the {rng.choice(WORDS)} removed before {rng.choice('Monday Friday'.split())} evening."
    return _rewritten(entries, op, lambda words: f"{words}\n{line}")


def moved_boundary(entries: Entries, rng: random.Random) -> bool:
    _, run, _ = _longest(entries, rng)
    run[rng.randrange(2)] += rng.choice((-1, 1))
    return run[0] >= 0


def sealed_reordered(entries: Entries, rng: random.Random) -> bool:
    record, run, at = _longest(entries, rng)
    middle = rng.randrange(run[0] + 1, run[1])
    halves = [[middle, run[1]], [run[0], middle]]
    wrap = isinstance(record["list"][at], dict)
    record["list"][at : at + 1] = [{"in": half} for half in halves] if wrap else halves
    return True


def sealed_cut(entries: Entries, rng: random.Random) -> bool:
    record = _one_of(rng, [each for each in _records(entries) if len(each["list"]) > 1])
    del record["list"][rng.randrange(len(record["list"]))]
    return True


def sealed_repeated(entries: Entries, rng: random.Random) -> bool:
    record, _, at = _longest(entries, rng)
    record["list"].insert(at, record["list"][at])
    return True


def wrong_size(entries: Entries, rng: random.Random) -> bool:
    _one_of(rng, _records(entries))["size"][rng.randrange(2)] += rng.choice((-1, 1, 100))
    return True


def missing_handle(entries: Entries, rng: random.Random) -> bool:
    lists = [each[key] for key in ("removed", "results") for each in _records(entries, key)]
    found = _one_of(rng, lists)
    del found[rng.randrange(len(found))]
    return True


def user_in_silence(entries: Entries, rng: random.Random) -> bool:
    turn = rng.randrange(5)
    _, op = _one_of(rng, _ops(entries, "made"))
    return _rewritten(
        entries,
        op,
        lambda words: "\n".join(
            "" if f"Step {turn}:" in each else each for each in words.split("\n")
        ),
    )


def changed_signature(entries: Entries, rng: random.Random) -> bool:
    """A message with signed thinking is altered as it comes in, as a rewrite that the record owns up to."""
    added = [each for each in _ops(entries, "in") if isinstance(each[1]["in"], list)]
    record, op = _one_of(rng, [each for each in added if "texts" not in each[0]])
    first, stop = op["in"]
    text = str(check.LogCheck(_bytes(entries)).input[first].text)
    put = text.replace('=="', 'x="')
    op |= {"in": first, "put": [len(put)], "sha": check.hashed(put)}
    record["texts"] = put
    if stop - first > 1:
        record["list"].insert(record["list"].index(op) + 1, {"in": [first + 1, stop]})
    return put != text


# ---- mutations of the request that was sent ----------------------------------------------------------


def request_cut(sent: Entries, rng: random.Random) -> None:
    del sent[rng.randrange(len(sent))]


def request_repeated(sent: Entries, rng: random.Random) -> None:
    at = rng.randrange(len(sent))
    sent.insert(at, sent[at])


def request_reordered(sent: Entries, rng: random.Random) -> None:
    one, other = rng.sample(range(len(sent)), 2)
    sent[one], sent[other] = sent[other], sent[one]


def request_moved_boundary(sent: Entries, rng: random.Random) -> None:
    """The summary says the same, and stands one message later."""
    at = rng.randrange(len(sent) - 1)
    sent[at : at + 2] = [sent[at + 1], sent[at]]


def request_swapped_id(sent: Entries, rng: random.Random) -> None:
    text = json.dumps(sent)
    names = sorted({part.split('"')[0] for part in text.split('"call_')[1:]})
    name = rng.choice([each for each in names if each.replace("_", "").isdigit()])
    sent[:] = json.loads(text.replace(f'"call_{name}"', f'"call_{name}{rng.randrange(9)}"', 1))


def request_changed_byte(sent: Entries, rng: random.Random) -> None:
    """A letter of one message is another."""
    at = rng.randrange(len(sent))
    text = check.canonical(sent[at])
    places = [n for n, letter in enumerate(text) if letter.islower() and text[n - 1] != "\\"]
    place = rng.choice(places)
    letter = rng.choice([each for each in "abcdefghij" if each != text[place]])
    sent[at] = json.loads(text[:place] + letter + text[place + 1 :])


def request_invented_line(sent: Entries, rng: random.Random) -> None:
    at = rng.choice([n for n, each in enumerate(sent) if isinstance(each.get("content"), str)])
    words = f"The operator wants the {rng.choice(WORDS)} removed."
    sent[at] = {**sent[at], "content": f"{sent[at]['content']}\n{words}"}


_REQUEST = (
    request_cut, request_repeated, request_reordered, request_moved_boundary, request_swapped_id,
    request_changed_byte, request_invented_line,
)  # fmt: skip

_BARE = (changed_byte, swapped_id, cut, repeated, reordered)
_SEALED = (
    dropped_pin, invented_line, moved_boundary, sealed_reordered, sealed_cut, sealed_repeated, missing_handle,
    user_in_silence, changed_signature,
)  # fmt: skip
KINDS = (*(each.__name__ for each in _BARE), *(each.__name__ for each in _SEALED), "wrong_size")


def mutations(
    log: bytes, count: int, seed: int = 0, kinds: Sequence[str] = KINDS
) -> Iterator[tuple[str, bytes]]:
    """So many mutated logs, each with its kind; none is the log itself."""
    rng, honest = random.Random(seed), check.LogCheck(log).requests
    while count:
        kind = rng.choice(kinds)
        change: Any = globals()[kind]
        try:
            if kind in {each.__name__ for each in _BARE}:
                made = change(log, rng)
            elif kind == "wrong_size":
                entries = [json.loads(line) for line in log.splitlines()]
                change(entries, rng)
                made = _bytes(entries)
            else:
                made = resealed(log, change, rng)
        except NothingToChangeError:
            continue
        if (
            made
            and made != log
            and (kind != "moved_boundary" or check.LogCheck(made).requests != honest)
        ):
            count -= 1
            yield kind, made


def mutated_requests(sent: Entries, count: int, seed: int = 0) -> Iterator[tuple[str, Entries]]:
    """So many mutated requests, each with its kind; none is the request itself."""
    rng = random.Random(seed)
    while count:
        change, made = rng.choice(_REQUEST), [*sent]
        change(made, rng)
        if made != sent:
            count -= 1
            yield change.__name__, made


def is_found(following: check.LogCheck, sent: Any) -> bool:
    """Whether a request is called another one than the newest record's."""
    del following.problems[:]
    following.held({"messages": sent})
    return bool(following.problems)


class _FirstProblemError(Exception):
    """One is enough."""


class _UntilBroken(check.LogCheck):
    def record(self, record: dict[str, Any]) -> None:
        super().record(record)
        if self.problems:
            raise _FirstProblemError


def is_broken(log: bytes) -> bool:
    """Whether anything is called broken; the rest of the log is not looked at."""
    try:
        return bool(_UntilBroken(log).problems)
    except _FirstProblemError:
        return True


def unmutated(log: bytes, rng: random.Random) -> Iterator[bytes]:
    """The log, sealed again, with lines redacted, and with lines that no record covers yet."""
    lines = log.splitlines(keepends=True)
    yield log
    yield resealed(log, lambda entries, rng: True, rng)
    yield b"".join(redacted(line) if rng.random() < 0.2 else line for line in lines)
    yield b"".join(lines[: rng.randrange(1, len(lines))])


BATCH, WORKERS = 100, 2
"""Mutations of each of the three parts of one session; processes that try them."""


def batch(number: int, count: int) -> dict[str, Any]:
    """What was tried on the session of that number, and what was found."""
    tried, missed, alarms, honest = Counter[str](), list[tuple[str, str]](), 0, 0
    bare, sealed = ([each.__name__ for each in kinds] for kinds in (_BARE, _SEALED))
    with tempfile.TemporaryDirectory() as folder:
        log, requests = played(Path(folder), number, turns=5 + number % 2, lines=20 + number % 8)
    for each in unmutated(log, random.Random(number)):
        honest, alarms = honest + 1, alarms + bool(check.LogCheck(each).problems)
    following, sent = check.LogCheck(log), json.loads(check.canonical(requests[-1].messages))
    honest, alarms = honest + 1, alarms + is_found(following, sent)
    logs = (mutations(log, count, number, kinds) for kinds in (bare, [*sealed, "wrong_size"]))
    for kind, made in chain(*logs):
        tried[kind] += 1
        missed += [] if is_broken(made) else [(kind, made.decode("utf-8", "replace"))]
    for kind, request in mutated_requests(sent, count, number):
        tried[kind] += 1
        missed += [] if is_found(following, request) else [(kind, check.canonical(request))]
    return {"number": number, "tried": tried, "missed": missed, "honest": honest, "alarms": alarms}


def main() -> None:
    share, seed = int(sys.argv[1]) // 3, int((sys.argv[2:] or ["0"])[0])
    file = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    done = {entry["number"]: entry for entry in map(json.loads, lines)}
    counts = {seed * 1_000_000 + at: min(share - at, BATCH) for at in range(0, share, BATCH)}
    tried, missed = Counter[str](), Counter[str]()
    honest = alarms = 0
    with ProcessPoolExecutor(WORKERS) as pool:
        left = {number: count for number, count in counts.items() if number not in done}
        made = pool.map(batch, left, left.values())
        for place, number in enumerate(counts):
            outcome = done[number] if number in done else next(made)
            if file is not None and number not in done:
                with file.open("a") as out:
                    out.write(json.dumps(outcome) + "\n")
            tried.update(outcome["tried"])
            missed.update(kind for kind, _ in outcome["missed"])
            honest, alarms = honest + outcome["honest"], alarms + outcome["alarms"]
            if place % 10 == 9:
                print(f"{tried.total()} tried, {missed.total()} not found, {alarms} false alarms", flush=True)  # fmt: skip
    for kind in sorted(tried):
        print(f"{kind}: {tried[kind] - missed[kind]} of {tried[kind]} found")
    print(f"all: {tried.total() - missed.total()} of {tried.total()} found")
    print(f"false alarms: {alarms} on {honest} logs and requests that were not mutated")
    sys.exit(bool(missed or alarms))


if __name__ == "__main__":
    main()
