"""The laws find what breaks them, as small as it gets, and nothing in what keeps them."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ullage import Policy, compact, estimate_tokens
from ullage.policy import SummaryPolicy
from ullage.testing import ScriptedSummarizer, laws
from ullage.testing.laws import LAWS, Compactor, Turn, case, hold

Messages = list[dict[str, Any]]
COUNTER = itertools.count()
SLOW = "cost-is-linear"


def without_assistant(messages: Messages) -> Messages:
    return [m for m in messages if m["role"] != "assistant" or m.get("tool_calls")]


def noted(messages: Messages, text: str) -> Messages:
    return [{"role": "user", "content": text}, *messages]


def results_as_user(messages: Messages, target: int) -> Messages:
    told = [m["content"] for m in messages if m["role"] == "tool"]
    return noted(messages, "\n".join(["Summary of earlier results:", *told]))


def slow(messages: Messages, target: int) -> Messages:
    for _ in messages:
        sum(len(m) for m in messages)
    return messages


def emptied(messages: Messages, target: int) -> Messages:
    messages.clear()
    raise RuntimeError("model is down")


def kept(messages: Messages, target: int) -> Messages:
    return messages


def once_only(messages: Messages, target: int) -> Messages:
    """Forgets its own summary, with the rule in it."""
    if "Summary:" in str(messages[0]["content"]):
        return messages[1:]
    return noted(messages[1:], f"Summary: {messages[0]['content']}")


def shown_in_part(message: Messages | dict[str, Any]) -> dict[str, Any]:
    assert isinstance(message, dict)
    text = message["content"]
    return {**message, "content": f"{text[:8]}…"} if message["role"] == "tool" else message


BREAKERS: dict[str, Compactor] = {
    "pairs": Compactor("", lambda m, t: [one for one in m if one["role"] != "tool"]),
    "order": Compactor("", lambda m, t: [*m[1:2], *m[:1], *m[2:]]),
    "nothing-invented": Compactor("", lambda m, t: noted(m, "What did we do so far?")),
    "user-not-lost-in-silence": Compactor("", lambda m, t: m[1:]),
    "newest-input-last": Compactor("", lambda m, t: [*m[-1:], *m[:-1]]),
    "target-kept-or-refused": Compactor("", kept),
    "idempotent": Compactor("", lambda m, t: noted(m, f"Summary of {len(m)} earlier messages.")),
    "monotone": Compactor("", lambda m, t: m if t < 450 else m[-1:]),
    "closed-stays-closed": Compactor("", lambda m, t: without_assistant(m)),
    "data-is-no-instruction": Compactor("", results_as_user),
    "failure-changes-nothing": Compactor("", kept, failing=emptied),
    "prefix-is-stable": Compactor("", lambda m, t: noted(m, f"Summary {next(COUNTER)}.")),
    "equal-input-equal-output": Compactor("", lambda m, t: noted(m, f"Summary {next(COUNTER)}.")),
    "rules-stay": Compactor("", lambda m, t: noted(m[1:], "Summary of earlier messages.")),
    "newest-is-kept-first": Compactor("", lambda m, t: [m[0], *noted(m[-1:], "Summary.")]),
    "target-is-used": Compactor("", lambda m, t: noted(m[-1:], "Summary of earlier messages.")),
    "report-is-true": Compactor("", kept, stated=lambda m, t: ["0 messages stated"] if m else []),
    "newest-request-stays": Compactor(
        "", lambda m, t: noted(m[1:], "Summary of earlier messages.")
    ),
    "second-time-too": Compactor("", once_only),
    "words-stay-whole": Compactor("", lambda m, t: [shown_in_part(one) for one in m]),
    "smaller-target-leaves-less": Compactor("", lambda m, t: m if t < 300 else m[-1:]),
    SLOW: Compactor("", slow),
    "room-is-used-on-average": Compactor(
        "", lambda m, t: noted(m[-1:], "Summary of earlier messages.")
    ),
    "promises-hold-on-average": Compactor(
        "", lambda m, t: noted(m[-1:], "Summary."), promises={"used": (90, 100)}
    ),
}


def test_each_law_has_a_breaker() -> None:
    assert list(BREAKERS) == [law.id for law in LAWS]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_what_breaks_a_law_is_found_and_made_small(law: laws.Law) -> None:
    findings, _ = hold(BREAKERS[law.id], 30, laws=[law])
    assert [each.law.id for each in findings] == [law.id]
    assert law.id == SLOW or len(findings[0].case.turns) <= 4, findings[0]


def test_what_changes_nothing_breaks_one_law_alone() -> None:
    """It says nothing false, and leaves what is too large as it is."""
    chosen = [law for law in LAWS if law.id != SLOW]
    findings, counts = hold(Compactor("", kept), 30, laws=chosen)
    assert [each.law.id for each in findings] == ["target-kept-or-refused"]
    assert counts["changed"] == 0 < counts["tried"]


def test_a_refusal_breaks_none() -> None:
    def refused(messages: Messages, target: int) -> Messages:
        if laws.size_of(messages) > target * 0.8:
            raise OverflowError("too large")
        return messages

    findings, counts = hold(Compactor("", refused), 30)
    assert not findings
    assert 0 < counts["refused"] < counts["tried"]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_each_law_names_a_public_issue_and_its_case(law: laws.Law) -> None:
    assert law.url.startswith("https://github.com/")
    assert law.url.rpartition("/")[2].isdigit()
    assert law.example.turns[0].kind == "user"


@pytest.mark.parametrize("form", ["openai_chat", "anthropic", "bedrock", "openai_responses"])
def test_each_form_is_read_alike(form: str) -> None:
    turns = case("user 6, tools 9+5, assistant 4, user 3", 50).turns
    found = laws.parts(laws.messages_of(turns, form))
    assert [part.kind for part in found] == [
        "text", "call", "call", "result", "result", "text", "text",
    ]  # fmt: skip
    assert [part[2:] for part in found] == [part[2:] for part in laws.parts(laws.chat(turns))]


def test_what_is_sealed_is_in_anthropic_form_where_it_is_asked_for() -> None:
    turns = case("user 6, tools 9, assistant 4, user 3, user 5", 50).turns
    found = laws.parts(laws.messages_of(turns, "anthropic", sealed=True))
    sealed = [part for part in found if part.kind == "sealed"]
    assert [part.role for part in sealed] == ["assistant", "user"]
    assert [part for part in found if part not in sealed] == laws.parts(laws.anthropic(turns))

    def resigned(messages: Messages, target: int) -> Messages:
        return json.loads(json.dumps(messages).replace("signed", "resigned"))

    one = Compactor("", resigned, form="anthropic", sealed=True)
    findings, _ = hold(one, 5, laws=[law for law in LAWS if law.id == "nothing-invented"])
    assert "sealed" in findings[0].words


def test_conversations_are_the_same_for_the_same_seed() -> None:
    one, other, third = (list(itertools.islice(laws.cases(seed), 20)) for seed in (1, 1, 2))
    assert one == other != third
    assert Turn("user", 0, (3,)) != one[0].turns[0] or one[0].target


# ---- Ullage ----------------------------------------------------------------------------------

MODEL = "gpt-4o"


def tokens(messages: Messages) -> int:
    return estimate_tokens(messages, model=MODEL)


def ours(messages: Messages, target: int) -> Messages:
    if tokens(messages) <= target:
        return messages
    result = compact(messages, model=MODEL, target_tokens=target)
    if any(each.startswith("over_target") for each in result.report.warnings):
        raise OverflowError("too large")
    return [dict(each) for each in result.messages]


def ours_without_model(messages: Messages, target: int) -> Messages:
    def down(*_: object) -> str:
        raise ValueError("model is down")

    once = Policy(summary=SummaryPolicy(retries=0))
    made = compact(messages, model=MODEL, target_tokens=target, summarizer=down, policy=once)
    return [dict(each) for each in made.messages]


@pytest.mark.both_engines
def test_ullage_breaks_none() -> None:
    mine = Compactor("ullage", ours, size=tokens, failing=ours_without_model)
    findings, counts = hold(mine, 12, laws=[law for law in LAWS if law.id != SLOW])
    assert not findings, "\n".join(map(str, findings))
    assert counts["changed"] > 12


@pytest.mark.both_engines
def test_a_reachable_target_is_met_though_little_can_be_summarised() -> None:
    """What is kept can be shortened, so that there is no reason to change nothing."""
    messages = laws.chat(case("user 30, assistant 41, tools 228+265", 0).turns)
    for target in (780, 600, 500):
        assert tokens(messages) > target >= tokens(ours(messages, target))


def assert_kept(said: str, target: int, law: Any, run: Any = ours) -> None:
    """The case is changed, and the law holds in it."""
    trial = laws.Trial(Compactor("ullage", run, size=tokens), case(said, target))
    assert trial.after is not None
    assert trial.changed
    assert law(trial) is None


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("said", "target"),
    [
        # What the summary could not use of its room went to older messages.
        ("user 118, tools 213, assistant 93, user 12", 300),
        ("user 2, tools 28, assistant 58, user 76, user 64, assistant 22, tools 35, assistant 80, assistant 66, tools 9, assistant 103", 429),
        # Results were shortened for the small target, and left out for the large one.
        ("user 106, user 79, user 14, assistant 87, tools 2, tools 10+11+68, tools 191+443, tools 12+16, tools 17+14, tools 75, tools 55", 300),
    ],
)  # fmt: skip
def test_what_stands_for_a_target_stands_for_twice_as_much(said: str, target: int) -> None:
    assert_kept(said, target, laws.monotone)


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("said", "target"),
    [
        # A rule whose message had given way stood in section 1 of the first summary alone.
        ("user 118, user 98, assistant 75, user 4", 408),
        # What was kept could be shortened, but there was “nothing new” to summarise.
        ("user 6, tools 27, tools 11+18+5, tools 19, tools 15, tools 440", 796),
        ("user 38, user 113, assistant 53, user 115, assistant 97, tools 457, user 22", 602),
    ],
)
def test_a_second_compaction_keeps_rules_and_target(said: str, target: int) -> None:
    assert_kept(said, target, laws.second_time_too)


@pytest.mark.both_engines
def test_a_text_that_was_too_long_and_below_its_limit_does_not_end_the_search() -> None:
    """Between its length and its limit a longer one can still fit."""
    said = "user 10, tools 3, tools 2, tools 85, assistant 21, tools 13, user 22"
    assert_kept(said, 300, laws.smaller_target_leaves_less)


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("user 3, tools 12+41+38, tools 89", 300),
        # Results could have been cut, but did not have to be.
        ("user 2, tools 186, tools 5+17+11, tools 99, tools 403+471, tools 10 #6, tools 438+582+332, user 30", 3630),
    ],
)  # fmt: skip
def test_where_no_summary_fills_the_target_more_of_the_messages_stays(
    said: str, target: int
) -> None:
    messages = laws.chat(case(said, target).turns)
    assert tokens(ours(messages, target)) * 100 > target * 85


@pytest.mark.both_engines
def test_a_rule_outlives_two_summaries_of_a_model() -> None:
    """The model quotes it among the user's messages, in a form that is not read as such the next time."""

    def by_a_model(messages: Messages, target: int) -> Messages:
        model = ScriptedSummarizer()
        result = compact(messages, model=MODEL, target_tokens=target, summarizer=model)
        return [dict(each) for each in result.messages]

    said = "user 39, tools 53, tools 119+376, tools 135+238, tools 32, tools 100+78, user 66, tools 50+79, user 109, user 23"
    assert_kept(said, 1050, laws.rules_stay, by_a_model)
    assert_kept(said, 1050, laws.second_time_too, by_a_model)


