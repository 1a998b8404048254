"""Threads that move messages leave the cores to those that compute."""

from __future__ import annotations

import os
import sys
from threading import Thread

import pytest

from dsgt.networks.background import Background
from dsgt.threads import undisturbing_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this policy")


def policy_of_a_new_thread() -> int:
    found: list[int] = []
    thread = Thread(target=lambda: found.append(os.sched_getscheduler(0)))
    thread.start()
    thread.join()
    return found[0]


def test_threads_started_inside_do_not_disturb_and_this_one_is_itself_again():
    with undisturbing_threads():
        assert policy_of_a_new_thread() == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert policy_of_a_new_thread() == os.SCHED_OTHER


def test_within_another_it_stays_as_it_is():
    with undisturbing_threads():
        with undisturbing_threads():
            pass
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_system_that_forbids_it_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    with undisturbing_threads():
        assert policy_of_a_new_thread() == os.SCHED_OTHER


def test_the_background_does_not_disturb():
    background = Background()
    assert background.begin(lambda: os.sched_getscheduler(0)).result() == os.SCHED_BATCH  # type: ignore[arg-type]
    background.close()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_closing_waits_for_what_has_been_begun():
    """A thread that is inside torch when the interpreter ends aborts the process."""
    background, done = Background(), []
    for _ in range(100):
        background.begin(lambda: done.append(1))  # type: ignore[arg-type, func-returns-value]
    background.close()
    assert len(done) == 100
