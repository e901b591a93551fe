"""The named tuples that cross from the engine: their fields are written once in Rust and once in Python, and are the same."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

from ullage._engine import digests

core: Any = pytest.importorskip("ullage._core")

RENAMED = """
from collections import namedtuple
from ullage._engine import digests
digests.MessageDigest = namedtuple("MessageDigest", digests.MessageDigest._fields[::-1])
from ullage import _core
ledger = _core.Ledger(None, [{"role": "user", "content": "Hi"}])
try:
    ledger.message(0)
except ImportError as error:
    print(error)
"""


def test_each_tuple_has_the_fields_of_its_class_in_the_same_order():
    named = {
        name: found for name in vars(digests) if hasattr(found := getattr(digests, name), "_fields")
    }
    assert {name: found._fields for name, found in named.items()} == core._TUPLE_FIELDS


def test_a_class_with_other_fields_is_refused_before_a_tuple_is_made():
    said = subprocess.run(
        [sys.executable, "-c", RENAMED], capture_output=True, text=True, check=True
    ).stdout
    assert "ullage._engine.digests.MessageDigest has other fields than" in said


@pytest.mark.parametrize("name", sorted(core._TUPLE_FIELDS))
def test_the_twin_makes_the_same_classes(name: str):
    reference = importlib.import_module("ullage._reference")
    assert getattr(reference, name, getattr(digests, name)) is getattr(digests, name)
