"""The engines under test: both where the extension is installed, else the twin alone."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Generator
from pathlib import Path
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


# ---- what a second run, on the other engine, need not repeat -----------------------------------

# Files whose tests ask no engine: `--watch-engine` fails those that do.
ASK_NO_ENGINE = frozenset(
    f"test_{name}.py"
    for name in (
        "extractive facts gates hooks memory_tool models notes_folder notes_recall notes_sandbox policy providers_anthropic "
        "providers_openai_chat providers_shapes testing_checker testing_entries testing_generator testing_imports "
        "testing_legality testing_server testing_summarizer"
    ).split()
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-engine",
        action="store_true",
        help="leave out what a run on one engine has shown for both",
    )
    parser.addoption(
        "--watch-engine",
        action="store_true",
        help="run the tests that ask no engine, and fail those that do ask the Rust engine",
    )


def shown_once(item: pytest.Item) -> bool:
    """Whether one run is enough: the test runs both engines itself, asks neither, or is not about what they answer."""
    both = "engine" in getattr(item, "fixturenames", ())
    return both or asks_none(item) or item.get_closest_marker("one_engine") is not None


def asks_none(item: pytest.Item) -> bool:
    return Path(item.path).name in ASK_NO_ENGINE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--second-engine"):
        left = [item for item in items if shown_once(item)]
    elif config.getoption("--watch-engine"):
        left = [item for item in items if not asks_none(item)]
    else:
        return
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if not item.config.getoption("--watch-engine"):
        return (yield)
    asked: set[str] = set()

    def watch(_frame: Any, event: str, called: Any) -> None:
        if event == "c_call":
            of = type(getattr(called, "__self__", None)).__module__
            if "ullage._core" in (of, getattr(called, "__module__", None)):
                asked.add(called.__name__)

    sys.setprofile(watch)
    try:
        result = yield
    finally:
        sys.setprofile(None)
    assert not asked, f"asks the engine for {sorted(asked)}: take its file out of ASK_NO_ENGINE"
    return result
