"""Takes each place where a rule speaks out of the code, and sees whether a vector notices.

Run: python -m benches.fidelity.mutants [--laws 300]

Over the rules in Python: those over dicts, and the twin of the Rust core, whose equality with the twin
is what the differential tests are for. A mutant is one call that reports a rule, left out. Prints the
mutants that no golden vector notices, and exits with 1 if there is one.

With `--laws` it plants so many faults into the compaction instead (a condition turned round, a comparison, a number or a slice that is
off by one, a statement left out), and counts those that `ullage.testing.laws` finds. Those that change no result of the cases are
counted apart: nothing that only looks at results could see them. Of those that are missed it says whether the targets are used as fully
as without them. `--figures FILE` keeps what became of each; with the same file a run goes on, and judges those that were missed again.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import gc
import importlib
import json
import os
import pickle
import random
import runpy
import signal
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benches.peers import laws as held
from benches.peers.compare import TookTooLong
from benches.peers.laws import OURS, SESSION

from ullage import _reference
from ullage.exceptions import ContextTooLarge
from ullage.legality import anthropic, chat, check as ledgers, params as documents, rules
from ullage.testing import laws

TESTS = Path(__file__).resolve().parents[2] / "tests" / "legality" / "test_rules_vectors.py"
MODULES = (
    "ullage._reference.rules",
    *(
        f"ullage.legality.{name}"
        for name in "anthropic bedrock chat check gemini originals params responses".split()
    ),
)

REPAIRS = {"note", "keep", "drop_empty", "make_plain", "_drop_reasoning"}
"""What names a rule too, for what it has repaired."""


class Mutant(NamedTuple):
    module: str
    line: int
    rule: str
    function: types.FunctionType
    code: types.CodeType


def rule_of(node: ast.AST) -> str:
    """The rule that a statement reports, "" if it reports none by name."""
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Yield):
        value = value.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        inner = value.args[0] if value.func.attr == "append" and value.args else value
        value = inner
    if not isinstance(value, ast.Call):
        return ""
    if getattr(value.func, "attr", getattr(value.func, "id", "")) in REPAIRS:
        return ""
    names = [a.value for a in value.args if isinstance(a, ast.Constant)]
    return next((name for name in names if name in rules()), "")


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)


def functions(module: types.ModuleType) -> dict[str, types.FunctionType]:
    found: dict[str, types.FunctionType] = {}
    for value in vars(module).values():
        if getattr(value, "__module__", "") != module.__name__:
            continue
        members = vars(value).values() if isinstance(value, type) else (value,)
        for each in members:
            function = getattr(each, "__func__", each)
            if isinstance(function, types.FunctionType):
                found[function.__qualname__] = function
    return found


def mutants(name: str) -> Iterator[Mutant]:
    module = importlib.import_module(name)
    path = str(module.__file__)
    tree = ast.parse(Path(path).read_text("utf-8"))
    known = functions(module)
    for parent in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(parent, field, None)
            for at, node in enumerate(block if isinstance(block, list) else []):
                if not (rule := rule_of(node)):
                    continue
                block[at] = ast.copy_location(ast.Pass(), node)
                # A generator stays one without its last `yield`.
                made = {each.co_qualname: each for each in codes(compile(tree, path, "exec"))}
                block[at] = node
                holder = enclosing(tree, node)
                if holder in known and generates(made[holder]) == generates(known[holder].__code__):
                    yield Mutant(name, node.lineno, rule, known[holder], made[holder])
                elif holder in known:
                    block[at] = ast.copy_location(dead_yield(), node)
                    made = {e.co_qualname: e for e in codes(compile(tree, path, "exec"))}
                    block[at] = node
                    yield Mutant(name, node.lineno, rule, known[holder], made[holder])


def dead_yield() -> ast.stmt:
    return ast.fix_missing_locations(ast.parse("if False:\n    yield").body[0])


def generates(code: types.CodeType) -> bool:
    return bool(code.co_flags & 0x20)


def enclosing(tree: ast.Module, node: ast.AST) -> str:
    names: list[str] = []

    def walk(parent: ast.AST, path: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(parent):
            inner = (
                (*path, child.name) if isinstance(child, ast.FunctionDef | ast.ClassDef) else path
            )
            if child is node:
                names.append(".".join(path))
            walk(child, inner)

    walk(tree, ())
    return names[0]


def survives(mutant: Mutant, vectors: list[Any], judged_well: Any) -> bool:
    kept = mutant.function.__code__
    mutant.function.__code__ = mutant.code
    try:
        return all(well(vector, judged_well) for vector in vectors if about(vector, mutant.rule))
    finally:
        mutant.function.__code__ = kept


def about(vector: Any, rule: str) -> bool:
    named = (*vector["errors"], *vector.get("any", ()), *vector["warnings"])
    return rule in named or vector["rule"] == rule


def well(vector: Any, judged_well: Any) -> bool:
    try:
        return bool(judged_well(vector))
    except Exception:
        return False


# ---- faults for the laws -----------------------------------------------------------------------

PLACES = tuple(
    f"ullage.{name}"
    for name in """compaction.api compaction.assemble compaction.cut compaction.flow compaction.restore compaction.summary_call
    transcript.record levels.view levels.pins levels.level levels.pipeline manager.journal manager.keeping manager.machine manager.prepare
    manager.request_writer manager.whole_list manager.written_form legality.pairs legality.repairs""".split()
)
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip
SECONDS, RANDOM_CASES, MOST_TURNS = 10, 16, 9
UNSEEN, MISSED, FOUND = "no result changed", "missed", "found"


def changes(node: ast.AST) -> Iterator[tuple[str, object, ast.AST]]:
    """Which field of a node to set to what, and where that is in the file."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "test", ast.UnaryOp(ast.Not(), node.test), node.test
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        yield "ops", [OTHER[type(node.ops[0])](), *node.ops[1:]], node
    elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in OTHER:
        yield "op", OTHER[type(node.op)](), node
    elif isinstance(node, ast.Slice):
        for side in ("lower", "upper"):
            if (at := getattr(node, side)) is not None:
                yield side, ast.BinOp(at, ast.Add(), ast.Constant(1)), at
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value in (0, 1):
        yield "value", node.value + 1, node
    for name in ("body", "orelse"):
        for at, each in enumerate(
            lines if isinstance(lines := getattr(node, name, 0), list) else ()
        ):
            plain = isinstance(each, ast.AugAssign) or (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)
            )
            if plain:
                yield name, [*lines[:at], ast.Pass(), *lines[at + 1 :]], each


