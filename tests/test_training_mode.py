"""Modules as they are: BatchNorm's statistics, dropout's masks and augmented samples are each node's own.

Real processes are in test_problems_runtime.py, workers of a comparison in test_model_flags.py.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

import dsgt
from dsgt import checkpoint, metrics
from dsgt.asynchronous.run import run_async
from dsgt.data import Bernoulli, Full, Samples, Shards, WithoutReplacement, WithReplacement, augment, partition
from dsgt.networks import in_threads
from dsgt.problems import Model
from dsgt.randomness import bits, seeded
from dsgt.statistics import SHARE, averaged, packed, unpacked
from dsgt.topologies.weights import metropolis

F64 = torch.float64
N, SEED, LR = 3, 5, 0.2
W = metropolis(nx.path_graph(N))
MASKS, AUGMENTED = 4, 5  # the streams of problems/training.py: pinned, so that old runs can be repeated
MEASURED = {
    "loss": metrics.loss,
    "accuracy": metrics.accuracy,
    "node_loss": metrics.node_loss_max,
    "slope": metrics.gradient_norm,
}


def samples(count: int = 45, seed: int = 0) -> Samples:
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (count,), generator=rng)
    images = torch.randn(count, 1, 4, 4, dtype=F64, generator=rng) + labels.view(-1, 1, 1, 1).double()
    return Samples(images, labels)


DATA, TEST = samples(), samples(12, seed=1)
SHARDS = partition.sizes(DATA, [10, 15, 20])


def module(*, p: float = 0.4) -> nn.Sequential:
    with seeded(0):
        return nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(p), nn.Flatten(), nn.Linear(8, 3)
        ).double()


def problem(net: nn.Module | None = None, **options: Any) -> Model:
    given = {"test": TEST, "augment": augment.flip, "strategy": "loop"} | options
    return Model(net or module(), DATA, SHARDS, WithReplacement(batch=[3, 4, 6]), **given)


def run(p: Model, rounds: int = 8, **options: Any) -> Any:
    given = {"lr": LR, "every": 4, "seed": SEED, "metrics": MEASURED} | options
    return dsgt.run(dsgt.DSGT(), p, W, rounds=rounds, **given)


def nodes_by_hand(rounds: int) -> tuple[Tensor, list[nn.Module]]:
    """DSGT on n modules of torch, each in training mode, trained by autograd; written without the package's loop."""
    nets = [module().train() for _ in range(N)]
    batches = problem().batches(SEED)
    mixing = torch.tensor(W, dtype=F64)
    weight = [N * size / len(DATA) for size in (10, 15, 20)]

    def gradients(k: int) -> Tensor:
        found = []
        for i, rows in enumerate(batches.rows(k).split([3, 4, 6])):
            images = augment.flip(DATA.features[rows], torch.Generator().manual_seed(int(bits(SEED, AUGMENTED, i, k))))
            torch.manual_seed(int(bits(SEED, MASKS, i, k)))
            value = weight[i] * cross_entropy(nets[i](images), DATA.targets[rows])
            grads = torch.autograd.grad(value, list(nets[i].parameters()))
            found.append(torch.cat([g.reshape(-1) for g in grads]))
        return torch.stack(found)

    def put(x: Tensor) -> None:
        for net, row in zip(nets, x, strict=True):
            nn.utils.vector_to_parameters(row, net.parameters())

    x = torch.stack([nn.utils.parameters_to_vector(net.parameters()).detach() for net in nets])
    y = s = torch.zeros_like(x)
    for k in range(rounds):
        put(x)
        new = gradients(k)
        y, s = mixing @ (y + new - s), new
        x = mixing @ x - LR * y
    put(x)
    return x, nets


def test_a_run_is_that_of_n_modules_of_torch_each_with_its_own_statistics_masks_and_images():
    found = run(problem())
    with torch.random.fork_rng():
        states, nets = nodes_by_hand(8)
    for i, net in enumerate(nets):
        for name, b in net.named_buffers():
            assert torch.allclose(found.kept[name][i].double(), b.double(), atol=1e-12), name
    assert (found.x - states).abs().max() < 1e-12
    assert not torch.allclose(found.kept["1.running_mean"][0], found.kept["1.running_mean"][1])


