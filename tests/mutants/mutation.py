"""What a mutation is, and the list of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "src" / "dsgt"


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    """Within src/dsgt."""
    old: str
    new: str
    tests: str
    """What pytest is given, within tests/: "test_file.py" or "test_file.py -k words"."""

    def found_in(self, package: Path) -> int:
        """How often the old text stands in its file; 0 where there is no such file."""
        path = package / self.file
        return path.read_text().count(self.old) if path.is_file() else 0

    def apply(self, package: Path) -> None:
        path = package / self.file
        path.write_text(path.read_text().replace(self.old, self.new))


MUTATIONS = [
    Mutation(**entry) for entry in tomllib.loads((Path(__file__).parent / "mutations.toml").read_text())["mutation"]
]
