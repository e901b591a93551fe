"""A report about sessions as one HTML file: what filled the window, what left it, and what that cost.

`figures_of` collects everything about a session as plain values; `report_page` draws one or several of them as a page that loads
nothing; `write_report` does both and writes the file.
"""

from __future__ import annotations

from ullage.report.page import report_page as report_page, write_report
from ullage.report.session_figures import SessionFigures as SessionFigures, figures_of

__all__ = ["figures_of", "write_report"]
