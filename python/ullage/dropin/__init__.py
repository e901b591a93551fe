"""Functions of other libraries under their own names and arguments, so that one import line changes.

`ullage.dropin.tiktoken`, `.langchain`, `.litellm` and `.anthropic` are imported by name; each says what is equal to the
library that it stands in for, and what is not. None of those libraries is needed, except LangChain for its messages.
"""

from __future__ import annotations

__all__: list[str] = []
