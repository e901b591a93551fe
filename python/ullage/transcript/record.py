"""The record of what was sent and why (`docs/record.md`): a line for each request, from which `ullage-check` rebuilds it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ullage import ullage_check as check
from ullage.messages import Item
from ullage.transcript.log import LogFile, line_of
from ullage.ullage_check import cached_message, canonical, hashed, message_of

_BLOCK = 10
"""Every so many characters of the messages are looked for in a text: a copy of `check.ENOUGH` holds one of them whole."""

_LEAST = 12
"""Characters of a line of a rewritten message that is named as a copy from elsewhere in it."""

MESSAGE_LINE = "ullage-given"
"""Type of a line that holds a message, in a file that holds nothing but them and records."""

Record = dict[str, Any]


class _Hash(NamedTuple):
    digest: str
    size: int  # characters of the canonical JSON


class _Hashes:
    """The hash of each message, worked out once for as long as it says the same, at whatever place."""

    def __init__(self) -> None:
        self._earlier: dict[int, _Hash] = {}
        self._used: dict[int, _Hash] = {}

    def of(self, item: Item) -> _Hash:
        """The message's; one that was changed in place is noticed."""
        message = check.sent(item)
        try:
            # Four times as fast as canonical JSON and its hash, and as strict: keys in their order, 1 is not 1.0 or true.
            # 64 bits, in this process alone: of 10^6 messages two are taken for each other once in 10^7 conversations.
            look = hash(orjson.dumps(message, default=dict))
        except orjson.JSONEncodeError:  # lone surrogates, integers over 64 bits
            return _hash(message)
        self._used[look] = message_hash = (
            self._used.get(look) or self._earlier.get(look) or _hash(message)
        )
        return message_hash

    def forget(self) -> None:
        """Hold only what was asked for since the last time."""
        self._earlier, self._used = self._used, {}


def _hash(message: Any) -> _Hash:
    text = canonical(message)
    return _Hash(hashed(text), len(text))


class _Row(NamedTuple):
    message: Item
    digest: str
    size: int
    origin: int | str

    @property
    def text(self) -> str:
        return canonical(check.sent(self.message))


