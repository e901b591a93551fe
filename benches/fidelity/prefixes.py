"""Every prefix of every session of a folder, after every operation, in every provider's form: is it legal?

Run: python -m benches.fidelity.prefixes --corpus FOLDER --workers 2 --report FILE   (all prefixes; resumes by itself)
     python -m benches.fidelity.prefixes --corpus FOLDER --sample 20,2   (what `make corpus` tests; minutes)

A stretch is what a session's model was shown between two compactions; its prefixes end after each stored entry,
so in the middle of responses and of parallel results too. Each operation is applied to the messages of a prefix,
its result is translated and repaired as `ullage resume` does (`ullage.outgoing`), and judged by `ullage.validate`
and by the test kit's own checker, which shares no code with it. Three things are counted: requests that are illegal
(must be 0), legal prefixes that an operation itself made illegal before the repair (`mended`), and operations that
raised anything but a typed error (must be 0).

With `--sample` every request is judged as a whole, twice. Without it each result of an operation is judged as a whole
in Anthropic's form, and in the others by windows of two neighbouring rounds (`windows.py`), each window once; at every
`--whole`-th prefix as a whole in all forms, and at every `--second`-th of those twice. Summaries are scripted then.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benches.fidelity.judging import Account, judge_shape, same
from benches.fidelity.operations import OPERATIONS, Messages, remembered_names, scripted
from benches.fidelity.stretches import Stretch, files_of, lengths, spread, stretches
from benches.fidelity.windows import OPENING, Contents, windows

from ullage.counting.models import UnknownModelWarning
from ullage.exceptions import UllageError
from ullage.providers import SHAPES

Act = Callable[[Messages], Messages]


class Prefix(NamedTuple):
    """One prefix of a stretch."""

    messages: Messages
    place: str
    model: str | None

    @classmethod
    def of(cls, stretch: Stretch, at: int) -> Prefix:
        place = f"{stretch.place}, {at} of {len(stretch.entries)} entries"
        return cls(stretch.prefix(at), place, stretch.model)


def results(
    prefix: Prefix, account: Account, operations: Mapping[str, Act]
) -> Iterator[tuple[str, Messages]]:
    """What each operation makes of the prefix; one that has nothing to do is left out."""
    account.counts["prefixes"] += 1
    for name, act in operations.items():
        try:
            result = act(prefix.messages)
        except UllageError as exc:
            account.refused[f"{name}: {exc.code}"] += 1
            continue
        except Exception as exc:
            account.fault(f"{name} raised", f"{prefix.place}: {type(exc).__name__}: {exc}")
            continue
        if name == "as it is" or not same(result, prefix.messages):
            account.acted[name] += 1
            yield name, result


def _note_repairs(
    name: str, repaired: Collection[str], damaged: set[str], account: Account
) -> None:
    """What the prefix itself needs repaired is nobody's doing."""
    if name == "as it is":
        damaged.update(repaired)
    for shape in set(repaired) - damaged:
        account.mended[f"{name}, {shape}"] += 1


# ---- a sample: every request as a whole ------------------------------------------------------------


def judge(prefix: Prefix, account: Account, operations: Mapping[str, Act]) -> None:
    """Judges what comes out of every operation in all forms, twice."""
    damaged: set[str] = set()
    for name, result in results(prefix, account, operations):
        repaired = _judge_whole(result, name, prefix, account, second=True)
        _note_repairs(name, repaired, damaged, account)


def _judge_whole(
    result: Messages, name: str, prefix: Prefix, account: Account, *, second: bool
) -> set[str]:
    """Forms in which it had to be repaired."""
    place, model = prefix.place, prefix.model
    return {
        shape
        for shape in SHAPES
        if judge_shape(result, shape, name, account, place=place, model=model, second=second)
    }


def sample_file(
    path: Path, account: Account, *, most: int, only: Collection[str] = tuple(OPERATIONS)
) -> None:
    """Judges an even sample of a file's prefixes, each twice."""
    operations = {name: act for name, act in OPERATIONS.items() if name in only}
    with remembered_names():
        for stretch, at in spread(path, most):
            judge(Prefix.of(stretch, at), account, operations)


