"""Takes each place where a rule speaks out of the code, and sees whether a vector notices.

Run: python -m benches.fidelity.mutants [--laws 300]

Over the rules in Python: those over dicts, and the twin of the Rust core, whose equality with the twin
is what the differential tests are for. A mutant is one call that reports a rule, left out. Prints the
mutants that no golden vector notices, with the reason if nothing can (`SAID_TWICE`), and exits with 1 if one has none,
or if a reason is no longer needed.

With `--laws` it plants so many faults into the compaction instead (a condition turned round, a comparison, a number or a slice that is
off by one, a statement left out), and counts those that `ullage.testing.laws` finds. Those that change no result of the cases are
counted apart: nothing that only looks at results could see them.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import random
import runpy
import sys
import types
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benches.peers.compare import TookTooLong, at_most

from ullage import _reference
from ullage.legality import anthropic, chat, check as ledgers, params as documents, rules

TESTS = Path(__file__).resolve().parents[2] / "tests" / "legality" / "test_rules_vectors.py"
MODULES = (
    *(
        f"ullage._reference.rules.{name}"
        for name in "anthropic blocks cache deepseek local media mistral openai pairing placement server special".split()
    ),
    *(
        f"ullage.legality.{name}"
        for name in "bedrock chat documents gemini originals params responses anthropic ledgers".split()
    ),
)

SAID_TWICE = {
    (
        "media",
        "A22",
    ): "`check_pages` counts the pages of the same documents, and says the same words",
    (
        "openai",
        "O06",
    ): "a ledger takes no message without a role: reading it fails first, and that is reported",
}
"""Reports that can be left out without any request being judged otherwise: by file and rule, why."""


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

COMPACTION = tuple(
    f"ullage.compaction.{name}"
    for name in "assemble checks cut flow job restore summary_call".split()
)
OTHER = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}  # fmt: skip
SECONDS, RANDOM_CASES = 30, 8


def changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Which field of a node to set to what."""
    if isinstance(node, ast.If | ast.IfExp):
        yield "test", ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        yield "ops", [OTHER[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.Slice):
        for side in ("lower", "upper"):
            if (at := getattr(node, side)) is not None:
                yield side, ast.BinOp(at, ast.Add(), ast.Constant(1))
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "value", node.value + 1
    for field in ("body", "orelse"):
        for at, each in enumerate(
            lines if isinstance(lines := getattr(node, field, 0), list) else ()
        ):
            plain = isinstance(each, ast.AugAssign) or (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)
            )
            if plain:
                yield field, [*lines[:at], ast.Pass(), *lines[at + 1 :]]


def holders(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Each node, and the qualified name of the function that it stands in."""

    def walk(parent: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[ast.AST, str]]:
        for child in ast.iter_child_nodes(parent):
            yield child, ".".join(path)
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            yield from walk(child, (*path, child.name) if named else path)

    return walk(tree, ())


def faults(used: set[str]) -> Iterator[Mutant]:
    """Changes of functions that run, in random order; the rule is the kind of node and its field."""
    found = list[Any]()
    for name in COMPACTION:
        module = importlib.import_module(name)
        path, known = str(module.__file__), functions(module)
        tree = ast.parse(Path(path).read_text("utf-8"))
        for node, holder in holders(tree):
            if holder in known and holder in used:
                found += [(name, path, tree, node, known[holder], *one) for one in changes(node)]
    random.Random(0).shuffle(found)
    for name, path, tree, node, function, field, new in found:
        old = getattr(node, field)
        setattr(node, field, new)
        code = compile(ast.fix_missing_locations(tree), path, "exec")
        setattr(node, field, old)
        made = {each.co_qualname: each for each in codes(code)}[function.__qualname__]
        rule = f"{type(node).__name__}.{field}"
        yield Mutant(name, getattr(node, "lineno", 0), rule, function, made)


def law_faults(count: int) -> None:
    """Plants faults into the compaction, and says how many of those that change a result are found."""
    from benches.peers.laws import OURS

    from ullage.testing import laws

    chosen = [law for law in laws.LAWS if law.id != "cost-is-linear"]
    cases = [*(law.example for law in chosen), *islice(laws.cases(3), RANDOM_CASES)]

    def trials() -> Iterator[laws.Trial]:
        return (laws.Trial(OURS, each) for each in cases)

    def results() -> list[object]:
        return [(each.new, type(each.error)) for each in trials()]

    def broken() -> bool:
        return any(laws._broken(OURS, law, trial) for trial in trials() for law in chosen)

    used, said = set[str](), Counter[str]()
    sys.setprofile(lambda frame, *_: used.add(frame.f_code.co_qualname))
    right = results()
    sys.setprofile(None)
    for fault in faults(used):
        word = fate(fault, results, right, broken)
        said[word] += 1
        place = f"{fault.module}:{fault.line} {fault.function.__qualname__} {fault.rule}"
        print(f"  {word}: {place}", flush=True)
        if said["found"] + said["missed"] == count:
            break
    print(dict(said))


def fate(fault: Mutant, results: Any, right: list[object], broken: Any) -> str:
    """`found`, `missed`, or `no result changed`."""
    kept = fault.function.__code__
    fault.function.__code__ = fault.code
    try:
        with at_most(SECONDS):
            if results() == right:
                return "no result changed"
            return "found" if broken() else "missed"
    except TookTooLong:
        return "found"
    finally:
        fault.function.__code__ = kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laws", type=int, default=0, help="faults for the laws to find")
    given = parser.parse_args()
    if given.laws:
        law_faults(given.laws)
        return 0
    tests = runpy.run_path(str(TESTS))
    for module in (anthropic, chat, documents, ledgers):
        module.core = _reference  # type: ignore[attr-defined]
    every = [mutant for name in MODULES for mutant in mutants(name)]
    survivors = [each for each in every if survives(each, tests["VECTORS"], tests["judged_well"])]
    missed = [each for each in survivors if place_of(each) not in SAID_TWICE]
    idle = SAID_TWICE.keys() - {place_of(each) for each in survivors}
    for mutant in survivors:
        why = SAID_TWICE.get(place_of(mutant), "no vector notices")
        print(f"  {mutant.rule} {mutant.module}:{mutant.line}: {why}", flush=True)
    for place in sorted(idle):
        print(f"  {place}: every vector notices, the reason can go")
    rules = len({mutant.rule for mutant in every})
    told = f"{len(every)} mutants of {rules} rules, {len(missed)} not noticed"
    print(f"{told}, {len(survivors) - len(missed)} that nothing can notice")
    return 1 if missed or idle else 0


def place_of(mutant: Mutant) -> tuple[str, str]:
    return mutant.module.rpartition(".")[2], mutant.rule


if __name__ == "__main__":
    sys.exit(main())