class Recorder:
    """Describes one request after another: what it shares with the one before, what is new, rewritten, made.

    Args:
        hashes: Of a list whose owner may change its messages in place; `None`: the same object says the same.
    """

    def __init__(self, hashes: _Hashes | None = None) -> None:
        self._lines: str | None = None
        self._seal = ""
        self._input: list[_Hash] = []
        self._shared, self._hashes = hashes, hashes or _Hashes()
        self._before: list[_Row] = []
        self._removed: set[int] = set()
        self._pins: Mapping[str, str] = {}
        self._head: str | None = None

    def again(self) -> Recorder:
        """One that begins from nothing."""
        return type(self)(self._shared)

    def follow(self, lines: Iterable[bytes], earlier: Callable[[], Iterable[bytes]]) -> None:
        """Take in lines that are written now, which the next seal covers; `earlier`: what the log held when this began to follow it."""
        if self._lines is None:
            lines, self._lines = [*earlier(), *lines], ""
        for line in lines:
            entry = check.parsed(line) if b'"seal"' in line or b'"redacted"' in line else None
            if isinstance(entry, dict) and entry.get("type") == check.RECORD:
                self._seal, self._lines = entry["seal"], ""
            else:
                self._lines += check.line_hash(line, entry)

    def sealed(self, record: Record) -> Record:
        """The record with its seal; from now on it counts as written."""
        self._seal, self._lines = check.seal(self._seal, self._lines or "", record), ""
        return {**record, "seal": self._seal}

    def record(
        self,
        history: Sequence[Item],
        messages: Sequence[Item],
        shown: Sequence[Item],
        sources: Sequence[int | str],
        *,
        logged: Iterable[Item] = (),
        pins: Mapping[str, str] | None = None,
        acts: Sequence[Sequence[Any]] = (),
        model: str = "",
        tokens: int = 0,
        head: object = None,
        form: Mapping[str, object] | None = None,
        repairs: Iterable[str] = (),
    ) -> Record:
        """Describe a request.

        Args:
            history: All messages that were added.
            messages: As they are sent.
            shown: As they were before they were repaired.
            sources: For each of these its position in the history, or the key of what made it.
            logged: Messages that were made and stand in the log: the record does not repeat them.
            pins: Texts that have to be in the request, by name.
            acts: What levels did since the newest record: name, reason, tokens before and after.
            model: What writes the summaries; empty: code does.
            tokens: Of the request, by estimate.
            head: What is sent besides the messages; the record holds its hash, if it is another than before.
            form: Where they are sent in another form: its name, and the messages in it, or the body.
            repairs: Rules of the provider for which something was repaired.
        """
        base = not self._input
        new = [self._hashes.of(item) for item in history[len(self._input) :]]
        self._input += new
        rows = self._rows(messages, _origins(messages, shown, sources), history)
        held = {self._hashes.of(item).digest for item in logged}
        ops, texts = self._ops(rows, history, held, model)
        record: Record = {"type": check.RECORD, "v": check.VERSION}
        record |= {"base": True} if base else {}
        record |= {"input": "".join(one.digest[: check.FOUND_BY] for one in new), "list": ops}
        record |= {"texts": texts} if texts else {}
        record |= {"acts": acts} if acts else {}
        first = len(self._input) - len(new)
        if ops != [[0, len(self._before)], {"in": [first, len(self._input)]}]:
            record |= self._losses(rows, history, ops, pins or {})
        self._before = rows
        self._hashes.forget()
        size = [len(rows), sum(row.size for row in rows), tokens]
        sha = hashed("".join(row.digest for row in rows))
        before, self._head = self._head, None if head is None else fingerprint(head)
        record |= {"head": self._head} if self._head not in (None, before) else {}
        for name, written in (form or {}).items():
            wire = hashed(written) if isinstance(written, bytes) else fingerprint(written)
            record |= {"form": name, "wire": wire}
        record |= {"repairs": sorted(repairs)} if repairs else {}
        return {**record, "size": size, "sha": sha}

    def _rows(
        self, messages: Sequence[Item], sources: Sequence[int | str], history: Sequence[Item]
    ) -> list[_Row]:
        rows = []
        for at, (message, origin) in enumerate(zip(messages, sources, strict=True)):
            before = self._before[at] if at < len(self._before) and self._shared is None else None
            if before is not None and before.message is message and before.origin == origin:
                rows.append(before)
                continue
            unchanged = isinstance(origin, int) and history[origin] is message
            message_hash = self._input[int(origin)] if unchanged else self._hashes.of(message)
            rows.append(_Row(message, message_hash.digest, message_hash.size, origin))
        return rows

    def _ops(
        self, rows: Sequence[_Row], history: Sequence[Item], held: set[str], model: str
    ) -> tuple[list[Any], str]:
        """What each message is, runs of them in one; and texts that neither a message nor the log holds."""
        places = {(row.origin, row.digest): at for at, row in enumerate(self._before)}
        ops: list[Any] = []
        texts: list[str] = []
        for row in rows:
            at = places.get((row.origin, row.digest))
            if at is not None:
                _run(ops, None, at)
                continue
            if not isinstance(row.origin, int):
                op: Record = {"made": row.origin, "sha": row.digest}
                parts = [row.text] if model else copies(row.text, history)
                if model:
                    op["model"] = model
                elif loose := _loose(row.text, history):
                    op["loose"] = loose
            elif self._input[row.origin].digest == row.digest:
                _run(ops, "in", row.origin)
                continue
            else:
                op = {"in": row.origin, "sha": row.digest}
                source = canonical(check.sent(history[row.origin]))
                parts = delta(source, row.text, row.origin)
            ops.append(op | {"put": [len(one) if isinstance(one, str) else one for one in parts]})
            texts += [one for one in parts if isinstance(one, str) and row.digest not in held]
        return ops, "".join(texts)

    def _losses(
        self,
        rows: Sequence[_Row],
        history: Sequence[Item],
        ops: Sequence[Any],
        pins: Mapping[str, str],
    ) -> Record:
        """What was removed since the record before: handles by position, results by id, the user's messages that no line quotes."""
        removed = set(range(len(self._input))) - {row.origin for row in rows}
        new, self._removed = sorted(removed - self._removed), removed
        put = [op for op in ops if "put" in op]
        rewritten = [op["in"] for op in put if "in" in op]
        results = [name for at in rewritten for name in _changed(history[at], rows, at)]
        words = [message_of(row.message).words for row in rows] if new or pins else []
        # A pin counts from where it first stands in a request.
        pins = {
            name: text
            for name, text in pins.items()
            if name in self._pins or any(check.plain(text) in one for one in words)
        }
        heads = {at: message_of(history[at]).typed[:40] for at in new}
        losses = {
            "removed": _spans(new),
            "results": results,
            "unquoted": [at for at in heads if not any(heads[at] in one for one in words)],
            "pins": {name: pins[name] for name in pins if pins[name] != self._pins.get(name)},
            "unpinned": sorted(self._pins.keys() - pins.keys()),
        }
        self._pins = dict(pins)
        return {key: value for key, value in losses.items() if value}


