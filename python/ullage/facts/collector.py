"""Collects the facts that code can keep: one pass over messages or entries, without a model and without guessing.

Every fact names its origin. Text of tools is never treated as the user's words; anything that cannot
be read is left out, never an error.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any

from ullage._engine import core
from ullage._start import Frozen, NamedTuple, orjson, pattern
from ullage.facts import names, rules, sections, tallies, words, work
from ullage.facts.calls import Action, CallEffect, listed_in, read_call
from ullage.facts.model import (
    STILL_OPEN,
    AgentRun,
    AgreedState,
    AnsweredQuestion,
    Commit,
    Facts,
    Origin,
    Statement,
    Task,
    UserInput,
    WorkItem,
)
from ullage.facts.rules import CommitmentKind, ReplacedValue
from ullage.facts.tallies import CallLog, CallOutcome, FactTally, NameTally
from ullage.facts.word_counts import WordCounts
from ullage.facts.words import Kind, Other, Words
from ullage.facts.work import OpenWork, TaskBoard, Tried
from ullage.messages import CLEARED, BlockView, Item, is_boundary, is_summary, message_of, uuid_of

# Questions and answers of tools that talk to the user, and tools found by a search.


def _questions(call_input: Any) -> list[str]:
    body = call_input if isinstance(call_input, Mapping) else {}
    listed = body.get("questions", body.get("question"))
    if isinstance(listed, str):
        return [words.clean(listed, 1000)]
    if not isinstance(listed, Sequence):
        return []
    return [words.clean(q.get("question"), 1000) for q in listed if isinstance(q, Mapping)]


_PAIR = pattern(r'"([^"]{1,1000})"="([^"]{0,2000})"')


def question_answers(call_input: Any, item: Any, text: str) -> list[tuple[str, str]]:
    """Questions and answers of a call that asked the user: by the entry's UI copy, if any, which is exact; `[]` if the result was cleared."""
    if text.strip() == CLEARED:
        return []
    copy = item.get("toolUseResult") if isinstance(item, Mapping) else None
    answers = copy.get("answers") if isinstance(copy, Mapping) else None
    if isinstance(answers, Mapping) and answers:
        return [
            (words.clean(q, 1000), words.flat_text(a))
            for q, a in answers.items()
            if isinstance(q, str)
        ]
    pairs = _PAIR.findall(text[:20_000])
    return pairs or [("\n".join(_questions(call_input)), _answer(text.strip()[:2000]))]


def _answer(text: str) -> str:
    """An answer; of Codex' object, which has the questions' ids, the words."""
    try:
        answers = orjson.loads(text)["answers"].values()
        return ", ".join(word for answer in answers for word in answer["answers"])
    except (ValueError, TypeError, LookupError, AttributeError):
        return text


def tool_references(item: Any) -> list[str]:
    """Names of the tools that a search for tools found."""
    contents = (block.get("content") for block in words.blocks_of(item))
    parts = (part for content in contents if isinstance(content, list) for part in content)
    listed = (
        words.clean(part.get("tool_name"), 200)
        for part in parts
        if isinstance(part, Mapping) and part.get("type") == "tool_reference"
    )
    return [name for name in listed if name]


OFFERED = 3  # newest texts of the assistant in which a chosen option is looked for
# Characters of a message that chooses an option, of one that names only its number or letter, and of the option.
MAX_CHOICE, MAX_BARE_CHOICE, MAX_OPTION = 400, 60, 600
_NAMED = pattern(
    r"\b(?:option|approach|choice|variant|alternative|proposal)s? #?(\d{1,2}|[A-H])\b", re.I
)
_BARE = pattern(
    r"(?:^|\b(?:go with|let['’]?s (?:try|do|go with|take)|try|take|do|pick|choose|prefer|want|think)) ?#?(\d{1,2}|[A-H]|^[a-h])(?=\W|$)"
)
_LISTS = pattern(r"\s*\d{1,2}[.)]\s+\S")  # a list of the user's own: "1. it happened twice".
_OFFER = pattern(
    r"^[#>*_|\s-]{0,8}(?P<kind>(?:option|approach|choice|variant|alternative|proposal|scenario|design|version|plan) )?#?[*_(]{0,3}"
    r"(?P<sign>\d{1,2}|[A-H])[*_]{0,2}[.):\]—–-]",
    re.I | re.M,
)


