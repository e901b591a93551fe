"""The session notes on the disk: links and other traps, several writers, a user who edits, a process that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.memory import session_notes_kit as KIT
from ullage.compaction.effects_runner import Performer
from ullage.effects import Call, drive
from ullage.exceptions import LogConflict, StoreError
from ullage.memory.session import SessionMemory
from ullage.memory.session.notes_folder import MAX_BYTES, NotesFolder
from ullage.memory.session.session_memory import UpdateJob, UpdateOutcome, update_flow
from ullage.memory.session.template import item_key

ABOUT, Editor, add, back, block = KIT.ABOUT, KIT.Editor, KIT.add, KIT.back, KIT.block
memory, record, talk, use = KIT.memory, KIT.record, KIT.talk, KIT.use


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "session-memory"


# ---- the file is not what it should be -------------------------------------------------------


def refused(folder: Path, word: str, *, config=()) -> None:
    report = SessionMemory(folder, mode="inline", config=config).update(talk())
    assert report.outcome is UpdateOutcome.FAILED
    assert word in report.reason


def test_a_notes_file_that_is_a_link_is_refused(folder, tmp_path):
    folder.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("# secret")
    (folder / "summary.md").symlink_to(secret)
    refused(folder, "link")
    assert secret.read_text() == "# secret"
    (folder / "summary.md").unlink()
    os.link(secret, folder / "summary.md")
    refused(folder, "hard links")
    assert secret.read_text() == "# secret"


@pytest.mark.parametrize("name", ["state.json", ".lock", "config/prompt.md", "config/template.md"])
def test_other_files_that_are_links_are_refused(folder, tmp_path, name):
    (folder / "config").mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (folder / name).symlink_to(secret)
    refused(folder, "link")
    assert secret.read_text() == "{}"


@pytest.mark.parametrize("name", ["", "config"])
def test_folders_that_are_links_are_refused(folder, tmp_path, name):
    other = tmp_path / "other"
    other.mkdir()
    (other / "prompt.md").write_text("evil")
    if name:
        folder.mkdir()
    (folder / name).symlink_to(other, target_is_directory=True)
    refused(folder, "link")
    assert sorted(p.name for p in other.iterdir()) == ["prompt.md"]


def test_a_session_folder_that_is_a_link_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "abc").symlink_to(elsewhere, target_is_directory=True)
    report = SessionMemory.for_session(root, "abc", mode="inline").update(talk())
    assert report.outcome is UpdateOutcome.FAILED
    assert list(elsewhere.iterdir()) == []


def test_pipes_folders_huge_and_binary_files_are_refused(folder):
    folder.mkdir()
    path = folder / "summary.md"
    os.mkfifo(path)
    refused(folder, "not a regular file")
    path.unlink()
    path.mkdir()
    refused(folder, "")
    path.rmdir()
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    refused(folder, "bytes")
    path.write_bytes(b"\xff\xfe\x00")
    refused(folder, "UTF-8")
    assert path.read_bytes() == b"\xff\xfe\x00"


@pytest.mark.parametrize(
    "name", ["../../etc", "/etc/x", "a/b", "..", "", "Ä", "a" * 300, "x\0y", "CON"]
)
def test_no_session_id_names_a_place_outside(tmp_path, name):
    kept = SessionMemory.for_session(tmp_path / "root", name, mode="inline")
    assert kept.update(talk()).outcome is UpdateOutcome.UPDATED
    assert kept.path.parent.parent.parent == tmp_path / "root"
    assert [p.name for p in tmp_path.iterdir()] == ["root"]


def test_a_broken_record_is_no_record(folder):
    kept = memory(folder)
    kept.update(talk(1))
    for data in (
        b"",
        b"{",
        b"[]",
        b'{"version": 99}',
        b'{"version": 1, "covered": 5, "generated": []}',
    ):
        (folder / "state.json").write_bytes(data)
        kept.update(talk(2))
        assert record(folder).covered == item_key(talk(2)[-1])
        assert kept.notes().count("Please do step 1 ") >= 1


def test_files_are_for_the_owner_only(folder):
    memory(folder).update(talk())
    assert (folder / "summary.md").stat().st_mode & 0o077 == 0
    assert (folder / "state.json").stat().st_mode & 0o077 == 0


# ---- several at once -------------------------------------------------------------------------


def test_two_sessions_of_one_project_do_not_touch(tmp_path):
    one = SessionMemory.for_session(tmp_path, "one", mode="thread")
    two = SessionMemory.for_session(tmp_path, "two", mode="thread")
    left, right = talk(30), talk(30, start=100)
    for at in range(4, 121, 4):
        one.answered(left[at - 1], left[:at], tokens=at * 10_000)
        two.answered(right[at - 1], right[:at], tokens=at * 10_000)
    assert one.wait(20)
    assert two.wait(20)
    one.update(left)
    two.update(right)
    assert "step 29 " in one.notes()
    assert "step 129 " not in one.notes()
    assert "step 129 " in two.notes()
    assert "step 29 " not in two.notes()


def test_notes_of_another_session_are_left_alone(folder):
    memory(folder, session_id="one").update(talk())
    before = (folder / "summary.md").read_bytes(), (folder / "state.json").read_bytes()
    report = memory(folder, session_id="two").update(talk(5))
    assert report.outcome is UpdateOutcome.FAILED
    assert "another session" in report.reason
    assert before == ((folder / "summary.md").read_bytes(), (folder / "state.json").read_bytes())


def test_one_updater_per_session(folder):
    notes = NotesFolder(folder)
    lock = notes.lock()
    with pytest.raises(LogConflict):
        NotesFolder(folder).lock()
    assert memory(folder).update(talk()).outcome is UpdateOutcome.BUSY
    assert notes.busy_seconds() is not None
    lock.release()
    lock.release()
    assert notes.busy_seconds() is None
    assert memory(folder).update(talk()).outcome is UpdateOutcome.UPDATED


def test_who_lost_the_lock_may_not_write(folder):
    notes = NotesFolder(folder)
    lock = notes.lock()
    lock.release()
    with pytest.raises(LogConflict):
        notes.commit("x", based_on="", lock=lock)
    with pytest.raises(LogConflict):
        notes.save(b"{}", lock=lock)
    assert not (folder / "summary.md").exists()


def test_a_user_who_edits_meanwhile_loses_nothing(folder):
    path = folder / "summary.md"
    memory(folder).update(talk(1))

    def slow(request):
        text = path.read_text()
        path.write_text(text.replace(ABOUT["Learnings"], f"{ABOUT['Learnings']}\nAsk Ann first."))
        return add(path, "Key results", "- It works.") + "<done/>"

    report = memory(folder, slow).update(talk(2))
    assert report.outcome is UpdateOutcome.UPDATED
    assert "Ask Ann first." in path.read_text()
    assert "- It works." in path.read_text()


def test_where_both_change_the_same_lines_the_user_wins(folder):
    path = folder / "summary.md"
    kept = memory(folder, add(path, "Learnings", "- old fact") + "<done/>")
    kept.update(talk(1))
    covered = record(folder).covered

    def slow(request):
        path.write_text(path.read_text().replace("- old fact", "- my fact"))
        return block(path, "- old fact", "- new fact") + add(path, "Worklog", "- b") + "<done/>"

    kept._set.summarizer.answers = [slow]
    report = kept.update(talk(2))
    assert (report.outcome, report.conflicts, report.edits) == (UpdateOutcome.CONFLICT, 1, 1)
    assert "- my fact" in path.read_text()
    assert "- new fact" not in path.read_text()
    assert "- b" in path.read_text()
    # Not all of it is in the notes, so they do not claim to hold it.
    assert record(folder).covered == covered


def test_a_user_who_edits_while_copies_are_made_loses_nothing(folder):
    path = folder / "summary.md"
    memory(folder).update(talk(1))
    edits = iter(["First remark.", "Second remark."])

    class Meddling(NotesFolder):
        def commit(self, text, **more):
            remark = next(edits, None)
            if remark:
                about = ABOUT["Worklog"]
                path.write_text(path.read_text().replace(about, f"{about}\n{remark}"))
            return super().commit(text, **more)

    report = SessionMemory(Meddling(folder), mode="inline").update(talk(2))
    assert report.outcome is UpdateOutcome.UPDATED
    text = path.read_text()
    assert "First remark." in text
    assert "Second remark." in text
    assert "Please do step 1 " in text


def test_who_never_stops_saving_is_not_overwritten(folder):
    path = folder / "summary.md"
    folder.mkdir()

    class Meddling(NotesFolder):
        def commit(self, text, **more):
            path.write_text(f"{time.monotonic_ns()}")
            return super().commit(text, **more)

    report = SessionMemory(Meddling(folder), mode="inline").update(talk(2))
    assert report.outcome is UpdateOutcome.FAILED
    assert path.read_text().isdigit()


def test_the_text_before_an_update_is_kept(folder):
    path = folder / "summary.md"
    kept = memory(folder, add(path, "Learnings", "- old fact") + "<done/>")
    kept.update(talk(1))
    kept._set.summarizer.answers = [block(path, "- old fact", "- new fact") + "<done/>"]
    kept.update(talk(2))
    assert "- old fact" in (folder / "previous.md").read_text()


def test_whose_notes_they_are_is_written_before_the_notes(folder):
    class Dying(NotesFolder):
        saved = 0

        def save(self, data, **more):
            self.saved += 1
            if self.saved > 1:
                raise KeyboardInterrupt
            super().save(data, **more)

    with pytest.raises(KeyboardInterrupt):
        memory(Dying(folder), session_id="one").update(talk())
    assert (folder / "summary.md").exists()
    assert (record(folder).session_id, record(folder).covered) == ("one", "")
    assert "another session" in memory(folder, session_id="two").update(talk()).reason
    assert memory(folder, session_id="one").update(talk()).outcome is UpdateOutcome.UNCHANGED


# ---- killed ----------------------------------------------------------------------------------

CHILD = """
import sys
from ullage.memory.session import SessionMemory
from ullage.memory.session import notes_folder as files

