"""What is measured of a session that was played through an agent."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from benches.frameworks.recorded import (
    WINDOW,
    Framework,
    Message,
    Played,
    calls_of,
    size,
    stands,
    words_of,
)

from ullage import validate
from ullage.replay import names_of_call

NEXT = 20
"""Calls after a request whose identifiers count as used."""

EVERY = 10
"""Requests from one look at forward use to the next."""

WRITE, READ = 1.25, 0.1
"""Price of a token that is written to a provider's cache and of one that is read from it, in plain input tokens."""

COLUMNS = (
    "requests that a provider takes", "tokens sent", "of them cached", "price", "facts kept", "forward use", "sent to the writer", "ms a request",
)  # fmt: skip


@dataclass(frozen=True)
class Score:
    """One session.

    Attributes:
        requests: That were due.
        legal: That a provider would take: by its rules and within the window.
        over: Larger than the window.
        rules: That the others break.
        refused: Sent again after a refusal as too long.
        sent: Tokens of all requests.
        cached: Of these, those of messages that the request before began with.
        facts: Share of the planted facts that stand in the last request.
        forward: Share of the identifiers used next that stand in the request, over every tenth request.
        asked: Tokens that a writer of summaries was sent, roughly.
        seconds: Of processor time, all of the agent's.
    """

    requests: int
    legal: int
    over: int
    rules: tuple[str, ...]
    refused: int
    sent: int
    cached: int
    facts: float
    forward: float
    asked: int
    seconds: float


def score(played: Played, framework: Framework, seconds: float) -> Score:
    """The figures of a session."""
    sizes = [size(sent) for sent in played.sent]
    broken = [_broken(sent, framework) for sent in played.sent]
    over = [tokens > WINDOW for tokens in sizes]
    cached = 0
    for one, other in itertools.pairwise(played.sent):
        same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
        cached += size([message for _, message in same])
    written = [json.dumps(sent, ensure_ascii=False) for sent in played.sent]
    facts = played.session.facts
    last = written[-1] if written else ""
    return Score(
        len(played.session.answers),
        sum(not (rules or large) for rules, large in zip(broken, over, strict=True)),
        sum(over),
        tuple(sorted(set[str]().union(*broken))),
        played.refused,
        sum(sizes),
        cached,
        sum(stands(fact, last) for fact in facts) / len(facts),
        forward_use(played, written),
        played.asked // 4,
        seconds,
    )


def _broken(sent: list[Message], framework: Framework) -> set[str]:
    """Ids of the rules that a request breaks."""
    report = validate(sent, provider=framework.form, params=framework.params)
    return {error.rule for error in report.errors}


def forward_use(played: Played, written: Sequence[str]) -> float:
    """Of the identifiers that stood in the session and that its next calls name, the share that a request holds."""
    held = needed = 0
    known = "\n".join(played.session.prompts[:1])
    results, answers = played.session.results, played.session.answers
    for at, answer in enumerate(answers[: len(written)]):
        if at and at % EVERY == 0:
            coming = [call for later in answers[at:] for call in calls_of(later)][:NEXT]
            names = {name for call in coming for name in names_of_call(call["input"])}
            used = {name for name in names if name in known}
            held, needed = held + sum(name in written[at] for name in used), needed + len(used)
        said = [words_of(answer), *(json.dumps(call["input"], ensure_ascii=False) for call in calls_of(answer))]  # fmt: skip
        known += "\n".join([*said, *(results[call["id"]] for call in calls_of(answer))])
    return held / needed if needed else 1.0


def cells(found: Sequence[Score]) -> list[str]:
    """The figures of a row, over all sessions."""

    def total(name: str) -> float:
        return sum(getattr(each, name) for each in found)

    def mean(name: str) -> float:
        return statistics.fmean(getattr(each, name) for each in found)

    again = f", {total('refused'):,.0f} after a refusal" if total("refused") else ""
    again += f", {total('over'):,.0f} over the window" if total("over") else ""
    rules = sorted({rule for each in found for rule in each.rules})
    again += f", others break {' and '.join(rules)}" if rules else ""
    price = READ * total("cached") + WRITE * (total("sent") - total("cached"))
    return [
        f"{total('legal'):,.0f} of {total('requests'):,.0f}" + again,
        f"{total('sent'):,.0f}",
        f"{total('cached') / total('sent'):.0%}",
        f"{price:,.0f}",
        f"{mean('facts'):.0%}",
        f"{mean('forward'):.0%}",
        f"{total('asked'):,.0f}",
        f"{1e3 * total('seconds') / total('requests'):.1f}",
    ]
