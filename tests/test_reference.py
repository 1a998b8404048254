"""Every public name stands in the reference, and the site is built without a warning."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest

import dsgt

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PUBLIC = ["comparison", "report", "data.partition", "data.sampling", "data.synthetic"]
"""Modules whose names users write out, beside those in ``dsgt.__all__``."""


def hook() -> ModuleType:
    """The one that lists the methods on their page."""
    spec = importlib.util.spec_from_file_location("methods_page", DOCS / "api" / "methods.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference() -> dict[str, bool]:
    """Every ``::: path`` of the reference, and whether its members are shown with it."""
    text = "\n".join(hook().on_page_markdown(page.read_text()) for page in sorted((DOCS / "api").glob("*.md")))
    found = re.findall(r"^::: (\S+)\n((?:    .*\n)*)", text + "\n", flags=re.MULTILINE)
    once = {path: "members: false" not in options for path, options in found}
    assert len(once) == len(found), "docs/api has a name twice"
    return once


def resolve(path: str) -> object:
    """The file of that name where there is one, as the site has it: ``dsgt.run``, and the function ``dsgt.run.run``."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        head, _, name = path.rpartition(".")
        return getattr(resolve(head), name)


def own_names(module: ModuleType) -> list[str]:
    """What a module offers: ``__all__``, or what it defines without an underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    constants = re.findall(r"^([A-Z][A-Z_]+)\b[^=\n]*=", inspect.getsource(module), flags=re.MULTILINE)
    defined = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    return [name for name in sorted({*defined, *constants}) if not name.startswith("_")]


def public_names() -> dict[str, object]:
    modules = {name: value for name in dsgt.__all__ if inspect.ismodule(value := getattr(dsgt, name))}
    found: dict[str, object] = {f"dsgt.{name}": getattr(dsgt, name) for name in dsgt.__all__}
    for name, module in (modules | {name: importlib.import_module(f"dsgt.{name}") for name in PUBLIC}).items():
        found |= {f"dsgt.{name}.{own}": getattr(module, own) for own in own_names(module)}
    return found


def documented() -> dict[int, object]:
    """By identity: ``dsgt.DSGT`` and ``dsgt.algorithms.DSGT`` are one, and a function is the one that it wraps."""
    found = []
    for path, with_members in reference().items():
        value = resolve(path)
        found.append(value)
        if inspect.ismodule(value) and with_members:
            found += [getattr(value, name) for name in own_names(value)]
    return {id(inspect.unwrap(value)): value for value in found}


def test_every_name_in_the_reference_exists():
    missing = []
    for path in reference():
        try:
            resolve(path)
        except (AttributeError, ModuleNotFoundError):
            missing.append(path)
    assert not missing, "docs/api names what is not there (any more)"


def test_a_function_is_not_mistaken_for_the_file_of_its_name():
    files = [path for path in reference() if inspect.ismodule(resolve(path))]
    meant = [path for path in files if path not in public_names() or inspect.ismodule(public_names()[path])]
    assert files == meant, "write '::: dsgt.theory.advise.advise' for the function of the file advise.py"


def test_every_public_name_stands_in_the_reference():
    known = documented()
    missing = [path for path, value in public_names().items() if id(inspect.unwrap(value)) not in known]
    assert not missing, "add a line '::: name' for each to a page of docs/api"


def built(folder: Path) -> Path:
    """The site, as ``make docs`` builds it."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def defined_at(value: object) -> str:
    return f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"


def test_the_site_shows_every_public_name_can_be_searched_and_fetches_nothing_from_other_hosts(tmp_path: Path):
    pytest.importorskip("mkdocs", reason="pip install 'dsgt[docs]' brings mkdocs")
    site = built(tmp_path)

    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    shown = {line.split(" ")[0] for line in inventory.splitlines()}
    names = {path: value for path, value in public_names().items() if not inspect.ismodule(value)}
    here = {id(value) for path, value in names.items() if shown & {path, defined_at(value)}}
    assert not [path for path, value in names.items() if id(value) not in here]

    assert "one_peer_exponential" in (site / "search" / "search_index.json").read_text()

    elsewhere = r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(?:https?:)?//"
    assert not [page.name for page in site.rglob("*.html") if re.search(elsewhere, page.read_text())]
