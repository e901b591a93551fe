"""An integration without its framework: one error, which names the extra."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

import ullage.integrations
from ullage.exceptions import MissingExtra

FRAMEWORKS = {
    "agent_framework": ("agent_framework",),
    "google_adk": ("google",),
    "inspect_ai": ("inspect_ai",),
    "langchain": ("langchain", "langchain_core", "langgraph"),
    "llama_index": ("llama_index",),
    "litellm": ("litellm",),
    "openai_agents": ("agents",),
    "pydantic_ai": ("pydantic_ai",),
    "smolagents": ("smolagents",),
    "strands": ("strands",),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_extra_is_named(name, monkeypatch):
    for module in list(sys.modules):
        if module.partition(".")[0] in FRAMEWORKS[name] or module.startswith(
            "ullage.integrations."
        ):
            monkeypatch.delitem(sys.modules, module)
    for package in FRAMEWORKS[name]:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match="this needs the package") as caught:
        importlib.import_module(f"ullage.integrations.{name}")
    assert caught.value.hint == f"pip install 'ullage[{caught.value.extra}]'"
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert re.search(rf"^{caught.value.extra} = \[", project.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    "name", [*(f"integrations.{each}" for each in FRAMEWORKS), "clients.agent_sdk"]
)
def test_an_older_release_is_refused(name, monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda package: "0.1.0")
    monkeypatch.delitem(sys.modules, f"ullage.{name}", raising=False)
    with pytest.raises(MissingExtra, match=r"or newer; 0\.1\.0 is installed"):
        importlib.import_module(f"ullage.{name}")


def test_every_integration_is_listed():
    shared = ("conversations", "versions")
    names = {info.name for info in pkgutil.iter_modules(ullage.integrations.__path__)}
    own = {name for name in names if not name.endswith(("_messages", "_summary"))}
    assert own - set(shared) == set(FRAMEWORKS)
