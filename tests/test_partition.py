"""Every sample lands in exactly one shard, whatever the way of cutting."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsgt.data import Samples, Shards, counts, digits, partition, picture

TRAIN, _ = digits()
LABELS = TRAIN.targets
WAYS: dict[str, Callable[[int], Shards]] = {
    "equal": lambda seed: partition.equal(TRAIN, 12, seed=seed),
    "sizes": lambda seed: partition.sizes(TRAIN, [1000, 400, len(TRAIN) - 1400], seed=seed),
    "proportions": lambda seed: partition.proportions(TRAIN, [1, 2, 4, 8], seed=seed),
    "dirichlet": lambda seed: partition.dirichlet(LABELS, 12, alpha=0.3, seed=seed),
    "by_label": lambda seed: partition.by_label(LABELS, 12, labels_per_node=2, seed=seed),
    "by_column": lambda _: partition.by_column(LABELS),
    "by_function": lambda _: partition.by_function(TRAIN, lambda a, t: (bool(a[20] > 0.5), int(t) % 2)),
}
ways = pytest.mark.parametrize("way", WAYS)
seeded = pytest.mark.parametrize("way", [w for w in WAYS if w not in ("by_column", "by_function")])


@ways
def test_every_sample_is_in_exactly_one_shard_and_none_is_empty(way: str) -> None:
    shards = WAYS[way](0)
    assert torch.equal(torch.cat(list(shards)).sort().values, torch.arange(len(TRAIN)))
    assert all(len(s) > 0 for s in shards)
    assert [len(s) for s in shards] == shards.sizes.tolist()


@seeded
def test_the_same_seed_gives_the_same_shards_and_another_seed_others(way: str) -> None:
    assert torch.equal(WAYS[way](3).order, WAYS[way](3).order)
    assert not torch.equal(WAYS[way](3).order, WAYS[way](4).order)


@given(N=st.integers(1, 200), nodes=st.integers(1, 200))
def test_equal_shards_differ_by_at_most_one_sample_and_the_first_are_the_larger(N: int, nodes: int) -> None:
    if nodes > N:
        with pytest.raises(ValueError, match=f"{N} samples cannot be shared among {nodes} nodes"):
            partition.equal(N, nodes)
    else:
        sizes = partition.equal(N, nodes).sizes.tolist()
        assert sum(sizes) == N
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=20), st.integers(1_000, 5_000))
def test_sizes_follow_the_proportions_to_one_sample(ratios: list[float], N: int) -> None:
    sizes = partition.proportions(N, ratios).sizes.double()
    exact = N * torch.tensor(ratios, dtype=torch.float64) / sum(ratios)
    assert (sizes - exact).abs().max() < 1 + 1e-9  # rounding of the proportions themselves


def test_a_smaller_alpha_skews_the_labels_more() -> None:
    def skew(alpha: float) -> float:
        table = counts(partition.dirichlet(LABELS, 10, alpha=alpha), LABELS).double()
        share = table / table.sum(dim=1, keepdim=True)
        return float((share - 0.1).abs().sum(dim=1).mean())

    assert skew(0.1) > 2 * skew(1.0) > 4 * skew(100.0)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_by_label_gives_each_node_its_number_of_labels(k: int) -> None:
    table = counts(partition.by_label(LABELS, 20, labels_per_node=k), LABELS)
    assert ((table > 0).sum(dim=1) == k).all()


def test_by_column_makes_one_node_per_value() -> None:
    shards = partition.by_column(["ward B", "ward A", "ward B", "ward C"])
    assert [s.tolist() for s in shards] == [[0, 2], [1], [3]]


def test_example_2_gives_each_node_copies_of_one_sample() -> None:
    data = Samples(torch.arange(6.0)[:, None], torch.arange(6))
    many, shards = partition.duplicates(data, copies=3)
    assert len(many) == 18
    assert all(many.features[s].unique().tolist() == [i] and len(s) == 3 for i, s in enumerate(shards))


def test_the_picture_shows_the_counts() -> None:
    shards = WAYS["dirichlet"](0)
    table = counts(shards, LABELS)
    assert table.sum() == len(TRAIN)
    assert int(table[3, 5]) == int((LABELS[shards[3]] == 5).sum())
    figure = picture(shards, LABELS)
    shown = {text.get_text() for text in figure.axes[0].texts}
    assert shown == {str(c) for c in table.unique().tolist() if c}


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[0, 1], [1, 2]], "sample 1 is in 2 shards"),
        ([[0, 1], [3]], "sample 2 is in 0 shards"),
        ([[0], []], "node 1 holds none"),
        ([], "there is none"),
        ([[0, -1]], "start at 0"),
    ],
)
def test_shards_that_overlap_or_miss_samples_or_are_empty_are_refused(lists: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Shards.of(lists)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: partition.sizes(10, [3, 3]), "sum to 6"),
        (lambda: partition.sizes(10, [10, 0]), "the smallest is 0"),
        (lambda: partition.proportions(10, [1, -1]), "not negative"),
        (lambda: partition.proportions(10, [1, 1e-9]), "the smallest is 0"),
        (lambda: partition.dirichlet(LABELS, 12, alpha=0), "alpha is 0"),
        (lambda: partition.dirichlet(LABELS[:30], 30, alpha=0.01), "larger alpha"),
        (lambda: partition.by_label(LABELS, 3, labels_per_node=2), "at least 4"),
        (lambda: partition.by_label(LABELS, 3, labels_per_node=11), "at most 10"),
        (lambda: partition.by_label(LABELS[:40], 30, labels_per_node=5), "samples for"),
        (lambda: partition.duplicates(TRAIN, copies=0), "at least one"),
        (lambda: counts(WAYS["equal"](0), LABELS[:10]), "10 labels"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_a_reason(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_real_targets_are_no_labels() -> None:
    with pytest.raises(TypeError, match="whole number"):
        partition.dirichlet(LABELS.double(), 3, alpha=1)
