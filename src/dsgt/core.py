"""The vocabulary: what a method, a mixing and a network are. Everything else speaks in these words.

Tensors are ``(..., m)``: ``(n, m)`` where all nodes live in one process, ``(m,)`` on a real node. A method uses
elementwise arithmetic, reductions over the last axis with ``keepdim=True``, and ``mix``; so one text serves both.
"""

from __future__ import annotations

import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass, make_dataclass, replace
from functools import lru_cache
from types import TracebackType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

Matrix: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]] | scipy.sparse.csr_array"
"""A weight matrix: W[i, j] is the weight node i gives to what it hears from node j."""

Eigenvalues: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Polynomial: TypeAlias = "tuple[Eigenvalues | float, ...]"
"""Its coefficients, the highest power first: (1, b, d) is z^2 + b z + d."""

S = TypeVar("S", bound=tuple[Any, ...])
E = TypeVar("E", bound=tuple[Any, ...])


class Pending(ABC):
    """A mixing on its way through the network."""

    @abstractmethod
    def wait(self) -> Tensor:
        """What arrived. May be called again."""

    def peek(self) -> Tensor:
        """What arrives, for somebody who looks at a run from outside: no node's clock goes on."""
        return self.wait()


@dataclass(frozen=True)
class Done(Pending):
    """A mixing that has arrived."""

    value: Tensor

    def wait(self) -> Tensor:
        return self.value


class WireError(RuntimeError):
    """A message that no node can have sent: damaged on its way, or made of numbers that are not finite."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A vector in fewer bytes: ``wire`` travels, and everyone who hears it reads ``unpack(wire)``.

    A mixing takes it where it takes a tensor, and mixes what the neighbours read."""

    wire: Tensor
    """(..., bytes), equally long at every node."""
    unpack: Callable[[Tensor], Tensor]
    """Gives memory of its own, which a receiver may write into; a ``WireError`` where the wire cannot be."""
    value: Tensor
    """What it gives for the node's own wire, bit for bit; NaN where a node has sent what nobody can read."""


Sendable: TypeAlias = "Tensor | Packed"


def wire_of(v: Sendable) -> Tensor:
    """What travels."""
    return v.wire if isinstance(v, Packed) else v


def value_of(v: Sendable) -> Tensor:
    """What is read where it arrives."""
    return v.value if isinstance(v, Packed) else v


class Mix(ABC):
    """One round of weighted averaging with the neighbours. A word that a mixing does not know is refused."""

    @property
    def k(self) -> int:
        """The round."""
        raise self._unknown("the number of the round")

    @property
    def nodes(self) -> int:
        """How many nodes the network joins."""
        raise self._unknown("the number of nodes")

    @property
    def rows(self) -> Tensor:
        """The numbers of the nodes that live here, (..., 1)."""
        raise self._unknown("the numbers of the nodes")

    @property
    def push(self) -> Mix:
        """The same round over the second matrix; over the first where there is only one."""
        raise self._unknown("a second matrix")

    @abstractmethod
    def start(self, v: Sendable) -> Pending:
        """Send v; what arrives is sum_j W[i, j] v_j, the node itself included."""

    @abstractmethod
    def start_flow(self, v: Sendable) -> Pending:
        """Send v; what arrives is sum_j W[i, j] (v_j - v_i), that is (W - I) v computed from the differences.

        For a symmetric W its sum over the nodes is zero up to the rounding of the *differences*, so a method that
        adds up flows does not drift once the nodes agree. ``mix(v) - v`` would round at the size of v, for ever.
        """

    def __call__(self, v: Sendable) -> Tensor:
        return self.start(v).wait()

    def flow(self, v: Sendable) -> Tensor:
        return self.start_flow(v).wait()

    def together(self, *vs: Tensor) -> tuple[Tensor, ...]:
        """Mix several tensors in one message, so that they arrive at one moment and over one network."""
        mixed = self(torch.cat(vs, dim=-1))
        return tuple(mixed.split([v.shape[-1] for v in vs], dim=-1))

    def start_exchange(self, v: Tensor) -> Pending:
        """Send letters; what arrives is what each neighbour sent, (..., len(hears), m), unweighted.

        v is (..., 1, m), the same letter to all, or (..., len(tells), m), one for each."""
        raise self._unknown("letters to single neighbours")

    def exchange(self, v: Tensor) -> Tensor:
        return self.start_exchange(v).wait()

    @property
    def hears(self) -> Tensor:
        """The numbers of those whom a node hears, (..., d). Where all nodes live in one process and some have fewer
        neighbours than d, -1 stands for none, and zeros arrive from it."""
        raise self._unknown("whom a node hears")

    @property
    def tells(self) -> Tensor:
        """The numbers of those who hear a node, (..., d), filled up with -1."""
        raise self._unknown("who hears a node")

    @property
    def weights(self) -> Tensor:
        """What a node gives to each of those whom it hears, (..., d, 1); 0 where there is none."""
        raise self._unknown("single weights")

    @property
    def own(self) -> Tensor:
        """What a node gives to itself, (..., 1)."""
        raise self._unknown("a node's weight of its own")

    def _unknown(self, what: str) -> Exception:
        return TypeError(f"{type(self).__name__} does not know {what}, which this method asks for; use another network")


