"""`make laws`: every contender of `make compare`, and some more, held to the laws of `ullage.testing.laws`.

The settings are those of the comparison, which are the ones that each library's documentation shows; where it takes a size, that is the
case's target. A model that is asked answers at once from a script. What one environment lacks is asked of the next (`--also`).
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import copy
import importlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benches.peers import context, frameworks, more_libraries
from benches.peers.compare import CONTENDERS, versions
from benches.peers.context import Contender, harness, langchain_back, pydantic_in, pydantic_out
from benches.peers.frameworks import _to_chat, _to_framework
from benches.peers.more_libraries import llama_memory

import ullage
from ullage import ContextManager, Policy, compact, estimate_tokens
from ullage._engine import NAME as ENGINE
from ullage.compaction import CompactionResult
from ullage.effects import Flow
from ullage.exceptions import CompactionError, ContextTooLarge
from ullage.facts.sections import HEADINGS
from ullage.manager import Request
from ullage.policy import SummaryPolicy
from ullage.summarizers import ExtractiveSummarizer, SummaryReply, SummaryRequest
from ullage.testing import laws
from ullage.testing.laws import Compactor
from ullage.transcript.record import compaction_record
from ullage.ullage_check import RECORD, LogCheck, cached_message, canonical, sent

MODEL = "gpt-4o"
SECONDS = 120
"""For one contender; the table says how many cases there was time for."""
PEERS = (
    "langchain", "langchain-core", "deepagents", "pydantic-ai-harness", "openai-agents", "strands-agents", "agent-framework-core",
    "inspect-ai", "llama-index-core", "convopack", "autogen-core", "litellm", "semantic-kernel",
)  # fmt: skip
ROOT = Path(__file__).parents[2]
PAGE, TABLES = ROOT / "docs" / "laws.md", ROOT / "benches" / "TABLES.md"
BEGIN, END = "<!-- make laws: begin -->", "<!-- make laws: end -->"

Messages = list[dict[str, Any]]
Told = dict[str, dict[str, Any]]
"""By contender: its findings as JSON, and how many cases were tried, refused, changed."""


# ---- ours --------------------------------------------------------------------------------------


def tokens(messages: Sequence[dict[str, Any]]) -> int:
    return estimate_tokens(list(messages), model=MODEL)


class CountedSummarizer(ExtractiveSummarizer):
    """The usual one; says how often it has written a summary."""

    written = 0

    def in_pieces(self, request: SummaryRequest) -> Flow[SummaryReply]:
        CountedSummarizer.written += 1
        return (yield from super().in_pieces(request))


COUNTED = CountedSummarizer()


def by_code(messages: Messages, target: int) -> Messages:
    """As a loop calls it: where the target is passed; a warning that it cannot be met refuses."""
    if tokens(messages) <= target:
        return messages
    result = compact(messages, model=MODEL, target_tokens=target, summarizer=COUNTED)
    if unmet := [each for each in result.report.warnings if each.startswith("over_target")]:
        raise OverflowError(unmet[0])
    return list(result.messages)


def model_is_down(*_: object) -> str:
    raise ValueError("model is down")


def by_a_model(messages: Messages, target: int) -> Messages:
    once = Policy(summary=SummaryPolicy(retries=0))
    result = compact(
        messages, model=MODEL, target_tokens=target, summarizer=model_is_down, policy=once
    )
    return list(result.messages)


def stated(messages: Messages, target: int) -> Iterator[str]:
    """What is wrong with the report and the record of a compaction, and with the smallest target that an error names."""
    yield from floored(messages)
    yield from overlong(messages, target)
    before = copy.deepcopy(messages)
    result = compact(messages, model=MODEL, target_tokens=target, trigger="auto")
    report, places = result.report, {id(item): at for at, item in enumerate(messages)}
    if messages != before:
        yield "what was given has changed"
    there = [places[id(item)] for item in result.messages if id(item) in places]
    if sorted([*report.kept, *report.removed]) != list(range(len(messages))):
        yield "kept and removed are not each message once"
    if not {*there} <= {*report.kept} or (
        result.compacted and {*report.kept} - {*there} and not shortened(result)
    ):
        yield f"kept are {there}, and not {report.kept}"
    for name, stated, found in (
        ("before", report.tokens_before, tokens(messages)),
        ("after", report.tokens_after, tokens(result.messages)),
        ("in the summary", report.summary_tokens, tokens(result.summary_messages)),
    ):
        if stated != found:
            yield f"{stated} tokens {name} are stated, and there are {found}"
    for item in result.messages:
        yield from miscounted(item, messages)
    used = report.tokens_after if report.tokens_before > target else target
    yield from uneven(list(result.messages), messages, used, target)
    summarized = sum(messages[at]["role"] == "user" for at in report.removed)
    for item in result.summary_messages:
        yield from misread(text_of(item), messages, summarized)
        yield from misleading(text_of(item), result.messages)
    if result.compacted and result.summary_messages:
        yield from misframed(text_of(result.messages[0]), messages, len(report.kept))
    if result.compacted != (report.tokens_after < report.tokens_before):
        yield f"{result.outcome} from {report.tokens_before} to {report.tokens_after} tokens"
    record = compaction_record(messages, result)
    found = LogCheck(lines(messages), lines([record]))
    yield from (f"its record: {kind}: {words}" for kind, _, words in found.problems)
    if found.requests != [[canonical(sent(item)) for item in result.messages]]:
        yield "its record is of another request"


def floored(messages: Messages) -> Iterator[str]:
    """A smallest target that is refused too, or of which much is left free."""
    least = 0
    try:
        compact(messages, model=MODEL, target_tokens=NO_TARGET_AT_ALL)
    except ContextTooLarge as error:
        least = int(error.floor_tokens or 0)
        waiting = tokens(messages[-1:]) if messages[-1]["role"] == "user" else 0
        named = error.parts.get("messages that wait for an answer", 0)
        if named > waiting + ROUNDED:
            yield f"{named} tokens are said to wait for an answer, {waiting} do"
    try:
        left = tokens(compact(messages, model=MODEL, target_tokens=least).messages) if least else 0
    except ContextTooLarge as error:
        yield f"{least} is called the smallest target: {error}"
        return
    if not least * WORTH // 100 - FREE <= left <= least:
        yield f"{left} tokens are left for {least}, which is called the smallest target"


NO_TARGET_AT_ALL, WORTH, FREE = 40, 90, 8
"""Tokens: fewer than any summary has; percent of a small target from which on it counts as filled, and what stays free by rounding."""


def as_long_as_allowed(request: SummaryRequest) -> str:
    """A model's summary that uses all of the room that it was given."""
    text = "".join(f"{at}. {name}:\n  part {at}\n" for at, name in enumerate(HEADINGS, 1))
    words = [f"w{at * 7919 % 100_003}" for at in range(request.max_output_tokens)]

    def size(count: int) -> int:
        return tokens([{"role": "user", "content": text + " ".join(words[:count])}])

    most = bisect.bisect_right(range(len(words)), request.max_output_tokens, key=size) - 1
    if most < 0:
        raise ValueError("no room for the headings")
    return text + " ".join(words[:most])


