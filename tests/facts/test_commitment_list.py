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


def test_two_values_of_one_message_are_corrected_by_two_others():
    ask = "The port must be 3383. The host must be a.example. Never push to main."
    talk = [user(ask), user("Use 9090 instead of 3383."), user("Use b.example instead of a.example.")]  # fmt: skip
    rows = {i.text: i.replaced_by for i in commitments_of(talk).items if i.index == 0}
    assert rows == {
        "The port must be 3383.": 2,
        "The host must be a.example.": 3,
        "Never push to main.": 0,
    }


def ran(name: str, command: str, output: str, *, failed: bool = False) -> list[dict]:
    return [
        said([use(name, "Bash", command=command)]),
        user([result(name, output, is_error=failed)]),
    ]


def test_work_names_the_call_that_did_it_or_failed_at_it():
    talk = [
        user("Go on."),
        said("TODO: rename harbor_7 in the map. TODO: drop quay_3. TODO: archive dock_9."),
        *ran("a", "./rename harbor_7", "ok"),
        *ran("b", "./drop quay_3", "Error: quay_3 is locked", failed=True),
        *ran("c", "cat dock_9", "Error: no such file", failed=True),
        said("The map is done: harbor_7 is renamed in it."),
    ]
    rows = {i.text: (str(i.state), i.call, i.error) for i in commitments_of(talk).items}
    assert rows == {
        "TODO: rename harbor_7 in the map.": ("done", "a", ""),
        "TODO: drop quay_3.": ("failed", "b", "Error: quay_3 is locked"),
        "TODO: archive dock_9.": ("open", "", ""),
    }
    assert "TODO: drop quay_3." in {i.text for i in commitments_of(talk).open}
    again = [
        *talk,
        *ran("d", "./drop quay_3 --force", "ok"),
        user("Forget about archiving dock_9."),
    ]
    rows = {i.text: (str(i.state), i.call) for i in commitments_of(again).items}
    assert rows["TODO: drop quay_3."] == ("open", "d")
    assert rows["TODO: archive dock_9."] == ("withdrawn", "")
    kept = commitments_of(compact([*talk, user("go on"), said("I read. " * 400)], keep=0).messages)
    told = {i.text: (str(i.state), i.call, i.error) for i in kept.items if str(i.kind) == "todo"}
    assert told["TODO: drop quay_3."] == ("failed", "b", "Error: quay_3 is locked")
    assert told["TODO: rename harbor_7 in the map."] == ("done", "a", "")


def test_a_task_names_the_call_that_closed_it_or_failed_at_it():
    def todos(name, **states):
        rows = [{"content": k.replace("_", " "), "status": v} for k, v in states.items()]
        return [said([use(name, "TodoWrite", todos=rows)]), user([result(name, "ok")])]

    talk = [
        user("Go on."),
        *todos("t1", write_config_loader="in_progress", migrate_user_table="pending"),
        *ran("a", "./x migrate the user table", "Error: locked", failed=True),
        *todos("t2", write_config_loader="completed", migrate_user_table="pending"),
        *todos("t3", write_config_loader="completed", migrate_user_table="pending"),
    ]
    rows = {i.text: (str(i.state), i.call, i.error) for i in commitments_of(talk).items}
    assert rows == {
        "write config loader": ("done", "t2", ""),
        "migrate user table": ("failed", "a", "Error: locked"),
    }


def test_what_the_user_says_is_to_do_stays_the_users_through_a_compaction():
    rows = [user("TODO: rename harbor_7 later. TODO: drop quay_3."), said("I have renamed harbor_7.")]  # fmt: skip
    rows += [user("go on"), said("I read on, and it is as you said. " * 200)]
    for talk in (rows, list(compact(rows, keep=0).messages)):
        told = {(i.text, str(i.state), str(i.by)) for i in commitments_of(talk).of("todo")}
        assert told == {
            ("TODO: rename harbor_7 later.", "done", "user"),
            ("TODO: drop quay_3.", "open", "user"),
        }


def test_a_compaction_keeps_them():
    rows = [*TALK, user("go on"), said("I read on, and it is as you said. " * 200)]
    left = commitments_of(compact(rows, keep=0).messages)
    assert {i.text for i in left.open} == {i.text for i in commitments_of(rows).open}
    assert "Never push to main." in {i.text for i in left.of("prohibition")}
