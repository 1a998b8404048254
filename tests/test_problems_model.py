"""Any torch module as a problem: the same numbers each way, and a refusal of what is no function."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss

from dsgt.data import Bernoulli, Full, Samples, WithoutReplacement, WithReplacement, digits, partition
from dsgt.data.sampling import Sampling
from dsgt.problems import Logistic, Model, lenet
from dsgt.problems.per_node import STRATEGIES

F64 = torch.float64
ROUNDING = 1e-12  # sums of some hundred terms of size one
TRAIN, TEST = digits(images=True, dtype=F64)
FEW = Samples(TRAIN.features[:120], TRAIN.targets[:120])
EQUAL, UNEVEN = partition.equal(FEW, 6), partition.proportions(FEW, [1, 1, 2, 4, 8, 8])
WAYS: dict[str, Sampling] = {
    "full": Full(),
    "with": WithReplacement(eta=0.3),
    "without": WithoutReplacement(eta=0.3),
    "bernoulli": Bernoulli(0.1),
}


class Tied(nn.Module):
    """A parameter used twice, one that is frozen, one that is not used, a buffer, and a tuple-free forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(64, 8)
        self.b = nn.Linear(8, 10)
        self.a2 = self.a
        self.frozen = nn.Parameter(torch.ones(10), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.full((10,), 0.5))

    def forward(self, v: Tensor) -> Tensor:
        v = v.flatten(1)
        z: Tensor = self.b(torch.tanh(self.a(v)) + torch.tanh(self.a2(-v))) * self.frozen
        return z + self.shift


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.GroupNorm(2, 16), nn.Linear(16, 10))


class Averaged(nn.Module):
    """Not elementwise: over the numbers of a sample, or of all nodes side by side over the samples of a batch."""

    def forward(self, v: Tensor) -> Tensor:
        return v - v.mean(dim=1, keepdim=True)


class Doubled(nn.Tanh):
    def forward(self, v: Tensor) -> Tensor:
        return 2 * super().forward(v)


def known(last: type[nn.Module] = nn.Tanh) -> nn.Module:
    """All kinds of layers that can be stacked, some shared, some frozen, some without a bias."""
    shared, frozen = nn.Linear(8, 8, bias=False), nn.Linear(8, 8).requires_grad_(False)
    middle = nn.Sequential(nn.GELU(), shared, nn.LayerNorm((8, 8)), nn.Dropout(0.0), shared)
    plain = nn.LayerNorm(16, elementwise_affine=False)
    layers = [nn.Linear(8, 8), middle, frozen, last(), nn.Flatten(), nn.Linear(64, 16), plain, nn.Linear(16, 10)]
    return nn.Sequential(*layers)


MODULES = {"known": known, "lenet": lambda: lenet(channels=1, size=8), "mlp": mlp, "tied": Tied}


def some(problem: Model) -> Tensor:
    noise = torch.randn(problem.nodes, problem.dim, dtype=F64, generator=torch.Generator().manual_seed(0))
    return problem.start(0) + 0.1 * noise


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("shards", [EQUAL, UNEVEN], ids=["equal", "uneven"])
def test_every_strategy_and_every_lone_node_gives_the_same_gradients(module: str, shards: Any, way: str) -> None:
    found = {}
    net = MODULES[module]()
    for strategy in [*STRATEGIES, "auto"]:
        if strategy == "stacked" and module != "known":
            with pytest.raises(ValueError, match="choose auto"):
                Model(net, FEW, shards, WAYS[way], strategy=strategy)
            continue
        problem = Model(net, FEW, shards, WAYS[way], l2=0.1, strategy=strategy)
        x = some(problem)
        found[strategy] = problem.oracle(3)(x, 5)
    found["alone"] = torch.stack([problem[i].oracle(3)(x[i], 5) for i in range(6)])
    for g in found.values():
        assert (g - found["loop"]).abs().max() < ROUNDING


