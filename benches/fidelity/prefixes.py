"""Every prefix of every session of a folder, after every operation, in every provider's form: is it legal?

Run: python -m benches.fidelity.prefixes --corpus FOLDER            (all prefixes; hours on a large folder)
     python -m benches.fidelity.prefixes --corpus FOLDER --sample 20,2   (what `make corpus` tests; minutes)

A stretch is what a session's model was shown between two compactions; its prefixes end after each stored entry,
so in the middle of responses and of parallel results too. Each operation is applied to the messages of a
prefix, its result is translated and repaired as `ullage resume` does (`ullage.outgoing`), and judged by
`ullage.validate` and, for every `--second`-th prefix, by the test kit's own checker, which shares no code with it.
Three things are counted: requests that are illegal (must be 0), legal prefixes that an operation itself made illegal
before the repair (`mended`), and operations that raised anything but a typed error (must be 0).
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ullage import strip_media
from ullage.compaction import compact
from ullage.compaction.overflow import HeadTruncation
from ullage.effects import drive
from ullage.exceptions import UllageError
from ullage.facts import tallies
from ullage.models import UnknownModelWarning
from ullage.offload import MemoryStore
from ullage.outgoing import SHAPES, Outgoing, outgoing, rules_model
from ullage.policy import Policy
from ullage.stages import View, collapse, fold, microcompact, snip, tool_budget, truncate, turn_snip
from ullage.testing import assert_legal
from ullage.transcript import resume
from ullage.transcript.formats import read
from ullage.transcript.view import to_messages

SUFFIXES = {".jsonl", ".json", ".traj"}
HOUR = 3_600_000
NEXT: dict[str, Any] = {
    "gemini": {"role": "user", "parts": [{"text": "go on"}]},
    "bedrock": {"role": "user", "content": [{"text": "go on"}]},
}
# Every threshold so low that the level acts wherever it can.
EAGER = Policy.buffered().change(
    {
        "tool_budget.max_result_chars": 400,
        "tool_budget.max_message_chars": 800,
        "snip.max_chars": 400,
        "snip.turns": True,
        "micro.by_time": True,
        "micro.by_supersession": True,
        "micro.supersede_start_percent": 0,
        "micro.min_freed_tokens": 0,
        "micro.keep_recent": 1,
        "collapse.enabled": True,
        "collapse.stage_percent": 0,
        "collapse.commit_percent": 20,
        "collapse.block_percent": 95,
        "collapse.target_percent": 10,
        "collapse.min_span_tokens": 100,
        "collapse.keep_recent_rounds": 1,
        "protect.tool_results": 1,
        "protect.user_inputs": 1,
        "truncate.margin_tokens": 0,
    }
)
LINES = Policy.ladder().change({"micro.line_start_percent": 0, "micro.min_freed_tokens": 0})

Messages = list[Any]


# ---- operations ------------------------------------------------------------------------------------


def _view(messages: Messages) -> View:
    view = View()
    for message in messages:
        view.add(message)
    return view


def _snip_turn(view: View) -> None:
    state = turn_snip.TurnSnip()
    turn_snip.apply(view, EAGER, 0, state)
    turn_snip.answer({"ids": list(state.ids.values())[:2], "reason": "done"}, view, state)
    turn_snip.apply(view, EAGER, 0, state)


def _collapse(view: View) -> None:
    room = collapse.Room(max(1, view.ledger.tokens()), 0, None, "main", 0)
    state = collapse.Collapse()
    for _ in range(2):  # staged, then committed
        outcome = collapse.apply(view, EAGER, room, state)
        if hasattr(outcome, "send"):
            drive(outcome, lambda effect: None)


def _half(view: View) -> int:
    return int(view.ledger.tokens()) // 2


LEVELS: dict[str, Callable[[View], Any]] = {
    "tool budget": lambda view: tool_budget.apply(view, EAGER, MemoryStore()),
    "snip": lambda view: snip.apply(view, EAGER, 100),
    "turn snip": _snip_turn,
    "clear by time": lambda view: microcompact.apply(view, EAGER, 100, 10**15),
    "clear by line": lambda view: microcompact.apply(view, LINES, 100, None),
    "collapse": _collapse,
    "fold": lambda view: fold.apply(view, EAGER, _half(view), 0),
    "truncate": lambda view: truncate.apply(view, _half(view), 0, 0),
}


def _level(act: Callable[[View], Any]) -> Callable[[Messages], Messages]:
    def run(messages: Messages) -> Messages:
        view = _view(messages)
        act(view)
        return list(view.messages)

    return run


def _all_levels(messages: Messages) -> Messages:
    view = _view(messages)
    for act in LEVELS.values():
        try:
            act(view)
        except UllageError:
            continue
    return list(view.messages)


def _head(messages: Messages) -> Messages:
    cut = HeadTruncation(messages, share_percent=40)
    cut.shrink(None)
    return list(cut.messages)


def _compact(**options: Any) -> Callable[[Messages], Messages]:
    def run(messages: Messages) -> Messages:
        given = {
            key: value(messages) if callable(value) else value for key, value in options.items()
        }
        return list(compact(messages, **given).messages)

    return run


def _middle(messages: Messages) -> int:
    return len(messages) // 2


OPERATIONS: dict[str, Callable[[Messages], Messages]] = {
    "as it is": lambda messages: messages,
    "media stripped": lambda messages: list(strip_media(messages)),
    **{name: _level(act) for name, act in LEVELS.items()},
    "all levels": _all_levels,
    "head truncation": _head,
    "compaction": _compact(keep=0),
    "compaction with some kept": _compact(keep=400),
    "compaction from": _compact(direction="from", at=_middle),
    "compaction up to": _compact(direction="up_to", at=_middle),
}


# ---- judging ---------------------------------------------------------------------------------------


@dataclass
class Account:
    """What was found; `shown` holds the first few faults in words."""

    counts: Counter[str] = field(default_factory=Counter)
    acted: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)

    def fault(self, what: str, detail: str) -> None:
        self.faults[what] += 1
        if len(self.shown) < 20:
            self.shown.append(f"{what}: {detail}")


def judge(
    messages: Messages,
    account: Account,
    *,
    place: str,
    model: str | None,
    second: bool,
    only: Collection[str] = tuple(OPERATIONS),
) -> None:
    """Applies every operation to the messages of one prefix and judges what comes out."""
    account.counts["prefixes"] += 1
    damaged: set[str] = set()  # shapes in which the prefix itself needs repairs
    for name, act in OPERATIONS.items():
        if name not in only:
            continue
        try:
            result = act(messages)
        except UllageError as exc:
            account.refused[f"{name}: {exc.code}"] += 1
            continue
        except Exception as exc:
            account.fault(f"{name} raised", f"{place}: {type(exc).__name__}: {exc}")
            continue
        plain = name == "as it is"
        if not plain and same(result, messages):
            continue  # nothing to do here: the prefix itself has been judged
        account.acted[name] += 1
        for shape in SHAPES:
            repaired = _judge_shape(result, shape, name, account, place, model, second)
            if repaired and plain:
                damaged.add(shape)
            elif repaired and shape not in damaged:
                account.mended[f"{name}, {shape}"] += 1


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _judge_shape(
    result: Messages,
    shape: str,
    name: str,
    account: Account,
    place: str,
    model: str | None,
    second: bool,
) -> bool:
    """Whether something had to be repaired. What is left after it is what `ullage.validate` says of the request."""
    account.counts["requests"] += 1
    sent = outgoing(result, provider=shape, model=model)
    for found in sent.left:
        account.fault(f"{name}, {shape}: {found.rule}", f"{place}: {found.detail}")
    if second:
        account.counts["judged twice"] += 1
        _second(sent, account, f"{name}, {shape}", place, rules_model(model, shape))
    return bool(sent.repairs)


def _second(sent: Outgoing, account: Account, what: str, place: str, model: str | None) -> None:
    following = (
        [NEXT.get(sent.provider, {"role": "user", "content": "go on"})] if sent.awaits_user else []
    )
    more = {key: value for key, value in sent.parts.items() if key == "toolConfig"}
    try:
        assert_legal(sent.provider, [*sent.messages, *following], model=model, window=0, **more)
    except AssertionError as exc:
        account.fault(f"{what}: checker", f"{place}: {exc}")


# ---- what there is ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """What a model was shown between two compactions, as entries in the order of the context."""

    place: str
    entries: Sequence[Any]
    model: str | None

    def prefix(self, length: int) -> Messages:
        return to_messages(self.entries[:length]).messages


def stretches(path: Path) -> Iterator[Stretch]:
    """All stretches of all conversations of a file."""
    for number, session in enumerate(read(path).sessions):
        lines = session.entries
        cuts = [at for at, line in enumerate(lines) if line.get("subtype") == "compact_boundary"]
        for part, cut in enumerate([*cuts, len(lines)]):
            entries = resume(lines[:cut]).entries
            if entries:
                place = f"{path.parent.name}/{path.stem[:8]} conversation {number} part {part}"
                yield Stretch(place, entries, session.metadata.get("model"))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*") if path.suffix in SUFFIXES)


def lengths(count: int, most: int | None) -> list[int]:
    """Which prefixes: all, or `most` of them evenly, the whole among them."""
    if most is None or count <= most:
        return list(range(1, count + 1))
    return sorted({count * at // most for at in range(1, most + 1)})


def run_file(
    path: Path,
    account: Account,
    *,
    most: int | None = None,
    second: int = 1,
    only: Collection[str] = tuple(OPERATIONS),
) -> None:
    """Judges the prefixes of one file."""
    for stretch in stretches(path):
        account.counts["stretches"] += 1
        for at in lengths(len(stretch.entries), most):
            place = f"{stretch.place}, {at} of {len(stretch.entries)} entries"
            twice = account.counts["prefixes"] % second == 0
            judge(
                stretch.prefix(at),
                account,
                place=place,
                model=stretch.model,
                second=twice,
                only=only,
            )


def spread(path: Path, most: int) -> list[tuple[Stretch, int]]:
    """Prefixes of a file, evenly over all its stretches."""
    found = [
        (stretch, at) for stretch in stretches(path) for at in range(1, len(stretch.entries) + 1)
    ]
    return [
        found[at * len(found) // most - 1] for at in range(1, most + 1) if at * len(found) >= most
    ]


def sample_file(
    path: Path, account: Account, *, most: int, only: Collection[str] = tuple(OPERATIONS)
) -> None:
    """Judges an even sample of a file's prefixes, each twice."""
    for stretch, at in spread(path, most):
        place = f"{stretch.place}, {at} of {len(stretch.entries)} entries"
        judge(stretch.prefix(at), account, place=place, model=stretch.model, second=True, only=only)