@dataclass
class Traffic:
    """What the nodes of this process have sent so far."""

    mixings: int = 0
    """Each sends one message to every neighbour."""
    bytes: int = 0


class Weights(ABC):
    """Who mixes with whom in round k, and how much of it; the same at every node. Where nodes live is a network's."""

    random: ClassVar[bool] = False
    """Whether chance decides: ``matrices`` then holds the mean of all that may come, and nothing else."""

    @property
    @abstractmethod
    def matrices(self) -> Sequence[Matrix]:
        """One pass through them where they repeat. Whether the network is connected and how fast it agrees is asked of
        these."""

    @abstractmethod
    def at(self, k: int) -> Matrix:
        """The matrix of round k; for a matrix that comes again the same object, so that a network prepares it once."""

    @property
    def push(self) -> Weights:
        """Those of the second matrix, for methods that mix models with one and trackers with another."""
        return self

    @property
    def single(self) -> Sequence[Matrix]:
        """Some that stand for each one that may come in their row sums, column sums, symmetry and lowest eigenvalue."""
        return self.matrices

    @property
    def changes(self) -> bool:
        return self.random or len(self.matrices) > 1

    @property
    def nodes(self) -> int:
        return int(self.matrices[0].shape[0])

    def __repr__(self) -> str:
        """The name, the numbers and the weights it is made of: what tells it from others of the same matrices."""
        values = {f.name: getattr(self, f.name) for f in parameters(self)}
        numbers = [f"{name}={value}" for name, value in values.items() if isinstance(value, int | float | Weights)]
        return f"{type(self).__name__}({', '.join(numbers)})"


