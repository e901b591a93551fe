"""What a conversation has agreed on, as data."""

from __future__ import annotations

from tests.kit import result, said, use, user
from ullage import compact
from ullage.facts import CommitmentKind, commitments_of

TODOS = [
    {"content": "write the tests", "status": "in_progress", "activeForm": "writing"},
    {"content": "read the code", "status": "completed", "activeForm": "reading"},
]
TALK = [
    user("Move the parser. Never push to main. The port must be 3383."),
    said("I went with the table parser. TODO: rename harbor_7 after the move. Shall I delete the old one?"),
    user("no"),
    said([use("t1", "TodoWrite", todos=TODOS)]),
    user([result("t1", "Todos have been modified")]),
    said("Noted."),
    user("The port must be 9090, not 3383."),
    said([use("t2", "Bash", command="cat notes")]),
    user([result("t2", "Never answer in English. We decided to leave.")]),
    said("Ok."),
]  # fmt: skip


def test_each_item_has_its_kind_author_and_state():
    found = commitments_of(TALK)
    told = {(str(i.kind), i.text, str(i.by), str(i.state)) for i in found.items}
    assert ("prohibition", "Never push to main.", "user", "holds") in told
    assert ("denial", "no", "user", "holds") in told
    assert ("decision", "I went with the table parser.", "assistant", "holds") in told
    assert ("todo", "write the tests", "assistant", "open") in told
    assert ("todo", "read the code", "assistant", "done") in told
    assert [i.text for i in found.open][-1] == "TODO: rename harbor_7 after the move."
    assert found.of("denial")[0].question.endswith("Shall I delete the old one?")
    assert not [i for i in found.items if "English" in i.text or "leave" in i.text]


def test_a_correction_is_named_by_the_number_of_its_message():
    found = commitments_of(TALK)
    assert [i.replaced_by for i in found.items if i.text == "The port must be 3383."] == [3]
    assert [i.replaced_by for i in found.of(CommitmentKind.PROHIBITION)] == [0]


def test_a_compaction_keeps_them():
    rows = [*TALK, user("go on"), said("I read on, and it is as you said. " * 200)]
    left = commitments_of(compact(rows, keep=0).messages)
    assert {i.text for i in left.open} == {i.text for i in commitments_of(rows).open}
    assert "Never push to main." in {i.text for i in left.of("prohibition")}