def test_models_are_measured_in_evaluation_mode_nodes_with_their_own_statistics_the_mean_with_the_average():
    found = run(problem())
    nets = [with_buffers(found.x[i], {n: v[i] for n, v in found.kept.items() if n != SHARE}) for i in range(N)]
    losses = [loss_of(net) for net in nets]
    mean = with_buffers(found.x.mean(0), averaged(found.kept))
    last = found.rows[-1]
    assert last["node_loss"] == pytest.approx(max(losses), rel=1e-12)
    assert last["loss"] == pytest.approx(loss_of(mean), rel=1e-12)
    assert last["accuracy"] == float((mean(TEST.features).argmax(1) == TEST.targets).double().mean())
    slope = torch.autograd.grad(cross_entropy(mean(DATA.features), DATA.targets), list(mean.parameters()))
    assert last["slope"] == pytest.approx(float(torch.cat([g.reshape(-1) for g in slope]).norm()), rel=1e-10)
    other = run(problem(statistics="averaged"))
    assert torch.equal(other.x, found.x)
    together = [with_buffers(found.x[i], averaged(found.kept)) for i in range(N)]
    worst = max(loss_of(net) for net in together)
    assert other.rows[-1]["node_loss"] == pytest.approx(worst, rel=1e-12)
    assert other.rows[-1]["loss"] == last["loss"]


def loss_of(net: nn.Module) -> float:
    with torch.no_grad():
        return float(cross_entropy(net(DATA.features), DATA.targets))


def with_buffers(x: Tensor, buffers: dict[str, Tensor]) -> nn.Module:
    net = module().eval()
    nn.utils.vector_to_parameters(x, net.parameters())
    net.load_state_dict(net.state_dict() | buffers)
    return net


def test_averaged_statistics_are_those_of_all_samples_together():
    parts = torch.randn(10, 4, dtype=F64), 3 + 2 * torch.randn(30, 4, dtype=F64)
    kept = {
        "bn.running_mean": torch.stack([p.mean(0) for p in parts]),
        "bn.running_var": torch.stack([p.var(0, unbiased=False) for p in parts]),
        "bn.num_batches_tracked": torch.tensor([7, 8]),
        SHARE: torch.tensor([0.25, 0.75], dtype=F64),
    }
    found, all_ = averaged(kept), torch.cat(parts)
    assert torch.allclose(found["bn.running_mean"], all_.mean(0), atol=1e-12)
    assert torch.allclose(found["bn.running_var"], all_.var(0, unbiased=False), atol=1e-12)
    assert found["bn.num_batches_tracked"].dtype == torch.int64
    assert set(found) == set(kept) - {SHARE}
    again = unpacked(packed(kept), kept)
    assert all(torch.equal(again[name], kept[name]) and again[name].dtype == kept[name].dtype for name in kept)


def test_the_same_seed_gives_the_same_bits_and_another_seed_other_masks():
    first, again, other = run(problem()), run(problem()), run(problem(), seed=6)
    assert torch.equal(first.x, again.x)
    assert first.rows == again.rows
    assert not torch.equal(first.x, other.x)


def test_a_mask_depends_on_the_node_and_the_round():
    p = Model(
        nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3, bias=False)),
        DATA,
        SHARDS,
        Full(),
        strategy="loop",
    )
    x = torch.zeros(N, p.dim, dtype=F64)
    g = [p.oracle(0)(x, k).view(N, 3, 16) for k in (0, 1)]
    images = DATA.features.flatten(1)
    for k in (0, 1):
        for i, shard in enumerate(SHARDS):
            torch.manual_seed(int(bits(0, MASKS, i, k)))
            seen = dropout(images[shard], 0.5)
            slope = (torch.full((len(shard), 3), 1 / 3, dtype=F64) - nn.functional.one_hot(DATA.targets[shard], 3)).T
            assert torch.allclose(g[k][i], N / len(DATA) * slope @ seen, atol=1e-12)
    assert not torch.allclose(g[0], g[1])


