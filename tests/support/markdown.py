"""The code blocks of a Markdown page, with what the comments before them say about running them.

<!-- not run: why -->            it cannot be run in a test
<!-- run under torchrun -->      every process of four executes it
<!-- run with 100_000 as 6 -->   the test replaces the first text by the second, to be quick
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

_FENCED = re.compile(r"^((?:<!--[^\n]*-->\n)*)```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_REPLACED = re.compile(r"<!-- run with (.+) as (.+) -->")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    """Of its first fence."""
    language: str
    text: str
    """With what is to be replaced for a test replaced."""
    runs: bool
    torchrun: bool

    @property
    def source(self) -> str:
        """The text at the same lines as in the page, so that an error names the place."""
        return "\n" * self.line + self.text

    @property
    def commands(self) -> list[list[str]]:
        """The words of every command of a shell block."""
        lines = self.text.replace("\\\n", " ").splitlines() if self.language == "sh" else []
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in _FENCED.finditer(text):
        marks, language, code = match.groups()
        for old, new in _REPLACED.findall(marks):
            if old not in code:
                raise ValueError(f"{page.name} replaces {old!r} in a block that does not hold it")
            code = code.replace(old, new)
        line = text[: match.start(2)].count("\n") + 1
        runs, torchrun = "<!-- not run: " not in marks, "<!-- run under torchrun -->" in marks
        found.append(Block(page, line, language, code, runs, torchrun))
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCED.sub("", page.read_text())
