"""A message of the user that a summary left out is named by its number, and recalled by it."""

from __future__ import annotations

import re

from tests.kit import said, user
from ullage import ContextManager
from ullage.facts import collect
from ullage.facts.sections import parse_sections
from ullage.summarizers.extractive import render

LONG = "It was like that before, as far as anybody here can remember, and we left it. "


def grown(rounds: int) -> tuple[ContextManager, list[str]]:
    manager = ContextManager(model="gpt-4o", context_window=64_000)
    texts: list[str] = []
    for n in range(rounds):
        for k in range(12):
            texts.append(f"Look at part {n}-{k} of the report. {LONG * (k % 3)}" if k % 4 else "ok")
            manager.add(user(texts[-1]))
            manager.add(said("I read on and it is as you said. " * 90))
        manager.compact(target_tokens=900)
    return manager, texts


def test_what_was_left_out_is_recalled_by_its_number():
    manager, texts = grown(3)
    summary = str(manager.prepare().messages[0]["content"])
    named = re.search(r"\((\d+) messages left out for room: ([^)]*)\)", summary)
    assert named is not None
    for handle in named[2].replace("…, ", "").split(", "):
        first = int(re.match(r"u(\d+)", handle)[1])
        assert texts[first - 1].strip() in manager.recall.get(handle).text
    shown = collect([{"role": "user", "content": summary}]).inputs
    assert int(named[1]) + len(shown) == max(entry.number for entry in shown)
    for entry in shown:
        assert entry.text.split(" […")[0] in texts[entry.number - 1]


def test_numbers_stay_the_same_through_summaries():
    items = [
        item for n in range(30) for item in (user(f"Check file_{n}.py. {LONG * 6}"), said("ok"))
    ]
    once = parse_sections(render(collect(items), tokens=900))[6]
    summary = {
        "role": "user",
        "isCompactSummary": True,
        "content": "## 6. All User Messages\n" + once,
    }
    twice = parse_sections(
        render(collect([summary, user("and file_30.py"), said("ok")]), tokens=700)
    )[6]
    for row in twice.splitlines():
        if found := re.match(r"(\d+)\. Check file_(\d+)\.py", row):
            assert int(found[1]) == int(found[2]) + 1
    assert "31. and file_30.py" in twice
