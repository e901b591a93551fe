"""Checks what compactions did to a session: one file of the standard library, to be copied anywhere.

    python ullage_check.py LOG [RECORDS [REQUEST]]

LOG holds messages, a line of JSON each (or is one list of them); RECORDS stand in it or in a file of
their own (docs/record.md). Each recorded request is rebuilt and held to `PROMISES`, the body REQUEST
to the newest record. Of compactions by other programs it says what can be said.
"""

import base64
import json
import re
import sys
from collections import Counter
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, chain, islice, pairwise, takewhile
from pathlib import Path
from typing import Any

RECORD, VERSION, FOUND_BY = "ullage-record", 2, 7  # characters of a hash that find a message
LOCAL = "id type model usage stop_reason stop_sequence stop_details container context_management diagnostics uuid timestamp".split()
ITEMS = ("_call", "_output", "reasoning")  # ends of types of items without a role, of Responses
CALLS, RESULT = ("tool_use", "function", "_call"), {"tool_use_id", "tool_call_id"}
SIGNED = ("thinking", "redacted_thinking", "compaction")  # changed by a byte, they are refused
HOST, QUOTES = "<[#", dict.fromkeys(map(ord, "`'\""))  # how texts begin that no user typed
ENOUGH, SHORT = 20, 5  # characters of a copy; words of a part of a line that may end in a copy
PARTS = r"\s*(?:[,;|()“”…`<>\[\]={}]|:(?=\s|$)|\.(?=\s|$)|→|—| - |^[-*#>\d.]+(?=\s))\s*"
NAME = re.compile(r".*?(?:[\d_/.]|[a-z][A-Z]|\W\w).*", re.DOTALL)
FIXED = re.compile(r"[\W\d]*|[um]\d*(?:-[um]?\d*)?")
WORDS = """a above act add after all already an and answer answered anything as asked assistant assistants at automatically backticks be been being by call
changed changes characters code commands commits committed compaction completed concepts confirm conflicts context continue continued conversation current data
decided do does earlier edited else end errors exit failed failures fences files finished fixes for found from generated grant has hashes home ids if in input
instruction intent invoked is it its kept key last lasting later left lines may message messages names newest next no not nothing of ok older on one open opened
optional options or out part paths pending points previous primary problem proposed question quoted ran read refused refusing replaced report reported request
requested room rule running said says sections seen session since skills solving step steps stopped sub-agent succeed succeeded summary task tasks technical
text that the then this tickets to tool tried under use user users verbatim wait waiting was well-known were what when whole with words work written yet you
yourself""".split()


def canonical(value: Any) -> str:
    """JSON without spaces, keys in their order, characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)


def hashed(data: str | bytes) -> str:
    """The first 22 characters (132 bits) of the SHA-256 in base64."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    return base64.b64encode(sha256(raw).digest()).decode()[:22]


def parsed(raw: bytes) -> Any:
    """What a line says; `None`: it is not JSON."""
    try:
        return json.loads(raw)
    except ValueError:
        return None


def sent(entry: Any) -> dict[str, Any] | None:
    """The message of a line, without keys that no request takes, or its item or attachment."""
    entry = entry if isinstance(entry, dict) else {}
    payload = entry.get("payload") if entry.get("type") == "response_item" else None
    for item in (entry, entry.get("message"), entry.get("item"), payload):
        if isinstance(item, dict) and "role" in item:
            return {key: value for key, value in item.items() if key not in LOCAL}
        is_item = isinstance(item, dict) and str(item.get("type")).endswith(ITEMS)
        if is_item or (isinstance(item, dict) and "encrypted_content" in item):
            return item
    return {"attachment": entry["attachment"]} if "attachment" in entry else None


def strings(value: Any) -> list[str]:
    """All texts in a value, in order, with keys and numbers; without media and what is signed."""
    if isinstance(value, dict) and value.get("type") in (*SIGNED, "base64"):
        value = value.get("thinking", "")
    if isinstance(value, dict | list):
        parts = chain(*value.items()) if isinstance(value, dict) else value
        return [text for part in parts for text in strings(part)]
    return [value if isinstance(value, str) else canonical(value)]


