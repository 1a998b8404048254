"""A node's life among others, over mail that loses letters: nothing is under way at the end; strangers do no harm."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from dsgt.asynchronous import real as runtime
from dsgt.asynchronous import recorded, saved
from dsgt.asynchronous.algorithms import ASYNCHRONOUS
from dsgt.asynchronous.letters import Envelope, Form, RefusedError
from dsgt.asynchronous.mail import Letter
from dsgt.asynchronous.node import Node, mass
from dsgt.asynchronous.real import CLOSING, FAREWELL, RESTING, RealNode
from dsgt.divergence import DivergedError
from dsgt.networks.neighbours import NeighbourError
from support.launch import HANGING
from support.town import DIM, NODES, Box, Town, gradient, live, node_of, real, together

METHODS = pytest.mark.parametrize("name", ASYNCHRONOUS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits says everything again at once."""
    monkeypatch.setattr(runtime, "AGAIN", 0.01)
    monkeypatch.setattr(runtime, "GLANCE", 0.01)
    monkeypatch.setattr(runtime, "GRACE", 0.2)  # twenty good-byes: one of them is not lost, or others wait for it


def under_way(nodes: list[Node[Any]]) -> float:
    """What was given and not taken."""
    found = 0.0
    for node in nodes:
        for r, out in node.mail.to.items():
            taken = nodes[r].mail.of[node.i].taken
            if out.total is not None:
                found = max(found, float((out.total - taken).abs().max()) if taken is not None else torch.inf)
    return found


@METHODS
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_nothing_is_under_way_at_the_end_and_the_record_gives_every_model_again(name: str, loss: float, tmp_path: Path):
    algorithm, town, path = ASYNCHRONOUS[name](), Town(loss=loss), tmp_path / "run.log"
    nodes = [real(algorithm, i, Box(town, i)) for i in range(NODES)]
    together([partial(live, one, 5 + 10 * (one.node.i != 1), path, 0.001 * (one.node.i == 1)) for one in nodes])
    assert under_way([one.node for one in nodes]) == 0.0
    assert sum(one.heard for one in nodes) > 0

    records = [recorded.read(recorded.path_of(path, i), i) for i in range(NODES)]
    again = [node_of(algorithm, i) for i in range(NODES)]
    assert recorded.replayed(again, records, gradient) == 3 * 15 + 5 + NODES
    for one, other in zip(nodes, again, strict=True):
        assert torch.equal(one.node.state[0], other.state[0])


class Deaf(Box):
    """Reads nothing from when it is told to until all neighbours have read that its node rests."""

    def __init__(self, town: Town, i: int, form: Form, neighbours: set[int]) -> None:
        super().__init__(town, i)
        self.form, self.told, self.deaf = form, neighbours, threading.Event()

    def receive(self, timeout: float = 0.0) -> Iterator[tuple[int | None, bytearray]]:
        if self.deaf.is_set() and self.told:
            time.sleep(timeout)
            return iter(())
        return super().receive(timeout)

    def read_by(self, neighbour: int, data: bytearray) -> None:
        if self.form.decode(data).phase >= RESTING:
            self.told -= {neighbour}


class Reporting(Box):
    """Tells the deaf one what of its letters is read."""

    def __init__(self, town: Town, i: int, of: Deaf) -> None:
        super().__init__(town, i)
        self.of = of

    def receive(self, timeout: float = 0.0) -> Iterator[tuple[int | None, bytearray]]:
        for sender, data in super().receive(timeout):
            if sender == self.of.i:
                self.of.read_by(self.i, data)
            yield sender, data


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + HANGING
    while not true() and time.monotonic() < end:
        time.sleep(0.001)


def test_what_was_asked_of_a_node_that_rests_is_given_before_anybody_leaves():
    """Node 1 rests last and before it reads that others ask, and they hear first that it rests."""
    algorithm, town = ASYNCHRONOUS["ad-psgd"](), Town()
    slow = node_of(algorithm, 1)
    links = slow.mail.links
    deaf = Deaf(town, 1, Form.of(algorithm, slow.point), {*links.tells, *links.listens})
    nodes = [real(algorithm, i, deaf if i == 1 else Reporting(town, i, deaf)) for i in range(NODES)]

    def wake(one: RealNode) -> None:
        one.wake(gradient(one.node.i, one.node.point, one.node.mail.k))

    def asks(one: RealNode) -> bool:
        wake(one)
        return 1 not in one.node.mail.to or one.node.mail.to[1].question is not None

    def all_others_rest() -> bool:
        known = [(node.node.i, j, phase) for node in nodes for j, phase in node._phases.items()]
        return all(phase >= RESTING for i, j, phase in known if 1 not in (i, j))

    def lived(one: RealNode) -> None:
        one.start()
        if one.node.i == 1:
            wake(one)
            deaf.deaf.set()
            until(all_others_rest)
        else:
            deaf.deaf.wait(HANGING)
            until(lambda: asks(one))
        one.finish()

    together([partial(lived, one) for one in nodes])
    assert under_way([one.node for one in nodes]) == 0.0


