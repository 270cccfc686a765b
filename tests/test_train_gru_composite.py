"""Networks with GRU layers and with a composite learn tasks that they are made for, each time in the same way."""
from __future__ import annotations

import math

import numpy as np
import pytest
from runtime_cases import grid

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.formats.general import SparseMatrix
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import NnetTrainer

NUM_SYMBOLS = 3
CHANCE = -math.log(NUM_SYMBOLS)     # the objective of guessing
LEARNED = -0.1                       # of one that knows: 90 % on the right symbol
NUM_SEQUENCES, NUM_FRAMES, DELAY = 16, 8, 2
FRAMES_OF_EACH = NUM_SEQUENCES * (NUM_FRAMES - DELAY)
NUM_MINIBATCHES = 300
RATE = 0.01

# What a layer remembers is all that it has of earlier symbols.
RECURRENT = """
input-node name=input dim=3
component name=gates type=NaturalGradientAffineComponent input-dim={gates_in} output-dim={gates_out}
component name=sigmoid type=SigmoidComponent dim={gates_out} self-repair-scale=1e-5
component name=hpart type=NaturalGradientAffineComponent input-dim=3 output-dim=12
component name=cell type={cell}
component name=project type=LinearComponent input-dim=12 output-dim={recurrent}
component name=out type=NaturalGradientAffineComponent input-dim={recurrent} output-dim=3 param-stddev=0 bias-stddev=0
component name=softmax type=LogSoftmaxComponent dim=3
component-node name=gates component=gates input=Append(input, IfDefined(Offset(project, -1)))
component-node name=sigmoid component=sigmoid input=gates
component-node name=hpart component=hpart input=input
component-node name=cell component=cell input=Append(sigmoid, hpart, IfDefined(Offset(c, -1)){more})
dim-range-node name=c input-node=cell dim-offset=12 dim=12
component-node name=project component=project input=c
component-node name=out component=out input=project
component-node name=softmax component=softmax input=out
output-node name=output input=softmax
"""

COMPOSITE = """
input-node name=input dim=3
component name=block type=CompositeComponent max-rows-process=50 num-components=4 \
component1='type=NaturalGradientAffineComponent input-dim=6 output-dim=24' \
component2='type=RectifiedLinearComponent dim=24 self-repair-scale=1e-5' component3='type=BatchNormComponent dim=24' \
component4='type=NaturalGradientAffineComponent input-dim=24 output-dim=3 param-stddev=0 bias-stddev=0'
component name=softmax type=LogSoftmaxComponent dim=3
component-node name=block component=block input=Append(Offset(input, -1), input)
component-node name=softmax component=softmax input=block
output-node name=output input=softmax
"""

CONFIGS = {
    "gru": RECURRENT.format(gates_in=15, gates_out=24, recurrent=12, cell="GruNonlinearityComponent cell-dim=12",
                            more=""),
    "projected": RECURRENT.format(gates_in=10, gates_out=19, recurrent=7, more=", IfDefined(Offset(project, -1))",
                                  cell="GruNonlinearityComponent cell-dim=12 recurrent-dim=7 self-repair-scale=1e-3"),
    "output gru": RECURRENT.format(gates_in=10, gates_out=12, recurrent=7, more="",
                                   cell="OutputGruNonlinearityComponent cell-dim=12 param-stddev=0.3"),
    "composite": COMPOSITE,
}


def delayed(symbols: np.ndarray) -> np.ndarray:
    """The task of the recurrent networks: the symbol of two frames before."""
    return np.roll(symbols, DELAY, axis=0)


def added(symbols: np.ndarray) -> np.ndarray:
    """The task of the composite, which no linear map solves: the last two symbols' sum, modulo their number."""
    return (symbols + np.roll(symbols, 1, axis=0)) % NUM_SYMBOLS


def example(task, seed: int) -> NnetExample:
    """Random symbols as one-hot features, and what the task makes of them from frame 2 on."""
    symbols = np.random.default_rng(seed).integers(0, NUM_SYMBOLS, (NUM_FRAMES, NUM_SEQUENCES))
    features = np.eye(NUM_SYMBOLS, dtype=np.float32)[symbols.reshape(-1)]
    targets = [[(int(symbol), 1.0)] for symbol in task(symbols)[DELAY:].reshape(-1)]
    return NnetExample([NnetIo("input", grid(NUM_SEQUENCES, range(NUM_FRAMES)), features),
                        NnetIo("output", grid(NUM_SEQUENCES, range(DELAY, NUM_FRAMES)),
                               SparseMatrix.from_rows(targets, NUM_SYMBOLS))])


def train(name: str, num_minibatches: int) -> tuple[Nnet, list[float]]:
    """The network after training, and the objective of each minibatch."""
    task = added if name == "composite" else delayed
    nnet = Nnet.from_config(CONFIGS[name], seed=3)
    set_learning_rate(nnet, RATE)
    trainer = NnetTrainer(nnet, TrainerOptions(momentum=0.3))
    objectives, before = [], 0.0
    for i in range(num_minibatches):
        trainer.train(example(task, i))
        total = trainer.objectives["output"].total_objective
        objectives.append((total - before) / FRAMES_OF_EACH)
        before = total
    return nnet, objectives


def all_parameters(nnet: Nnet) -> np.ndarray:
    return np.concatenate([value.ravel() for component in nnet.components for value in component.parameters().values()])


@pytest.mark.parametrize("name", CONFIGS)
def test_the_task_is_learned(name):
    nnet, objectives = train(name, NUM_MINIBATCHES)
    assert np.mean(objectives[:2]) < 0.8 * CHANCE
    assert np.mean(objectives[-10:]) > LEARNED
    cell = nnet.component("block").children[1] if name == "composite" else nnet.component("cell")
    assert cell.counters[0] > 0 and cell.deriv_sum.min() >= 0 and np.isfinite(cell.value_sum).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_seed_gives_the_same_network(name):
    (one, first), (other, second) = train(name, 5), train(name, 5)
    np.testing.assert_array_equal(all_parameters(one), all_parameters(other))
    assert first == second and first[-1] > first[0]
