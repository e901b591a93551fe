"""Whether an installed Ullage works: the engine that was expected, a count, a compaction, the demo.

    python tools/smoke.py --engine rust

Needs the extra `cli` and nothing else. Run it outside the checkout, so that only what was installed is found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.metadata import version

import ullage
from ullage._engine import NAME
from ullage.testing import conversation


def findings(engine: str) -> list[str]:
    """What is wrong with it, a line each."""
    found = []
    if engine != NAME:
        found.append(f"engine: {NAME}, not {engine}; look at which wheel was installed")
    if version("ullage") != ullage.__version__:
        found.append(f"version: metadata {version('ullage')}, package {ullage.__version__}")
    messages = conversation(seed=7, tokens=60_000)
    before = ullage.estimate_tokens(messages, model="claude-opus-4-5")
    result = ullage.compact(messages, model="claude-opus-4-5")
    after = ullage.estimate_tokens(list(result.messages), model="claude-opus-4-5")
    if not 0 < after < before:
        found.append(f"compact: {before} tokens before, {after} after")
    report = ullage.validate(list(result.messages))
    if not report.ok:
        found.append(f"compact: the provider would refuse the result: {report}")
    demo = subprocess.run(
        [sys.executable, "-m", "ullage", "demo"], capture_output=True, check=False
    )
    if demo.returncode != 0:
        found.append(f"demo: exit code {demo.returncode}: {demo.stderr.decode(errors='replace')}")
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="tools/smoke.py", description=__doc__)
    parser.add_argument("--engine", choices=["rust", "python"], required=True)
    found = findings(parser.parse_args().engine)
    print(*(found or [f"ullage {ullage.__version__} works on {NAME}"]), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