def test_a_result_may_name_what_its_call_asked_for() -> None:
    def cleared(messages: Messages, target: int) -> Messages:
        paths = iter(re.findall(r"src/\w+\.py", str([each.get("tool_calls") for each in messages])))
        return [
            {**each, "content": f"[cleared: {next(paths)}]"} if each["role"] == "tool" else each
            for each in messages
        ]

    assert_kept("user 9, tools 40+50", 100, laws.nothing_invented, cleared)


@pytest.mark.both_engines
def test_of_two_results_the_larger_is_not_whole_while_the_other_is_cut() -> None:
    """Where lines end, a cut of the larger one can save less."""
    said = "user 113, tools 62, tools 2, tools 81, tools 10, tools 107+142+116, tools 76+72+5, tools 15"
    assert_kept(said, 1167, laws.newest_is_kept_first)


def test_a_printed_case_is_read_again() -> None:
    turns = (
        Turn("user", 0, (6,)),
        Turn("tools", 4, (9, 5)),
        Turn("user", 5, (3,)),
        Turn("user", 9),
    )
    one = laws.Case(turns, 300)
    printed, _, _ = str(one).partition(";")
    assert printed == "user 6, tools 9+5 #4, user 3, user 6 #9"
    assert case(printed, 300) == one


# ---- command and plugin ----------------------------------------------------------------------

