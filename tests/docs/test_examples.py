"""Examples in docstrings and in the documents run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import ullage
import ullage.requests
from ullage.testing import ScriptedServer

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def modules() -> list[str]:
    skipped = ("ullage.cli", "ullage._core", "ullage.__main__", "ullage.testing.server")
    names = (found.name for found in pkgutil.walk_packages(ullage.__path__, "ullage."))
    return [name for name in names if not name.startswith(skipped)]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))
    assert doctest.testmod(module, optionflags=FLAGS).failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_of_documents_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if path.name == "integrations.md":
        pytest.skip("tests/frameworks runs each block where its framework is installed")
    if path.name == "dropin.md":
        pytest.importorskip("langchain_core", reason="`make integrations` installs it")
    if path.name == "report.md":
        pytest.importorskip("jinja2", reason="`make integrations` installs it")
    if path.parent.name != "how-to" or path.name == "check-a-compaction.md":
        run_blocks(path)
        return
    # These pages call providers: their clients find a server that enforces the rules.
    anthropic, openai = (pytest.importorskip(name) for name in ("anthropic", "openai"))
    if path.name == "gemini.md":
        pytest.importorskip("google.genai")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "test")
    # The first answer calls a tool: a loop that sends none, or does not pair the result, is refused.
    first = ("tool_call",) if path.name in TOOLS_OF else ()
    with ScriptedServer(*first) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        for made in run_blocks(path).values():
            if isinstance(made, anthropic.Anthropic | openai.OpenAI):
                made.close()
        assert [each.status for each in server.requests] == [200] * len(server.requests)
        assert len(server.requests) >= (2 if path.name in TOOLS_OF else 0)
        if path.name in TOOLS_OF:
            assert {name for each in server.requests for name in sent(each.json)} == TOOLS_OF[
                path.name
            ]


def test_every_page_with_a_loop_sends_tools():
    pages = DOCUMENTS[0].parent.glob("docs/how-to/*.md")
    assert {page.name for page in pages if "while True:" in page.read_text("utf-8")} == set(
        TOOLS_OF
    )


TOOLS_OF = {
    "own-loop.md": {"read"},
    "async.md": {"read"},
    "openai-chat.md": {"read", "recall"},
    "responses-streaming.md": {"read"},
    "gemini.md": {"read", "recall"},
}
"""Pages with a loop, and the names of the tools that every request of theirs must offer."""


def sent(body):
    """Names of the tools in a request."""
    listed = (tool.get("functionDeclarations") or [tool] for tool in body.get("tools") or ())
    return [each.get("function", each)["name"] for tools in listed for each in tools]


def run_blocks(path):
    blocks = re.findall(
        r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, object] = {}
    for block in blocks:
        if "langgraph" in block and find_spec("langgraph") is None:
            continue  # `make integrations` installs it
        exec(compile(block, path.name, "exec", dont_inherit=True), names)
    return names


def test_the_entry_points_have_an_example():
    for name in (
        "compact",
        "estimate_tokens",
        "keep_window",
        "resume",
        "truncate_head",
        "warning_state",
    ):
        assert ">>>" in (getattr(ullage, name).__doc__ or ""), name
    assert ">>>" in (ullage.requests.group_rounds.__doc__ or "")