def fingerprint(value: Any) -> str:
    """The hash of a value's canonical JSON."""
    return hashed(canonical(value))


def _origins(
    messages: Sequence[Item], shown: Sequence[Item], sources: Sequence[int | str]
) -> list[int | str]:
    """Where each message of a request comes from, though some were repaired, put in, or taken out."""
    if len(messages) == len(shown):
        return list(sources)
    places, at = {id(item): at for at, item in enumerate(shown)}, -1
    origins: list[int | str] = []
    for item in messages:
        at = places.get(id(item), at + 1)
        origins.append(sources[at] if at < len(sources) else f"repair:{len(origins)}")
    return [
        one if origins.index(one) == place else f"repair:{place}"
        for place, one in enumerate(origins)
    ]


def _spans(places: Iterable[int]) -> list[list[int]]:
    """Rising positions as [first, last]."""
    spans: list[list[int]] = []
    for at in places:
        if spans and spans[-1][1] == at - 1:
            spans[-1][1] = at
        else:
            spans.append([at, at])
    return spans


def _run(ops: list[Any], key: str | None, at: int) -> None:
    """One message more: at the end of a run that it continues, or in one of its own."""
    last = ops[-1] if ops else None
    run = last if key is None else last.get(key) if isinstance(last, dict) else None
    if isinstance(run, list) and run[1] == at:
        run[1] = at + 1
    else:
        ops.append([at, at + 1] if key is None else {key: [at, at + 1]})


def _changed(item: Item, rows: Sequence[_Row], place: int) -> list[str]:
    """Ids of results that are shown otherwise than they were added."""
    shown = next(row.message for row in rows if row.origin == place)
    old, new = (message_of(side).results for side in (item, shown))
    return [name for name in old if old[name] != new.get(name)]


def delta(source: str, target: str, at: int) -> list[Any]:
    """A text as copies [at, start, stop] of another, and texts in between."""
    most = min(len(source), len(target))
    head = next((end for end in range(most) if source[end] != target[end]), most)
    most -= head
    tail = next((end for end in range(most) if source[-1 - end] != target[-1 - end]), most)
    put: list[Any] = [[at, 0, head]] if head else []
    changed = target[head : len(target) - tail]
    while changed:
        line = "".join(changed.partition("\\n")[:2])
        changed = changed[len(line) :]
        if put and isinstance(put[-1], list) and source.startswith(line, put[-1][2]):
            put[-1][2] += len(line)
            continue
        first = source.find(line) if len(line) >= _LEAST else -1
        if first >= 0:
            put.append([at, first, first + len(line)])
        else:
            _put_text(put, line)
    return put + ([[at, len(source) - tail, len(source)]] if tail else [])


def _put_text(put: list[Any], text: str) -> None:
    if put and isinstance(put[-1], str):
        put[-1] += text
    elif text:
        put.append(text)


