"""RPS, a robust parameter server without a server: node j averages the j-th block of the model, and messages get lost.

    V = X - lr S, cut into n blocks
    A_j = mean of V_i's block j over the nodes i whose message to j arrived, and j itself
    X_i' has A_j in block j where j's answer arrived, and V_i's own block where it did not

For networks that join everybody and lose messages: ``topologies.Lossy(topologies.averaging(n), p)``. The answers are
lost by a draw of their own. Without losses it is SGD over all nodes. Begin with equal models at all nodes.
Guarantee: O(1 / sqrt(n K)) for non-convex functions, with terms of the loss p that shrink with n (Yu et al., 2019); a
constant step stops O(lr) beside the optimum.
Yu, Tang, Renggli, Kassing, Singla, Alistarh, Zhang and Liu, Distributed learning over unreliable networks, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor
from torch.nn.functional import pad

from dsgt.core import Algorithm, Mix, Needs


class State(NamedTuple):
    x: Tensor


@dataclass(frozen=True)
class RPS(Algorithm[State]):
    needs: ClassVar[Needs] = Needs(columns=False, graph="complete")
    sends: ClassVar[int] = 2  # messages, of one block each
    exact: ClassVar[bool] = False
    equal_starts: ClassVar[bool] = True

    def init(self, x: Tensor, mix: Mix) -> State:
        return State(x)

    def update(self, s: State, g: Tensor, mix: Mix, lr: float) -> State:
        n, m = mix.nodes, s.x.shape[-1]
        size = -(-m // n)
        blocks = pad(s.x - lr * g, (0, n * size - m)).unflatten(-1, (n, size))
        mine = blocks.gather(-2, _places(mix.rows, blocks))
        heard = mix.exchange(blocks.gather(-2, _places(mix.tells.clamp(min=0), blocks)))
        arrived = (mix.hears >= 0).sum(dim=-1, keepdim=True).unsqueeze(-1).to(blocks.device)
        mean = (mine + heard.sum(dim=-2, keepdim=True)) / (1 + arrived)
        answers, of = mix.push.exchange(mean), mix.push.hears
        spare = pad(blocks, (0, 0, 0, 1))  # a block more, for the answers of nobody
        taken = spare.scatter(-2, _places(mix.rows, blocks), mean)
        taken = taken.scatter(-2, _places(of.where(of >= 0, n), blocks), answers)
        return State(taken[..., :n, :].flatten(-2)[..., :m])


def _places(nodes: Tensor, blocks: Tensor) -> Tensor:
    """The numbers of blocks, as ``gather`` and ``scatter`` want them."""
    return nodes.to(blocks.device).unsqueeze(-1).expand(*nodes.shape, blocks.shape[-1])