def test_a_record_that_was_changed_or_cut_is_not_replayed(tmp_path: Path):
    algorithm, town, path = ASYNCHRONOUS["asy-sonata"](), Town(), tmp_path / "run.log"
    together([partial(live, real(algorithm, i, Box(town, i)), 4, path) for i in range(NODES)])
    records = [recorded.read(recorded.path_of(path, i), i) for i in range(NODES)]
    nodes = [node_of(algorithm, i) for i in range(NODES)]

    def another(i: int, x: torch.Tensor, k: int) -> torch.Tensor:
        g = gradient(i, x, k)
        return torch.nextafter(g, g + 1) if (i, k) == (2, 3) else g  # the last bit, once

    with pytest.raises(recorded.DifferentReplayError, match="node 2 after its wake 4"):
        recorded.replayed(nodes, records, another)
    file = recorded.path_of(path, 0)
    file.write_text(file.read_text().removesuffix("end\n"))
    with pytest.raises(ValueError, match="its last line is missing"):
        recorded.read(file, 0)


def lives(node: RealNode, wakes: int) -> Callable[[], None]:
    return partial(live, node, wakes)


@METHODS
def test_a_node_that_dies_returns_from_its_own_checkpoint_while_the_others_go_on(name: str, tmp_path: Path):
    """Node 1 dies after 9 wakes, is thrown back to its 6th, and lives to the end; nobody else is told."""
    algorithm, town = ASYNCHRONOUS[name](), Town()

    def born(i: int, phase: int, node: Node[Any]) -> RealNode:
        def save(phase: int) -> None:
            saved.save(saved.path_of(tmp_path, i, NODES), node, nodes=NODES, job="test", phase=phase)

        form = Form.of(algorithm, node.point)
        return RealNode(node, form, Box(town, i), job="test", timeout=60, save=save, save_every=3, phase=phase)

    ended: list[Node[Any]] = [node_of(algorithm, i) for i in range(NODES)]

    def dies() -> None:
        first = born(1, 0, ended[1])
        first.start()
        for _ in range(9 - 1):
            first.wake(gradient(1, first.node.point, first.node.mail.k))
        first._quiet()
        with town.changed:  # nothing of it is left, but what it told and what it saved
            numbers = first.node.mail.number
        ended[1] = node_of(algorithm, 1)
        phase = saved.load(saved.path_of(tmp_path, 1, NODES), ended[1], nodes=NODES, job="test")
        assert (ended[1].mail.k, phase) == (6, runtime.RUNNING)
        assert ended[1].mail.number > numbers + (1 << 31)
        live(born(1, phase, ended[1]), 15 - 6)

    together([dies if i == 1 else lives(born(i, 0, ended[i]), 15) for i in range(NODES)])
    assert under_way(ended) == 0.0
    if name in ("asy-sonata", "appg"):
        total = sum(node.state.g for node in ended)
        torch.testing.assert_close(mass(ended).float(), total, rtol=0, atol=1e-4)  # float32 states
    if name in ("asyspa", "agp"):
        assert float(mass(ended)[-1]) == pytest.approx(NODES, abs=1e-5)


def test_a_phase_is_saved_before_it_is_told(tmp_path: Path):
    """Else a node that is killed could come back to a phase before the one that others count on."""
    algorithm, town = ASYNCHRONOUS["appg"](), Town()
    order: list[tuple[str, int]] = []

    class Listening(Box):
        def send(self, to: int, data: bytes | bytearray) -> None:
            order.append(("told", Form.of(algorithm, torch.zeros(DIM)).decode(bytearray(data)).phase))
            super().send(to, data)

    nodes = [real(algorithm, i, Box(town, i)) for i in range(1, NODES)]
    nodes.append(real(algorithm, 0, Listening(town, 0), save=lambda phase: order.append(("saved", phase))))
    together([lives(one, 2) for one in nodes])
    for phase in (runtime.RUNNING, runtime.RESTING, CLOSING, FAREWELL):
        assert order.index(("saved", phase)) < order.index(("told", phase))


def test_a_node_that_comes_back_without_its_memory_is_told_so():
    algorithm, town = ASYNCHRONOUS["asy-sonata"](), Town()
    nodes = [real(algorithm, i, Box(town, i)) for i in range(NODES)]
    nodes[1].node.mail.of[0].letter = Letter(0, 77, None, None)  # what it heard of node 0 before that was killed
    nodes[1].tell(everyone=True)
    with pytest.raises(NeighbourError, match="node 0 has taken part before, as node 1 remembers"):
        nodes[0].start()


