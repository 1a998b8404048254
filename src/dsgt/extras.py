"""Packages that only some of this package needs, and how to have them: ``pip install 'dsgt[cli]'`` and its like.

Installing dsgt brings what training needs. Whatever else is imported where it is used, and named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "cloudpickle": "report",
    "pydantic": "report",
    "sklearn": "report",
    "matplotlib": "report",
    "pandas": "report",
    "jinja2": "report",
    "plotly": "report",
    "PIL": "report",
    "pyarrow": "parquet",
    "tensorboard": "tensorboard",
    "mpi4py": "mpi",
    "zmq": "zmq",
}
"""The extra of pyproject.toml that brings a module; ``cli`` brings those of ``report`` too."""


def how_to_install(module: str) -> str:
    """One line about a module that is not there; empty if no extra brings it, so that it is somebody else's."""
    top = module.split(".")[0]
    return f"{top} is not installed; have it with: pip install 'dsgt[{EXTRAS[top]}]'" if top in EXTRAS else ""


def require(*modules: str) -> None:
    """For what begins with long work and needs these only at its end."""
    for module in modules:
        if find_spec(module) is None:
            raise ModuleNotFoundError(how_to_install(module), name=module)


@contextmanager
def explained() -> Iterator[None]:
    """Around the import of such a package: where it is missing, the error says how to have it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not (said := how_to_install(error.name or "")):
            raise
        raise ModuleNotFoundError(said, name=error.name) from None
