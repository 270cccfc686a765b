"""Lets tests that compute whole networks do it on the GPU: a pytest plugin that gives the GPU to who asks for the CPU.

``pytest -p gpu_device tests/test_computer.py`` runs them there; with ``NUMBA_ENABLE_CUDASIM=1`` in numba's simulator.
What a trainer has changed is brought to the host after each minibatch, since tests look at it.
"""
from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock

import nnet3py.ops
from nnet3py.ops import device

# what holds on the CPU only: numpy's very bits, a trainer's arrays changed on the host, operations on the host's arrays
ON_THE_HOST = {"test_the_orthonormal_constraint_is_drawn_for_each_minibatch", "test_a_refused_change_is_forgotten",
               "test_a_step", "test_what_was_prepared_is_remembered"}
# what the simulator cannot do: kernels of several threads at a time
ON_A_CARD = {"test_threads_compute_the_same_network"}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave those tests out."""
    left_out = ON_THE_HOST | ON_A_CARD if device.is_simulated() else ON_THE_HOST
    items[:] = [item for item in items if getattr(item, "originalname", item.name) not in left_out]


def simulate_quickly() -> contextlib.ExitStack:
    """Let the simulator, which makes a Python thread for each of a kernel, have one at a time until this is closed.

    Products are computed by a stand-in for cuBLAS. Our own kernel for them has its tests with the operations.
    """
    import simulator_turns
    from cublas_on_the_host import CublasOnTheHost

    from nnet3py.ops.cuda import cublas, launch, memory
    simulator_turns.install()
    library = cublas.Cublas(CublasOnTheHost(), None, memory.new_array(1))
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(cublas, "handle", lambda: library))
    stack.enter_context(launch.forced_launch((1, 1), (1, 1)))
    return stack


def pytest_configure(config: Any) -> None:
    """Whoever asks for the operations of the CPU gets those of the GPU."""
    get_ops = nnet3py.ops.get_ops
    nnet3py.ops.get_ops = lambda name="cpu": get_ops("cuda")      # type: ignore[assignment]
    from nnet3py.training.trainer import MinibatchTrainer  # after that, for it takes the function by name

    train = MinibatchTrainer.train

    def train_and_show(trainer: MinibatchTrainer, eg: Any) -> None:
        train(trainer, eg)
        trainer.synchronize()

    MinibatchTrainer.train = train_and_show      # type: ignore[method-assign]
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")   # the simulator's arithmetic is numpy's
    if device.is_simulated():
        config.stack = simulate_quickly()
