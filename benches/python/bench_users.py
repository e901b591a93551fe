"""What users call, under pytest-benchmark: `python -m pytest benches/python/bench_users.py --benchmark-enable`.

`--benchmark-json FILE` records, `--benchmark-compare` compares with an earlier commit. Answers are checked when a case is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benches import users


@pytest.mark.parametrize("name", users.CASES)
def test_what_users_call(benchmark: Any, tmp_path: Path, name: str) -> None:
    if not benchmark.enabled:
        pytest.skip("benchmarks are off")
    case = users.CASES[name](tmp_path)
    benchmark.extra_info.update(amount=case.amount, unit=case.unit)
    benchmark.pedantic(case.runs["ullage"], rounds=7, warmup_rounds=1)
