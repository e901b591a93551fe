"""The report of sessions as a page: complete, small, and never markup made of a transcript's text."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import report, result, said, ullage, use, user
from tests.kit.transcripts import Layout, session_287k, session_file
from ullage import report as report_module
from ullage.exceptions import InvalidPolicy, StoreError
from ullage.manager.machine import CATEGORIES
from ullage.policy import Policy
from ullage.report import figures_of, report_page, write_report
from ullage.report.page import MOST_POINTS, MOST_TILES, sampled, treemap
from ullage.report.session_figures import RemovedText, TextBudget
from ullage.sessions import open_session
from ullage.testing import scenario
from ullage.transcript import TranscriptLog

pytest.importorskip("jinja2")

MODEL = "claude-opus-4-5"
VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """What a browser makes of a page: elements, attributes, text; unbalanced markup raises."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "long.jsonl"
    path.write_bytes(session_file(session_287k(5), layout=Layout(compactions=1)).to_bytes())
    return figures_of(open_session(path), model=MODEL)


def written(path: Path, messages) -> Path:
    with TranscriptLog.open(path, durability="none") as log:
        log.extend(messages)
    return path


def test_a_result_that_was_empty_is_nothing_that_left(tmp_path):
    asked = [user("go"), said([use("t1", "Bash", command="true")]), user([result("t1", "")])]
    path = written(tmp_path / "empty.jsonl", [*asked, said("done"), user("more"), said("ok")])
    managed = figures_of(open_session(path), model=MODEL)
    # A line says that it is empty.
    assert [turn.acted for turn in managed.managed.turns if turn.acted]
    assert managed.removals == ()


def test_the_figures_are_those_of_the_replay(figures):
    assert [run.name for run in figures.runs] == ["buffered", "unmanaged", "ladder"]
    assert figures.unmanaged.refused > figures.managed.refused == 0
    assert len(figures.times_ms) == len(figures.managed.turns)
    assert sum(each.freed_tokens for each in figures.removals) > 0
    freed = sum(freed for turn in figures.managed.turns for _, _, freed in turn.acted)
    assert sum(each.freed_tokens for each in figures.removals) == freed
    assert [mark.tokens for mark in figures.marks] == [200_000, 177_000, 167_000, 147_000]
    assert figures.own_compactions
    assert sum(figures.holds.categories.values()) == figures.holds.anchored_tokens


def test_the_compaction_names_what_it_kept_and_what_it_lost(figures):
    found = figures.compaction
    assert found is not None
    assert found.tokens_after < found.tokens_before
    by_kind = {each.kind: each for each in found.facts}
    inputs = by_kind["user messages"]
    assert inputs.kept + len(inputs.lost) + inputs.more == inputs.total > 0
    assert found.summary


def test_the_page_shows_every_part_and_fetches_nothing(figures):
    page = report_page([figures])
    seen = Page(page)
    for heading in (
        "Fill over time",
        "What fills the window now",
        "What left, when and why",
        "Cache",
        "Dollars",
        "A compaction, before and after",
    ):
        assert heading in seen.text
    assert f"{figures.unmanaged.nanousd / 1e9:,.2f}" in seen.text
    assert seen.elements["main"] == seen.elements["h1"] == 1
    assert seen.elements["section"] == 1
    assert all(
        value.startswith("#") for _, name, value in seen.attributes if name in ("href", "src")
    )
    code = "".join(re.findall(r"<style>.*?</style>|<script>.*?</script>", page, re.DOTALL))
    assert len(code) > 5_000
    assert not re.search(r"url\(|@import|://|fetch|XMLHttp|innerHTML|eval", code)
    assert not [name for _, name, _ in seen.attributes if name.startswith("on") or name == "style"]
    assert len(page.encode()) < 2_000_000
    ids = [value for _, name, value in seen.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = {value for _, name, value in seen.attributes if name in ("aria-controls", "for")}
    assert named <= set(ids)


def test_several_sessions_stand_side_by_side(figures):
    seen = Page(report_page([figures, figures]))
    assert "Side by side" in seen.text
    assert seen.elements["section"] == 3
    assert ("a", "href", "#s2") in seen.attributes


def test_a_page_without_sessions_is_refused():
    with pytest.raises(InvalidPolicy):
        report_page([])


def test_many_sessions_of_much_text_stay_under_two_megabytes(figures):
    text = RemovedText("Read <a&b>", "toolu_1", "", 0)
    budget = TextBudget(900_000)
    texts = []
    for _ in range(1_000):
        shown, omitted = budget.take("<&>" * 5_000)
        texts.append(dataclasses.replace(text, text=shown, omitted_chars=omitted))
    removals = tuple(
        dataclasses.replace(figures.removals[0], texts=tuple(texts[at : at + 20]))
        for at in range(0, 1_000, 20)
    )
    page = report_page([dataclasses.replace(figures, removals=removals)])
    assert len(page.encode()) < 2_000_000
    assert sum(len(each.text) + each.omitted_chars for each in texts) == 1_000 * 15_000


# ---- hostile text ------------------------------------------------------------------------------

HOSTILE = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</script><img src=x onerror=alert(1)>",
            "</pre></details><h1>x</h1>",
            '" onmouseover="alert(1)',
            "' autofocus onfocus='alert(1)",
            "--><svg onload=alert(1)>",
            "]]><b>",
            "{{ 7 * 7 }}{% raw %}",
            "</style><style>*{display:none}",
            "\x1b[31m\x00\u202eevil",
            "javascript:alert(1)",
            "&lt;b&gt;&amp;",
            "\ud800",
        ]
    ),
    st.text(alphabet="<>&\"'/=!-{}%# \n", max_size=60),
)


