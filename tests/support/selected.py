"""Which methods the tests that were asked for need: starting real nodes takes long, so all of them share one start."""

from __future__ import annotations

import pytest


def selected_methods(request: pytest.FixtureRequest) -> list[str]:
    """The values of ``name`` among the selected tests of the file that asks: ``pytest -k decentlam`` needs one."""
    here = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in here if hasattr(item, "callspec")]
    return list(dict.fromkeys(given["name"] for given in parameters if "name" in given))
