"""The comparison with frameworks' own ways to make room: each framework's agent plays a short session to its end."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("langchain", reason="`make integrations` installs it")

from benches.frameworks.__main__ import NAMES
from benches.frameworks.recorded import Played, recorded
from benches.frameworks.scores import cells, score

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_plays_a_session(name):
    framework = importlib.import_module(f"benches.frameworks.{name}").FRAMEWORK
    session = recorded(1, 12_000)
    way = next(each for each in framework.ways if each.name.startswith("Ullage"))
    played = Played(session, refuse=framework.overflow if way.recovers else None)
    way.run(played)
    found = score(played, framework, 1.0)
    assert found.legal == found.requests == len(session.answers) == len(played.sent)
    assert (found.facts, found.forward) == (1.0, 1.0)  # all of it fits
    assert cells([found])[0] == f"{found.legal} of {found.legal}"


def test_what_is_planted_is_found_within_json():
    from benches.frameworks.recorded import stands

    fact = 'Use "ruff", not\nblack'
    assert stands(fact, fact)
    assert stands(fact, r'{"text": "Use \"ruff\", not\nblack"}')
    assert not stands(fact, "Use ruff")