def plain(text: str) -> str:
    """As texts are compared: without quotes, each run of white space as one space."""
    return " ".join(text.translate(QUOTES).split())


def id_of(part: dict[str, Any]) -> str:
    """The id of a call, in the call and in its result."""
    names = map(part.get, ("tool_use_id", "tool_call_id", "call_id", "id"))
    return str(next(filter(None, names), ""))


class CheckedMessage:
    """What the promises look at in a message; of a redacted one (`None`) only the hash is known."""

    def __init__(self, text: str | None, sha: str = "") -> None:
        self.text, self.sha, value = text, sha or hashed(text or ""), json.loads(text or "null")
        self.value: dict[str, Any] = value if isinstance(value, dict) else {}
        content, is_users = self.value.get("content"), self.value.get("role") == "user"
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = content if isinstance(content, list) else []
        self.blocks = [block for block in blocks if isinstance(block, dict)]
        texts = [str(block.get("text", "")) for block in self.blocks]
        self.text_lines = "\n".join(texts).split("\n")
        self.words = plain(" ".join(strings(self.value)))
        parts = [self.value, *self.blocks, *(self.value.get("tool_calls") or ())]
        kinds = [(str(part.get("type")), part) for part in parts]
        self.calls = [id_of(part) for kind, part in kinds if kind.endswith(CALLS)]
        results = [p for kind, p in kinds if RESULT & p.keys() or kind.endswith("_output")]
        self.results = {id_of(part): part for part in results}
        self.signed = {canonical(part) for kind, part in kinds if kind in SIGNED}
        typed = [text for text in texts if text.strip()[:1] not in HOST]
        self.typed = plain("\n".join(typed if is_users and not results else ()))


cached_message = lru_cache(9999)(CheckedMessage)


def message_of(entry: Any) -> CheckedMessage:
    """The message of a line; of a redacted line what it states."""
    stated = entry.get("redacted") if isinstance(entry, dict) else None
    return (
        cached_message(None, stated["message"])
        if stated
        else cached_message(canonical(sent(entry)))
    )


def line_hash(raw: bytes, entry: Any) -> str:
    """The hash of a line; of a redacted line what it states."""
    stated = entry.get("redacted") if isinstance(entry, dict) else None
    return str(stated["line"]) if stated else hashed(raw.rstrip(b"\n"))


def seal(before: str, lines: str, record: dict[str, Any]) -> str:
    """The hash of the seal before, of the lines since, and of the record without seal and texts."""
    bare = {key: value for key, value in record.items() if key not in ("seal", "texts")}
    return hashed(before + lines + hashed(canonical(bare)))


