"""Checks what compactions did to a session: one file of the standard library, to be copied anywhere.

    python ullage_check.py LOG [RECORDS]

A log holds the messages, a line of JSON each (or is one list of them); records stand in it or in a file of their own (docs/record.md).
Each recorded request is rebuilt and held to what is promised; of compactions by other programs it says what can be said.
"""
# fmt: off
# ruff: noqa: D101, D102, D103, T201 - a short function is described in its line; this is a program

import base64
import json
import re
import sys
from collections import Counter
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

RECORD, SHORT_HASH = "ullage-record", 5  # bytes of a hash in the list of the input: they find a message, `sha` proves it
LOCAL = frozenset("id type model usage stop_reason stop_sequence stop_details container context_management diagnostics uuid timestamp".split())
ITEMS = ("_call", "_output", "reasoning")  # ends of the types of items that are no messages, in the Responses API
OPAQUE = ("thinking", "redacted_thinking", "compaction")  # signed: changed by a byte, they are refused
# ---- how things are written, hashed and read ---------------------------------------------------------------
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
def text_of(message: Any) -> str:  # the texts of a message, a line each
    return "\n".join(str(each.get("text", "")) for each in blocks(message))
@cache
def message_in(text: str | None) -> Any:  # what a canonical text says
    return json.loads(text) if text else {}
def parsed(raw: bytes) -> Any:  # None: it is not JSON
    try:
        return json.loads(raw)
    except ValueError:
        return None
def sent(entry: Any) -> dict[str, Any] | None:
    """The message of a line, without what no request takes, or the item; an attachment in a dict; `None`: there is none."""
    entry = entry if isinstance(entry, dict) else {}
    for found in (entry, *map(entry.get, ("message", "item", "payload" if entry.get("type") == "response_item" else ""))):
        if isinstance(found, dict) and "role" in found:
            return {key: value for key, value in found.items() if key not in LOCAL}
        if isinstance(found, dict) and ("encrypted_content" in found or str(found.get("type")).endswith(ITEMS)):
            return found
    return {"attachment": entry["attachment"]} if "attachment" in entry else None
def strings(value: Any) -> list[str]:
    """All texts in a value, in order, with keys and numbers; without media and what is signed."""
    if isinstance(value, dict) and value.get("type") in (*OPAQUE, "base64"):
        value = value.get("thinking", "")
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (key, *strings(each))]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value if isinstance(value, str) else canonical(value)]
def blocks(message: Any) -> list[dict[str, Any]]:  # of a message; a string is a text block
    content = message.get("content") if isinstance(message, dict) else None
    found = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
def results(message: Any) -> dict[str, Any]:  # results in a message by the id of their call
    one = message.get("tool_call_id") or (str(message.get("type")).endswith("_output") and message.get("call_id"))
    return {str(b["tool_use_id"]): b for b in blocks(message) if b.get("type") == "tool_result"} | ({str(one): message} if one else {})
def typed(message: Any) -> str:  # what the user seems to have typed: no tool results, no texts of the host in tags or brackets
    found = blocks(message)
    said = found and message.get("role") == "user" and all(each.get("type") != "tool_result" for each in found)
    return "\n".join(text for each in found if said and (text := str(each.get("text", "")).strip()) and text[0] not in "<[#")
def seal(before: bytes, lines: bytes, record: dict[str, Any]) -> bytes:
    """Of the seal before, the hashes of the lines in between, and the record with hashes in place of its texts."""
    ops = [{**op, "put": [{"redacted": b64(hashed(p, 32))} if isinstance(p, str) else p for p in op["put"]]}
           if isinstance(op, dict) and "put" in op else op for op in record["list"]]
    bare = {key: value for key, value in record.items() if key != "seal"} | {"list": ops}
    return hashed(before + lines + hashed(canonical(bare), 32), 32)
def line_hash(raw: bytes, entry: Any) -> bytes:  # of a redacted line, what it states
    stated = entry.get("redacted") if isinstance(entry, dict) else None
    return unb64(stated["line"]) if isinstance(stated, dict) else hashed(raw.rstrip(b"\n"), 32)
