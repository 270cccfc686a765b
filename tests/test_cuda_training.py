"""Networks trained and computed on a GPU without one: in numba's simulator, against the CPU.

See tests/cuda_checks.py: run as a program, in a process of its own, this file trains each network on both devices.
"""
from __future__ import annotations

import warnings
from contextlib import contextmanager

import numpy as np
from cuda_checks import check_in_simulator

TOLERANCE = 2e-4      # float32 sums in another order, through some steps of training
STEPS = 2

TDNNF = """
input-node name=input dim=4
component name=l type=TdnnComponent input-dim=4 output-dim=3 time-offsets=-1,0 use-bias=false \
 orthonormal-constraint=-1.0 max-change=0.75 l2-regularize=0.01 learning-rate=0.01
component name=a type=NaturalGradientAffineComponent input-dim=3 output-dim=6 max-change=0.001 learning-rate=0.01
component name=r type=RectifiedLinearComponent dim=6 self-repair-scale=1e-3
component name=b type=BatchNormComponent dim=6
component name=d type=GeneralDropoutComponent dim=6 dropout-proportion=0.3 continuous=true
component name=o type=NaturalGradientAffineComponent input-dim=6 output-dim=3 learning-rate=0.01
component name=s type=LogSoftmaxComponent dim=3
component-node name=l component=l input=input
component-node name=a component=a input=l
component-node name=r component=r input=a
component-node name=b component=b input=r
component-node name=d component=d input=b
component-node name=o component=o input=Sum(d, Scale(0.5, r))
component-node name=s component=s input=o
output-node name=output input=s
"""

LSTM = """
input-node name=input dim=4
component name=g type=NaturalGradientAffineComponent input-dim=7 output-dim=12 max-change=0.001 learning-rate=0.01
component name=c type=LstmNonlinearityComponent cell-dim=3 learning-rate=0.01
component name=t type=BackpropTruncationComponent dim=3 clipping-threshold=0.5 zeroing-interval=2 \
 zeroing-threshold=0.1 recurrence-interval=1
component name=o type=AffineComponent input-dim=3 output-dim=3 learning-rate=0.01
component name=s type=LogSoftmaxComponent dim=3
component-node name=g component=g input=Append(input, IfDefined(Offset(m, -1)))
component-node name=c component=c input=Append(g, IfDefined(Offset(t, -1)))
dim-range-node name=cell input-node=c dim-offset=0 dim=3
dim-range-node name=m input-node=c dim-offset=3 dim=3
component-node name=t component=t input=cell
component-node name=o component=o input=m
component-node name=s component=s input=o
output-node name=output input=s
"""

SMALL = """
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim=3 learning-rate=0.01 max-change=0.001
component name=s type=LogSoftmaxComponent dim=3
component-node name=a component=a input=input
component-node name=s component=s input=a
output-node name=output input=s
"""


def test_in_the_simulator():
    check_in_simulator(__file__, 9)


def examples(context: int):
    """Minibatches of two sequences."""
    from nnet3py.egs.example import NnetExample, NnetIo
    from nnet3py.formats.general import SparseMatrix

    rng = np.random.default_rng(5)
    for _ in range(STEPS):
        inputs = np.array([(n, t, 0) for n in range(2) for t in range(-context, 3)], np.int32)
        outputs = np.array([(n, t, 0) for n in range(2) for t in range(3)], np.int32)
        rows = [[(int(rng.integers(0, 3)), 1.0)] for _ in range(len(outputs))]
        yield NnetExample([NnetIo("input", inputs, rng.standard_normal((len(inputs), 4)).astype(np.float32)),
                           NnetIo("output", outputs, SparseMatrix.from_rows(rows, 3))])


def trained(text: str, context: int, device: str):
    """A network after some minibatches, what was changed in it, and its objective."""
    from nnet3py import Nnet
    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    nnet = Nnet.from_config(text, seed=1)
    trainer = NnetTrainer(nnet, TrainerOptions(device=device, momentum=0.5, max_param_change=0.4, srand=3))
    for eg in examples(context):
        trainer.train(eg)
    trainer.log_totals()
    return nnet, trainer