class Network(ABC):
    """Who mixes with whom, and where the nodes live. Closing it drains the messages still in flight."""

    nodes: int
    """How many nodes the network joins."""
    node: int | None = None
    """Which node lives in this process; None where all of them do."""
    weights: Weights
    """Who mixes with whom."""

    def __init__(self) -> None:
        self.traffic = Traffic()

    def at(self, k: int) -> Mix:
        """The mixing of round k. A message that a method sends in round k travels over this network."""
        return self.round(k, self.weights)

    def round(self, k: int, weights: Weights) -> Mix:
        """The mixing of round k with these weights instead of the network's own."""
        raise TypeError(f"{type(self).__name__} has weights of its own and cannot be given {weights!r}")

    def over(self, weights: Weights) -> Network:
        """The same nodes in the same place with other weights."""
        return Over(self, weights)

    @property
    def matrices(self) -> Sequence[Matrix]:
        """One pass through the weight matrices; their mean where they are random."""
        return self.weights.matrices

    def __call__(self, v: Sendable) -> Tensor:
        """Mix by hand, where it is the same in every round."""
        return self._by_hand()(v)

    def start(self, v: Sendable) -> Pending:
        return self._by_hand().start(v)

    def flow(self, v: Sendable) -> Tensor:
        return self._by_hand().flow(v)

    def _by_hand(self) -> Mix:
        if self.weights.changes:
            raise ValueError(f"{self.weights!r} changes from round to round; mix with network.at(k) of round k")
        return self.round(0, self.weights)

    @abstractmethod
    def gather(self, v: Tensor) -> Tensor:
        """The rows ``(n, m)`` of all nodes, on every node. For looking, not for training."""

    @abstractmethod
    def mean(self, v: Tensor) -> Tensor:
        """The mean ``(m,)`` over all nodes, on every node. For looking, not for training."""

    @property
    def bytes_sent(self) -> int:
        """By all nodes together. On real nodes all must ask at once."""
        if self.node is None:
            return self.traffic.bytes
        return round(float(self.mean(torch.tensor([self.traffic.bytes], dtype=torch.float64))) * self.nodes)

    @property
    def takes_arrays(self) -> bool:
        """Whether its mixings take NumPy arrays as well as tensors. A small simulation is then computed by NumPy."""
        return False

    def computed(self, k: int, gradients: float | Tensor = 1.0) -> None:  # noqa: B027 - for networks with a clock
        """Called by the loop when every node has computed its gradient of round k, which cost it as much as so many
        gradients of a drawn batch; a number for all nodes, or one for each of those that live here."""

    def progress(self) -> dict[str, Tensor]:
        """What a checkpoint must hold of a network besides the messages: what was sent, and what a clock shows."""
        return {"traffic": torch.tensor([self.traffic.mixings, self.traffic.bytes])}

    def restore(self, progress: dict[str, Tensor]) -> None:
        """Go on from there."""
        self.traffic.mixings, self.traffic.bytes = progress["traffic"].tolist()

    @property
    def lead(self) -> tuple[int, ...]:
        """What stands before m in the shape of this process's tensors: (n,) in a simulator, () on a real node."""
        return (self.nodes,) if self.node is None else ()

    def close(self) -> None:  # noqa: B027 - nothing to drain where messages never travel
        """Wait for every message in flight."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Around(Network):
    """A network seen in another way: what a subclass does not say, the inner network does."""

    def __init__(self, inner: Network) -> None:
        super().__init__()
        self.inner, self.weights = inner, inner.weights
        self.nodes, self.node = inner.nodes, inner.node
        self.traffic = inner.traffic

    @property
    def takes_arrays(self) -> bool:
        return self.inner.takes_arrays

    def round(self, k: int, weights: Weights) -> Mix:
        return self.inner.round(k, weights)

    def gather(self, v: Tensor) -> Tensor:
        return self.inner.gather(v)

    def mean(self, v: Tensor) -> Tensor:
        return self.inner.mean(v)

    def computed(self, k: int, gradients: float | Tensor = 1.0) -> None:
        self.inner.computed(k, gradients)

    def progress(self) -> dict[str, Tensor]:
        return self.inner.progress()

    def restore(self, progress: dict[str, Tensor]) -> None:
        self.inner.restore(progress)

    def close(self) -> None:
        self.inner.close()


class Over(Around):
    """The same nodes with other weights."""

    def __init__(self, inner: Network, weights: Weights) -> None:
        super().__init__(inner)
        if weights.nodes != inner.nodes:
            raise ValueError(f"{weights!r} joins {weights.nodes} nodes, but the network has {inner.nodes}")
        self.weights = weights


@dataclass(frozen=True)
class Needs:
    """What a method asks of every W it is given. rho < 1, so that the network agrees at all, is asked by everyone."""

    rows: bool = True
    """Each row sums to 1: equal models stay equal."""
    columns: bool = True
    """Each column sums to 1: mixing keeps the sum."""
    mean_columns: bool = False
    """Where W is random, columns sum to 1 in the mean only: a method that remembers no sum may lose messages."""
    symmetric: bool = False
    floor: float | None = None
    """The smallest eigenvalue must lie above it."""
    average: bool = False
    """W is 1/n everywhere."""
    static: bool = False
    """W must not change from round to round."""
    graph: Literal["any", "tree", "complete"] = "any"
    """tree: no circle of links. complete: everybody hears everybody, in some round at least."""
    push: Needs | None = None
    """What is asked of the second matrix, where the method uses one."""

    def __str__(self) -> str:
        if self.push is not None:
            return f"{replace(self, push=None)}; second matrix {self.push}"
        if self.average:
            return "W = 1/n everywhere"
        kind = {(True, True): "doubly", (True, False): "row", (False, True): "column"}[self.rows, self.columns]
        words = ["static"] * self.static + ["symmetric"] * self.symmetric + [f"{kind} stochastic"]
        words = [f"{self.graph} graph,"] * (self.graph != "any") + words
        if self.floor is not None:
            words[-1] += f", smallest eigenvalue > {self.floor:.3g}"
        return " ".join(words)


T = TypeVar("T")


class Inner:
    """An optimizer of torch's as a parameter of a method, y in the place of the gradient (the paper's section 2.2).

    ``Inner(torch.optim.AdamW, betas=(0.9, 0.95))``: a class and its options; lr is the parameter groups' own.

    Only ``dsgt.Optimizer`` knows the parameters that it moves, so only there it works.
    """

    def __init__(self, kind: type[torch.optim.Optimizer], **options: Any) -> None:
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
            raise TypeError(f"Inner was given {kind!r}; expected a class such as torch.optim.AdamW, and its options")
        if inspect.signature(kind.step).parameters["closure"].default is inspect.Parameter.empty:
            raise ValueError(
                f"{kind.__name__} evaluates the loss many times a step, which no method here does; use another"
            )
        if "lr" in options:
            raise ValueError("Inner was given lr; give it to dsgt.Optimizer or to its parameter groups")
        self.kind, self.options = kind, options

    def __repr__(self) -> str:
        return f"Inner({', '.join([self.kind.__name__, *(f'{k}={v}' for k, v in sorted(self.options.items()))])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inner) and (self.kind, self.options) == (other.kind, other.options)

    def __hash__(self) -> int:
        return hash(repr(self))


def parameter(
    default: T,
    meaning: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> T:
    """A field of a method: its default, what it means, and the range least <= value <= most, above < value < below."""
    bounds = {"at least": least, "above": above, "at most": most, "below": below}
    made: T = field(default=default, metadata={"meaning": meaning, "bounds": bounds})
    return made


_HOLDS = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}


def parameters(method: object) -> tuple[Field[Any], ...]:
    """The fields of a method, or of its class; none where it is no dataclass."""
    return fields(method) if is_dataclass(method) else ()


def check_ranges(made: object) -> None:
    """Every parameter must lie in its range."""
    for f in parameters(made):
        value, bounds = getattr(made, f.name), f.metadata.get("bounds", {})
        asked = {words: bound for words, bound in bounds.items() if bound is not None}
        if not all(_HOLDS[words](value, bound) for words, bound in asked.items()):
            expected = " and ".join(f"{words} {bound}" for words, bound in asked.items())
            raise ValueError(f"{f.name} of {type(made).__name__} is {value}; expected {expected}")


class Local:
    """What the nodes here can compute of their f_i. The network minimises the mean of all f_i.

    Points and answers are (n, m) where all nodes live in this process, (m,) on a real node. Problems that know more
    than the gradient of a drawn batch say so in a subclass; the rest is refused."""

    def __init__(self, gradient: Callable[[Tensor, int], Tensor], rows: Tensor, seed: int = 0) -> None:
        self._gradient = gradient
        self.seed = seed
        """Of the run: what an oracle draws is a function of it, of the oracle's own stream, ``rows`` and the round."""
        self.rows = rows
        """The numbers of the nodes that live here, (..., 1): what they draw depends on them."""
        self.whole: float | Tensor = 1.0
        """What a look at all of a node's samples costs, in gradients of a drawn batch: a number, or (n,)."""
        self.spent: float | Tensor = 0.0
        """What the answers since the last ``bill`` have cost, in the same unit."""
        self.kept: dict[str, Tensor] = {}
        """What ``gradient`` remembers besides the models, such as a module's running statistics: a row a node."""

    def gradient(self, x: Tensor, k: int) -> Tensor:
        """Of the samples drawn in round k, at any point."""
        self.spent = self.spent + 1.0
        return self._gradient(x, k)

    def full(self, x: Tensor) -> Tensor:
        """The exact gradient of f_i."""
        raise self._lacks("the gradient of all of a node's samples")

    def part(self, x: Tensor, j: Tensor, q: int) -> Tensor:
        """f_i is the mean of q parts, whatever the number of its samples: the gradient of node i's part j_i, where j is
        (..., 1)."""
        raise self._lacks("the gradient of a part of a node's samples")

    def resolvent(self, v: Tensor, j: Tensor, q: int, lr: float) -> Tensor:
        """The x with x + lr part(x, j, q) = v."""
        raise self._lacks("resolvents, that is, the x with x + lr gradient(x) = v")

    def conjugate(self, u: Tensor, near: Tensor) -> Tensor:
        """The x at which the gradient of f_i is u; ``near`` is a guess, such as the answer of the round before."""
        raise self._lacks("conjugates, that is, the x whose gradient is u")

    def inverse(
        self, r: Tensor, j: Tensor, q: int, own: float | Tensor, weight: float | Tensor, near: Tensor
    ) -> Tensor:
        """The x with own x + weight (the gradient of part j without its penalty) = r: what the two above are made of.
        ``weight`` may be negative, as long as the left side grows with x."""
        raise self._lacks("inverses of gradients")

    def penalty(self) -> float:
        """l2: f_i is (l2/2) |x|^2 and the mean of its parts without it."""
        raise self._lacks("its penalty")

    def convexity(self) -> Tensor:
        """How strongly convex f_i is at least, (..., 1); 0 where it may be flat."""
        raise self._lacks("how strongly convex a node's function is")

    def smoothness(self, q: int) -> Tensor:
        """An L of every part of f_i without its penalty, (..., q)."""
        raise self._lacks("how curved a node's function is")

    def bill(self) -> float | Tensor:
        """What the answers since the last one have cost."""
        spent, self.spent = self.spent, 0.0
        return spent

    def _lacks(self, what: str) -> Exception:
        return TypeError(f"{type(self).__name__} does not compute {what}; use a problem that does, or another method")


