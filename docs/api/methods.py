"""A hook of mkdocs: the page of methods lists every file of src/dsgt/algorithms, so a new one needs no line there."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

METHODS = Path(__file__).parents[2] / "src" / "dsgt" / "algorithms"
MARKER = "<!-- every method -->"

SECTION = """## {title}

::: dsgt.algorithms.{module}
    options:
      filters: ["!^[a-z_]", "!^State$"]
      show_root_heading: false
      show_root_toc_entry: false
      show_if_no_docstring: true
"""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return markdown.replace(MARKER, "\n".join(_sections()))


def _sections() -> list[str]:
    """One for each file, under the first words of its docstring: the name of the method."""
    found = []
    for file in sorted(METHODS.glob("[a-z]*.py")):
        text = ast.get_docstring(ast.parse(file.read_text())) or ""
        if "Guarantee:" not in text:
            continue  # named.py holds no method
        title = text.splitlines()[0]
        found.append(SECTION.format(title=re.split("[:;]", title)[0].rstrip("."), module=file.stem))
    return found
