"""What a shell offers while somebody types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def starting(known: Iterable[str]) -> Any:
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]
