"""Results as one HTML page that needs nothing but itself."""

from __future__ import annotations

from pathlib import Path

from dsgt.comparison import Comparison
from dsgt.report.page import page

__all__ = ["page", "save"]


def save(found: Comparison, folder: Path | str) -> Path:
    """Write a comparison's settings, rows, table and figures, and the page that shows them; its path."""
    report = found.save(folder) / "report.html"
    report.write_text(page(found), encoding="utf-8")
    return report