@pytest.mark.parametrize("module", MODULES)
def test_the_gradient_is_the_derivative_of_the_loss(module: str) -> None:
    problem = Model(MODULES[module](), FEW, UNEVEN, Full(), l2=0.1)
    x = some(problem)[0]
    direction = torch.randn(problem.dim, dtype=F64, generator=torch.Generator().manual_seed(1))
    h = 1e-6
    slope = (problem.loss(x + h * direction) - problem.loss(x - h * direction)) / (2 * h)
    assert float(problem.gradient(x) @ direction) == pytest.approx(float(slope), rel=1e-6)  # h^2 and rounding / h


@pytest.mark.parametrize("module", MODULES)
def test_the_mean_of_full_gradients_is_the_global_gradient_on_uneven_shards(module: str) -> None:
    problem = Model(MODULES[module](), FEW, UNEVEN, Full())
    x = problem.start(0)
    assert (problem.oracle(0)(x.expand(6, -1).clone(), 0).mean(dim=0) - problem.gradient(x)).abs().max() < ROUNDING


def test_a_linear_module_is_logistic_regression() -> None:
    flat = Samples(FEW.features.flatten(1), FEW.targets)
    closed = Logistic(flat, UNEVEN, WithReplacement(eta=0.3), test=flat, l2=0.1)
    module = Model(nn.Linear(64, 10), flat, UNEVEN, WithReplacement(eta=0.3), test=flat, l2=0.1)
    X = torch.randn(6, 10, 65, dtype=F64, generator=torch.Generator().manual_seed(0))
    mine = X.flatten(1)  # weights and bias side by side; the module keeps all weights first

    def theirs(v: Tensor) -> Tensor:
        return torch.cat([v.view(-1, 10, 65)[..., :64].flatten(1), v.view(-1, 10, 65)[..., 64]], dim=1)

    assert (theirs(closed.oracle(1)(mine, 2)) - module.oracle(1)(theirs(mine), 2)).abs().max() < ROUNDING
    assert (closed.loss(mine) - module.loss(theirs(mine))).abs().max() < ROUNDING
    assert torch.equal(closed.accuracy(mine), module.accuracy(theirs(mine)))
    assert (theirs(closed.gradient(mine)) - module.gradient(theirs(mine))).abs().max() < ROUNDING


def test_the_users_module_is_only_read() -> None:
    net = lenet(channels=1, size=8)
    before = {name: v.clone() for name, v in net.state_dict().items()}
    problem = Model(net, FEW, EQUAL, Full())
    problem.oracle(0)(some(problem), 0)
    problem.loss(some(problem))
    assert all(torch.equal(v, before[name]) and v.dtype == torch.float32 for name, v in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1), l1_loss, mse_loss])
def test_stacked_nodes_have_the_gradients_of_a_loop_for_every_loss(loss: Any) -> None:
    data = (
        FEW
        if isinstance(loss, nn.CrossEntropyLoss)
        else Samples(FEW.features, FEW.features[:, 0, :2].flatten(1)[:, :10])
    )
    x = some(Model(known(), data, EQUAL, Full(), loss=loss))
    loop, stacked = (
        Model(known_again, data, EQUAL, WithReplacement(eta=0.3), loss=loss, strategy=strategy).oracle(0)(x, 0)
        for known_again in [known()]
        for strategy in ("loop", "stacked")
    )
    assert (loop - stacked).abs().max() < ROUNDING


def test_a_layer_that_is_a_subclass_or_is_looked_at_is_not_stacked() -> None:
    looked_at = known()
    looked_at[0].register_forward_hook(lambda layer, given, made: 2 * made)
    for net in (known(Doubled), looked_at):
        with pytest.raises(ValueError, match="choose auto"):
            Model(net, FEW, EQUAL, Full(), strategy="stacked")


