"""Checks what compactions did to a session: one file of the standard library, to be copied anywhere.

    python ullage_check.py LOG [RECORDS [REQUEST]]

LOG holds the messages, a line of JSON each (or is one list of them); RECORDS stand in it or in a file of their own (docs/record.md). Each recorded
request is rebuilt and held to `PROMISES`, a REQUEST to the newest record. Of compactions by other programs it says what can be said.
"""
# fmt: off
# ruff: noqa: D102, D103, T201, UP014 - a short function is described in its line; this is a program

import base64
import json
import re
import sys
from collections import Counter
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

RECORD, SHORT_HASH = "ullage-record", 5  # bytes of a hash in `input`: they find a message, `sha` proves it
LOCAL = frozenset("id type model usage stop_reason stop_sequence stop_details container context_management diagnostics uuid timestamp".split())
ITEMS = ("_call", "_output", "reasoning")  # ends of the types of items that have no role, in the Responses API
SIGNED = ("thinking", "redacted_thinking", "compaction")  # changed by a byte, they are refused
# ---- how a message is written, hashed and read -------------------------------------------------------------
def canonical(value: Any) -> str:  # JSON without spaces, keys in their order, characters beyond ASCII as they are
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)
def hashed(data: str | bytes, size: int = 16) -> bytes:  # the first bytes of the SHA-256
    return sha256(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")).digest()[:size]
def b64(data: bytes) -> str:  # without padding
    return base64.b64encode(data).decode().rstrip("=")
def unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
def plain(text: str) -> str:  # as texts are compared: without quotes, each run of white space as one space
    return " ".join(text.translate(QUOTES).split())
def reading(value: Any) -> str:  # a message as words
    return plain(" ".join(strings(value)))
def parsed(raw: bytes) -> Any:  # None: it is not JSON
    try:
        return json.loads(raw)
    except ValueError:
        return None
def sent(entry: Any) -> dict[str, Any] | None:
    """The message of a line, without what no request takes, or the item; an attachment in a dict; `None`: there is none."""
    entry = entry if isinstance(entry, dict) else {}
    for item in (entry, *map(entry.get, ("message", "item", "payload" if entry.get("type") == "response_item" else ""))):
        if isinstance(item, dict) and "role" in item:
            return {key: value for key, value in item.items() if key not in LOCAL}
        if isinstance(item, dict) and ("encrypted_content" in item or str(item.get("type")).endswith(ITEMS)):
            return item
    return {"attachment": entry["attachment"]} if "attachment" in entry else None
def strings(value: Any) -> list[str]:  # all texts in a value, in order, with keys and numbers; without media and what is signed
    value = value.get("thinking", "") if isinstance(value, dict) and value.get("type") in (*SIGNED, "base64") else value
    if isinstance(value, dict | list):
        parts = [part for item in value.items() for part in item] if isinstance(value, dict) else value
        return [text for part in parts for text in strings(part)]
    return [value if isinstance(value, str) else canonical(value)]
def blocks(message: Any) -> list[dict[str, Any]]:  # a string is a text block
    content = message.get("content") if isinstance(message, dict) else None
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
def text_of(message: Any) -> str:  # its texts, a line each
    return "\n".join(str(block.get("text", "")) for block in blocks(message))
def typed(message: Any) -> str:  # what the user seems to have typed: no tool results, no texts of the host in tags or brackets
    parts = [part for part in blocks(message) if message.get("role") == "user" and not results(message)]
    return "\n".join(text for part in parts if (text := str(part.get("text", "")).strip()) and text[0] not in "<[#")
def results(message: Any) -> dict[str, Any]:  # tool results by the id of their call
    one = message.get("tool_call_id") or (str(message.get("type")).endswith("_output") and message.get("call_id"))
    return {str(b["tool_use_id"]): b for b in blocks(message) if b.get("type") == "tool_result"} | ({str(one): message} if one else {})
message_in = lru_cache(9999)(lambda text: json.loads(text) if text else {})  # what a canonical text says
words_of = lru_cache(9999)(lambda text: reading(message_in(text)))
signed = lru_cache(9999)(lambda text: frozenset(canonical(b) for b in blocks(message_in(text)) if b.get("type") in SIGNED))
@lru_cache(9999)
def ids(text: str | None) -> list[tuple[bool, str]]:  # of calls (True) and results, in order
    message = message_in(text)
    parts = (message, *blocks(message), *(message.get("tool_calls") or ()))
    calls = [str(part.get("call_id") or part.get("id")) for part in parts if str(part.get("type")).endswith(("tool_use", "function", "_call"))]
    return [(True, name) for name in calls] + [(False, name) for name in results(message)]
# ---- what a line of a summary is copied from ---------------------------------------------------------------
ENOUGH, SHORT, QUOTES = 20, 5, dict.fromkeys(map(ord, "`'\""))
SPLIT = re.compile(r"\s*(?:[,;|()“”…`<>\[\]={}]|:(?=\s|$)|\.(?=\s|$)|→|—| - |^[-*#>\d.]+(?=\s))\s*")
NAME = re.compile(r".*?(?:[\d_/.]|[a-z][A-Z]|\W\w).*", re.DOTALL)
FIXED = re.compile(r"[\W\d]*|[um]\d*(?:-[um]?\d*)?")
WORDS = frozenset("""a above act add after all already an and answer answered anything as asked assistant assistants automatically backticks be been being by
call changed changes characters code commands committed compaction completed concepts confirm context continue continued conversation current data decided do
does earlier edited else end errors exit failed failures fences files finished fixes for found from generated grant has hashes home ids if in input
instruction intent invoked is it its kept key last lasting later left lines message messages names newest next no not nothing of ok older on one open opened
optional options or out part paths pending points previous primary problem question quoted ran read refused refusing replaced report reported request
requested room rule running said says sections seen session since skills solving step steps stopped sub-agent succeed succeeded summary task tasks technical
text that the this tickets to tool tried under use user users verbatim wait waiting was well-known were what when whole with words work written yet you
yourself""".split())
def copies(line: str, source: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Spans of the source that a line is copied from, and its words that are not: a copy is a whole part, `ENOUGH` characters, or a name."""
    spans, unknown = list[tuple[int, int]](), list[str]()
    for chunk in map(plain, SPLIT.split(" ".join(line.split()))):
        few = len(words := chunk.split()) <= SHORT
        while words:
            count, at = 0, -1
            while count < len(words) and (begin := source.find(" ".join(words[: count + 1]))) >= 0:
                count, at = count + 1, begin
            text = " ".join(words[:count])
            if count and ((count == len(words) and (few or text == chunk)) or len(text) >= ENOUGH or NAME.fullmatch(text)):
                spans.append((at, at + len(text)))
                words = words[count:]
                continue
            word = words.pop(0).strip(".?!*:0123456789–×")
            if not (FIXED.fullmatch(word) or word.lower() in WORDS or f"name {word} input" in source):
                unknown.append(word)
    return spans, unknown
# ---- compactions by other programs -------------------------------------------------------------------------
def foreign(entries: list[Any]) -> tuple[list[str], Counter[str]]:
    """What a log says of compactions that no record describes: Claude Code's, Codex's, OpenCode's, pi's."""
    notes, counts, messages, by_uuid, preserved = list[str](), Counter[str](), list[Any](), dict[Any, Any](), list[Any]()
    for number, entry in enumerate((one if isinstance(one, dict) else {} for one in entries), 1):
        message = {**entry.get("info", {}), "content": entry["parts"]} if "parts" in entry else sent(entry)
        marks = (entry.get("compactMetadata") or {}).get("preservedMessages", {}).get("uuids", ())
        preserved = [by_uuid[name] for name in marks if name in by_uuid] or preserved
        items = replaced_by(entry, message, preserved)
        if items is None:
            messages += [message] if message is not None else []
            by_uuid |= {entry["uuid"]: message} if message and "uuid" in entry else {}
            continue
        before, preserved, source, now = {(*sorted(strings(blocks(one))),) for one in messages} - {()}, [], "\n".join(map(reading, messages)), " ".join(map(reading, items))
        new, users = [one for one in items if (*sorted(strings(blocks(one))),) not in before], [text for one in messages if (text := plain(typed(one))[:40])]
        lines = [line for one in new for line in text_of(one).split("\n") if line.strip()]
        copied, sealed = sum(not copies(line, source)[1] for line in lines), sum(not text_of(one) for one in new)
        counts += Counter({"compactions without a record": 1, "unverifiable": len(lines) - copied + sealed + 1})  # 1: the request, which no line holds
        notes.append(f"line {number}: a compaction of {len(messages)} messages: {len(items) - len(new)} kept verbatim, {sealed} sealed by the provider; "
            f"{sum(text in now for text in users)} of {len(users)} messages of the user quoted; {copied} of {len(lines)} lines of the summary copied from the messages")
    return notes, counts
def replaced_by(entry: dict[str, Any], message: Any, preserved: list[Any]) -> list[Any] | None:
    """What a compaction of another program put in place of what was before; `None`: the line is none."""
    if entry.get("isCompactSummary") or (isinstance(message, dict) and message.get("summary") is True):
        return [message, *preserved]
    put = {"compaction": entry, "compacted": entry.get("payload")}.get(str(entry.get("type"))) or {}
    texts = [{"role": "user", "content": str(put.get("summary") or put.get("message"))}]
    return [sent(item) or item for item in put.get("replacement_history") or texts] if put else None
# ---- a log and its records ---------------------------------------------------------------------------------
def seal(before: bytes, lines: bytes, record: dict[str, Any]) -> bytes:  # over seal, lines since, and the record with its texts as hashes
    ops = [{**op, "put": [{"redacted": b64(hashed(p, 32))} if isinstance(p, str) else p for p in op["put"]]}
           if isinstance(op, dict) and "put" in op else op for op in record["list"]]
    bare = {key: value for key, value in record.items() if key != "seal"} | {"list": ops}
    return hashed(before + lines + hashed(canonical(bare), 32), 32)
def line_hash(raw: bytes, entry: Any) -> bytes:  # of a redacted line, what it states
    stated = entry.get("redacted") if isinstance(entry, dict) else None
    return unb64(stated["line"]) if isinstance(stated, dict) else hashed(raw.rstrip(b"\n"), 32)
Shown = NamedTuple("Shown", [("digest", bytes), ("text", str | None), ("origin", Any)])  # `text`: None if redacted; `origin`: place, or maker
class LogCheck:
    """A log and its records, followed line by line: `problems` says what is broken, `counts` what was looked at."""
    def __init__(self, log: bytes, records: bytes | None = None) -> None:
        self.problems, self.notes, self.where = list[tuple[str, str, str]](), list[str](), ""  # kind, place, words
        self.counts, self.removed, self.pins, self.new = Counter[str](), set[int](), dict[str, str](), set[int]()
        self.now, self.input, self.shown = dict[str, Any](), list[Shown](), list[Shown]()  # the newest record, and what it names
        self.own, self.runs, self.origins, self.whole = list[tuple[dict[str, Any], Shown]](), list[int](), list[int](), True
        self.requests, self.texts = list[list[str | None]](), dict[bytes, str | None]({hashed("null"): "null"})  # each request, rebuilt
        lines = [(raw, parsed(raw)) for raw in log.splitlines(keepends=True)]
        whole = parsed(log) if log[:1] in b"[{" and (len(lines) < 2 or lines[0][1] is None) else None
        whole = whole.get("messages") if isinstance(whole, dict) else whole
        entries = whole if isinstance(whole, list) else [entry for _, entry in lines]
        for entry in entries:
            stated, text = entry.get("redacted") if isinstance(entry, dict) else None, canonical(sent(entry))
            self.texts.setdefault(*(unb64(stated["message"]), None) if isinstance(stated, dict) else (hashed(text), text))
        self.short = {digest[:SHORT_HASH]: digest for digest in self.texts}
        self.walk(lines if records is None else [(raw, parsed(raw)) for raw in records.splitlines(keepends=True)])
        self.notes, self.counts = ([], self.counts) if self.counts["records"] else foreign(entries)
    def broken(self, kind: str, is_broken: object, words: str) -> None:
        self.problems += [(kind, self.where, words)] if is_broken else []
    def walk(self, stream: list[tuple[bytes, Any]]) -> None:  # all lines, with the records among them
        before = lines = b""
        for number, (raw, entry) in enumerate(stream, 1):
            if not ("seal" in entry if isinstance(entry, dict) else b'"seal":' in raw) and RECORD.encode() not in raw[:30]:
                lines += line_hash(raw, entry)
                continue
            self.where, self.counts["records"] = f"line {number}", self.counts["records"] + 1
            try:
                self.broken("seal", entry["seal"] != b64(seal(before, lines, entry)) or raw.strip() != raw.rstrip(b"\n"), "this record, or a line since the one before, is not what was written")
                before, lines = unb64(entry["seal"]), b""
                self.record(entry)
            except (LookupError, TypeError, ValueError, AttributeError) as exc:
                self.broken("record", True, f"cannot be read: {type(exc).__name__}: {exc}")
        self.counts["lines after the newest record"] = len(lines) // 32 if before else 0
    def record(self, record: dict[str, Any]) -> None:
        """Rebuild the request of a record, and hold it to the promises."""
        if record.get("base"):
            self.input, self.shown, self.removed = [], [], set()
        short, ops, old = unb64(record["input"]), record["list"], len(self.input)
        for digest in (self.short.get(short[at : at + SHORT_HASH]) for at in range(0, len(short), SHORT_HASH)):
            self.broken("missing", digest is None, f"message {len(self.input)} of the input is not in the log as it was")
            self.input.append(Shown(digest or b"", self.texts.get(digest or b""), len(self.input)))
        elements = [(op, self.messages_of(op)) for op in ops]
        grown = ops == [[0, len(self.shown)], {"in": [old, len(self.input)]}]
        self.now, self.shown, self.runs = record, [message for _, some in elements for message in some], [end for op in ops if isinstance(op, list) for end in op]
        self.own = [(op, some[0]) for op, some in elements if isinstance(op, dict) and "sha" in op]
        self.whole, self.origins = all(message.text is not None for message in self.shown), [message.origin for message in self.shown if isinstance(message.origin, int)]
        self.new = (removed := set(range(len(self.input))) - set(self.origins)) - self.removed
        self.requests.append([message.text for message in self.shown])
        self.counts["rebuilt" if self.whole else "redacted, known by hash"] += 1
        for promise in PROMISES[: 5 if grown else None]:
            self.problems += [(promise.__name__, self.where, words) for words in promise(self)]
        if not grown:
            self.pins, self.removed, self.counts["removed"] = record.get("pins", {}), removed, len(removed)
            self.counts["of these in the log, to be recalled"] = sum(self.input[at].text is not None for at in removed)
    def messages_of(self, op: Any) -> list[Shown]:
        """The messages that an element of `list` names: of the request before, of the input, rewritten, made."""
        if isinstance(op, list) or isinstance(op.get("in"), list):
            (first, end), run = (op, self.shown) if isinstance(op, list) else (op["in"], self.input)
            return run[first:end]
        digest, origin = unb64(op["sha"]), op.get("in", op.get("made"))
        if "put" not in op:
            self.broken("missing", digest not in self.texts, f"what {origin} made is not in the log")
            return [Shown(digest, self.texts.get(digest), origin)]
        source = self.input[op.get("in", op.get("of"))].text if "in" in op or "of" in op else None
        put = [p if isinstance(p, str) else source[p[0] : p[1]] if isinstance(p, list) and source else None for p in op["put"]]
        text = None if None in put else "".join(map(str, put))
        self.broken("changed", text is not None and hashed(text) != digest, f"message {origin}, rewritten, is not what the record names")
        return [Shown(digest, text, origin)]
    def held(self, body: Any) -> None:
        """Hold a request, its body or its messages, to the newest record."""
        messages, self.where = body.get("messages", body.get("input")) if isinstance(body, dict) else body, "the request"
        hashes = [hashed(canonical(sent(message))) for message in messages] if isinstance(messages, list) else []
        self.broken("sent", b64(hashed(b"".join(hashes), 32)) != self.now.get("sha"), "is not the one that the newest record names")
# ---- the promises: each returns what breaks it -------------------------------------------------------------
def request(it: LogCheck) -> list[str]:
    """What is rebuilt is what was sent: `sha` is over the hashes of all messages."""
    sha = b64(hashed(b"".join(message.digest for message in it.shown), 32))
    return ["what is rebuilt is not the request that the record names"] if sha != it.now["sha"] else []
def size(it: LogCheck) -> list[str]:
    """`size` is right: messages, and characters of their canonical JSON."""
    stated, there = it.now["size"][: 1 + it.whole], [len(it.shown), sum(len(message.text or "") for message in it.shown)]
    return [f"{stated} messages and characters stated, {there} there"] if stated != there[: 1 + it.whole] else []
def repeated(it: LogCheck) -> list[str]:
    """Nothing is there twice."""
    return [f"messages of the input twice: {twice}"] if (twice := sorted(Counter(it.origins) - Counter(set(it.origins)))) else []
def order(it: LogCheck) -> list[str]:
    """What is kept stands in the order in which it was said, and stood before."""
    return ["messages in another order than before"] if it.origins != sorted(it.origins) or it.runs != sorted(it.runs) else []
def pair(it: LogCheck) -> list[str]:
    """A result stands after its call, and a call has the result that the log has."""
    open_calls, problems = Counter[str](), list[str]()
    for is_call, name in (one for message in it.shown if it.whole for one in ids(message.text)):
        open_calls[name] += 1 if is_call else -1
        problems += [f"the result {name} without its call before it"] if open_calls[name] < 0 else []
    lost = {(False, name) for name in +open_calls}
    lost &= {one for message in it.input if lost for one in ids(message.text)}
    return problems + [f"the call {name} without its result" for _, name in sorted(lost)]
def handle(it: LogCheck) -> list[str]:
    """What was removed is in `removed`, and a result shown otherwise in `results`: nothing else is."""
    wrong = sorted(it.new ^ {at for first, last in it.now.get("removed", ()) for at in range(first, last + 1)})
    pairs = [(results(message_in(it.input[op["in"]].text)), results(message_in(message.text))) for op, message in it.own if "in" in op]
    lost = [name for old, new in pairs if new for name in old if old[name] != new.get(name) and name not in it.now.get("results", ())]
    return [f"removed without a handle, or the reverse: {wrong[:9]}"] * bool(wrong) + [f"changed without a handle: {lost}"] * bool(lost)
def signature(it: LogCheck) -> list[str]:
    """What a provider signed is as it was."""
    before, after = ({block for message in side for block in signed(message.text)} for side in (it.input, it.shown))
    return ["a signed block that was never there"] if after - before else []
def pin(it: LogCheck) -> list[str]:
    """Each of `pins` is there verbatim, and none goes that is not in `unpinned`."""
    pins, now = it.now.get("pins", {}), " ".join(words_of(message.text) for message in it.shown)
    dropped = [name for name in pins if it.whole and plain(pins[name]) not in now]
    dropped += it.pins.keys() - pins.keys() - {*it.now.get("unpinned", ())}
    return [f"not there verbatim: {dropped}"] if dropped else []
def user(it: LogCheck) -> list[str]:
    """A message of the user that was removed is quoted, or is in `unquoted`."""
    quoted, now = {at for op, _ in it.own for at in op.get("lines", ())[1::4]}, " ".join(words_of(message.text) for message in it.shown)
    heads = {at: plain(typed(message_in(it.input[at].text)))[:40] for at in sorted(it.new - quoted - {*it.now.get("unquoted", ())})}
    return [f"the user's message {at} was removed, and no line quotes it" for at, head in heads.items() if head not in now]
def verbatim(it: LogCheck) -> list[str]:
    """A line that `lines` calls a copy is one: step, message, where in its reading, how long."""
    problems = list[str]()
    for op, message in (one for one in it.own if one[1].text):
        lines, at = text_of(message_in(message.text)).split("\n"), 0
        copied_from = [*zip(*[iter(op.get("lines", ()))] * 4, strict=True), (len(lines),)]
        for (step, where, first, length), (following, *_) in pairwise(copied_from):
            at, span = at + step, words_of(it.input[where].text)[first : first + length]
            copied = span and span in plain(" ".join(lines[at : at + following]))
            problems += [f"line {at} is not the copy that the record calls it"] if it.input[where].text and not copied else []
    return problems
def line(it: LogCheck) -> list[str]:
    """A line that code wrote stands in the source; one of a `model`, or a `loose` one, is counted as unverifiable."""
    own, problems = [(op, message.text) for op, message in it.own if "lines" in op and message.text], list[str]()
    source = "\n".join([*(words_of(message.text) for message in it.input), *map(plain, it.now.get("pins", {}).values())]) if own else ""
    hidden = any(message.text is None for message in it.input)
    for op, at, text in ((op, at, text) for op, whole in own for at, text in enumerate(text_of(message_in(whole)).split("\n"))):
        unknown = [] if op.get("model") or (len(text) >= ENOUGH and plain(text) in source) else copies(text, source)[1]
        excused = hidden or at in op.get("loose", ())
        it.counts["unverifiable"] += bool(op.get("model") or (unknown and excused))
        problems += [f"line {at} stands nowhere in the source: {' '.join(unknown)[:60]}"] if unknown and not excused else []
    return problems
PROMISES = (request, size, repeated, order, pair, handle, signature, pin, user, verbatim, line)  # the first five of a request that only grew too
def main() -> int:
    """Check the files named on the command line; 1: something is broken, or a file is not there."""
    files = [Path(name).read_bytes() if Path(name).is_file() else sys.exit(f"{name}: no such file\n{__doc__}") for name in sys.argv[1:4]] or sys.exit(__doc__)
    check, why = LogCheck(*files[:2]), " (what a model wrote or a provider sealed, and requests that stand in no file)"
    any(map(check.held, map(parsed, files[2:])))
    print(*check.notes, *(f"BROKEN {kind} ({where}): {words}" for kind, where, words in check.problems),
          *(f"{name}: {count}{why * (name == 'unverifiable')}" for name, count in check.counts.items() if count), f"{len(check.problems) or 'nothing'} broken" if check.counts else "no record and no compaction in this file", sep="\n")
    return bool(check.problems)
if __name__ == "__main__":
    sys.exit(main())