def chosen_option(reply: str, offers: Sequence[str]) -> str:
    """What an answer such as "let's try 2" chose, in the words of the list that offered it (the newest is last); empty: none is known."""
    match = named = _NAMED.search(reply) if len(reply) <= MAX_CHOICE else None
    if named is None and len(reply) <= MAX_CHOICE and not _LISTS.match(reply):
        # In a longer one only its first clause chooses: "let's do 2 for now, can you file the issue?"
        clause = reply.strip()
        if len(clause) > MAX_BARE_CHOICE:
            clause = re.split(r"[,.;:!?\n](?=\s|$)", clause, maxsplit=1)[0]
        match = _BARE.search(clause) if len(clause) <= MAX_BARE_CHOICE else None
    if match is None:
        return ""
    several = _SEVERAL.match(match.string.lower(), match.start(1))
    signs = _SIGN.findall(several[0]) if several else [match[1].lower()]
    for text in reversed(offers):
        every = list(_OFFER.finditer(text[: tallies.SCANNED]))
        for places in ([place for place in every if place["kind"]], every) if named else (every,):
            options = [_option(text, places, sign) for sign in signs] if len(places) > 1 else [""]
            if options[0]:
                chars = MAX_OPTION // len(options)
                return "\n".join(option[:chars] for option in options if option)
    return ""


# An answer that chooses several: `1+2`, `a and c`.
_SEVERAL = pattern(r"\d{1,2}(?: ?(?:\+|&|,|and) ?\d{1,2}\b)+|[a-h](?: ?(?:\+|&|,|and) ?[b-h]\b)+")
_SIGN = pattern(r"\b(?:\d{1,2}|[a-h])\b")


def _option(text: str, places: Sequence[re.Match[str]], sign: str) -> str:
    """The words of one of the options of a list; the last list is the one that was answered."""
    chosen = [at for at, place in enumerate(places) if place["sign"].lower() == sign]
    if not chosen:
        return ""
    following = [place.start() for place in places[chosen[-1] + 1 :]]
    begin = places[chosen[-1]].start()
    return text[begin : min([*following[:1], begin + MAX_OPTION])].strip()


def _heads(call: CallEffect) -> list[str]:
    return names.command_heads(call.target) if call.action is Action.COMMAND else []


# Findings of responses: decisions, open work, figures.


MIN_SENTENCE, MAX_SENTENCE = 8, 300


def _sentences(text: str) -> list[str]:
    return core.split_sentences(words.unfenced(text[: tallies.SCANNED]), MIN_SENTENCE, MAX_SENTENCE)


def findings(text: str) -> tuple[list[str], list[str]]:
    """The sentences of a response that state a decision, and the sentences and rows that name open work."""
    sentences: tuple[list[str], list[str]] = [], []
    parts = _sentences(text)
    for part, following in zip(parts, [*parts[1:], ""], strict=False):
        if not part.endswith("?") and not _TAKES_BACK.match(following):
            by_kind = rules.patterns().findings
            for place in by_kind.matching(part):
                if " OR " not in part if place == 0 else not _BEGINS.match(part):
                    # What code says is open is no work.
                    if "`" not in part or place in by_kind.matching(_CODE.sub("``", part)):
                        sentences[place].append(part)
    return sentences[0][:MOST_DECIDED], sentences[1][:MOST_OPEN]


# What follows a sentence that no longer holds.
_TAKES_BACK = pattern(r"\W*(?:actually|wait|hmm|on second thought|no[,.])\b", re.I)
# How a sentence begins that says what the assistant does next, in small letters; part of a pattern.
WILL = r"(?:(?:now|next|first|so),? )?(?:let me|let['’]s|i['’]ll|i will)\b"
# What the assistant is about to do is not what it leaves open, nor what it ticks off.
_BEGINS = pattern(rf"[\s>*-]{{0,8}}(?:[✅✓✔☑]|\[x\]|~~)|\W*{WILL}", re.I)
_CODE = pattern(r"`[^`]*`")
# An item of a list, which stands also where calls follow.
_TODO = pattern(r"[\s>*-]{0,8}\[ \]|\W{0,8}(?:TODO|FIXME)\b")
MOST_DECIDED, MOST_OPEN = 3, 8
_FIGURE = pattern(
    r"(?<![\w.,#:/@~-])[$€£]?(?:\d{1,3}(?:[,_]\d{3})+(?:\.\d{1,9})?|\d{3,12}|\d{1,12}\.\d{1,9}|"
    r"\d{1,12}(?=[ \u00a0]?(?:%|percent|[µmn]?s\b|[kKMGT]i?B\b|seconds?\b|minutes?\b|hours?\b|days?\b|times\b|x\b)))"
    r"(?![\w:/-]|\.\d)"
)
_DIGIT = pattern(r"\d")
_PLACE = pattern(
    r"\b(?:lines?|L|PR|issue|commit|step|chapter|section|port|HTTP|exit code)\s?#?$", re.I
)
MAX_FIGURE = 200