# ---- all: what has been judged is not judged again -------------------------------------------------


class Sweep:
    """Judges the prefixes of one stretch.

    Args:
        account: Counts what is found.
        whole: Every how many-th prefix is judged as a whole in every form.
        second: Every how many-th of those is judged twice.
    """

    def __init__(self, account: Account, *, whole: int, second: int) -> None:
        self._account, self._whole, self._second = account, whole, whole * second
        self._contents = Contents()
        self._lists: dict[tuple[int, ...], set[str]] = {}
        self._parts: dict[tuple[int, ...], set[str]] = {}
        self._entire: set[tuple[int, ...]] = set()

    def judge(self, prefix: Prefix, operations: Mapping[str, Act]) -> None:
        """Judges what every operation makes of a prefix."""
        number = self._account.counts["prefixes"]
        self._contents.keep(prefix.messages)
        damaged: set[str] = set()
        for name, result in results(prefix, self._account, operations):
            key = self._contents.numbers(result)
            repaired = self._by_windows(key, result, name, prefix)
            if number % self._whole == 0 and key not in self._entire:
                self._entire.add(key)
                self._entirely(result, name, prefix, repaired, number % self._second == 0)
            _note_repairs(name, repaired, damaged, self._account)

    def _by_windows(
        self, key: tuple[int, ...], result: Messages, name: str, prefix: Prefix
    ) -> set[str]:
        """Forms in which it needs repairs: Anthropic's by the whole list, the others by its windows."""
        self._account.counts["lists"] += 1
        known = self._lists.get(key)
        if known is None:
            self._account.counts["different lists"] += 1
            known = self._lists[key] = set(self._judged(result, name, prefix, SHAPES[:1]))
            for start, stop in windows(key, self._contents):
                known |= self._window(key[start:stop], result[start:stop], name, prefix)
        return known

    def _window(self, key: tuple[int, ...], part: Messages, name: str, prefix: Prefix) -> set[str]:
        known = self._parts.get(key)
        if known is None:
            self._account.counts["windows"] += 1
            first = self._contents.shape(key[0]).role if key else "user"
            opened = [OPENING, *part] if first == "assistant" else part
            known = self._parts[key] = set(self._judged(opened, name, prefix, SHAPES[1:]))
        return known

    def _judged(
        self, messages: Messages, name: str, prefix: Prefix, shapes: Collection[str]
    ) -> Iterator[str]:
        place, model = prefix.place, prefix.model
        for shape in shapes:
            if judge_shape(
                messages, shape, name, self._account, place=place, model=model, second=False
            ):
                yield shape

    def _entirely(
        self, result: Messages, name: str, prefix: Prefix, expected: set[str], second: bool
    ) -> None:
        """The whole list in all forms: must say what its windows say."""
        self._account.counts["whole in all forms"] += 1
        repaired = _judge_whole(result, name, prefix, self._account, second=second)
        if repaired != expected:
            told = f"{prefix.place}: repairs in {sorted(repaired)}, by windows {sorted(expected)}"
            self._account.fault(f"{name}: windows differ", told)


class Job(NamedTuple):
    path: Path
    most: int | None
    whole: int
    second: int
    only: frozenset[str]


def run_file(job: Job) -> tuple[str, Account]:
    """Judges the prefixes of one file."""
    warnings.simplefilter("ignore", UnknownModelWarning)
    account, began = Account(), time.process_time()
    with scripted() as every:
        operations = {name: act for name, act in every.items() if name in job.only}
        for stretch in stretches(job.path):
            account.counts["stretches"] += 1
            sweep = Sweep(account, whole=job.whole, second=job.second)
            for at in lengths(len(stretch.entries), job.most):
                sweep.judge(Prefix.of(stretch, at), operations)
    account.counts["files"] += 1
    account.counts["cpu_ms"] += int(1000 * (time.process_time() - began))
    return f"{job.path.parent.name}/{job.path.name}", account