# ---- lines of a summary ------------------------------------------------------------------------------------
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
    """Spans of the source that a line is copied from, and its words that are neither copied nor in `WORDS`.

    A copy is a whole part between punctuation, at least `ENOUGH` characters, or one name of a file, of code, of a tool.
    """
    found, unknown = list[tuple[int, int]](), list[str]()
    for chunk in map(plain, SPLIT.split(" ".join(line.split()))):
        few = len(rest := chunk.split()) <= SHORT
        while rest:
            count, at = 0, -1
            while count < len(rest) and (begin := source.find(" ".join(rest[: count + 1]))) >= 0:
                count, at = count + 1, begin
            text, whole = " ".join(rest[:count]), count == len(rest)
            if count and ((whole and (few or text == chunk)) or len(text) >= ENOUGH or NAME.fullmatch(text)):
                found.append((at, at + len(text)))
                rest = rest[count:]
                continue
            word = rest.pop(0).strip(".?!*:0123456789–×")
            if not (FIXED.fullmatch(word) or word.lower() in WORDS or f"name {word} input" in source):
                unknown.append(word)
    return found, unknown
# ---- the check ---------------------------------------------------------------------------------------------
class Shown(NamedTuple):
    digest: bytes
    text: str | None  # None: redacted, or missing
    origin: Any  # which message of the input it is, or the name of what made it
@cache
def words_of(text: str | None) -> str:
    return reading(message_in(text))
@cache
def signed(text: str | None) -> frozenset[str]:  # blocks of a message that a provider signs
    return frozenset(canonical(b) for b in blocks(message_in(text)) if b.get("type") in OPAQUE)
@cache
def ids(text: str | None) -> list[tuple[bool, str]]:  # calls (True) and results of a message, in order
    message, found = message_in(text), list[tuple[bool, str]]()
    for part in (*blocks(message), *(message.get("tool_calls") or ())):
        found += [(True, str(part.get("id")))] if part.get("type") in ("tool_use", "function") else []
    found += [(True, str(message["call_id"]))] if str(message.get("type")).endswith("_call") and "call_id" in message else []
    return found + [(False, name) for name in results(message)]

