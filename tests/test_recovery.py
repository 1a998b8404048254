"""Lost messages, lost nodes, and models taken out of checkpoints."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import dsgt
from dsgt import checkpoint, data, metrics, problems
from dsgt.core import Done, Mix, Pending, tensors, with_tensors
from dsgt.networks import Dense
from dsgt.topologies import WEIGHTS, Fixed, fdla, metropolis, rho, survivors, torus, without
from support.cases import CASES, F64, Quadratic, graph, quadratic
from support.interrupted import problem

N = 6
EXACT = [name for name, case in CASES.items() if case.algorithm.exact]


def after(states, k: int):
    return next(itertools.islice(states, k, None))


@pytest.mark.parametrize("name", EXACT)
def test_who_loses_a_node_converges_to_the_survivors_optimum(name: str):
    case, whole, network = CASES[name], quadratic(N), nx.cycle_graph(N)
    lr = case.share / whole.L
    state = after(dsgt.iterate(case.algorithm, whole.full, case.weights(network), torch.zeros(5, dtype=F64), lr), 40)
    stay = [i for i in range(N) if i != 2]
    rest = Quadratic([whole.A[i] for i in stay], [whole.b[i] for i in stay])
    smaller = case.weights(survivors(network, 2))
    models = dsgt.settle(state).x[stay]
    lr = case.share / rest.L
    found = after(dsgt.iterate(case.algorithm, rest.full, smaller, models, lr), 6000).x
    assert (found - rest.optimum).abs().max() < 1e-8  # linear convergence, far from its floor of 1e-14
    assert (whole.optimum - rest.optimum).norm() > 1e-2


class Lossy(Dense):
    """Forgets one number of one message, once."""

    sent = 0

    def start(self, v: Tensor) -> Pending:
        self.sent += 1
        arrived = super().start(v).wait()
        if self.sent == 40:
            arrived[0, 0] += 1
        return Done(arrived)

    def at(self, k: int) -> Mix:
        return self


def test_a_lost_message_is_noticed_and_a_restart_repairs_it():
    least = problem(N)
    least = problems.LeastSquares(least.data, least.shards, data.Full())
    measured = {"drift": metrics.tracking_drift, "distance": metrics.distance}
    options = {"rounds": 4000, "lr": 0.05, "every": 10, "metrics": measured}
    W = metropolis(nx.cycle_graph(N))
    sound = dsgt.run(dsgt.DSGT(), least, W, **options)
    assert max(sound.column("drift")) < 1e-13
    assert sound.column("distance")[-1] < 1e-8
    lossy = dsgt.run(dsgt.DSGT(), least, Lossy(W), **options)
    assert lossy.column("drift")[-1] > 1e-2  # for ever
    assert lossy.column("distance")[-1] > 1e-2
    restarted = dsgt.run(dsgt.DSGT(), least, Lossy(W), restart_every=1000, **options)
    assert restarted.column("drift")[-1] < 1e-13
    assert restarted.column("distance")[-1] < 1e-8


@pytest.mark.parametrize("name", CASES)
def test_a_restart_makes_every_invariant_true_again_and_keeps_the_models(name: str):
    case = CASES[name]
    W = Dense(case.weights(graph(N)))
    state = after(dsgt.iterate(case.algorithm, quadratic(N).stochastic, W, torch.zeros(5, dtype=F64), 0.02), 20)
    broken = with_tensors(state, {field: v + 1 for field, v in tensors(state).items()})
    restarted = dsgt.restart_tracking(case.algorithm, broken, W.at(20))
    assert torch.allclose(restarted.x, broken.x, rtol=1e-14) or case.mixes_first
    fields = tensors(restarted)
    if case.algorithm.tracker:
        y, g = case.algorithm.tracker
        assert torch.equal(fields[y].mean(dim=0), fields[g].mean(dim=0))
    if case.algorithm.zero_sum:
        assert fields[case.algorithm.zero_sum].sum(dim=0).abs().max() < 1e-14  # flows at the models' size, added up


def test_drift_is_measured_where_there_is_something_to_drift():
    for name, case in CASES.items():
        options = {"rounds": 30, "lr": 0.01, "metrics": {"drift": metrics.tracking_drift}}
        W = case.weights(graph(N))
        if case.algorithm.tracker or case.algorithm.zero_sum:
            assert max(dsgt.run(case.algorithm, problem(N), W, **options).column("drift")) < 1e-13, name
        else:
            with pytest.raises(ValueError, match="tracking_drift needs a tracker or a sum of flows"):
                dsgt.run(case.algorithm, problem(N), W, **options)


def test_the_network_without_a_node_keeps_the_others_links():
    graph = nx.cycle_graph(5)
    graph.add_edge(1, 4)
    assert set(survivors(graph, 0).edges) == {(0, 1), (1, 2), (2, 3), (0, 3)}
    assert survivors(nx.DiGraph([(0, 1), (1, 2), (2, 0), (1, 0)]), [2]).is_directed()


@pytest.mark.parametrize("rule", WEIGHTS)
def test_the_survivors_weights_follow_the_rule_of_all(rule: str):
    graph = nx.cycle_graph(7)
    graph.add_edges_from([(0, 2), (0, 3), (4, 6)])
    W = dsgt.networks.without(WEIGHTS[rule](graph), graph, 1)
    assert np.abs(W - WEIGHTS[rule](survivors(graph, 1))).max() < 1e-12
    others = dsgt.networks.without(W, survivors(graph, 1), [5], rule="lazy-metropolis")
    assert np.abs(others - WEIGHTS["lazy-metropolis"](survivors(graph, [1, 6]))).max() < 1e-12


def test_fdla_is_found_again_where_a_constant_is_as_fast():
    squares = torus(25)
    assert np.abs(WEIGHTS["fdla"](squares) - WEIGHTS["best-constant"](squares)).max() < 1e-6
    found = without(WEIGHTS["fdla"](squares), squares, 12)
    assert rho(found) < rho(WEIGHTS["best-constant"](survivors(squares, 12))) - 0.01


@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_the_fastest_weights_are_known_by_their_rho(tol: float):
    graph = nx.cycle_graph(9)
    graph.add_edges_from([(0, 2), (0, 3), (4, 6), (1, 5)])
    found = without(fdla(graph, tol=tol).W, graph, 7)
    assert np.abs(found - WEIGHTS["fdla"](survivors(graph, 7))).max() < 1e-12


def test_weights_of_no_known_rule_become_metropolis_or_push():
    graph = nx.cycle_graph(5)
    graph.add_edge(1, 4)
    mine = 0.7 * metropolis(graph) + 0.3 * np.eye(5)
    assert np.array_equal(without(mine, graph, 0), metropolis(survivors(graph, 0)))
    links = nx.DiGraph([(0, 1), (1, 2), (2, 0), (1, 0), (2, 1)])
    lopsided = 0.7 * WEIGHTS["push"](links) + 0.3 * np.eye(3)
    assert np.array_equal(without(lopsided, links, 2), WEIGHTS["push"](survivors(links, 2)))


def test_weights_of_another_graph_are_refused():
    graph = nx.cycle_graph(5)
    with pytest.raises(ValueError, match="W is of 6 nodes and the graph of 5"):
        without(metropolis(nx.cycle_graph(6)), graph, 0)
    with pytest.raises(ValueError, match=r"W\[0, 2\] is not 0, but the graph has no link from 2 to 0"):
        without(metropolis(nx.complete_graph(5)), graph, 0)
    with pytest.raises(ValueError, match="no rule of weights called 'metropolit'; did you mean 'metropolis'"):
        without(metropolis(graph), graph, 0, rule="metropolit")


@pytest.mark.parametrize(
    ("network", "gone", "words"),
    [
        (nx.path_graph(5), 2, r"without \[2\] the network falls into 2 pieces, one of them \[0, 1\]"),
        (nx.path_graph(3), 3, r"node 3 cannot leave a network of the nodes 0 ... 2"),
        (nx.path_graph(2), [0, 1], "all 2 nodes leave"),
    ],
)
def test_a_network_that_would_fall_apart_is_refused(network: nx.Graph, gone: object, words: str):
    with pytest.raises(ValueError, match=words):
        without(metropolis(network), network, gone)


def test_survivors_start_from_the_models_of_a_checkpoint(tmp_path: Path):
    found = dsgt.run(dsgt.DSGT(), problem(N), metropolis(graph(N)), rounds=10, lr=0.01, checkpoint_dir=tmp_path)
    k, x = checkpoint.models(tmp_path, without=[1])
    assert k == 10
    assert torch.equal(x, found.x[[0, 2, 3, 4, 5]])


def test_parts_of_lost_nodes_are_not_needed(tmp_path: Path):
    from test_checkpoint import OneOf

    for node in range(3):
        content = {"state.x": torch.full((2,), float(node))}
        checkpoint.save(tmp_path, content, k=5, network=OneOf(node, 3), settings={})
    (tmp_path / "round-000000005-node-1-of-3.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="no checkpoint of which every part is whole"):
        checkpoint.models(tmp_path)
    assert checkpoint.models(tmp_path, without=[1])[1].tolist() == [[0, 0], [2, 2]]


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_the_mean_model_leaves_as_an_ordinary_file(tmp_path: Path, ending: str):
    samples, shards = data.synthetic.classification([9, 12, 15], 4, classes=3)
    torch.manual_seed(0)
    shared = nn.Linear(4, 4)
    module = nn.Sequential(shared, nn.Tanh(), shared, nn.Linear(4, 3))
    risk = problems.Model(module, samples, shards, data.Full(), strategy="loop")
    found = dsgt.run(dsgt.DSGT(), risk, metropolis(graph(3)), rounds=10, lr=0.1, checkpoint_dir=tmp_path / "run")
    path = tmp_path / f"mean.{ending}"
    exported = checkpoint.export(tmp_path / "run", path, module)
    read = load_file(path) if ending == "safetensors" else torch.load(path)
    assert exported.keys() == read.keys() == module.state_dict().keys()
    module.load_state_dict(read)
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    assert torch.allclose(flat, found.x.mean(dim=0), atol=1e-6)  # float32
    alone = checkpoint.export(tmp_path / "run", path)
    assert all(torch.equal(alone[name], exported[name]) for name in exported)
    with pytest.raises(
        checkpoint.DifferentError, match=r"3\.weight \(3, 4\).*model that was given has weight \(2, 4\)"
    ):
        checkpoint.export(tmp_path / "run", path, nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"ends in '.bin', but a model is written to .safetensors or .pt"):
        checkpoint.export(tmp_path / "run", tmp_path / "mean.bin", module)


def test_bfloat16_models_keep_float32_trackers_in_a_checkpoint(tmp_path: Path):
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with dsgt.networks.TorchPeers([[1.0]]) as alone:
            model = nn.Linear(3, 2).bfloat16()
            opt = dsgt.Optimizer(model.parameters(), dsgt.DSGT(), alone, lr=0.1)
            training = checkpoint.Training(tmp_path, model, opt)
            model(torch.ones(1, 3).bfloat16()).sum().backward()
            opt.step()
            training.save({"epoch": 3})
            assert training.extra() == {"epoch": 3}
            part = checkpoint.part.read(next(tmp_path.glob("round-*")))
            kinds = {t.dtype for name, t in part.tensors.items() if name.startswith("optimizer.")}
            assert kinds == {torch.float32}
            assert part.tensors["model.weight"].dtype == torch.bfloat16
            exported = checkpoint.export(tmp_path, tmp_path / "mean.safetensors")
            assert torch.equal(exported["weight"], model.weight)
            other = nn.Linear(3, 2, bias=False).bfloat16()
            smaller = dsgt.Optimizer(other.parameters(), dsgt.DSGT(), alone, lr=0.1)
            with pytest.raises(checkpoint.DifferentError, match="trained parameters = 8, but here it is 6"):
                checkpoint.Training(tmp_path, other, smaller).resume()
    finally:
        dist.destroy_process_group()


def test_weights_are_one_thing_dense_or_sparse():
    import scipy.sparse

    W = np.asarray(metropolis(graph(N)))
    fingerprint = checkpoint.fingerprint.weights
    assert fingerprint(Fixed(W)) == fingerprint(Fixed(scipy.sparse.csr_array(W))) != fingerprint(Fixed(W @ W))