def overlong(messages: Messages, target: int) -> Iterator[str]:
    """A model's summary that was no longer than it might be, and is refused as too long for the target."""
    try:
        compact(messages, model=MODEL, target_tokens=target, summarizer=as_long_as_allowed)
    except CompactionError as error:
        if "too long" in str(error):
            yield str(error)
    except ContextTooLarge:
        return


def text_of(item: Any) -> str:
    """The texts of a message, a line each."""
    return "\n".join(cached_message(canonical(item)).text_lines)


def miscounted(item: Any, messages: Messages) -> Iterator[str]:
    """A result that was cut, where the characters that it calls left out are not as many."""
    text = str(item.get("content"))
    cut = re.fullmatch(r"(?s)(.*)\n\[… (\d+) characters left out to fit …\]\n(.*)", text)
    for was in messages if cut and item["role"] == "tool" else ():
        if was.get("tool_call_id") == item["tool_call_id"]:
            if len(cut[1]) + int(cut[2]) + len(cut[3]) != len(was["content"]):
                yield f"{cut[2]} characters left out of {len(was['content'])} leave {len(cut[1] + cut[3])}"
            if not was["content"].startswith(cut[1]) or not was["content"].endswith(cut[3]):
                yield "what is left of a result is not its beginning and its end"


def uneven(after: Messages, messages: Messages, tokens: int, target: int) -> Iterator[str]:
    """Results that were cut for a target that is not used, or one shorter than another, or below one that is whole."""
    whole = {item["tool_call_id"]: item["content"] for item in messages if item["role"] == "tool"}
    kept = [item for item in after if item["role"] == "tool"]
    cut = [len(one["content"]) for one in kept if one["content"] != whole[one["tool_call_id"]]]
    long = max((len(one["content"]) for one in kept), default=0)
    if cut and long > min(cut) * UNEVEN + LINE:
        yield f"a result is cut to {min(cut)} characters, and another has {long}"
    if cut and tokens * 100 < target * CUT_FILLS:
        yield f"results are cut, and {tokens} of {target} tokens are used"


UNEVEN, LINE, CUT_FILLS = 1.4, 160, 75
"""Cuts are made at the ends of lines, so that lengths differ; percent of the target."""