class LogCheck:
    """A log and its records, followed line by line: `problems` says what is broken, `counts` what was looked at."""
    def __init__(self, log: bytes, records: bytes | None = None) -> None:
        self.problems, self.notes, self.where = list[tuple[str, str, str]](), list[str](), ""  # kind, place, words
        self.counts, self.removed, self.pins = Counter[str](), set[int](), dict[str, str]()
        self.input, self.context = list[Shown](), list[Shown]()
        self.requests = list[list[str | None]]()  # rebuilt, message by message
        self.known: dict[bytes, str | None] = {hashed("null"): "null"}
        lines = [(raw, parsed(raw)) for raw in log.splitlines(keepends=True)]
        whole = parsed(log) if log[:1] in b"[{" and (len(lines) < 2 or lines[0][1] is None) else None
        listed = whole.get("messages") if isinstance(whole, dict) else whole
        entries = listed if isinstance(listed, list) else [entry for _, entry in lines]
        for entry in entries:
            self.learn(entry)
        self.short = {digest[:SHORT_HASH]: digest for digest in self.known}
        self.walk(lines if records is None else [(raw, parsed(raw)) for raw in records.splitlines(keepends=True)])
        if not self.counts["records"]:
            self.foreign(entries)
    def broken(self, kind: str, is_broken: object, words: str) -> None:
        self.problems += [(kind, self.where, words)] if is_broken else []
    def learn(self, entry: Any) -> None:  # the message of a line
        message, stated = sent(entry), entry.get("redacted") if isinstance(entry, dict) else None
        if isinstance(stated, dict):
            self.known.setdefault(unb64(stated["message"]), None)
        elif message is not None:
            text = canonical(message)
            self.known[hashed(text)] = text

    def walk(self, stream: list[tuple[bytes, Any]]) -> None:  # all lines, with the records among them
        before, lines = b"", b""
        for number, (raw, entry) in enumerate(stream, 1):
            if not (isinstance(entry, dict) and (entry.get("type") == RECORD or "seal" in entry)) and RECORD.encode() not in raw[:30]:
                lines += line_hash(raw, entry)
                continue
            self.where, self.counts["records"] = f"line {number}", self.counts["records"] + 1
            try:
                self.broken("seal", entry["seal"] != b64(seal(before, lines, entry)), "this record, or a line since the one before, is not what was written")
                before, lines = unb64(entry["seal"]), b""
                self.record(entry)
            except (LookupError, TypeError, ValueError, AttributeError) as exc:
                self.broken("record", True, f"cannot be read: {type(exc).__name__}: {exc}")
        self.counts["lines after the newest record"] = len(lines) // 32 if before else 0

    def record(self, record: dict[str, Any]) -> None:
        """Rebuild the request of a record, and hold it to what is promised."""
        if record.get("base"):
            self.input, self.context, self.removed = [], [], set()
        short = unb64(record["input"])
        for digest in (self.short.get(short[at : at + SHORT_HASH]) for at in range(0, len(short), SHORT_HASH)):
            self.broken("missing", digest is None, f"message {len(self.input)} of the input is not in the log as it was")
            self.input.append(Shown(digest or b"", self.known.get(digest or b""), len(self.input)))
        ops = record["list"]
        grown = ops == [[0, len(self.context)], {"in": [len(self.input) - len(short) // SHORT_HASH, len(self.input)]}]
        self.context = shown = [each for op in ops for each in self.made(op)]
        self.requests.append([each.text for each in shown])
        texts = [each.text for each in shown if each.text is not None]
        self.counts["rebuilt" if len(texts) == len(shown) else "redacted, known by hash"] += 1
        sha = b64(hashed(b"".join(each.digest for each in shown), 32))
        self.broken("request", sha != record["sha"], "what is rebuilt is not the request that the record names")
        size, whole = [len(shown), sum(map(len, texts))], len(texts) == len(shown)
        self.broken("size", record["size"][: 1 + whole] != size[: 1 + whole], f"{record['size'][:2]} messages and characters stated, {size} there")
        self.in_order(shown, whole, [end for op in ops if isinstance(op, list) for end in op])
        if not grown:
            self.kept_promises(shown, record, whole)
    def made(self, op: Any) -> list[Shown]:
        """The messages that an element of a record's list names: of the request before, of the input, rewritten, made."""
        if isinstance(op, list):
            return self.context[op[0] : op[1]]
        if isinstance(op.get("in"), list):
            return self.input[op["in"][0] : op["in"][1]]
        digest, origin = unb64(op["sha"]), op.get("in", op.get("made"))
        if "put" not in op:
            self.broken("missing", digest not in self.known, f"what {origin} made is not in the log")
            return [Shown(digest, self.known.get(digest), origin)]
        source = self.input[op.get("in", op.get("of"))].text if "in" in op or "of" in op else None
        put = [p if isinstance(p, str) else source[p[0] : p[1]] if isinstance(p, list) and source else None for p in op["put"]]
        text = None if None in put else "".join(map(str, put))
        self.broken("changed", text is not None and hashed(text) != digest, f"message {origin}, rewritten, is not what the record names")
        return [Shown(digest, text, origin)]
    def in_order(self, shown: list[Shown], whole: bool, runs: list[int]) -> None:
        """Each message once, in the order in which they were said; each call before its result, and with it."""
        places = [each.origin for each in shown if isinstance(each.origin, int)]
        twice = sorted(Counter(places) - Counter(set(places)))
        self.broken("repeated", twice, f"messages of the input twice: {twice}")
        self.broken("order", places != sorted(places) or runs != sorted(runs), "messages in another order than before")
        calls = Counter[str]()
        for is_call, name in (one for each in shown for one in ids(each.text)):
            calls[name] += 1 if is_call else -1
            self.broken("pair", calls[name] < 0 and whole, f"the result {name} without its call before it")
        unanswered = {(False, name) for name, count in calls.items() if count > 0 and whole}
        for _, name in unanswered & {one for each in self.input if unanswered for one in ids(each.text)}:
            self.broken("pair", True, f"the call {name} without its result")
    def kept_promises(self, shown: list[Shown], record: dict[str, Any], whole: bool) -> None:
        """After a rewrite: handles, what providers signed, pins, the user's messages, the lines of summaries."""
        ops = [op for op in record["list"] if isinstance(op, dict) and "sha" in op]
        removed = set(range(len(self.input))) - {each.origin for each in shown}
        named = {at for first, last in record.get("removed", ()) for at in range(first, last + 1)}
        unnamed = sorted(named ^ (removed - self.removed))
        self.broken("handle", unnamed, f"removed without a handle, or the reverse: {unnamed[:9]}")
        before, after = (frozenset().union(*(signed(each.text) for each in group)) for group in (self.input, shown))
        self.broken("signature", after - before, "a signed block that was never there")
        for op in (op for op in ops if "in" in op):
            old, new = (results(message_in(each.text)) for each in (self.input[op["in"]], *self.made(op)))
            lost = [name for name in old if new and old[name] != new.get(name) and name not in record.get("results", ())]
            self.broken("handle", lost, f"changed results without a handle: {lost}")
        now, pins = " ".join(words_of(each.text) for each in shown), record.get("pins", {})
        dropped = [name for name in pins if whole and plain(pins[name]) not in now]
        dropped += self.pins.keys() - pins.keys() - {*record.get("unpinned", ())}
        self.broken("pin", dropped, f"not there verbatim: {dropped}")
        quoted = {at for op in ops for at in op.get("lines", ())[1::4]}
        for at in sorted(removed - self.removed - quoted - {*record.get("unquoted", ())}):
            head = plain(typed(message_in(self.input[at].text)))[:40]
            self.broken("user", head not in now, f"the user's message {at} was removed, and no line quotes it")
        self.pins, self.removed = pins, removed
        self.counts["removed"], self.counts["of these in the log, to be recalled"] = len(removed), sum(self.input[at].text is not None for at in removed)
        for op in (op for op in ops if "lines" in op):
            self.summary(op, message_in(self.made(op)[0].text), pins)
    def summary(self, op: dict[str, Any], message: Any, pins: dict[str, str]) -> None:
        """Each line of a summary: copied from where the record says, or from anywhere, or of fixed words; a model's: counted."""
        source = "\n".join([*(words_of(each.text) for each in self.input), *map(plain, pins.values())])
        lines, hidden = text_of(message).split("\n") if message else [], any(each.text is None for each in self.input)
        at, copied_from = 0, [*zip(*[iter(op["lines"])] * 4, strict=True), (len(lines),)]
        for (step, where, first, size), (following, *_) in pairwise(copied_from) if message else ():
            at, span = at + step, words_of(self.input[where].text)[first : first + size]
            copied = span and span in plain(" ".join(lines[at : at + following]))
            self.broken("verbatim", self.input[where].text and not copied, f"line {at} is not the copy that the record calls it")
        for at, line in enumerate(lines):
            unknown = [] if op.get("model") else copies(line, source)[1]
            excused = hidden or at in op.get("loose", ())
            self.counts["unverifiable"] += bool(op.get("model") or (unknown and excused))
            self.broken("line", unknown and not excused, f"line {at} stands nowhere in the source: {' '.join(unknown)[:60]}")
    def foreign(self, entries: list[Any]) -> None:
        """What a log says of compactions that no record describes: Claude Code's, Codex's, OpenCode's, pi's."""
        said: list[Any] = []
        for number, entry in enumerate(entries, 1):
            message = sent(entry) if not (isinstance(entry, dict) and "parts" in entry) else {**entry.get("info", {}), "content": entry["parts"]}
            items = replaced_by(entry, message)
            if items is None:
                said += [message] if message is not None else []
                continue
            known = set(map(reading, map(text_of, said)))
            new = [each for each in items if reading(text_of(each)) not in known - {""}]
            users = [text for each in said if (text := plain(typed(each))[:40])]
            lines = [line for each in new for line in text_of(each).split("\n") if line.strip()]
            source, now = "\n".join(map(reading, said)), " ".join(map(reading, items))
            copied = sum(not copies(line, source)[1] for line in lines)
            sealed = sum(not text_of(each) for each in new)
            self.counts["compactions without a record"] += 1
            self.counts["unverifiable"] += len(lines) - copied + sealed + 1  # and the request, which no line holds
            self.notes.append(f"line {number}: {len(said)} messages before; kept verbatim {len(items) - len(new)}, sealed by the provider {sealed}; "
                f"of the user {len(users)}, quoted {sum(text in now for text in users)}; lines of the summary {len(lines)}, copied {copied}")

def replaced_by(entry: Any, message: Any) -> list[Any] | None:
    """What a compaction of another program put in place of what was before; `None`: the line is none."""
    entry = entry if isinstance(entry, dict) else {}
    if entry.get("isCompactSummary") or (isinstance(message, dict) and message.get("summary") is True):
        return [message]
    found = {"compaction": entry, "compacted": entry.get("payload")}.get(str(entry.get("type"))) or {}
    text = {"role": "user", "content": str(found.get("summary") or found.get("message"))}
    return [sent(each) or each for each in found.get("replacement_history") or [text]] if found else None

def main() -> int:
    """Check the files named on the command line; 1: something is broken."""
    found = LogCheck(*(Path(name).read_bytes() for name in sys.argv[1:])) if 1 < len(sys.argv) < 4 else sys.exit(__doc__)
    print(*found.notes, *(f"BROKEN {kind} ({where}): {words}" for kind, where, words in found.problems),
          *(f"{name}: {count}" for name, count in found.counts.items() if count), sep="\n")
    return bool(found.problems)
if __name__ == "__main__":
    sys.exit(main())