@settings(max_examples=40)
@given(st.lists(HOSTILE, min_size=9, max_size=9))
def test_text_of_a_transcript_never_becomes_markup(figures, texts):
    harmless = _with(figures, ["x"] * 9)
    wanted, found = Page(report_page([harmless])), Page(report_page([_with(figures, texts)]))
    # A text or a label that is empty leaves out its own element.
    optional = ("text", "pre", "g")
    for seen in (wanted, found):
        for name in optional:
            seen.elements.pop(name, None)
    assert _bounded(found.elements, wanted.elements)
    assert {each[:2] for each in found.attributes} <= {each[:2] for each in wanted.attributes}


def _bounded(found: Counter[str], wanted: Counter[str]) -> bool:
    """No element more than the harmless page has; fewer where a text is empty or a tile has no name."""
    return all(
        count <= wanted[name] + (name in ("p", "rect", "title")) for name, count in found.items()
    )


def _with(figures, texts):
    name, model, why, title, handle, text, lost, summary, warning = texts
    first = dataclasses.replace(
        figures.removals[0],
        why=why,
        level=title,
        texts=(RemovedText(title, handle, text, 3),),
    )
    fact = dataclasses.replace(figures.compaction.facts[0], lost=(lost,))
    compaction = dataclasses.replace(figures.compaction, where=why, summary=summary, facts=(fact,))
    tools = [dataclasses.replace(figures.holds.tools[0], name=title)]
    files = [dataclasses.replace(figures.holds.files[0], path=text)]
    return dataclasses.replace(
        figures,
        name=name,
        format=handle,
        model=model,
        removals=(first,),
        compaction=compaction,
        warnings=(warning,),
        holds=dataclasses.replace(figures.holds, tools=tools, files=files),
        runs=tuple(
            dataclasses.replace(run, turns=run.turns[:3], error=warning) for run in figures.runs
        ),
        own_compactions=(),
    )


def test_a_hostile_session_is_shown_as_text(tmp_path):
    evil = "</pre><script>alert(1)</script>\x1b[2J\u202e"
    words = "x" * 40_000
    messages = [
        user(evil),
        said([use("t1", evil[:30], file_path=evil)]),
        user([result("t1", evil + words)]),
        said(evil),
        user(evil),
    ]
    page = report_page([figures_of(open_session(written(tmp_path / "s.jsonl", messages)))])
    seen = Page(page)
    assert seen.elements["script"] == 2
    assert "<script>alert" in seen.text
    assert "\\u202e" in seen.text
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_the_verdict_and_the_cheapest_working_size_stand_first(figures):
    best = min(figures.sizes, key=lambda each: each.nanousd)
    assert [each.tokens for each in figures.sizes] == [40_000, 80_000, 120_000, 200_000]
    assert best.nanousd < figures.unmanaged.nanousd
    assert all(each.largest <= each.tokens for each in figures.sizes)
    words = " ".join(" ".join(Page(report_page([figures])).words).split())
    verdict = words.index("Management saves $")
    assert verdict < words.index("Fill over time")
    assert f"{best.tokens:,} is the cheapest: ${best.nanousd / 1e9:,.2f}" in words
    assert words.index("Which window should this session work in?") > verdict


