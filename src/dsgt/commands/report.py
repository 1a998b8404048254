"""``dsgt report``: many comparisons on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dsgt import report
from dsgt.commands import terminal
from dsgt.commands.errors import plain_errors
from dsgt.extras import require

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()
EPILOG = "Examples:\n\n- `dsgt report runs/*`\n- `dsgt report runs/ring runs/star --out ring-star.html`"


@app.command(epilog=EPILOG)
def report_command(
    folders: Annotated[
        list[Path], typer.Argument(help="Where dsgt compare has written, or folders with such folders in them.")
    ],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("runs/index.html"),
) -> None:
    """Put many comparisons on one page: what each found, and any two of them side by side."""
    with plain_errors(console):
        require("jinja2", "plotly")
        page = report.index(folders, out)
    console.print(f"The page is {page}.", highlight=False, soft_wrap=True)