TRIM = """
def trim(messages, target):
    return messages[-max(1, target // 100):]
"""


def said(folder: Path, *command: str) -> tuple[int, str]:
    (folder / "my_trim.py").write_text(TRIM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_command_says_which_are_broken(tmp_path: Path) -> None:
    code, told = said(tmp_path, "ullage.testing.laws", "my_trim:trim", "--cases", "20")
    assert code == 1
    assert "BROKEN pairs: the result call_" in told
    assert "kept: equal-input-equal-output" in told
    assert "does not apply: failure-changes-nothing" in told


def test_the_plugin_has_a_test_for_each_law(tmp_path: Path) -> None:
    plugin = ("-p", "ullage.testing.laws", "--compactor", "my_trim:trim", "-p", "no:cacheprovider")
    code, told = said(tmp_path, "pytest", *plugin, "--compactor-cases", "20", "-q")
    assert code == 1
    assert "pairs: the result call_" in told
    assert "3 skipped" in told


def test_the_page_names_each_law() -> None:
    page = (Path(__file__).parents[2] / "docs" / "laws.md").read_text("utf-8")
    for number, law in enumerate(LAWS, 1):
        assert f"| {number} | `{law.id}` | {law.says} | [{law.issue}]({law.url}) |" in page


def test_a_compactor_without_a_target_may_not_crash():
    one = Compactor("crashes", lambda messages, target: messages[999], has_target=False)
    assert {found.law.id for found in hold(one, 3)[0]} == {"target-kept-or-refused"}


def first_and_last(messages: Messages, target: int) -> Messages:
    return messages if laws.size_of(messages) <= target else [messages[0], messages[-1]]


@pytest.mark.parametrize(
    ("promises", "has_target"),
    [({"asked": (1, 1)}, True), ({"verbatim": (0, 90)}, True), ({"left": (1, 99)}, False)],
)
def test_what_was_promised_is_held_from_both_sides(
    promises: dict[str, tuple[float, float]], has_target: bool
) -> None:
    asked = 0

    def run(messages: Messages, target: int) -> Messages:
        nonlocal asked
        left = first_and_last(messages, target)
        asked += left is not messages
        return left

    def held(one: dict[str, tuple[float, float]]) -> list[str]:
        compactor = Compactor("", run, has_target=has_target, promises=one, asked=lambda: asked)
        chosen = [law for law in LAWS if law.id == "promises-hold-on-average"]
        return [str(found) for found in hold(compactor, 0, laws=chosen)[0]]

    (name,) = promises
    assert held(promises) == []
    for wrong in ((0, 0), (101, 200)):
        (found,) = held({name: wrong})
        assert f"promises-hold-on-average: {name} is" in found


def test_a_result_is_as_large_as_another_in_characters_and_in_tokens() -> None:
    """Fewer characters can be more tokens: a compactor that counts these may shorten what has them."""

    def run(messages: Messages, target: int) -> Messages:
        return [*messages[:-1], shown_in_part(messages[-1])]

    def as_counted(newer: int) -> str | None:
        def size(messages: Messages) -> int:
            return sum(newer if "Error" in str(one) else 100 for one in messages)

        # The newer one has fewer characters; `size` knows it by its last line.
        trial = laws.Trial(Compactor("", run, size=size), case("user 6, tools 90, tools 60", 50))
        return laws.newest_is_kept_first(trial)

    assert as_counted(100) == "result call_2_0 was shortened, result call_1_0 was kept"
    assert as_counted(101) is None


def test_the_newest_request_keeps_its_images() -> None:
    def text_only(messages: Messages, target: int) -> Messages:
        return [
            {**one, "content": [block for block in one["content"] if block["type"] != "image"]}
            if isinstance(one["content"], list)
            else one
            for one in messages
        ]

    def held(run: laws.Run) -> str | None:
        one = Compactor("", run, form="anthropic", sealed=True)
        return laws.newest_request_stays(laws.Trial(one, case("user 6, assistant 4, user 5 #3", 9)))

    assert held(kept) is None
    assert str(held(text_only)).endswith("is there without its image")