@pytest.mark.parametrize("at", [3, 5])
def test_a_resumed_run_ends_bit_for_bit_like_one_that_was_not_interrupted(tmp_path: Path, at: int):
    def lr(k: int) -> float:
        if k == at:
            raise KeyboardInterrupt
        return LR

    whole = run(problem())
    with pytest.raises(KeyboardInterrupt):
        run(problem(), lr=lr, checkpoint_dir=tmp_path, checkpoint_every=2)
    found = run(problem(), checkpoint_dir=tmp_path, checkpoint_every=2, resume=True)
    assert torch.equal(found.x, whole.x)
    assert found.rows == whole.rows
    assert all(torch.equal(found.kept[name], v) for name, v in whole.kept.items())


def test_an_exported_model_has_the_averaged_statistics(tmp_path: Path):
    found = run(problem(), checkpoint_dir=tmp_path / "run")
    alone = checkpoint.export(tmp_path / "run", tmp_path / "a.safetensors")
    expected = with_buffers(found.x.mean(0), averaged(found.kept)).state_dict()
    assert set(alone) == set(expected)
    given = checkpoint.export(tmp_path / "run", tmp_path / "b.pt", module())
    for name, value in expected.items():
        assert torch.allclose(alone[name].double(), value.double(), atol=1e-12), name
        assert torch.equal(alone[name].to(value.dtype), given[name]), name


def test_real_nodes_keep_what_the_simulator_keeps_for_them():
    whole = run(problem())

    def be(network: Any) -> Any:
        timeless = {"lr": LR, "every": 4, "seed": SEED, "metrics": MEASURED}
        return dsgt.run(dsgt.DSGT(), problem(), network, rounds=8, **timeless)

    for found in in_threads(W, be):
        assert (found.x - whole.x).abs().max() < 1e-12
        assert all(torch.allclose(found.kept[n].double(), v.double(), atol=1e-12) for n, v in whole.kept.items())
        for mine, theirs in zip(found.rows, whole.rows, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-12)


def test_real_nodes_save_what_they_keep_and_go_on_from_it_bit_for_bit(tmp_path: Path):
    def be(network: Any, rounds: int = 8, **saved: Any) -> Any:
        return dsgt.run(dsgt.DSGT(), problem(), network, rounds=rounds, lr=LR, seed=SEED, every=4, **saved)

    whole = in_threads(W, be)
    in_threads(W, lambda network: be(network, 4, checkpoint_dir=tmp_path))
    for found, expected in zip(
        in_threads(W, lambda network: be(network, checkpoint_dir=tmp_path, resume=True)), whole, strict=True
    ):
        assert torch.equal(found.x, expected.x)
        assert all(torch.equal(found.kept[name], v) for name, v in expected.kept.items())


def test_statistics_follow_the_first_gradient_of_a_round_only():
    local = problem().local(SEED)
    x = problem().start(0).expand(N, -1).clone()
    first = local.gradient(x, 0)
    before = {name: v.clone() for name, v in local.kept.items()}
    assert torch.equal(local.gradient(x, 0), first)  # same masks, same images; a batch's own statistics are used
    assert all(torch.equal(local.kept[name], v) for name, v in before.items())
    local.gradient(x, 1)
    assert int(local.kept["1.num_batches_tracked"][0]) == 2


def test_asynchronous_runs_refuse_statistics_which_they_would_not_measure_with():
    with pytest.raises(ValueError, match="running statistics"):
        run_async(dsgt.ADPSGD(), problem(), W, seconds=1.0, lr=LR)


def test_what_needs_a_function_refuses_a_module_that_is_none():
    x = problem().start(0).expand(N, -1).clone()
    for ask in (lambda f: f.full(x), lambda f: f.part(x, torch.zeros(N, 1, dtype=torch.int64), 2)):
        with pytest.raises(TypeError, match="draws or remembers"):
            ask(problem().local(0))
    state = next(dsgt.iterate(dsgt.DSGT(), problem().oracle(0), W, problem().start(0), LR))
    states = dsgt.iterate(dsgt.DSGT(), problem().local(0), W, problem().start(0), LR, after=(3, state))
    with pytest.raises(ValueError, match="the module remembers more than a state holds"):
        next(states)


class Replacing(nn.Linear):
    """Puts a new tensor in the place of its buffer, as spectral norm does."""

    def __init__(self) -> None:
        super().__init__(16, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, v: Tensor) -> Tensor:
        if self.training:
            self.calls = self.calls + 1
        return super().forward(v.flatten(1)) + 0 * self.calls


