"""The same agent loop under Claude Code's tool names and under others: which levels act. `python benches/tool_names.py`."""

from __future__ import annotations

import sys
from collections import Counter

from ullage import ContextManager, MemoryStore, Policy

NAMES = {
    "Read, Bash, Grep, WebSearch": ("Read", "Bash", "Grep", "WebSearch"),
    "read_file, run_shell, grep_files, search_db": (
        "read_file",
        "run_shell",
        "grep_files",
        "search_db",
    ),
}
POLICIES = {
    "`buffered()`": Policy.buffered(),
    "`ladder()`": Policy.ladder(),
    "`buffered()`, by time": Policy.buffered().change({"micro.by_time": True}),
    "`buffered()`, by cache edit": Policy.buffered().change({"micro.by_cache_edit": True}),
}
STEPS = 120
START_MS = 1_767_225_600_000


def played(names: tuple[str, ...], policy: Policy) -> tuple[Counter[str], Counter[str], int]:
    """Requests in which a level acted, results that it took, and the tokens of the last request."""
    manager = ContextManager(model="claude-opus-4-5", policy=policy, store=MemoryStore())
    manager.add({"role": "user", "content": "Find out why the build is slow."})
    acted, taken, tokens = Counter[str](), Counter[str](), 0
    for number in range(STEPS):
        name = names[number % len(names)]
        given = {"file_path": f"src/part_{number % 17}.py"}
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
        stamp = {"timestamp": "2026-01-01T00:00:00Z"}
        manager.add({**stamp, "role": "assistant", "content": [use]})
        text = f"line {number} of the output\n" * (
            200 + number % 5 * 150 + (number % 11 == 0) * 2_500
        )
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
        manager.add({"role": "user", "content": [block]})
        # One pause of two hours.
        now = START_MS + 7_200_000 * (number == STEPS // 2)
        request = manager.prepare(now_ms=now)
        tokens = request.tokens
        for report in request.reports:
            acted[report.stage] += 1
            taken[report.stage] += len(report.tool_use_ids)
    return acted, taken, tokens


def main() -> int:
    """Print the table."""
    print(
        "| policy | tools | acted in so many requests (results) | last request |\n| --- | --- | --- | --: |"
    )
    same = True
    for policy_name, policy in POLICIES.items():
        rows = [played(names, policy) for names in NAMES.values()]
        for told, (acted, taken, tokens) in zip(NAMES, rows, strict=True):
            levels = ", ".join(f"{name} {acted[name]} ({taken[name]})" for name in sorted(acted))
            print(f"| {policy_name} | {told} | {levels} | {tokens:,} |")
        same &= all(row[:2] == rows[0][:2] for row in rows)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
