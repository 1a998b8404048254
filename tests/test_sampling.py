"""What a node draws depends on (seed, i, k) only, is unbiased, and has the variance of ALGORITHMS E6."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsgt.data import Bernoulli, Full, Shards, WithoutReplacement, WithReplacement, partition
from dsgt.data.batches import Batches
from dsgt.data.sampling import DRAWN_AT_ONCE, Draws, Sampling

SHARDS = partition.proportions(310, [1, 2, 4, 8, 16], seed=1)
WAYS: list[Sampling] = [WithReplacement(eta=0.2), WithoutReplacement(eta=0.2), Bernoulli(0.2), Full()]
ways = pytest.mark.parametrize("way", WAYS, ids=lambda w: type(w).__name__)
ROUNDS = 20_000


def drawn(shards: Shards, way: Sampling, seed: int, k: int) -> list[torch.Tensor]:
    rows, counts = Batches(shards, way, seed).ragged(k)
    return list(rows.split(counts.tolist()))


@ways
@pytest.mark.parametrize("k", [0, 1, 7, 1_000, 123_456])
def test_a_node_draws_the_same_alone_and_in_the_simulator(way: Sampling, k: int) -> None:
    together = drawn(SHARDS, way, 3, k)
    for i in range(len(SHARDS)):
        alone, _ = Batches(SHARDS, way, 3, node=i).ragged(k)
        assert torch.equal(alone, together[i])


@ways
def test_a_node_draws_the_same_whatever_the_others_hold(way: Sampling) -> None:
    few = Shards(torch.arange(310), SHARDS.sizes)
    many = Shards(torch.arange(410), torch.cat([SHARDS.sizes, torch.tensor([100])]))
    assert torch.equal(drawn(few, way, 3, 5)[2], drawn(many, way, 3, 5)[2])


@ways
def test_rounds_may_be_asked_in_any_order(way: Sampling) -> None:
    forward, backward = Batches(SHARDS, way, 0), Batches(SHARDS, way, 0)
    rounds = [0, 1, 50, 2, 10_000, 49]
    there = [forward.ragged(k)[0] for k in rounds]
    back = [backward.ragged(k)[0] for k in reversed(rounds)]
    assert all(torch.equal(a, b) for a, b in zip(there, reversed(back), strict=True))


@ways
def test_nodes_draw_from_their_own_shard_only(way: Sampling) -> None:
    for k in range(20):
        for i, rows in enumerate(drawn(SHARDS, way, 0, k)):
            assert torch.isin(rows, SHARDS[i]).all()


@pytest.mark.parametrize("way", WAYS[:3], ids=lambda w: type(w).__name__)
def test_another_seed_another_node_and_another_round_draw_otherwise(way: Sampling) -> None:
    equal = Shards(torch.arange(400), torch.tensor([200, 200]))
    a, b = drawn(equal, way, 0, 0)
    assert not torch.equal(a, b - 200)
    assert not torch.equal(a, drawn(equal, way, 1, 0)[0])
    assert not torch.equal(a, drawn(equal, way, 0, 1)[0])


def test_different_ways_of_drawing_see_different_numbers() -> None:
    """Made of the same numbers, each pair would agree in nearly all of 1000 places, and not in about half of them."""
    many = Shards(torch.arange(1000), torch.tensor([1000]))
    low = torch.arange(1000) < 500
    one_by_one, coin = Batches(many, WithReplacement(batch=1), 0), Batches(many, Bernoulli(0.5), 0)
    slots_of_round_0 = low[Batches(many, WithReplacement(eta=1), 0).rows(0)]
    rounds_of_slot_0 = torch.cat([low[one_by_one.rows(k)] for k in range(1000)])
    samples_in_round_0 = coin.rows(0)
    rounds_of_sample_0 = torch.stack([coin.rows(k)[0] for k in range(1000)])
    in_first_half = torch.isin(torch.arange(1000), Batches(many, WithoutReplacement(eta=0.5), 0).rows(0))
    pairs = [(slots_of_round_0, samples_in_round_0), (rounds_of_slot_0, in_first_half)]
    for one, other in [*pairs, (rounds_of_sample_0, in_first_half)]:
        agree = int((one == other).sum())
        assert abs(agree - 500) < 80, agree  # five standard deviations of a fair coin thrown 1000 times


def test_without_replacement_many_whole_epochs_are_shuffled_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round by itself would shuffle whole shards for a few samples; an epoch in two goes would be shuffled twice."""
    goes: list[tuple[int, int]] = []
    draw = WithoutReplacement.draw

    def noted(self: WithoutReplacement, d: Draws, k: int, rounds: int) -> torch.Tensor:
        goes.append((k, rounds))
        return draw(self, d, k, rounds)

    monkeypatch.setattr(WithoutReplacement, "draw", noted)
    stream = Batches(partition.equal(100, 4), WithoutReplacement(batch=20), 0)  # epochs of five rounds
    for k in range(1000):
        stream.rows(k)
    assert len(goes) * DRAWN_AT_ONCE < 2 * (1000 * 20 + DRAWN_AT_ONCE)
    assert all(k % 5 == 0 and rounds % 5 == 0 for k, rounds in goes)


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6), data=st.data())
def test_without_replacement_every_sample_comes_once_an_epoch(sizes: list[int], data: Any) -> None:
    batch = [data.draw(st.integers(1, N)) for N in sizes]
    shards = partition.sizes(sum(sizes), sizes)
    stream = Batches(shards, WithoutReplacement(batch=batch), 0)
    rounds = [stream.rows(k).split(batch) for k in range(2 * max(sizes))]
    for i, N in enumerate(sizes):
        drawn_by_i = torch.cat([r[i] for r in rounds])
        for epoch in range(len(drawn_by_i) // N):
            assert torch.equal(drawn_by_i[epoch * N : (epoch + 1) * N].sort().values, shards[i].sort().values)


def test_epochs_are_shuffled_anew() -> None:
    shards = partition.equal(50, 1)
    stream = Batches(shards, WithoutReplacement(batch=50), 0)
    assert not torch.equal(stream.rows(0), stream.rows(1))


def test_all_orders_of_a_small_shard_are_equally_likely() -> None:
    shards = Shards(torch.arange(3 * ROUNDS), torch.full((ROUNDS,), 3))
    orders = Batches(shards, WithoutReplacement(eta=1), 0).rows(0).view(-1, 3) % 3
    kinds = torch.bincount(orders[:, 0] * 9 + orders[:, 1] * 3 + orders[:, 2])
    kinds = kinds[kinds > 0]
    assert len(kinds) == 6
    # a count is binomial with standard deviation sqrt(20000 * 5/36) = 53: five of them are 265
    assert (kinds - ROUNDS / 6).abs().max() < 265


N, B = 12, 4
R = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
CENTRED = float((R - R.mean(0)).square().sum())
ETA = B / N
VARIANCES = {
    "WithReplacement": ETA * CENTRED,
    "WithoutReplacement": ETA * CENTRED * (N - B) / (N - 1),
    "Bernoulli": ETA * (1 - ETA) * float(R.square().sum()),
}


@pytest.mark.parametrize(
    "way", [WithReplacement(batch=[B]), WithoutReplacement(batch=[B]), Bernoulli(ETA)], ids=lambda w: type(w).__name__
)
def test_sums_of_drawn_gradients_are_unbiased_with_the_variance_of_E6(way: Sampling) -> None:
    stream = Batches(partition.equal(N, 1), way, 7)
    sums = torch.stack([R[stream.ragged(k)[0]].sum(0) for k in range(ROUNDS)])
    expected = VARIANCES[type(way).__name__]
    # the mean of 20,000 rounds has standard deviation sqrt(expected / 20000); reshuffled epochs have less
    assert float((sums.mean(0) - ETA * R.sum(0)).norm()) < 5 * (expected / ROUNDS) ** 0.5
    # a variance estimated from 20,000 rounds is within 1 % (one standard deviation); four of them
    assert float(sums.var(0).sum()) == pytest.approx(expected, rel=0.04)


def test_batches_are_proportional_to_the_shards() -> None:
    sizes = torch.tensor([10, 20, 40, 80])
    assert WithReplacement(eta=0.1).batch_sizes(sizes).tolist() == [1, 2, 4, 8]
    assert WithReplacement(eta=0.1).batch_sizes(torch.tensor([2, 14, 16, 29])).tolist() == [1, 1, 2, 3]  # rounded
    assert WithReplacement(batch=30).batch_sizes(sizes).tolist() == [2, 4, 8, 16]
    assert Full().batch_sizes(sizes).tolist() == [10, 20, 40, 80]
    assert Bernoulli(0.25).batch_sizes(sizes).tolist() == [2.5, 5, 10, 20]


@pytest.mark.parametrize("eta", [0, -0.1, 1.01, float("nan")])
@pytest.mark.parametrize("way", [WithReplacement, WithoutReplacement, Bernoulli])
def test_eta_outside_0_to_1_is_refused(way: Any, eta: float) -> None:
    with pytest.raises(ValueError, match="0 < eta <= 1"):
        way(eta=eta)


def test_a_shard_smaller_than_its_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="node 0 holds 10 samples and is to draw 16"):
        Batches(SHARDS, WithReplacement(batch=[16] * 5), 0)


@pytest.mark.parametrize("batch", [4, 311])
def test_a_global_batch_that_cannot_be_shared_is_refused(batch: int) -> None:
    with pytest.raises(ValueError, match=r"use 5 \.\.\. 310"):
        Batches(SHARDS, WithReplacement(batch=batch), 0)


@pytest.mark.parametrize("arguments", [{}, {"eta": 0.1, "batch": 5}])
def test_how_much_is_drawn_must_be_said_in_one_way(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="in one way"):
        WithReplacement(**arguments)
