"""The text that an object was made from: who changes it does not want yesterday's numbers."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import uuid
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from sysconfig import get_paths
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor

NOBODYS = {"dsgt", "builtins", "abc", "typing", "torch"}
"""Packages whose text is part of no one's own."""
LIBRARIES = {Path(get_paths()[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
PLAIN = (int, float, complex, str, bytes, bool, type(None))
_UNKNOWN = uuid.uuid4().hex
"""A text that cannot be read is taken for another one in every process."""


def source(thing: Any) -> str:
    """A hash of the text of a function, of a class and of those it is made from, or of an object's class.

    What comes from a file counts with the whole file, the files beside it that it imports, or all files of its package.
    What was typed into a script, a notebook or a prompt counts by itself, with the values of the globals that it reads;
    and a function that another one made with the values that it kept. dsgt's own text is empty here.
    """
    texts = set(_all_texts(thing, set()))
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:16] if texts else ""


def value(thing: Any) -> str:
    """What a value is, in words that are the same in every process: numbers in full, a function by its text, an object
    by its class and its attributes."""
    return _value(thing, set())


def attributes(thing: Any) -> dict[str, Any]:
    """What a person's own object was given, fields of a dataclass and others; not what it has worked out."""
    return {
        name: v
        for name, v in getattr(thing, "__dict__", {}).items()
        if not isinstance(inspect.getattr_static(type(thing), name, None), cached_property)
    }


def _all_texts(thing: Any, known: set[int]) -> Iterator[str]:
    kind = thing if inspect.isroutine(thing) or isinstance(thing, type) else type(thing)
    for one in kind.__mro__ if isinstance(kind, type) else (inspect.unwrap(kind),):
        if _is_foreign(one) and id(one) not in known:
            known.add(id(one))
            yield from _texts(one)
            yield from _read_values(one, known)


def _is_foreign(one: Any) -> bool:
    return (getattr(one, "__module__", None) or "").split(".")[0] not in NOBODYS


def _read_values(one: Any, known: set[int]) -> Iterator[str]:
    """What functions take from outside: of a file's, whose text counts as a whole, only what they have kept."""
    typed = _file(one) is None
    for f in vars(one).values() if isinstance(one, type) else (one,):
        f = inspect.unwrap(getattr(f, "fget", None) or getattr(f, "__func__", f))
        if not isinstance(f, FunctionType):
            continue
        values: dict[str, Any] = {**inspect.getclosurevars(f).nonlocals, **(f.__kwdefaults__ or {})}
        values |= {f"default {k}": v for k, v in enumerate(f.__defaults__ or ())}
        if typed:
            values |= {name: f.__globals__[name] for name in _names(f.__code__) if name in f.__globals__}
        for name, v in sorted(values.items()):
            if not isinstance(v, ModuleType):
                yield f"{f.__qualname__}.{name} = {_value(v, known)}"


def _names(code: CodeType) -> Iterator[str]:
    """All that a function, and those inside it, may read from outside."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _value(v: Any, known: set[int]) -> str:
    if isinstance(v, PLAIN):
        return repr(v)
    if isinstance(v, Tensor):
        v = v.detach().cpu()
        v = (v.double() if v.is_floating_point() else v).numpy()  # NumPy knows no bfloat16
    if isinstance(v, np.ndarray) and v.dtype != object:
        return f"{v.dtype} {v.shape} {hashlib.sha256(np.ascontiguousarray(v).tobytes()).hexdigest()[:16]}"
    kind = v if inspect.isroutine(v) or isinstance(v, type) else type(v)
    said = f"{kind.__module__}.{kind.__qualname__} {[] if _installed(kind) else sorted(_all_texts(v, known))}"
    if kind is v or id(v) in known:  # or it is part of itself
        return said
    known.add(id(v))
    if isinstance(v, Mapping):
        parts = [f"{_value(k, known)}: {_value(x, known)}" for k, x in v.items()]
    elif isinstance(v, list | tuple | set | frozenset):
        parts = [_value(x, known) for x in v]
    else:
        parts = [f"{name} = {_value(x, known)}" for name, x in attributes(v).items()]
    return f"{said} {sorted(parts) if isinstance(v, set | frozenset) else parts}"


def _texts(one: Any) -> Iterator[str]:
    file = _file(one)
    if file is None:
        try:
            yield inspect.getsource(one)
        except (OSError, TypeError):
            yield f"{getattr(one, '__qualname__', one)} {_UNKNOWN}"
        return
    whole = getattr(sys.modules.get(one.__module__.split(".")[0]), "__file__", None)
    package = Path(whole).parent if whole and Path(whole).name == "__init__.py" else None
    for path in sorted(package.rglob("*.py")) if package else _beside(Path(file), set()):
        yield f"{path.name}\0{path.read_text(errors='replace')}"


def _installed(kind: Any) -> bool:
    """Whether it comes from Python or a library, whose text nobody changes between two runs."""
    if kind.__module__ == "__main__":  # a launcher's own file may lie among the libraries
        return False
    module = getattr(sys.modules.get(kind.__module__ or "builtins"), "__file__", None)
    return module is None or any(Path(module).is_relative_to(folder) for folder in LIBRARIES)


def _file(one: Any) -> str | None:
    """None for what was typed into a script or a prompt."""
    module = getattr(one, "__module__", None) or ""
    return None if module == "__main__" else getattr(sys.modules.get(module), "__file__", None)


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