class LogCheck:
    """A log and its records: `problems` says what is broken, `counts` what was looked at."""

    def __init__(self, log: bytes, records: bytes | None = None) -> None:
        self.problems, self.where = list[tuple[str, str, str]](), ""  # kind, place, words
        self.notes, self.counts = list[str](), Counter[str]()
        self.requests = list[list[str | None]]()  # each, rebuilt
        self.input, self.shown = list[CheckedMessage](), list[tuple[CheckedMessage, Any]]()
        self.removed, self.pins = set[int](), dict[str, str]()
        whole = parsed(log) if log[:1] in b"[{" else None
        whole = whole.get("messages") if isinstance(whole, dict) else whole
        entries = whole if isinstance(whole, list) else [*map(parsed, log.splitlines())]
        self.in_log = {message.sha: message for message in map(message_of, (*entries, None))}
        self.by_start = {sha[:FOUND_BY]: message for sha, message in self.in_log.items()}
        self.walk(log if records is None else records)
        if not self.counts["records"]:
            self.notes, self.counts = foreign(entries)

    def broken(self, kind: str, is_broken: object, words: str) -> None:
        self.problems += [(kind, self.where, words)] if is_broken else []

    def walk(self, stream: bytes) -> None:
        """Follow all lines, with the records among them."""
        before = lines = ""
        for number, raw in enumerate(stream.splitlines(keepends=True), 1):
            entry = parsed(raw)
            has_seal = "seal" in entry if isinstance(entry, dict) else b'"seal":' in raw
            if not has_seal and RECORD.encode() not in raw[:30]:
                lines += line_hash(raw, entry)
                continue
            self.where, self.counts["records"] = f"line {number}", self.counts["records"] + 1
            try:
                is_sealed = entry["seal"] == seal(before, lines, entry)
                is_whole = raw.strip() == raw.rstrip(b"\n")
                words = "this record, or a line since the one before, was changed"
                self.broken("seal", not (is_sealed and is_whole), words)
                before, lines = entry["seal"], ""
                self.record(entry)
            except (LookupError, TypeError, ValueError, AttributeError) as exc:
                self.broken("record", True, f"cannot be read: {type(exc).__name__}: {exc}")
        self.counts["lines after the newest record"] = len(lines) // 22 if before else 0

    def record(self, record: dict[str, Any]) -> None:
        """Rebuild the request of a record, and hold it to the promises."""
        if record["v"] != VERSION:
            raise ValueError(f"it has version {record['v']}, this checker reads {VERSION}")
        if record.get("base"):
            self.input, self.shown, self.removed, self.pins = [], [], set(), {}
        for at in range(0, len(record["input"]), FOUND_BY):
            message = self.by_start.get(record["input"][at : at + FOUND_BY])
            self.broken("missing", not message, f"message {len(self.input)} is not in the log")
            self.input.append(message or cached_message(None, "missing"))
        texts = record.get("texts", "")
        self.texts, self.is_redacted = iter(texts or ""), texts is None
        runs = [(op, self.named(op)) for op in record["list"]]
        self.broken("changed", [*self.texts], "there are texts that nothing takes")
        self.now, self.shown = record, [*chain(*(run for _, run in runs))]
        self.written = [(op, run[0][0]) for op, run in runs if "sha" in op]
        self.requests.append([message.text for message, _ in self.shown])
        self.is_whole = None not in self.requests[-1]
        removed = {*range(len(self.input))} - {place for _, place in self.shown}
        self.new, self.removed = removed - self.removed, removed
        pins, unpinned = self.pins | record.get("pins", {}), record.get("unpinned", ())
        self.pins = {name: text for name, text in pins.items() if name not in unpinned}
        for promise in PROMISES:
            for wrong in promise(self):
                self.broken(promise.__name__, True, f"{str(promise.__doc__)[:-1]}: not {wrong}")
        self.counts["rebuilt" if self.is_whole else "redacted, known by hash"] += 1
        recalled = sum(self.input[at].text is not None for at in removed)
        self.counts |= {"removed": len(removed), "of these in the log, to be recalled": recalled}

    def named(self, op: Any) -> list[tuple[CheckedMessage, Any]]:
        """What an element of `list` names, with its place in the input or what made it."""
        if isinstance(op, list):  # of the request before
            return [self.shown[at] for at in range(*op)]
        if isinstance(op.get("in"), list):  # of the input
            return [(self.input[at], at) for at in range(*op["in"])]
        held, parts, at = self.in_log.get(op["sha"]), list[str | None](), 0
        for part in op["put"]:
            if isinstance(part, list):  # a copy: of which message, from where, to where
                source, first, end = self.input[part[0]].text, part[1], part[2]
                parts.append(source and source[first:end])
            elif held:  # so many characters of the message in the log
                parts.append(held.text and held.text[at : at + part])
            else:  # or else of `texts`
                parts.append(None if self.is_redacted else "".join(islice(self.texts, part)))
            at += len(parts[-1] or "")
        text = None if None in parts else "".join(map(str, parts))
        is_wrong = text is not None and hashed(text) != op["sha"]
        self.broken("verbatim" if held else "changed", is_wrong, f"{op['sha']} is not {text}"[:120])
        return [(cached_message(text, op["sha"]), op.get("in", op.get("made")))]

    def stands(self, words: str) -> bool:
        """Whether a message of the request says so."""
        return any(words in message.words for message, _ in self.shown)

    def held(self, body: Any) -> None:
        """Hold a request, its body or its messages, to the newest record."""
        messages = body.get("messages", body.get("input")) if isinstance(body, dict) else body
        sha = hashed("".join(message_of(message).sha for message in messages or ()))
        self.where, is_it = "the request", sha == self.now["sha"]
        self.broken("sent", not is_it, "it is not the one that the newest record names")