def test_nodes_with_different_settings_are_told_at_the_start():
    algorithm, town = ASYNCHRONOUS["asy-sonata"](), Town()
    other = node_of(algorithm, 1)
    RealNode(other, Form.of(algorithm, other.point), Box(town, 1), job="other").tell(everyone=True)
    with pytest.raises(NeighbourError, match="node 0 and its neighbour, node 1, were given different"):
        real(algorithm, 0, Box(town, 0)).start()


def test_who_does_not_come_is_named():
    town = Town()
    one = RealNode(node := node_of(ASYNCHRONOUS["appg"](), 0), Form.of(node.algorithm, node.point), Box(town, 0),
                   job="test", timeout=0.05)  # fmt: skip
    with pytest.raises(NeighbourError, match="heard nothing from its neighbour, node 1"):
        one.start()


def test_a_gradient_that_is_no_number_ends_the_node_and_not_the_others():
    town = Town()
    one = real(ASYNCHRONOUS["appg"](), 0, Box(town, 0), phase=runtime.RUNNING)
    one.start()
    with pytest.raises(DivergedError, match="the gradient of node 0 in round 0 is not finite"):
        one.wake(torch.full((DIM,), torch.nan))
    assert one.node.mail.k == 0


def test_a_node_wakes_between_start_and_finish_only():
    with pytest.raises(RuntimeError, match="has not started"):
        real(ASYNCHRONOUS["appg"](), 0, Box(Town(), 0)).wake(torch.zeros(DIM))


# --- letters


def letter_of(one: RealNode) -> bytearray:
    return one._form.encode(one._envelope(1))


def woken(name: str = "asy-sonata", i: int = 0) -> RealNode:
    one = real(ASYNCHRONOUS[name](), i, Box(Town(), i), phase=runtime.RUNNING)
    one.node.wake(gradient(i, one.node.point, 0))
    return one


@METHODS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_letter_comes_as_it_was_written(name: str, dtype: torch.dtype):
    algorithm = ASYNCHRONOUS[name]()
    form, pair = Form.of(algorithm, torch.zeros(DIM, dtype=dtype)), [node_of(algorithm, i, dtype) for i in (0, 1)]
    for i in (0, 1, 0, 1):
        pair[i].wake(gradient(i, pair[i].point, 0))
        if 1 - i not in pair[i].mail.to:
            continue
        letter = pair[i].mail.letter(1 - i)
        data = form.encode(Envelope(b"8 bytes.", letter, 3, 2, 1 << 40))
        assert len(data) <= form.longest
        come = form.decode(data)
        assert (come.job, come.phase, come.seen, come.heard) == (b"8 bytes.", 3, 2, 1 << 40)
        for there, here in zip(come.letter, letter, strict=True):
            assert there is None if here is None else torch.equal(torch.as_tensor(there), torch.as_tensor(here))
        if come.letter.total is not None:
            assert come.letter.total.dtype == torch.float64
        pair[1 - i].hear(come.letter)


def test_whatever_is_no_letter_of_this_job_is_refused_and_counted_and_changes_nothing():
    receiver = real(ASYNCHRONOUS["asy-sonata"](), 1, post := Sent(), phase=runtime.RUNNING)
    good = letter_of(woken())
    shifted = bytearray(good)
    shifted[4:12] = b"stranger"
    from_3 = bytearray(good)
    from_3[12:16] = (3).to_bytes(4, "little")
    float64 = real_in(torch.float64)
    longer = real_of(DIM + 1)
    post.come = [
        (0, bytearray(b"")),
        (0, bytearray(b"dsg1")),
        (0, bytearray(range(200))),
        (0, bytearray(good[:-1])),
        (0, good + bytes(8)),
        (0, letter_of(float64)),
        (0, letter_of(longer)),
        (2, bytearray(good)),  # node 2 signs as node 0
        (3, from_3),  # the ring goes from 0 to 1; 3 has nothing to tell 1
        (0, shifted),
    ]
    before = receiver.node.saved()
    receiver.node.mail.k = 1  # later than the start, where another job is an error
    receiver.hear()
    assert receiver.refused == {
        "no letter": 3, "wrong length": 3, "wrong dtype": 1, "signed as another": 1, "no neighbour": 1, "another job": 1
    }  # fmt: skip
    receiver.node.mail.k = 0
    assert receiver.node.saved().keys() == before.keys()
    assert all(torch.equal(v, before[name]) for name, v in receiver.node.saved().items())
    post.come = [(0, good), (0, bytearray(good))]
    receiver.hear()
    assert receiver.heard == 1


