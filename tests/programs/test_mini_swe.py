"""mini-swe-agent itself, with the gateway and without, against a provider that refuses what providers refuse."""

from __future__ import annotations

import pytest

from tests.programs.kit import MiniSwe
from tests.programs.scenarios import judge, of, play_out


@pytest.mark.parametrize("gateway", [False, True], ids=["alone", "gateway"])
@pytest.mark.parametrize("scenario", of(MiniSwe), ids=str)
def test_it_lives_through(scenario, gateway, tmp_path):
    result = play_out(scenario, tmp_path, gateway=gateway)
    assert not judge(scenario, result), result