def figures(text: str) -> list[str]:
    """The sentences of a response that report a number: a count, a measure, an amount; not where something stands."""
    if not _DIGIT.search(text) or not _FIGURE.search(text):
        return []
    return [
        part
        for part in _sentences(text)
        if len(part) <= MAX_FIGURE
        and not part.endswith("?")
        and not part.startswith("|")
        and any(not _PLACE.search(part[: match.start()]) for match in _FIGURE.finditer(part))
    ][:4]


_SHORT_ANSWER = 300
# A reply that means what was said just before it, if nothing was asked: "yes, let's do that".
_POINTS = pattern(
    r"(?:(?:ok(?:ay)?|yes|yeah|yep|sure|great|cool|nice|perfect)\b[,.!]? )?(?:please |then )?"
    r"(?:(?:let['’]?s|can (?:we|you)|please|just) )?(?:do|add|try|build|fix|implement|change|use|run) (?:that|it|this|both|those|these)\b[^\n]{0,20}",
    re.I,
)
# Different ones from which some may be small talk in the form of a rule, which binds nobody; fewer take little room.
MANY_RULES = 6
ERROR_CHARS = 120  # of the line of an error that stands next to the work that failed


def collect(items: Iterable[Item], *, first_index: int = 0) -> Facts:
    """The facts of a conversation.

    Args:
        items: Messages or entries, oldest first.
        first_index: Index of the first item in the list to which the facts refer.

    Returns:
        Value objects only; they hold no reference to the items.
    """
    collector = Collector()
    for index, item in enumerate(items, first_index):
        collector.feed(index, item)
    return collector.finish()


def note_inputs(items: Iterable[Item]) -> list[UserInput]:
    """The sentences that may outlive a session, each once, with the index and uuid of its message: typed by the user, in short messages of plain prose."""
    inputs: dict[str, UserInput] = {}
    for entry in collect(items).inputs:
        if entry.kind is Kind.PROMPT and entry.origin is Origin.USER:
            for text in rules.note_rules(entry.text):
                inputs.setdefault(text, UserInput(entry.index, text, uuid=entry.uuid))
    return list(inputs.values())


class _Open(NamedTuple):
    """A call that waits for its result."""

    calls: tuple[CallEffect, ...]
    at: int
    call_input: Any
    id: str
    home: str
    input_text: str  # the strings of its input, as far as work is compared with them


LONGEST_THOUGHT = 10_000  # characters that are read of one, half at each end
_MOVES_HEAD = pattern(
    r"\bgit (?:-\S+ )*(?:switch|checkout|reset|pull|rebase|merge|stash|commit|cherry-pick|revert|am)\b"
)
# After it a log may be another repository's, or of what was committed in silence: then nothing is known.
_GOES_ELSEWHERE = pattern(r"\bcd \S")


