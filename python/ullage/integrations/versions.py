"""Which releases of the frameworks the integrations are tested with: each extra of `pyproject.toml` begins with the oldest."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

from ullage.exceptions import MissingExtra

__all__ = ["TESTED", "Tested", "absent", "check"]


class Tested(NamedTuple):
    """A framework's releases.

    Attributes:
        package: As the package index names it.
        oldest: `make integration-frameworks-oldest` tests it; an older one is refused.
        newest: `make integration-frameworks` tests it.
    """

    package: str
    oldest: str
    newest: str


TESTED: Final = {
    "langchain": Tested("langchain", "1.4.0", "1.4.7"),
    "pydantic-ai": Tested("pydantic-ai-slim", "2.62.0", "2.62.0"),
    "openai-agents": Tested("openai-agents", "0.21.1", "0.24.0"),
    "strands": Tested("strands-agents", "1.30.0", "1.62.0"),
    "google-adk": Tested("google-adk", "2.6.0", "2.13.0"),
    "smolagents": Tested("smolagents", "1.22.0", "1.26.0"),
    "agent-framework": Tested("agent-framework-core", "1.10.0", "1.23.0"),
    "inspect-ai": Tested("inspect-ai", "0.3.200", "0.3.285"),
    "llama-index": Tested("llama-index-core", "0.14.14", "0.14.25"),
    "litellm": Tested("litellm", "1.90.0", "1.106.2"),
    "claude-agent-sdk": Tested("claude-agent-sdk", "0.2.187", "0.2.187"),
}
"""By extra."""


def check(extra: str) -> None:
    """Refuse a release that is older than those that are tested.

    Raises:
        MissingExtra: It is installed and too old; names both versions.
    """
    tested, found = TESTED[extra], _installed(extra)
    if found and _numbers(found) < _numbers(tested.oldest):
        raise MissingExtra(tested.package, extra, found=found, needed=tested.oldest)


def absent(extra: str) -> MissingExtra:
    """The error for a framework that cannot be imported: it is not installed, or a release of which the integration knows nothing."""
    tested = TESTED[extra]
    return MissingExtra(tested.package, extra, found=_installed(extra), needed=tested.oldest)


def _installed(extra: str) -> str:
    """The installed release; empty: there is none."""
    try:
        return version(TESTED[extra].package)
    except PackageNotFoundError:
        return ""


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", release.partition("+")[0])[:3])
