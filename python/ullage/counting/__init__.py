"""Sizes: estimates, exact counts, the model table, the window. Knows nothing of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.counting.calibration import Weights as Weights, weights_for as weights_for
    from ullage.counting.exact import (
        bytes_of_tokens as bytes_of_tokens,
        count_tokens_exact,
        count_tokens_exact_up_to,
        decode_exact,
        encode_exact,
        special_tokens as special_tokens,
    )
    from ullage.counting.media_stripping import strip_media
    from ullage.counting.models import Model, ModelTable as ModelTable, UnknownModelWarning
    from ullage.counting.window import NoTriggerWarning, window_for

__all__ = [
    "Model",
    "NoTriggerWarning",
    "UnknownModelWarning",
    "count_tokens_exact",
    "count_tokens_exact_up_to",
    "decode_exact",
    "encode_exact",
    "strip_media",
    "window_for",
]

_HOMES = {
    "calibration": "Weights weights_for",
    "exact": "bytes_of_tokens count_tokens_exact count_tokens_exact_up_to decode_exact encode_exact special_tokens",
    "media_stripping": "strip_media",
    "models": "Model ModelTable UnknownModelWarning",
    "window": "NoTriggerWarning window_for",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
