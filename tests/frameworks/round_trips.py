"""Ten thousand conversations through each integration that is installed: `python -m tests.frameworks.round_trips`.

Each is converted to the framework's messages, made to fit a window of 6,000 tokens, and judged as its provider would: what needs no
change has to be the very object, what was given has to stay as it is, and every request has to be legal.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import sys
import time
import warnings
from dataclasses import asdict

import pytest

from ullage.exceptions import MissingExtra

FRAMEWORKS = (
    "langchain", "pydantic_ai", "openai_agents", "strands", "google_adk", "smolagents", "agent_framework", "inspect_ai", "llama_index", "litellm",
)  # fmt: skip
PLACES = {"litellm": "tests.dropin.test_litellm_callback"}
"""Where the tests do not lie in this folder: litellm cannot be installed next to the others."""


def main(argv: list[str] | None = None) -> None:
    """Print a row for each framework."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--only", choices=FRAMEWORKS, nargs="*", default=FRAMEWORKS)
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| | conversations | made smaller | messages | the same object | replaced | removed | inserted | refused |")  # fmt: skip
    print("| --- |" + " --: |" * 8)
    for name in given.only:
        print(row(name, given.count), flush=True)
        gc.collect()


def row(name: str, count: int) -> str:
    """A line of the table; a request that is refused, or a message that lost something, raises."""
    started = time.process_time()
    try:
        module = importlib.import_module(PLACES.get(name, f"tests.frameworks.test_{name}"))
    except (ImportError, MissingExtra, pytest.skip.Exception) as error:
        return f"| {name} | not installed: {error} |"
    tally = module.round_trips(range(count))
    print(f"{name}: {time.process_time() - started:.0f} s", file=sys.stderr)
    counts = " | ".join(f"{value:,}" for value in asdict(tally).values())
    return f"| {name} | {counts} | 0 |"


if __name__ == "__main__":
    main()
