"""Numbers without state must be as good as numbers with it: uniform, and independent across every coordinate."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from dsgt import randomness
from dsgt.randomness import absorb, bits, integers, seeded, uniform

MANY = 40_000
RARE = 1e-4  # a p-value below it would be seen once in ten thousand honest seeds; the seeds here are fixed
AXES = ["seed", "node", "round", "slot"]


def along(axis: str) -> torch.Tensor:
    """MANY numbers that differ in one coordinate only."""
    count = torch.arange(MANY)
    if axis == "seed":
        return torch.cat([uniform(s, 3, 5, 7).reshape(1) for s in range(2_000)])
    coordinates = {"node": (count, 5, 7), "round": (3, count, 7), "slot": (3, 5, count)}[axis]
    return uniform(11, *coordinates)


@pytest.mark.parametrize("axis", AXES)
def test_numbers_are_uniform_along_every_axis(axis: str) -> None:
    assert scipy.stats.kstest(along(axis).numpy(), "uniform").pvalue > RARE


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("lag", [1, 2, 3, 8])
def test_neighbours_on_every_axis_are_uncorrelated(axis: str, lag: int) -> None:
    u = along(axis).numpy()
    assert scipy.stats.pearsonr(u[:-lag], u[lag:]).pvalue > RARE


@pytest.mark.parametrize("axis", AXES)
def test_pairs_of_neighbours_fill_the_square_evenly(axis: str) -> None:
    cells = (along(axis).numpy()[: 2 * (len(along(axis)) // 2)].reshape(-1, 2) * 8).astype(int)
    observed = np.bincount(cells[:, 0] * 8 + cells[:, 1], minlength=64)
    assert scipy.stats.chisquare(observed).pvalue > RARE


@pytest.mark.parametrize("bit", [0, 1, 7, 31, 32, 61, 62])
def test_every_bit_is_set_half_the_time(bit: int) -> None:
    ones = int(((bits(0, torch.arange(MANY)) >> bit) & 1).sum())
    assert scipy.stats.binomtest(ones, MANY).pvalue > RARE


def test_a_seed_does_not_shift_the_nodes() -> None:
    nodes = torch.arange(1_000)
    tables = torch.cat([bits(seed, nodes, 0) for seed in range(100)])
    assert len(tables.unique()) == len(tables)  # of 10^5 numbers of 63 bits, two agree with probability 5e-10


PUBLISHED = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
"""The first outputs of SplitMix64 (Vigna's splitmix64.c) started at 0."""


def test_seeds_are_scrambled_by_the_published_function() -> None:
    assert [int(absorb(seed)[0]) for seed in range(4)] == PUBLISHED


@given(
    seed=st.integers(0, 2**63 - 1),
    coordinates=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4),
)
def test_a_number_is_the_published_function_applied_once_a_coordinate(seed: int, coordinates: list[int]) -> None:
    golden = 0x9E3779B97F4A7C15

    def finaliser(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    z = finaliser((seed + 1) * golden % 2**64)
    for c in coordinates:
        z = finaliser((z + c + 1) * golden % 2**64)
    assert int(bits(seed, *coordinates)) == z >> 1
    assert float(uniform(seed, *coordinates)) == (z >> 12) / 2**52


def test_the_order_of_coordinates_matters() -> None:
    assert bits(0, 1, 2) != bits(0, 2, 1)


@given(seed=st.integers(-(2**62), 2**62), node=st.integers(0, 2**40), k=st.integers(0, 2**40))
def test_one_number_is_the_same_alone_and_among_others(seed: int, node: int, k: int) -> None:
    nodes = torch.tensor([node, node + 1, 5])
    rounds = torch.tensor([[k], [k + 3]])
    assert bits(seed, nodes, rounds)[0, 0] == bits(seed, node, k)
    assert 0 <= float(uniform(seed, node, k)) < 1


@given(high=st.integers(1, 2**40), seed=st.integers(0, 2**32))
def test_integers_stay_below_their_bound(high: int, seed: int) -> None:
    drawn = integers(high, seed, torch.arange(100))
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < high


def test_the_largest_uniform_number_times_a_bound_rounds_below_the_bound() -> None:
    largest = 1 - 2.0**-52
    assert all(math.floor(largest * high) < high for high in [*range(1, 5_000), 2**30 - 1, 2**40 + 1])


def test_integers_with_bounds_that_differ_are_uniform_below_each() -> None:
    high = torch.tensor([3, 10])
    drawn = integers(high, 5, torch.arange(MANY)[:, None])
    for column, bound in zip(drawn.T, high.tolist(), strict=True):
        assert scipy.stats.chisquare(torch.bincount(column, minlength=bound).numpy()).pvalue > RARE


def test_nothing_touches_the_global_random_state() -> None:
    before = torch.get_rng_state()
    uniform(0, torch.arange(10))
    assert torch.equal(before, torch.get_rng_state())


def test_torchs_own_stream_is_a_function_of_the_seed_for_a_while_and_one_threads_at_a_time():
    def draw(seed: int) -> torch.Tensor:
        with seeded(seed):
            return torch.cat([torch.rand(1) for _ in range(200)])

    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    alone = [draw(seed) for seed in range(4)]
    assert not torch.equal(alone[0], alone[1])
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(a, b) for a, b in zip(alone * 5, pool.map(draw, [0, 1, 2, 3] * 5), strict=True))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_threads_that_share_draws_find_the_same_numbers():
    """Each number is asked for in the middle of another thread's hashing of its block."""
    expected = [randomness.Draws(3)(index) for index in (5, 2000)]
    shared, found = randomness.Draws(3), []

    def hashed(state, indices):
        if threading.current_thread() is threading.main_thread():
            other = threading.Thread(target=lambda: found.append(shared(5)))
            other.start()
            other.join()
        return absorb(state, indices)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "absorb", hashed)
        found += [shared(5), shared(2000)]
    assert found == [expected[0], expected[0], expected[0], expected[1]]
