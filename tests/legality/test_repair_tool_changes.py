"""Tools that come and go inside a conversation (A31): what is in order stays, second definitions and dead references go."""

from __future__ import annotations

import pytest

from ullage.legality.repairs import repair

LATE = {"name": "Late", "description": "d", "input_schema": {"type": "object"}}
READ = {"name": "Read", "input_schema": {"type": "object"}}
AS_IT_IS = {"type": "tool_addition", "tool": LATE}
WRAPPED = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": LATE}}
GONE = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Gone"}}
BACK = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Late"}}
TAKEN = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Late"}}
SERVER = {
    "type": "tool_addition",
    "tool": {"type": "mcp_toolset_reference", "server_name": "s"},
}
BETAS = ["mid-conversation-tool-changes-2026-07-01"]


def talk(*changes):
    """A conversation in which these come one after another, and the tool is called at the end."""
    said = [{"role": "user", "content": "q"}]
    for change in changes:
        said += [
            {"role": "system", "content": [change]},
            {"role": "assistant", "content": [{"type": "text", "text": "x"}]},
            {"role": "user", "content": "y"},
        ]
    call = {"type": "tool_use", "id": "t1", "name": "Late", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    return [
        *said,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


def changes_of(messages):
    return [block for each in messages if each["role"] == "system" for block in each["content"]]


@pytest.mark.parametrize("first", [AS_IT_IS, WRAPPED])
@pytest.mark.parametrize("second", [AS_IT_IS, WRAPPED])
@pytest.mark.parametrize("tools", [[READ], None])
def test_a_second_definition_goes_and_the_first_stays(first, second, tools):
    done = repair(talk(first, second), tools=tools, betas=BETAS)
    assert [each.rule for each in done.repairs] == ["A31"]
    assert (changes_of(done.messages), done.left) == ([first], ())


def test_a_reference_to_nothing_goes():
    done = repair(talk(AS_IT_IS, GONE), tools=[READ], betas=BETAS)
    assert (changes_of(done.messages), done.left) == ([AS_IT_IS], ())


def test_where_nobody_says_which_tools_there_are_references_stay():
    done = repair(talk(GONE, AS_IT_IS, AS_IT_IS), tools=None, betas=BETAS)
    assert (changes_of(done.messages), done.left) == ([GONE, AS_IT_IS], ())


@pytest.mark.parametrize(
    "changes", [(AS_IT_IS, TAKEN, BACK), (WRAPPED, SERVER), (SERVER, AS_IT_IS)]
)
def test_what_is_in_order_is_not_touched(changes):
    given = talk(*changes)
    done = repair(given, tools=[READ], betas=BETAS)
    assert done.messages is given


def test_what_a_server_holds_stays_next_to_what_must_go():
    done = repair(talk(SERVER, AS_IT_IS, GONE), tools=[READ], betas=BETAS)
    assert (changes_of(done.messages), done.left) == ([SERVER, AS_IT_IS], ())


def test_the_same_object_twice_goes_once():
    message = {"role": "system", "content": [AS_IT_IS]}
    said = [{"role": "user", "content": "q"}, message]
    given = [*said, {"role": "assistant", "content": "x"}, *said, *talk()[1:]]
    done = repair(given, tools=[READ], betas=BETAS)
    assert (changes_of(done.messages), done.left) == ([AS_IT_IS], ())