def holders(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each node, and the qualified name of the function that it stands in."""

    def walk(parent: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[ast.AST, str]]:
        for child in ast.iter_child_nodes(parent):
            yield child, ".".join(path)
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            yield from walk(child, (*path, child.name) if named else path)

    return walk(tree, ())


def faults(used: set[tuple[str, int]], seed: int) -> Iterator[tuple[Mutant, set[tuple[str, int]]]]:
    """Changes of lines that run, in random order, with their lines; the rule is the kind of node and its field."""
    found = list[Any]()
    for name in PLACES:
        module = importlib.import_module(name)
        path, known = str(module.__file__), functions(module)
        tree = ast.parse(Path(path).read_text("utf-8"))
        for node, holder in holders(tree):
            for field, new, place in changes(node) if holder in known else ():
                span = {(path, line) for line in range(place.lineno, place.end_lineno + 1)} & used  # type: ignore[attr-defined]
                if span:
                    found.append((name, path, tree, node, known[holder], field, new, span))
    random.Random(seed).shuffle(found)
    for name, path, tree, node, function, field, new, span in found:
        old = getattr(node, field)
        setattr(node, field, new)
        whole = next(each for each in tree.body if node in ast.walk(each))
        one = ast.fix_missing_locations(ast.Module([whole], []))
        code = compile(one, path, "exec", __future__.annotations.compiler_flag, True)
        setattr(node, field, old)
        made = {each.co_qualname: each for each in codes(code)}[function.__qualname__]
        rule = f"{type(node).__name__}.{field}"
        if generates(made) == generates(function.__code__):
            yield Mutant(name, min(span)[1], rule, function, made), span


class Observed(NamedTuple):
    """A case for a compactor, what came of it, and which lines ran."""

    compactor: Any
    case: Any
    result: object
    lines: set[tuple[str, int]]


def looked_at(compactor: Any, case: Any) -> object:
    """All that can be seen from outside: the result or the error, and what is stated of it."""
    played, once = held.played, list[Any]()

    def played_once(*given: Any) -> Any:
        once.extend([] if once else [played(*given)])
        return once[0]

    trial = laws.Trial(compactor, case)
    held.played = played_once
    try:
        with at_most(SECONDS):
            new = trial.new
            said = list(compactor.stated(trial.before, case.target))
    except Exception as error:
        said = [f"{type(error).__name__}: {error}"]
    finally:
        held.played = played
    return new, type(trial.error), said


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Ends what takes more of the processor's time, on a busy machine too, or sleeps for long."""

    def stop(*_: object) -> None:
        raise TookTooLong

    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, seconds * ASLEEP),
    )
    before = [signal.signal(number, stop) for _, number, _ in timers]
    for timer, _, most in timers:
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


ASLEEP = 3
"""Times as many seconds by the clock: a fault can make it wait for something."""


