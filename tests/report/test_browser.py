"""The page in a real browser: no error, everything works by mouse and keyboard, readable in both colour schemes and on a phone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kit import result, said, use, user
from tests.kit.transcripts import Layout, session_287k, session_file
from tests.page_checks import problems
from ullage.report import figures_of, write_report
from ullage.sessions import open_session
from ullage.transcript import TranscriptLog

pytest.importorskip("jinja2")
api = pytest.importorskip("playwright.sync_api")

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

SIZES = {"desk": (1280, 900), "phone": (390, 844)}

EVIL = "</pre></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as started:
        try:
            made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no Chromium: {error.message.splitlines()[0]}")
        yield made
        made.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    path = folder / "long.jsonl"
    path.write_bytes(session_file(session_287k(5), layout=Layout(compactions=1)).to_bytes())
    with TranscriptLog.open(folder / "evil.jsonl", durability="none") as log:
        log.append(user(EVIL))
        for at in range(12):
            log.append(said([use(f"t{at}", EVIL[:40], file_path=EVIL)]))
            log.append(user([result(f"t{at}", EVIL + f"{at} z" * 9_000)]))
    names = ("long.jsonl", "evil.jsonl")
    figures = [figures_of(open_session(folder / name), model="claude-opus-4-5") for name in names]
    return write_report(figures, folder / "report.html")


@pytest.fixture(params=[("desk", "light"), ("desk", "dark"), ("phone", "light")], ids="-".join)
def page(request, browser, page_file):
    name, scheme = request.param
    width, height = SIZES[name]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    made = context.new_page()
    said_so: list[str] = []
    made.on("console", lambda message: said_so.append(message.text))
    made.on("pageerror", lambda error: said_so.append(str(error)))
    made.on(
        "request",
        lambda asked: said_so.append(asked.url) if not asked.url.startswith("file:") else None,
    )
    made.goto(page_file.as_uri())
    yield made
    assert said_so == []
    context.close()


def test_nothing_of_a_transcript_runs(page):
    for fold in page.locator("#s2 ~ .removal > summary").all()[:3]:
        fold.click()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_an_audit_finds_nothing(page):
    for fold in page.locator(".removal > summary").all()[:4]:
        fold.click()
    assert problems(page) == []


def test_the_page_is_as_wide_as_the_screen(page):
    for fold in page.locator(".removal > summary").all()[:4]:
        fold.click()
    for fold in page.locator(".removal[open] details > summary").all()[:4]:
        fold.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_slider_follows_the_keyboard_and_the_pointer(page):
    slider, shown = page.locator("input[type=range]").first, page.locator("output").first
    last = shown.inner_text()
    assert last.startswith("Request 155 of 155")
    slider.focus()
    page.keyboard.press("Home")
    assert shown.inner_text().startswith("Request 1 of 155")
    chart = page.locator("svg.fill:visible").first
    box = chart.bounding_box()
    chart.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    middle = int(shown.inner_text().split()[1])
    assert 66 <= middle <= 86  # the axis takes a part of the left


def test_tabs_show_one_map_at_a_time(page):
    first = page.locator("section.session").first
    maps = first.locator("figure[id^=m1]")
    assert [each.is_visible() for each in maps.all()] == [True, False, False]
    first.get_by_role("button", name="by tool").press("Enter")
    assert [each.is_visible() for each in maps.all()] == [False, True, False]


def test_removals_can_be_chosen_by_level_and_unfolded(page):
    first = page.locator("section.session").first
    rows = first.locator(".removal")
    level = rows.last.get_attribute("data-level")
    first.locator("select").select_option(level)
    shown = [row for row in rows.all() if row.is_visible()]
    assert 0 < len(shown)
    assert {row.get_attribute("data-level") for row in shown} == {level}
    assert f"{len(shown)} shown" in first.inner_text()
    shown[0].locator("summary").first.press("Enter")
    shown[0].locator("details > summary").first.press("Enter")
    assert shown[0].locator("pre").first.is_visible()


def test_the_colours_can_be_changed(page):
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    before = page.evaluate(paper)
    page.locator("#theme").click()
    assert page.evaluate(paper) != before


CONTRAST = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((each) => {
      const c = each / 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length || element.tagName === "SCRIPT") continue;
    const svg = element.tagName === "text";
    const style = getComputedStyle(element);
    const tile = svg && element.classList.contains("on-tile") && element.parentElement.querySelector("rect");
    const ground = tile ? numbers(getComputedStyle(tile).fill) : paper(element);
    const found = ratio(numbers(svg ? style.fill : style.color), ground);
    if (found < 4.5) weak.push(`${element.tagName} ${element.textContent.slice(0, 30)} ${found.toFixed(2)}`);
  }
  return weak;
}"""

NAMES = """() => {
  const faults = [];
  for (const chart of document.querySelectorAll("svg")) {
    if (chart.getAttribute("aria-hidden") !== "true" && !chart.getAttribute("aria-label")) faults.push("svg without a name");
  }
  for (const each of document.querySelectorAll("input, select")) {
    if (!document.querySelector(`label[for='${each.id}']`)) faults.push(`${each.id} without a label`);
  }
  for (const each of document.querySelectorAll("button, a, summary, th")) {
    if (!each.textContent.trim()) faults.push(`${each.tagName} without text`);
  }
  let level = 0;
  for (const each of document.querySelectorAll("h1, h2, h3, h4")) {
    const next = Number(each.tagName[1]);
    if (next > level + 1) faults.push(`${each.tagName} after h${level}`);
    level = next;
  }
  for (const name of ["main", "header", "footer"]) {
    if (document.querySelectorAll(`body > ${name}`).length !== 1) faults.push(name);
  }
  if (!document.documentElement.lang || !document.title) faults.push("language or title");
  return faults;
}"""


def test_text_has_enough_contrast(page):
    for fold in page.locator(".removal > summary").all()[:2]:
        fold.click()
    for button in page.locator(".tabs button").all()[:3]:
        button.click()
        assert page.evaluate(CONTRAST) == []


def test_charts_fields_and_headings_have_names_in_order(page):
    assert page.evaluate(NAMES) == []


def test_it_prints_without_controls(page, tmp_path):
    page.emulate_media(media="print")
    assert not page.locator("#theme").is_visible()
    assert not page.locator("output").first.is_visible()
    assert (
        page.locator("svg.fill").first.is_visible() or page.locator("svg.fill").nth(1).is_visible()
    )