def test_every_category_of_a_count_has_a_colour():
    style = (Path(report_module.__file__).parent / "assets" / "page.css").read_text()
    assert [name for name in CATEGORIES if f".c-{name.replace(' ', '-')} " not in style] == []


def test_a_session_that_no_size_changes_is_shown_without_sizes(tmp_path):
    path = written(tmp_path / "s.jsonl", [user("Hello"), said("Hello."), user("Thanks")])
    assert "Which window should" not in report_page([figures_of(open_session(path))])


# ---- parts -------------------------------------------------------------------------------------


@given(
    st.dictionaries(st.text(max_size=12), st.integers(0, 10**7), max_size=70),
    st.sampled_from([(960, 300), (360, 340)]),
)
def test_a_treemap_fills_its_rectangle_in_proportion(sizes, shape):
    width, height = shape
    tiles = treemap(sizes, width=width, height=height)
    whole = sum(sizes.values())
    assert sum(tile.size for tile in tiles) == whole
    assert len(tiles) <= MOST_TILES + 1
    for tile in tiles:
        assert -0.1 <= tile.x <= tile.x + tile.width <= width + 0.2
        assert -0.1 <= tile.y <= tile.y + tile.height <= height + 0.2
    if tiles:
        largest = tiles[0]
        share = largest.width * largest.height / (width * height)
        assert share == pytest.approx(largest.size / whole, abs=0.01)


def test_drawn_requests_are_bounded_and_hold_the_ends(figures):
    turns = [dataclasses.replace(figures.managed.turns[0], number=at) for at in range(1, 5_001)]
    points = sampled(turns)
    assert len(points) <= MOST_POINTS
    assert points[0] == 0
    assert points[-1] == 4_999
    assert sampled(turns[:7]) == list(range(7))


def test_a_short_session_has_a_page_too(tmp_path):
    path = written(tmp_path / "s.jsonl", [user("hello"), said("hi")])
    seen = Page(report_page([figures_of(open_session(path))]))
    assert "no level had to act" in seen.text
    assert "would gain nothing" in seen.text


# ---- the file and the command ------------------------------------------------------------------


def test_the_file_is_private_whole_and_not_replaced_unasked(figures, tmp_path):
    path = write_report([figures], tmp_path / "r.html")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(StoreError, match="exists already"):
        write_report([figures], path)
    write_report([figures], path, overwrite=True)
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_the_command_writes_one_file_about_several_sessions(tmp_path):
    pytest.importorskip("cyclopts")
    made = scenario(3, turns=4, model=MODEL)
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(session_file(made).to_bytes())
    output = tmp_path / "out.html"
    found = report("report", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-o", output)
    assert [each["file"] for each in found["sessions"]] == ["a.jsonl", "b.jsonl"]
    assert found["bytes"] == output.stat().st_size
    again = ullage("report", tmp_path / "a.jsonl", "-o", output)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert ullage("report", tmp_path / "a.jsonl", "-o", output, "--force").returncode == 0
    assert ullage("report").returncode == 2


def test_secrets_are_redacted_on_request(tmp_path):
    secret = "sk-ant-" + "a1B2" * 10
    messages = [user("go")]
    for at in range(30):
        messages.append(said([use(f"t{at}", "Read", file_path="/a")]))
        messages.append(user([result(f"t{at}", f"{secret}\n" + f"{at} y" * 8_000)]))
    path = written(tmp_path / "s.jsonl", messages)
    ullage("report", path, "-o", tmp_path / "plain.html")
    ullage("report", path, "-o", tmp_path / "clean.html", "--redact")
    assert secret in (tmp_path / "plain.html").read_text()
    assert secret not in (tmp_path / "clean.html").read_text()


def test_the_policy_of_the_run_can_be_chosen(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(session_file(scenario(3, turns=4, model=MODEL)).to_bytes())
    found = figures_of(open_session(path), policy=Policy.ladder())
    assert [run.name for run in found.runs] == ["ladder", "unmanaged", "buffered"]