def compare_training(text: str, context: int) -> int:
    """Parameters, statistics and objectives after training on either device."""
    (mine, on_gpu), (wanted, on_cpu) = (trained(text, context, device) for device in ("cuda", "cpu"))
    for name, component, other in zip(mine.component_names, mine.components, wanted.components, strict=True):
        for attribute in (*component.PARAMETERS, *component.STATISTICS):
            given, expected = getattr(component, attribute), getattr(other, attribute)
            if given is not None:
                np.testing.assert_allclose(given, expected, rtol=TOLERANCE, atol=TOLERANCE,
                                           err_msg=f"{name}.{attribute}")
        if hasattr(component, "stored"):
            np.testing.assert_array_equal(component.stored, other.stored, name)
    stats, others = on_gpu.objectives["output"], on_cpu.objectives["output"]
    assert abs(stats.total_objective - others.total_objective) < TOLERANCE * abs(others.total_objective)
    assert on_gpu.max_change_stats == on_cpu.max_change_stats and on_cpu.max_change_stats.num_per_component
    return 1


CHAIN = """
input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=3 output-dim=5 learning-rate=0.1
component name=x type=AffineComponent input-dim=3 output-dim=5 learning-rate=0.1 max-change=0.01
component name=l type=LogSoftmaxComponent dim=5
component-node name=a component=a input=input
component-node name=x component=x input=input
component-node name=l component=l input=x
output-node name=output input=a objective=linear
output-node name=output-xent input=l objective=linear
"""


