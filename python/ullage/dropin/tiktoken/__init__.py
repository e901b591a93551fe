"""tiktoken on Ullage's tokenizer: `from ullage.dropin import tiktoken`.

Same token ids and errors, offline. Everything else (`encode_to_numpy`, plug-ins, custom encodings) is tiktoken's, if it is
installed. `Encoding.count` is an addition.
"""

from __future__ import annotations

from ullage.dropin import stands_in_for as stands_in_for
from ullage.dropin.tiktoken import core as core, model as model, registry as registry
from ullage.dropin.tiktoken.core import Encoding as Encoding
from ullage.dropin.tiktoken.model import (
    encoding_for_model as encoding_for_model,
    encoding_name_for_model as encoding_name_for_model,
)
from ullage.dropin.tiktoken.registry import (
    get_encoding as get_encoding,
    list_encoding_names as list_encoding_names,
)

stands_in_for(__name__, "tiktoken")
