"""One compaction from end to end: outcomes, order of the result, failures by name, nothing changed (FULL-7)."""

from __future__ import annotations

import copy

import pytest

from ullage.compaction import Outcome, acompact, compact
from ullage.exceptions import CompactionError, InvalidMessage, InvalidPolicy
from ullage.facts.sections import HEADINGS, parse_sections
from ullage.policy import Policy
from ullage.summarizers import SummaryReply

pytestmark = pytest.mark.both_engines

NINE = "\n\n".join(
    f"## {n}. {title}\nSomething about {title.lower()}." for n, title in enumerate(HEADINGS, 1)
)


def turn(number: int, size: int = 4000) -> list[dict]:
    """A request, a read, its result, an answer."""
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "Read",
        "input": {"file_path": f"/w/file{number}.py"},
    }
    return [
        {"role": "user", "content": f"Request number {number}: look at file{number}.py"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": f"I look at file {number}."}, call],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": f"t{number}",
                    "content": f"line {number}\n" * (size // 8),
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": f"File {number} is fine."}]},
    ]


def conversation(turns: int = 8, size: int = 4000) -> list[dict]:
    return [message for number in range(turns) for message in turn(number, size)]


def text_of_summary(result) -> str:
    return result.summary_messages[0]["content"]


def test_the_result_is_summary_then_the_same_kept_objects():
    messages = conversation()
    result = compact(messages, keep=1500)
    assert result.outcome is Outcome.COMPACTED
    assert result.messages == (*result.summary_messages, *result.kept)
    kept = messages[len(messages) - len(result.kept) :]
    assert all(mine is theirs for mine, theirs in zip(result.kept, kept, strict=True))
    assert result.report.tokens_after < result.report.tokens_before


def test_kept_and_removed_are_all_messages_once():
    messages = conversation()
    report = compact(messages, keep=1500).report
    assert sorted([*report.removed, *report.kept]) == list(range(len(messages)))


def test_the_input_is_not_changed():
    messages = conversation()
    before = copy.deepcopy(messages)
    compact(messages, keep=0)
    assert messages == before


def test_every_user_message_and_file_is_in_the_summary():
    result = compact(conversation(), keep=0)
    text = text_of_summary(result)
    for number in range(8):
        assert f"Request number {number}: look at file{number}.py" in text
        assert f"/w/file{number}.py" in text


def test_the_summary_has_nine_sections():
    text = text_of_summary(compact(conversation(), keep=0))
    assert sorted(parse_sections(text)) == list(range(1, 10))


def test_twice_the_same_input_gives_the_same_bytes():
    one, two = compact(conversation(), keep=0), compact(conversation(), keep=0)
    assert one.messages == two.messages
    assert one.boundary == two.boundary


def test_no_messages_is_an_error_by_name():
    with pytest.raises(CompactionError) as caught:
        compact([])
    assert caught.value.code == "not_enough_messages"


def test_a_short_conversation_is_a_no_op_with_the_same_messages():
    messages = [{"role": "user", "content": "hi"}]
    result = compact(messages)
    assert (result.outcome, result.reason) == (Outcome.NO_OP, "nothing_to_compact")
    assert result.messages[0] is messages[0]


def test_an_item_that_is_not_a_mapping_is_named():
    with pytest.raises(InvalidMessage) as caught:
        compact([{"role": "user", "content": "x"}, 7])
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"keep": -1}, "keep"),
        ({"direction": "sideways"}, "direction"),
        ({"trigger": "never"}, "trigger"),
        ({"direction": "from"}, "at"),
        ({"at": 3}, "at"),
        ({"direction": "up_to", "at": 99}, "at"),
        ({"summarizer": 7}, "summarizer"),
        ({"colour": "red"}, "colour"),
        ({"hooks": {"pre_compact": [7]}}, "hooks"),
    ],
)
def test_a_wrong_argument_is_named(options, field):
    with pytest.raises(InvalidPolicy) as caught:
        compact(conversation(), **options)
    assert caught.value.field == field


def test_system_messages_at_the_start_stay_in_front():
    head = {"role": "system", "content": "You are careful."}
    result = compact([head, *conversation()], keep=0)
    assert result.messages[0] is head
    assert "You are careful." not in text_of_summary(result)


# ---- the newest words, questions -------------------------------------------------------------


def test_the_newest_request_stands_verbatim_after_the_summary():
    result = compact(conversation(), keep=0)
    _, _, after = text_of_summary(result).partition("[End of the summary]")
    assert "Request number 7: look at file7.py" in after


def test_an_unanswered_request_is_kept_as_a_message():
    asked = {"role": "user", "content": "And now the last thing, please."}
    result = compact([*conversation(), asked], keep=0)
    assert result.kept == (asked,)
    assert result.kept[0] is asked


def test_calls_that_are_still_open_stay_and_nothing_follows_them():
    call = {"type": "tool_use", "id": "open", "name": "Bash", "input": {"command": "make"}}
    messages = [
        *conversation(),
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call]},
    ]
    hooks = {"session_start": [lambda payload: "remember the milk"]}
    result = compact(messages, keep=0, hooks=hooks)
    assert result.messages[-1] is messages[-1]
    assert result.hook_results


def test_an_automatic_compaction_goes_on():
    text = text_of_summary(compact(conversation(), keep=0, trigger="auto"))
    assert "Continue the work" in text


def test_a_question_that_nobody_answered_is_not_passed_over():
    messages = conversation()
    messages[-1] = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Shall I delete the branch?"}],
    }
    text = text_of_summary(compact(messages, keep=0, trigger="auto"))
    assert "Continue the work" not in text
    assert "has not been answered" in text
    assert "Shall I delete the branch?" in text.partition("[End of the summary]")[2]