def copies(target: str, history: Sequence[Item]) -> list[Any]:
    """A text as copies [message, start, stop] of the history's canonical JSON, what was typed first, and texts in between."""
    messages = [*map(message_of, history)]
    order = sorted(range(len(history)), key=lambda at: not messages[at].typed)
    sources = [message.text or "" for message in messages]
    blocks = {target[at : at + _BLOCK] for at in range(len(target) - _BLOCK + 1)}
    places: dict[str, tuple[int, int]] = {}
    for place in order:
        for at in range(0, len(sources[place]) - _BLOCK + 1, _BLOCK):
            block = sources[place][at : at + _BLOCK]
            if block in blocks:
                places.setdefault(block, (place, at))
    put: list[Any] = []
    done = at = 0
    while at <= len(target) - _BLOCK:
        place, first = places.get(target[at : at + _BLOCK], (-1, 0))
        before = after = 0
        if place >= 0:
            source, most = sources[place], min(at - done, first)
            while before < most and target[at - before - 1] == source[first - before - 1]:
                before += 1
            most = min(len(target) - at, len(source) - first)
            while after < most and target[at + after] == source[first + after]:
                after += 1
        if before + after < check.ENOUGH:
            at += 1
            continue
        _put_text(put, target[done : at - before])
        put.append([place, first - before, first + after])
        done = at = at + after
    _put_text(put, target[done:])
    return put


def _loose(text: str, history: Sequence[Item]) -> list[int]:
    """Lines that hold more than copies, names and fixed words."""
    source = "\n".join(message_of(item).words for item in history)
    lines = enumerate(cached_message(text).text_lines)
    return [at for at, line in lines if check.unknown(line, source)]


def compaction_record(items: Sequence[Item], result: Any, *, log: Iterable[Item] = ()) -> Record:
    """The record of one compaction of a list or a session, a line to write next to it.

    Args:
        items: What was compacted.
        result: The `CompactionResult`.
        log: Lines of the transcript that the checker will read, as JSON objects; none: it reads `items`.
    """
    recorder, done = Recorder(), _Compaction(items, result, list(log))
    return recorder.sealed(
        recorder.record(
            done.history,
            done.shown,
            done.shown,
            [f"compact:{place}" if at is None else at for place, at in enumerate(done.origin)],
            logged=done.logged,
            acts=done.acts,
            model=done.model,
            tokens=result.report.tokens_after,
        )
    )


class _Compaction:
    """What a record says of a `CompactionResult`."""

    def __init__(self, items: Sequence[Item], result: Any, log: Sequence[Item]) -> None:
        report, lines = result.report, {line.get("uuid"): line for line in log}
        held = [item for item in items if not log or item.get("uuid") in lines]
        places = {item.get("uuid", id(item)): at for at, item in enumerate(held)}
        self.history = [lines[item["uuid"]] for item in held] if log else held
        self.shown = [item for item in result.messages if check.sent(item) is not None]
        self.origin = [places.get(item.get("uuid", id(item))) for item in self.shown]
        in_log = {fingerprint(check.sent(line)) for line in log}
        self.logged = [item for item in self.shown if fingerprint(check.sent(item)) in in_log]
        self.acts = [["compact", result.reason, report.tokens_before, report.tokens_after]]
        asked_none = report.summarizer == "extractive"
        self.model = "" if asked_none else report.summarizer