def misframed(summary: str, messages: Sequence[Any], kept: int) -> Iterator[str]:
    """A summary that counts the kept messages wrongly, or asks for something else than what comes next.

    Args:
        summary: The text of its message.
        messages: Up to the newest one; none are known where nothing was kept.
        kept: How many of them stand after it.
    """
    if (SHORT_FRAME in summary) != (SHORT_LEAD in summary):
        yield "the summary begins for a small room and ends for a large one, or the other way round"
    if SHORT_FRAME in summary:
        return
    newest = (re.findall(r"(?m)^\d+\. (.*)", summary) or [""])[-1]  # "" where it stands in a fence
    if ABOVE in summary and newest and ("left out …]" in newest or len(newest) <= SAID_AGAIN):
        yield "the newest message stands above only, though it is short or was cut there"
    said = re.findall(r"(?m)^(.*) kept verbatim after this message\.$", summary)
    due_count = "1 message was" if kept == 1 else f"{kept} messages were"
    if said != ([due_count] if kept else []):
        yield f"the summary says {said} of {kept} messages that were kept"
    last = (laws.parts(messages) or [laws.Part("", "", "", "")])[-1]
    due = NEXT[
        "text" if last.role == "user" else "result" if last.kind == "result" and kept else ""
    ]
    asked = [one for one in NEXT.values() if one in summary]
    if asked != [due]:
        yield f"the summary asks for {asked}, not for “{due}”"


SHORT_LEAD, SHORT_FRAME = "previous conversation, summarised:", "Not user input; grants nothing."
ABOVE, SAID_AGAIN = "message is the last one in the list of user messages above", 400
"""Where the newest message stands; characters up to which it is repeated."""
NEXT = {
    "text": "Answer the user's newest message;",
    "result": "Continue with the tool results as if",
    "": "Continue the work from where it left off",
}
"""What a summary asks for, by what stands last: words of the user, a kept result, anything else."""


def misread(summary: str, messages: Messages, summarized: int) -> Iterator[str]:
    """A summary whose sections are not in order or empty, or whose list of the user's messages is not all of them, each once."""
    if "\n## Kept by code\n- Names:" in summary:
        yield "names are repaired, though no model wrote the summary"
    numbers = [int(number) for number in re.findall(r"(?m)^## (\d)\. ", summary)]
    if numbers != sorted({*numbers}):
        yield f"the sections of the summary are {numbers}"
    if re.search(r"(?m)^## [^\n]*\n\s*(?=^## |^\[End)|^(`{3,})text\n\s*^\1$", summary):
        yield "a heading or a fence of the summary has nothing in it"
    if "Summary of" in summary or "being continued" in text_of(messages[0]):
        return
    listed = re.search(r"(?ms)^## 6\. All User Messages\n(.*?)(?=^## |^\[End)", summary)
    texts = [text_of(item) for item in messages if item["role"] == "user"]
    for quoted in re.findall(r"(?m)^- Newest request: “([^…”]+)", summary):
        if not " ".join(texts[-1].split()).startswith(quoted.strip()):
            yield f"“{quoted[:40]}” is called the newest request, and is not"
    shown, named, missing = list[int](), list[int](), 0
    for line in listed[1].split("\n") if listed else ():
        if row := re.match(r"(\d+)\. (.*)", line):
            shown.append(int(row[1]))
            yield from unquoted(row[2], texts[int(row[1]) - 1])
        elif row := re.match(r"\((\d+)(?: messages?)? left out for room(: …)?", line):
            missing = int(row[1])
            for first, last in re.findall(r"u(\d+)(?:-u(\d+))?", line):
                named += range(int(first), int(last or first) + 1)
            # Named all, or the newest after an ellipsis, or none: then their count stands alone.
            if named and (len(named) >= missing if row[2] else len(named) != missing):
                yield f"{missing} messages are left out, and named are {named}"
    numbers = {*range(1, len(shown) + missing + 1)}
    if len({*shown}) < len(shown) or not {*shown} <= numbers or not {*named} <= numbers - {*shown}:
        yield f"the user's messages in the summary are {shown}, {missing} left out: {named}"
    if listed and len(numbers) != summarized:
        yield f"{len(numbers)} messages of the user are in the summary, and {summarized} were summarized"


def unquoted(shown: str, text: str) -> Iterator[str]:
    """A message of the user that stands there otherwise than it was written, or with another number of characters left out."""
    if " ".join(text.split()) == shown or not shown:
        return
    pieces, missing = re.split(r" ?\[… \d+ characters left out …\] ?|…$", shown), 0
    at = 0
    for piece in filter(None, pieces):
        if (found := text.find(piece, at)) < 0:
            yield f"“{piece[:40]}” is quoted, and does not stand in the user's message"
            return
        at = found + len(piece)
    missing = sum(map(int, re.findall(r"\[… (\d+) characters left out …\]", shown)))
    spaces = 2 * len(pieces)
    if missing and abs(sum(map(len, pieces)) + missing - len(text)) > spaces:
        yield f"{missing} characters left out of {len(text)} leave {sum(map(len, pieces))}"


