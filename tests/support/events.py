"""The virtual clock once more, as an event simulation of nodes and links that shares no code with dsgt.

A node goes through the log of ``support.recorder`` line by line. Its link is a queue: one message at a time, to the
nodes i + 1, i + 2, ... around the circle, and the node goes on at once. A message arrives ``latency`` after its last
byte has left. "wait" ends when every neighbour's message of that number is there.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from itertools import count

import numpy as np


class Events:
    def __init__(
        self, W: np.ndarray, log: list[str], sizes: list[int], compute: Callable[[int], list[float]],
        *, latency: float, bandwidth: float,
    ) -> None:  # fmt: skip
        self.n, self.compute, self.latency = len(W), compute, latency
        self.script = [line.split() for line in log]
        self.lasts = [size / bandwidth for size in sizes]
        self.tells = [
            [(i + s) % self.n for s in range(1, self.n) if W[(i + s) % self.n, i] != 0] for i in range(self.n)
        ]
        self.heard_from = [sum(i in told for told in self.tells) for i in range(self.n)]
        self.events: list[tuple[float, int, Callable[..., None], tuple[int, ...]]] = []
        self.order = count()
        self.line = [0] * self.n
        self.gradients: list[list[float]] = [[] for _ in range(self.n)]
        """When every node begins its gradients."""
        self.arrived: list[Counter[int]] = [Counter() for _ in range(self.n)]
        self.waits_for: list[int | None] = [None] * self.n
        self.queue: list[deque[tuple[int, int]]] = [deque() for _ in range(self.n)]
        self.busy = [False] * self.n

    def run(self) -> np.ndarray:
        """When node i begins its gradient of round k, (rounds, n)."""
        for i in range(self.n):
            self.at(0.0, self.go_on, i)
        while self.events:
            time, _, act, arguments = heapq.heappop(self.events)
            act(time, *arguments)
        return np.array(self.gradients).T

    def at(self, time: float, act: Callable[..., None], *arguments: int) -> None:
        heapq.heappush(self.events, (time, next(self.order), act, arguments))

    def go_on(self, now: float, i: int) -> None:
        while self.line[i] < len(self.script):
            word, *numbers = self.script[self.line[i]]
            self.line[i] += 1
            if word == "gradient":
                k = len(self.gradients[i])
                self.gradients[i].append(now)
                return self.at(now + self.compute(k)[i], self.go_on, i)
            message = int(numbers[0])
            if word == "start":
                self.queue[i].extend((j, message) for j in self.tells[i])
                if not self.busy[i]:
                    self.send_next(now, i)
            elif self.arrived[i][message] < self.heard_from[i]:
                self.waits_for[i] = message
                return None
        return None

    def send_next(self, now: float, i: int) -> None:
        self.busy[i] = bool(self.queue[i])
        if self.busy[i]:
            j, message = self.queue[i].popleft()
            left = now + self.lasts[message - 1]
            self.at(left + self.latency, self.arrive, j, message)
            self.at(left, self.send_next, i)

    def arrive(self, now: float, j: int, message: int) -> None:
        self.arrived[j][message] += 1
        if self.waits_for[j] == message and self.arrived[j][message] == self.heard_from[j]:
            self.waits_for[j] = None
            self.go_on(now, j)