def _remember_names() -> None:
    """The same texts come again in every prefix: names in them are looked for once."""
    tallies.find_names = functools.lru_cache(maxsize=100_000)(tallies.find_names)  # type: ignore[assignment]


def _print(account: Account, seconds: float) -> None:
    counts = account.counts
    print(
        f"{counts['files']:,} files, {counts['stretches']:,} stretches, {counts['prefixes']:,} prefixes × "
        f"{len(account.acted)} operations × {len(SHAPES)} shapes: {counts['requests']:,} requests "
        f"({counts['judged twice']:,} judged twice) in {seconds:,.0f} s; illegal or raised: {sum(account.faults.values()):,}"
    )
    for name in (name for name in OPERATIONS if account.acted[name]):
        refused = sum(n for key, n in account.refused.items() if key.startswith(f"{name}: "))
        mended = sum(n for key, n in account.mended.items() if key.startswith(f"{name}, "))
        print(
            f"  {name:<24} acted on {account.acted[name]:>7,}   typed refusals {refused:>6,}   mended {mended:>6,}"
        )
    for line in [f"{n:,} × {key}" for key, n in account.faults.most_common()] + account.shown:
        print(f"FAULT {line}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--corpus", default=os.environ.get("ULLAGE_CORPUS"), help="folder of folders of sessions"
    )
    parser.add_argument("--most", type=int, help="prefixes of each stretch, evenly; default: all")
    parser.add_argument(
        "--second", type=int, default=10, help="every how many-th prefix is judged twice"
    )
    parser.add_argument(
        "--sample",
        help="of each file so many prefixes as they are, and so many after every operation, as 20,2",
    )
    parser.add_argument("--only", help="these operations, by commas; default: all")
    parser.add_argument("--part", default="1/1", help="which share of the files, as 2/3")
    options = parser.parse_args()
    if not options.corpus:
        parser.error("name a folder: --corpus FOLDER")
    warnings.simplefilter("ignore", UnknownModelWarning)
    _remember_names()
    chosen = set((options.only or ",".join(OPERATIONS)).split(","))
    if not chosen <= OPERATIONS.keys():
        parser.error(f"operations are: {', '.join(OPERATIONS)}")
    share, shares = map(int, options.part.split("/"))
    files = files_of(Path(options.corpus))[share - 1 :: shares]
    account, start = Account(), time.perf_counter()
    for done, path in enumerate(files, 1):
        if options.sample:
            plain, operated = map(int, options.sample.split(","))
            sample_file(path, account, most=plain, only=["as it is"])
            sample_file(path, account, most=operated, only=chosen)
        else:
            run_file(path, account, most=options.most, second=options.second, only=chosen)
        account.counts["files"] += 1
        told = f"{done}/{len(files)} files, {account.counts['prefixes']:,} prefixes, {account.counts['requests']:,} requests, {sum(account.faults.values()):,} faults"
        print(f"{told}, {time.perf_counter() - start:,.0f} s", file=sys.stderr, flush=True)
    _print(account, time.perf_counter() - start)
    return 1 if account.faults else 0


if __name__ == "__main__":
    sys.exit(main())