def compare_chain_training(end_to_end: bool) -> int:
    """LF-MMI with its companion output, l2 of the output and a penalty on its range."""
    from chain_graphs import chain_example, random_graph

    from nnet3py import Nnet
    from nnet3py.chain.den_graph import DenominatorGraph
    from nnet3py.training.chain_trainer import ChainTrainer
    from nnet3py.training.options import ChainOptions, TrainerOptions

    graph = DenominatorGraph(random_graph(np.random.default_rng(1), 6, 5), 5)
    options = ChainOptions(l2_regularize=0.01, out_of_range_regularize=0.01, xent_regularize=0.25)
    found = []
    for device in ("cuda", "cpu"):
        nnet, rng = Nnet.from_config(CHAIN, seed=1), np.random.default_rng(3)
        trainer = ChainTrainer(nnet, lambda name: graph, TrainerOptions(device=device), options)
        for _ in range(STEPS):
            trainer.train(chain_example(rng, 2, 4, 5, step=1, weight=0.5, end_to_end=end_to_end))
        trainer.log_totals()
        found.append([nnet.component(name).parameters() for name in "ax"]
                     + [{name: np.array([stats.total_objective, stats.total_aux])
                         for name, stats in trainer.objectives.items()}])
    for mine, wanted in zip(*found, strict=True):
        assert mine.keys() == wanted.keys()
        for name in wanted:
            np.testing.assert_allclose(mine[name], wanted[name], rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
    return 1


def compare_gradients() -> int:
    """A computer given networks on the host leaves its results there, and takes new ones from there."""
    import nnet3py

    nnet = nnet3py.Nnet.from_config(LSTM, seed=1)
    eg = next(examples(0))
    inputs, outputs = eg.io[0].indexes, eg.io[1].indexes
    request = nnet3py.ComputationRequest(
        inputs=[nnet3py.IoSpecification("input", inputs, has_deriv=True)],
        outputs=[nnet3py.IoSpecification("output", outputs, has_deriv=True)],
        need_model_derivative=True, store_component_stats=True)
    computation = nnet3py.compile(nnet, request)
    found = []
    for device in ("cuda", "cpu"):
        gradient = nnet.as_gradient()
        computer = nnet3py.Computer(computation, nnet, update=gradient, device=device)
        computer.accept_input("input", eg.io[0].features)
        computer.run()
        output = computer.output("output")
        computer.accept_input("output", np.ones_like(output) * np.arange(3, dtype=np.float32))
        computer.run()
        found.append([output, computer.output("input"), *(value for component in gradient.components
                                                          for value in component.parameters().values())])
    for mine, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    assert all(np.abs(value).max() > 0 for value in found[0])
    return 1


COMPOSITE = """
input-node name=input dim=4
component name=c type=CompositeComponent num-components=3 component1='type=NaturalGradientAffineComponent input-dim=4 \
 output-dim=3' component2='type=RectifiedLinearComponent dim=3' component3='type=BatchNormComponent dim=3'
component name=d type=GeneralDropoutComponent dim=3 dropout-proportion=0.4
component name=s type=LogSoftmaxComponent dim=3
component-node name=c component=c input=input
component-node name=d component=d input=c
component-node name=s component=s input=d
output-node name=output input=s
"""


def compare_changed_settings() -> int:
    """What is set on the host between minibatches holds in the next, inside a composite, too."""
    from nnet3py import Nnet
    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    found = []
    for device in ("cuda", "cpu"):
        nnet = Nnet.from_config(COMPOSITE, seed=1)
        trainer, given = NnetTrainer(nnet, TrainerOptions(device=device)), []
        for eg, rate, proportion in zip(examples(0), (0.1, 0.2), (0.4, 0.7), strict=True):
            trainer.delta.component("c").set_underlying_learning_rate(rate)
            nnet.component("d").dropout_proportion = proportion
            trainer.train(eg)
            trainer.synchronize()
            given += [value.copy() for value in nnet.component("c").parameters().values()]
        found.append(given)
    for mine, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    return 1


def compare_freezing() -> int:
    """A component that is frozen between minibatches stays as it is, whatever momentum holds; the others go on."""
    import nnet3py
    from nnet3py import Nnet
    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    nnet = Nnet.from_config(COMPOSITE, seed=1)
    trainer = NnetTrainer(nnet, TrainerOptions(device="cuda", momentum=0.5))
    values = []
    for eg, change in zip((*examples(0), *examples(0)), (None, nnet3py.freeze, nnet3py.unfreeze), strict=False):
        if change is not None:
            change(nnet, "c")
        trainer.train(eg)
        trainer.synchronize()
        values.append(nnet.component("c").vectorize())
    np.testing.assert_array_equal(values[0], values[1])
    assert not np.array_equal(values[1], values[2])
    return 1


def compare_losses() -> int:
    """Losses and derivatives of one's own, and a training that goes on from its state."""
    import nnet3py

    rng = np.random.default_rng(3)
    feats, target = rng.standard_normal((2, 2, 3, 4)).astype(np.float32), rng.standard_normal((2, 3, 3))
    text = SMALL.replace("AffineComponent", "NaturalGradientAffineComponent")

    def loss(output, wanted):
        return float((np.abs(output - wanted) ** 3).mean()), 3 * np.sign(output - wanted) * (output - wanted) ** 2 / 18

    def steps(device: str):
        values = []
        trainer = nnet3py.Trainer(nnet3py.Nnet.from_config(text, seed=1), loss=loss, momentum=0.5, device=device)
        values.append(trainer.step(feats[0], target))
        state = trainer.state_dict()
        trainer = nnet3py.Trainer(nnet3py.Nnet.from_config(text, seed=2), loss=loss, momentum=0.5, device=device)
        trainer.load_state_dict(state)
        for each in feats:
            values.append(trainer.step(each, target))
            output = trainer.forward(each)
            values.append(float(output.sum()))
            trainer.backward(loss(output, target)[1])
        return trainer.nnet["a"].vectorize(), values

    (mine, values), (wanted, expected) = steps("cuda"), steps("cpu")
    np.testing.assert_allclose(mine, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(values, expected, rtol=TOLERANCE)
    return 1


@contextmanager
def fewer_threads():
    """One thread a kernel: the simulator makes a thread of Python's of each."""
    from nnet3py.ops.cuda import launch, products

    products._tiled = products.tiled_product(1, 8, 8)
    with launch.forced_launch((1, 1), (1, 1)):
        yield


def compare_divergence() -> int:
    """Numbers too large to square: both devices say in which component, and the model stays as it was."""
    from nnet3py import Nnet
    from nnet3py.errors import NumericError
    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    text = SMALL.replace("AffineComponent", "NaturalGradientAffineComponent")
    for device in ("cuda", "cpu"):
        nnet = Nnet.from_config(text, seed=1)
        before = nnet.component("a").linear_params.copy()
        trainer = NnetTrainer(nnet, TrainerOptions(device=device))
        eg = next(examples(0))
        eg.io[0].features[...] = 1e25
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)     # the simulator's numbers are numpy's
                trainer.train(eg)
                trainer.log_totals()
            raise AssertionError(device)
        except NumericError as error:
            assert "component a: natural gradient was given NaN or infinity" in str(error), error
        np.testing.assert_array_equal(nnet.component("a").linear_params, before)
    return 1


def simulate() -> int:
    """Train and compute on both devices; returns the number of comparisons."""
    with fewer_threads():
        return (compare_gradients() + compare_changed_settings() + compare_freezing() + compare_divergence()
                + compare_losses() + compare_training(LSTM, 0) + compare_training(TDNNF, 1)
                + sum(compare_chain_training(end_to_end) for end_to_end in (False, True)))


if __name__ == "__main__":
    print(simulate())