def misleading(summary: str, messages: Sequence[Any]) -> Iterator[str]:
    """A summary whose last words say what is not so: no question is open in a made conversation, and nobody stopped the model."""
    frame = summary.partition("[End of the summary]")[2]
    for words in (
        "Wait for the user",
        "before this summary",
        "Full transcript:",
        "transcript of",
        "\n## ",
    ):
        if words in frame:
            yield f"the summary says “{words}”"
    if "Go on." not in frame and "Continue" not in frame and "Answer the user" not in frame:
        yield "the summary does not say that the work goes on"
    newest = frame.partition("The user's newest message, verbatim:\n")[2]
    long = len(newest) > 700 or (newest and SHORT_FRAME in summary)
    if long and "## 6. All User Messages" in summary:
        quoted = newest.split("\n", 2)[1]
        if quoted and summary.count(quoted) > 1:
            yield "the newest message stands there twice"
    begin = re.escape(newest[newest.find("\n") + 1 :][:40])
    if begin and re.search(rf"(?m)^\d+\. {begin}.*\[… \d+ characters left out …\]", summary):
        yield "the newest message is cut, though it stands below it"


ROUNDED = 4
"""Tokens; parts that are counted one by one can be more or less than the whole."""


def shortened(result: CompactionResult) -> bool:
    return len(result.kept) == len(result.report.kept)


def lines(entries: Iterable[Any]) -> bytes:
    return "".join(f"{canonical(each)}\n" for each in entries).encode()


OURS = Compactor(
    "ullage compact",
    by_code,
    size=tokens,
    failing=by_a_model,
    stated=stated,
    promises={"used": (95.3, 95.8), "verbatim": (29.9, 30.3), "asked": (3.23, 3.29)},
    asked=lambda: CountedSummarizer.written,
)


def asked_after(messages: Messages) -> list[int]:
    """Positions of the messages after which a session asks its model."""
    following = [each["role"] == "assistant" for each in messages[1:]] + [True]
    places = [at for at, now in enumerate(following) if now and messages[at]["role"] == "user"]
    return places if messages[-1]["role"] == "user" else [*places, len(messages) - 1]


class Played(NamedTuple):
    """A session's requests, and for each whether compactions rest (`refills`): then it may take all of the window."""

    requests: list[Request]
    resting: list[bool]


def played(messages: Messages, window: int, folder: Path) -> Played:
    """A session that goes on message by message."""
    places, of = asked_after(messages), Played([], [])
    (log := folder / LOG).unlink(missing_ok=True)
    with ContextManager(log=log, record=True, context_window=window, **SESSION_OPTIONS) as manager:
        for at, message in enumerate(messages):
            manager.add(message)
            if at in places:
                of.resting.append(manager.decide().code == "refills")
                of.requests.append(manager.prepare())
    return of


def in_session(messages: Messages, target: int) -> Messages:
    """The newest request of a session whose window is twice the target; a refusal has to say that it does not fit."""
    window = max(target * 2, LEAST_WINDOW)
    try:
        requests, resting = played(messages, window, Path(tempfile.gettempdir()))
    except ContextTooLarge as error:
        if error.floor_tokens <= error.limit_tokens:
            raise AssertionError(f"refused what fits: {error}") from error
        raise
    if resting[-1] and is_over(requests[-1], window, FROM["autocompact"]):
        raise OverflowError("full again and again: `decide()` says by what")
    return [dict(each) for each in requests[-1].messages]


def is_over(request: Request, window: int, percent: int = 75) -> bool:
    """Whether it takes more of the window."""
    return request.tokens * 100 > window * percent


LEAST_WINDOW = 2_000


def without_the_log(messages: Messages) -> int:
    """The size by a rule of thumb, the same wherever the log lies, whose name a summary has."""
    folder = str(Path(tempfile.gettempdir()) / LOG)
    return sum(len(part.text.replace(folder, "")) for part in laws.parts(messages)) // 4


def recorded(messages: Messages, target: int) -> Iterator[str]:
    """What is wrong with such a session: its log by the checker, its sizes, and what is sent after a resume."""
    window = max(target * 2, LEAST_WINDOW)
    folder = Path(tempfile.gettempdir())
    requests, resting = played(messages, window, folder)
    log = (folder / LOG).read_bytes()
    found = LogCheck(log)
    yield from (f"its record: {kind}: {words}" for kind, _, words in found.problems)
    if found.requests != [[canonical(sent(item)) for item in each.messages] for each in requests]:
        yield "its records are of other requests"
    yield from resumed(folder / LOG, window, requests[-1])
    places = asked_after(messages)
    for request, at in zip(requests, places, strict=True):
        if request.compaction:
            yield from misled(list(request.messages), folder / LOG)
            yield from unseen(list(request.messages), messages[max(at - 1, 0) : at + 1], window)
    records = [json.loads(line) for line in log.splitlines() if RECORD.encode() in line[:30]]
    for number, (request, record) in enumerate(zip(requests, records, strict=True), 1):
        there = estimate_tokens(list(request.messages), model=SESSION_MODEL)
        if request.tokens != there:
            yield f"request {number} has {there} tokens, not {request.tokens}"
        over = is_over(request, window, 100 if resting[number - 1] else 75)
        if record["size"][2] != request.tokens or over:
            yield f"request {number} has {request.tokens} tokens of {window}, recorded are {record['size'][2]}"
        for name, why, before, after in record.get("acts", ()):
            if before <= after or before * 100 < window * FROM.get(name, 50):
                yield f"{name} acts ({why}) from {before} to {after} tokens of {window}"
        if places[number - 1] < NO_WAIT:
            whole = {one.name: one for one in laws.parts(messages)}
            yield from untimely(request, record, whole, window)


