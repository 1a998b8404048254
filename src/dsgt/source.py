"""The text that an object was made from: who changes it does not want yesterday's numbers."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_UNKNOWN = uuid.uuid4().hex
"""A text that cannot be read is taken for another one in every process."""


def source(thing: Any) -> str:
    """A hash of the text of a function, of a class and of those it is made from, or of an object's class.

    What comes from a file counts with the whole file, the files beside it that it imports, or all files of its package.
    What was typed into a script, a notebook or a prompt counts by itself. dsgt's own text is empty here.
    """
    kind = thing if inspect.isroutine(thing) or isinstance(thing, type) else type(thing)
    kinds = kind.__mro__ if isinstance(kind, type) else (inspect.unwrap(kind),)
    texts = {text for one in kinds for text in _texts(one)}
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:16] if texts else ""


def _texts(one: Any) -> Iterator[str]:
    module = getattr(one, "__module__", None) or ""
    top = module.split(".")[0]
    if top in {"dsgt", "builtins", "abc", "typing", "torch"}:
        return
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None:
        try:
            yield inspect.getsource(one)
        except (OSError, TypeError):
            yield f"{getattr(one, '__qualname__', one)} {_UNKNOWN}"
        return
    whole = getattr(sys.modules.get(top), "__file__", None)
    package = Path(whole).parent if whole and Path(whole).name == "__init__.py" else None
    for path in sorted(package.rglob("*.py")) if package else _beside(Path(file), set()):
        yield f"{path.name}\0{path.read_text(errors='replace')}"


def _beside(path: Path, known: set[Path]) -> set[Path]:
    """A file, and those of its folder that it imports."""
    if path in known or not path.is_file() or path.suffix != ".py":
        return known
    known.add(path)
    try:
        tree = ast.parse(path.read_text(errors="replace"))
    except SyntaxError:
        return known
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            _beside(path.parent / f"{name.split('.')[0]}.py", known)
    return known