def test_a_buffer_that_is_replaced_is_kept_too():
    found = run(Model(Replacing().double(), DATA, SHARDS, WithoutReplacement(batch=9), test=TEST))
    assert found.kept["calls"].tolist() == [8, 8, 8]


class Elsewhere(nn.Linear):
    def forward(self, v: Tensor) -> Tensor:
        return super().forward(v.flatten(1)) * (1 + random.random() * self.training)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"net": Elsewhere(16, 3)}, "different outputs for the same input and the same seed"),
    ({"strategy": "vmap"}, "strategy is 'vmap', but this module draws or remembers"),
    ({"statistics": "mine"}, "choose own or averaged"),
    ({"augment": lambda x, g: x[:1]}, "expected as many samples of the same dtype"),
    ({"augment": lambda x, g: None}, "the augmentation '<lambda>' gives NoneType"),
    ({"augment": lambda x, g: x + torch.rand(1)}, "different samples for the same seed"),
    ({"augment": lambda x, g: x[:, :, :2]}, r"makes a batch of shape \(2, 1, 4, 4\) one of \(2, 1, 2, 4\), which the"),
    ({"augment": lambda x: x}, "cannot take a batch of shape .* and a generator: TypeError"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD, ids=[s for _, s in BAD])
def test_what_cannot_be_trained_is_refused_before_any_run(options: dict[str, Any], sentence: str):
    with pytest.raises(ValueError, match=sentence):
        problem(**options)


def test_samples_may_change_their_shape_where_the_module_takes_both():
    net = nn.Sequential(nn.Conv2d(1, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    made = problem(net=net, augment=lambda x, g: x[:, :, :2])
    assert made.oracle(0)(made.start(0).expand(made.nodes, -1), 0).isfinite().all()


@pytest.mark.parametrize("sampling", [WithReplacement(batch=[1, 4, 6]), Bernoulli(0.3)], ids=["one", "perhaps one"])
def test_a_batch_too_small_for_batch_norm_is_told_before_any_run(sampling: Any):
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match=r"more than 1 value per channel.*node 0 (draws 1|may draw a single) sample"):
        Model(net, DATA, SHARDS, sampling)
    Model(net.eval(), DATA, SHARDS, sampling)


def test_an_empty_draw_gives_no_gradient_and_leaves_the_statistics():
    p = Model(module(), DATA, Shards.of([[0], list(range(1, 45))]), Bernoulli(0.2))
    local = p.local(0)
    x = p.start(0).expand(2, -1).clone()
    drawn = [k for k in range(40) if int(p.batches(0).ragged(k)[1][0])]
    for k in range(40):
        g = local.gradient(x, k)
        assert bool(g[0].any()) == (k in drawn)
    assert int(local.kept["1.num_batches_tracked"][0]) == len(drawn) < 40


def test_crops_and_flips_move_images_and_nothing_else():
    images = torch.arange(2 * 3 * 5 * 5, dtype=F64).view(2, 3, 5, 5) + 1
    places = set()
    for seed in range(40):
        moved = augment.crop(images, torch.Generator().manual_seed(seed), padding=1)
        wide = nn.functional.pad(images, (1, 1, 1, 1))
        fits = [
            [(r, c) for r in range(3) for c in range(3) if torch.equal(moved[i], wide[i, :, r : r + 5, c : c + 5])]
            for i in range(2)
        ]
        assert [len(f) for f in fits] == [1, 1]
        places.add(tuple(f[0] for f in fits))
        flipped = augment.flip(images, torch.Generator().manual_seed(seed))
        assert all(torch.equal(flipped[i], images[i]) or torch.equal(flipped[i], images[i].flip(-1)) for i in range(2))
    assert len({a for a, _ in places}) == 9  # every place is reached, and images move apart
    assert any(a != b for a, b in places)
    both = augment.crop_flip(images, torch.Generator().manual_seed(3), padding=1)
    assert not torch.equal(both, images)


def test_the_module_that_was_given_is_only_read():
    net = module()
    before = copy.deepcopy(net.state_dict())
    run(problem(net))
    assert all(torch.equal(net.state_dict()[name], v) for name, v in before.items())
    assert net.training
