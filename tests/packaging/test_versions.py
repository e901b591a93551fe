"""Which releases of frameworks are tested, and what an older one meets with."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from ullage import _start
from ullage.exceptions import InvalidPolicy, MissingExtra
from ullage.integrations.conversations import NATIVE, HeldConversations, framework
from ullage.summarizers.anthropic import AnthropicSummarizer

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


FRAMEWORKS = {
    "langchain": "1.4.7",
    "pydantic-ai": "2.62.0",
    "openai-agents": "0.24.0",
    "strands": "1.62.0",
    "google-adk": "2.13.0",
    "smolagents": "1.26.0",
    "agent-framework": "1.23.0",
    "inspect-ai": "0.3.285",
    "llama-index": "0.14.25",
    "litellm": "1.106.2",
    "claude-agent-sdk": "0.2.187",
}
"""The newest release of each that `make integration-frameworks` tests."""


def oldest_of(extra):
    """The package of a framework's extra, and the release that it begins with."""
    (requirement,) = PROJECT["project"]["optional-dependencies"][extra]
    return requirement.split(">=")


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_an_extra_begins_with_the_oldest_release_that_is_tested(extra):
    package, oldest = oldest_of(extra)
    groups = PROJECT["dependency-groups"].values()
    pinned = [str(each).replace("[mcp]", "") for group in groups for each in group]
    for release in (oldest, FRAMEWORKS[extra]):
        assert f"{package}=={release}" in pinned


DOORS = (
    "cli",
    "anthropic",
    "openai",
    "any",
    "proxy",
    "otel",
    "report",
    "tui",
    "postgres",
    "redis",
    "objects",
    "daft",
)


@pytest.mark.parametrize("extra", DOORS)
def test_sdks_and_doors_begin_with_the_oldest_release_that_is_tested(extra):
    groups = PROJECT["dependency-groups"]
    pins = {group: [str(each).partition(";")[0] for each in groups[group]] for group in ("doors", "doors-oldest")}  # fmt: skip
    for wanted in PROJECT["project"]["optional-dependencies"][extra]:
        package, _, oldest = wanted.partition(";")[0].partition(">=")
        assert f"{package}=={oldest}" in pins["doors-oldest"]
        assert any(each.startswith(f"{package}==") for each in pins["doors"]), "the newest"


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_the_page_says_which_releases_are_tested(extra):
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    package, oldest = oldest_of(extra)
    row = next(line for line in page.splitlines() if f"`ullage[{extra}]` |" in line)
    assert f"| {package} {oldest} | {FRAMEWORKS[extra]} |" in row


@pytest.mark.usefixtures("ours")
def test_an_older_release_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda package: "1.3.0")
    with pytest.raises(MissingExtra) as caught, framework("langchain"):
        pytest.fail("its imports are reached")
    assert "'langchain' 1.4.0 or newer; 1.3.0 is installed" in str(caught.value)
    assert (caught.value.found, caught.value.needed) == ("1.3.0", "1.4.0")
    assert caught.value.hint == "pip install 'ullage[langchain]'"


@pytest.mark.usefixtures("ours")
def test_a_release_that_lacks_what_is_imported_is_named(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda package: "1.4.0")
    with pytest.raises(MissingExtra, match=r"1\.4\.0 is installed"), framework("langchain"):
        raise ImportError("cannot import name")


@pytest.mark.parametrize("found", ["1.4.0", "1.10", "2", "1.4.7.dev1", "1.4.0+local"])
def test_a_newer_one_is_taken(monkeypatch, found):
    monkeypatch.setattr(metadata, "version", lambda package: found)
    with framework("langchain"):
        pass


def test_without_any_the_extra_is_named(monkeypatch):
    def missing(package):
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(MissingExtra) as caught, framework("langchain"):
        raise ImportError("No module named 'langchain'")
    assert re.fullmatch(r"this needs the package 'langchain'.*", str(caught.value), re.DOTALL)
    assert not caught.value.found


OURS = (
    "anthropic>=2.0.0; extra == 'anthropic'",
    "langchain>=1.4.0; extra == 'langchain'",
    'psycopg[binary,pool]>=3.2.1; extra == "postgres"',
)


@pytest.fixture
def ours(monkeypatch):
    """Our own metadata, which a checkout lacks."""
    monkeypatch.setattr(metadata, "requires", lambda package: list(OURS))
    _start.oldest_releases.cache_clear()
    yield
    _start.oldest_releases.cache_clear()


@pytest.mark.parametrize("release", ["1.9.9", "2.0.0"])
@pytest.mark.usefixtures("ours")
def test_an_sdk_that_is_older_than_its_extra_is_refused(monkeypatch, release):
    """The module is the standard library's: only the release is looked at."""
    monkeypatch.setattr(metadata, "version", lambda package: release)
    if release == "2.0.0":
        assert _start.optional("json", "anthropic") is json
        return
    with pytest.raises(MissingExtra, match=r"'anthropic' 2\.0\.0 or newer; 1\.9\.9") as caught:
        _start.optional("json", "anthropic")
    assert caught.value.hint == "pip install 'ullage[anthropic]'"


@pytest.mark.usefixtures("ours")
def test_an_adapter_of_an_older_sdk_is_not_made(monkeypatch):
    pytest.importorskip("anthropic")
    monkeypatch.setattr(metadata, "version", lambda package: "1.0.0")
    with pytest.raises(MissingExtra, match=r"1\.0\.0 is installed"):
        AnthropicSummarizer("claude-haiku-4-5", api_key="k")


@pytest.mark.usefixtures("ours")
def test_the_oldest_release_of_an_extra_is_read_from_our_metadata():
    assert _start.oldest_releases("postgres") == (("psycopg", "3.2.1"),)
    assert _start.oldest_releases("cli") == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", "laddder"),
        ("context_window", "32k"),
        ("context_window", -5),
        ("max_output_tokens", 0),
        ("summarizer", "hosts"),
        ("store", "folder"),
        ("listeners", 5),
        ("listeners", ["print"]),
    ],
)
def test_wrong_arguments_are_refused_where_an_integration_is_made(field, value):
    with pytest.raises(InvalidPolicy, match=field) as caught:
        HeldConversations(NATIVE, **{field: value})
    assert caught.value.field == field
    assert field != "summarizer" or "'host'" in caught.value.hint


def test_the_host_writes_only_where_there_is_one():
    held = HeldConversations(NATIVE, summarizer="host")
    assert held.host_writes
    assert not HeldConversations(NATIVE, summarizer="extractive").host_writes
    with pytest.raises(InvalidPolicy, match="summarizer"):
        HeldConversations(NATIVE, summarizer="host", has_host=False)
