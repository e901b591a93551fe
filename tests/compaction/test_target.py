"""`target_tokens`: the new context fits it, or a warning says by how much it does not (FULL-13)."""

from __future__ import annotations

import asyncio
import bisect
import copy
import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import ullage
from tests.kit import said, user
from ullage import ContextManager, Policy, acompact, compact, estimate_tokens, validate
from ullage.compaction import assemble
from ullage.compaction.cut import prepare, shorter_results, with_results_within
from ullage.compaction.job import Job, warning_text
from ullage.exceptions import CompactionError, ContextTooLarge, InvalidPolicy
from ullage.facts import collect
from ullage.facts.sections import HEADINGS
from ullage.memory.session import SessionMemory
from ullage.policy import SummaryPolicy
from ullage.summarizers import ExtractiveSummarizer, SummaryRequest
from ullage.testing import conversation, laws
from ullage.transcript.record import compaction_record
from ullage.ullage_check import LogCheck

MODEL = "claude-opus-4-5"
NINE = "\n".join(f"{n}. {title}:\n  real text {n} about it" for n, title in enumerate(HEADINGS, 1))


def as_long_as_allowed(request: SummaryRequest) -> str:
    """A model's summary that uses all of the room that it was given, by our estimate."""
    own, most = words(request.max_output_tokens).split(), request.max_output_tokens
    size = lambda count: estimate_tokens([user(f"{NINE}\n{' '.join(own[:count])}")], model=MODEL)  # noqa: E731
    return f"{NINE}\n{' '.join(own[: bisect.bisect_right(range(len(own)), most, key=size) - 1])}"


def words(count: int) -> str:
    return " ".join(f"w{n * 7919 % 100_003}" for n in range(count))


def entries(messages: list[dict], first: int = 0) -> list[dict]:
    ids = [f"00000000-0000-4000-8000-{first + at:012d}" for at in range(len(messages))]
    parents = [None, *ids]
    return [
        {"type": m["role"], "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": m}
        for m, uuid, parent in zip(messages, ids, parents, strict=False)
    ]


def large_result() -> list[dict]:
    """A newest turn whose one result is larger than most targets."""
    use = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a.py"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": words(5_000)}
    return [
        {"role": "user", "content": "old " + words(600)},
        {"role": "assistant", "content": "ok " + words(600)},
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": "done"},
    ]


def tried(items, target: int, **options):
    """The result within the target; `None` where it is refused, with a smallest target that is then kept."""
    try:
        result = compact(items, model=MODEL, target_tokens=target, **options)
    except (ContextTooLarge, CompactionError) as caught:
        error = caught
    else:
        held(result, target)
        return result
    if isinstance(error, CompactionError):
        assert (error.code, bool(options.get("summarizer"))) == ("incomplete_summary", True)
        return None
    assert (error.limit_tokens, error.floor_tokens > target) == (target, True)
    if not options.get("summarizer"):
        least = compact(items, model=MODEL, target_tokens=error.floor_tokens, **options)
        assert least.report.messages_after <= error.floor_tokens
    return None


def held(result, target: int) -> None:
    report = result.report
    assert not [w for w in report.warnings if w.startswith("over_target:") and result.compacted]
    if result.compacted:
        assert report.messages_after <= target


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 5),
    st.integers(40, 30_000),
    st.sampled_from([None, 0, 500, 8_000]),
    st.booleans(),
    st.booleans(),
)
def test_any_target_holds_or_is_reported(seed, target, keep, by_model, as_entries):
    items = conversation(seed=seed, tokens=20_000)
    items = entries(items) if as_entries else items
    before = copy.deepcopy(items)
    result = tried(
        items, target, keep=keep, summarizer=(lambda request: NINE) if by_model else None
    )
    assert items == before
    if result is not None and result.compacted and not as_entries:
        found = validate(list(result.messages), model=MODEL).violations
        assert [v.rule for v in found if v.severity == "error"] == []


