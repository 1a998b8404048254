"""The table of results for a paper: LaTeX, with the lines of booktabs."""

from __future__ import annotations

from collections.abc import Sequence

from dsgt.comparison.method_runs import MethodRuns
from dsgt.report.results import Column

SPECIAL = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "²": r"$^2$",
    "–": "--",
}


def latex(lines: Sequence[MethodRuns], columns: Sequence[Column], caption: str) -> str:
    """A ``table*``, which is as wide as the page also where that has two columns, with a caption; bold as in the
    columns. Needs booktabs, and graphicx, which narrows what is wider than the page."""
    rows = [
        " & ".join([escaped(line.title or line.method), *(_cell(column, k) for column in columns)])
        for k, line in enumerate(lines)
    ]
    headings = " & ".join(["Method", *(escaped(column.heading) for column in columns)])
    said = [caption]
    if any("±" in cell for column in columns for cell in column.cells):
        said.append("mean ± standard deviation over the seeds")
    if any(column.best for column in columns):
        said.append("bold: whom the seeds do not tell from the best")
    kinds = "l" + "".join("l" if column.heading == "weights" else "r" for column in columns)
    body = [
        r"\begin{table*}",
        r"  \centering",
        rf"  \caption{{{escaped('; '.join(said))}}}",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"  \begin{{tabular}}{{{kinds}}}",
        r"    \toprule",
        rf"    {headings} \\",
        r"    \midrule",
        *(rf"    {row} \\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}}",
        r"\end{table*}",
    ]
    return "% \\usepackage{booktabs,graphicx}\n" + "\n".join(body) + "\n"


def escaped(text: str) -> str:
    return "".join(SPECIAL.get(c, c) for c in text)


def _cell(column: Column, k: int) -> str:
    cell = escaped(column.cells[k])
    return rf"\textbf{{{cell}}}" if k in column.best else cell
