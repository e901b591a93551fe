"""litellm reads the table of models that it came with, not the newest one from the network."""

from __future__ import annotations

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
