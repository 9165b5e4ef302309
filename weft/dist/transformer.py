"""The time of a training step of a GPT on a cluster, split as Megatron splits it: what its published tables are held to.

Products, passes over memory and collectives of one layer are counted from sizes; the pipeline is played by
`weft.dist.simulate`. `Calibration` holds the four numbers that sizes do not give.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.dist.machines import Machine
from weft.dist.schedule import ScheduleName, make_schedule
from weft.dist.simulate import StageTimes, Timeline, simulate
from weft.ir.errors import ArgumentError

#: Bytes of an element of activations and weights, and of a gradient that is combined over data-parallel ranks.
HALF, FULL = 2, 4
#: Bytes of optimizer state, gradient and weight of one parameter; an update reads them and writes half as much again.
STATE = 18


@dataclass(frozen=True, slots=True)
class Gpt:
    """A decoder: ``hidden`` wide, with ``heads`` heads of attention."""

    hidden: int
    layers: int
    heads: int
    sequence: int = 2048
    vocabulary: int = 51200

    @property
    def parameters(self) -> float:
        h, layers = self.hidden, self.layers
        return 12 * layers * h * h * (1 + 13 / (12 * h) + (self.vocabulary + self.sequence) / (12 * layers * h))

    def flops(self, batch: int, *, recomputed: bool = True) -> float:
        """Of a training step; with every layer computed again before its gradient, where ``recomputed``."""
        h, s = self.hidden, self.sequence
        products = 72 * batch * s * self.layers * h * h
        whole = products * (1 + s / (6 * h)) * (4 / 3 if recomputed else 1)
        return whole + products * self.vocabulary / (12 * self.layers * h)


@dataclass(frozen=True, slots=True)
class Split:
    """How a step is spread: over ``tensor`` ranks in a layer, ``pipe`` stages, ``chunks`` on each, the rest for data."""

    devices: int
    tensor: int
    pipe: int
    chunks: int
    micro_batch: int
    batch: int
    #: gradients are combined while the last of them are still computed
    overlapped: bool = False

    @property
    def data(self) -> int:
        return self.devices // (self.tensor * self.pipe)

    @property
    def micro_batches(self) -> int:
        return self.batch // (self.data * self.micro_batch)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is fitted: the share of the peak that large products reach, the least extent at which they reach half of
    that, bytes of activations moved a layer in units of one, and the share of the bandwidth inside a node."""

    products: float
    half_size: float
    passes: float
    inside: float


#: Products at one share of the peak whatever their size: `half_size` ran into its bound.
#: Fitted on four rows of the table of SC'21 (1.7, 18, 76 and 530 billion) by ``python -m bench.megatron --fit``.
SELENE = Calibration(products=0.6614, half_size=0.0, passes=50.23, inside=0.8415)


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Seconds of a step and of its parts."""

    pipeline: float
    head: float
    gradients: float
    update: float
    bubble: float
    flops: float
    devices: int

    @property
    def seconds(self) -> float:
        return self.pipeline + self.head + self.gradients + self.update

    @property
    def rate(self) -> float:
        """TFLOP a second on each device."""
        return self.flops / self.seconds / self.devices / 1e12


def check_split(model: Gpt, split: Split) -> None:
    """Raises where the sizes of a split do not divide."""
    parts = {
        f"{split.devices} devices over {split.tensor} x {split.pipe}": split.devices % (split.tensor * split.pipe),
        f"{model.layers} layers over {split.pipe} x {split.chunks} stages": model.layers % (split.pipe * split.chunks),
        f"{model.heads} heads over {split.tensor}": model.heads % split.tensor,
        f"a batch of {split.batch} over {split.data} x {split.micro_batch}": split.batch
        % max(1, split.data * split.micro_batch),
    }
    for what, rest in parts.items():
        if rest:
            raise ArgumentError(f"{what} do not divide", why=f"{rest} are left over", help="choose sizes that divide")


def training_step(model: Gpt, split: Split, machine: Machine, calibration: Calibration) -> TrainingStep:
    """A step with full recomputation, as in the table of SC'21."""
    check_split(model, split)
    layer = _Layer(model, split, machine, calibration)
    timeline = _pipeline(layer)
    parameters = model.parameters / (split.tensor * split.pipe)
    gradients = machine.between.seconds("all_reduce", parameters * FULL, split.data)
    if split.overlapped:
        backward = layer.backward() * model.layers / split.pipe
        gradients = max(gradients - 0.9 * backward, 0.05 * gradients)
    return TrainingStep(
        pipeline=timeline.end,
        head=split.micro_batches * layer.head(),
        gradients=gradients,
        update=1.5 * parameters * STATE / machine.memory_bandwidth,
        bubble=timeline.bubble,
        flops=model.flops(split.batch),
        devices=split.devices,
    )


def _pipeline(layer: _Layer) -> Timeline:
    split, model = layer.split, layer.model
    layers = model.layers // (split.pipe * split.chunks)
    name: ScheduleName = "interleaved" if split.chunks > 1 else "1f1b"
    schedule = make_schedule(name, split.pipe, split.micro_batches, split.chunks)
    activations = layer.tokens * model.hidden * HALF / split.tensor
    send = layer.machine.between.seconds("send", activations)
    return simulate(schedule, StageTimes(layers * layer.forward(), layers * layer.backward(), send=send))


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer and one micro-batch on one rank."""

    model: Gpt
    split: Split
    machine: Machine
    calibration: Calibration

    @property
    def tokens(self) -> int:
        return self.split.micro_batch * self.model.sequence

    def product(self, rows: int, columns: int, depth: int) -> float:
        """Seconds of a product; a small extent keeps it from its share of the peak."""
        return 2 * rows * columns * depth / self._rate(min(rows, columns, depth))

    def _rate(self, extent: float) -> float:
        return self.machine.peak * self.calibration.products * extent / (extent + self.calibration.half_size)

    def products(self) -> float:
        h, t = self.model.hidden, self.split.tensor
        shapes = ((3 * h // t, h), (h, h // t), (4 * h // t, h), (h, 4 * h // t))
        return sum(self.product(self.tokens, columns, depth) for columns, depth in shapes)

    def attention(self) -> float:
        """Both products of attention; their least extent is that of a head."""
        s, h = self.model.sequence, self.model.hidden
        return 4 * self.split.micro_batch * s * s * h / self.split.tensor / self._rate(h / self.model.heads)

    def passes(self) -> float:
        """Everything that is no product: activations a few times, each score five times."""
        t, s = self.split.tensor, self.model.sequence
        activations = self.calibration.passes * self.tokens * self.model.hidden * HALF * (10 + 24 / t) / 34
        scores = 5 * HALF * self.split.micro_batch * self.model.heads / t * s * s
        return (activations + scores) / self.machine.memory_bandwidth

    def collectives(self) -> float:
        """Two all-reduces of activations in either direction."""
        size = self.tokens * self.model.hidden * HALF
        link = self.machine.link(self.split.tensor)
        return 2 * link.seconds("all_reduce", size, self.split.tensor, self.calibration.inside)

    def forward(self) -> float:
        return self.products() + self.attention() + self.passes() + self.collectives()

    def backward(self) -> float:
        """Twice the products and passes, the collectives once, and the layer again."""
        twice = 2 * (self.products() + self.attention() + self.passes())
        return twice + self.collectives() + self.forward()

    def head(self) -> float:
        """Logits and their gradients, on the last stage."""
        return 3 * self.product(self.tokens, self.model.vocabulary // self.split.tensor, self.model.hidden)
