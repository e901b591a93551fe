"""A policy argument: a `Policy`, or the name of a preset."""

from __future__ import annotations

from ullage.exceptions import InvalidPolicy
from ullage.policy.arguments import nearest
from ullage.policy.whole import Policy

__all__ = ["policy_given"]

_PRESETS = {"buffered": Policy.buffered, "ladder": Policy.ladder}


def policy_given(given: Policy | str | None, usual: Policy | None = None) -> Policy:
    """The policy that was passed, or the preset of that name; `None`: `Policy.buffered()`.

    Raises:
        InvalidPolicy: It is neither; names the value.
    """
    if given is None:
        return Policy.buffered() if usual is None else usual
    if isinstance(given, Policy):
        return given
    limit = "must be a Policy, or the name of a preset: buffered, ladder"
    if not isinstance(given, str):
        raise InvalidPolicy(
            "policy", type(given).__name__, limit, hint="Policy.load(path) reads a file"
        )
    if given not in _PRESETS:
        raise InvalidPolicy("policy", given, limit, hint=nearest(given, _PRESETS))
    return _PRESETS[given]()
