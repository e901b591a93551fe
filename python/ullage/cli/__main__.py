"""`python -m ullage.cli`."""

from __future__ import annotations

from ullage.cli import main

raise SystemExit(main())
