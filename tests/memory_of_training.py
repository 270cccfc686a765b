"""How much memory a process has while it trains on minibatches that nearly all have another shape.

    python tests/memory_of_training.py MINIBATCHES CAPACITY

prints the resident size in kB after each tenth of them. The first minibatch has the largest shape.
"""
from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
from runtime_cases import class_example

from nnet3py.compiler.cache import CompilerOptions
from nnet3py.network.nnet import Nnet
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import NnetTrainer

MOST_SEQUENCES, MOST_FRAMES = 8, 60
NET = """
input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=9 output-dim=16
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1))
component name=r type=RectifiedLinearComponent dim=16
component-node name=r component=r input=a
component name=n type=BatchNormComponent dim=16
component-node name=n component=n input=r
component name=c type=NaturalGradientAffineComponent input-dim=32 output-dim=16
component-node name=c component=c input=Append(n, IfDefined(Offset(t, -10)))
component name=t type=TanhComponent dim=16
component-node name=t component=t input=c
component name=b type=NaturalGradientAffineComponent input-dim=16 output-dim=4
component-node name=b component=b input=t
component name=l type=LogSoftmaxComponent dim=4
component-node name=l component=l input=b
output-node name=output input=l
"""


def resident() -> int:
    """kB of this process's memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024


def main(count: int, capacity: int) -> None:
    options = TrainerOptions(compiler=CompilerOptions(cache_capacity=capacity))
    trainer = NnetTrainer(Nnet.from_config(NET, seed=1), options)
    rng = np.random.default_rng(0)
    for i in range(count):
        shape = [MOST_SEQUENCES, MOST_FRAMES] if i == 0 else [int(rng.integers(1, most + 1))
                                                             for most in (MOST_SEQUENCES, MOST_FRAMES)]
        trainer.train(class_example(*shape, seed=i, left=1, right=1))
        if (i + 1) % (count // 10) == 0:
            print(resident(), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
