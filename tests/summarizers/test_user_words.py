"""The user's words and rules come first in a summary, at any size (FULL-1, P-5)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from tests.kit import said, user
from ullage import compact, estimate_tokens
from ullage.facts import collect
from ullage.facts.names import LINES
from ullage.facts.sections import parse_sections, read_user_messages
from ullage.summarizers import ExtractiveSummarizer
from ullage.summarizers.budgeted_text import cost
from ullage.summarizers.extractive import render
from ullage.summarizers.users_words import is_low_content, trimmed, user_messages
from ullage.testing import conversation

RULE = "Never touch migrations/0193_harbor_lock.sql, because the DBA owns that file."
REPORT = "I read on and it is as you said. " * 60 + "Which fail, and which is first?"


def constraints(count: int) -> list[dict]:
    texts = [
        f"HARD CONSTRAINT {n}: Do not push to branch release-{n} before team {n} has signed it."
        for n in range(count)
    ]
    items = [item for text in texts for item in (user(text), said(REPORT))]
    return [*items, user("go on"), said("ok")]


@pytest.mark.parametrize("count", range(5, 14))
def test_a_long_message_is_whole_where_there_is_room(count):
    """However many others there are, and whatever their numbers."""
    long = f"{RULE} " * 3 + "Thanks."
    items = [user(long), said("Understood. " * 600)]
    for n in range(count):
        items += [user(f"Look at part {n:03d}" + "x" * (n % 4)), said("Nothing to say. " * 150)]
    sections = parse_sections(compact(items, keep=0).summary_messages[0]["content"])
    assert read_user_messages(sections[6])[0] == long


@pytest.mark.parametrize("tokens", [900, 1_000, 2_000, 8_000])
def test_the_words_of_all_messages_stand_where_they_fit_in_their_share(tokens):
    items = constraints(20)
    text = render(collect(items), tokens=tokens)
    assert cost(text) <= tokens
    assert [item["content"] for item in items[:40:2] if item["content"] not in text] == []


@settings(deadline=None, max_examples=10)
@given(
    st.integers(200, 1500),
    st.lists(
        st.sampled_from(["yes", "go on", "Look at it. " * 40, "Fix the parser."]), max_size=12
    ),
    st.integers(0, 12),
)
def test_a_rule_is_whole_or_not_there(tokens, others, place):
    texts = [
        *others[:place],
        f"Look here. {'It is long. ' * 50}{RULE} {'And more. ' * 50}",
        *others[place:],
    ]
    items = [item for text in texts for item in (user(text), said(REPORT))]
    text = render(collect(items), tokens=tokens)
    assert cost(text) <= max(tokens, 200)
    for row in text.splitlines():
        if "harbor_lock" in row and "Names:" not in row and "Paths:" not in row:
            assert RULE in row


@pytest.mark.parametrize("place", [0, 10, 19])
@pytest.mark.parametrize("tokens", [600, 1_200])
def test_a_rule_at_the_end_of_a_long_message_stays(place, tokens):
    texts = [f"Look at part {n}. " + "It goes on and on like that. " * 40 for n in range(20)]
    texts[place] += RULE
    items = [item for text in texts for item in (user(text), said(REPORT))]
    assert RULE in render(collect(items), tokens=tokens)


def test_what_was_asked_and_what_says_nothing_give_way_first():
    items = []
    for n in range(12):
        items += [said(REPORT), user("yes" if n % 2 else f"The port of service {n} is {8000 + n}.")]
    told = user_messages(collect([*items, said("ok."), user("Now go to part 3.")]).inputs, 120)
    assert "(asked:" not in told
    assert [n for n in range(0, 12, 2) if f"is {8000 + n}." not in told] == []
    assert "left out for room" in told
    assert "yes" not in told.split()


def test_what_the_instructions_name_gives_way_last():
    items = []
    for n in range(30):
        items += [
            user(
                f"Part {n} is about the {'harbour' if n == 3 else chr(97 + n % 26) * 7} of town {n}."
            ),
            said("ok"),
        ]
    inputs = collect(items).inputs
    assert "harbour" not in user_messages(inputs, 60)
    assert "harbour of town 3." in user_messages(inputs, 60, ("harbour",))
    assert "harbour of town 3." in render(
        collect(items), tokens=330, instructions="mind the harbour"
    )


FACTS = (
    "Priya owns the billing service; Marco owns the gateway.",
    "The staging cluster moves to Frankfurt.",
    "We decided on the blue theme. Red is out.",
    "Der Kunde möchte die Lieferung im März.",
    "迁移窗口是星期六凌晨三点。",
)
TALK = (
    "Do you read much fiction?",
    "That coffee was good.",
    "Anyway, where were we?",
    "今天天气真好。",
)


@pytest.mark.parametrize("percent", [25, 10, 5])
def test_in_a_chat_content_decides_and_equal_messages_stand_once(percent):
    items = [item for n in range(600) for item in (user(TALK[n % len(TALK)]), said("Noted."))]
    for n, fact in enumerate(FACTS):
        items[40 * n] = user(fact)
    items.append(user("Confirm the plan."))
    before = estimate_tokens(items, model="claude-opus-4-5")
    target = before * percent // 100
    done = compact(items, model="claude-opus-4-5", keep=0, target_tokens=target)
    text = str(done.messages)
    assert [fact for fact in FACTS if fact not in text] == []
    if percent < 25:
        assert max(text.count(line) for line in TALK) <= 2
        assert " times) " in text


def test_names_take_at_most_a_quarter():
    items = conversation(seed=4, tokens=60_000, ending="assistant")
    for tokens in (1_500, 3_000):
        text = render(collect(items), tokens=tokens)
        rows = [line for line in text.split("\n") if line.startswith(LINES)]
        assert rows
        assert sum(map(len, rows)) <= len(text) * 26 // 100


def test_the_assistants_newest_words_are_whole():
    newest = "The gate reads the header twice. I would move the check up, then drop the flag."
    items = [
        user("Look."),
        *[each for n in range(40) for each in (user(f"Part {n}?"), said(REPORT))],
    ]
    assert newest in render(collect([*items, user("And now?"), said(newest)]), tokens=700)


def test_a_report_is_said_once():
    items = [
        item for n in range(8) for item in (user(f"Part {n}."), said("All 12 tests pass. " * 3))
    ]
    assert render(collect(items)).count("7. Part 6.\n   → Reported: All 12 tests pass.") == 1


def test_a_short_sentence_between_two_others_is_not_cut_for_a_mark():
    kept = "The quarterly figures of harbour 17 came to 4,200 crates in May 2024."
    aside = "Well, we looked at it."
    text = f"{kept} {aside} {kept.replace('17', '23')}"
    for tokens in range(30, cost(text)):
        assert "[… 22 characters left out …]" not in trimmed(text, tokens)


@given(st.text(max_size=400), st.integers(0, 100))
def test_trimmed_text_is_made_of_pieces_of_it(text, tokens):
    short = trimmed(text, tokens)
    if "left out …]" not in short and "…" not in short:
        assert " ".join(short.split()) in " ".join(text.split())


def test_the_whole_of_a_given_budget_may_be_used():
    items = constraints(60)
    whole = compact(items, keep=0, summarizer=ExtractiveSummarizer(max_tokens=3_000))
    assert sum(item["content"] in str(whole.messages) for item in items[:120:2]) == 60


@pytest.mark.parametrize(
    ("text", "low"),
    [
        ("ok", True),
        ("thank you very much, that looks good to all of us here", True),
        ("I really like how it turned out", True),
        ("Keep the old URLs working.", False),
        ("The limit is 30 requests a minute.", False),
        ("Look into web/login.ts", False),
        ("loadUser is slow", False),
        ("Why is it slow?", False),
        ("That is not what I meant", False),
        ("Fix the footer", False),
        ("I think let's have one of each", False),
        ("let's go", True),
        ("它很慢", True),
        ("请修复登录页面的错误", False),
    ],
)
def test_what_has_no_content_of_its_own(text, low):
    assert is_low_content(text) is low


def test_low_content_goes_whole_before_anything_is_shortened():
    items = []
    for n in range(8):
        items += [user(f"The port of service {n} is {8000 + n}."), said("ok")]
        items += [user("I really like how it turned out, the others in the office too"), said("ok")]
    told = user_messages(collect(items).inputs, 125)
    assert [n for n in range(8) if f"is {8000 + n}." not in told] == []
    assert "(7 left out for room)" in told  # their numbers would take more than a tenth of the room
    assert told.count("I really like how it turned out") == told.count("(8 times)") == 1
    assert "[…" not in told


@pytest.mark.parametrize("tokens", range(110, 400, 10))
def test_the_numbers_that_are_named_are_as_many_as_are_counted(tokens):
    """Runs of one, between messages that stand: named all, or the newest after an ellipsis."""
    items = []
    for n in range(7):
        words = " ".join(f"cursor{n}{k}" for k in range(60)) if n % 2 else f"Use port {n}000."
        items += [user(f"Request {n}: {words}"), said("ok")]
    told = user_messages(collect(items).inputs, tokens)
    named = re.search(r"\((\d+) messages? left out for room: (…, )?([^)]*)\)", told)
    for count, ellipsis, labels in [named.groups()] if named else []:
        ends = [label.replace("u", "").split("-") for label in labels.split(", ")]
        numbers = [at for each in ends for at in range(int(each[0]), int(each[-1]) + 1)]
        assert len(numbers) < int(count) if ellipsis else len(numbers) == int(count), told
        assert not {str(number) for number in numbers} & {*re.findall(r"(?m)^(\d+)\. ", told)}


def test_where_room_is_short_sentences_that_only_tell_a_story_give_way():
    """To what failed and was decided; what binds, names or asks stays."""
    story = "We talked about it in the corridor and everybody had a view of it. " * 12
    texts = [f"{story}The quota of team {n} is 48{n}10 requests. {story}" for n in range(12)]
    items = [item for text in texts for item in (user(text), said("Noted."))]
    items += [said("We decided to keep the ledger_71539 table."), user("go on"), said("ok")]
    text = render(collect(items), tokens=1_200)
    assert [n for n in range(12) if f"is 48{n}10 requests." not in text] == []
    assert "ledger_71539" in text
    assert cost(text) <= 1_200
