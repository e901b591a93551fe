"""Through ten compactions nothing that was closed comes back as open, and nothing that is open is lost (CTX-4)."""

from __future__ import annotations

import pytest

from tests.kit import result, said, use, user
from ullage import compact
from ullage.facts import collect
from ullage.facts.sections import HEADINGS
from ullage.messages import Item

FILLER = "I read on and it is as you said. " * 60


def created(number: int, subject: str) -> list[Item]:
    call = use(f"c{number}", "TaskCreate", subject=subject, description="")
    return [
        said([call]),
        user([result(f"c{number}", f"Task #{number} created successfully: {subject}")]),
    ]


def updated(number: int, status: str, key: str) -> list[Item]:
    call = use(f"u{key}", "TaskUpdate", taskId=str(number), status=status)
    return [said([call]), user([result(f"u{key}", f"Updated task #{number} status")])]


def rounds():
    """Ten parts of a session: in each a task and a remark are opened, and those of two parts before are closed."""
    for n in range(1, 11):
        part = [
            user(f"Go on with part {n}."),
            said(FILLER),
            *created(n, f"rename module lantern_{n}"),
        ]
        part.append(said(f"TODO: archive the table harbor_{n} afterwards. {FILLER}"))
        part += [user(f"Never touch folder_{n}."), said(f"Shall I push branch_{n}?"), user("yes")]
        if n > 2:
            part += updated(n - 2, "completed", f"{n}")
            part.append(said(f"I have archived the table harbor_{n - 2}. {FILLER}"))
        if n == 6:
            part += [user("Forget about the table harbor_5."), said("Good. " + FILLER)]
        yield n, [*part, said("Part done. " + FILLER)]


@pytest.mark.parametrize("target", [3_000, 6_000])
def test_ten_compactions_by_code(target):
    items: list[Item] = []
    for n, part in rounds():
        result_ = compact([*items, *part], keep=0, target_tokens=target)
        assert result_.compacted
        items = list(result_.messages)
        facts = collect(items)
        text = str(items)
        closed = range(1, n - 1)
        open_tasks = {task.subject for task in facts.tasks if task.open}
        assert open_tasks == {
            f"rename module lantern_{k}" for k in range(1, n + 1) if k not in closed
        }
        still = " ".join(each.text for each in facts.still_open)
        gone = {*closed, *([5] if n >= 6 else [])}
        assert [k for k in range(1, n + 1) if (f"harbor_{k} " in still) == (k in gone)] == []
        assert [k for k in range(1, n + 1) if f"Never touch folder_{k}." not in text] == []
    assert "“Shall I push branch_10?” → “yes”" in text


def model_summary(text: str) -> str:
    sections = [f"{n}. {title}:\n  something about it" for n, title in enumerate(HEADINGS, 1)]
    sections[6] = f"7. Pending Tasks:\n  {text}"
    return "\n".join(sections)


def test_a_summary_by_a_model_is_repaired_from_the_ledger():
    items = [item for n, part in rounds() if n <= 4 for item in part]
    wrong = model_summary("- rename module lantern_1\n  - rename module lantern_3")
    summary = compact(items, keep=0, summarizer=lambda _: wrong).summary_messages[0]["content"]
    kept = summary.split("## Kept by code")[1]
    assert "- [x] #1 rename module lantern_1 (completed by call u3)" in kept
    assert "- [ ] #4 rename module lantern_4 (pending)" in kept
    # Its own line about it says neither its number nor its state.
    assert "- [ ] #3 rename module lantern_3 (pending)" in kept
    assert "harbor_4" in kept
    assert "the table harbor_1 " not in kept
    assert "“Shall I push branch_2?” → “yes”" in kept
    again = compact(
        [{"role": "user", "content": summary}, *created(9, "new one"), said(FILLER * 9)], keep=0
    )
    subjects = {task.subject for task in collect(again.messages).tasks if task.open}
    assert "rename module lantern_4" in subjects
    assert "rename module lantern_1" not in subjects