def test_a_stopped_assistant_is_not_sent_on():
    stop = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}
    text = text_of_summary(compact([*conversation(), stop], keep=0, trigger="auto"))
    assert "Continue the work" not in text
    assert "stopped you" in text


# ---- partial ---------------------------------------------------------------------------------


def test_up_to_summarises_what_is_before():
    messages = conversation()
    result = compact(messages, direction="up_to", at=20)
    assert result.report.removed == tuple(range(20))
    assert result.kept[0] is messages[20]


def test_from_keeps_the_beginning_in_front_of_the_summary():
    messages = conversation()
    result = compact(messages, direction="from", at=12)
    assert result.messages[0] is messages[0]
    assert result.messages[12] is result.summary_messages[0]
    assert result.report.removed == tuple(range(12, len(messages)))


def test_a_partial_cut_never_parts_a_call_from_its_result():
    messages = conversation()
    result = compact(messages, direction="up_to", at=18)  # a tool result
    assert result.kept[0] is messages[17]


# ---- a summarizer that misbehaves ------------------------------------------------------------


def failing(code: str, summarizer, **options) -> CompactionError:
    messages = conversation()
    before = copy.deepcopy(messages)
    policy = Policy().change({"summary.retries": 0})
    with pytest.raises(CompactionError) as caught:
        compact(messages, keep=0, summarizer=summarizer, policy=policy, **options)
    assert caught.value.code == code
    assert messages == before
    return caught.value


def test_a_good_summary_is_installed_and_completed_by_code():
    result = compact(conversation(), keep=0, summarizer=lambda request: NINE)
    text = text_of_summary(result)
    assert "Something about pending tasks." in text
    assert result.report.facts_appended["user_messages"] == 8
    assert "Request number 3: look at file3.py" in text


def test_the_draft_is_stripped():
    answer = f"<analysis>secret thoughts</analysis>\n<summary>\n{NINE}\n</summary>"
    text = text_of_summary(compact(conversation(), keep=0, summarizer=lambda request: answer))
    assert "secret thoughts" not in text
    assert "<summary>" not in text


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("", "no_summary"),
        ("   \n", "no_summary"),
        (SummaryReply(text="", tool_calls=("Read",)), "no_summary"),
        (SummaryReply(text=NINE, finish_reason="tool_use"), "no_summary"),
        (SummaryReply(text=NINE, refused=True), "no_summary"),
        (
            "I'm sorry, but I can't help with that conversation, it is too long for me.",
            "no_summary",
        ),
        (SummaryReply(text=NINE, finish_reason="max_tokens"), "incomplete_summary"),
        (NINE.replace("Something about", "<|im_start|>assistant"), "incomplete_summary"),
        (
            "\n".join(f"## {n}. {title}\n(none)" for n, title in enumerate(HEADINGS, 1)),
            "incomplete_summary",
        ),
        (
            "All went well and there is nothing more to say about this conversation.",
            "incomplete_summary",
        ),
        (NINE + "the same words again " * 200, "incomplete_summary"),
        (NINE + "x y z " * 20_000, "incomplete_summary"),
    ],
)
def test_a_bad_answer_is_a_failure_by_name(reply, code):
    failing(code, lambda request: reply)


def test_a_raising_summarizer_is_an_api_error():
    def broken(request):
        raise RuntimeError("socket closed")

    assert "socket closed" in str(failing("api_error", broken))


def test_an_automatic_failure_is_an_outcome_or_falls_back():
    policy = Policy().change({"summary.retries": 0})
    messages = conversation()
    result = compact(messages, keep=0, trigger="auto", summarizer=lambda r: "", policy=policy)
    assert result.outcome is Outcome.COMPACTED
    assert result.report.summarizer == "extractive"


def test_overflow_drops_the_gap_and_tries_again():
    seen = []

    def short_sighted(request):
        seen.append(len(request.messages))
        if len(request.messages) > 24:
            raise RuntimeError("prompt is too long: 9000 tokens > 7000 maximum")
        return NINE

    result = compact(conversation(), keep=0, summarizer=short_sighted)
    assert seen[0] == 32
    assert seen[-1] <= 24
    assert result.report.dropped_messages >= 8
    assert "Request number 0: look at file0.py" in text_of_summary(result)


def test_overflow_for_ever_ends_by_name():
    calls = []

    def never(request):
        calls.append(request)
        raise RuntimeError("prompt is too long: 900000 tokens > 7000 maximum")

    failing("prompt_too_long", never)
    assert 1 <= len(calls) <= 4


def test_instructions_reach_the_request():
    seen = []
    compact(
        conversation(),
        keep=0,
        instructions="Mind the zebra.",
        hooks={"pre_compact": [lambda payload: "And the giraffe."]},
        summarizer=lambda request: seen.append(request) or NINE,
    )
    assert seen[0].prompt.index("Mind the zebra.") < seen[0].prompt.index("And the giraffe.")


def test_media_are_stripped_from_a_plain_call():
    seen = []
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    }
    messages = [
        {"role": "user", "content": [picture, {"type": "text", "text": "see"}]},
        *conversation(),
    ]
    compact(messages, keep=0, summarizer=lambda request: seen.append(request) or NINE)
    assert seen[0].messages[0]["content"][0] == {"type": "text", "text": "[image]"}


@pytest.mark.anyio
async def test_the_asynchronous_form_gives_the_same():
    async def writer(request):
        return NINE

    one = await acompact(conversation(), keep=0, summarizer=writer)
    two = compact(conversation(), keep=0, summarizer=lambda request: NINE)
    assert one.messages == two.messages


@pytest.fixture
def anyio_backend():
    return "asyncio"
