"""Weights of the calibrated estimate by model family (TOK-2), and their correction by what providers report (TOK-2b).

The weights are data with their origin, in `ullage/data/weights.json`; `benches/fidelity/fit.py` produces
them. A correction is an immutable value: observing a figure returns the next one, and it can be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Self, TypeAlias

from ullage._engine import core
from ullage._engine.digests import BlockKind, Role
from ullage._start import Frozen, NamedTuple, orjson, pathlib
from ullage.counting.models import ImageRule, Model, ModelTable
from ullage.exceptions import InvalidPolicy

# ---- weights ---------------------------------------------------------------------------------


Ledger: TypeAlias = core.Ledger
"""Digests of a conversation, appended to as it grows: sums, pairs and rounds at any length in microseconds."""

Weights: TypeAlias = core.Weights
"""What a class of characters costs in tokens, fitted per family of models."""

DEFAULT_MODEL: Final = "claude-opus-4-7"
"""Used without a model: the family with the most tokens for the same text, so that nothing overflows."""


def weights_for(model: str | Model | None = None, *, table: ModelTable | None = None) -> Weights:
    """The weights of a model's family.

    Args:
        model: A row of the table or a name; `None` or empty: the default family. An unknown name: the family that the
            table guesses for it.
        table: Where to look a name up; `None`: the built-in table.

    Returns:
        The same object for the same family.

    Raises:
        InvalidPolicy: The row names a family that has no weights.

    Example:
        >>> weights_for("claude-sonnet-4-5") is weights_for("claude-sonnet-4-5-20250929")
        True
    """
    row = model or DEFAULT_MODEL
    if isinstance(row, str):
        row = (table or ModelTable.builtin()).lookup(row)
    return _weights(row.family, row.image)


def measure_of(weights: Weights | None) -> Callable[[str], int]:
    """What counts the tokens of a text, by weights; without them characters / 4, rounded half up (TOK-1)."""
    if weights is None:
        return lambda text: int(core.rough_text(text))
    return lambda text: int(core.estimate_text(text, weights))


@cache
def _weights(name: str, image: ImageRule) -> Weights:
    families = _families()
    if name not in families:
        raise InvalidPolicy("family", name, f"must be one of {', '.join(families)}")
    family = families[name]
    return core.Weights(
        [family["features"][name] for name in core.FEATURE_NAMES],
        blocks=[family["blocks"][kind.name.lower()] for kind in BlockKind],
        messages=[family["messages"][role.name.lower()] for role in Role],
        image=image,
        hidden=[family["hidden"]["free_chars"], family["hidden"]["per_char"]],
    )


@cache
def _families() -> Mapping[str, Any]:
    path = pathlib.Path(__file__).parents[1] / "data" / "weights.json"
    families: Mapping[str, Any] = orjson.loads(path.read_bytes())["families"]
    return families


# ---- correction ------------------------------------------------------------------------------

PERMILLE: Final = 1000
"""Ratios are whole thousandths: equal in every process, and stored without loss."""

WINDOW: Final = 15
"""Observations that a correction keeps: about one task of a coding agent."""

ENOUGH: Final = 3
"""Fewer observations correct nothing."""

LEAST_TOKENS: Final = 200
"""Smaller growth measures unseen additions (reminders) more than the text."""

CLAMP: Final = (667, 1800)
"""A correction outside of 2/3 to 9/5 cannot come from a tokenizer; families differ by up to 1.7."""

OUTLIER: Final = (400, 2500)
"""An observation outside of this does not measure the text: something was added or removed unseen."""

SPREAD: Final = 160
"""Nine in ten steps are within this many thousandths of a fitted estimate; see `benches/fidelity/table.py`."""


class UntrueUsageWarning(UserWarning):
    """A provider reported less than half of what the messages are estimated at: its figure is set aside."""


class Estimate(NamedTuple):
    """A count with its 90 % interval."""

    tokens: int
    low: int
    high: int


class Correction(Frozen):
    """The ratio of a model's reported figures to the estimates, in thousandths: the median of the newest.

    Attributes:
        model: The model as the provider names it; figures of other models are ignored.
        log_version: Version of the log that the figures belong to. A rewrite starts a new one: usage of an
            older version says nothing about the current prompt.
        ratios: Newest last.
        last_id: The response that was observed last, so that it is not counted twice.
    """

    model: str
    log_version: int = 0
    ratios: tuple[int, ...] = ()
    last_id: str = ""

    def __repr__(self) -> str:
        return f"Correction({self.model!r}, ×{self.permille / PERMILLE:.3f}, of {len(self.ratios)})"

    @property
    def known(self) -> bool:
        """Whether enough was observed to correct anything; unknown is not the same as 1."""
        return len(self.ratios) >= ENOUGH

    @property
    def permille(self) -> int:
        """The clamped moving ratio; 1000 while unknown."""
        if not self.known:
            return PERMILLE
        # The low median, as in `statistics`, which is slow to import.
        median = sorted(self.ratios)[(len(self.ratios) - 1) // 2]
        return min(max(median, CLAMP[0]), CLAMP[1])

    def observe(
        self, estimated: int, reported: int, *, model: str, response_id: str, log_version: int = 0
    ) -> Self:
        """Observe one figure.

        Args:
            estimated: Uncorrected tokens of what was added since the figure before.
            reported: By how much the reported prompt grew.
            model: Who reported it.
            response_id: Of the response that carries the figure.
            log_version: Which version of the log the prompt was made from.

        Returns:
            The next correction; this one where the figure is small, an outlier, a repetition, of another
            model, or of an older version of the log.
        """
        if model != self.model or log_version < self.log_version or response_id == self.last_id:
            return self
        if min(estimated, reported) < LEAST_TOKENS:
            return self
        ratio = (reported * PERMILLE + estimated // 2) // estimated
        if not OUTLIER[0] <= ratio <= OUTLIER[1]:
            return self
        return type(self)(self.model, log_version, (*self.ratios, ratio)[-WINDOW:], response_id)

    def rewritten(self, log_version: int) -> Self:
        """The correction after a rewrite of the log: what is known about the tokenizer stays valid."""
        return type(self)(self.model, max(log_version, self.log_version), self.ratios, self.last_id)

    def count(self, estimated: int) -> int:
        """A corrected count without its interval."""
        if len(self.ratios) < ENOUGH:
            return estimated
        return (estimated * self.permille + PERMILLE // 2) // PERMILLE

    def apply(self, estimated: int) -> Estimate:
        """A corrected count and its interval.

        The interval is the spread of the observations, and where these are few, that of the weights'
        measurements. An estimate of 0 is 0.
        """
        centre = self.permille
        low, high = max(0, centre - SPREAD), centre + SPREAD
        if len(self.ratios) >= WINDOW:
            # Of 15 the second and the fourteenth leave two out: the inner 13 hold nine in ten.
            ordered = sorted(self.ratios)
            low, high = min(ordered[1], centre), max(ordered[-2], centre)
        tokens = self.count(estimated)
        return Estimate(tokens, estimated * low // PERMILLE, -(-estimated * high // PERMILLE))

    def dump(self) -> dict[str, Any]:
        """A form for JSON."""
        return {
            "model": self.model,
            "log_version": self.log_version,
            "ratios": list(self.ratios),
            "last_id": self.last_id,
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Self:
        """Read the result of `dump`.

        Raises:
            InvalidPolicy: A missing or wrong value.
        """
        ratios: Sequence[Any] = stored.get("ratios", ())
        whole = isinstance(ratios, list | tuple) and all(type(ratio) is int for ratio in ratios)
        if not whole or not all(OUTLIER[0] <= ratio <= OUTLIER[1] for ratio in ratios):
            raise InvalidPolicy(
                "ratios", ratios, f"must be whole numbers from {OUTLIER[0]} to {OUTLIER[1]}"
            )
        model, version, last = (stored.get(name) for name in ("model", "log_version", "last_id"))
        if not isinstance(model, str) or type(version) is not int or not isinstance(last, str):
            raise InvalidPolicy(
                "correction", dict(stored), "must have model, log_version and last_id"
            )
        return cls(model, version, tuple(ratios)[-WINDOW:], last)
