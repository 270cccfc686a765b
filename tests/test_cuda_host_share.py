"""How often the host takes part in a minibatch that a GPU computes, counted in numba's simulator.

See tests/cuda_checks.py: run as a program, in a process of its own, this file makes the comparisons.
"""
from __future__ import annotations

import numpy as np
from cuda_checks import check_in_simulator

# the minibatch's number, the input, the supervision, the objective; then what the host hears of later
FRAME_LEVEL = 4 + 2         # whether natural gradient could use what it got, the limits' factors
CONSTRAINED = FRAME_LEVEL + 1
CHAIN = FRAME_LEVEL + 4     # two sums for the objective, that of the companion output, l2, weights of frames

GRU_AND_ATTENTION = """
input-node name=input dim=4
component name=g type=AffineComponent input-dim=4 output-dim=8
component name=u type=GruNonlinearityComponent cell-dim=2
component name=q type=AffineComponent input-dim=4 output-dim=9
component name=w type=RestrictedAttentionComponent num-heads=1 key-dim=2 value-dim=2 num-left-inputs=1 \
 num-right-inputs=1 num-left-inputs-required=0 num-right-inputs-required=0
component name=o type=AffineComponent input-dim=5 output-dim=3
component-node name=g component=g input=input
component-node name=u component=u input=g
component-node name=q component=q input=u
component-node name=w component=w input=q
component-node name=o component=o input=w
output-node name=output input=o
"""


def test_in_the_simulator():
    check_in_simulator(__file__, 3)


def touches(run) -> int:
    """How often the host takes part."""
    from nnet3py.ops.cuda.memory import host_touches

    before = host_touches()
    run()
    return host_touches() - before


def check_passes() -> int:
    """Forward and backward passes whose draws stay on the device need no host at all."""
    import nnet3py
    from nnet3py.ops import get_ops
    from nnet3py.runtime.parameter_store import on_device

    nnet, ops = nnet3py.Nnet.from_config(GRU_AND_ATTENTION, seed=1), get_ops("cuda")
    indexes = np.array([(0, t, 0) for t in range(3)], np.int32)
    request = nnet3py.ComputationRequest(
        [nnet3py.IoSpecification("input", indexes)], [nnet3py.IoSpecification("output", indexes, has_deriv=True)],
        need_model_derivative=True, store_component_stats=True)
    gradient = on_device(nnet.as_gradient(), ops)
    computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet, update=gradient, ops=ops)
    for step in range(3):
        computer.accept_input("input", np.ones((3, 4), np.float32))
        counts = [touches(computer.run)]
        computer.accept_input("output", np.ones((3, 3), np.float32))
        counts.append(touches(computer.run))
        assert counts == [0, 0] or step == 0, f"step {step}: {counts}"
    return 1


def check_training() -> int:
    """Besides the input, the supervision and the objective, only numbers that nobody waits for."""
    import test_cuda_training

    from nnet3py import Nnet
    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    text = test_cuda_training.SMALL.replace("max-change=0.001", "max-change=0.001 orthonormal-constraint=-1.0").replace(
        "AffineComponent", "NaturalGradientAffineComponent")
    trainer = NnetTrainer(Nnet.from_config(text, seed=1), TrainerOptions(device="cuda", momentum=0.5))
    test_cuda_training.STEPS = 10
    counts = [touches(lambda eg=eg: trainer.train(eg)) for eg in test_cuda_training.examples(0)]
    assert set(counts[2:]) == {FRAME_LEVEL, CONSTRAINED}, counts
    return 1


def check_chain_training() -> int:
    """The same with numerators and denominator."""
    import test_cuda_training
    from chain_graphs import chain_example, random_graph

    from nnet3py import Nnet
    from nnet3py.chain.den_graph import DenominatorGraph
    from nnet3py.training.chain_trainer import ChainTrainer
    from nnet3py.training.options import ChainOptions, TrainerOptions

    graph, rng = DenominatorGraph(random_graph(np.random.default_rng(1), 4, 5), 5), np.random.default_rng(3)
    trainer = ChainTrainer(Nnet.from_config(test_cuda_training.CHAIN, seed=1), lambda name: graph,
                           TrainerOptions(device="cuda"), ChainOptions(l2_regularize=0.01, xent_regularize=0.25))
    egs = [chain_example(rng, 2, 2, 5, step=1, end_to_end=end_to_end) for end_to_end in (False, True, False, True)]
    counts = [touches(lambda eg=eg: trainer.train(eg)) for eg in egs]
    assert counts[2:] == [CHAIN] * 2, counts
    return 1


def simulate() -> int:
    """Run the checks in the simulator; returns their number."""
    import test_cuda_training

    with test_cuda_training.fewer_threads():
        return check_passes() + check_training() + check_chain_training()


if __name__ == "__main__":
    print(simulate())
