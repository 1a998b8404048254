"""Compressors, the wires that travel, and what methods with compressed messages promise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dsgt
from dsgt.algorithms.named import label, method
from dsgt.compression import (
    BFloat16,
    Compressor,
    Draw,
    Float16,
    Identity,
    LowRank,
    Quantise,
    RandK,
    Sign,
    TopK,
    WireError,
    compressor,
)
from dsgt.compression.base import DITHERS, Uniform
from dsgt.compression.modulo import Modulo
from dsgt.compression.wires import squeezed, squeezed_length, stretched
from dsgt.core import tensors
from dsgt.networks import Clocked, Dense
from support.cases import CASES, F64, graph, quadratic
from support.compressed_reference import COMPRESSED, identity, quantise, top_k

M, N = 39, 8
ALL: list[Compressor] = [
    Identity(),
    TopK(0.3),
    RandK(0.3),
    RandK(0.3, scaled=False),
    *(Quantise(bits, block=block) for bits, block in ((1, 256), (2, 16), (4, 256), (4, 8), (8, 13))),
    Sign(),
    Sign(block=8),
    LowRank(1, shapes=((4, 5), (7,), (2, 3, 2))),
    Float16(),
    BFloat16(),
]
every = pytest.mark.parametrize("compress", ALL, ids=str)
W = dsgt.topologies.metropolis(graph(N))


def vector(n: int = N, dtype: torch.dtype = F64, m: int = M) -> Tensor:
    return torch.randn(n, m, dtype=dtype, generator=torch.Generator().manual_seed(0))


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_everyone_reads_the_same_bits_from_a_wire_as_long_as_said(compress: Compressor, dtype: torch.dtype):
    v = vector(dtype=dtype)
    packed = compress(v, Dense(W).at(5))
    assert packed.wire.dtype is torch.uint8
    assert packed.wire.shape == (N, compress.bytes(M, dtype.itemsize))
    assert packed.value.dtype is dtype
    for i, wire in enumerate(packed.wire):
        assert torch.equal(packed.unpack(wire.clone()), packed.value[i])
    assert not torch.equal(packed.value[0], packed.value[1])


@every
def test_a_real_node_packs_what_the_simulator_packs_for_it(compress: Compressor):
    v = vector()
    stacked = compress.pack(v, Draw(torch.arange(N)[:, None], 5, 1))
    alone = compress.pack(v[3], Draw(torch.tensor([3]), 5, 1))
    rounding = 1e-13 if isinstance(compress, LowRank) else 0.0  # BLAS may multiply one matrix otherwise than a stack
    assert (compress.unpack(stacked, M, F64)[3] - compress.unpack(alone, M, F64)).abs().max() <= rounding


@every
def test_an_error_is_in_the_mean_no_larger_than_said_and_unbiased_means_unbiased(compress: Compressor):
    v = vector(1)
    draws = torch.arange(2000)[:, None]  # as many nodes as draws
    seen = compress.unpack(compress.pack(v.expand(2000, -1), Draw(draws, 0)), M, F64)
    squares = ((seen - v) ** 2).sum(dim=1) / (v**2).sum()
    assert squares.mean() <= compress.variance(M) * 1.1 + 1e-15
    assert compress.omega(M) == max(0, 1 - compress.variance(M))
    off = (seen.mean(dim=0) - v[0]).norm() / v.norm()
    deviation = squares.mean().sqrt() / math.sqrt(2000)
    assert (off <= 3 * deviation + 1e-15) == (compress.unbiased or squares.mean() == 0)


def test_one_spike_is_what_the_largest_errors_are_measured_on():
    """The bounds are reached, or nearly: a smaller one would be wrong."""
    spike = torch.zeros(1, 256, dtype=F64)
    spike[0, 0] = 1.0
    ones = torch.ones(1, 100, dtype=F64)
    assert TopK(0.1).variance(100) == ((TopK(0.1)(ones, Dense([[1.0]]).at(0)).value - ones) ** 2).sum() / 100
    sign = Sign()(spike, Dense([[1.0]]).at(0)).value
    assert ((sign - spike) ** 2).sum() == pytest.approx(Sign().variance(256), rel=1e-2)
    flat = torch.full((4000, 256), 1 / 14, dtype=F64)  # in the middle between two levels, but one
    flat[:, 0] = 1.0
    seen = Quantise(4).unpack(Quantise(4).pack(flat, Draw(torch.arange(4000)[:, None], 0)), 256, F64)
    found = (((seen - flat) ** 2).sum(dim=1) / (flat**2).sum(dim=1)).mean()
    assert 0.4 * Quantise(4).variance(256) < found < Quantise(4).variance(256)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_corrupted_wire_gives_an_error_or_a_finite_vector_of_the_right_length(data: st.DataObject):
    compress = data.draw(st.sampled_from(ALL))
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    whole = compress.bytes(M, dtype.itemsize)
    length = data.draw(st.sampled_from([whole, whole, whole, whole - 1, whole + 1, 0, 3]))
    raw = data.draw(st.one_of(st.binary(min_size=length, max_size=length), st.just(b"\xff" * length)))
    wire = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
    good = compress(vector(1, dtype), Dense([[1.0]]).at(0))
    try:
        found = good.unpack(wire)
    except WireError:
        return
    assert length == whole
    assert found.shape == (M,)
    assert found.isfinite().all()


@given(st.binary(min_size=4 + M, max_size=4 + M), st.sampled_from([2, 4, 8]))
@settings(max_examples=50, deadline=None)
def test_a_corrupted_wire_of_moniqua_is_noticed_or_as_good_as_another(raw: bytes, bits: int):
    modulo, x = Modulo(theta=1.0, bits=bits), vector(1)
    wire = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
    found, right = modulo.read(wire[None, : modulo.bytes(M)], x)
    assert found.shape == x.shape
    assert right.shape == (1, 1)
    assert (found - x).abs().max() <= modulo.period / 2 + 1e-12
    with pytest.raises(WireError, match="expected"):
        modulo.read(wire[None, : modulo.bytes(M) - 1], x)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@every
def test_what_is_not_finite_is_read_by_nobody_and_seen_by_its_sender(compress: Compressor, bad: float):
    v = vector(1)
    v[0, 7] = bad
    packed = compress(v, Dense([[1.0]]).at(0))
    if isinstance(compress, RandK) and packed.value.isfinite().all():
        return  # it was not drawn
    assert packed.value.isnan().all()
    with pytest.raises(WireError):
        packed.unpack(packed.wire)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("m", [1, 7, 8, 9, 64])
def test_codes_come_back_from_bytes(bits: int, m: int):
    codes = torch.randint(2**bits, (3, m), dtype=torch.uint8, generator=torch.Generator().manual_seed(m))
    wire = squeezed(codes, bits)
    assert wire.shape == (3, squeezed_length(m, bits)) == (3, math.ceil(m * bits / 8))
    assert torch.equal(stretched(wire, bits, m, torch.empty(3, m)), codes.float())


def test_a_block_of_zeros_stays_zero_and_tiny_or_huge_blocks_stay_finite():
    v = torch.cat([torch.zeros(256), torch.full((256,), 1e-44), torch.full((256,), 1e38), torch.ones(3)])
    seen = Quantise(4)(v[None], Dense([[1.0]]).at(0)).value[0]
    assert torch.equal(seen[:256], v[:256])
    assert torch.equal(seen[512:], v[512:])
    assert seen.isfinite().all()


def test_draws_in_pieces_are_the_draws_of_one_piece(monkeypatch):
    v = vector(2, torch.float32, 1000)
    for compress in (Quantise(4, block=8), Quantise(8, block=3)):
        whole = compress(v, Dense(np.eye(2)).at(0)).wire
        with monkeypatch.context() as patch:
            patch.setattr("dsgt.compression.quantised.PIECE", 64)
            assert torch.equal(compress(v, Dense(np.eye(2)).at(0)).wire, whole)


def test_random_numbers_to_round_by_fill_the_unit_interval_evenly():
    u = Uniform(torch.tensor([[7], [8]])).dither(400_001)
    assert u.shape == (2, 400_001)
    assert u.min() > 0
    assert u.max() < 1
    for lane in (u[:, i::DITHERS].double() for i in range(DITHERS)):  # 16 bits each of the same 64
        for power in (1, 2, 3):
            assert abs(float(lane.pow(power).mean()) - 1 / (power + 1)) < 5e-3
    assert not torch.equal(u[0], u[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("top-k:0.05", TopK(0.05)),
        ("top-k", TopK()),
        ("rand-k:0.1:false", RandK(0.1, scaled=False)),
        ("quantise:2:64", Quantise(2, block=64)),
        ("low-rank:3", LowRank(3)),
        ("bfloat16", BFloat16()),
        ("sign", Sign()),
    ],
)
def test_a_compressor_is_understood_by_name_and_said_again(text: str, expected: Compressor):
    assert compressor(text) == expected
    assert compressor(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topk:0.1", r"'topk'.*top-k"),
        ("top-k:0", r"share of TopK is 0\.0; expected a part of 1, above 0 and up to 1"),
        ("top-k:1.5", r"share of TopK is 1\.5"),
        ("quantise:3", r"bits of Quantise is 3; expected 1, 2, 4 or 8"),
        ("quantise:4:0", r"block of Quantise is 0"),
        ("quantise:four", r"bits of quantise is 'four'; expected a whole number"),
        ("low-rank:0", r"rank of LowRank is 0"),
        ("identity:1", r"gives identity 1 values; it takes none"),
    ],
)
def test_bad_compressors_are_refused_with_what_to_write(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        compressor(text)


def test_methods_take_compressors_on_the_command_line():
    found = method("choco:compress=top-k:0.01,gamma=0.3")
    assert found == dsgt.CHOCO(TopK(0.01), gamma=0.3)
    assert label(dsgt.LEAD(Quantise(2, block=64), gamma=0.25)) == "lead:compress=quantise:2:64,gamma=0.25"
    assert method(label(dsgt.BEER(Sign()))) == dsgt.BEER(Sign())


@pytest.mark.parametrize("kind", [dsgt.DCDPSGD, dsgt.ECDPSGD, dsgt.LEAD, dsgt.CEDAS])
def test_a_method_that_needs_an_unbiased_compressor_refuses_others_and_says_what_to_take(kind: type):
    with pytest.raises(ValueError, match=r"needs a compressor whose mean.*but top-k:0\.01 is biased; take quantise:4"):
        kind(TopK(0.01))
    assert kind(RandK(0.5)).compress == RandK(0.5)


@pytest.mark.parametrize("gamma", [0, -0.1, 1.01])
def test_gamma_lies_between_0_and_1(gamma: float):
    with pytest.raises(ValueError, match=rf"gamma of BEER is {gamma}; expected above 0 and at most 1"):
        dsgt.BEER(gamma=gamma)
    with pytest.raises(TypeError, match=r"compress of BEER is 0\.3; expected a compressor"):
        dsgt.BEER(0.3)


def path(algorithm, gradient, rounds: int, *, lr=0.02, x0: Tensor | None = None, weights=W) -> list:
    start = torch.zeros(5, dtype=F64) if x0 is None else x0
    return list(itertools.islice(dsgt.iterate(algorithm, gradient, weights, start, lr), rounds + 1))


def distance(algorithm, gradient, rounds: int, lr: float = 0.05) -> float:
    return (path(algorithm, gradient, rounds, lr=lr)[-1].x - quadratic(N).optimum).norm().item()


I = Identity()  # noqa: E741 - as in the papers


@pytest.mark.parametrize(
    ("compressed", "plain"),
    [
        (dsgt.CHOCO(I, 1.0), dsgt.AtcDPSGD()),
        (dsgt.DCDPSGD(I), dsgt.DPSGD()),
        (dsgt.ECDPSGD(I), dsgt.DPSGD()),
        (dsgt.BEER(I, 1.0), dsgt.GNSD()),
        (dsgt.CGT(I, 1.0, 0.3), dsgt.GNSD()),
        (dsgt.CGT(TopK(0.4), 0.3, 1.0), dsgt.BEER(TopK(0.4), 0.3)),
        (dsgt.LEAD(I, 1.0), dsgt.ExactDiffusion()),
        (dsgt.CEDAS(I, 1.0), dsgt.ExactDiffusion()),
        (dsgt.DeepSqueeze(I, 1.0), dsgt.AtcDPSGD()),
    ],
    ids=str,
)
def test_with_nothing_left_out_a_method_is_the_one_it_compresses(compressed, plain):
    x0 = torch.randn(N, 5, dtype=F64, generator=torch.Generator().manual_seed(3))
    found, expected = (path(m, quadratic(N).stochastic, 60, x0=x0)[-1].x for m in (compressed, plain))
    assert (found - expected).norm() / expected.norm() < 1e-13


def test_after_a_change_of_lr_lead_and_exact_diffusion_differ_and_both_end_at_the_optimum():
    def lr(k: int) -> float:
        return 0.05 if k < 100 else 0.02

    ends = [path(m, quadratic(N).full, 2500, lr=lr) for m in (dsgt.LEAD(I, 1.0), dsgt.ExactDiffusion())]
    assert (ends[0][110].x - ends[1][110].x).norm() > 1e-3
    for states in ends:
        assert (states[-1].x - quadratic(N).optimum).norm() < 1e-9


@pytest.mark.parametrize("compress", [TopK(0.2), RandK(0.4), Quantise(1), Sign(), BFloat16()], ids=str)
@pytest.mark.parametrize("kind", [dsgt.BEER, dsgt.CGT, dsgt.LEAD])
def test_sums_are_kept_whatever_a_compressor_loses(kind: type, compress: Compressor):
    if kind.needs_unbiased and not compress.unbiased:
        return
    for state in path(kind(compress, gamma=0.05), quadratic(N).stochastic, 30)[1:]:
        fields = tensors(state)
        if kind.tracker:
            assert torch.allclose(fields["v"].mean(dim=0), fields["g"].mean(dim=0), atol=1e-11)
        else:
            assert fields["D"].sum(dim=0).abs().max() < 1e-11


@pytest.mark.parametrize("name", sorted(COMPRESSED.keys() - {"moniqua"}))
def test_other_compressors_give_the_published_recursion_too(name: str):
    """Those of tests/support/cases.py are looked at with every other method."""
    problem, kind = quadratic(N), dsgt.ALGORITHMS[name]
    other = (Quantise(4), quantise(4)) if isinstance(CASES[name].algorithm.compress, TopK) else (I, identity)
    if name in ("beer", "c-gt"):
        other = (TopK(0.6), top_k(0.6))
    given = {} if name in ("dcd-psgd", "ecd-psgd") else {"gamma": 0.3}
    given |= {"alpha": 0.7} if name in ("c-gt", "lead", "cedas") else {}

    def G(X: np.ndarray, k: int) -> np.ndarray:
        return problem.stochastic(torch.from_numpy(X), k).numpy()

    expected = COMPRESSED[name](G, lambda k: W, np.zeros((N, 5)), lambda k: 0.02, 20, other[1], **given)
    found = path(kind(other[0], **given), problem.stochastic, 20)
    assert (found[-1].x - torch.from_numpy(expected[-1])).norm() / np.linalg.norm(expected[-1]) < 1e-13


@pytest.mark.parametrize(
    "algorithm",
    [
        dsgt.BEER(TopK(0.4), 0.4),
        dsgt.BEER(Quantise(4), 0.5),
        dsgt.CGT(TopK(0.4), 0.4),
        dsgt.CGT(Quantise(4), 0.5),
        dsgt.LEAD(Quantise(4), 0.8),
    ],
    ids=str,
)
def test_exact_methods_stay_exact_with_compressed_messages(algorithm):
    assert distance(algorithm, quadratic(N).full, 600) < 1e-9


def test_c_gt_bears_a_compressor_that_makes_errors_larger_and_beer_does_not():
    assert Quantise(1).variance(5) == 4
    assert distance(dsgt.CGT(Quantise(1), 0.05, alpha=0.1), quadratic(N).full, 3000, lr=0.02) < 1e-8
    with pytest.raises(dsgt.DivergedError):
        distance(dsgt.BEER(Quantise(1), 0.05), quadratic(N).full, 3000, lr=0.02)


def test_methods_without_tracking_miss_the_optimum_by_a_distance_that_halves_with_the_learning_rate():
    for algorithm in (dsgt.CHOCO(TopK(0.4), 0.4), dsgt.DCDPSGD(Quantise(8)), dsgt.ECDPSGD(I)):
        missed = [distance(algorithm, quadratic(N).full, round(8 / lr), lr=lr) for lr in (0.02, 0.01)]
        assert missed[1] > 1e-3
        assert 1.8 < missed[0] / missed[1] < 2.2


def test_dcd_diverges_where_its_compressor_is_too_rough_and_the_error_says_so():
    with pytest.raises(
        dsgt.DivergedError, match=r"it bears compressors whose error is smaller than the vector: take more"
    ):
        path(dsgt.DCDPSGD(RandK(0.2)), quadratic(N).full, 4000, lr=0.2)


@pytest.mark.parametrize("name", ["choco", "beer", "c-gt", "lead", "cedas", "deepsqueeze", "docom", "motef"])
def test_a_method_named_without_a_compressor_or_a_gamma_learns_the_digits_on_a_ring_of_16(name: str):
    """What is chosen for a user who chooses nothing; four times the gamma diverges with top-k."""
    data, nodes = dsgt.data.digits()[0], 16
    shards = dsgt.data.partition.dirichlet(data.targets, nodes, alpha=0.1, seed=1)
    problem = dsgt.problems.Logistic(data, shards, dsgt.data.WithReplacement(batch=16 * nodes), l2=1e-3)
    ring = dsgt.topologies.metropolis(dsgt.topologies.ring(nodes))
    measured = {"loss": dsgt.metrics.node_loss_mean}
    rows = dsgt.run(method(name), problem, ring, rounds=300, lr=0.3, every=150, metrics=measured).rows
    losses = [row["loss"] for row in rows]
    assert losses[0] == pytest.approx(math.log(10))
    assert losses[0] - 0.05 > losses[1] > losses[2]


def test_a_gamma_too_large_for_the_compressor_is_named_where_a_run_diverges():
    with pytest.raises(dsgt.DivergedError, match=r"gamma or lr is too large for this compressor: take a smaller one"):
        path(dsgt.BEER(Quantise(1), gamma=1.0), quadratic(N).full, 4000)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_in_half_precision_send_wires_of_their_float32_copies(dtype: torch.dtype):
    def act(network) -> list[tuple]:
        found = []
        for algorithm, kind in itertools.product(
            (dsgt.BEER(TopK(0.1), 0.3), dsgt.LEAD(), dsgt.BEER(LowRank(1), 0.3)), (dtype, torch.float32)
        ):
            model, before = torch.nn.Linear(20, 4).to(kind), network.traffic.bytes
            optimizer = dsgt.Optimizer(model.parameters(), algorithm, network, lr=0.1, start="node 0")
            inputs = torch.randn(64, 20, generator=torch.Generator().manual_seed(network.node)).to(kind)
            for _ in range(60):
                optimizer.zero_grad()
                loss = (model(inputs) - inputs[:, :4] - network.node).float().square().mean()
                loss.backward()
                optimizer.step()
            found.append((next(model.parameters()).dtype, network.traffic.bytes - before, float(loss.detach())))
        return found

    for seen in dsgt.networks.memory.in_threads(np.full((2, 2), 0.5), act, timeout=60):
        for half, full in zip(seen[::2], seen[1::2], strict=True):
            assert half[0] is dtype
            assert half[1] == full[1]
            assert half[2] == pytest.approx(full[2], rel=0.1)


@every
def test_the_simulator_mixes_wires_of_half_precision(compress: Compressor):
    network = Dense(W)
    for dtype in (torch.bfloat16, torch.float16):
        v = vector(dtype=dtype)
        packed = compress(v, network.at(0))
        flow = network.at(0).flow(packed)
        assert flow.dtype is dtype
        exact = torch.from_numpy(W - np.eye(N)) @ packed.value.double()
        assert (flow.double() - exact).norm() < 0.1 * exact.norm()  # a few roundings of 8 bits


def test_a_run_in_bfloat16_goes_on():
    a = vector(dtype=torch.bfloat16)
    states = dsgt.iterate(dsgt.LEAD(), lambda x, k: x - a, W, torch.zeros(M, dtype=a.dtype), 0.1)
    x = next(itertools.islice(states, 100, None)).x
    assert x.dtype is torch.bfloat16
    assert (x.double() - a.double().mean(dim=0)).norm(dim=1).max() < 0.5


def test_float32_drifts_slowly_and_beginning_anew_cures_it():
    a = torch.randn(N, 5, generator=torch.Generator().manual_seed(0)) + 10

    def off(algorithm, **given) -> float:
        states = dsgt.iterate(algorithm, lambda x, k: x - a, W, torch.zeros(5), 0.1, **given)
        return (next(itertools.islice(states, 599, None)).x - a.double().mean(dim=0)).abs().max().item()

    for algorithm in (dsgt.BEER(TopK(0.4), 0.4), dsgt.LEAD(Quantise(4), 0.8)):
        assert off(algorithm) < 1e-3
        assert off(algorithm, restart_every=200) < 5e-5


def test_a_clock_counts_the_bytes_of_wires():
    plain, packed = Clocked(W, bandwidth=1.0), Clocked(W, bandwidth=1.0)
    path(dsgt.CHOCO(I, 1.0), quadratic(N).full, 10, weights=plain)
    path(dsgt.CHOCO(Quantise(8), 1.0), quadratic(N).full, 10, weights=packed)
    links = int((W != 0).sum()) - N
    assert plain.traffic.bytes == 11 * links * 5 * 8
    assert packed.traffic.bytes == links * (5 * 8 + 10 * (4 + 5))
    assert packed.seconds == pytest.approx(plain.seconds * packed.traffic.bytes / plain.traffic.bytes)


def test_over_an_averaging_network_wires_go_to_everyone_and_plain_vectors_into_one_sum():
    everyone, v = Dense(np.full((4, 4), 0.25)), vector(4)
    packed = Identity()(v, everyone.at(0))
    assert torch.allclose(everyone(packed), everyone(v))
    assert everyone.traffic.bytes == (4 * 3 + 2 * 3) * M * 8


def test_several_rounds_of_gossip_refuse_wires():
    network = dsgt.networks.Repeated(Dense(W), 2)
    with pytest.raises(TypeError, match="several rounds of gossip as one mixing send plain vectors"):
        path(dsgt.CHOCO(TopK(0.4)), quadratic(N).full, 1, weights=network)


def test_in_threads_a_wire_that_cannot_be_names_its_sender():
    def act(network):
        packed = TopK(0.5)(torch.ones(4), network.at(0))
        if network.node == 1:
            packed.wire[:4] = 255  # a number that is none
        return network.at(0)(packed)

    with pytest.raises(
        dsgt.NeighbourError, match=r"cannot read what node 1 sent: that node has diverged, or the message"
    ):
        dsgt.networks.memory.in_threads(np.full((2, 2), 0.5), act, timeout=20)


def test_moniqua_with_a_theta_too_small_is_noticed_and_with_a_large_one_is_nearly_d_psgd():
    problem = quadratic(N)
    with pytest.raises(dsgt.DivergedError, match="two neighbours' models differ by more than theta"):
        path(dsgt.Moniqua(theta=0.02), problem.full, 200, lr=0.05)
    missed = distance(dsgt.Moniqua(theta=2.0), problem.full, 400, lr=0.02)
    plain = distance(dsgt.DPSGD(), problem.full, 400, lr=0.02)
    assert missed == pytest.approx(plain, rel=0.1)
    with pytest.raises(ValueError, match="bits is 3; expected 2, 4 or 8"):
        dsgt.Moniqua(bits=3)
    with pytest.raises(ValueError, match="x0 holds different models, but Moniqua needs equal ones"):
        path(dsgt.Moniqua(), problem.full, 1, x0=vector(m=5))


def test_cedas_warns_where_lr_changes_and_lead_does_not():
    def lr(k: int) -> float:
        return 0.05 if k < 5 else 0.01

    with pytest.warns(UserWarning, match="CEDAS remembers steps in units of lr, and lr changes"):
        path(dsgt.CEDAS(), quadratic(N).full, 8, lr=lr)
    path(dsgt.LEAD(), quadratic(N).full, 8, lr=lr)


def test_a_run_and_an_optimizer_tell_low_rank_the_shapes_of_the_parameters():
    def act(network) -> tuple:
        model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 2))
        optimizer = dsgt.Optimizer(model.parameters(), dsgt.BEER(LowRank(1)), network, lr=0.1)
        (model(torch.ones(3, 6)) - network.node).square().mean().backward()
        optimizer.step()
        return optimizer.algorithm.compress.shapes, network.traffic.bytes

    found = dsgt.networks.memory.in_threads(np.full((2, 2), 0.5), act, timeout=20)
    shapes = ((5, 6), (5,), (2, 5), (2,))
    assert found == [(shapes, 47 * 4 + 2 * LowRank(1, shapes).bytes(47))] * 2  # the model in full, then both wires
    assert LowRank(1, shapes=((5, 6), (5,), (2, 5), (2,))).bytes(47) == 4 * (5 + 6 + 5 + 2 + 5 + 2)
    with pytest.raises(
        ValueError, match=r"LowRank knows parameters of shapes \(\), but was given a vector of 5 numbers"
    ):
        path(dsgt.BEER(LowRank(1)), quadratic(N).full, 1)
