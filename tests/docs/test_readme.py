"""The README is short, shows what its code prints, and has no figure that the measurements lack."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_block_prints_what_stands_below_it(capsys):
    code, output = re.search(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.M | re.S
    ).groups()
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == output


def test_each_figure_stands_in_the_measurements():
    known = numbers((ROOT / "docs" / "measurements.md").read_text(encoding="utf-8"))
    table = PAGE.split("## Figures\n")[1].split("\n\n")[0]
    shown = [each for row in table.splitlines()[2:] for each in numbers(row)]
    assert len(shown) >= 15
    assert [each for each in shown if each not in known] == []


def numbers(text):
    """Numbers of a text, without what separates their thousands."""
    return re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d)[ ,](?=\d{3}\b)", "", text))


def test_the_setup_commands_stand_in_it():
    for command in ("make demo ", "make test ", "make slow "):
        assert f"\n{command}" in PAGE, command


def test_its_links_lead_to_files():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        # The copy that `make wheel-test` tests has no CONTRIBUTING.md.
        assert (ROOT / target).exists() or target == "CONTRIBUTING.md", target


def test_it_is_read_in_a_minute():
    # Besides the table of times, in which one row is looked up.
    before, rest = PAGE.split("<!-- make bench: begin -->")
    assert len((before + rest.split("<!-- make bench: end -->")[1]).splitlines()) <= 64


def test_the_picture_fetches_nothing_and_shows_what_its_caption_says():
    caption, target = re.search(r"!\[(.*?)\]\((.*?)\)", PAGE).groups()
    picture = (ROOT / target).read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[^\s\"<]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|@import|@font-face|/tmp|/home", picture)
    for figure in re.findall(r"\d[\d,]+", caption):
        assert figure.rstrip(",") in picture, figure
