"""The documentation as a site: built with warnings as errors, no dead link, nothing fetched from elsewhere, every page in the menu."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
if not (ROOT / "mkdocs.yml").exists():
    pytest.skip("the copy that is tested has no mkdocs.yml", allow_module_level=True)


class Links(HTMLParser):
    """Targets of a page and the names in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.names.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        for name in ("src", "href"):
            if tag in ("script", "img", "iframe", "link") and name in given:
                self.loaded.add(given[name])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Links]:
    return {
        path: Links(path.read_text("utf-8"))
        for path in site.rglob("*.html")
        if path.name != "404.html"
    }


def test_no_link_within_the_site_is_dead(pages):
    dead = []
    for path, page in pages.items():
        for link in page.links | page.loaded:
            found = urlsplit(link)
            if found.scheme or link.startswith(("data:", "//")):
                continue
            target = (path.parent / unquote(found.path)).resolve() if found.path else path
            known = target in pages and (
                not found.fragment or unquote(found.fragment) in pages[target].names
            )
            if (
                not (known or (target.is_file() and target.suffix != ".html"))
                and found.fragment != "__skip"
            ):
                dead.append(f"{path.name}: {link}")
    assert dead == []
    assert sum(len(page.links) for page in pages.values()) > 500


def test_nothing_is_loaded_from_elsewhere(pages, site):
    elsewhere = {
        link
        for page in pages.values()
        for link in page.loaded
        if urlsplit(link).scheme in ("http", "https")
    }
    assert {link for link in elsewhere if "canonical" not in link} == set()
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)[\"' ]*https?:", style.read_text("utf-8")), style


def test_every_page_is_in_the_menu_and_has_one_heading(pages, site):
    home = pages[site / "index.html"]
    named = {
        (site / unquote(urlsplit(link).path)).resolve()
        for link in home.links
        if not urlsplit(link).scheme
    }
    assert set(pages) <= named | {site / "index.html"}
    for path in pages:
        assert len(re.findall(r"<h1\b", path.read_text("utf-8"))) == 1, path


def test_the_references_hold_what_the_code_has(pages, site):
    commands = (site / "reference" / "cli.html").read_text("utf-8")
    for words in ("ullage inspect", "--target", "ullage memory list", "--redact"):
        assert words in commands
    from ullage.policy import Policy

    policy = (site / "reference" / "policy.html").read_text("utf-8")
    assert [
        each.name
        for each in Policy.buffered().effective()
        if f"<code>{each.name}</code>" not in policy
    ] == []


def test_a_frozen_class_is_labelled_as_a_dataclass(site):
    shown = (site / "reference" / "api" / "ullage.html").read_text("utf-8")
    text = re.sub(r"\s+", "", re.sub(r"<[^>]+>", "", shown))
    assert "Usagedataclass" in text
    assert "Policydataclass" in text


def test_the_reference_has_every_public_member_of_every_public_name(pages, site):
    sys.path.insert(0, str(ROOT / "tools"))
    rooms = importlib.import_module("site_pages")
    names = set().union(
        *(pages[path].names for path in (site / "reference" / "api").glob("*.html"))
    )
    public = {
        home
        for room in rooms.ROOMS
        for _, home in rooms.names_of(room, importlib.import_module(room))
    }
    members = {member for home in public for member in rooms.members_of(home)}
    assert {"ullage.manager.manager.ContextManager", "ullage.report.page.write_report"} <= public
    for name in (
        "usage",
        "decide",
        "view",
        "save",
        "restore",
        "resume",
        "rewind",
        "fork",
        "history",
    ):
        assert f"ullage.manager.manager.ContextManager.{name}" in members
    missing = (public | members) - names
    assert missing == set(), (
        f"{len(members) - len(missing):,} of {len(members):,} members are documented"
    )


def test_the_comparison_has_the_measured_table(site):
    page = (site / "comparison.html").read_text("utf-8")
    assert "ullage: all levels" in page
    assert "litellm trim_messages" in page


def test_the_search_index_holds_every_page(site):
    index = (site / "search" / "search_index.js").read_text("utf-8")
    for word in ("own-loop.html", "reference/policy.html", "glossary.html"):
        assert word in index
