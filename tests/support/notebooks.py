"""Notebooks, each run in a kernel of its own; ``python tests/support/notebooks.py`` writes their outputs into them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
SECONDS = 600
"""That a cell may take before it hangs."""


def executed(path: Path, folder: Path) -> Any:
    """The notebook with fresh outputs; an error in a cell is raised here, with the cell."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran is nobody's business
    return notebook


if __name__ == "__main__":
    import tempfile

    import nbformat

    for path in NOTEBOOKS if len(sys.argv) < 2 else map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)
        print(path.name)