class Collector:
    """Processes items one by one; `finish` returns the facts so far.

    Args:
        earlier: A collector that processed what came before, including what an earlier compaction removed from
            the context: the user's words and decisions, tasks and skills continue from there.
        ranked: Whether names, facts of results and corrections are wanted, which takes longer than all else.
    """

    most_steps: int | None = tallies.MAX_STEPS  # newest calls that are kept as lines; `None`: all

    def __init__(self, earlier: Collector | None = None, *, ranked: bool = True) -> None:
        self.ranked = ranked  # may be turned off for what follows
        self._end = 0
        self._inputs: list[UserInput] = []
        self._last_number = 0  # of a message of the user
        self._standing: list[UserInput] = []
        self._word_counts = WordCounts()
        self._talk: dict[str, bool] = {}  # whether a rule is only small talk, by its text
        self._decisions: list[AnsweredQuestion] = []
        self._statements: list[Statement] = []
        self._thoughts = deque[Statement](maxlen=tallies.MAX_STEPS)  # the newest
        self._skills: dict[str, None] = {}
        self._found_tools: dict[str, None] = {}
        self._urls: dict[str, None] = {}
        self._commits: dict[str, Commit] = {}
        self._head: Commit | None = None
        self._elsewhere = False  # a command has changed the folder
        self._log, self._names = CallLog(), NameTally()
        self._board = TaskBoard()
        self._calls: dict[str, _Open] = {}
        self._shown = FactTally()
        self._settled: list[Statement] = []
        self._open = OpenWork()
        # What the newest words call open in passing, and of it what the user has taken up since.
        self._said_open: list[str] = []
        self._taken_up: list[str] = []
        self._launched: dict[str, str] = {}  # tasks of sub-agents that answer later, by call
        self._plan, self._plan_mode, self._interrupted = "", False, False
        self._previous: sections.Previous | None = None
        self._last_said, self._pending_question = "", ""
        self._called_at, self._refused = -1, False  # the newest call; the user refused it
        self._offered: tuple[str, ...] = ()  # the list that the newest message of the user follows
        self._branch = ""
        self._messages = self._tool_uses = 0
        if earlier is not None:
            self._inputs.extend(earlier._inputs)
            self._last_number = earlier._last_number
            self._standing.extend(earlier._standing)
            self._decisions.extend(earlier._decisions)
            self._skills.update(earlier._skills)
            self._launched.update(earlier._launched)
            self._board = earlier._board
            self._open.go_on(earlier._open)

    def feed(self, index: int, item: Any) -> None:
        """Read one item. Never raises, whatever it contains."""
        self._end = index
        if type(item) is not dict and not isinstance(item, Mapping):
            return
        kind = item.get("type")
        if item.get("isSidechain") is True or (kind == "system" and is_boundary(item)):
            return
        if kind == "attachment":
            self._attachment(index, item)
        elif (message := message_of(item)) is not None:
            self._messages += 1
            self._branch = item.get("gitBranch") or self._branch
            role = message.get("role")
            if role == "assistant":
                self._assistant(index, item, message)
            elif role == "user" or role == "tool":
                blocks, results = words.blocks_in(message), 0
                for block in blocks:
                    if block.get("type") == "tool_result":
                        self._result(index, item, block)
                        results += 1
                text = words.text_in(blocks) if len(blocks) > results else ""
                origin = words.author_of(item)
                if text or origin or is_summary(item):
                    self._user_text(index, item, text, origin)

    def _user_text(self, index: int, item: Mapping[str, Any], text: str, origin: str) -> None:
        if summary := words.summary_text(item):
            self._earlier(index, summary)
        # Hidden: a host's own, such as Codex's notification of a sub-agent's answer.
        hidden = words.is_hidden(item)
        self._from_others(index, text, "" if hidden else origin)
        if not hidden and not origin:
            self._words(index, words.own_words(item), uuid_of(item))

    def _earlier(self, index: int, summary: str) -> None:
        """Read the summary of an earlier compaction."""
        parsed = self._previous = replace(sections.parse_summary(summary), index=index)
        self._listed(index, parsed.text)
        numbered = zip(parsed.kept_numbers, parsed.kept_inputs, strict=True)
        listed = f"{parsed.section(7)}\n{parsed.section(5)}"  # where code added them to a model's summary
        self._board.restore(work.read_tasks(listed, index))
        for todo in work.read_work(listed, index):
            self._open.restored(todo)
        seen = {rule.text for rule in self._standing}
        for text, lasting, by in sections.read_rules(summary):
            # Its message may have given way to others; a message that is still there is read after this.
            if text not in seen:
                rule = UserInput(index, text, origin=Origin.SUMMARY, lasting=lasting, corrected=by)
                self._standing.append(rule)
        inputs = [*sections.read_numbered_messages(parsed.section(6)), *numbered]
        self._carry_inputs(index, sections.with_newest(summary, inputs))
        self._last_number = max(self._last_number, sections.number_listed(parsed.section(6)))

    def _listed(self, index: int, summary: str) -> None:
        """The names that a summary holds; those that it lists with a file or command stay with it."""
        self._named(names.plain(summary), "summary", index)
        for home, listed in names.homes_in(summary):
            self._named(listed, "summary", index, home)

    def _named(self, text: str, source: str, index: int, home: str = "") -> None:
        if self.ranked:
            self._names.add(text, source, index, home)

    def _carry_inputs(self, index: int, numbered: list[tuple[int, str]]) -> None:
        """The user messages that a summary repeats, unless the messages themselves were seen: a log that starts in the middle of a session holds fewer, and what stays before a summary holds others."""
        seen = {entry.text for entry in self._inputs}
        # What is shortened there may be one of these.
        cut = (text.endswith("…") or sections.LEFT_OUT in text for _, text in numbered)
        whole = [text for (_, text), shorter in zip(numbered, cut, strict=True) if not shorter]
        again = sum(text in seen for text in whole)
        if len(numbered) <= len(self._inputs) and again * 2 >= len(whole):
            return
        for number, text in sorted(numbered, key=itemgetter(0)):
            if text not in seen:
                self._add(UserInput(index, text, origin=Origin.SUMMARY, number=number))
                for todo in self._typed(index, text, Origin.SUMMARY):
                    self._open.restored(todo)

    def _add(self, entry: UserInput) -> None:
        """Number a message of the user: by its summary, if that goes on upwards, else as the next."""
        last = self._last_number
        number = self._last_number = entry.number if entry.number > last else last + 1
        self._inputs.append(entry if entry.number == number else replace(entry, number=number))

    def _words(self, index: int, typed: Words, uuid: str) -> None:
        if typed.kind is Kind.INTERRUPT:
            self._interrupted = True
        elif typed.text and typed.kind is not Kind.HOST:
            self._input(index, typed.text, typed.kind, uuid)

    def _input(self, index: int, text: str, kind: Kind, uuid: str = "") -> None:
        before, answers = self._last_said, rules.is_answer(text) is not None
        question = words.asks(before) if len(text) <= _SHORT_ANSWER else ""
        if not question and (answers or _POINTS.match(text.strip())):
            question = words.proposal(before)
        if before and (titles := words.pointed_at(text, question, before, answers=answers)):
            question = f"{titles}\n{question}".strip()
        number = self._last_number + 1
        self._add(UserInput(index, text, kind, question, uuid=uuid, number=number))
        self._open.stated(text, index, by_user=True)
        offers = [statement.text for statement in self._statements[-OFFERED:]]
        if question and kind is Kind.PROMPT and answers:
            self._decisions.append(AnsweredQuestion(index, question, text))
        elif option := chosen_option(text, offers):
            self._decisions.append(AnsweredQuestion(index, option, text))
        self._offered = () if question else words.listed_before(text, before)
        asked = question and rules.is_answer(text) is not CommitmentKind.DENIAL
        self._taken_up = [part for part in self._said_open if asked or work.is_same(text, part)]
        self._said_open = []
        if self._refused:
            self._log.failures.explained(text)
        self._turn_ended()
        self._mentions(text, "user", index)
        if kind is Kind.PROMPT:
            for todo in self._typed(index, text, Origin.USER):
                self._open.opened(todo)

    def _turn_ended(self) -> None:
        self._last_said, self._pending_question = "", ""
        self._interrupted = self._refused = False
        self._statements[-1:] = self._last_words()

    def _last_words(self) -> list[Statement]:
        """The newest statement, which ends its turn unless it announced a call."""
        return [
            s._replace(closing=s.closing or s.index > self._called_at)
            for s in self._statements[-1:]
        ]

    def _mentions(self, text: str, source: str, index: int) -> None:
        """What the user or the assistant said names values that results held, and addresses."""
        self._named(text, source, index)
        if self.ranked:
            self._shown.named(text)
        self._urls.update(dict.fromkeys(names.urls_in(text)))

    def _typed(self, index: int, text: str, origin: Origin) -> list[WorkItem]:
        """What is still to do in a text of the user, of which the rules are noted."""
        typed = rules.typed_sentences(text)
        for rule in rules.rules_in(typed):
            entry = UserInput(index, rule.text, origin=origin, lasting=rule.lasting)
            self._standing.append(entry)
        return work.todos_of(index, typed)

    def _from_others(self, index: int, text: str, origin: str) -> None:
        """Read what teammates and sub-agents say in the user's role as data, like a tool's output."""
        for other in words.others_in(text) or ([Other(origin, text.strip())] if origin else []):
            notice = words.notified(other)
            if (ended := words.ended_command(other)) is not None:
                name, code = ended
                if code is None:
                    self._log.stopped(name)
                else:
                    self._log.exited(name, code, index)
            what = self._launched.get(notice.call, "") or notice.who
            self._named(notice.text, "result", index)
            answer = words.ends_of(notice.text, tallies.ANSWER_CHARS)
            self._log.agents.append(AgentRun(index, what, answer))

    def _attachment(self, index: int, item: Mapping[str, Any]) -> None:
        body = item.get("attachment")
        if isinstance(body, Mapping) and body.get("type") == "queued_command":
            text = words.text_of({"role": "user", "content": body.get("prompt")})
            origin = words.author_of(body)
            self._from_others(index, text, origin)
            if not origin:
                self._words(index, words.words_of(text), uuid_of(item))

    def _assistant(self, index: int, item: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        if message.get("model") == "<synthetic>" or item.get("isApiErrorMessage") is True:
            return
        blocks = words.blocks_in(message)
        if text := words.text_in(blocks).strip():
            self._last_said = text
            self._pending_question = words.asks(text)
            self._statements.append(Statement(index, text, closing=False))
            decided, still_open = findings(text)
            self._settled += [Statement(index, part, closing=False) for part in decided]
            self._open.stated(text, index)
            for part in still_open:
                self._open.opened(WorkItem(index, part))
            self._said_open = [part for part in still_open if not _TODO.match(part)]
            self._mentions(text, "assistant", index)
        for block in blocks:
            if block.get("type") == "tool_use":
                self._call(index, block)
            elif block.get("type") == "thinking":
                if thought := words.clean(block.get("thinking"), LONGEST_THOUGHT).strip():
                    self._thoughts.append(Statement(index, thought, closing=False))
            elif sections.family_of(block):
                readable_text = words.clean(sections.readable(block))
                if readable_text.strip():
                    self._provider_summary(index, readable_text)

    def _provider_summary(self, index: int, text: str) -> None:
        """Read the provider's own compaction, which replaces everything before it, including an older summary."""
        self._listed(index, text)
        parsed, previous = sections.parse_summary(text), self._previous
        if previous is not None:
            numbered = dict(previous.sections) or {5: previous.text}
            numbered[5] = "\n".join(filter(None, (numbered.get(5, ""), parsed.text)))
            body = f"{previous.text}\n\n{parsed.text}"
            parsed = replace(previous, text=body, sections=tuple(sorted(numbered.items())))
        self._previous = replace(parsed, index=index)

    def _call(self, index: int, block: BlockView) -> None:
        self._tool_uses += 1
        self._called_at, self._refused = index, False
        self._open.forget(self._said_open)  # what is said on the way is done next
        self._said_open = []
        call_input = block.get("input")
        calls = read_call(block.get("name"), call_input)
        key, first = words.clean(block.get("id"), 200), calls[0]
        action, target = first.action, first.target
        writes = action is Action.EDIT or action is Action.WRITE
        heads = [_heads(call) for call in calls] if self.ranked else [[]]
        home = tallies.home_of(first, heads[0])
        text = words.ends_of(words.flat_text(call_input), tallies.NAMES_CHARS)
        # A file of some length has the words of any task.
        chars = work.FILE_CHARS if writes else work.CALL_CHARS
        self._calls[key] = _Open(calls, index, call_input, key, home, text[:chars])
        if action is Action.ASK:
            self._pending_question = "\n".join(_questions(call_input)) or target[:500]
        else:
            self._pending_question = target[:500] if action is Action.PLAN else ""
        if not self._pending_question:
            self._interrupted = False
        if self.ranked:
            self._names.add(text, "edit" if writes else "call", index, home)
            self._shown.named(text)
            for head in chain.from_iterable(heads):
                self._names.add_command(head, index)
        if "://" in target:
            self._urls.update(dict.fromkeys(names.urls_in(target)))
        if action is Action.SKILL:
            self._skills[target[:200]] = None
        elif first.name in ("EnterPlanMode", "enter_plan_mode"):
            self._plan_mode = True

    def _result(self, index: int, item: Any, block: BlockView) -> None:
        opened = self._calls.pop(words.clean(block.get("tool_use_id"), 200), None)
        text = words.run_text(words.own_text(words.result_text(block)))
        outcome = tallies.read_outcome(text, is_error=block.get("is_error") is True)
        action = opened.calls[0].action if opened else None
        if action is Action.COMMAND and outcome.ok and tallies.running_id(text):
            outcome = tallies.LEFT_RUNNING
        self._named(text, "result", index, opened.home if opened else "")
        if self.ranked:
            self._shown.showed(text, index, read=action is Action.READ)
        if opened is not None:
            self._ended(opened, outcome, text, index, item)
        if outcome.feedback:
            self._input(index, outcome.feedback, Kind.FEEDBACK)
        elif opened is not None and outcome.ok is None and action is not Action.PLAN:
            self._refused = text.lstrip().startswith(tallies.REFUSED)

    def _ended(self, opened: _Open, outcome: CallOutcome, text: str, index: int, item: Any) -> None:
        """A call has its result, in an item at an index."""
        first, at = opened.calls[0], opened.at
        action = first.action
        commits: list[tuple[str, str, str]] = []
        if action is Action.COMMAND or action is Action.POLL:
            commits = names.commits_in(text)
            if commits and tallies.is_scratch(first.target, text):
                commits = []
            for branch, digest, subject in commits:
                self._commits[digest] = Commit(index, branch, digest, subject)
            self._elsewhere = self._elsewhere or _GOES_ELSEWHERE.search(first.target) is not None
            head = names.head_in(first.target, text) if outcome.ok else None
            if _MOVES_HEAD.search(first.target) or (head and self._elsewhere):
                self._head = None
            elif head and not first.folder:
                self._head = Commit(index, "", *head)
        elif action is Action.AGENT and words.is_launch(text):
            self._launched[words.launched_as(text) or opened.id] = first.target[:2000]
        self._log.ended(opened.calls, at, outcome, text, committed=bool(commits))
        self._tried(opened, outcome)
        if not outcome.ok:
            return
        if action is Action.EDIT or action is Action.WRITE:
            self._open.forget(self._taken_up)
        scripted = len(opened.calls) > 1 or first.name == "update_plan"
        if scripted and (listed := listed_in(opened.call_input)) is not None:
            self._board.done(Action.TODO, listed, text, at, opened.id)
        elif action is Action.ASK:
            self._pending_question = ""
            for question, answer in question_answers(opened.call_input, item, text):
                self._decisions.append(AnsweredQuestion(index, question, answer))
                self._named(answer, "user", index)
        elif action is Action.PLAN:
            self._plan, self._plan_mode = first.target, False
        elif action is Action.FIND_TOOL:
            self._found_tools.update(dict.fromkeys(tool_references(item)))
        else:
            self._board.done(action, opened.call_input, text, at, opened.id)

    def _tried(self, opened: _Open, outcome: CallOutcome) -> None:
        first = opened.calls[0]
        if outcome.ok is not None and tallies.acts(first.action, first.target):
            error = "" if outcome.ok else outcome.line[:ERROR_CHARS] or "no text"
            result = Tried(opened.id, outcome.ok, error)
            self._open.tried(opened.input_text, result, self._board.open_subjects())

    def finish(self, *, most_names: int = tallies.MAX_NAMES) -> Facts:
        """The facts from all items so far; `most_names` of the best names."""
        statements = [*self._statements[:-1], *self._last_words()]
        shown = self._shown.ranked() if self.ranked else ()
        inputs, standing = self._inputs, list({rule.text: rule for rule in self._standing}.values())
        texts = tuple([entry.text for entry in inputs])
        if self._word_counts.texts != texts:  # what it has counted is kept
            self._word_counts = WordCounts(texts)
        word_counts = self._word_counts
        for rule in standing:  # asked once: it takes the words of all messages
            if not rule.lasting and rule.text not in self._talk:
                self._talk[rule.text] = rules.is_talk(rule.text, word_counts)
        standing = [rule for rule in standing if rule.lasting or not self._talk[rule.text]]
        if len(standing) > MANY_RULES:
            standing = [rule for rule in standing if not word_counts.are_common(rule.text)]
        if self.ranked:
            inputs, standing = rules.superseded(inputs, standing)
        return Facts(
            inputs=tuple(inputs),
            standing=tuple(standing),
            files=self._log.files.files(),
            commands=tuple(self._log.commands),
            failures=self._log.failures.failures(),
            steps=tuple(self._log.newest(self.most_steps)),
            names=self._names.ranked(self._end, most_names) if self.ranked else (),
            urls=tuple(self._urls),
            commits=tuple(self._commits.values()),
            head=self._head,
            decisions=tuple(self._decisions),
            tasks=self._board.tasks(self._open.calls),
            statements=tuple(statements),
            thoughts=tuple(self._thoughts),
            findings=tuple(fact for fact in shown if fact.line not in self._urls),
            settled=tuple({statement.text: statement for statement in self._settled}.values()),
            still_open=self._open.items(),
            closed_work=self._open.closed(),
            agents=tuple(self._log.agents),
            skills=tuple(self._skills),
            found_tools=tuple(self._found_tools),
            plan=self._plan,
            plan_mode=self._plan_mode,
            previous=self._previous,
            open_question=self._pending_question,
            offered=self._offered,
            interrupted=self._interrupted,
            branch=words.clean(self._branch, 200),
            messages=self._messages,
            tool_uses=self._tool_uses,
            word_counts=word_counts,
        )


class CourseCollector(Collector):
    """For a record in which the user's words stand whole: nothing is read out of them but an option that they choose, they have no numbers, and open work is not followed."""

    most_steps = None

    def __init__(self) -> None:
        super().__init__(ranked=False)

    def _input(self, index: int, text: str, kind: Kind, uuid: str = "") -> None:
        self._inputs.append(UserInput(index, text, kind, uuid=uuid))
        offers = [statement.text for statement in self._statements[-OFFERED:]]
        if option := chosen_option(text, offers):
            self._decisions.append(AnsweredQuestion(index, option, text))
        self._turn_ended()

    def _tried(self, opened: _Open, outcome: CallOutcome) -> None:
        pass


# What a conversation has agreed on, as data: rules, decisions, plan, tasks and open work, each with who said it and its state.


class AgreedItem(Frozen):
    """One rule, decision or piece of work, verbatim."""

    kind: CommitmentKind
    text: str
    by: Origin
    index: int  # of the message that said so, or of the call that changed it last
    state: AgreedState = AgreedState.HOLDS
    # Number of the user's message that corrects a value in it, from 1; 0: none.
    replaced_by: int = 0
    question: str = ""  # what a decision, an approval or a denial answers
    call: str = ""  # id of the call that did the work, failed at it, or succeeded without closing it; empty: none
    error: str = ""  # of failed work: the line of that call's result


class CommitmentList(Frozen):
    """Everything agreed, rules and decisions in order of the messages, then work."""

    items: tuple[AgreedItem, ...] = ()
    plan: str = ""  # that the user approved last; empty: none
    waiting_for: str = ""  # the question that nobody has answered; empty: none

    def of(self, *kinds: CommitmentKind | str) -> tuple[AgreedItem, ...]:
        """The items of these kinds.

        Args:
            kinds: Such as `"prohibition"` or `CommitmentKind.TODO`.
        """
        wanted = {CommitmentKind(kind) for kind in kinds}
        return tuple(item for item in self.items if item.kind in wanted)

    @property
    def open(self) -> tuple[AgreedItem, ...]:
        """The work that is still to be done, also what a call failed at."""
        return tuple(item for item in self.items if item.state in STILL_OPEN)


def commitments_of(items: Iterable[Item]) -> CommitmentList:
    """What a conversation has agreed on. Text of tools never counts, and nothing is guessed.

    Args:
        items: Messages or entries, oldest first: `manager.history`, or `session.history` of an opened one.

    Example:
        >>> found = commitments_of([{"role": "user", "content": "Fix it. Never push to main."}])
        >>> [(str(item.kind), item.text) for item in found.items]
        [('prohibition', 'Never push to main.')]
    """
    facts = collect(items)
    in_order = sorted([*_by_user(facts), *_decided(facts)], key=lambda item: item.index)
    return CommitmentList((*in_order, *_work(facts)), facts.plan, facts.open_question)


def _by_user(facts: Facts) -> Iterator[AgreedItem]:
    later: dict[int, list[ReplacedValue]] = {}
    for correction in rules.corrections_of(facts.inputs):
        later.setdefault(correction.at, []).append(correction)
    for at, entry in enumerate(facts.inputs):
        kinds = {
            item.text: item.kind
            for item in rules.commitments_in(entry.text, answers=entry.question)
        }
        for rule in rules.rules_of(entry.text):
            kinds.setdefault(rule.text, CommitmentKind.OBLIGATION)
        for text, kind in kinds.items():
            if kind is CommitmentKind.TODO:
                continue  # tasks and open work say how far it is
            item = AgreedItem(kind, text, entry.origin, entry.index, question=entry.question)
            by = [new.number for new in later.get(at, ()) if rules.names_value(text, new.old)]
            yield replace(item, state=AgreedState.REPLACED, replaced_by=by[-1]) if by else item


def _decided(facts: Facts) -> Iterator[AgreedItem]:
    """Answers to questions of tools, and what the assistant said was decided."""
    replied = {entry.index for entry in facts.inputs}
    kind = CommitmentKind.DECISION
    for answer in facts.decisions:
        if answer.index not in replied:
            by, question = answer.origin, answer.question
            yield AgreedItem(kind, answer.answer, by, answer.index, question=question)
    for statement in facts.settled:
        yield AgreedItem(kind, statement.text, statement.origin, statement.index)


def _work(facts: Facts) -> Iterator[AgreedItem]:
    tasks = [(task, task.subject) for task in facts.tasks if task.subject]
    open_work = [(item, item.text) for item in (*facts.still_open, *facts.closed_work)]
    rows: list[tuple[Task | WorkItem, str]] = [*tasks, *open_work]
    for item, text in rows:
        by, at, todo = item.origin, item.index, CommitmentKind.TODO
        yield AgreedItem(todo, text, by, at, item.state, call=item.call, error=item.error)