class Oracle(ABC, Generic[E]):
    """Where a method's gradients come from: two functions and a memory, a NamedTuple of tensors.

    A frozen dataclass; its fields, made with ``parameter``, are its parameters. The memory belongs to whoever asks, and
    ``ask`` may write over what it was given; it never hands out memory that it will write over later."""

    wants: ClassVar[tuple[str, ...]] = ("gradient",)
    """What it asks a ``Local`` for."""
    agrees: ClassVar[bool] = False
    """Whether it answers with the gradient itself where all samples of a node agree: a method is then stable for the
    same learning rates as with gradients. Else they are measured."""

    def __post_init__(self) -> None:
        check_ranges(self)

    @abstractmethod
    def init(self, f: Local, x: Tensor) -> E:
        """The memory before the first round, which begins at x."""

    @abstractmethod
    def ask(self, memory: E, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, E]:
        """The answer of round k at the point x, and the memory after it."""


class Nothing(NamedTuple):
    """An oracle that remembers nothing."""


@dataclass(frozen=True)
class Gradient(Oracle[Nothing]):
    """The gradient of the drawn batch, as it is."""

    agrees: ClassVar[bool] = True

    def init(self, f: Local, x: Tensor) -> Nothing:
        return Nothing()

    def ask(self, memory: Nothing, f: Local, x: Tensor, k: int, lr: float) -> tuple[Tensor, Nothing]:
        return f.gradient(x, k), memory