def test_noise_of_every_length_is_refused():
    form = Form.of(ASYNCHRONOUS["ad-psgd"](), torch.zeros(DIM))
    good = letter_of(woken("ad-psgd"))
    for length in range(len(good)):
        with pytest.raises(RefusedError):
            form.decode(bytearray(good[:length]))


class Sent:
    """A mailbox that is told what has come."""

    turned_away = 0

    def __init__(self) -> None:
        self.come: list[tuple[int | None, bytearray]] = []

    def send(self, to: int, data: bytes | bytearray) -> None: ...

    def receive(self, timeout: float = 0.0) -> Any:
        come, self.come = self.come, []
        return iter(come)

    def close(self) -> None: ...


def real_in(dtype: torch.dtype) -> RealNode:
    node = node_of(ASYNCHRONOUS["asy-sonata"](), 0, dtype)
    node.wake(torch.zeros(DIM, dtype=dtype))
    return RealNode(node, Form.of(node.algorithm, node.point), Sent(), job="test")


def real_of(length: int) -> RealNode:
    like = node_of(ASYNCHRONOUS["asy-sonata"](), 0)
    node = Node(like.algorithm, like.mail.links, torch.zeros(length), like.lr)
    node.wake(torch.zeros(length))
    return RealNode(node, Form.of(node.algorithm, node.point), Sent(), job="test")


def test_a_model_that_letters_cannot_carry_is_refused():
    with pytest.raises(ValueError, match="convert it"):
        Form.of(ASYNCHRONOUS["appg"](), torch.zeros(DIM, dtype=torch.bfloat16))


# --- traps


class Watched:
    """A lock that says when somebody comes to it."""

    def __init__(self) -> None:
        self._lock, self.wanted = threading.RLock(), threading.Event()

    def __enter__(self) -> None:
        if threading.current_thread().name == "dsgt-listener":
            self.wanted.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_who_looks_at_a_state_holds_its_lock_and_meanwhile_no_question_is_answered():
    town = Town()
    one = real(ASYNCHRONOUS["ad-psgd"](), 0, Box(town, 0), phase=runtime.RUNNING)
    lock = one.lock = Watched()  # type: ignore[assignment]
    asking = node_of(ASYNCHRONOUS["ad-psgd"](), 1)
    asking.state = asking.state._replace(x=torch.ones(DIM))
    seen: set[int] = set()
    while not seen:  # until its draw falls on node 0
        asking.wake(torch.zeros(DIM))
        seen = {r for r, out in asking.mail.to.items() if out.question is not None and r == 0}
    one.start()
    with lock:
        Box(town, 1).send(0, one._form.encode(Envelope(one._job, asking.mail.letter(0), runtime.RUNNING, 0, 0)))
        assert lock.wanted.wait(HANGING)
        x = one.node.state.x
        assert torch.equal(x, torch.zeros(DIM))
    one.close()
    assert torch.equal(one.node.state.x, torch.full((DIM,), 0.5))  # half way to the other


@pytest.mark.parametrize("name", ["asyspa", "agp"])
def test_a_node_that_hears_nothing_keeps_a_floor_of_its_weight(name: str):
    """Without it 300 halvings leave no weight at all, and the model is no number."""
    node = node_of(ASYNCHRONOUS[name](), 0)
    for k in range(300):
        node.wake(gradient(0, node.point, k))
    assert node.state.x.isfinite().all()
    assert float(node.state.w) > 0.01


def test_what_is_given_is_counted_in_float64_also_between_float32_models():
    """In float32 one more would be nothing beside 2^24."""
    giver, taker = node_of(ASYNCHRONOUS["asy-sonata"](), 0), node_of(ASYNCHRONOUS["asy-sonata"](), 1)
    form = Form.of(giver.algorithm, giver.point)
    for given in (2.0**24, 1.0):
        giver.mail.number += 1
        giver.mail.give(1, torch.full((DIM,), given))
        taker.hear(form.decode(form.encode(Envelope(bytes(8), giver.mail.letter(1), 1, 1, 0))).letter)
        assert torch.equal(torch.as_tensor(taker.mail.take()), torch.full((DIM,), given))


def test_a_node_that_returns_is_heard_though_it_has_had_fewer_events_than_before():
    node = node_of(ASYNCHRONOUS["asy-sonata"](), 0)
    other = node_of(ASYNCHRONOUS["asy-sonata"](), 1)
    early = node.saved()
    for k in range(5):
        node.wake(gradient(0, node.point, k))
    assert other.hear(node.mail.letter(1))
    back = node_of(ASYNCHRONOUS["asy-sonata"](), 0)
    back.restore(early)
    back.wake(gradient(0, back.point, 0))
    assert other.hear(back.mail.letter(1))
    assert not other.hear(node.mail.letter(1))  # what it said in its earlier life