def test_a_stacked_gradient_that_is_not_that_of_a_loop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsgt.problems.stacked.ELEMENTWISE", {nn.Tanh, nn.GELU, Averaged})
    problem = Model(known(Averaged), FEW, EQUAL, Full(), strategy="stacked")
    with pytest.raises(ValueError, match="not that of a loop"):
        problem.oracle(0)(some(problem), 0)
    problem = Model(known(Averaged), FEW, EQUAL, Full())
    problem.oracle(0)(some(problem), 0)
    assert problem.chosen != "stacked"


def test_measuring_the_strategies_happens_once_and_leaves_the_thread_count() -> None:
    threads = torch.get_num_threads()
    problem = Model(mlp(), FEW, EQUAL, WithReplacement(eta=0.3))
    assert problem.chosen is None
    problem.oracle(0)(some(problem), 0)
    assert problem.chosen in STRATEGIES
    assert torch.get_num_threads() == threads


def test_lenet_is_the_classic() -> None:
    assert sum(p.numel() for p in lenet().parameters()) == 62_006
    assert lenet()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert lenet(channels=1, size=8)(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert torch.equal(lenet(seed=1)[0].weight, lenet(seed=1)[0].weight)
    assert not torch.equal(lenet(seed=1)[0].weight, lenet(seed=2)[0].weight)


def test_making_a_lenet_does_not_touch_the_global_random_state() -> None:
    before = torch.get_rng_state()
    lenet()
    assert torch.equal(before, torch.get_rng_state())


def test_regression_with_a_loss_of_ones_own_works() -> None:
    data = (FEW.features.flatten(1), FEW.targets.to(F64)[:, None])
    problem = Model(nn.Linear(64, 1), data, EQUAL, Full(), loss=nn.functional.mse_loss)
    x = problem.start(0)
    residual = data[0] @ x[:64] + x[64] - data[1][:, 0]
    assert float(problem.loss(x)) == pytest.approx(float(residual.square().mean()))


class Noisy(nn.Linear):
    def forward(self, v: Tensor) -> Tensor:
        return super().forward(v.flatten(1)) + torch.rand(10, dtype=v.dtype)


class Counting(nn.Linear):
    def __init__(self) -> None:
        super().__init__(64, 10)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, v: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(v.flatten(1))


def flat(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10), *layers)


REFUSED: list[tuple[nn.Module, dict[str, Any], str]] = [
    (flat(nn.BatchNorm1d(10, track_running_stats=False)), {}, "depend on the other samples of its batch"),
    (nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), {}, "Target 9 is out of bounds"),
    (Noisy(64, 10), {}, "draws numbers or changes its buffers in evaluation mode"),
    (Counting(), {}, "draws numbers or changes its buffers in evaluation mode"),
    (nn.Flatten(), {}, "nothing to train"),
    (nn.Linear(63, 10), {}, r"cannot take samples of shape \(1, 8, 8\)"),
    (flat(nn.Linear(10, 5)), {}, "there are 5 classes"),
    (flat(), {"loss": nn.CrossEntropyLoss(reduction="none")}, "must be one number"),
    (flat(), {"strategy": "magic"}, "choose auto, loop, threads, vmap"),
]


@pytest.mark.parametrize(
    ("module", "options", "message"), REFUSED, ids=[f"{i} {m}" for i, (*_, m) in enumerate(REFUSED)]
)
def test_what_cannot_be_trained_exactly_is_refused_with_a_reason(
    module: nn.Module, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Model(module, FEW, EQUAL, Full(), **options)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(10), nn.Dropout(0.5), nn.Dropout(0.0)])
def test_frozen_batch_normalisation_and_idle_dropout_work(layer: nn.Module) -> None:
    module = flat(layer)
    if not (isinstance(layer, nn.Dropout) and layer.p == 0):
        module.eval()
    problem = Model(module, FEW, EQUAL, Full())
    g = problem.oracle(0)(problem.start(0).expand(6, -1).clone(), 0)
    assert (g.mean(dim=0) - problem.gradient(problem.start(0))).abs().max() < ROUNDING