class Algorithm(ABC, Generic[S]):
    """A method as mathematics: two pure functions. The state is a NamedTuple whose first field x is the model.

    A method is a frozen dataclass; its fields, made with ``parameter``, are its parameters.

    The step is cut just after a gradient, so that one function is both ``optimizer.step()`` and the body of the
    simulator's loop. A ``Pending`` kept in the state flies while the next gradient is computed.
    """

    needs: ClassVar[Needs] = Needs()
    """Ask an instance: where the parameters decide it, it is a property."""
    sends: ClassVar[float]
    """How many m-vectors a node sends to each neighbour in a round, in the mean. Ask an instance, as for ``needs``."""
    exact: ClassVar[bool]
    """Whether a constant learning rate reaches the optimum when the nodes' data differ and gradients are exact."""
    tracker: ClassVar[tuple[str, str] | None] = None
    """Two fields of the state whose means over the nodes are equal after every round: the tracker and the gradient."""
    zero_sum: ClassVar[str | None] = None
    """A field of the state whose sum over the nodes stays zero."""
    inner: Inner | None = None
    """An optimizer of torch's that moves x, where the method has a parameter of this name."""
    asks: ClassVar[Oracle[Any]] = Gradient()
    """Where its gradients come from. Ask an instance, as for ``needs``."""
    keeps_x: ClassVar[bool] = False
    """Whether the state holds, or has sent, something made of x. If not, a round may begin with any other x: a model
    that was loaded, clamped or pruned between two steps."""
    uncoordinated: ClassVar[bool] = False
    """Whether the optimum is still reached where every node has a learning rate of its own."""
    phase: ClassVar[int] = 1
    """So many rounds belong together, from a multiple of it on: what was begun in one is not begun anew within it."""
    equal_starts: ClassVar[bool] = False
    """Whether all nodes must begin with the same model."""
    divides_by_lr: ClassVar[bool] = False
    """Whether a learning rate of 0, where a warm-up begins, cannot be used."""
    remembers_lr: ClassVar[bool] = False
    """Whether it remembers steps in units of lr, so that a change of lr throws it back."""
    diverges: ClassVar[str] = ""
    """What else than the learning rate to think of where a run diverges."""
    arithmetic: ClassVar[bool] = False
    """Whether ``update`` is a text of + - * / and mixings only. Every coordinate of the model is then treated by
    itself, and ``update`` may be given NumPy's arrays, or be read as formulas, once for every learning rate, that are
    computed afterwards. Said of one ``update``: a subclass that writes another says it again."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "update" in cls.__dict__ and "arithmetic" not in cls.__dict__:
            cls.arithmetic = False
        if "update" in cls.__dict__ and "polynomial" not in cls.__dict__:
            cls.polynomial = Algorithm.polynomial  # type: ignore[method-assign]  # another update has another one

    def __post_init__(self) -> None:
        check_ranges(self)

    @abstractmethod
    def init(self, x: Tensor, mix: Mix) -> S:
        """The state before the first gradient, chosen so that ``update`` needs no first-round branch."""

    @abstractmethod
    def update(self, s: S, g: Tensor, mix: Mix, lr: float) -> S:
        """The state after a round; g is the (stochastic) gradient at ``s.x``, or what ``asks`` says at ``point(s)``."""

    def point(self, s: S) -> Tensor:
        """Where the oracle is asked; x stays the model."""
        x: Tensor = s[0]
        return x

    def asking(self, oracle: Oracle[Any]) -> Algorithm[S]:
        """The same method with the answers of this oracle in the place of gradients."""
        if type(self.asks) is not Gradient:
            raise ValueError(
                f"{type(self).__name__} already asks {self.asks} and cannot ask {oracle} too; leave the oracle out, or "
                "give it to a method that asks for gradients"
            )
        if type(oracle) is Gradient:
            return self
        if not is_dataclass(self):
            raise TypeError(f"{type(self).__name__} is no dataclass, so no oracle can be added; make it a frozen one")
        values = {f.name: getattr(self, f.name) for f in parameters(self)}
        made: Algorithm[S] = _asking(type(self))(**values, oracle=oracle)
        return made

    def fitted(self, network: Network, f: Local) -> Algorithm[S]:
        """The same method with the parameters that it leaves open taken from the network, and from what the nodes know
        of their own functions. All nodes call it at once, before the first round."""
        return self

    def over(self, network: Network) -> Network:
        """The network that the method runs on, made of the one it was given: a method may be another one that mixes
        rarely, or with random pairs."""
        return network

    def message_bytes(self, m: int, element: int = 4) -> float:
        """What a node sends to each neighbour in a round, in the mean, for m numbers of ``element`` bytes each."""
        return self.sends * m * element

    def shaped(self, shapes: Sequence[tuple[int, ...]]) -> Self:
        """The same method for a model whose parameters have these shapes, one after the other in its vector."""
        return self

    def model(self, s: S) -> Tensor:
        """What a user takes home: x, unless the method promises something of another point, such as an average."""
        x: Tensor = s[0]
        return x

    def polynomial(self, w: Eigenvalues, c: float) -> Polynomial | None:
        """The characteristic polynomial of x on f_i(x) = (L/2) |x - a_i|^2 with c = lr L, per eigenvalue w of W.

        The method is stable where all its roots lie inside the unit circle; a root 1 at w = 1 is tracking's own and
        does no harm. None where it is not known: the limit is then measured, so a new method need not give it.
        """
        return None


@lru_cache
def _asking(kind: type[Algorithm[S]]) -> type[Algorithm[S]]:
    """The method with one parameter more, its oracle: it then shows in its repr, in checkpoints and in comparisons."""
    made: type[Algorithm[S]] = make_dataclass(
        kind.__name__,
        [("oracle", Oracle, field(kw_only=True))],
        bases=(kind,),
        frozen=True,
        namespace={"asks": property(lambda self: self.oracle), "__reduce__": _again, "_plain": kind},
    )
    made.__doc__ = kind.__doc__
    made.__module__ = kind.__module__
    return made


def without_oracle(algorithm: Algorithm[S]) -> Algorithm[S]:
    """The method to which ``Algorithm.asking`` has added an oracle; itself where it has not."""
    kind = vars(type(algorithm)).get("_plain")
    return algorithm if kind is None else kind(**{f.name: getattr(algorithm, f.name) for f in parameters(kind)})


def _again(made: Algorithm[S]) -> tuple[Any, ...]:
    """How to make it again in another process: its class is found nowhere by name."""
    return _asked, (without_oracle(made), made.asks)


def _asked(plain: Algorithm[S], oracle: Oracle[Any]) -> Algorithm[S]:
    return plain.asking(oracle)


def settle(state: S) -> S:
    """The same state with every message arrived: what can be saved, compared and copied."""
    return changed(state, lambda _, f: Done(f.wait()) if isinstance(f, Pending) else f)


def tensors(state: tuple[Any, ...]) -> dict[str, Tensor]:
    """The fields of a state by name, waited for: what a checkpoint holds and a metric looks at."""
    found: dict[str, Tensor] = {}
    changed(state, lambda name, f: found.setdefault(name, f.peek() if isinstance(f, Pending) else f))
    return found


def with_tensors(state: S, values: dict[str, Tensor]) -> S:
    """The inverse of ``tensors``: a state of the same kind holding these values."""
    return changed(state, lambda name, old: Done(values[name]) if isinstance(old, Pending) else values[name])


def changed(state: S, change: Callable[[str, Any], Any]) -> S:
    """A state of the same kind with ``change(name, field)`` in every field. A field may be a tuple of messages, whose
    names are then "field.0", "field.1" and so on."""
    fields = [
        tuple(change(f"{name}.{i}", part) for i, part in enumerate(f)) if isinstance(f, tuple) else change(name, f)
        for name, f in zip(state._fields, state, strict=True)  # type: ignore[attr-defined]
    ]
    return type(state)(*fields)


def restart_tracking(algorithm: Algorithm[S], state: S, mix: Mix) -> S:
    """The same models, and everything else that the method remembers begun anew: mean(y) = mean(s) is true again.

    For a network that has lost a message or a node, which a tracker never forgets by itself. All nodes must do it in
    the same round; ``mix`` is the network that they go on with.
    """
    return algorithm.init(settle(state)[0], mix)
