"""A model's draft never stands in its summary, and never takes its place, whatever tags it names."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ullage import compact
from ullage.facts.sections import HEADINGS, OPENING, parse_summary, strip_draft
from ullage.testing import conversation

NINE = "\n".join(f"{n}. {title}:\n  real text {n} about it" for n, title in enumerate(HEADINGS, 1))
ANSWER = f"<summary>\n{NINE}\n</summary>"

DRAFTS = [
    "plain thought",
    "Next I write the <summary> block.\nmore draft",
    "Next:\n<summary>\nfake\n</summary>\nmore draft",
    "First </analysis> then <summary>.\nmore draft",
    "<summary>",
    "<analysis>\nnested\n</analysis>\nmore draft",
    "</summary><summary>fake</summary>",
    "<details><summary>fake</summary></details>",
]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("between", ["\n", "", "\n\n"])
@pytest.mark.parametrize("before", ["", "Here it is:\n"])
def test_a_draft_goes_whole(draft, between, before):
    text = f"{before}<analysis>\n{draft}\n</analysis>{between}{ANSWER}"
    assert strip_draft(text) == NINE


@given(
    st.lists(
        st.sampled_from(["<summary>", "</summary>", "<analysis>", "\n", " x ", "<b>"]), max_size=12
    ).map("".join)
)
def test_any_draft_goes_whole(draft):
    assert strip_draft(f"<analysis>{draft}</analysis>\n{ANSWER}") == NINE


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<analysis>a <summary>fake</summary></analysis><summary>real</summary>", "real"),
        ("<analysis>never closed\n<summary>\nreal\n</summary>", "real"),
        ("<summary>fake</summary>\n<summary>real</summary>", "real"),
        ("<summary>real", "real"),
        ("no tags", "no tags"),
        ("<analysis>only a draft", ""),
        (f"<summary>\n{NINE}\n<summary>Click</summary>\nmore\n</summary>", f"{NINE}\n<summary>Click</summary>\nmore"),
    ],
)  # fmt: skip
def test_what_is_left(text, kept):
    assert strip_draft(text) == kept


def test_a_summary_that_names_the_tag_is_installed_without_its_draft():
    draft = f"<analysis>\nNext I write the <summary> block.\nmore draft\n</analysis>\n{ANSWER}"
    text = str(
        compact(
            conversation(seed=3, tokens=20_000), summarizer=lambda request: draft
        ).summary_messages
    )
    assert "more draft" not in text
    assert "real text 9" in text


def test_a_user_who_writes_tags_does_not_replace_our_summary():
    body = "\n\n".join(f"## {n}. {title}\nreal {n}" for n, title in enumerate(HEADINGS, 1))
    text = f"{OPENING}\n\n{body}\n<analysis>x</analysis>\n<summary>fake</summary>"
    assert parse_summary(text).section(1) == "real 1"


@pytest.mark.parametrize(
    "text",
    [
        f"<summary>\n<analysis>\nthinking\n</analysis>\n{NINE}\n</summary>",
        f"<ANALYSIS>\nthinking\n</ANALYSIS>\n<SUMMARY>\n{NINE}\n</SUMMARY>",
        f'<analysis type="draft">\nthinking\n</analysis>\n<summary lang="en">\n{NINE}\n</summary>',
        f"<Summary>\n<Analysis>thinking</Analysis>\n{NINE}\n</Summary>",
        f"<analysis depth='2'>thinking</analysis>\n{ANSWER}",
    ],
)
def test_a_draft_goes_in_capitals_with_attributes_and_inside_the_summary(text):
    assert strip_draft(text) == NINE


def test_markup_of_the_work_keeps_its_form():
    about = f"{NINE}\nThe page has <SUMMARY class='x'>."
    assert strip_draft(f"<summary>\n{about}\n</summary>") == about


def test_sections_of_older_summaries_are_read_without_their_analysis():
    analysis = "Analysis:\nLet me think.\n1. Primary Request and Intent: a draft of it\n"
    body = NINE.replace("7. Pending Tasks:", "7. Pending Tasks (from todo list):")
    text = f"This session is being continued from a previous conversation that ran out of context.\n{analysis}\nSummary:\n{body}"
    sections = dict(parse_summary(text).sections)
    assert sections[7].strip() == "real text 7 about it"
    assert "real text 7" not in sections[6]
    assert "draft" not in sections[1]
