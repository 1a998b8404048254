"""Apply one mutation at a time to a copy of the package and run the tests that must notice it.

usage, in tests/: python -m mutants [NAME ...] [--jobs N]    (without names: all of them)

The exit code is 1 if a mutation survived, if its text does not stand in its file exactly once, or if its tests fail
without it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants.mutation import MUTATIONS, PACKAGE, TESTS, Mutation

LIMIT = 600
"""Seconds after which tests that never end count as having failed."""
MEMORY = 16 << 30
"""Bytes that tests may ask for: without a limit that a mutation has taken away they would take the machine's."""
PASSED, FAILED = 0, 1
"""pytest's exit codes; any other means that no test was run."""


def pytest(package: Path, tests: str) -> tuple[int, str]:
    """The exit code and the words of these tests on that copy of the package."""
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(package.parent), str(TESTS)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *shlex.split(tests)]
    try:
        done = subprocess.run(
            command, cwd=TESTS, env=environ, capture_output=True, text=True, timeout=LIMIT, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return FAILED, f"no end after {LIMIT} s"
    return done.returncode, done.stdout + done.stderr


def judged(tests: str, mutation: Mutation | None = None) -> tuple[str, str]:
    """What became of a mutation, or of the tests without one; and, where that is not as it should be, why."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src" / "dsgt"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation is not None:
            if (times := mutation.found_in(package)) != 1:
                return "not found", f"its text stands {times} times in {mutation.file}"
            mutation.apply(package)
        code, says = pytest(package, tests)
    if mutation is None:
        return ("passed", "") if code == PASSED else ("failed", says)
    return {PASSED: ("SURVIVED", f"passed: {tests}"), FAILED: ("killed", "")}.get(code, ("no test ran", says))


def a_file_at_a_time(selections: Iterable[str]) -> list[str]:
    """The same tests in fewer starts of pytest."""
    by_file: dict[str, set[str]] = {}
    for file, *words in map(shlex.split, sorted(selections)):
        by_file.setdefault(file, set()).add(words[1] if words else "")
    return [
        shlex.join([file] if "" in words else [file, "-k", " or ".join(f"({w})" for w in sorted(words))])
        for file, words in by_file.items()
    ]


def main(names: Sequence[str], jobs: int) -> int:
    if unknown := set(names) - {m.name for m in MUTATIONS}:
        raise SystemExit(f"no mutation is called {', '.join(sorted(unknown))}")
    chosen = [m for m in MUTATIONS if not names or m.name in names]
    began = time.monotonic()
    complaints: list[str] = []
    with ThreadPoolExecutor(jobs) as pool:
        selections = a_file_at_a_time({m.tests for m in chosen})
        for tests, (verdict, why) in zip(selections, pool.map(judged, selections), strict=True):
            if verdict != "passed":
                complaints.append(f"{tests} fails without a mutation:\n{why}")
        if complaints:
            print("\n\n".join(complaints))
            return 1
        for m, (verdict, why) in zip(chosen, pool.map(lambda m: judged(m.tests, m), chosen), strict=True):
            print(f"{m.name:24}{m.file:36}{verdict:12}", flush=True)
            if verdict != "killed":
                complaints.append(f"{m.name}: {verdict}: {why}")
    print(f"{len(chosen) - len(complaints)} of {len(chosen)} killed in {time.monotonic() - began:.0f} s")
    print("\n\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    sys.exit(main(given.names, given.jobs))
