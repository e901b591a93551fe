"""What each provider wants and says: shapes of messages both ways, and the meaning of its errors.

Each module of a shape has `to_provider` and `from_provider`. Plain dicts in and out; no SDK is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.providers._common import (
        Internal as Internal,
        Loss as Loss,
        Shaped as Shaped,
        normal_form as normal_form,
    )
    from ullage.providers.errors import Classified as Classified, classify
    from ullage.providers.registry import (
        PROVIDERS,
        SHAPES as SHAPES,
        AnyProvider as AnyProvider,
        Provider,
        provider_of as provider_of,
    )

__all__ = ["PROVIDERS", "Provider", "classify"]

_HOMES = {
    "_common": "Internal Loss Shaped normal_form",
    "errors": "Classified classify",
    "registry": "PROVIDERS SHAPES AnyProvider Provider provider_of",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
