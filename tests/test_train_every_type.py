"""A component of every trainable type learns what another one of its kind computes, nothing else being trained."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from component_forms import FORM_NAMES, FORMS, SPREAD, make
from runtime_cases import computer_for, forward_request, grid

from nnet3py.components.base import Properties
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import NnetTrainer

NUM_SEQUENCES, INPUTS, OUTPUTS = 8, range(-4, 10), range(6)
NUM_MINIBATCHES = 100
RATE, RATES = 0.003, {"LstmNonlinearityComponent": 0.1}     # its derivatives are small
LEARNED = 0.7              # of the first error, at most this is left
TRAINED = [pytest.param(type_name, line, id=name) for (type_name, line), name in zip(FORMS, FORM_NAMES, strict=True)
           if make(type_name, line).has(Properties.UPDATABLE)]

NETWORK = """
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim={dim} bias-stddev=0.2
component name=c type={type} {line}
component-node name=a component=a input=input
component-node name=c component=c input={source}
output-node name=output input=c objective=quadratic
"""


def network(type_name: str, line: str) -> Nnet:
    source = "c" if type_name == "ConstantComponent" else "a"
    text = NETWORK.format(dim=make(type_name, line).input_dim, type=type_name, line=line, source=source)
    return Nnet.from_config(text, seed=1)


def examples(teacher: Nnet) -> Iterator[NnetExample]:
    """Random features, and what the teacher makes of them."""
    computer, rng = computer_for(teacher, forward_request(NUM_SEQUENCES, INPUTS, OUTPUTS)), np.random.default_rng(0)
    for _ in range(NUM_MINIBATCHES):
        features = rng.standard_normal((NUM_SEQUENCES * len(INPUTS), 4), dtype=np.float32)
        computer.accept_input("input", features)
        computer.run()
        yield NnetExample([NnetIo("input", grid(NUM_SEQUENCES, INPUTS), features),
                           NnetIo("output", grid(NUM_SEQUENCES, OUTPUTS), computer.output("output").copy())])


@pytest.mark.parametrize(("type_name", "line"), TRAINED)
def test_it_learns(type_name: str, line: str) -> None:
    nnet = network(type_name, line)
    teacher = nnet.copy()
    teacher.component("c").perturb(SPREAD, np.random.default_rng(2))
    before = {name: value.copy() for name, value in nnet.component("c").parameters().items()}
    first_layer = nnet.component("a").vectorize()
    set_learning_rate(nnet, 0.0)
    set_learning_rate(nnet, RATES.get(type_name, RATE), names="c")
    trainer = NnetTrainer(nnet, TrainerOptions())
    totals = [0.0]
    for example in examples(teacher):
        trainer.train(example)
        totals.append(trainer.objectives["output"].total_objective)
    objectives = np.diff(totals)
    assert (objectives <= 0).all() and -objectives[-5:].mean() < -LEARNED * objectives[:5].mean()
    for name, value in nnet.component("c").parameters().items():
        assert not np.array_equal(value, before[name]) and np.isfinite(value).all()
    np.testing.assert_array_equal(nnet.component("a").vectorize(), first_layer)