@pytest.mark.parametrize("target", [1_500, 3_000, 6_000])
def test_results_are_cut_before_messages_go(target):
    items = large_result()
    plain = compact(items, model=MODEL, keep=1_000).report
    assert plain.tokens_after > target
    result = compact(items, model=MODEL, keep=1_000, target_tokens=target)
    assert result.report.tokens_after <= target
    kept = [item for item in result.messages if item in (items[3], items[5])]
    assert len(kept) == 2
    cut = result.kept[1]["content"][0]["content"]
    assert cut.startswith("w0 ")
    assert "characters left out to fit" in cut
    assert len(items[4]["content"][0]["content"]) > len(cut)


def reported(items: list[dict], beside: int) -> list[dict]:
    """The same with the usage that a provider would report, system prompt and tools of so many tokens included."""
    out, seen = [], []
    for number, item in enumerate(items):
        seen.append(item)
        if item["role"] == "assistant":
            usage = {
                "input_tokens": beside + estimate_tokens(seen, model=MODEL),
                "output_tokens": 0,
            }
            item = {**item, "id": f"r{number}", "usage": usage}
        out.append(item)
    return out


@pytest.mark.parametrize("as_entries", [False, True])
@pytest.mark.parametrize("target", [3_000, 20_000])
def test_system_prompt_and_tools_do_not_count(as_entries, target):
    items = reported(conversation(seed=3, tokens=40_000, ending="assistant"), 60_000)
    result = compact(entries(items) if as_entries else items, model=MODEL, target_tokens=target)
    report = result.report
    assert target * 9 // 10 <= report.messages_after <= target
    assert 59_000 < report.overhead_tokens < 61_000
    assert report.tokens_after == report.messages_after + report.overhead_tokens
    assert report.warnings == ()


@pytest.mark.parametrize("as_entries", [False, True])
@pytest.mark.parametrize("target", [None, 20_000])
def test_a_system_prompt_over_the_low_mark_leaves_messages_their_room(
    monkeypatch, as_entries, target
):
    """It fills 60 percent of the trigger by itself: what is left of the window is shared, not given up."""
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "120000")
    items = reported(conversation(seed=3, tokens=40_000, ending="assistant"), 56_000)
    result = compact(entries(items) if as_entries else items, model=MODEL, target_tokens=target)
    report = result.report
    assert report.kept
    assert 7_000 < report.messages_after < 20_000


@pytest.mark.parametrize("excess", range(1, 30))
def test_results_are_shortened_by_what_they_exceed_a_share_by_however_little(excess):
    items = conversation(seed=3, tokens=40_000, ending="assistant")
    state = prepare(Job(items=items, keep=8_000))
    share = state.kept_tokens - excess
    assert with_results_within(state, share).kept_tokens <= share


def test_system_prompt_is_what_the_first_figure_tells():
    """Later figures hold thinking and reminders that are in no message: they are not the system prompt's."""
    items = reported(conversation(seed=3, tokens=40_000, ending="assistant"), 20_000)
    for at, item in enumerate(items):
        if "usage" in item:
            hidden = at * 500
            item["usage"] = {
                **item["usage"],
                "input_tokens": item["usage"]["input_tokens"] + hidden,
            }
    report = compact(items, model=MODEL, target_tokens=5_000).report
    newest = [item for item in items if "usage" in item][-1]["usage"]["input_tokens"]
    assert report.tokens_before >= newest
    assert 19_000 < report.overhead_tokens < 22_000


@pytest.mark.parametrize("target", [2_000, 5_000])
@pytest.mark.parametrize("script", ["", "это длинное слово "])
def test_a_target_is_filled(target, script):
    """In any script: a limit in bytes / 4 is scaled by the ratio that is measured."""
    fills = []
    for seed in range(4):
        items = conversation(seed=seed, tokens=60_000, ending="assistant")
        for item in items:
            if script and item["role"] == "user" and isinstance(item["content"], str):
                item["content"] = script * 20 + item["content"]
        report = compact(items, model=MODEL, target_tokens=target).report
        assert report.messages_after <= target
        fills.append(report.messages_after / target)
    assert sum(fills) / len(fills) >= 0.95


CASES = "\n".join(
    f"- Case {n}: the reader of kind {n} must keep row {n} and say so." for n in range(40)
)
TASK = f"Fix the parser.\n{CASES}\nYou DON'T have to modify any test."


