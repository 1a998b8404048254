"""The colours of methods are told apart by everybody, and from what is behind them."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from dsgt.report.looks import COLOURS, DASHES, looks
from dsgt.report.parts import asset

SEEN = {
    "with all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""Machado, Oliveira and Fernandes, 2009, of linear sRGB."""
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def palette(dark: bool) -> dict[str, np.ndarray]:
    """Linear sRGB, by the names of the style sheet."""
    found = re.findall(r"--(c-\w+|card|paper): light-dark\(#(\w{6}), #(\w{6})\)", asset("style.css"))
    shares = {name: np.array(list(bytes.fromhex((light, night)[dark]))) / 255 for name, light, night in found}
    return {name: np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for name, c in shares.items()}


def lab(linear: np.ndarray) -> np.ndarray:
    """CIE 1976."""
    t = XYZ @ linear / WHITE
    x, y, z = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("eyes", SEEN)
def test_any_two_colours_of_methods_are_told_apart(eyes: str, dark: bool):
    colours = {name: c for name, c in palette(dark).items() if name.startswith("c-")}
    assert len(colours) == COLOURS + 1
    places = {name: lab(np.clip(SEEN[eyes] @ c, 0, 1)) for name, c in colours.items()}
    apart = {(a, b): np.linalg.norm(places[a] - places[b]) for a, b in itertools.combinations(places, 2)}
    assert min(apart.values()) >= 15, min(apart, key=apart.__getitem__)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("behind", ["card", "paper"])
def test_the_colours_of_methods_stand_out(behind: str, dark: bool):
    light = {name: 0.05 + XYZ[1] @ c for name, c in palette(dark).items()}
    for name in (name for name in light if name.startswith("c-")):
        assert max(light[name], light[behind]) / min(light[name], light[behind]) >= 3, name


def test_no_two_of_thirty_methods_look_alike_and_the_reference_takes_no_colour():
    found = looks([False] * 3 + [True] + [False] * 27)
    assert len({(look["colour"], look["dash"]) for look in found}) == len(found) == COLOURS * len(DASHES) + 1
    assert [look["look"] for look in found[:5]] == [0, 1, 2, "reference", 3]
