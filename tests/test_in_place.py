"""Large rounds: computed from the method's formulas and in place, they are the same rounds."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import dsgt
from dsgt import buffers
from dsgt.buffers import Buffers
from dsgt.core import Algorithm, Mix, Network, Pending, tensors
from dsgt.engine.in_place import InPlace
from dsgt.engine.learning_rate import PreparedRate
from dsgt.networks import Clocked, Cycle, Dense, Peers, in_threads
from dsgt.networks.flights import land_carriers
from dsgt.topologies import metropolis
from support.cases import CASES, F64, graph, quadratic
from support.interrupted import equal, go, interrupted
from support.nonlinear_methods import Clipped

N, M, ROUNDS = 6, 101, 8
each = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is."""
    monkeypatch.setattr(buffers, "LARGE_BYTES", 1)
    monkeypatch.setattr("dsgt.engine.numpy_rounds.MOST_NUMBERS", 0)


def states(algorithm: Algorithm[Any], network: Network | np.ndarray, dtype: torch.dtype = F64) -> Any:
    """A run on a curved function."""
    draw = torch.Generator().manual_seed(0)
    x0, centre = (torch.randn(N, M, dtype=F64, generator=draw).to(dtype) for _ in range(2))
    x0 = x0[0] if algorithm.equal_starts else x0
    return dsgt.iterate(algorithm, lambda x, k: torch.tanh(x - centre), network, x0, lambda k: 0.1 / (k // 2 + 1))


def copied(some: Any, rounds: int = ROUNDS) -> list[dict[str, Tensor]]:
    return [{k: v.clone() for k, v in tensors(next(some)).items()} for _ in range(rounds)]


def apart(some: list[dict[str, Tensor]], others: list[dict[str, Tensor]]) -> float:
    return max(float((a[f] - b[f]).abs().max()) for a, b in zip(some, others, strict=True) for f in a)


@each
def test_a_large_round_is_the_same_round(name: str, request: pytest.FixtureRequest) -> None:
    W = CASES[name].weights(graph(N))
    small, in_place = Dense(W), Dense(W)
    expected = copied(states(CASES[name].algorithm, small))
    request.getfixturevalue("large")
    found = copied(states(CASES[name].algorithm, in_place))
    assert apart(expected, found) < 1e-13  # sums are rounded in another order
    assert in_place.traffic == small.traffic


@each
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_state_that_somebody_holds_is_left_alone(name: str, dtype: torch.dtype, large: None) -> None:
    W = CASES[name].weights(graph(N))
    run = states(CASES[name].algorithm, W, dtype)
    kept = [next(run) for _ in range(ROUNDS)]
    expected = copied(states(CASES[name].algorithm, W, dtype))
    assert apart([tensors(s) for s in kept], expected) == 0  # and looking at states changes no bit of the run


@each
@pytest.mark.parametrize("n", [5, 12])
def test_a_large_run_resumes_bit_for_bit(name: str, n: int, tmp_path: Path, large: None) -> None:
    W = CASES[name].weights(graph(n))
    assert equal(interrupted(CASES[name], lambda: Dense(W), n, tmp_path), go(CASES[name], W, n))


@each
def test_a_run_in_single_precision_goes_on_bit_for_bit_from_its_tensors(name: str, large: None) -> None:
    """There, BLAS adds a product to a sum as if it had been computed before, and one pass over memory is saved."""
    W, algorithm = CASES[name].weights(graph(N)), CASES[name].algorithm
    run = states(algorithm, W, torch.float32)
    middle = [next(run) for _ in range(4)][-1]
    expected = copied(run, 3)
    draw = torch.Generator().manual_seed(0)
    x0, centre = (torch.randn(N, M, dtype=F64, generator=draw).float() for _ in range(2))
    lr = {3: 0.05, 4: 0.1 / 3, 5: 0.1 / 3}
    again = dsgt.iterate(
        algorithm, lambda x, k: torch.tanh(x - centre), W, x0, lambda k: lr.get(k, 1.0), after=(3, dsgt.settle(middle))
    )
    assert apart(expected, copied(again, 4)[1:]) == 0


def test_a_network_that_changes_sends_over_the_network_of_the_round(request: pytest.FixtureRequest) -> None:
    W = metropolis(graph(N))
    lazy = (np.eye(N) + W) / 2
    expected = copied(states(dsgt.GNSD(), Cycle([W, lazy, lazy @ lazy])))
    request.getfixturevalue("large")
    assert apart(expected, copied(states(dsgt.GNSD(), Cycle([W, lazy, lazy @ lazy])))) < 1e-13


def test_a_virtual_clock_shows_the_same_times(request: pytest.FixtureRequest) -> None:
    clocks = [Clocked(metropolis(graph(N)), compute=1.0, latency=0.3, bandwidth=1e3) for _ in range(2)]
    copied(states(dsgt.DSGT(), clocks[0]))
    request.getfixturevalue("large")
    copied(states(dsgt.DSGT(), clocks[1]))
    assert (clocks[0].clock == clocks[1].clock).all()


def test_what_the_gradient_hands_out_is_never_overwritten(large: None) -> None:
    seen: list[tuple[Tensor, Tensor]] = []
    array = np.zeros((N, M))

    def grad(x: Tensor, k: int) -> Tensor:
        g = [x, torch.from_numpy(array), x.clone(), 2 * x][k % 4]  # its own argument, an array, and others
        seen.append((x, x.clone()))
        seen.append((g, g.clone()))
        return g

    run = dsgt.iterate(dsgt.DSGT(), grad, metropolis(graph(N)), torch.ones(N, M, dtype=F64), 0.1)
    for _ in range(12):
        next(run)
    assert all(torch.equal(a, b) for a, b in seen)


def test_a_run_of_dsgt_needs_five_vectors_which_are_freed_when_it_ends(large: None) -> None:
    """x, g, y, the y before and the next x: what the oracle does not need any more serves the round."""

    def needed() -> int:
        memory, problem = Buffers.shared(), quadratic(N)
        run = dsgt.iterate(
            dsgt.DSGT(),
            lambda x, k: memory.scratch(x).copy_(problem.full(x, k)),
            metropolis(graph(N)),
            torch.ones(N, 5, dtype=F64),
            0.01,
        )
        for _ in range(200):
            next(run)  # what was needed at the beginning only has been freed by now
        return len(memory._kept)

    assert needed() == 5
    assert not Buffers.shared()._kept


def test_derivatives_of_a_large_run(large: None) -> None:
    start = torch.zeros(N, 5, dtype=F64, requires_grad=True)
    run = dsgt.iterate(dsgt.DSGT(), quadratic(N).full, metropolis(graph(N)), start, 0.01)
    x = [next(run) for _ in range(4)][-1].x
    x.sum().backward()
    assert start.grad is not None
    assert start.grad.abs().min() > 0


class Operations(TorchDispatchMode):
    """Counts what goes over memory."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_a_round_of_dsgt_is_two_products_and_two_passes(large: None) -> None:
    n, m = 24, 1000
    memory = Buffers()
    rounds = InPlace(dsgt.DSGT(), memory)
    dense, g = Dense(metropolis(graph(n))), torch.randn(n, m)
    state = dsgt.DSGT().init(torch.randn(n, m), dense)
    for _ in range(4):
        state = rounds.update(state, g, dense.at(0), 0.1)
    with Operations() as operations:
        state = rounds.update(state, g, dense.at(0), 0.1)
    passes = {name: times for name, times in operations.count.items() if name != "detach"}
    v, total = torch.randn(n, m), torch.randn(n, m)
    if not dense.at(0).products.add_product(v, total):
        pytest.skip("this BLAS rounds a product that is added to something in another way")
    assert passes == {"add": 2, "addmm_": 1, "mm": 1}
    assert len(memory._kept) == 4


def test_a_product_is_added_only_where_that_changes_no_bit() -> None:
    for n, dtype in ((2, torch.float32), (24, torch.float32), (24, F64), (300, torch.float32)):
        dense = Dense(metropolis(graph(n)))
        v, total = (torch.randn(n, 2000, dtype=dtype) for _ in range(2))
        for _ in range(2):
            expected, before = total + dense(v), total.clone()
            done = dense.at(0).products.add_product(v, total)
            assert torch.equal(total, expected if done else before)


class Random(NamedTuple):
    x: Any
    y: Any
    z: Any
    first: Any
    second: Any


class RandomText(Algorithm[Random]):
    """Any sums, multiples and mixings of what came before; messages are passed on, and waited for again."""

    sends, exact, arithmetic = 1, False, True

    def __init__(self, lines: list[tuple[str, int, int, float]], ends: tuple[int, ...]) -> None:
        self.lines, self.ends = lines, ends

    def init(self, x: Tensor, mix: Mix) -> Random:
        return Random(x, x, 2 * x, mix.start(x), mix.start_flow(x))

    def update(self, s: Random, g: Any, mix: Mix, lr: float) -> Random:
        values = [s.x, s.y, s.z, g]
        sent: list[Pending] = [s.first, s.second]
        for what, i, j, c in self.lines:
            a, b = values[i % len(values)], values[j % len(values)]
            if what == "start":
                sent.append(mix.start(a) if c > 0 else mix.start_flow(a))
                continue
            choices = {
                "add": lambda a=a, b=b: a + b,
                "sub": lambda a=a, b=b, c=c: a - c * b,
                "mul": lambda a=a, c=c: lr * a * c,
                "div": lambda a=a: -a / 2,
                "mix": lambda a=a: mix(a),
                "flow": lambda a=a: mix.flow(a),
                "wait": lambda j=j: sent[j % len(sent)].wait(),
            }
            values.append(choices[what]())
        *fields, first, second = self.ends
        picked = (values[i % len(values)] for i in fields)
        return Random(*picked, sent[first % len(sent)], sent[second % len(sent)])


numbers = st.integers(0, 100)
lines = st.lists(
    st.tuples(
        st.sampled_from(["add", "sub", "mul", "div", "mix", "flow", "start", "wait"]),
        numbers,
        numbers,
        st.sampled_from([1.0, -1.0, 0.5]),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(
    lines=lines, ends=st.tuples(numbers, numbers, numbers, numbers, numbers), kind=st.sampled_from(["dense", "clocked"])
)
def test_any_formula_is_computed_as_it_is_written(lines: Any, ends: Any, kind: str) -> None:
    algorithm = RandomText(lines, ends)
    W = metropolis(graph(N))
    found: list[Any] = []
    for size in (1 << 18, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(buffers, "LARGE_BYTES", size)
            memory = Buffers()
            rounds = InPlace(algorithm, memory)
            network = Dense(W) if kind == "dense" else Clocked(W, compute=1.0, latency=0.3)
            x = torch.linspace(-1, 1, N * 7, dtype=F64).view(N, 7)
            state: Any = algorithm.init(x, network.at(0))
            for k in range(4):
                g, mix = torch.cos(state.x + k), network.at(k)
                state = (algorithm if size > 1 else rounds).update(state, g, mix, 0.1)
            clock = network.clock if isinstance(network, Clocked) else 0
            found.append((tensors(state), network.traffic, clock))
    (expected, *_), (values, *_) = found
    for field, value in expected.items():
        assert torch.allclose(values[field], value, rtol=1e-11, atol=1e-11), field
    assert found[0][1] == found[1][1]
    assert np.all(found[0][2] == found[1][2])


def test_a_text_that_is_no_linear_formula(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    class Normalised(dsgt.AtcDPSGD):
        arithmetic = True

        def update(self, s: Any, g: Any, mix: Mix, lr: float) -> Any:
            return type(s)(mix(s.x - lr * g / (1.0 + g * g)))

    class Signs(dsgt.AtcDPSGD):
        arithmetic = True

        def update(self, s: Any, g: Any, mix: Mix, lr: float) -> Any:
            return type(s)(mix(s.x - torch.tensor(lr) * torch.sign(g)))

    class Numbers(dsgt.AtcDPSGD):
        arithmetic = True

        def update(self, s: Any, g: Any, mix: Mix, lr: float) -> Any:
            return type(s)(mix(s.x - np.float64(0.5) * lr * g - g * np.float64(0.25)))

    methods = [Normalised(), Signs(), Numbers()]
    monkeypatch.setattr("dsgt.engine.numpy_rounds.MOST_NUMBERS", 0)
    expected = [copied(states(method, metropolis(graph(N)))) for method in methods]
    request.getfixturevalue("large")
    for method, plain in zip(methods, expected, strict=True):
        assert apart(plain, copied(states(method, metropolis(graph(N))))) < 1e-13


def test_a_method_that_does_not_say_it_is_arithmetic_is_given_tensors(request: pytest.FixtureRequest) -> None:
    W = metropolis(graph(N))
    expected = copied(states(Clipped(), W))
    request.getfixturevalue("large")
    assert apart(expected, copied(states(Clipped(), W))) == 0


def test_a_delayed_message_is_sent_as_it_was(request: pytest.FixtureRequest) -> None:
    """It is passed on for a round, while the model that it holds is moved."""

    class Delayed(NamedTuple):
        x: Any
        older: Any
        newer: Any

    class Delay(dsgt.Algorithm[Delayed]):
        sends, exact, arithmetic = 1, False, True

        def init(self, x: Tensor, mix: Mix) -> Delayed:
            return Delayed(x, mix.start(x), mix.start(x))

        def update(self, s: Delayed, g: Any, mix: Mix, lr: float) -> Delayed:
            x = s.x - lr * g + (s.older.wait() - s.x) / 2
            return Delayed(x, s.newer, mix.start(x))

    expected = copied(states(Delay(), metropolis(graph(N))))
    request.getfixturevalue("large")
    assert apart(expected, copied(states(Delay(), metropolis(graph(N))))) < 1e-13


def test_a_gradient_that_writes_into_one_memory_is_mixed_when_it_is_sent(request: pytest.FixtureRequest) -> None:
    class State(NamedTuple):
        x: Any
        Wg: Any

    class Gossiped(dsgt.Algorithm[State]):
        sends, exact, arithmetic = 2, False, True

        def init(self, x: Tensor, mix: Mix) -> State:
            return State(x, mix.start(0 * x))

        def update(self, s: State, g: Any, mix: Mix, lr: float) -> State:
            return State(mix(s.x - lr * s.Wg.wait()), mix.start(g))

    def run() -> list[dict[str, Tensor]]:
        memory = torch.empty(N, M, dtype=F64)
        start = torch.linspace(-1, 1, N * M, dtype=F64).view(N, M)
        return copied(
            dsgt.iterate(Gossiped(), lambda x, k: torch.cos(x + k, out=memory), metropolis(graph(N)), start, 0.1)
        )

    expected = run()
    request.getfixturevalue("large")
    assert apart(expected, run()) < 1e-13


def test_a_gradient_of_higher_precision_raises_that_of_the_model_in_any_round(large: None) -> None:
    def grad(x: Tensor, k: int) -> Tensor:
        return x.double() if k >= 3 else x

    run = dsgt.iterate(dsgt.AtcDPSGD(), grad, metropolis(graph(N)), torch.ones(N, M), 0.1)
    assert [next(run).x.dtype for _ in range(6)] == [torch.float32] * 4 + [F64] * 2


def test_rounds_in_inference_mode_and_then_outside(large: None) -> None:
    run = states(dsgt.DSGT(), metropolis(graph(N)))
    with torch.inference_mode():
        for _ in range(4):
            next(run)
    for _ in range(4):
        state = next(run)
    assert state.x.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_rate_multiplies_as_the_number_does_to_the_last_bit(dtype: torch.dtype) -> None:
    v, rate = torch.randn(1000, dtype=dtype, generator=torch.Generator().manual_seed(0)), PreparedRate(0.1, dtype)
    assert rate == 0.1
    assert rate * 3 == 0.1 * 3
    assert torch.equal(rate * v, 0.1 * v)
    assert torch.equal(rate * v.double(), 0.1 * v.double())  # also where it was made for another precision


def walked(algorithm: Algorithm[Any], network: Network, *, in_place: bool) -> dict[str, Tensor]:
    """Four rounds of one node, or of all; with a learning rate that changes once."""
    rows = torch.linspace(-1, 1, N * 7, dtype=F64).view(N, 7)
    x = (rows if network.node is None else rows[network.node]).clone()
    rounds = InPlace(algorithm, network.buffers, keep_x=True) if in_place else algorithm
    state: Any = algorithm.init(x.clone(), network.at(0))._replace(x=x)
    for k in range(4):
        g = torch.cos(state.x + k)
        state = rounds.update(state, g, network.at(k), 0.1 if k < 2 else 0.05)
        land_carriers(state, x)
        x.copy_(state.x)  # as the optimizer does: the parameters live in one place
        state = state._replace(x=x)
    return {name: v.clone() for name, v in tensors(state).items()}


@settings(max_examples=150, deadline=None)
@given(lines=lines, ends=st.tuples(numbers, numbers, numbers, numbers, numbers))
def test_any_formula_between_real_nodes_is_computed_as_it_is_written(lines: Any, ends: Any) -> None:
    """Messages travel in the background, sums are added up ahead there, and the new x is written over the old one.
    A message departs late, so that memory which is overwritten too early is sent wrongly."""
    algorithm, W = RandomText(lines, ends), metropolis(graph(N))
    expected = walked(algorithm, Dense(W), in_place=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffers, "LARGE_BYTES", 1)
        patch.setattr("dsgt.networks.peers.BACKGROUND_FROM", 1)
        patch.setattr("dsgt.networks.flights.HEAD_START", 0.005)
        found = in_threads(W, lambda network: walked(algorithm, network, in_place=True), timeout=60)
    for field, value in expected.items():
        rows = torch.stack([mine[field] for mine in found])
        assert torch.allclose(rows, value, rtol=1e-11, atol=1e-11), field


class Passing(NamedTuple):
    x: Any
    seen: Any
    message: Any
    newer: Any


class PassesOn(Algorithm[Passing]):
    """Keeps what has arrived, and looks at the same message again a round later; x is added to what has arrived."""

    sends, exact, arithmetic = 1, False, True

    def init(self, x: Tensor, mix: Mix) -> Passing:
        return Passing(x, 0 * x, mix.start(0 * x), mix.start(0 * x))

    def update(self, s: Passing, g: Any, mix: Mix, lr: float) -> Passing:
        arrived = s.message.wait()
        x = s.x + arrived - lr * g
        return Passing(x, arrived, s.newer, mix.start(g - 0.5 * s.seen))


def test_x_is_not_added_up_ahead_since_others_may_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(network: Peers) -> Tensor:
        p = torch.nn.Parameter(torch.zeros(7, dtype=F64))
        optimizer = dsgt.Optimizer([p], PassesOn(), network, lr=0.1)
        for k in range(6):
            optimizer.zero_grad()
            torch.sin(p + k + network.node).sum().backward()
            optimizer.step()
            p.data.clamp_(-0.3, 0.3)
        return p.detach().clone()

    W = metropolis(graph(3))
    expected = torch.stack(in_threads(W, train, timeout=60))
    monkeypatch.setattr(buffers, "LARGE_BYTES", 1)
    monkeypatch.setattr("dsgt.networks.peers.BACKGROUND_FROM", 1)
    assert torch.allclose(torch.stack(in_threads(W, train, timeout=60)), expected, rtol=1e-12)


def test_what_was_added_up_for_one_state_is_not_used_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that goes back to an earlier state."""
    monkeypatch.setattr(buffers, "LARGE_BYTES", 1)
    monkeypatch.setattr("dsgt.networks.peers.BACKGROUND_FROM", 1)

    def train(network: Peers) -> tuple[Tensor, Tensor]:
        p = torch.nn.Parameter(torch.zeros(7, dtype=F64))
        optimizer = dsgt.Optimizer([p], dsgt.DSGT(), network, lr=0.1)

        def steps(*ks: int) -> Tensor:
            for k in ks:
                optimizer.zero_grad()
                torch.sin(p + k + network.node).sum().backward()
                optimizer.step()
            return p.detach().clone()

        steps(0, 1, 2)
        saved = copy.deepcopy(optimizer.state_dict())
        once = steps(3, 4)
        steps(5)
        optimizer.load_state_dict(saved)
        return once, steps(3, 4)

    for once, again in in_threads(metropolis(graph(3)), train, timeout=60):
        assert torch.equal(once, again)


def test_a_message_that_is_waited_for_twice_is_multiplied_once() -> None:
    sent = Dense(metropolis(graph(N))).at(0).send(torch.randn(N, 3))
    assert sent.wait() is sent.wait()
