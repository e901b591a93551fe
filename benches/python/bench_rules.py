"""The verifier and the repairer against the digest pass, and against the length of the conversation.

Run: python benches/python/bench_rules.py
     python benches/python/bench_rules.py instructions   (needs valgrind: what each takes, without the start of Python)

Answers first: the conversation is legal, an illegal one is not, and what is read step by step gives what
is read at once. Times are the best of several; ratios are of one run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ullage import _reference
from ullage._engine import core
from ullage.legality import validate
from ullage.legality.incremental import Repairer
from ullage.legality.repairs import repair

MODEL = "claude-opus-5-5"
SIZES = (100, 1_000, 10_000)


def session(messages: int) -> list[dict[str, Any]]:
    """A coding session: a request, then rounds of a call and its result, an answer now and then."""
    made: list[dict[str, Any]] = [{"role": "user", "content": "Fix the failing tests, please."}]
    number = 0
    while len(made) < messages - 2:
        number += 1
        thought = {"type": "thinking", "thinking": "Look first.", "signature": f"sig{number}" * 8}
        call = {
            "type": "tool_use",
            "id": f"toolu_{number:06}",
            "name": "Read",
            "input": {"file_path": f"/src/module_{number % 40}.py", "offset": number},
        }
        text = f"def f_{number}(x):\n    return x + {number}\n" * 12
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        made += [
            {"role": "assistant", "content": [thought, {"type": "text", "text": "I read."}, call]},
            {"role": "user", "content": [result]},
        ]
    made += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
    return made[-messages:] if made[-messages]["role"] == "user" else made


def best(act: Callable[[], Any], tries: int = 7) -> float:
    """Seconds of the fastest try."""
    found = []
    for _ in range(tries):
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return min(found)


def check_answers(items: list[dict[str, Any]]) -> None:
    assert validate(items, model=MODEL, facts={"window": 0}).ok
    broken = [item for at, item in enumerate(items) if at != len(items) // 2]
    assert not validate(broken, model=MODEL, facts={"window": 0}).ok
    ledger = core.Ledger(None)
    verifier = core.Verifier(ledger, "anthropic", {})
    for item in broken:
        ledger.append(item)
        verifier.check()
    whole = core.check(core.Ledger(None, broken), "anthropic", {})
    assert whole
    assert [tuple(each) for each in verifier.check()] == [tuple(each) for each in whole]
    assert _reference.check(_reference.Ledger(None, broken), "anthropic", {}) == whole
    repairer = Repairer(model=MODEL, facts={"window": 0})
    assert repairer.repair(items).messages is items
    done, again = repairer.repair(broken), repair(broken, model=MODEL, facts={"window": 0})
    assert done.ok
    assert again.ok


def full(items: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Seconds of the digest pass, of the rules over its digests, and of `validate`."""
    digests = best(lambda: core.Ledger(None, items))
    ledger = core.Ledger(None, items)
    rules = best(lambda: core.check(ledger, "anthropic", {}))
    whole = best(lambda: validate(items, model=MODEL, facts={"window": 0}))
    return digests, rules, whole


def step(items: list[dict[str, Any]]) -> tuple[float, float]:
    """Seconds of one turn (two appended, checked): the verifier, the repairer."""
    ledger = core.Ledger(None, items)
    verifier = core.Verifier(ledger, "anthropic", {})
    verifier.check()
    grown = list(items)
    repairer = Repairer(model=MODEL, facts={"window": 0})
    repairer.repair(grown)
    more = [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]

    def check() -> None:
        ledger.extend(more)
        assert verifier.check() == []
        assert verifier.read == 2

    def mend() -> None:
        grown.extend([dict(each) for each in more])
        assert repairer.repair(grown).messages is grown
        assert repairer.read == 2

    return best(check, 200), best(mend, 200)


RUNS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "digests": lambda items: core.Ledger(None, items),
    "validate": lambda items: validate(items, model=MODEL, facts={"window": 0}),
}


def counted(name: str, size: int, times: int) -> int:
    """Instructions of a process that does it so often."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        own = [sys.executable, __file__, "run", name, str(size), str(times)]
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        subprocess.run([*tool, *own], check=True, capture_output=True, timeout=900)
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def instructions() -> None:
    for size, more in ((100, 100), (1_000, 10), (10_000, 1)):
        each = {
            name: (counted(name, size, 1 + more) - counted(name, size, 1)) / more for name in RUNS
        }
        ratio = each["validate"] / each["digests"]
        told = f"digests {each['digests']:12,.0f}, validate() {each['validate']:12,.0f}"
        print(f"{size + 1:6,} messages, instructions: {told}: {ratio:.2f} ×", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        name, size, times = sys.argv[2:]
        items = session(int(size))
        for _ in range(int(times)):
            RUNS[name](items)
        return
    if sys.argv[1:] == ["instructions"]:
        instructions()
        return
    for size in SIZES:
        items = session(size)
        check_answers(items)
        digests, rules, whole = full(items)
        checked, mended = step(items)
        print(
            f"{len(items):6,} messages: digests {digests * 1e3:7.2f} ms; rules over them {rules * 1e3:6.2f} ms "
            f"({rules / digests:.2f} ×); digests and rules {(digests + rules) / digests:.2f} ×; validate(), which also "
            f"measures the body, {whole / digests:.2f} ×; a turn: verifier {checked * 1e6:5.1f} µs, repairer {mended * 1e6:5.1f} µs"
        )


if __name__ == "__main__":
    main()