def request(it: LogCheck) -> list[Any]:
    """What is rebuilt is what was sent: `sha` is the hash over the hashes of its messages."""
    sha = hashed("".join(message.sha for message, _ in it.shown))
    return [sha] if sha != it.now["sha"] else []


def size(it: LogCheck) -> list[Any]:
    """`size` says how many messages there are, and characters of their canonical JSON."""
    there = [len(it.shown), sum(len(message.text or "") for message, _ in it.shown)]
    count = 1 + it.is_whole
    return [there] if there[:count] != it.now["size"][:count] else []


def order(it: LogCheck) -> list[Any]:
    """A message stands once, in the order in which it was said and stood before."""
    places = [[place, place + 1] for _, place in it.shown if isinstance(place, int)]
    runs = [run for run in it.now["list"] if isinstance(run, list)]
    return [two for some in (places, runs) for two in pairwise(some) if two[0][1] > two[1][0]]


def pair(it: LogCheck) -> list[Any]:
    """A result stands after its call, and a call has the result that the log has."""
    calls, wrong = Counter[str](), list[str]()
    for message, _ in it.shown if it.is_whole else ():
        calls.update(message.calls)
        calls.subtract([*message.results])
        wrong += [name for name in message.results if calls[name] < 0]
    lost = +calls  # their results may be in the log
    return wrong + [name for message in it.input if lost for name in message.results if lost[name]]


def handle(it: LogCheck) -> list[Any]:
    """What was removed is in `removed`, a result that was changed in `results`: nothing else is."""
    removed = [at for first, last in it.now.get("removed", ()) for at in range(first, last + 1)]
    wrong, named = sorted(it.new ^ {*removed}), it.now.get("results", ())
    for op, message in it.written:
        before = it.input[op["in"]].results if "in" in op and message.results else {}
        changed = [name for name in before if before[name] != message.results.get(name)]
        wrong += [name for name in changed if name not in named]
    return wrong


def signature(it: LogCheck) -> list[Any]:
    """What a provider signed is as it was."""
    before = {block for message in it.input if it.written for block in message.signed}
    return [block[:60] for _, message in it.written for block in message.signed - before]


def pin(it: LogCheck) -> list[Any]:
    """Each of `pins` stands there verbatim, until it is in `unpinned`."""
    return [name for name in it.pins if it.is_whole and not it.stands(plain(it.pins[name]))]


def user(it: LogCheck) -> list[Any]:
    """Of what a user typed, if it was removed, the beginning stands there, or it is in `unquoted`."""
    silent = sorted(it.new - {*it.now.get("unquoted", ())}) if it.is_whole else ()
    return [f"message {at}" for at in silent if not it.stands(it.input[at].typed[:40])]


def line(it: LogCheck) -> list[Any]:
    """A line that code wrote stands in the source; of a `model`, or `loose`, it is unverifiable."""
    own, wrong = [(op, message) for op, message in it.written if "made" in op], list[str]()
    words = [message.words for message in it.input if own]
    source = "\n".join([*words, *map(plain, it.pins.values())])
    is_hidden = any(message.text is None for message in it.input)
    for op, message in own:
        lines, model = enumerate(message.text_lines), op.get("model")
        others = {at: text for at, text in lines if model or unknown(text, source)}
        excused = {*others} if model or is_hidden else {*op.get("loose", ())}
        it.counts["unverifiable"] += len(excused & others.keys())
        wrong += [f"line {at}: {text[:60]}" for at, text in others.items() if at not in excused]
    return wrong


PROMISES = (request, size, order, pair, handle, signature, pin, user, line)


