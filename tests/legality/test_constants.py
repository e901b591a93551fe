"""A number that both engines and the Python rooms hold has one value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ullage._reference import rules as blocks, rules as cache
from ullage._reference.read import CLEARED_TEXT
from ullage._reference.rules import Facts
from ullage.legality import params as capabilities
from ullage.messages import CLEARED

RULES = Path(__file__).parents[2] / "rust" / "core" / "src"


def test_python_has_the_numbers_of_its_twin():
    assert capabilities.MAX_MARKERS == cache.MAX_MARKERS
    assert capabilities.STRICT_VERSION == blocks.STRICT_VERSION == Facts().version
    assert CLEARED == CLEARED_TEXT


@pytest.mark.skipif(not RULES.exists(), reason="the sources are not here: `make types` runs this")
def test_rust_has_them_too():
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(RULES.rglob("*.rs")))
    versions = re.findall(r"(?:STRICT_VERSION: u64 =|version:) ([\d_]+)[;,]", text)
    assert {int(found.replace("_", "")) for found in versions} == {capabilities.STRICT_VERSION}
    assert re.search(rf"MAX_MARKERS: u64 = {capabilities.MAX_MARKERS};", text)
    assert f'"{CLEARED}"' in text
