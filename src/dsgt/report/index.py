"""Many comparisons on one page: what each found, and any two of them side by side."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsgt.report.looks import looks
from dsgt.report.parts import asset, policy, scripts, template
from dsgt.report.summary import FILE, read
from dsgt.report.sweep import Picture, notes, pictures
from dsgt.text import short


def index(folders: Sequence[Path | str], path: Path | str) -> Path:
    """Write the page over all comparisons in these folders, and in the folders within them; its path.

    A comparison is a folder in which ``dsgt.report.save``, or ``dsgt compare``, has written.
    """
    path = Path(path)
    found = sorted({file.parent for folder in folders for file in _within(Path(folder))}, key=_by_numbers)
    if not found:
        raise ValueError(
            f"there is no comparison in {', '.join(map(str, folders)) or 'no folder'}; give folders that dsgt compare "
            f"has written {FILE} into"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    names = _names(found)
    comparisons = {
        name: read(f) | {"href": _link(f / "report.html", path)} for name, f in zip(names, found, strict=True)
    }
    parents = {f.parent for f in found}
    beside = parents.pop() if len(parents) == 1 else None  # the points of a sweep
    drawn, said = ([], []) if beside is None else (pictures(beside), notes(beside))
    figures = [(one, _link(one.file, path)) for one in drawn]
    path.write_text(page(comparisons, figures, said if drawn else ()), encoding="utf-8")
    return path


def page(
    comparisons: dict[str, dict[str, Any]],
    figures: Sequence[tuple[Picture, str]] = (),
    notes: Sequence[str] = (),
) -> str:
    """By name, the summaries; each may have an ``href``. ``figures`` of a sweep, and where their files are, and what to
    know beside them."""
    settings = [one["settings"] for one in comparisons.values()]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    varying = [key for key in keys if len({one.get(key) for one in settings}) > 1]
    same = {key: settings[0][key] for key in keys if key not in varying}
    most = max((len(one["methods"]) for one in comparisons.values()), default=0)
    rows = [
        {
            "name": name,
            "href": one.get("href", ""),
            "values": [one["settings"].get(key, "–") for key in varying],
            "best": "–" if one["best"] is None else f"{_title(one)} ({short(one['best']['loss'])})",
            "verdict": one["verdict"][0],
        }
        for name, one in comparisons.items()
    ]
    data = {
        "names": list(comparisons),
        "comparisons": [one | {"methods": _looking(one["methods"])} for one in comparisons.values()],
        "looks": looks([False] * 2 * most),  # enough for any two
    }
    texts = scripts("index.js")
    return template("index.html").render(
        rows=rows,
        varying=varying,
        same=same,
        figures=figures,
        notes=notes,
        data=data,
        scripts=texts,
        policy=policy(texts),
        style=asset("style.css"),
    )


def _title(one: dict[str, Any]) -> str:
    """Of the best method."""
    name: str = one["best"]["name"]
    titles = {method["name"]: method.get("title") for method in one["methods"]}
    return titles.get(name) or name


def _looking(methods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every method as in the comparison's own report."""
    own = looks(bool(method["reference"]) for method in methods)
    return [method | look for method, look in zip(methods, own, strict=True)]


def _within(folder: Path) -> list[Path]:
    return [folder / FILE] if (folder / FILE).is_file() else sorted(folder.rglob(FILE))


def _by_numbers(folder: Path) -> list[tuple[str | float, ...]]:
    """``nodes=4`` before ``nodes=16``: numbers in names by their values."""
    split = (re.split(r"(\d+(?:\.\d+)?)", part) for part in folder.parts)
    return [tuple(float(piece) if k % 2 else piece for k, piece in enumerate(pieces)) for pieces in split]


def _names(folders: Sequence[Path]) -> list[str]:
    """As short as they can be told apart: without what all paths begin with."""
    if len(folders) == 1:
        return [folders[0].name or str(folders[0])]
    top = Path(os.path.commonpath([f.resolve() for f in folders]))
    return [str(f.resolve().relative_to(top)) if f.resolve() != top else f.name for f in folders]


def _link(file: Path, page: Path) -> str:
    return Path(os.path.relpath(file.parent.resolve() / file.name, page.resolve().parent)).as_posix()
