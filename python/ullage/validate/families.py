"""What a Claude model accepts, from its name: the rules changed with the generations."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ModelRules", "model_rules"]

_NAME = re.compile(
    r"claude-(?:(?P<old>\d)(?:-(?P<oldminor>\d))?-)?(?P<line>[a-z]+)(?:-(?P<major>\d))?(?:[-.](?P<minor>\d)(?!\d))?"
)
_NEVER = (99, 0)

# First version of each line that takes system messages inside the conversation, and the first
# whose thinking is bound to all that came before it.
_MID_SYSTEM = {"fable": (5, 0), "mythos": (5, 0), "opus": (4, 8), "sonnet": (5, 5), "haiku": (5, 5)}
_BOUND = {"fable": (5, 1), "mythos": (5, 2), "opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5)}
_MILLION = {"fable": (5, 0), "mythos": (5, 0), "opus": (4, 6), "sonnet": (4, 6), "haiku": (5, 5)}


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Rules and limits of one model; the defaults are those of the newest generation.

    Attributes:
        prefill_ok: Takes an assistant message at the end.
        mid_system_ok: Takes system messages inside the conversation.
        bound_thinking: Thinking is valid only after exactly the messages that it was made after.
        output_in_window: Refuses input + `max_tokens` over the window.
        window: Tokens; 0: unknown.
        max_output: Tokens; 0: unknown.
        media_limit: Images, and PDF pages, per request.
    """

    prefill_ok: bool = False
    mid_system_ok: bool = True
    bound_thinking: bool = False
    output_in_window: bool = False
    window: int = 0
    max_output: int = 0
    media_limit: int = 600


def model_rules(model: str | None) -> ModelRules:
    """Rules of a model by its name, in any vendor's spelling of it.

    A name that is no Claude model's gives the defaults.
    """
    found = _NAME.search((model or "").lower().replace("_", "-"))
    if found is None:
        return ModelRules()
    line = found["line"]
    version = (
        int(found["old"] or found["major"] or 0),
        int(found["oldminor"] or found["minor"] or 0),
    )
    million = version >= _MILLION.get(line, _NEVER)
    return ModelRules(
        prefill_ok=version < (4, 6),
        mid_system_ok=version >= _MID_SYSTEM.get(line, _NEVER),
        bound_thinking=version >= _BOUND.get(line, _NEVER),
        output_in_window=version < (4, 5),
        window=1_000_000 if million else 200_000,
        max_output=128_000 if million else 64_000 if version >= (4, 5) else 0,
        media_limit=600 if million else 100,
    )
