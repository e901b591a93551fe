"""What a compacted context is asked for: the names of the next calls, the story, and what later edits and commands are for.

- *Next*: of the identifiers (paths, symbols, ids, commands, options, error names) that the next 20 calls name in their parameters and
  that stood before the cut, the share that a context holds; a path counts by its last two parts. *Own* names stand in one repository's
  sessions only: no model knows them.
- *Story*: of the pairs of neighbouring content words of the session's own summary that stand in the source too, the share that a
  context holds, each weighed by how few sessions use its words. *Words later*: of the content words of what the assistant says
  along with the next 20 calls, likewise.
- *Goes on*: of the next 20 calls those that edit a file or run a command and could be known: both stood before. *Target*: the path's
  last two parts, or program, subcommand and files. *Purpose*: half of the reason's words (what the call describes itself as, else the
  last 400 characters before it; compared by their first five letters) stand in one passage of 400 characters.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benches.fidelity.cuts import CALLS, Cut, Message, block_text, blocks, calls, said, text_of

from ullage.facts.calls import Action, read_call
from ullage.facts.names import command_heads
from ullage.replay import names_of_call

LEAST = 5
"""A cut with fewer identifiers says nothing."""

# ---- names of the next calls -------------------------------------------------------------------


def _short(word: str) -> str:
    """A path by its last two parts: where a repository lies differs from machine to machine."""
    return "/".join(word.split("/")[-2:])


def needs(cut: Cut) -> set[str]:
    """Identifiers that stood before the cut and are used after it."""
    before = "\n".join(map(text_of, cut.before))
    used = {
        name for _, call in calls(cut.after, CALLS) for name in names_of_call(call.get("input"))
    }
    return {name for name in used if name in before}


def share(text: str, wanted: Iterable[str]) -> float | None:
    """The share of texts that stand in a text; None: there are none."""
    found = [each in text for each in wanted]
    return sum(found) / len(found) if found else None


def repository(session: str) -> str:
    """Its last word: sessions of two agents in one repository are one group."""
    return re.sub(r"^[a-z]+_(?:[a-z]+-)?|/.*", "", session)


# ---- the story ---------------------------------------------------------------------------------

CONTENT = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]|[^\W_]{2,}")
STOP = frozenset(
    "the and for that this with from have has had was were are is be been being will would can could should may might must not but its it "
    "as at by an in of on or to so if then than there here when where which who what how why all any each more most some such only own same "
    "too very just also into over under out up down off again once about after before between during you your we our they their them he she "
    "his her me my do does did done let now get got use used using".split()
)  # fmt: skip
Pair = tuple[str, str]


def content(text: str) -> list[str]:
    """The content words of a text in their order; of scripts without spaces the signs."""
    return [word for word in CONTENT.findall(text.lower()) if word not in STOP]


def pairs(text: str) -> set[Pair]:
    return set(pairwise(content(text)))


class Rarity:
    """How few sessions use a word."""

    def __init__(self, sessions: dict[str, str]) -> None:
        self.sessions = len(sessions)
        self.uses = Counter(word for text in sessions.values() for word in set(content(text)))

    def __call__(self, *words: str) -> float:
        return sum(math.log((1 + self.sessions) / max(1, self.uses[word])) for word in words)


@dataclass(frozen=True)
class Story:
    """Weighed content of what was said elsewhere and stands in the source too."""

    weights: dict[Pair, float]
    words: frozenset[str]

    def pairs_held(self, text: str) -> float | None:
        total = sum(self.weights.values())
        held = pairs(text)
        return sum(w for p, w in self.weights.items() if p in held) / total if total else None

    def words_held(self, text: str) -> float | None:
        held = set(content(text))
        return len(self.words & held) / len(self.words) if self.words else None


def story_of(cut: Cut, source: str, rarity: Rarity) -> Story:
    """What the session's own summary tells and what the assistant says later, as far as it stands in the source."""
    known, words = pairs(source), set(content(source))
    later = {word for text in prose_after(cut.after) for word in content(text)}
    weights = {pair: rarity(*pair) for pair in pairs(cut.written) & known}
    return Story(weights, frozenset(later & words))


def prose_after(after: Sequence[Message]) -> Iterator[str]:
    """What the assistant says until the last of the next calls."""
    last = calls(after, CALLS)
    for item in after[: last[-1][0] + 1 if last else None]:
        if (said(item) or {})["role"] == "assistant":
            yield from (block_text(each) for each in blocks(item) if each.get("type") == "text")


