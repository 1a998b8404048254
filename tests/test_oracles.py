"""Where gradients come from: the words ``Local`` and ``Oracle``, and each oracle against what it promises."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from dsgt import DSGT, EXTRA, iterate, run
from dsgt.core import Gradient, Local, Oracle, parameter
from dsgt.data import Shards
from dsgt.data.sampling import Full, WithReplacement
from dsgt.networks import Clocked, Dense
from dsgt.problems import LeastSquares, Model
from dsgt.topologies import metropolis, ring

F64 = torch.float64
SIZES = [6, 7, 8, 9]
W = metropolis(ring(4))


def problem(sizes: list[int] = SIZES, *, l2: float = 0.1, batch: int = 2, m: int = 5) -> LeastSquares:
    generator = torch.Generator().manual_seed(3)
    A = torch.randn(sum(sizes), m, dtype=F64, generator=generator)
    b = A @ torch.ones(m, dtype=F64) + torch.randn(sum(sizes), dtype=F64, generator=generator)
    order = torch.randperm(sum(sizes), generator=generator)
    return LeastSquares((A, b), Shards.of(order.split(sizes)), WithReplacement(batch=[batch] * len(sizes)), l2=l2)


def points(p: LeastSquares, seed: int = 0) -> Tensor:
    return torch.randn(p.nodes, p.dim, dtype=F64, generator=torch.Generator().manual_seed(seed))


class Sum(NamedTuple):
    past: Tensor


@dataclass(frozen=True)
class Added(Oracle[Sum]):
    """Remembers, asks twice, and reads lr: whatever an oracle may do."""

    share: float = parameter(0.25, "of the past", least=0)

    def init(self, f: Local, x: Tensor) -> Sum:
        return Sum(f.full(x))

    def ask(self, memory: Sum, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Sum]:
        g = (f.gradient(x, k) + f.gradient(x - lr, k)) / 2
        past = self.share * memory.past + (1 - self.share) * g
        return past.clone(), Sum(past)


@pytest.mark.parametrize("q", [1, 2, 6])
@pytest.mark.parametrize("sizes", [SIZES, [6, 12, 6, 18]])
def test_f_is_the_mean_of_its_parts_whatever_the_sizes(q: int, sizes: list[int]):
    p = problem(sizes)
    f, x = p.local(0), points(p)
    parts = [f.part(x, torch.full((p.nodes, 1), j), q) for j in range(q)]
    assert (torch.stack(parts).mean(dim=0) - f.full(x)).abs().max() < 1e-13
    same = x[:1].expand_as(x).contiguous()
    assert (f.full(same).mean(dim=0) - p.gradient(x[0])).abs().max() < 1e-13


def test_a_part_is_computed_from_its_own_samples_alone():
    p = problem(l2=0.0)
    x, j = points(p), torch.tensor([[0], [2], [1], [3]])
    found = p.local(0).part(x, j, 4)
    for i, (N, part) in enumerate(zip(SIZES, j.flatten().tolist(), strict=True)):
        held = p.shards[i][part * N // 4 : (part + 1) * N // 4]
        A, b = p.data.features[held], p.data.targets[held]
        assert (found[i] - 4 * 4 / 30 * A.mT @ (A @ x[i] - b)).abs().max() < 1e-13


def test_a_real_node_answers_as_the_simulator_does():
    p = problem()
    x, j = points(p), torch.tensor([[0], [2], [1], [3]])
    all_ = p.local(5)
    for i in range(p.nodes):
        own = p[i].local(5)
        assert own.rows.tolist() == all_.rows[i].tolist()
        assert (own.full(x[i]) - all_.full(x)[i]).abs().max() < 1e-14
        assert (own.part(x[i], j[i], 4) - all_.part(x, j, 4)[i]).abs().max() < 1e-14
        assert (own.gradient(x[i], 3) - all_.gradient(x, 3)[i]).abs().max() < 1e-14


def test_what_a_problem_does_not_compute_is_refused_with_its_name():
    f = Local(lambda x, k: x, torch.arange(4)[:, None])
    for ask in (
        f.full,
        lambda x: f.conjugate(x, x),
        lambda x: f.part(x, f.rows, 2),
        lambda x: f.resolvent(x, f.rows, 2, 0.1),
    ):
        with pytest.raises(TypeError, match=r"Local does not compute .*; use a problem that does"):
            ask(torch.zeros(4, 2))


def test_more_parts_than_samples_are_refused():
    with pytest.raises(ValueError, match=r"q is 7, but node 0 holds 6 samples.*use 1 <= q <= 6"):
        problem().local(0).part(points(problem()), torch.zeros(4, 1, dtype=torch.int64), 7)


def test_an_answer_costs_what_it_looks_at():
    p = problem()
    f, x = p.local(0), points(p)
    f.gradient(x, 0)
    f.gradient(x, 0)
    assert f.bill() == 2.0
    f.full(x)
    f.part(x, f.rows % 3, 3)
    assert f.bill().tolist() == pytest.approx([N / 2 * (1 + 1 / 3) for N in SIZES])
    assert f.bill() == 0.0


def test_a_method_with_an_oracle_is_a_method_with_one_parameter_more():
    made = EXTRA().asking(Added(0.5))
    assert repr(made) == "EXTRA(oracle=Added(share=0.5))"
    assert isinstance(made, EXTRA)
    assert made.asks == Added(0.5)
    assert made == EXTRA().asking(Added(0.5)) != EXTRA().asking(Added())
    assert made != EXTRA()
    assert pickle.loads(pickle.dumps(made)) == made
    assert EXTRA().asking(Gradient()) == EXTRA()
    with pytest.raises(ValueError, match="already asks Added"):
        made.asking(Added())
    with pytest.raises(ValueError, match=r"share of Added is -1; expected at least 0"):
        Added(-1)


def test_run_and_iterate_ask_the_oracle_and_agree_with_a_loop_by_hand():
    p = problem()
    rounds = run(EXTRA(), p, W, rounds=7, lr=0.05, oracle=Added()).x
    states = iterate(EXTRA(), p.local(0), W, p.start(0), 0.05, oracle=Added())
    last = next(islice(states, 7, None))
    f, x, mix = p.local(0), p.start(0).expand(4, -1).clone(), Dense(W)
    state, memory = EXTRA().init(x, mix.at(0)), Added().init(f, x)
    for k in range(7):
        g, memory = Added().ask(memory, f, state.x, k, 0.05)
        state = EXTRA().update(state, g, mix.at(k), 0.05)
    assert (rounds - state.x).abs().max() < 1e-14
    assert (last.x - state.x).abs().max() < 1e-14


def test_a_run_with_a_memory_resumes_bit_for_bit(tmp_path):
    p, kwargs = problem(), {"lr": 0.05, "every": 5, "oracle": Added()}
    whole = run(DSGT(), p, W, rounds=20, **kwargs)
    run(DSGT(), p, W, rounds=7, checkpoint_dir=tmp_path, **kwargs)
    resumed = run(DSGT(), p, W, rounds=20, checkpoint_dir=tmp_path, resume=True, **kwargs)
    assert torch.equal(whole.x, resumed.x)
    assert whole.column("epochs") == resumed.column("epochs")


def test_a_checkpoint_of_another_oracle_is_refused(tmp_path):
    run(DSGT(), problem(), W, rounds=2, lr=0.05, oracle=Added(), checkpoint_dir=tmp_path)
    for other in (Added(0.5), None):
        with pytest.raises(Exception, match="method"):
            run(DSGT(), problem(), W, rounds=4, lr=0.05, oracle=other, checkpoint_dir=tmp_path, resume=True)


def test_going_on_from_a_state_without_the_memory_is_refused():
    p = problem()
    state = next(iterate(DSGT(), p.oracle(0), W, p.start(0), 0.05))
    with pytest.raises(ValueError, match=r"after=3 rounds was given, but Added\(share=0.25\) remembers more"):
        next(iterate(DSGT(), p.local(0), W, p.start(0), 0.05, oracle=Added(), after=(3, state)))


def test_epochs_and_the_virtual_clock_count_every_gradient():
    p = problem()
    network = Clocked(W, compute=[1.0, 2.0, 3.0, 4.0])
    result = run(DSGT(), p, network, rounds=5, lr=0.05, every=1, oracle=Added())
    expected = [1 + 5 * 2 * 8 / 30]  # a full pass at first, then two gradients of two samples at each of four nodes
    assert result.column("epochs")[-1] == pytest.approx(expected[0])
    assert result.column("epochs")[0] == 0
    full = [N / 2 for N in SIZES]
    assert network.clock.max() == pytest.approx(max(c * (f + 10) for c, f in zip([1, 2, 3, 4], full, strict=True)))
    assert run(DSGT(), p, W, rounds=5, lr=0.05).column("epochs")[-1] == pytest.approx(5 * 8 / 30)


def test_exact_sampling_and_parts_do_not_disturb_each_other():
    p = problem()
    exact = LeastSquares(p.data, p.shards, Full(), l2=0.1)
    x = points(p)
    f, g = p.local(0), exact.local(0)
    assert (f.full(x) - g.gradient(x, 4)).abs().max() < 1e-14
    assert torch.equal(f.part(x, f.rows, 4), g.part(x, f.rows, 4))


def test_a_pass_over_a_large_shard_of_a_module_is_computed_in_pieces(monkeypatch):
    p = problem()
    module = Model(
        torch.nn.Linear(5, 1, bias=False),
        (p.data.features, p.data.targets[:, None]),
        p.shards,
        Full(),
        loss=torch.nn.functional.mse_loss,
        l2=0.1,
        strategy="loop",
    )
    x = points(p)
    whole = module.local(0).full(x)
    monkeypatch.setattr("dsgt.problems.erm.AT_ONCE", 60)
    assert module.pieces_of_a_shard == 3  # of a shard of nine samples of five numbers, each counted four times
    largest = []
    real = torch.nn.functional.mse_loss
    module._flat.loss = lambda outputs, targets: (largest.append(len(outputs)), real(outputs, targets))[1]
    assert (module.local(0).full(x) - whole).abs().max() < 1e-13
    assert max(largest) == 3
