"""The engines under test: both where the extension is installed, else the twin alone."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Generator
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


# ---- runs --------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--budget",
        type=float,
        default=0.0,
        help="skip what has not begun after so many seconds; 0: no limit",
    )
    parser.addoption(
        "--watch-engine",
        action="store_true",
        help="fail if the Rust engine is asked for anything that no test asks of both engines",
    )


BEGAN = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    budget = item.config.getoption("--budget")
    if budget and time.monotonic() - BEGAN > budget:
        pytest.skip("the time is up: `make test` runs it")


def on_both(item: pytest.Item) -> bool:
    """Whether both engines run this test: in one run, or in a second one."""
    return "engine" in getattr(item, "fixturenames", ()) or bool(
        item.get_closest_marker("both_engines")
    )


ASKED: dict[bool, set[str]] = {True: set(), False: set()}
"""What `--watch-engine` saw tests ask of the Rust engine, by whether both engines run them."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if not item.config.getoption("--watch-engine"):
        return (yield)
    asked = ASKED[on_both(item)]

    def watch(_frame: Any, event: str, called: Any) -> None:
        if event == "c_call":
            of = type(getattr(called, "__self__", None))
            if "ullage._core" in (of.__module__, getattr(called, "__module__", None)):
                asked.add(getattr(called, "__qualname__", called.__name__))

    sys.setprofile(watch)
    try:
        return (yield)
    finally:
        sys.setprofile(None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    only_once = sorted(ASKED[False] - ASKED[True])
    if session.config.getoption("--watch-engine") and only_once:
        print(f"\nasked only by tests that run on one engine: {', '.join(only_once)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
