"""Steps of training and passes of computing with nnet3py."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_parts.clock import counted, seconds, used_memory
from gpu_parts.nets import Sizes, minibatch

WARM, REPEATS = 8, 20       # before a step is timed, kernels are compiled and graphs captured


@dataclass(frozen=True)
class Measured:
    """What a step takes. ``operations`` are those of its useful products, natural gradient not counted."""

    seconds: float
    operations: int
    launches: str
    megabytes: float

    def line(self, what: str, rate: float) -> str:
        """The line of the report; ``rate`` is the measured rate of products in this arithmetic."""
        share = 100 * self.operations / self.seconds / rate
        return (f"  {what:34}{1e3 * self.seconds:9.2f} ms {share:5.0f} % of the rate, {self.launches}, "
                f"{self.megabytes:.0f} MB")


def _operations(nnet: Any, request: Any) -> int:
    from nnet3py.compiler import compile as compile_request
    from nnet3py.report.tables import Costs

    return int(Costs.of(compile_request(nnet, request), nnet).operations.sum())


def train(text: str, sizes: Sizes, plain: bool, repeats: int = REPEATS) -> Measured:
    """A step of training, on minibatches that are in the host's memory; ``plain``: without natural gradient."""
    from nnet3py import Nnet
    from nnet3py.training.example_computation import example_request
    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    if plain:
        text = text.replace("NaturalGradientAffine", "Affine").replace("type=TdnnComponent",
                                                                       "type=TdnnComponent use-natural-gradient=false")
    nnet, before = Nnet.from_config(text, seed=0), used_memory()
    example = minibatch(nnet, sizes)
    operations = _operations(nnet, example_request(nnet, example, need_model_derivative=True,
                                                   store_component_stats=True))
    trainer = NnetTrainer(nnet, TrainerOptions(device="cuda"))
    taken = seconds(lambda: trainer.train(example), min(WARM, 2 * repeats), repeats)
    with counted() as launches:
        trainer.train(example)
    return Measured(taken, operations, _launch_text(launches), (used_memory() - before) / 2**20)


def compute(text: str, sizes: Sizes, repeats: int = REPEATS) -> Measured:
    """The outputs of a minibatch of sequences."""
    import nnet3py
    from nnet3py.network.inference import prepare_for_test

    nnet = nnet3py.Nnet.from_config(text, seed=0)
    for component in nnet.components:
        if type(component).__name__ == "BatchNormComponent":
            component.count[0] = component.sumsq[...] = 1.0
    nnet = prepare_for_test(nnet)
    example, before = minibatch(nnet, sizes), used_memory()
    given, wanted = example.io
    request = nnet3py.ComputationRequest(inputs=[nnet3py.IoSpecification("input", given.indexes)],
                                         outputs=[nnet3py.IoSpecification("output", wanted.indexes)])
    computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet, ops=nnet3py.ops.get_ops("cuda"))

    def run() -> None:
        computer.restart()
        computer.accept_input("input", given.features)
        computer.run()

    taken = seconds(run, min(WARM, 2 * repeats), repeats)
    with counted() as launches:
        run()
    return Measured(taken, _operations(nnet, request), _launch_text(launches), (used_memory() - before) / 2**20)


def _launch_text(launches: Any) -> str:
    return f"{launches.total} launches ({launches.graphs} graphs)"