def unknown(line: str, source: str) -> list[str]:
    """Its words that are not fixed nor in a copy: a whole part, `ENOUGH` characters, or a name."""
    missing = list[str]()
    parts = [] if plain(line) in source else re.split(PARTS, " ".join(line.split()))
    for part in map(plain, parts):
        is_short = len(words := part.split()) <= SHORT
        while words:
            starts = [*takewhile(source.__contains__, accumulate(words, "{} {}".format))]
            copy, is_all = starts[-1] if starts else "", len(starts) == len(words)
            is_part = is_all and (is_short or copy == part)
            if copy and (is_part or len(copy) >= ENOUGH or NAME.fullmatch(copy)):
                words = words[len(starts) :]
                continue
            word = words.pop(0).strip(".?!*:0123456789–×")
            is_fixed = FIXED.fullmatch(word) or word.lower() in WORDS
            missing += [] if is_fixed or f"name {word} input" in source else [word]
    return missing


def foreign(entries: list[Any]) -> tuple[list[str], Counter[str]]:
    """What can be said of compactions without records: Claude Code's, Codex's, OpenCode's, pi's."""
    notes, counts, messages = list[str](), Counter[str](), list[CheckedMessage]()
    by_uuid, preserved = dict[Any, CheckedMessage](), list[CheckedMessage]()
    for number, entry in enumerate(entries, 1):
        entry = entry if isinstance(entry, dict) else {}
        if "parts" in entry:
            entry = {**entry.get("info", {}), "content": entry["parts"]}
        uuids = (entry.get("compactMetadata") or {}).get("preservedMessages", {}).get("uuids", ())
        preserved = [by_uuid[uuid] for uuid in uuids if uuid in by_uuid] or preserved
        put = [cached_message(canonical(item)) for item in replacement(entry)]
        if not put:
            messages += [message_of(entry)] if sent(entry) else []
            by_uuid[entry.get("uuid")] = message_of(entry)
            continue
        before = {(*sorted(strings(message.blocks)),) for message in messages if message.words}
        new = [message for message in put if (*sorted(strings(message.blocks)),) not in before]
        put, preserved = put + preserved, []
        now, source = (" ".join(m.words for m in put), "\n".join(m.words for m in messages))
        users = [message.typed[:40] in now for message in messages if message.typed]
        texts = [text for message in new for text in message.text_lines if text.strip()]
        is_copied = [not unknown(text, source) for text in texts]
        is_sealed = [message.text_lines == [""] for message in new]
        notes.append(
            f"line {number}: a compaction of {len(messages)} messages: {len(put) - len(new)} kept verbatim,"
            f" {sum(is_sealed)} sealed by the provider; {sum(users)} of {len(users)} messages of the"
            f" user quoted; {sum(is_copied)} of {len(texts)} lines of the summary copied from the messages"
        )
        counts["compactions without a record"] += 1
        counts["unverifiable"] += is_copied.count(False) + sum(is_sealed) + 1  # the request
    return notes, counts


def replacement(entry: dict[str, Any]) -> list[Any]:
    """What a compaction by another program put in place of all before; empty: the line is none."""
    message = sent(entry) or {}
    if entry.get("isCompactSummary") or message.get("summary") is True:
        return [message]
    put = {"compaction": entry, "compacted": entry.get("payload")}.get(str(entry.get("type"))) or {}
    text = {"role": "user", "content": str(put.get("summary") or put.get("message"))}
    return [sent(item) or item for item in put.get("replacement_history") or [text]] if put else []


def main() -> int:
    """Check the files named on the command line; 1: something is broken, 2: there is no such file."""
    missing = [name for name in sys.argv[1:4] if not Path(name).is_file()]
    if missing or len(sys.argv) == 1:
        print(f"no such file: {', '.join(missing)}" if missing else __doc__, file=sys.stderr)
        return 2
    log, *more = [Path(name).read_bytes() for name in sys.argv[1:4]]
    check = LogCheck(log, *more[:1])
    for body in more[1:]:
        check.held(parsed(body))
    lines = [f"BROKEN {kind} ({where}): {words}" for kind, where, words in check.problems]
    lines += [f"{name}: {count}" for name, count in check.counts.items() if count]
    end = f"{len(check.problems) or 'nothing'} broken{' that shows without a record' * bool(check.notes)}"
    print(*check.notes, *lines, end if check.counts else "no record and no compaction", sep="\n")
    return bool(check.problems)


if __name__ == "__main__":
    sys.exit(main())
