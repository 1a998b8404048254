"""What the tests that were asked for need: starting real nodes takes long, so all tests of a file share one start."""

from __future__ import annotations

from typing import Any

import pytest


def selected(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """The values of this parameter among the selected tests of the file that asks: of ``name``, ``pytest -k decentlam``
    selects one."""
    here = [item for item in request.session.items if item.path == request.path]
    given = [item.callspec.params for item in here if hasattr(item, "callspec")]
    return list(dict.fromkeys(values[parameter] for values in given if parameter in values))
