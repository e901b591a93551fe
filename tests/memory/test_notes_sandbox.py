"""The memory folder's walls: no path, link, race or spelling leads out of it."""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from ullage.exceptions import LogConflict, PathRefused, StoreError
from ullage.memory.notes.folder import MAX_FILE_BYTES, Sandbox, checked_parts


@pytest.fixture
def box(tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    return Sandbox(tmp_path / "memory")


ESCAPES = [
    "../secret.md",
    "a/../../secret.md",
    "/etc/passwd",
    "~/x.md",
    "C:/x.md",
    "a//b.md",
    "./a.md",
    "a\\..\\b.md",
    "a\0.md",
    "a\n.md",
    "a\u202e.md",  # turns the text's direction
    "a\u200b.md",  # invisible
    "．．/secret.md",  # full-width dots
    "a∕b.md".replace("∕", "／"),  # a slash of full width
    "ＭEMORY.md",
    "МEMORY.md",  # a Cyrillic М
    "ﬁle.md",
    ".hidden",
    ".lock",
    "trailing.",
    "trailing ",
    " leading.md",
    "con",
    "NUL.md",
    "com1.txt",
    "a:stream.md",
    "what?.md",
    "x" * 300 + ".md",
    "a/" * 20 + "b.md",
    "\ud800.md",
    "",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_paths_that_could_leave_are_refused_everywhere(box, path):
    box.write("kept.md", b"kept")
    for act in (
        box.read,
        box.delete,
        lambda name: box.write(name, b"x"),
        lambda name: box.rename("kept.md", name),
        lambda name: box.rename(name, "other.md"),
    ):
        with pytest.raises(PathRefused) as caught:
            act(path)
        assert caught.value.path == path
    assert box.read("kept.md") == b"kept"
    assert [info.path for info in box.files()] == ["kept.md"]


@pytest.mark.parametrize("path", [None, 3, b"a.md", ["a.md"]])
def test_a_path_must_be_text(path):
    with pytest.raises(PathRefused):
        checked_parts(path)


@pytest.mark.parametrize(
    "path", ["a.md", "team/a.md", "größe.md", "заметка.md", "笔记.md", "a-b_c.1.md", "no-ending"]
)
def test_plain_names_of_any_script_are_fine(box, path):
    box.write(path, b"text")
    assert box.read(path) == b"text"
    assert [info.path for info in box.files()] == [path]


@settings(max_examples=200)
@given(st.text(max_size=40))
def test_whatever_is_accepted_stays_inside(tmp_path_factory, path):
    try:
        parts = checked_parts(path)
    except PathRefused:
        return
    root = tmp_path_factory.getbasetemp() / "root"
    assert os.path.normpath(root.joinpath(*parts)).startswith(str(root))


def test_links_are_never_followed(box, tmp_path):
    box.write("a.md", b"x")
    (box.root / "out.md").symlink_to(tmp_path / "secret.md")
    (box.root / "outside").symlink_to(tmp_path)
    (box.root / "loop").symlink_to("loop")
    for path in ("out.md", "outside/secret.md", "loop"):
        with pytest.raises(PathRefused, match="link"):
            box.read(path)
        with pytest.raises(PathRefused, match="link"):
            box.write(path, b"changed")
    with pytest.raises(PathRefused):
        box.rename("out.md", "b.md")
    assert (tmp_path / "secret.md").read_text() == "secret"
    assert [info.path for info in box.files()] == ["a.md"]


def test_what_is_no_file_is_refused(box):
    box.write("a.md", b"x")
    os.mkfifo(box.root / "pipe.md")
    (box.root / "folder.md").mkdir()
    for path in ("pipe.md", "folder.md"):
        with pytest.raises((PathRefused, StoreError)):
            box.read(path)
        with pytest.raises((PathRefused, StoreError)):
            box.delete(path)


def test_another_spelling_of_a_file_is_refused(box):
    box.write("Notes.md", b"x")
    with pytest.raises(PathRefused, match="only in case"):
        box.write("notes.md", b"y")
    with pytest.raises(PathRefused, match="only in case"):
        box.write("NOTES.MD", b"y")
    box.write("Team/a.md", b"x")
    with pytest.raises(PathRefused, match="only in case"):
        box.write("team/a.md", b"y")


def test_a_link_put_in_place_meanwhile_is_not_followed(box, tmp_path):
    """One thread turns a folder into a link and back, another writes: nothing ever lands outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    box.write("sub/seed.md", b"x")
    stop, flips = threading.Event(), []

    def flip():
        while not stop.is_set():
            with suppress(OSError):  # the writer may have made a folder of that name meanwhile
                flips.append(None)
                (box.root / "sub").rename(box.root / f"parked-{len(flips)}")
                (box.root / "sub").symlink_to(outside)
                (box.root / "sub").unlink()

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for number in itertools.count():
            if number >= 300 and len(flips) > 20:
                break
            with suppress(PathRefused, StoreError, LogConflict):
                box.write(f"sub/n{number % 5}.md", b"text")
    finally:
        stop.set()
        thread.join()
    assert list(outside.iterdir()) == []


def test_sizes_are_limited_both_ways(box):
    with pytest.raises(StoreError, match="limit"):
        box.write("big.md", b"x" * (MAX_FILE_BYTES + 1))
    assert list(box.files()) == []
    box.write("a.md", b"x")
    (box.root / "grown.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(StoreError, match="more than"):
        box.read("grown.md")


def test_a_file_that_changed_is_not_overwritten(box):
    box.write("a.md", b"one")
    (box.root / "a.md").write_bytes(b"edited by a person")
    with pytest.raises(LogConflict):
        box.write("a.md", b"two", expected=b"one")
    with pytest.raises(LogConflict):
        box.write("a.md", b"two", new=True)
    assert box.read("a.md") == b"edited by a person"
    box.write("a.md", b"two", expected=b"edited by a person")
    assert box.read("a.md") == b"two"
    assert sorted(path.name for path in box.root.iterdir()) == ["a.md"]  # no drafts left


def test_a_full_disk_changes_nothing(box, monkeypatch):
    box.write("a.md", b"one")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        box.write("a.md", b"two")
    monkeypatch.undo()
    assert box.read("a.md") == b"one"
    assert sorted(path.name for path in box.root.iterdir()) == ["a.md"]


def test_a_rename_never_replaces(box):
    box.write("a.md", b"a")
    box.write("b.md", b"b")
    with pytest.raises(LogConflict):
        box.rename("a.md", "b.md")
    box.rename("a.md", "deep/er/c.md")
    assert {info.path for info in box.files()} == {"b.md", "deep/er/c.md"}


def test_the_root_may_be_a_link_of_the_hosts(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "memory").symlink_to(tmp_path / "real")
    box = Sandbox(tmp_path / "memory")
    box.write("a.md", b"x")
    assert (tmp_path / "real" / "a.md").read_bytes() == b"x"


def test_a_hard_link_to_a_file_outside_is_refused(box, tmp_path):
    box.write("a.md", b"a")
    (tmp_path / "memory" / "hard.md").hardlink_to(tmp_path / "secret.md")
    (tmp_path / "memory" / "own.md").hardlink_to(tmp_path / "memory" / "a.md")
    with pytest.raises(PathRefused, match="hard link"):
        box.read("hard.md")
    with pytest.raises(PathRefused):
        box.write("hard.md", b"new", expected=b"secret")
    assert (tmp_path / "secret.md").read_text() == "secret"
    assert box.read("own.md") == b"a"  # both names lie inside, as while a file is put in place
    assert box.located("hard.md") is None


def test_a_note_is_readable_while_others_are_put_in_place(box):
    """A new file and one that is renamed have two names for a moment."""
    stop = threading.Event()
    box.write("n.md", b"x", new=True)

    def churn():
        for number in itertools.count():
            if stop.is_set():
                return
            with suppress(StoreError, LogConflict):
                box.rename("n.md", "m.md") if number % 2 else box.rename("m.md", "n.md")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(300):
            with suppress(StoreError):
                assert box.read("n.md") == b"x"
    finally:
        stop.set()
        thread.join()
