"""What all tests share: what is slow, and that no test depends on how fast the machine is, or on luck."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from dsgt.algorithms import COMPOSITIONS
from support.cases import CASES

SLOW = [
    "test_every_network",
    "test_reproduce",
    "test_peers",
    "test_async_processes",
    "test_faults",
    "test_resume",
    "test_examples",
    "test_notebooks",
    "test_optim_saved",
    "test_optim_inside",
    "test_comparison_interrupted",
    "test_report_browser",
    "test_train",
    "test_problems_runtime",
    "test_theory_plan",
    "test_theory_windows",
    "test_theory_rates",
    "test_checkpoint_also",
    "test_light",
    "test_reference",
    "test_digits",
    "test_checkpoint_fuzz",
    "test_loaders_fuzz",
    "test_network_files_fuzz",
]
"""Files that start real nodes, processes, browsers or whole experiments, ask all methods at once, or try many inputs.
``make check`` leaves them out, as every other test that is marked slow; ``make test`` begins with them, so that no core
waits for them at the end."""

DAILY = ["dpsgd", "dsgt", "d2", "sgp", "decentlam", "push-pull", "k-gt", "choco"]
"""The methods that ``make check`` runs where a test is asked of every method: one of each kind."""
OTHERS = {*CASES, *COMPOSITIONS} - {*DAILY}

# The same examples every time; an example may take as long as a busy machine makes it take. To look for others:
# pytest --hypothesis-profile=explore
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in SLOW or _other_method(item):
            item.add_marker("slow")
    items.sort(key=lambda item: SLOW.index(item.path.stem) if item.path.stem in SLOW else len(SLOW))


def _other_method(item: pytest.Item) -> bool:
    """Whether a test is asked of every method, and this is not one for every day."""
    asked = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(isinstance(one, str) and one in OTHERS for one in asked)
