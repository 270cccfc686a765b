"""Training runs on a real GPU, against the CPU's: for ``make test-gpu``, not for machines without one.

Also a program, for compute-sanitizer: ``compute-sanitizer python tests/gpu_runs.py``. In numba's simulator it makes a
few steps only.
"""
from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import test_cuda_chain
import test_cuda_training
from test_cuda_training import LSTM, TDNNF

from nnet3py.ops import device

OBJECTIVE_TOLERANCE = 0.01      # relative, after many steps: rounding differences grow while training
DIMS, CLASSES = 20, 5
SEQUENCES, FRAMES, WIDTH, NARROW = (2, 2, 8, 4) if device.is_simulated() else (16, 12, 64, 24)

WIDE = f"""
input-node name=input dim={DIMS}
component name=a type=NaturalGradientAffineComponent input-dim={3 * DIMS} output-dim={WIDTH} max-change=0.75
component name=r type=RectifiedLinearComponent dim={WIDTH} self-repair-scale=1e-5
component name=b type=BatchNormComponent dim={WIDTH}
component name=l type=TdnnComponent input-dim={WIDTH} output-dim={NARROW} time-offsets=-1,0 use-bias=false \
 orthonormal-constraint=-1.0 max-change=0.75
component name=t type=TdnnComponent input-dim={NARROW} output-dim={WIDTH} time-offsets=0,1 max-change=0.75
component name=d type=GeneralDropoutComponent dim={WIDTH} dropout-proportion=0.2 continuous=true
component name=o type=NaturalGradientAffineComponent input-dim={WIDTH} output-dim={CLASSES} param-stddev=0 bias-stddev=0
component name=s type=LogSoftmaxComponent dim={CLASSES}
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=r component=r input=a
component-node name=b component=b input=r
component-node name=l component=l input=b
component-node name=t component=t input=l
component-node name=d component=d input=Sum(t, Scale(0.66, b))
component-node name=o component=o input=d
component-node name=s component=s input=o
output-node name=output input=s
"""


@pytest.fixture(autouse=True)
def _fewer_threads():
    """In the simulator, which makes a thread of Python's of each."""
    with test_cuda_training.fewer_threads() if device.is_simulated() else nullcontext():
        yield


def number_of_steps() -> int:
    """How long a run is."""
    return 2 if device.is_simulated() else 150


def examples():
    """Minibatches of a task that can be learned: the class is that of the largest of some projections."""
    from nnet3py.egs.example import NnetExample, NnetIo
    from nnet3py.formats.general import SparseMatrix

    rng = np.random.default_rng(7)
    truth = rng.standard_normal((DIMS, CLASSES))
    for _ in range(number_of_steps()):
        inputs, outputs = (np.array([(n, t, 0) for n in range(SEQUENCES) for t in times], np.int32)
                           for times in (range(-3, FRAMES + 3), range(FRAMES)))
        features = rng.standard_normal((SEQUENCES, FRAMES + 6, DIMS)).astype(np.float32)
        labels = (features[:, 3:FRAMES + 3] @ truth).argmax(axis=2).ravel()
        target = SparseMatrix(np.arange(len(labels) + 1), labels, np.ones(len(labels)), CLASSES)
        yield NnetExample([NnetIo("input", inputs, features.reshape(-1, DIMS)), NnetIo("output", outputs, target)])


def objective(name: str) -> float:
    """The average objective of the last phase of a run on a device."""
    from nnet3py import Nnet
    from nnet3py.training.options import TrainerOptions
    from nnet3py.training.trainer import NnetTrainer

    trainer = NnetTrainer(Nnet.from_config(WIDE, seed=1), TrainerOptions(device=name, print_interval=50, srand=2))
    for eg in examples():
        trainer.train(eg)
    trainer.log_totals()
    last = trainer.objectives["output"]
    return last.phase_objective / last.phase_weight


def test_a_run_reaches_the_cpus_objective():
    on_gpu, on_cpu = objective("cuda"), objective("cpu")
    print(f"objective after {number_of_steps()} minibatches: GPU {on_gpu:.5f}, CPU {on_cpu:.5f}")
    assert abs(on_gpu - on_cpu) < OBJECTIVE_TOLERANCE * abs(on_cpu)


def test_small_networks_step_by_step():
    """Natural gradient, dropout, statistics, limits and momentum; the first steps plain, the rest captured."""
    test_cuda_training.STEPS = 3 if device.is_simulated() else 6
    test_cuda_training.compare_training(LSTM, 0)
    test_cuda_training.compare_training(TDNNF, 1)
    test_cuda_training.compare_gradients()


def test_products_by_cublas():
    """cuBLAS against our own kernel, submatrices and transposes; says so if it is not installed."""
    from nnet3py.ops import get_ops
    from nnet3py.ops.cuda import cublas, products

    library, ops = cublas.handle(), get_ops("cuda")
    if library is None:
        print("cuBLAS is not installed: products by our own kernel only")
        return
    rng, cuda = np.random.default_rng(1), device.cuda()
    for trans_a in (False, True):
        for trans_b in (False, True):
            shapes = (70, 130), ((90, 70) if trans_a else (70, 90)), ((130, 90) if trans_b else (90, 130))
            hosts = [rng.standard_normal((rows + 1, cols + 5)).astype(np.float32) for rows, cols in shapes]
            found = []
            for multiply in (library.sgemm, products.tiled):
                dst, a, b = (cuda.to_device(host)[1:, 2:shape[1] + 2]
                             for host, shape in zip(hosts, shapes, strict=True))
                multiply(dst, a, b, 0.5, -2.0, trans_a, trans_b)
                found.append(ops.copy_out(dst))
            np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)     # float32 sums of 90 products, two orders


def test_the_denominator_of_chain_training():
    """Its work space is another on a GPU, so that the CPU's test of it cannot run there."""
    assert test_cuda_chain.check_kernels([((1, 1), (1, 1))] if device.is_simulated() else [None]) > 0


if __name__ == "__main__":
    with test_cuda_training.fewer_threads() if device.is_simulated() else nullcontext():
        for check in (test_products_by_cublas, test_the_denominator_of_chain_training,
                      test_small_networks_step_by_step, test_a_run_reaches_the_cpus_objective):
            check()
            print(f"{check.__name__}: ok")
