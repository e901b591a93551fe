"""The site in a real browser, as an audit looks at it: contrast in light and dark, names, headings, landmarks, no errors, a phone's width."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.page_checks import problems

ROOT = Path(__file__).parents[2]

pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
api = pytest.importorskip("playwright.sync_api")
if not (ROOT / "mkdocs.yml").exists():
    pytest.skip("the copy that is tested has no mkdocs.yml", allow_module_level=True)

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """What `make docs` has just built, or else built here."""
    if given := os.environ.get("ULLAGE_SITE"):
        return Path(given).resolve()
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as started:
        try:
            made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no Chromium: {error.message.splitlines()[0]}")
        yield made
        made.close()


@pytest.mark.parametrize("look", LOOKS)
def test_an_audit_finds_nothing(site, browser, look):
    context = browser.new_context(**LOOKS[look])
    page = context.new_page()
    found: list[str] = []
    page.on("console", lambda said: found.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "request", lambda asked: None if asked.url.startswith("file:") else found.append(asked.url)
    )
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    for path in pages:
        page.goto(path.as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        found += [f"{path.name}: {each}" for each in problems(page)]
        found += [f"{path.name}: wider than the screen"] * wide
    context.close()
    assert found == []
    assert len(pages) > 35
