"""The engines under test: both where the extension is installed, else the twin alone."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

import pytest
from hypothesis import settings

# The same examples each time, so that a failure is of the change and not of the day; HYPOTHESIS_PROFILE=random looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

ENGINES = {"rust": "ullage._core", "python": "ullage._reference"}


def engines() -> dict[str, Any]:
    """The engine modules that are installed, by name."""
    present = {name: path for name, path in ENGINES.items() if importlib.util.find_spec(path)}
    return {name: importlib.import_module(path) for name, path in present.items()}


@pytest.fixture(scope="session", params=[pytest.param(name, id=name) for name in ENGINES])
def engine(request: pytest.FixtureRequest) -> Any:
    """Each engine in turn; the same test must pass on both."""
    module = engines().get(request.param)
    if module is None:
        pytest.skip("the extension is not installed")
    return module
