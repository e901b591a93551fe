"""Sessions under other policies than the default keep the laws too, but for those that a policy breaks by what it is for."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from benches.peers import laws as ours

from ullage import Policy
from ullage.testing import ScriptedSummarizer, laws

OFF = {"auto.enabled": False}
COLLAPSE = {"collapse.enabled": True, "collapse.min_span_tokens": 100}
NO_RETRY = {"summary.retries": 0}

# A collapse takes the spans that free the most, not the oldest, and goes on with the next request.
BY_WORTH = {"newest-is-kept-first", "idempotent"}

POLICIES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "ladder": ({"policy": Policy.ladder()}, set()),
    "share": ({"policy": Policy().change({"auto.start_percent": 50})}, set()),
    "keep": ({"policy": Policy().change({"keep.max_tokens": 300, "keep.min_tokens": 100})}, set()),
    # The records of a fold are cut where one covers another.
    "off": ({"policy": Policy().change(OFF)}, {"words-stay-whole"}),
    "collapse": ({"policy": Policy().change(COLLAPSE)}, BY_WORTH),
    "a model": ({"summarizer": ScriptedSummarizer()}, set()),
    "a model, collapse": (
        {"summarizer": ScriptedSummarizer(), "policy": Policy().change(COLLAPSE)},
        # It writes in the background, when there is time.
        {*BY_WORTH, "equal-input-equal-output", "prefix-is-stable"},
    ),
    "a model that fails": (
        {"summarizer": ours.model_is_down, "policy": Policy().change(NO_RETRY)},
        set(),
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_session_keeps_the_laws(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options, by_design = POLICIES[name]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for key, value in options.items():
        monkeypatch.setitem(ours.SESSION_OPTIONS, key, value)
    session = replace(ours.SESSION, stated=records, promises={})
    held = [each for each in laws.LAWS if not each.once and each.applies(session)]
    wrong, changed = [], 0
    for case in islice(laws.cases(6001, 60), 40):
        trial = laws.Trial(session, case)
        changed += trial.changed
        wrong += [
            (law.id, case.target, len(case.turns), words)
            for law in held
            if law.id not in by_design and (words := law.broken(trial))
        ]
    assert wrong == []
    assert changed > 10


def records(messages: list[dict[str, Any]], target: int) -> Any:
    """What the records say, and what is sent after a resume; other marks than the default ones are no fault."""
    stated = ours.recorded(messages, target)
    return (each for each in stated if each.startswith(("its record", "no resume", "the summary")))