stage, folder = sys.argv[1], sys.argv[2]
real = files._Folder.write
names = iter(["previous.md", "summary.md", "state.json"])

def write(self, name, data):
    if name + ":before" == stage:
        print("here", flush=True); sys.stdin.read()
    if name + ":draft" == stage:
        (self.path / f".{name}.1.1.part").write_bytes(data[: len(data) // 2])
        print("here", flush=True); sys.stdin.read()
    real(self, name, data)
    if name + ":after" == stage:
        print("here", flush=True); sys.stdin.read()

files._Folder.write = write
items = [{"role": "user", "content": "Remember the second thing."},
         {"role": "assistant", "content": "Second done."}]
first = [{"role": "user", "content": "Remember the first thing."},
         {"role": "assistant", "content": "First done."}]
report = SessionMemory(folder, mode="inline").update(first + items)
print("ended:", report.outcome, report.reason, flush=True)
"""

STAGES = [
    f"{n}:{w}"
    for n in ("previous.md", "summary.md", "state.json")
    for w in ("before", "draft", "after")
]


@pytest.mark.parametrize("stage", STAGES)
def test_killed_in_the_middle_of_an_update(folder, tmp_path, stage):
    first = [
        {"role": "user", "content": "Remember the first thing."},
        {"role": "assistant", "content": "First done."},
    ]
    memory(folder).update(first)
    old = (folder / "summary.md").read_bytes()
    covered = record(folder).covered
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))
    child = subprocess.Popen(
        [sys.executable, str(script), stage, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    line = child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    _, errors = child.communicate(timeout=20)
    assert (line, errors) == (b"here\n", b"")
    now = (folder / "summary.md").read_bytes()
    written = stage in STAGES[5:]
    # Before or after, never between; and the record never claims more than the notes hold.
    assert (now == old) is not written
    assert b"Remember the first thing." in now
    assert (b"Remember the second thing." in now) is written
    assert (record(folder).covered == covered) is (stage != "state.json:after")
    items = [
        *first,
        {"role": "user", "content": "Remember the second thing."},
        {"role": "assistant", "content": "Second done."},
        {"role": "user", "content": "And the third."},
        {"role": "assistant", "content": "Third done."},
    ]
    assert memory(folder).update(items).outcome is UpdateOutcome.UPDATED
    text = (folder / "summary.md").read_text()
    assert text.count("User 2: “Remember the second thing.”") == 1
    assert "And the third." in text
    assert [p.name for p in folder.iterdir() if p.name.endswith(".part")] == []


# ---- the flow by hand ------------------------------------------------------------------------


def test_a_cancelled_update_changes_nothing(folder):
    flow = update_flow(UpdateJob(items=talk(), folder=NotesFolder(folder)))
    perform = Performer()
    steps = []

    class Stop:
        def is_set(self) -> bool:
            steps.append(1)
            return len(steps) > 3

    report = drive(flow, perform, cancel=Stop())
    assert report.outcome is UpdateOutcome.CANCELLED
    assert not (folder / "summary.md").exists()
    assert NotesFolder(folder).busy_seconds() is None


def test_a_disk_that_fails_is_a_report(folder):
    class Full(NotesFolder):
        def commit(self, text, **more):
            raise StoreError("no space left on device", path=str(self.path))

    report = SessionMemory(Full(folder), mode="inline").update(talk())
    assert report.outcome is UpdateOutcome.FAILED
    assert "no space left" in report.reason


def test_no_longer_wanted_is_not_begun(folder):
    job = UpdateJob(items=talk(), folder=NotesFolder(folder), wanted=lambda: False)
    report = drive(update_flow(job), Performer())
    assert report.outcome is UpdateOutcome.DROPPED


def test_the_first_effect_takes_the_lock(folder):
    flow = update_flow(UpdateJob(items=talk(), folder=NotesFolder(folder)))
    assert isinstance(next(flow), Call)
    flow.close()