def in_a_child(work: Callable[[], Any]) -> Any:
    """What a copy of this process finds; None if it ends otherwise or takes too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as file:
                pickle.dump(work(), file)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


def followed(compactor: Any, case: Any) -> tuple[object, set[tuple[str, int]]]:
    """What is looked at, and the lines that run for it."""
    paths = {str(importlib.import_module(name).__file__) for name in PLACES}
    lines = set[tuple[str, int]]()

    def line(frame: Any, *_: object) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    sys.settrace(lambda frame, *_: line if frame.f_code.co_filename in paths else None)
    try:
        return looked_at(compactor, case), lines
    finally:
        sys.settrace(None)


def law_faults(count: int, seed: int, more: int, path: Path) -> None:
    """Plants faults into the compaction, and says how many of those that change a result are found.

    Args:
        count: Of faults that change a result.
        seed: Of the faults and of the cases.
        more: Made conversations to which those that are not found at first are held, too.
        path: Of what became of each; a run with the same one goes on where it ended, and judges those that were missed again.
    """
    chosen = [law for law in laws.LAWS if law.id != "cost-is-linear"]
    made = list(islice(laws.cases(seed + 3, MOST_TURNS), RANDOM_CASES + more))
    first = [*(law.example for law in chosen if not law.once), *made[:RANDOM_CASES]]
    right = [
        Observed(one, case, *in_a_child(partial(followed, one, case)))
        for case in first
        for one in (OURS, SESSION)
    ]
    further = [
        Observed(one, case, in_a_child(partial(looked_at, one, case)), set())
        for case in made[RANDOM_CASES:]
        for one in (OURS, SESSION)
    ]
    room = in_a_child(partial(laws._of_targets, OURS))["used"]
    gc.freeze()
    known = dict[str, list[str]](json.loads(path.read_text("utf-8")) if path.exists() else {})
    used = set[tuple[str, int]]().union(*(each.lines for each in right))
    said, by_law = Counter[str](), Counter[str]()
    for number, (fault, span) in enumerate(faults(used, seed)):
        place = f"{number} {fault.module}:{fault.line} {fault.function.__qualname__} {fault.rule}"
        if known.get(place, [MISSED])[0] == MISSED:
            tried = [each for each in right if each.lines & span]
            work = partial(fate, fault, tried, further, chosen, room)
            known[place] = list(in_a_child(work) or (FOUND, "it does not end"))
            path.with_suffix(".new").write_text(json.dumps(known, indent=0), encoding="utf-8")
            path.with_suffix(".new").replace(path)
        word, law = known[place]
        said[word] += 1
        by_law[law.partition(":")[0] or word] += 1
        print(f"  {word}: {place} {law}", flush=True)
        if said[FOUND] + said[MISSED] == count:
            break
    print(dict(said), dict(by_law))


def fate(
    fault: Mutant,
    tried: list[Observed],
    further: list[Observed],
    chosen: list[laws.Law],
    room: float,
) -> tuple[str, str]:
    """What becomes of a fault, and by which law; of one that is missed, whether as much of the targets is used as without it: `room`."""
    fault.function.__code__ = fault.code
    other = list[Observed]()
    try:
        for each in tried:
            now: Any = looked_at(each.compactor, each.case)
            if now[1] not in (type(None), OverflowError, ContextTooLarge):
                return FOUND, "it crashes"
            other += [each] if now != each.result else []
            if len(other) == 3:
                break
        if not other:
            return UNSEEN, ""
        again = [law for law in chosen if law.runs_again]
        same = [each for each in tried if each not in other] if further else []
        own = [
            Observed(one, law.example, None, set())
            for law in chosen
            if law.once
            for one in (OURS, SESSION)
        ]
        for asked, of in ((chosen, other), (chosen, own), (chosen, further), (again, same)):
            for each in of:
                if of is further and looked_at(each.compactor, each.case) == each.result:
                    continue
                if law := broken_by(each, asked):
                    return FOUND, law
    except TookTooLong:
        return FOUND, "it does not end"
    full = laws._of_targets(OURS)["used"] * 100 >= room * 99
    why = "as full" if full else "less full"
    return MISSED, f"{why}: {other[0].compactor.name} [{other[0].case}]"


def broken_by(one: Observed, asked: list[laws.Law]) -> str:
    """The first law that a case breaks, "" for none."""
    trial = laws.Trial(one.compactor, one.case)
    for law in asked:
        try:
            with at_most(SECONDS * 10):
                if law.applies(one.compactor) and law.broken(trial):
                    return law.id
        except Exception:
            return law.id
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laws", type=int, default=0, help="faults for the laws to find")
    parser.add_argument("--seed", type=int, default=0, help="of the faults and the cases")
    parser.add_argument("--more", type=int, default=100, help="conversations for those missed")
    parser.add_argument("--figures", type=Path, help="what became of each; continued")
    given = parser.parse_args()
    if given.laws:
        with tempfile.TemporaryDirectory() as folder:
            tempfile.tempdir = folder
            path = given.figures or Path(folder) / "faults.json"
            law_faults(given.laws, given.seed, given.more, path)
        return 0
    tests = runpy.run_path(str(TESTS))
    for module in (anthropic, chat, documents, ledgers):
        module.core = _reference  # type: ignore[attr-defined]
    every = [mutant for name in MODULES for mutant in mutants(name)]
    survivors = [each for each in every if survives(each, tests["VECTORS"], tests["judged_well"])]
    for mutant in survivors:
        print(f"  {mutant.rule} {mutant.module}:{mutant.line}: no vector notices", flush=True)
    rules = len({mutant.rule for mutant in every})
    print(f"{len(every)} mutants of {rules} rules, {len(survivors)} not noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
