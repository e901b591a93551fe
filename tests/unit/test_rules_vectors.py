"""Every golden vector is judged as it says, and by its own rule alone."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

_made = runpy.run_path(str(Path(__file__).parent / "rules_vectors.py"))
run, vectors = _made["run"], _made["vectors"]

VECTORS = vectors()
ILLEGAL = [vector for vector in VECTORS if vector["errors"] or vector["any"]]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_a_vector_is_judged_as_it_says(vector):
    report = run(vector)
    allowed = {*vector["errors"], *vector["any"], *vector["also"]}
    assert set(vector["errors"]) <= report.rules, str(report)
    assert not vector["any"] or report.rules & set(vector["any"]), str(report)
    assert report.rules <= allowed, str(report)
    assert set(vector["warnings"]) <= {found.rule for found in report.warnings}


@pytest.mark.parametrize("vector", ILLEGAL, ids=lambda vector: vector["id"])
def test_without_its_rules_an_illegal_vector_passes(vector):
    report = run(vector, skip={*vector["errors"], *vector["any"], *vector["also"]})
    assert report.ok, str(report)
