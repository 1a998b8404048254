"""Draws the figures of docs/networks.md beside this file: python docs/figures/networks.py"""

from __future__ import annotations

from pathlib import Path

from dsgt import topologies

here = Path(__file__).parent

graph = topologies.random_graph(24, seed=3)
topologies.draw(graph, topologies.fdla(graph).W, here / "network.png", title="random, FDLA")

graphs = {
    "ring": topologies.ring(16),
    "grid": topologies.grid(16),
    "exponential": topologies.exponential(16),
    "designed, rho 0.5": topologies.design(16, rho=0.5).graph,
}
networks = {name: (g, topologies.fdla(g).W) for name, g in graphs.items()}
topologies.draw_side_by_side(networks, here / "side_by_side.png")
