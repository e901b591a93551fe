"""Prefixes of every real session, after every operation, in every provider's form: all can be sent.

`python -m benches.fidelity.prefixes` is the long form of this: every prefix, not some.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning"),
]

ROOT = Path(__file__).parents[2]
VIEWS = 20
"""Prefixes of each file that are judged as they are."""

OPERATED = 2
"""Prefixes of each file that every operation is applied to."""


@pytest.fixture(scope="module")
def bench() -> Any:
    sys.path.insert(0, str(ROOT))
    try:
        yield importlib.import_module("benches.fidelity.prefixes")
    finally:
        sys.path.remove(str(ROOT))
        for name in [name for name in sys.modules if name.split(".")[0] == "benches"]:
            del sys.modules[name]


@pytest.mark.parametrize(("most", "only"), [(VIEWS, ["as it is"]), (OPERATED, None)])
def test_what_would_be_sent_is_legal(bench: Any, corpus_file: Path, most: int, only: Any) -> None:
    account = bench.Account()
    bench.sample_file(corpus_file, account, most=most, only=only or bench.OPERATIONS)
    assert account.counts["prefixes"] > 0
    assert account.counts["judged twice"] == account.counts["requests"] > 0
    assert account.shown == []
    # Nor does an operation damage what was whole: nothing is left to the repair but the newest thinking.
    assert not account.mended
