"""A level by itself: the context that it is given, and a loop that answers what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from tests.kit import result, said, text, use, user
from ullage.effects import Call, drive
from ullage.levels.level import Context, Level, Outcome
from ullage.levels.pipeline import fresh_states
from ullage.levels.view import View
from ullage.policy import Policy


def context_of(
    view: View, policy: Policy, *states: Any, percent: int | None = None, **more: Any
) -> Context:
    """What a level is given.

    Args:
        states: In place of fresh ones, by their class.
        percent: Share of the window that the view takes; `None`: the window is unknown, unless `more` names it.
    """
    given = {type(each): each for each in states}
    known = {name: given.get(type(each), each) for name, each in fresh_states().items()}
    if percent is not None:
        tokens = view.tokens(more.get("overhead_tokens", 0))
        more["window_tokens"] = tokens * 100 // percent if percent else 10**9
    return Context(view=view, policy=policy, states=known, **more)


def act(
    how: Level | Callable[[Context], Outcome],
    context: Context,
    perform: Callable[[Any], Any] | None = None,
) -> Any:
    """What a level does, with a store that answers at once; no other effect has a result, unless `perform` gives one."""
    outcome = (how.run if isinstance(how, Level) else how)(context)
    if isinstance(outcome, Generator):
        outcome = drive(outcome, perform or _answer)
    return outcome


def _answer(effect: Any) -> Any:
    return effect.function(*effect.args) if isinstance(effect, Call) else None


def planted() -> list[dict]:
    """A turn with a finding far into a long report, a decision in the middle of the work, a failure that was cured, one that was not, and an edit."""
    report = " ".join(f"Module {name} only reads settings." for name in "abcdefghijklmnopqrstuvwx")
    report += (
        "\n\nThe cache key leaves out the locale, which is why German users see English pages."
    )
    option = "We decided to keep the Redis store and drop the memcached fallback, since only Redis can expire by tag."
    fixed = use("e", "Edit", file_path="/app/keys.py", old_string="", new_string="key += locale")
    steps = [
        ([text(option), use("a", "Bash", command="pytest tests/keys")], "collected\n1 failed", True),
        ([fixed], "The file has been updated.", False),
        ([use("b", "Bash", command="pytest tests/keys")], "14 passed in 2.1s", False),
        ([use("c", "Bash", command="make deploy")], "building\nError: registry quay-7 refused the push\nexit code 2", True),
    ]  # fmt: skip
    messages = [user("Why do German users see English pages?")]
    for blocks, returned, failed in steps:
        answer = result(blocks[-1]["id"], returned + "\n" + "log " * 2_000)
        messages += [said(blocks), user([{**answer, "is_error": failed}])]
    return [*messages, said(report)]


PLANTED = (
    "The cache key leaves out the locale, which is why German users see English pages.",
    "We decided to keep the Redis store and drop the memcached fallback",
    "- `Bash pytest tests/keys` failed: `1 failed`; later succeeded, after changes to app/keys.py",
    "- `Edit /app/keys.py` → ok, inserted: `key += locale`",
    "- `Bash make deploy` failed: `Error: registry quay-7 refused the push`; not seen to succeed in this part",
)
