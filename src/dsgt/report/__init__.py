"""Results as one HTML page that needs nothing but itself, and many of them on one."""

from __future__ import annotations

from pathlib import Path

from dsgt.comparison import Comparison, Sweep
from dsgt.report import summary
from dsgt.report.index import index
from dsgt.report.latex import latex
from dsgt.report.page import facts, fields, page
from dsgt.report.results import table

__all__ = ["index", "page", "save"]


def save(
    found: Comparison | Sweep, folder: Path | str, *, figure_width: float | None = None, against: str | None = None
) -> Path:
    """Write a comparison's settings, rows, tables and figures, and the page that shows them; its path. Of a sweep this
    is done for every point, with its own figures, and the page is the one over all points.

    ``figure_width`` is in inches, of a column of the paper; ``against`` as in ``Comparison.plot``.
    """
    if isinstance(found, Sweep):
        pages = [
            save(one, Path(folder) / point.name, figure_width=figure_width, against=against)
            for point, one in found.found.items()
        ]
        return index([page.parent for page in pages], found.save(folder, figure_width=figure_width) / "index.html")
    report = found.save(folder, figure_width=figure_width, against=against) / "report.html"
    columns, several = table(found.lines), len({line.weights for line in found.lines if not line.centralized}) > 1
    about = "; ".join(fact for fact in facts(found.settings) if not (several and fact.endswith(" weights")))
    report.with_name("table.tex").write_text(latex(found.lines, columns, about), encoding="utf-8")
    summary.write(summary.summary(found, fields(found.settings), against=against), report.parent)
    report.write_text(page(found, against=against), encoding="utf-8")
    return report