def best_sentences(source: str, weights: dict[Pair, float], fits: Callable[[str], bool]) -> str:
    """The oracle of *story*: sentences of the source, greedily by what they hold for their length."""
    held_by = {
        each: pairs(each) & weights.keys() for each in re.split(r"(?<=[.!?])\s+|\n+", source)
    }
    left = dict(weights)

    def gain(sentence: str) -> float:
        return sum(left.get(pair, 0) for pair in held_by[sentence]) / (len(sentence) + 5)

    queue = [(-gain(each), each) for each, found in held_by.items() if found]
    heapq.heapify(queue)
    kept: list[str] = []
    while queue:
        _, sentence = heapq.heappop(queue)
        worth = gain(sentence)
        if queue and worth < -queue[0][0]:
            heapq.heappush(queue, (-worth, sentence))
        elif worth > 0 and fits("\n".join([*kept, sentence])):
            kept.append(sentence)
            for pair in held_by[sentence]:
                left.pop(pair, None)
        elif worth == 0:
            break
    return "\n".join(kept)


# ---- what later work is for --------------------------------------------------------------------

REASON_CHARS = PASSAGE_CHARS = 400
LEAST_WORDS, STEM = 3, 5
PLAIN = re.compile(r"(?<![\w./@:_-])[A-Za-z]{4,30}(?![\w/@_-]|[.:]\w)")
FILE = re.compile(r"(?<![\w=])(?:[\w@~.-]{1,80}/){0,20}[\w@-][\w@.-]{0,80}\.[A-Za-z]\w{0,7}\b")
COMMON = frozenset(
    "that this with from have will then also when they them were what which here there need let's lets into does done more just been some "
    "only each other than your their about should would could look looks want make sure using used uses like over after before".split()
)  # fmt: skip
CHANGES = (Action.EDIT, Action.WRITE, Action.DELETE)
Placed = Sequence[tuple[int, str]]


@dataclass(frozen=True)
class Work:
    """A later edit or command, by what stood before the cut of its target and its reason."""

    target: frozenset[str]
    reason: frozenset[str]

    def target_read(self, text: str) -> bool:
        """Whether the context names the target."""
        return all(name in text for name in self.target)

    def purpose_read(self, words: Placed) -> bool:
        """Whether one passage holds half of the reason's words."""
        need = (len(self.reason) + 1) // 2
        inside: list[tuple[int, str]] = []
        for place, word in words:
            if word in self.reason:
                inside = [row for row in inside if place - row[0] <= PASSAGE_CHARS]
                inside.append((place, word))
                if len({each for _, each in inside}) >= need:
                    return True
        return False


def later_work(cut: Cut, source: str) -> list[Work]:
    """The edits and commands whose target and reason could be known at the cut."""
    known = {word for _, word in placed(source)}
    found = []
    for block, words in _with_reasons(cut.after):
        reason = frozenset(word for _, word in placed(words)) & known
        for names in _targets(block):
            target = frozenset(name for name in names if name in source)
            if target and len(reason) >= LEAST_WORDS:
                found.append(Work(target, reason))
    return found


def placed(text: str) -> list[tuple[int, str]]:
    """The prose words of a text by their beginnings, with their places."""
    found = ((match.start(), match[0].lower()) for match in PLAIN.finditer(text))
    return [(place, word[:STEM]) for place, word in found if word not in COMMON]


def _with_reasons(after: Sequence[Message]) -> Iterator[tuple[Message, str]]:
    """The next calls, each with its description or what the agent said last."""
    words, seen = "", 0
    for item in after:
        for block in blocks(item) if (said(item) or {})["role"] == "assistant" else ():
            if block.get("type") == "text":
                words = str(block.get("text") or "")[-REASON_CHARS:]
            elif block.get("type") == "tool_use" and seen < CALLS:
                seen += 1
                given = block.get("input")
                about = given.get("description") if isinstance(given, dict) else None
                yield block, about if isinstance(about, str) and about else words


def _targets(block: Message) -> Iterator[set[str]]:
    for call in read_call(block.get("name"), block.get("input")):
        if call.action in CHANGES and call.target:
            yield {_short(call.target)}
        elif call.action is Action.COMMAND:
            yield {*command_heads(call.target), *map(_short, FILE.findall(call.target))}
