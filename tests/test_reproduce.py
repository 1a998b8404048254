"""The experiments of the paper: every one runs, exact claims are exact, and what is finished is not done again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp
from typer.testing import CliRunner

from dsgt.cli import app
from dsgt.reproduce import (
    NAMES,
    batch,
    cases,
    d2fdla,
    example1,
    example2,
    experiment,
    fig2,
    fig3,
    fig4,
    independence,
    lonely,
    paper,
    paper_figure,
    paper_findings,
    resnet,
    sizes,
    skew,
    speedup,
    style,
    unbounded,
)
from dsgt.reproduce.cases import Finished
from dsgt.reproduce.clock import ETHERNET
from dsgt.reproduce.lab import Lab, Plan, Tables
from dsgt.reproduce.training_run import TrainingRun

TINY_TASK = {
    "seeds": 2,
    "counted_seeds": 1,
    "epochs": 2.0,
    "tuning_epochs": 1.0,
    "lrs": (0.1, 0.3),
    "counts": (1, 6),
    "nodes": 6,
}
LOGISTIC = replace(fig2.QUICK, **TINY_TASK)
LENET = replace(fig3.QUICK, **TINY_TASK | {"methods": ("dsgt", "d2"), "epochs": 0.5, "seeds": 1, "lrs": (0.1,)})
TINY: dict[str, Plan] = {
    "fig2": LOGISTIC,
    "fig3": LENET,
    "fig4": replace(fig4.QUICK, tasks=(LENET, LOGISTIC)),
    "example1": replace(example1.QUICK, lrs=(0.2, 1.0), rounds=300, margin=0.02, methods=("dsgt", "d2", "gnsd")),
    "example2": replace(example2.QUICK, seeds=1, rounds=2500),
    "independence": replace(independence.QUICK, graphs=("ring", "complete"), methods=("dsgt",)),
    "batch": replace(batch.QUICK, seeds=1, rounds=600),
    "speedup": replace(speedup.QUICK, models=("logistic",), counts=(1, 6), rounds=20, real_nodes=(2,)),
    "skew": replace(LOGISTIC, partition="dirichlet:0.1", own_every=1.0, seeds=1),
    "sizes": replace(sizes.QUICK, tasks=(LENET, LOGISTIC), counts=(2, 6)),
    "lonely": lonely.QUICK,
    "unbounded": unbounded.QUICK,
    "resnet": replace(resnet.QUICK, methods=("dsgt", "decentlam"), epochs=0.4),
    "d2fdla": replace(d2fdla.QUICK, graphs=3, counts=(6, 24), seeds=1),
}
KNOWN: dict[str, Tables] = {}
LAB = Lab()


def tables(name: str) -> Tables:
    """Measured once for all tests."""
    if name not in KNOWN:
        KNOWN[name] = experiment(name).measure(LAB, TINY[name])
    return KNOWN[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_measures_draws_and_says_something(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(speedup, "launchers", lambda: ["torchrun"])
    one = experiment(name)
    found = tables(name)
    style.save(lambda: one.figure(found, TINY[name]), tmp_path / name)
    assert all(len(table) for table in found.values())
    assert all((tmp_path / f"{name}{end}").stat().st_size > 5000 for end in (".png", ".pdf"))
    assert all(isinstance(line, str) and line for line in one.findings(found, TINY[name]))


def curves(**losses: list[float]) -> pd.DataFrame:
    """Rows of runs as figures 2 and 3 draw them: these losses, one a round, by method."""
    return pd.DataFrame(
        [
            {"model": "logistic", "method": method, "nodes": 6, "seed": 1, "lr": 0.1, "weights": "fdla", "round": k,
             "epochs": k / 2, "loss": loss, "accuracy": loss if np.isfinite(loss) else np.nan, "worst": 0.5}
            for method, column in losses.items()
            for k, loss in enumerate(column)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    "column",
    [[2.5, 2.25, 2.25], [2.25, 2.25], [0.5, 0.0], [2.5, 2.25, float(np.nextafter(2.25, 3))], [2.5, np.inf]],
    ids=["equal", "all equal", "all zero", "equal but for the last bit", "all diverged"],
)
def test_methods_with_equal_losses_can_be_drawn(column: list[float]):
    found = curves(dsgt=column, dpsgd=column, d2=column)
    task = replace(LOGISTIC, methods=("dsgt", "dpsgd", "d2"))
    clock = pd.DataFrame(
        [
            {"method": m, "network": ETHERNET.name, "nodes": n, "seconds_per_round": 0.1}
            for m in task.methods
            for n in (1, 6)
        ]
    )
    scaling = pd.concat([found[found["method"] == "dsgt"].assign(nodes=n) for n in (1, 6)])
    of_paper = {"curves": found, "scaling": scaling, "clock": clock, "speedup": paper.speedups(scaling, clock)}
    paper_figure.figure(of_paper, task).draw_without_rendering()
    fig4.figure({"curves": found}, replace(fig4.QUICK, tasks=(task,))).draw_without_rendering()
    skew.figure({"curves": found}, task).draw_without_rendering()


@pytest.mark.parametrize(
    ("columns", "said", "drawn"),
    [
        ([[3.0, 2.0, 1.0], [3.0, 1.0, 0.0]], "D²", [3.0, 1.5, 0.5]),
        ([[3.0, 2.0, 1.0], [3.0, np.inf], [3.0, 1.0, 0.0]], "D² (1 of 3 seeds diverged)", [3.0, 1.5, 0.5]),
        ([[3.0, 2.0, np.nan], [3.0, 1.0, 0.0]], "D² (1 of 2 seeds diverged)", [3.0, 1.0, 0.0]),
        ([[3.0, 2.0, np.inf], [3.0, 1.0, np.inf]], "D² (diverged)", [3.0, 1.5]),
        ([[3.0, np.nan, 1.0], [3.0, np.nan, 0.0]], "D²", [3.0, 0.5]),  # measured seldom
    ],
)
def test_a_line_is_the_mean_of_the_runs_that_did_not_diverge(columns: list[list[float]], said: str, drawn: list[float]):
    table = pd.concat([curves(d2=column).assign(seed=seed) for seed, column in enumerate(columns)])
    _, (axes,) = style.panels(1, 1)
    style.band(axes, table, "round", "loss", colour="k", label="D²")
    (line,) = axes.get_lines()
    assert line.get_label() == said
    assert line.get_ydata().tolist() == drawn


def test_a_loss_on_its_way_to_infinity_does_not_press_the_others_flat():
    _, (axes,) = style.panels(1, 1)
    paper_figure.cut_above(axes, curves(dsgt=[2.3, 1.5, 1.0], d2=[2.3, 4.0, 800.0, np.inf]))
    assert axes.get_ylim() == pytest.approx((1.0 - 0.065, 2.3 + 0.065))
    paper_figure.cut_above(axes, curves(dsgt=[2.3, 1.5, 1.0]))  # without the start
    assert axes.get_ylim() == pytest.approx((1.0 - 0.025, 1.5 + 0.025))


def test_over_other_numbers_of_nodes_and_on_the_resnet_who_diverges_is_said_to():
    runs = pd.concat([curves(dsgt=[2.3, 1.5]), curves(d2=[2.3, np.inf])]).assign(over=6)
    said = sizes.findings({"curves": runs}, sizes.QUICK)
    assert said[0] == "logistic, n = 6, DSGT (lr 0.1): final loss 1.5000, test accuracy 150.00%"
    assert said[1] == "logistic, n = 6, D² (lr 0.1): diverges in round 1"
    runs = curves(dsgt=[2.3, 1.5], d2=[2.3, np.inf]).assign(partition="equal", graph="ring", consensus=0.25)
    tuning = runs.groupby("method").tail(1)
    said = resnet.findings({"runs": runs, "tuning": tuning}, resnet.QUICK)
    assert said[:2] == [
        "ring, equal, DSGT (lr 0.1): final loss 1.500, test accuracy 150.0%, nodes 0.25 from their mean",
        "ring, equal, D² (lr 0.1): diverges",
    ]


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        ([0.0, 0.0], "no difference"),
        ([0.25, 0.25], "(a difference"),
        ([0.25, float(np.nextafter(0.25, 1))], "(a difference"),
        ([0.25, -0.125], "no difference"),
        ([0.25, np.inf], "a run diverged"),
        ([0.25], "one seed"),
    ],
)
def test_differences_that_are_equal_but_for_the_last_bit_are_judged(difference: list[float], said: str):
    assert said in paper_findings.verdict(np.array(difference))


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([1.0, 2.0, 3.0], "2.0 ± 1.0"),
        ([1.0, np.inf, 3.0, np.nan], "2.0 ± 1.4 (2 of 4 seeds diverged)"),
        ([1.0, np.inf], "1.0 ± 0.0 (1 of 2 seeds diverged)"),
        ([np.inf], "none, all diverged"),
    ],
)
def test_means_over_seeds_leave_out_those_that_diverged_and_count_them(ends: list[float], said: str):
    assert paper_findings.over_seeds(pd.Series(ends), ".1f") == said


def test_who_reaches_half_time_in_some_seeds_only_is_told_apart():
    runs = {1: [3.0, 2.0, 1.0, 0.5], 2: [3.0, 2.5, 2.2, 2.1]}
    some = pd.concat([curves(d2=losses).assign(seed=seed) for seed, losses in runs.items()])
    ours = pd.concat([curves(dsgt=[3.0, 2.0, 1.0, 0.0]).assign(seed=seed) for seed in runs])
    never = pd.concat([curves(dpsgd=[3.0, np.inf]).assign(seed=seed) for seed in runs])
    table = pd.concat([ours, some, never]).assign(seconds=lambda t: t["round"] * 10.0)
    assert paper_findings.halfway(table, replace(LOGISTIC, epochs=2.0)) == [
        "DSGT reaches a loss of 1.000 after 1.0 epochs (1.0 to 1.0), 20 virtual seconds",
        "D² reaches a loss of 1.000 after 1.0 epochs (1.0 to 1.0), 20 virtual seconds, in 1 of 2 seeds",
        "D-PSGD does not reach a loss of 1.000",
    ]


def test_the_verdict_is_students_t_test():
    difference = np.array([0.1, 0.3, -0.05, 0.2])
    p = ttest_1samp(difference, 0.0).pvalue
    assert f"p = {p:.2g}" in paper_findings.verdict(difference)


def test_example_1_changes_at_the_exact_thresholds():
    table = tables("example1")["thresholds"]
    at = {(r.method, round(r.threshold, 9)) for r in table.itertuples()}
    assert {("dsgt", 1.5), ("d2", 0.5), ("d2", 2.0), ("gnsd", 0.125)} == at
    assert (table["converges"] == table["exact"]).all()
    factors = tables("example1")["factors"]
    # a slope over 150 rounds of an oscillating error: a percent
    assert np.allclose(factors["factor"], factors["exact"], rtol=0.01)


def test_example_2_duplicates_leave_dsgt_without_noise_unless_samples_are_drawn_by_bernoulli():
    table = tables("example2")["curves"]
    end = table.groupby("name").tail(1).set_index("name")["distance"]
    methods = {name: case[0] for name, case in example2.CASES.items()}
    exact = [name for name in methods if methods[name] == "dsgt" and "Bernoulli" not in name]
    assert len(exact) == 1
    assert end[exact[0]] < 1e-6
    assert (end.drop(exact[0]) > 1e-3).all()


def test_only_plain_means_of_uneven_nodes_miss_the_optimum():
    exact = tables("batch")["exact"].groupby("way").tail(1).set_index("way")["gap"]
    assert exact["proportional batches"] < 1e-4
    assert exact["equal batches, right weights"] == exact["proportional batches"]
    assert exact["equal batches, plain means"] > 1e-3
    full = batch.uneven("equal batches, plain means", exact=True)
    assert full.shards.sizes.max() > 2 * full.shards.sizes.min()


def test_d2_diverges_with_fdla_weights_exactly_where_their_smallest_eigenvalue_is_below_a_third():
    runs = tables("d2fdla")["curves"].groupby(["nodes", "method", "weights"]).tail(1)
    far = runs.set_index(["nodes", "method", "weights"])["consensus"].fillna(np.inf) > 1e3
    assert far[far].index.tolist() == [(24, "d2", "fdla")]


def test_only_dpsgd_grows_where_gradients_differ_without_bound_and_by_the_exact_factor():
    plan, found = unbounded.QUICK, tables("unbounded")
    for r in found["ends"].itertuples():
        assert (r.factor > 1 + 1e-6) == (r.method in ("dpsgd", "atc-dpsgd"))
        if r.factor > 1 + 1e-6:
            some = found["curves"]
            some = some[(some["method"] == r.method) & (some["lr"] == r.lr) & (some["round"] >= plan.rounds // 2)]
            grown = (some["size"].iloc[-1] / some["size"].iloc[0]) ** (1 / (some["round"].iloc[-1] - plan.rounds // 2))
            assert grown == pytest.approx(r.factor, rel=1e-4)  # other eigenvalues have died out by half time
        else:
            assert r.size < 50


def test_nodes_without_a_loss_do_not_help():
    speedup = tables("lonely")["times"].set_index(["way", "nodes"])["speedup"]
    assert speedup["shared", 4] > 2
    assert speedup["lonely", 4] < 1.5


def test_a_small_step_does_not_feel_the_network_and_a_large_one_does():
    table = tables("independence")["rounds"]
    ring = table[table["graph"] == "ring"].set_index("lr")["ratio"]
    assert ring[0.02] < 1.05
    assert ring[0.5] > 1.2


def test_the_grid_grows_until_the_best_learning_rate_is_inside_it(monkeypatch: pytest.MonkeyPatch):
    best = {"dsgt": 0.3, "dpsgd": 0.01, "dsgt/metropolis": 5.0}  # inside the ladder, below the grid, beyond the ladder
    tried: list[tuple[str, float]] = []

    def table(self: Lab, asked: list[TrainingRun]) -> pd.DataFrame:
        rows = [{"method": run.method, "weights": run.weights, "nodes": 6, "lr": run.lr, "seed": run.seed,
                 "epochs": 1.0, "accuracy": 0.5} for run in asked]  # fmt: skip
        found = pd.DataFrame(rows)
        names = paper.told_apart(found)["method"]
        tried[:] = [*zip(names, found["lr"], strict=True)]
        return found.assign(loss=[abs(np.log(lr / best[name])) for name, lr in tried])

    monkeypatch.setattr(Lab, "table", table)
    task = replace(LOGISTIC, methods=tuple(best), lrs=(0.1, 0.2), ladder=(0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5))
    _, chosen = paper.tuned(LAB, task)
    assert chosen == {"dsgt": 0.3, "dpsgd": 0.01, "dsgt/metropolis": 0.5}
    lrs = {name: [lr for other, lr in tried if other == name] for name in best}
    assert lrs == {
        "dsgt": [0.1, 0.2, 0.3, 0.5],
        "dpsgd": [0.005, 0.01, 0.05, 0.1, 0.2],
        "dsgt/metropolis": [0.1, 0.2, 0.3, 0.5],
    }


def test_every_method_of_the_resnet_study_has_its_own_step_on_every_network_and_partition(
    monkeypatch: pytest.MonkeyPatch,
):
    best = {("dsgt", "ring"): 0.15, ("dsgt", "exponential"): 0.5, ("decentlam", "ring"): 0.0015,
            ("decentlam", "exponential"): 0.05}  # fmt: skip

    def table(self: Lab, asked: list[resnet.ResNetRun]) -> pd.DataFrame:
        rows = [cases.parameters(run) for run in asked for _ in range(2)]  # at the start, and at the end
        loss = [
            k % 2 or 10 + abs(np.log(row["lr"] / best[row["method"], row["graph"]])) for k, row in enumerate(rows, 1)
        ]
        return pd.DataFrame(rows).assign(loss=loss)

    monkeypatch.setattr(Lab, "table", table)
    plan = replace(resnet.FULL, methods=("dsgt", "decentlam"), partitions=("dirichlet:1",), seeds=2)
    found = resnet.measure(LAB, plan)
    chosen = {("dirichlet:1", graph, method): lr for (method, graph), lr in best.items()}
    assert resnet.best_of(found["tuning"]) == chosen
    tried = found["tuning"].groupby(["method", "graph"])["lr"].agg(list).to_dict()
    assert tried == {
        ("dsgt", "ring"): [0.05, 0.15, 0.5],
        ("dsgt", "exponential"): [0.05, 0.15, 0.5, 1.5],
        ("decentlam", "ring"): [0.0015, 0.005, 0.015, 0.05],  # the end of the ladder
        ("decentlam", "exponential"): [0.005, 0.015, 0.05, 0.15],
    }
    assert {*found["tuning"]["seed"]} == {paper.TUNING_SEED}
    assert {*found["tuning"]["epochs"]} == {plan.tuning_epochs}
    runs = found["runs"]
    assert sorted(
        {*zip(runs["partition"], runs["graph"], runs["method"], runs["lr"], runs["seed"], strict=True)}
    ) == sorted((*cell, lr, seed) for cell, lr in chosen.items() for seed in (1, 2))
    edges = [
        line
        for line in resnet.findings(found | {"runs": runs.assign(accuracy=0.5, consensus=0.0)}, plan)
        if "edge" in line
    ]
    assert edges == ["The best learning rate is at the edge of the grid for DecentLaM, ring, dirichlet:1."]


@pytest.mark.parametrize(("gone", "too_large"), [(6, [(6, 0.2)]), (2, [(1, 0.2), (2, 0.2), (6, 0.2)])])
def test_a_step_at_which_the_largest_network_diverges_is_not_tried_on_the_others(
    gone: int, too_large: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
):
    def table(self: Lab, asked: list[TrainingRun]) -> pd.DataFrame:
        return pd.DataFrame(
            [{"nodes": run.nodes, "lr": run.lr, "seed": run.seed, "method": run.method, "round": 1,
              "loss": np.inf if run.nodes == gone and run.lr > 0.1 else 1.0} for run in asked]
        )  # fmt: skip

    monkeypatch.setattr(Lab, "table", table)
    found = paper.counted(LAB, replace(LOGISTIC, counts=(1, 2, 6), lrs=(0.1, 0.2, 0.3)), 0.2)
    assert [*zip(found["nodes"], found["lr"], strict=True)] == [(1, 0.1), (2, 0.1), (6, 0.1), *too_large]
    assert paper.common(found)["nodes"].tolist() == [1, 2, 6]


def times(*, computing: float, mixing: float) -> np.ndarray:
    """(nodes, turns, rounds, parts): node 1 comes half a second later, and is the first to have mixed."""
    late = np.array([0.0, 0.5])
    begun, computed = late, late + computing
    mixed = np.array([0.5, 0.4]) + computing + mixing
    return np.broadcast_to(np.stack([begun, computed, mixed], axis=-1)[:, None, None], (2, 3, 8, 3))


def test_the_clock_predicts_a_round_from_its_parts():
    timed = {
        "dim": 1000,
        "number": times(computing=0.01, mixing=0.001).tolist(),
        "model": times(computing=0.01, mixing=0.003).tolist(),
        "together": [[0.012, 0.013, 0.5], [0.013, 0.0125, 0.4]],
    }
    row = speedup.row(timed)
    assert row["compute"] == pytest.approx(0.01)
    assert row["latency"] == pytest.approx(0.001)
    assert row["bandwidth"] == pytest.approx(4000 / 0.002)
    assert row["predicted"] == pytest.approx(0.013)  # computing and one mixing; the other one travels meanwhile
    assert row["ratio"] == pytest.approx(1.0)


def test_a_node_alone_sends_nothing():
    alone = times(computing=0.01, mixing=-0.499)[:1].tolist()  # node 0 does not wait for node 1, and has mixed in 1 ms
    row = speedup.row({"dim": 1000, "number": alone, "model": alone, "together": [[0.011] * 3]})
    assert (row["latency"], row["bandwidth"], row["ratio"]) == (0.0, np.inf, pytest.approx(1.0))


def test_speedup_counts_rounds_and_seconds():
    scaling = pd.DataFrame(
        [{"nodes": n, "seed": 1, "round": k, "loss": 2.0 - k / 10} for n in (1, 4) for k in range(11)]
        + [{"nodes": 4, "seed": 2, "round": k, "loss": 2.0 - k / 5} for k in range(6)]
    )
    clock = pd.DataFrame(
        [{"method": "dsgt", "network": "w", "nodes": n, "seconds_per_round": s} for n, s in ((1, 1.0), (4, 0.5))]
    )
    table = paper.speedups(scaling, clock).set_index("nodes")
    assert table["target_loss"].tolist() == [1.0, 1.0]
    assert table["rounds"].tolist() == [10.0, 7.5]
    assert table["speedup"][4] == pytest.approx(10.0 / (7.5 * 0.5))


def test_a_loss_between_two_measurements_is_interpolated():
    run = pd.DataFrame({"round": [0, 10, 20], "loss": [3.0, 2.0, 1.0]})
    assert paper.rounds_to(run, 1.5) == pytest.approx(15.0)
    assert paper.rounds_to(run, 4.0) == 0.0
    assert paper.rounds_to(run, 0.5) == np.inf


@dataclass(frozen=True)
class Square:
    x: int
    place: str = field(default="here", compare=False)

    def __call__(self) -> list[cases.Row]:
        if self.x < 0:
            raise KeyboardInterrupt
        return [{"square": self.x**2, "third": self.x / 3}]


def test_what_determines_a_case_is_its_key_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    assert cases.key(Square(2)) == cases.key(Square(2, "elsewhere"))
    assert cases.key(Square(2)) != cases.key(Square(3))
    before = cases.key(Square(2))
    monkeypatch.setitem(cases.VERSIONS, "torch", "another")
    assert cases.key(Square(2)) != before


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interruption_loses_only_what_was_being_worked_on(workers: int, tmp_path: Path):
    path = tmp_path / "finished.jsonl"
    training = replace(LOGISTIC, epochs=0.4).training(LAB, "d2", lr=0.1, seed=1, nodes=6, epochs=0.4)
    told: list[cases.Case] = []
    with pytest.raises(KeyboardInterrupt):
        cases.work([training, Square(2), Square(-1)], Finished(path), workers=workers, told=told.append)
    kept = Finished(path)
    assert [case for case in (training, Square(2), Square(-1)) if case in kept] == [
        *filter(told.count, [training, Square(2)])
    ]
    again: list[cases.Case] = []
    cases.work([training, Square(2), Square(4)], kept, told=again.append)
    assert {*told, *again} == {training, Square(2), Square(4)}
    assert not {*told} & {*again}
    # whoever did it, and whether it was read from the file or not: the same numbers to the last bit
    assert Finished(path)[training] == kept[training] == training()
    assert Finished(path)[Square(4)] == [{"square": 16, "third": 4 / 3}]


SMALL = ["reproduce", "skew", "--quick", "--seeds", "1", "--epochs", "0.4"]


def csvs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.csv"))}


def test_an_interrupted_command_ends_with_the_same_tables_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = CliRunner().invoke
    straight = run(app, [*SMALL, "--out", str(tmp_path / "a"), "--workers", "1"])
    assert straight.exit_code == 0, straight.output
    add, count = Finished.add, 0

    def stopping(self: Finished, case: cases.Case, rows: list[cases.Row]) -> None:
        nonlocal count
        add(self, case, rows)
        count += 1
        if count in (3, 11):
            raise KeyboardInterrupt

    monkeypatch.setattr(Finished, "add", stopping)
    again = [run(app, [*SMALL, "--out", str(tmp_path / "b"), "--workers", "1"]) for _ in range(3)]
    assert [r.exit_code for r in again] == [130, 130, 0]
    assert "goes on" in again[0].output or "to go on" in again[0].output
    assert count == len((tmp_path / "a" / "finished.jsonl").read_text().splitlines()) - 1  # none was done twice
    assert csvs(tmp_path / "a") == csvs(tmp_path / "b") != {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figg2", "--quick"], "there is no experiment called 'figg2'; did you mean 'fig2'?"),
        (["fig2", "--quick", "--epochs", "0"], "epochs is 0.0; expected a finite number above 0"),
        (["fig2", "--quick", "--epochs", "nan"], "epochs is nan"),
        (["fig2", "--quick", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["fig2", "--quick", "--workers", "0"], "Invalid value for '--workers'"),
        (["fig2"], "where is CIFAR-10?"),
        (["fig2", "--data-dir", "nowhere"], "CIFAR-10 is not in nowhere"),
        ([], "Missing argument"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("DSGT_DATA", raising=False)
    monkeypatch.setattr(cases, "work", None)
    out = tmp_path / "out"
    found = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(out)])
    assert found.exit_code == 2
    assert message in found.output
    assert not (out / "finished.jsonl").exists()


def test_a_file_in_the_place_of_the_folder_is_an_error_in_one_sentence(tmp_path: Path):
    (tmp_path / "out").write_text("mine")
    found = CliRunner().invoke(app, ["reproduce", "example1", "--quick", "--out", str(tmp_path / "out")])
    assert found.exit_code == 2
    assert found.output.startswith("error:")
    assert (tmp_path / "out").read_text() == "mine"