@pytest.mark.parametrize("percent", [30, 60, 90])
def test_what_a_short_summary_of_a_model_leaves_is_for_messages(percent):
    items, asked = conversation(seed=3, tokens=20_000), []
    target = estimate_tokens(items, model=MODEL) * percent // 100
    result = compact(
        items,
        model=MODEL,
        target_tokens=target,
        summarizer=lambda request: asked.append(request) or NINE,
    )
    assert 0.9 * target <= result.report.messages_after <= target
    assert len(asked) == 1
    assert result.messages[-1] == items[-1]


def steps(count: int) -> list[dict]:
    out = []
    for n in range(count):
        use = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "Read",
            "input": {"file_path": f"/src/m{n}.py"},
        }
        lines = "\n".join(
            f"def handler_{n}_{k}(row_{k}): return cursorValue{n}{k}.nextItem()" for k in range(30)
        )
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": lines}
        out += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return out


@pytest.mark.parametrize("target", [1_400, 2_000, 6_000])
@pytest.mark.parametrize("keep", [0, None])
def test_the_only_message_stands_once_and_whole(target, keep):
    result = compact([user(TASK), *steps(60)], model=MODEL, target_tokens=target, keep=keep)
    text = str([each["content"] for each in result.summary_messages])
    assert result.report.messages_after <= target
    assert str([TASK])[2:-2] in text or repr(TASK)[1:-1] in text
    assert text.count("Case 17: the reader") == 1
    assert "DON'T have to modify" in text
    again = compact(
        [*result.messages, said("ok " * 400), user("go on"), said("ok " * 900)], model=MODEL, keep=0
    )
    assert TASK in [each.text for each in collect(again.summary_messages).inputs]


def test_no_rule_gives_way_to_a_target():
    rules = [f"Never touch the table harbor_{n}, team {n} reads it." for n in range(30)]
    talk = [
        each for rule in rules for each in (user(f"Look at part. {rule}"), said("I did. " * 120))
    ]
    items = [*talk, user("go on"), said("done " * 300)]
    with pytest.raises(ContextTooLarge) as caught:
        compact(items, model=MODEL, target_tokens=300, keep=0)
    least = caught.value.floor_tokens
    result = compact(items, model=MODEL, target_tokens=least, keep=0)
    assert result.report.messages_after <= least
    text = " ".join(str(result.summary_messages[0]["content"]).split())
    assert [rule for rule in rules if rule not in text] == []


def test_a_refused_target_changes_nothing_of_a_manager():
    calls = []
    policy = Policy()
    manager = ContextManager(model=MODEL, policy=policy, hooks={"pre_compact": [calls.append]})
    for item in [*steps(20), said("done"), user(words(3_000))]:
        manager.add(item)
    before, tokens = list(manager.messages), manager.usage().tokens
    with pytest.raises(ContextTooLarge):
        manager.compact(target_tokens=1_000)
    assert (list(manager.messages), manager.usage().tokens, calls) == (before, tokens, [])


def test_an_automatic_compaction_has_room_for_words_about_the_work_whatever_its_target():
    items = [*conversation(seed=3, tokens=20_000, ending="assistant"), user(words(3_000))]
    report = compact(items, model=MODEL, target_tokens=1_000, trigger="auto").report
    (warning,) = report.warnings
    code, _, least = warning.partition(":")
    assert code == "target_too_small"
    assert 3_000 < int(least) < report.messages_after <= int(least) + 300


@pytest.mark.parametrize(("seed", "newest"), [(3, 500), (5, 1_500), (8, 3_000)])
def test_a_smaller_automatic_target_never_leaves_more(seed, newest):
    items = [*conversation(seed=seed, tokens=20_000, ending="assistant"), user(words(newest))]
    targets = (100, 300, 600, 900, 1_200, 2_000, 3_000, 3_500, 4_000, 6_000)
    after = [
        compact(items, model=MODEL, target_tokens=target, trigger="auto").report.messages_after
        for target in targets
    ]
    assert after == sorted(after)


def test_a_target_that_is_not_reached_changes_nothing_else():
    items = conversation(seed=3, tokens=40_000)
    assert compact(items, model=MODEL, target_tokens=10**6).report.warnings == ()