class RecordFile:
    """Records in a file of their own, with the messages that they name: of lists that a client or a framework hands over whole.

    Args:
        path: Appended to; made if it is missing.
        model: What writes summaries; empty: code does.
    """

    def __init__(self, path: str | os.PathLike[str], *, model: str = "") -> None:
        self.path, self._model = Path(path), model
        self._hashes, self._end = _Hashes(), -1
        self._recorder = Recorder(self._hashes)
        self._digests: list[str] = []
        self._held: set[str] = set()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, folder: str | os.PathLike[str], name: str, *, model: str = "") -> RecordFile:
        """The file of a conversation of any name, by its hash, in a folder that is made if it is missing."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return cls(place / f"{digest}.jsonl", model=model)

    def add_view(self, messages: Sequence[Item], view: Any, **more: Any) -> None:
        """`add`, for a `ListView` that was made of these messages."""
        acts = [[one.stage, one.why, one.tokens_before, one.tokens_after] for one in view.reports]
        self.add(messages, view.messages, view.origin, acts=acts, tokens=view.tokens, **more)

    def add(
        self,
        messages: Sequence[Item],
        shown: Sequence[Item],
        origin: Sequence[int | None],
        *,
        elsewhere: Sequence[Item] | None = None,
        **more: Any,
    ) -> None:
        """Append those messages that the file does not hold yet, and the record of what is sent in their place.

        Args:
            messages: The whole conversation; where it is not the one before and more, the record begins from nothing.
            shown: What is sent.
            origin: For each of these the position of the message that it is made of; `None`: Ullage wrote it.
            elsewhere: Another file holds the messages; these of what was made too. `None`: this file is to hold all.
            **more: `acts`, `tokens`, `head` and `form` of `Recorder.record`.

        Raises:
            InvalidMessage: JSON cannot hold a message; nothing was written.
            LogConflict: Another process writes to the file.
            StoreError: It cannot be written; it is as it was.
        """
        with self._lock, closing(LogFile(str(self.path))) as file:
            digests = [self._hashes.of(item).digest for item in messages]
            if file.end != self._end:
                stored = map(json.loads, file.lines())
                self._held = {fingerprint(check.sent(line)) for line in stored}
            if file.end != self._end or digests[: len(self._digests)] != self._digests:
                self._recorder = self._recorder.again()
            self._end = -1  # until the file holds what the recorder says
            new = {} if elsewhere is not None else dict(zip(digests, messages, strict=True))
            lines = [
                line_of({"type": MESSAGE_LINE, "item": check.sent(item)}, at)
                for at, (digest, item) in enumerate(new.items())
                if digest not in self._held
            ]
            self._recorder.follow(lines, file.lines)
            firsts = {at: place for place, at in reversed([*enumerate(origin)])}
            sources = [
                f"view:{place}" if at is None or firsts[at] != place else at
                for place, at in enumerate(origin)
            ]
            logged, model = elsewhere or (), self._model
            record = self._recorder.record(
                messages, shown, shown, sources, logged=logged, model=model, **more
            )
            file.append(b"".join([*lines, line_of(self._recorder.sealed(record), 0)]))
            self._digests, self._end = digests, file.end
            self._held |= new.keys()


def record_compaction(
    path: str | os.PathLike[str], items: Sequence[Item], result: Any, *, log: Iterable[Item] = ()
) -> None:
    """Append the record of one compaction to a file; see `compaction_record`.

    Args:
        path: Made if it is missing; without a log the messages are put into it too, so that it can be checked by itself.
        items: What was compacted.
        result: The `CompactionResult`.
        log: Lines of the transcript that the checker will read, as JSON objects; none: it reads this file.

    Raises:
        InvalidMessage, LogConflict, StoreError: See `RecordFile.add`.
    """
    lines = list(log)
    done = _Compaction(items, result, lines)
    RecordFile(path, model=done.model).add(
        done.history, done.shown, done.origin,
        acts=done.acts, tokens=result.report.tokens_after, elsewhere=done.logged if lines else None,
    )  # fmt: skip


def redacted(line: bytes) -> bytes:
    """A line of a log, or a record, without its texts: all that was hashed can still be checked. No manager resumes from it."""
    entry = check.parsed(line)
    if entry.get("type") == check.RECORD:
        entry |= {"texts": None} if entry.get("texts") else {}
    else:
        message = fingerprint(check.sent(entry))
        stated = {"line": check.line_hash(line, entry), "message": message}
        keys = ("type", "uuid", "parentUuid", "timestamp", "sessionId")
        entry = {key: entry[key] for key in keys if key in entry} | {"redacted": stated}
    return line_of(entry, 0)
