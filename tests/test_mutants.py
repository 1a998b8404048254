"""The list of mutations does not rot: ``make mutants`` can still apply every one of them, and finds its tests."""

from __future__ import annotations

import ast
import shlex

import pytest

from mutants.mutation import MUTATIONS, PACKAGE, TESTS, Mutation


def test_every_mutation_has_a_name_of_its_own():
    assert len({m.name for m in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_what_is_mutated_still_stands_exactly_once_and_its_tests_still_exist(mutation: Mutation):
    """Whoever rewrites such a line writes it anew in tests/mutants/mutations.toml, and runs ``make mutants``."""
    assert mutation.found_in(PACKAGE) == 1, f"{mutation.old!r} in {mutation.file}"
    assert mutation.new != mutation.old
    ast.parse((PACKAGE / mutation.file).read_text().replace(mutation.old, mutation.new))  # else no test would run
    path, *rest = shlex.split(mutation.tests)
    file, *names = path.split("[")[0].split("::")
    words = " ".join([*names, *rest]).replace("(", " ").replace(")", " ").split()
    text = (TESTS / file).read_text()
    assert all(word in text for word in words if word not in ("-k", "and", "or", "not")), mutation.tests