def test_what_must_stay_is_reported():
    items = [
        *conversation(seed=3, tokens=8_000, ending="assistant"),
        {"role": "user", "content": words(3_000)},
    ]
    before = copy.deepcopy(items)
    with pytest.raises(ContextTooLarge, match="what has to stay needs") as caught:
        compact(items, model=MODEL, target_tokens=2_000)
    error = caught.value
    assert error.limit_tokens == 2_000
    assert error.parts["messages that wait for an answer"] > 2_000
    assert f"{error.floor_tokens:,}" in error.hint
    assert items == before
    done = compact(items, model=MODEL, target_tokens=error.floor_tokens).report
    assert done.messages_after <= error.floor_tokens
    with pytest.raises(ContextTooLarge):
        compact(items, model=MODEL, target_tokens=error.floor_tokens * 9 // 10)


@pytest.mark.parametrize("target", [0, -1, True, "many", 1.5])
def test_a_target_that_is_no_size_is_refused(target):
    with pytest.raises(InvalidPolicy, match="target_tokens"):
        compact(conversation(seed=1, tokens=5_000), target_tokens=target)


def test_a_manager_takes_a_target_too():
    manager = ContextManager(model=MODEL)
    for item in large_result():
        manager.add(item)
    report = manager.compact(target_tokens=3_000).report
    assert report.tokens_after <= 3_000
    assert manager.usage().tokens == report.tokens_after


def test_the_asynchronous_twin_takes_a_target():
    result = asyncio.run(acompact(large_result(), model=MODEL, keep=1_000, target_tokens=3_000))
    assert result.report.tokens_after <= 3_000


@pytest.mark.parametrize("target", [2_500, 5_000, 12_000, 25_000, 60_000])
@pytest.mark.parametrize("model", [MODEL, None])
def test_notes_respect_a_target_or_a_summary_does(tmp_path, target, model):
    items = conversation(seed=5, tokens=60_000)
    notes = SessionMemory(str(tmp_path), mode="inline")
    notes.update(items[:-4])
    plain = compact(items, model=model, memory=notes).report
    assert plain.summarizer == "session_memory"
    report = compact(items, model=model, memory=notes, target_tokens=target).report
    assert report.tokens_after <= target
    assert not [w for w in report.warnings if w.startswith("over_target")]
    if target >= plain.tokens_after:
        assert report.summarizer == "session_memory"


def test_files_are_read_once_however_often_the_summary_is_written():
    from ullage.compaction.effects_runner import Providers

    read: list[str] = []
    providers = Providers(read_file=lambda path: read.append(path) or "x " * 4_000)
    result = compact(large_result(), keep=0, target_tokens=900, providers=providers)
    assert result.report.tokens_after <= 900
    assert len(read) == len(set(read))


talks = st.lists(
    st.one_of(
        st.sampled_from(["yes", "Never push to main.", "Fix src/a.py, the port is 8029."]),
        st.integers(1, 4_000).map(words),
        st.text(max_size=300),
    ),
    min_size=1,
    max_size=14,
)


@settings(deadline=None, max_examples=20)
@given(talks, st.integers(1, 6_000), st.sampled_from([None, 0, 300]), st.integers(0, 3))
def test_no_conversation_ends_over_a_target_unreported(texts, target, keep, rounds):
    items = [item for text in texts for item in (user(text or "x"), said("I did. " + text))]
    for _ in range(rounds + 1):
        result = tried(items, target, keep=keep)
        shown = items if result is None else result.messages
        items = [*shown, user("more of it " + words(300)), said("done")]


def test_the_text_around_the_smallest_summary_is_short():
    items = [
        user("Never push to main."),
        said("I read it. " * 400),
        user("go on"),
        said("ok " * 90),
    ]
    result = compact(items, model=MODEL, keep=0, target_tokens=80)
    assert result.report.tokens_after <= 80
    (summary,) = result.summary_messages
    assert "Never push to main." in summary["content"]
    words_of_it = summary["content"].split("## 6. All User Messages")[1].split("[End")[0]
    frame = summary["content"].replace(f"## 6. All User Messages{words_of_it}", "")
    assert estimate_tokens([user(frame)], model=MODEL) < 60
    assert collect([summary]).inputs[0].text == "Never push to main."


def test_results_give_way_before_the_words():
    """The kept part has less than its half where the words need more."""
    rules = [
        f"Never rename the table harbor_{n}, since the reports of team {n} read it."
        for n in range(40)
    ]
    items = [item for rule in rules for item in (user(rule), said("I will. " * 50))]
    items = [*items, *large_result()[2:]]
    result = compact(items, model=MODEL, target_tokens=2_400)
    assert result.report.tokens_after <= 2_400
    text = str(list(result.messages))
    assert [rule for rule in rules if rule not in text] == []
    assert "characters left out to fit" in str(result.kept)


def test_an_automatic_compaction_has_the_target_of_the_policy():
    policy = Policy().change({"auto.target_tokens": 9_000})
    manager = ContextManager(model="gpt-4o", policy=policy, context_window=64_000)
    for n in range(60):
        manager.add(user(f"Look at part {n}."))
        manager.add(said(words(400)))
    manager.prepare()
    assert manager.machine.tracking.compactions == 1
    assert manager.usage().tokens <= 9_000


def test_every_warning_is_a_sentence_on_a_screen():
    sources = (Path(ullage.compaction.__file__).parent).glob("*.py")
    codes = set(re.findall(r'"(?:([a-z]+_[a-z_]+):\{)', "".join(map(Path.read_text, sources))))
    codes |= {"hook_timeout", "would_trigger_again", "above_low_mark", "attachments_left_out"}
    assert len(codes) > 12
    assert [code for code in codes if warning_text(f"{code}:1234") == f"{code}:1234"] == []
    assert (
        warning_text("cannot_shrink:host_text=5,summary=9")
        == "what has to stay: host text 5, summary 9"
    )


def test_a_kept_result_is_shortened_no_more_than_the_target_asks():
    sizes = enumerate((2, 30, 290))
    items = [user("stone " * 70), *(call for n, size in sizes for call in called(n, "row " * size))]
    target = estimate_tokens(items, model=MODEL) * 94 // 100
    result = compact(items, model=MODEL, target_tokens=target, overhead_tokens=0)
    assert target * 9 // 10 <= result.report.messages_after <= target


def test_an_older_step_that_does_not_fit_stays_with_its_results_shortened():
    newer = [each for n in range(20) for each in called(n + 1, words(150))]
    items = [user("Look at the log."), *called(0, words(40_000)), *newer, said("Done.")]
    result = compact(items, model=MODEL, target_tokens=25_000, overhead_tokens=0)
    assert result.report.messages_after >= 25_000 * 95 // 100
    assert list(result.messages[-41:-1]) == newer
    assert "w0 w7919" in str(result.messages[-42])


def test_a_result_is_not_cut_for_less_than_the_mark_of_the_cut_takes():
    items = called(0, words(200))
    size = len(items[1]["content"][0]["content"]) // 4
    same, freed = shorter_results(items, 1, lambda text: len(text) // 4)
    assert (list(same), freed) == (items, 0)
    shorter, freed = shorter_results(items, size // 2, lambda text: len(text) // 4)
    assert freed > 50
    assert shorter != tuple(items)


def called(number: int, output: str) -> list[dict]:
    use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": output}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def test_a_large_newest_round_leaves_the_summary_the_room_of_the_target():
    talk = [m for n in range(200) for m in (user(f"Look at part {n}."), said(words(120)))]
    items = [*talk, user("read it"), *called(0, words(34_000))]
    report = compact(items, model=MODEL, target_tokens=140_000, overhead_tokens=0).report
    assert report.messages_after > 110_000  # the round stays
    # Of which 400 would be left without it; 1 % of the target may stay free.
    assert report.summary_tokens > 1_500


@pytest.mark.parametrize("target", [250, 300, 400])
def test_a_message_without_the_ends_of_sentences_stands_whole_once(target):
    request = " ".join(f"part{n * 7919 % 997}" for n in range(60))
    items = [user(request), *(each for n in range(20) for each in called(n, words(200)))]
    result = compact(items, model=MODEL, target_tokens=target, overhead_tokens=0, keep=0)
    text = str(result.summary_messages[0]["content"])
    assert text.count(request) == 1
    assert "left out …]" not in text.replace("characters left out …]", "")


def test_a_target_takes_few_summaries(monkeypatch):
    written = Counter()
    summarize = ExtractiveSummarizer.in_pieces

    def counted(self, request):
        written[seed] += 1
        return summarize(self, request)

    monkeypatch.setattr(ExtractiveSummarizer, "in_pieces", counted)
    targets, seeds = range(900, 4_500, 300), range(4)
    for seed, target in itertools.product(seeds, targets):
        compact(conversation(seed=seed, tokens=40_000), model=MODEL, target_tokens=target, keep=0)
    assert written.total() <= 2 * len(targets) * len(seeds)
    assert max(written.values()) <= 2.5 * len(targets)


def test_the_smallest_target_is_looked_for_only_where_it_may_matter(monkeypatch):
    looks = Counter()
    least_messages = assemble.least_messages

    def counted(*args):
        looks[target] += 1
        return least_messages(*args)

    monkeypatch.setattr(assemble, "least_messages", counted)
    items = [user("Never push to main."), said("Yes."), *conversation(seed=2, tokens=40_000)]
    for target in (1_500, 15_000, 30_000):
        within = compact(items, model=MODEL, target_tokens=target)
        monkeypatch.setattr(assemble, "_fits_by_far", lambda *_: False)
        assert compact(items, model=MODEL, target_tokens=target).messages == within.messages
        monkeypatch.undo()
        monkeypatch.setattr(assemble, "least_messages", counted)
    assert looks == {1_500: 2, 15_000: 1, 30_000: 1}


@pytest.mark.parametrize("rules", [0, 5, 60, 400])
def test_what_surely_fits_is_more_than_what_must_stay(monkeypatch, rules):
    sizes = []
    fits = assemble._fits_by_far
    monkeypatch.setattr(assemble, "_fits_by_far", lambda *args: sizes.append(args) or False)
    words = [
        f"Always use port {8_000 + n}. No, use port {9_000 + n} instead." for n in range(rules)
    ]
    talk = [each for text in words for each in (user(text), said("Done. " * 60))]
    items = [*talk, user("Look at " + "every part " * 200), said("I have. " * 900)]
    with pytest.raises(ContextTooLarge) as caught:
        compact(items, model=MODEL, target_tokens=100, keep=0)
    least, state, others = sizes[-1]
    job = replace(state.job, target_tokens=caught.value.floor_tokens)
    assert not fits(least, replace(state, job=job), others)


def test_the_smallest_target_is_no_more_than_the_messages_have():
    items = [user("Fix the parser."), said("Done: the parser reads it.")]
    whole = estimate_tokens(items, model=MODEL)
    with pytest.raises(ContextTooLarge) as caught:
        compact(items, model=MODEL, target_tokens=whole - 1)
    assert caught.value.floor_tokens == whole
    assert compact(items, model=MODEL, target_tokens=whole).messages == tuple(items)


@pytest.mark.parametrize("target", [1_200, 4_000, 12_000])
def test_a_models_summary_that_uses_its_room_meets_the_target(target):
    rules = [user(f"Part {n}: never touch rule-{n}.") for n in range(12)]
    talk = [
        m for rule in rules for m in (rule, said(words(300)), *called(len(str(rule)), words(300)))
    ]
    result = compact(talk, model=MODEL, target_tokens=target, summarizer=as_long_as_allowed)
    assert target * 9 // 10 <= result.report.messages_after <= target
    assert "rule-0" in str(result.messages)


def test_results_give_way_to_a_models_summary_that_is_too_long():
    longer = lambda request: as_long_as_allowed(request) + " " + words(200)  # noqa: E731
    talk = [
        m for n in range(20) for m in (user(f"Part {n}."), *called(n, words(400)), said("Read."))
    ]
    result = compact(talk, model=MODEL, target_tokens=9_000, summarizer=longer)
    assert 9_000 * 9 // 10 <= result.report.messages_after <= 9_000
    assert words(200) in str(result.messages)
    assert validate(list(result.messages), provider="anthropic", model=MODEL).ok


def test_the_smallest_target_is_what_the_newest_message_needs_once():
    request = " ".join(f"part{n * 7919 % 997}" for n in range(60))
    items = [user("hello there"), user(request), *called(1, "row " * 30), *called(2, words(20))]
    with pytest.raises(ContextTooLarge) as caught:
        compact(items, model=MODEL, target_tokens=1, overhead_tokens=0, keep=0)
    least = caught.value.floor_tokens
    for target in (least, least + 20):
        result = compact(items, model=MODEL, target_tokens=target, overhead_tokens=0, keep=0)
        assert str(result.messages).count(request) == 1
        assert least - 10 <= result.report.messages_after <= target


@pytest.mark.parametrize(
    "words",
    [
        "user 93 #15, user 80 #25, user 37 #36, user 42 #39, user 99 #51, user 84 #56, user 2 #60",
        # The newest message was cut, though short older ones stayed, and stood below the summary as well.
        "user 2 #1, user 36 #5, user 53, assistant 44",
        "user 2, user 9 #3, tools 2+3, user 2, user 80, tools 3",
    ],
)
def test_the_smallest_target_is_met_with_the_newest_message_once(words):
    items = laws.chat(laws.case(words, 0).turns)
    with pytest.raises(ContextTooLarge) as caught:
        compact(items, model="gpt-4o", target_tokens=1)
    least = caught.value.floor_tokens
    left = compact(items, model="gpt-4o", target_tokens=least).report.messages_after
    assert least - 10 <= left <= least


@pytest.mark.parametrize("target", [800, 2_000, 3_000])
def test_the_users_own_words_do_not_say_that_the_summary_is_full(target):
    kept = []
    for word in ("felt", "left"):
        items = [user(f"Look at what was {word} out of the list.")]
        items += [each for n in range(8) for each in called(n, words(120))]
        report = compact(items, model=MODEL, target_tokens=target, overhead_tokens=0).report
        kept.append((report.messages_after, report.kept))
    assert kept[0] == kept[1]


def test_a_model_that_failed_is_not_asked_again_for_another_length():
    asked = []

    def down(request):
        asked.append(1)
        raise ValueError("down")

    once = Policy(summary=SummaryPolicy(retries=0))
    items = conversation(seed=1, tokens=40_000)
    result = compact(
        items, model=MODEL, target_tokens=1_500, trigger="auto", summarizer=down, policy=once
    )
    assert (len(asked), result.report.summarizer) == (1, "extractive")
    assert 1_350 < result.report.messages_after <= 1_500


@pytest.mark.both_engines
@pytest.mark.parametrize("target", [6_000, 12_000])
def test_the_room_of_a_file_is_used_for_what_the_newest_calls_returned(target):
    """Its lines stay as they are: no result can be shortened where the next older step does not fit."""
    rows = "\n".join(words(40) for _ in range(400))
    calls = [m for n in range(6) for m in called(n, f"part{n} {rows}")]
    items = entries([user("Look at each part."), *calls, said("All are read.")])
    result = compact(items, model=MODEL, target_tokens=target)
    assert target * 9 // 10 <= result.report.messages_after <= target
    text = str(result.summary_messages[0]["message"]["content"])
    for n in range(6):
        assert f"part{n} {words(40)}" in text
    record = [json.dumps(compaction_record(items, result)).encode()]
    log = b"".join(json.dumps(one).encode() + b"\n" for one in items)
    assert not LogCheck(log, b"\n".join(record)).problems
    # The room of the next summary is for what was returned since.
    calls = [m for n in (8, 9) for m in called(n, f"part{n} {rows}")]
    newer = entries([user("Go on."), *calls, said("Read too.")], first=100)
    again = compact([*result.messages, *newer], model=MODEL, target_tokens=target)
    text = str(again.summary_messages[0]["message"]["content"])
    assert [f"part{n} {words(40)}" in text for n in (5, 8, 9)] == [False, True, True]


def test_what_was_only_waited_for_is_no_excerpt():
    def waited(n: int) -> list[dict]:
        use = {"type": "tool_use", "id": f"w{n}", "name": "BashOutput", "input": {"bash_id": "1"}}
        result = {"type": "tool_result", "tool_use_id": f"w{n}", "content": f"still running {n}"}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    facts = collect([*called(1, words(900)), *(m for n in range(30) for m in waited(n))])
    request = SummaryRequest(messages=(), prompt="", facts=facts, excerpts=True)
    text = ExtractiveSummarizer().summarize(request).text
    assert words(900) in text
    assert "text\nstill running" not in text
