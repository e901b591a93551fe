"""litellm's counting and trimming, and with litellm installed all the rest of it: `from ullage.dropin import litellm`.

Counts are equal for OpenAI's models. Trimming is equal for conversations without tools; a tool call and its results
are kept or removed together. Nothing is downloaded. `trim_messages` is in `utils`, as in litellm, and here as well.
"""

from __future__ import annotations

from ullage.dropin import stands_in_for as stands_in_for
from ullage.dropin.litellm import utils as utils
from ullage.dropin.litellm.utils import (
    token_counter as token_counter,
    trim_messages as trim_messages,
)

stands_in_for(__name__, "litellm")
