"""The provider's memory tool over a memory folder."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.oracle.legality import assert_legal
from ullage.memory.notes import MemoryFolder, MemoryTool


@pytest.fixture
def tool(tmp_path):
    (tmp_path / "secret").write_text("secret")
    return MemoryTool(MemoryFolder(tmp_path / "memory"))


def make(tool, path="/memories/a.md", text="one\ntwo\nthree\n"):
    return tool.call({"command": "create", "path": path, "file_text": text})


def test_a_file_is_created_seen_changed_and_deleted(tool):
    assert make(tool) == ("File created successfully at: /memories/a.md", False)
    assert tool.call({"command": "view", "path": "/memories/a.md"}).text == (
        "Here's the content of /memories/a.md with line numbers:\n     1\tone\n     2\ttwo\n     3\tthree\n     4\t"
    )
    shown = tool.call({"command": "view", "path": "/memories/a.md", "view_range": [2, 3]}).text
    assert shown.endswith("     2\ttwo\n     3\tthree")
    changed = tool.call(
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "two", "new_str": "2"}
    )
    assert changed.text.startswith("The memory file has been edited.")
    assert "     2\t2" in changed.text
    given = {
        "command": "insert",
        "path": "/memories/a.md",
        "insert_line": 0,
        "insert_text": "zero\n",
    }
    assert tool.call(given).text == "The file /memories/a.md has been edited."
    assert tool.folder.sandbox.read("a.md") == b"zero\none\n2\nthree\n"
    moved = {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b/c.md"}
    assert tool.call(moved).text == "Successfully renamed /memories/a.md to /memories/b/c.md"
    assert (
        tool.call({"command": "delete", "path": "/memories/b"}).text
        == "Successfully deleted /memories/b"
    )
    assert list(tool.folder.sandbox.files()) == []


def test_folders_are_listed_two_levels_deep(tool):
    make(tool, "/memories/a.md", "x" * 1536)
    make(tool, "/memories/deep/er/est.md", "yy")
    text = tool.call({"command": "view", "path": "/memories"}).text
    assert text.split("\n")[1:] == [
        "1.5K\t/memories",
        "1.5K\t/memories/a.md",
        "2B\t/memories/deep/",
        "2B\t/memories/deep/er/",
    ]
    inner = tool.call({"command": "view", "path": "/memories/deep"}).text
    assert inner.endswith("2B\t/memories/deep/er/est.md")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"command": "view", "path": "/memories/none.md"}, "does not exist"),
        ({"command": "create", "path": "/memories/a.md", "file_text": "x"}, "already exists"),
        (
            {"command": "str_replace", "path": "/memories/a.md", "old_str": "nine", "new_str": ""},
            "did not appear",
        ),
        (
            {"command": "str_replace", "path": "/memories/a.md", "old_str": "o", "new_str": ""},
            "in lines: 1, 2",
        ),
        (
            {"command": "str_replace", "path": "/memories/a.md", "old_str": "", "new_str": "x"},
            "did not appear",
        ),
        (
            {"command": "insert", "path": "/memories/a.md", "insert_line": 9, "insert_text": "x"},
            "[0, 3]",
        ),
        (
            {
                "command": "insert",
                "path": "/memories/a.md",
                "insert_line": True,
                "insert_text": "x",
            },
            "Invalid",
        ),
        ({"command": "delete", "path": "/memories"}, "Cannot delete"),
        ({"command": "delete", "path": "/memories/none.md"}, "does not exist"),
        (
            {"command": "rename", "old_path": "/memories", "new_path": "/memories/x"},
            "Cannot rename",
        ),
        (
            {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"},
            "already exists",
        ),
        ({"command": "format", "path": "/memories"}, "Unknown command"),
        ({"command": ["view"]}, "Unknown command"),
        ({}, "Unknown command"),
        ({"command": "view", "path": 3}, "must be a string"),
        ({"command": "create", "path": "/memories/c.md", "file_text": "x" * 1_000_001}, "limit"),
    ],
)
def test_bad_input_is_an_answer_not_an_exception(tool, given, says):
    make(tool)
    make(tool, "/memories/b.md")
    answer = tool.call(given)
    assert answer.is_error
    assert says in answer.text
    assert tool.folder.sandbox.read("a.md") == b"one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../secret",
        "/memories/./a",
        "/memories/a/../../secret",
        "/memories/a\\b",
        "/memories/\0",
        "/memories/．．/secret",
    ],
)
def test_paths_that_leave_are_refused_and_kept(tool, path):
    for command in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "delete", "path": path},
    ):
        assert tool.call(command).is_error
    assert tool.refused


@pytest.mark.parametrize("path", ["/etc/passwd", "memories/a.md", "/memoriesx/a", ""])
def test_paths_elsewhere_are_named(tool, path):
    assert "Path must start with /memories" in tool.call({"command": "view", "path": path}).text


COMMANDS = st.fixed_dictionaries(
    {},
    optional={
        "command": st.sampled_from(["view", "create", "str_replace", "insert", "delete", "rename", "x"]),
        **{
            key: st.one_of(st.text(max_size=8), st.sampled_from(["/memories/a.md", "/memories/b", "/memories/../x"]), st.integers())
            for key in ("path", "old_path", "new_path", "file_text", "old_str", "new_str", "insert_text", "insert_line")
        },
        "view_range": st.lists(st.integers(), max_size=3),
    },
)  # fmt: skip


@given(st.lists(COMMANDS, max_size=8))
def test_no_input_raises_or_leaves(tmp_path_factory, commands):
    root = tmp_path_factory.mktemp("tool")
    (root / "x").write_text("kept")
    tool = MemoryTool(MemoryFolder(root / "memory"))
    for given_ in commands:
        assert isinstance(tool.call(given_).text, str)
    assert (root / "x").read_text() == "kept"
    assert {path.name for path in root.iterdir()} <= {"x", "memory"}


def test_answers_are_legal_results(tool):
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "memory",
        "input": {"command": "view", "path": "/memories"},
    }
    answer = tool.call(call["input"])
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": answer.text,
        "is_error": answer.is_error,
    }
    assert_legal(
        "anthropic",
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    )


_GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("\ud800") | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_PATHS = st.sampled_from(
    ["/memories/a.md", "/memories", "/memories/\ud800", "/memories/\0", "/memories/" + "x" * 300]
)


@given(given=_GARBAGE | st.fixed_dictionaries(
    {"command": st.sampled_from(["view", "create", "str_replace", "insert", "delete", "rename"])},
    optional=dict.fromkeys(("path", "old_path", "new_path", "file_text", "old_str", "new_str", "insert_line", "insert_text", "view_range"), _GARBAGE | _PATHS)))  # fmt: skip
def test_whatever_a_model_writes_gets_an_answer(tmp_path_factory, given):
    tool = MemoryTool(MemoryFolder(tmp_path_factory.mktemp("memory")))
    make(tool)
    answer = tool.call(given)
    assert answer.text
    assert isinstance(answer.is_error, bool)
    if not isinstance(given, dict) or "command" not in given:
        assert answer.is_error
