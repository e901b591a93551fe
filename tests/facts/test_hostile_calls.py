"""Calls that nobody writes by hand: lone surrogates, quotations that do not end, scripts of nothing but beginnings."""

from __future__ import annotations

import time

import pytest

from tests.kit import result, use, user
from ullage.facts import collect
from ullage.facts.tallies import command_parts, command_steps, only_looks
from ullage.summarizers.extractive import render


@pytest.mark.parametrize("given", ["ls \ud83d", {"command": "\ud800"}, "\udc00"])
def test_lone_surrogates_in_an_input_are_written_as_text(given: object):
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Stop", "input": given}]}  # fmt: skip
    render(collect([user("Go."), call, user([result("c", "x")])])).encode()


@pytest.mark.parametrize(
    ("name", "key", "part"),
    [
        ("Bash", "command", 'x "' + '\\"'),
        ("Bash", "command", "cat <<EOF\n"),
        ("Bash", "command", '\\"\n'),
        ("Bash", "command", "a && 'b"),
        ("exec", "code", 'tools.apply_patch("*** Begin Patch\\'),
        ("exec", "code", "tools.apply_patch(`*** Begin Patch"),
        ("exec", "code", 'tools.update_plan({plan:[{step:"a\\"'),
    ],
)
def test_time_grows_with_what_is_read_not_with_its_square(name: str, key: str, part: str):
    def spent(chars: int) -> float:
        call = {"role": "assistant", "content": [use("c", name, **{key: part * (chars // len(part))})]}  # fmt: skip
        items = [user("Go."), call, user([result("c", "Exit code 1\nboom", is_error=True)])]
        began = time.process_time()
        collect(items)
        return time.process_time() - began

    spent(1_000)
    assert spent(200_000) < 1.0


@pytest.mark.parametrize(
    ("command", "parts", "steps"),
    [
        ("cd /r && pytest -q 2>&1 | tail -3", ("pytest -q",), ("cd /r", "pytest -q")),
        ("FOO=1 npm test; echo done", ("npm test",), ("npm test", "echo done")),
        ("git commit -m 'fix; push'", ("git commit -m 'fix; push'",), ("git commit -m ''",)),
        ('git switch -c "a/b"', ('git switch -c "a/b"',), ("git switch -c a/b",)),
        ("cat <<E\nno end", ("cat <<E no end",), ("cat <<E",)),
        ("npm test && \\\n  npm run build", ("npm test", "npm run build"), ("npm test", "npm run build")),
        ("set -e\ncargo fmt --check\ncargo test", ("cargo fmt --check", "cargo test"), ("set -e", "cargo fmt --check", "cargo test")),
        ("(cd web && npm test)", ("npm test",), ("cd web", "npm test")),
        ("cat <<E > x && make\nhello; you\nE\n", ("cat <<E > x && make\nhello; you\nE", "make"), ("cat ''", "make")),
        ("\0x\1 && \0" + "9" * 5 + "\1", ("x", "99999"), ("x", "99999")),
    ],
)  # fmt: skip
def test_the_parts_of_a_command(command: str, parts: tuple[str, ...], steps: tuple[str, ...]):
    assert (command_parts(command), command_steps(command)) == (parts, steps)


@pytest.mark.parametrize(
    ("command", "looks"),
    [
        ("cd /r && ls -la && cat a.py", True),
        ("for f in *.py; do cat $f; done", True),
        ("git status 2>/dev/null", True),
        ("ls && make", False),
        ("cat > a.py <<'E'\nx\nE", False),
        ("echo done >> log.txt", False),
        ("echo == ; pytest", False),
        ("", False),
    ],
)
def test_what_only_looks(command: str, looks: bool):
    assert only_looks(command) is looks