FROM = {"autocompact": 67}
"""Percent of the window from which on a level acts, where it is not a half."""
NO_WAIT = 20
"""Messages; in longer sessions a cut may wait until it pays for the cache that it breaks (`cost.wait_requests`)."""
LONG_RESULT, TENTH = 1_000, 10
"""Characters, and a part of the window's tokens: results of more characters than either are cut once the model has answered them."""


def untimely(
    request: Request, record: Any, whole: dict[str, laws.Part], window: int
) -> Iterator[str]:
    """A result that was cut before the model saw it, though all of it fitted, or one that was not, though half of the window was full."""
    acts, seen = record.get("acts", ()), False
    full = acts[0][2] if acts else request.tokens
    for part in reversed(laws.parts(request.messages)):
        seen |= part.role == "assistant"
        is_whole = part == whole.get(part.name)
        if part.kind == "result" and not seen and not is_whole and full <= window:
            yield f"{part.name} was cut before the model saw it, at {full} tokens of {window}"
        if (
            part.kind == "result"
            and seen
            and is_whole
            and len(part.text) > max(LONG_RESULT, window // TENTH)
            and full * 2 >= window
        ):
            yield f"{part.name} stands whole at {full} tokens of {window}"


SMALL_STEP = 15
"""Percent of the window; as many tokens stay after a compaction in any case."""


def unseen(request: Messages, step: Messages, window: int) -> Iterator[str]:
    """A small step at the end whose results the model has not seen, and which a compaction removed."""
    there, size = laws.parts(request), estimate_tokens(step, model=SESSION_MODEL)
    for part in laws.parts(step[-1:]) if size * 100 <= window * SMALL_STEP else ():
        if part.kind == "result" and part not in there:
            yield f"{part.name} was removed unseen: {size} tokens of {window}"


def resumed(log: Path, window: int, newest: Request) -> Iterator[str]:
    """What is otherwise if the session is opened again from its log."""
    try:
        with ContextManager.resume(
            log, record=True, context_window=window, **SESSION_OPTIONS
        ) as it:
            again = it.prepare()
    except Exception as error:
        yield f"no resume: {type(error).__name__}: {error}"
        return
    if again.messages != newest.messages:
        yield "another request is sent after a resume"


def misled(messages: Messages, log: Path) -> Iterator[str]:
    """What is wrong in the last words of a new summary: where the rest is, what was kept, and what comes next."""
    summary = text_of(messages[0])
    if str(log) not in summary:
        yield "the summary does not say where the rest is"
    if SHORT_FRAME in summary:
        yield "the summary of a session has the few words of a small room"
    yield from misframed(summary, messages[1:], len(messages) - 1)


LOG = f"laws-{os.getpid()}.jsonl"
"""One name in all runs: summaries say it."""

SESSION_MODEL = "claude-opus-4-5"
SESSION_OPTIONS: Any = {"model": SESSION_MODEL, "clock": lambda: 1_000}
SESSION = Compactor(
    "ullage ContextManager",
    in_session,
    form="anthropic",
    has_target=False,
    sees_all=True,
    sealed=True,
    stated=recorded,
    size=without_the_log,
    promises={"left": (62.0, 62.6)},
    notice=laws.NOTICE + "|Images and documents of",
)


OWN = {one.name: one for one in (OURS, SESSION)}


# ---- peers that the comparison does not have ---------------------------------------------------


def langchain_summary(answer: Callable[..., str] = lambda *_: SUMMARY) -> Contender:
    core: Any = importlib.import_module("langchain_core.messages")
    models: Any = importlib.import_module("langchain_core.language_models.fake_chat_models")
    module: Any = importlib.import_module("langchain.agents.middleware.summarization")
    budget = context.BUDGET
    middleware = module.SummarizationMiddleware(
        model=models.FakeListChatModel(responses=[SUMMARY]),
        trigger=("tokens", budget),
        keep=("tokens", max(budget // 4, 1)),
        summarizer=answer,
    )

    def run(messages: Any) -> Any:
        changed = middleware.before_model({"messages": messages}, None)
        return messages if changed is None else changed["messages"][1:]

    return Contender(
        "langchain SummarizationMiddleware",
        "openai_chat",
        core.convert_to_messages,
        run,
        langchain_back,
    )


SUMMARY = "The user works on a service; see the newest messages."


def agent_framework_truncation() -> Contender:
    module: Any = importlib.import_module("agent_framework")
    budget = context.BUDGET

    def run(messages: Any) -> Any:
        counter = module.CharacterEstimatorTokenizer()
        strategy = module.TruncationStrategy(
            max_n=budget, compact_to=max(budget // 2, 1), tokenizer=counter
        )
        return asyncio.run(module.apply_compaction(messages, strategy=strategy, tokenizer=counter))

    return Contender(
        "agent-framework TruncationStrategy", "openai_chat", _to_framework, run, _to_chat
    )


def llama_buffer() -> Contender:
    memories: Any = importlib.import_module("llama_index.core.memory")
    budget, whole = context.BUDGET, llama_memory()

    def run(messages: Any) -> Any:
        memory = memories.ChatMemoryBuffer.from_defaults(token_limit=budget)
        memory.put_messages(messages)
        return memory.get()

    return Contender("llama-index ChatMemoryBuffer", "openai_chat", whole.native, run, whole.back)


def autogen_head_and_tail() -> Contender:
    module: Any = importlib.import_module("autogen_core.model_context")
    models: Any = importlib.import_module("autogen_core.models")
    call: Any = importlib.import_module("autogen_core").FunctionCall

    def native(chat: Messages) -> Any:
        made: list[Any] = []
        for message in chat:
            text, calls = message.get("content") or "", message.get("tool_calls")
            if message["role"] == "user":
                made.append(models.UserMessage(content=text, source="user"))
            elif message["role"] == "tool":
                one = models.FunctionExecutionResult(
                    content=text, call_id=message["tool_call_id"], name="tool", is_error=False
                )
                made.append(models.FunctionExecutionResultMessage(content=[one]))
            elif calls:
                own = [
                    call(each["id"], each["function"]["arguments"], each["function"]["name"])
                    for each in calls
                ]
                made.append(models.AssistantMessage(content=own, source="assistant"))
            else:
                made.append(models.AssistantMessage(content=text, source="assistant"))
        return made

    def run(messages: Any) -> Any:
        own = module.HeadAndTailChatCompletionContext(
            head_size=1, tail_size=10, initial_messages=messages
        )
        return asyncio.run(own.get_messages())

    def back(messages: Any) -> Messages:
        found: Messages = []
        for message in messages:
            if message.type == "FunctionExecutionResultMessage":
                found += [
                    {"role": "tool", "tool_call_id": one.call_id, "content": one.content}
                    for one in message.content
                ]
            elif isinstance(message.content, list):
                made = [
                    more_libraries._call(one.id, one.name, json.loads(one.arguments))
                    for one in message.content
                ]
                found.append({"role": "assistant", "content": None, "tool_calls": made})
            else:
                role = "user" if message.type == "UserMessage" else "assistant"
                found.append({"role": role, "content": message.content})
        return found

    return Contender("autogen HeadAndTail, 1 + 10", "openai_chat", native, run, back)


def semantic_kernel_truncation() -> Contender:
    contents: Any = importlib.import_module("semantic_kernel.contents")

    def native(chat: Messages) -> Any:
        made: list[Any] = []
        for message in chat:
            items: list[Any] = [
                contents.FunctionCallContent(
                    id=each["id"],
                    name=each["function"]["name"],
                    arguments=each["function"]["arguments"],
                )
                for each in message.get("tool_calls") or ()
            ]
            if message["role"] == "tool":
                items.append(
                    contents.FunctionResultContent(
                        id=message["tool_call_id"], name="tool", result=message["content"]
                    )
                )
            elif message.get("content"):
                items.append(contents.TextContent(text=message["content"]))
            made.append(contents.ChatMessageContent(role=message["role"], items=items))
        return made

    def run(messages: Any) -> Any:
        reducer = contents.ChatHistoryTruncationReducer(
            messages=messages, target_count=10, threshold_count=5
        )
        asyncio.run(reducer.reduce())
        return reducer.messages

    def back(messages: Any) -> Messages:
        found: Messages = []
        for message in messages:
            calls = [
                more_libraries._call(one.id, one.name, json.loads(one.arguments))
                for one in message.items
                if one.content_type == "function_call"
            ]
            told = [one for one in message.items if one.content_type == "function_result"]
            found += [
                {"role": "tool", "tool_call_id": one.id, "content": str(one.result)} for one in told
            ]
            if not told:
                made: dict[str, Any] = {
                    "role": message.role.value,
                    "content": message.content or None,
                }
                found.append({**made, "tool_calls": calls} if calls else made)
        return found

    return Contender("semantic-kernel Truncation, 10 + 5", "openai_chat", native, run, back)


def harness_tiered() -> Contender:
    def make(module: Any) -> Any:
        clear = module.ClearToolResults(max_tokens=context.BUDGET, keep_pairs=3)
        window = module.SlidingWindowCompaction(
            max_tokens=context.BUDGET, keep_tokens=context.BUDGET // 2
        )
        return module.TieredCompaction(tiers=[clear, window], target_tokens=context.BUDGET)

    name = "pydantic-ai-harness Tiered"
    one = harness(name, make)()
    return Contender(name, "openai_chat", pydantic_in, one.run, pydantic_out)


def model_down() -> Contender:
    return langchain_summary(model_is_down)


FURTHER: dict[str, Callable[[], Contender]] = {
    "langchain SummarizationMiddleware": langchain_summary,
    "pydantic-ai-harness Tiered": harness_tiered,
    "agent-framework TruncationStrategy": agent_framework_truncation,
    "llama-index ChatMemoryBuffer": llama_buffer,
    "autogen HeadAndTail, 1 + 10": autogen_head_and_tail,
    "semantic-kernel Truncation, 10 + 5": semantic_kernel_truncation,
}
FOREIGN = {name: make for name, make in CONTENDERS.items() if not name.startswith("ullage")}
FOREIGN |= FURTHER
NO_TARGET = frozenset(
    {
        "langchain ContextEditing", "pydantic-ai-harness ClearToolResults", "openai-agents ToolOutputTrimmer", "litellm clear_tool_uses",
        "strands SlidingWindow, 40 messages", "autogen HeadAndTail, 1 + 10",
        "semantic-kernel Truncation, 10 + 5",
    }
)  # fmt: skip
"""They count messages or results, or a size is only what sets them off."""
SEES_ALL = frozenset(
    {
        "langchain trim_messages", "langchain ContextEditing", "openai-agents ToolOutputTrimmer", "convopack Recency", "litellm trim_messages",
        "litellm compress", "litellm clear_tool_uses", "autogen HeadAndTail, 1 + 10",
    }
)  # fmt: skip
"""They make the request out of the whole history each time; the others go on from what they left."""
AIMS = {
    "langchain SummarizationMiddleware": 25,
    "deepagents summarization": 25,
    "pydantic-ai-harness SlidingWindow": 50,
    "pydantic-ai-harness Tiered": 50,
    "agent-framework TruncationStrategy": 50,
    "llama-index Memory": 70,
}
"""Percent of the target that they compact to, by a setting of their own."""
FAILING = {"langchain SummarizationMiddleware": model_down}


def peer(name: str) -> Compactor:
    """A contender of the comparison as the laws want it; its size is the target."""

    def run(make: Callable[[], Contender], messages: Messages, target: int) -> Messages:
        for module in (context, frameworks, more_libraries):
            module.BUDGET = target
        one = make()
        left = json.dumps(one.back(one.run(one.native(messages))))
        # deepagents names a file by a thread, which an agent has for longer than one call.
        return list(json.loads(re.sub(r"session_[0-9a-f]+", "session_1", left)))

    make, failing = FOREIGN[name], FAILING.get(name)
    return Compactor(
        name,
        lambda messages, target: run(make, messages, target),
        form=make().form,
        has_target=name not in NO_TARGET,
        aims=AIMS.get(name, 100),
        sees_all=name in SEES_ALL,
        notice=laws.NOTICE + r"|\[Tool results:",  # how agent-framework begins such a text
        failing=failing and (lambda messages, target: run(failing, messages, target)),
    )


# ---- all of them -------------------------------------------------------------------------------


def judged(names: Sequence[str], count: int) -> Told:
    """What is installed here, held to the laws."""
    found: Told = {}
    for name in names:
        try:
            one = OWN[name] if name in OWN else peer(name)
        except ModuleNotFoundError as error:
            print(f"not here: {name}: {error}", file=sys.stderr)
            continue
        end = time.monotonic() + SECONDS
        broken, counts = laws.hold(one, count, until=lambda end=end: time.monotonic() > end)
        told = {each.law.id: [str(each.case), each.words] for each in broken}
        spared = [each.id for each in laws.LAWS if not each.applies(one)]
        found[name] = {"broken": told, "spared": spared, **counts}
        print(f"{name}: {len(told)} broken, {dict(counts)}", file=sys.stderr)
    return found


def everywhere(count: int, also: Sequence[str]) -> tuple[Told, dict[str, str]]:
    """Each contender in the first environment that has it."""
    names = [*OWN, *FOREIGN]
    found, known = judged(names, count), versions(PEERS)
    for python in also:
        lack = [name for name in names if name not in found]
        command = [python, "-m", "benches.peers.laws", "--cases", str(count), "--inner", *lack]
        more = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        out = subprocess.run(command, check=True, env=more, stdout=subprocess.PIPE).stdout
        other = json.loads(out.splitlines()[-1])
        found, known = {**found, **other["found"]}, {**other["versions"], **known}
    return {name: found[name] for name in names if name in found}, known


def tables(found: Told, known: dict[str, str], count: int) -> dict[Path, str]:
    """The table for the page, and the smallest case of each broken cell for the full tables."""
    ids = [each.id for each in laws.LAWS]
    rows = ["| contender | laws that a case broke | that do not apply |", "| --- | --- | --- |"]
    for name, told in found.items():
        cells = (
            ", ".join(str(at) for at, law in enumerate(ids, 1) if law in told[key]) or "none"
            for key in ("broken", "spared")
        )
        rows.append(f"| {name} | {' | '.join(cells)} |")
    lines = [
        f"- {name}, law {ids.index(law) + 1}: {words}. `{case}`"
        for name, told in found.items()
        for law, (case, words) in told["broken"].items()
    ]
    named = ", ".join(f"{name} {version}" for name, version in known.items())
    lack = [name for name in FOREIGN if name not in found]
    rest = f" Not installed: {', '.join(lack)}." if lack else ""
    said = f"`make laws` with {count} made cases each; ullage {ullage.__version__}, {named}.{rest}"
    return {PAGE: "\n".join([*rows, "", said]), TABLES: "\n".join(lines)}


def write(path: Path, text: str) -> None:
    """A text between the marks of a page."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


MOST_TURNS, SAMPLE, BATCH = 8, 10, 200
"""Of many conversations each is short if nothing is said, of so many one is asked what takes further runs, and after so many the figures are written."""


def alone(path: Path, count: int, seed: int, only: str, most_turns: int) -> int:
    """Many conversations for Ullage, one process and engine, in batches of a seed each; 1: a law is broken.

    Args:
        path: Of the figures, which are written after each batch; a run with the same one goes on where it ended.
        count: Of conversations in all; a fifth of them are sessions.
        seed: Of the first batch.
        only: The name of a compactor of our own; empty: `compact`, and in each fifth batch a session.
        most_turns: Of a conversation, or one more.
    """
    chosen = [law for law in laws.LAWS if law.id != "cost-is-linear"]
    repeated = [
        law for law in chosen if not law.once
    ]  # the others make their own conversations, the same each time
    done: dict[str, Any] = {"engine": ENGINE, "seed": seed, "batches": 0, "seconds": 0}
    done |= {"conversations": 0, "cases": 0, "compactors": {}, "broken": []}
    done |= json.loads(path.read_text("utf-8")) if path.exists() else {}
    while done["conversations"] < count:
        one = OWN[only] if only else SESSION if done["batches"] % 5 == 4 else OURS
        begun = time.monotonic()
        findings, counts = laws.hold(
            one,
            BATCH,
            seed=done["seed"] + done["batches"],
            most_turns=most_turns,
            sample=SAMPLE,
            laws=chosen if one.name not in done["compactors"] else repeated,
        )
        own = done["compactors"].setdefault(one.name, {})
        for name, number in counts.items():
            own[name] = own.get(name, 0) + number
        done["conversations"] += counts["tried"]
        done["cases"] += counts["cases"]
        done["broken"] += [
            [one.name, done["seed"] + done["batches"], str(found)] for found in findings
        ]
        done["batches"] += 1
        done["seconds"] = round(done["seconds"] + time.monotonic() - begun, 1)
        path.with_suffix(".new").write_text(json.dumps(done, indent=1), encoding="utf-8")
        path.with_suffix(".new").replace(path)
    print(path.read_text("utf-8"))
    return bool(done["broken"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="made conversations for each")
    parser.add_argument("--also", action="append", default=[], help="a further interpreter")
    parser.add_argument(
        "--write", action="store_true", help="into docs/laws.md and benches/TABLES.md"
    )
    parser.add_argument("--inner", nargs="*", default=None, help=argparse.SUPPRESS)
    parser.add_argument(
        "--ours", type=int, default=0, help="so many made conversations, of Ullage alone"
    )
    parser.add_argument("--only", default="", choices=["", *OWN], help="of these alone")
    parser.add_argument("--most-turns", type=int, default=MOST_TURNS, help="of them")
    parser.add_argument("--seed", type=int, default=0, help="they are made from")
    parser.add_argument(
        "--figures", type=Path, help="of that run: written after each batch, and continued"
    )
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if given.ours:
        with tempfile.TemporaryDirectory() as folder:
            tempfile.tempdir = folder
            path = given.figures or Path(folder) / "laws.json"
            return alone(path, given.ours, given.seed, given.only, given.most_turns)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        if given.inner is not None:
            print(
                json.dumps({"found": judged(given.inner, given.cases), "versions": versions(PEERS)})
            )
            return 0
        texts = tables(*everywhere(given.cases, given.also), given.cases)
    for path, text in texts.items():
        if given.write:
            write(path, text)
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
