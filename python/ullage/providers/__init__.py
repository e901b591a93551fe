"""What each provider wants and says: shapes of messages both ways, and the meaning of its errors.

Plain dicts in and out; no SDK is imported here.
"""

from __future__ import annotations

from ullage.providers.overflow import Classified, classify

__all__ = ["Classified", "classify"]