def sweep_files(jobs: list[Job], workers: int, report: Path | None) -> Account:
    """All files, the largest first; those that the report holds are not judged again."""
    done = json.loads(report.read_text("utf-8")) if report and report.exists() else {}
    left = [job for job in jobs if f"{job.path.parent.name}/{job.path.name}" not in done]
    left.sort(key=lambda job: -job.path.stat().st_size)
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for name, account in pool.imap_unordered(run_file, left):
            done[name] = vars(account)
            if report:
                report.write_text(json.dumps(done, indent=1, sort_keys=True), "utf-8")
            _tell(len(done), len(jobs), name, account, began)
    total = Account()
    for row in done.values():
        total.add(_account(row))
    return total


def _account(row: Mapping[str, Any]) -> Account:
    return Account(
        **{key: value if key == "shown" else Counter(value) for key, value in row.items()}
    )


# ---- telling ---------------------------------------------------------------------------------------


def _tell(done: int, files: int, name: str, account: Account, began: float) -> None:
    counts = account.counts
    told = f"{done}/{files} files, {name}: {counts['prefixes']:,} prefixes, {counts['cpu_ms'] / 1000:,.0f} s"
    faults = f"{sum(account.faults.values()):,} faults, {time.perf_counter() - began:,.0f} s since the start"
    print(f"{told}, {faults}", file=sys.stderr, flush=True)


def _print(account: Account, seconds: float) -> None:
    print(
        f"{len(account.acted)} operations × {len(SHAPES)} shapes in {seconds:,.0f} s; "
        f"illegal or raised: {sum(account.faults.values()):,}"
    )
    for name, count in account.counts.items():
        print(f"  {name:<24} {count:>12,}")
    for name in (name for name in OPERATIONS if account.acted[name]):
        refused = sum(n for key, n in account.refused.items() if key.startswith(f"{name}: "))
        mended = sum(n for key, n in account.mended.items() if key.startswith(f"{name}, "))
        print(
            f"  {name:<24} acted on {account.acted[name]:>7,}   typed refusals {refused:>6,}   repaired {mended:>6,}"
        )
    for line in [f"{n:,} × {key}" for key, n in account.faults.most_common()] + account.shown:
        print(f"FAULT {line}")


def _sample(files: list[Path], sample: str, only: Collection[str]) -> Account:
    plain, operated = map(int, sample.split(","))
    account = Account()
    for path in files:
        sample_file(path, account, most=plain, only=["as it is"])
        sample_file(path, account, most=operated, only=only)
        account.counts["files"] += 1
    return account


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--corpus", default=os.environ.get("ULLAGE_CORPUS"), help="folder of folders of sessions")
    add("--most", type=int, help="prefixes of each stretch, evenly; default: all")
    add("--whole", type=int, default=10, help="every how many-th prefix is judged as a whole")
    add("--second", type=int, default=4, help="every how many-th of those is judged twice")
    add("--sample", help="of each file so many prefixes as they are, and so many after everything")
    add("--only", help="these operations, by commas; default: all")
    add("--part", default="1/1", help="which share of the files, as 2/3")
    add("--workers", type=int, default=1)
    add(
        "--report",
        type=Path,
        help="JSON by file, written after each; what it holds is not done again",
    )
    options = parser.parse_args()
    if not options.corpus:
        parser.error("name a folder: --corpus FOLDER")
    warnings.simplefilter("ignore", UnknownModelWarning)
    # Without the prefix itself nobody knows what an operation has broken, and what was so before.
    only = frozenset((options.only or ",".join(OPERATIONS)).split(",")) | {"as it is"}
    if not only <= OPERATIONS.keys():
        parser.error(f"operations are: {', '.join(OPERATIONS)}")
    share, shares = map(int, options.part.split("/"))
    files, start = files_of(Path(options.corpus))[share - 1 :: shares], time.perf_counter()
    if options.sample:
        account = _sample(files, options.sample, only)
    else:
        jobs = [Job(path, options.most, options.whole, options.second, only) for path in files]
        account = sweep_files(jobs, options.workers, options.report)
    _print(account, time.perf_counter() - start)
    return 1 if account.faults else 0


if __name__ == "__main__":
    sys.exit(main())
