"""What each provider wants and says: shapes of messages both ways, and the meaning of its errors.

Each module of a shape has `to_provider` and `from_provider`. Plain dicts in and out; no SDK is imported.
"""

from __future__ import annotations

from ullage.providers._common import Internal, Loss, Shaped, normal_form
from ullage.providers.errors import Classified, classify
from ullage.providers.registry import PROVIDERS, SHAPES, AnyProvider, Provider, provider_of

__all__ = [
    "PROVIDERS",
    "SHAPES",
    "AnyProvider",
    "Classified",
    "Internal",
    "Loss",
    "Provider",
    "Shaped",
    "classify",
    "normal_form",
    "provider_of",
]
