"""Captured and replayed launches without a GPU: a stand-in for the driver records kernels of the simulator.

What is recorded is what a driver would record: which kernel, with which arrays and numbers. So a number that should
have changed since, or the host's share that was left out, shows as a difference from the CPU. See
tests/cuda_checks.py: run as a program, in a process of its own, this file makes the comparisons.
"""
from __future__ import annotations

import numpy as np
from cuda_checks import check_in_simulator

STEPS = 4             # two plain ones, then graphs


def test_in_the_simulator():
    check_in_simulator(__file__, 5)


class Recorder:
    """The driver's functions for graphs: between begin and end of a capture, launches are kept instead of run."""

    def __init__(self, refusing: str = "") -> None:
        self.refusing = refusing
        self.graphs: dict[int, list] = {}
        self.num_launched = 0
        self.destroyed: list[int] = []
        self._recording: list | None = None

    def begin(self) -> None:
        """Let kernels ask whether they are recorded."""
        from nnet3py.ops.cuda.launch import Kernel

        launch, recorder = Kernel.launch, self

        def recorded(kernel, shape, *args):
            if recorder._recording is None:
                launch(kernel, shape, *args)
            else:
                recorder._recording.append((kernel, shape, kernel._on_device(args)))

        Kernel.launch, self._launch = recorded, launch

    def end(self) -> None:
        """Kernels run as before."""
        from nnet3py.ops.cuda.launch import Kernel

        Kernel.launch = self._launch

    def _status(self, name: str) -> int:
        return 901 if name == self.refusing else 0

    def cuStreamBeginCapture_v2(self, stream, mode):
        if not self._status("begin"):
            self._recording = []
        return self._status("begin")

    def cuStreamEndCapture(self, stream, graph):
        number = 100 + len(self.graphs)
        self.graphs[number], self._recording = self._recording, None
        graph._obj.value = number
        return self._status("end")

    def cuGraphInstantiateWithFlags(self, executable, graph, flags):
        executable._obj.value = graph.value
        return self._status("make")

    def cuGraphGetNodes(self, graph, nodes, count):
        count._obj.value = len(self.graphs[graph.value])
        return 0

    def cuGraphLaunch(self, executable, stream):
        self.num_launched += 1
        for kernel, shape, args in self.graphs[executable.value]:
            self._launch(kernel, shape, *args)
        return self._status("launch")

    def cuGraphDestroy(self, graph):
        self.destroyed.append(graph.value)
        return 0

    def cuGraphExecDestroy(self, executable):
        return 0


def check_training(text: str, least_graphs: int, most_graphs: int, others: int) -> int:
    """Train with graphs and on the CPU alike, and look at how many graphs that took."""
    import test_cuda_training

    from nnet3py.ops.cuda import graphs
    from nnet3py.runtime import computer

    recorder, runners = Recorder(), []
    run = computer.Stage.run

    def watched(stage):
        runners.append(stage.runner)
        run(stage)

    graphs.driver = lambda: recorder
    computer.Stage.run = watched
    recorder.begin()
    try:
        test_cuda_training.STEPS = STEPS
        test_cuda_training.compare_training(text, 1)
    finally:
        recorder.end()
        computer.Stage.run = run
    on_gpu = [runner for runner in dict.fromkeys(runners) if runner is not None]
    pieces = [piece for runner in on_gpu for piece in runner.pieces]
    num_graphs = sum(piece.graph is not None for piece in pieces)
    assert least_graphs <= num_graphs <= most_graphs
    assert sum(len(piece.calls) for piece in pieces if piece.graph is None) == others
    assert recorder.num_launched >= (STEPS - 2 - 1) * num_graphs
    captured = [kernel.__name__ for graph in recorder.graphs.values() for kernel, _, _ in graph]
    assert captured.count("limit_changes") == 1, "the update is a graph, too"
    assert sorted(recorder.destroyed) == sorted(recorder.graphs), "what was instantiated is no longer needed"
    return 1


def check_changed_settings() -> int:
    """A graph that holds an old learning rate or an old place of scratch space is not used again."""
    import test_cuda_training

    import nnet3py
    from nnet3py.ops import get_ops
    from nnet3py.ops.cuda import graphs
    from nnet3py.runtime.parameter_store import on_device

    nnet = nnet3py.Nnet.from_config(test_cuda_training.SMALL, seed=1)
    indexes = np.array([(n, 0, 0) for n in range(3)], np.int32)
    request = nnet3py.ComputationRequest(
        inputs=[nnet3py.IoSpecification("input", indexes)],
        outputs=[nnet3py.IoSpecification("output", indexes, has_deriv=True)], need_model_derivative=True)
    recorder, ops = Recorder(), get_ops("cuda")
    graphs.driver = lambda: recorder
    recorder.begin()
    try:
        change = nnet.copy()
        change.scale(0.0)
        store = on_device(change, ops)
        computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet, update=store, device="cuda")
        steps = []
        for step in range(9):
            if step == 5:
                change.component("a").learning_rate *= 2.0
            if step == 7:
                ops.scratch(100, 100)
                ops.reset_scratch()
            computer.accept_input("input", np.ones((3, 4), np.float32))
            computer.run()
            computer.accept_input("output", np.ones((3, 3), np.float32))
            computer.run()
            before = change.component("a").linear_params.copy()
            store.pull()
            steps.append((change.component("a").linear_params - before).max())
            assert len(recorder.graphs) == [0, 0, 2, 2, 2, 3, 4, 4, 4][step] or step > 4, step
        np.testing.assert_allclose(steps, [steps[0]] * 5 + [2 * steps[0]] * 4, rtol=1e-4)
        assert len(recorder.graphs) == 6, "both stages again after each change that both see"
    finally:
        recorder.end()
    return 1


NATURAL = """
input-node name=input dim=4
component name=a type=NaturalGradientAffineComponent input-dim=4 output-dim=3 learning-rate=0.1 max-change=0.001 \
 update-period=4 rank-in=2 rank-out=2
component name=s type=LogSoftmaxComponent dim=3
component-node name=a component=a input=input
component-node name=s component=s input=a
output-node name=output input=s
"""


def check_learning_now_and_then() -> int:
    """Natural gradient learns in every fourth minibatch in the end: a graph for those, and one for the others."""
    import test_cuda_training

    from nnet3py.ops.cuda import graphs, memory
    from nnet3py.training.trainer import MinibatchTrainer

    recorder, num_graphs, touches = Recorder(), [], []
    graphs.driver = lambda: recorder
    run = MinibatchTrainer._run_step

    def watched(trainer, computer, *args):
        stage_run = computer.run

        def counted():
            before = memory.host_touches()
            stage_run()
            touches.append(memory.host_touches() - before)

        computer.run = counted
        run(trainer, computer, *args)
        del computer.run
        num_graphs.append(len(recorder.graphs))

    MinibatchTrainer._run_step = watched
    recorder.begin()
    try:
        test_cuda_training.STEPS = 20
        test_cuda_training.compare_training(NATURAL, 0)
    finally:
        recorder.end()
        MinibatchTrainer._run_step = run
    # The update in the second minibatch, both stages in the third; from the twelfth (t = 11) on some do not learn.
    captured = [before != after for before, after in zip([0, *num_graphs], num_graphs[:20], strict=False)]
    assert [step for step, one in enumerate(captured) if one] == [1, 2, 12] and num_graphs[19] == 4, num_graphs
    on_gpu = touches[:40]
    assert max(on_gpu[2:]) == 0 < on_gpu[1], touches
    return 1


def check_refusals() -> int:
    """A driver that refuses to capture: plain launches, the same results, one line."""
    import logging

    import test_cuda_training

    from nnet3py.ops.cuda import graphs
    from nnet3py.runtime import stage_runners

    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    stage_runners.logger.addHandler(handler)
    for refusing in ("begin", "end", "make"):
        recorder = Recorder(refusing)
        graphs.driver = lambda recorder=recorder: recorder
        recorder.begin()
        try:
            test_cuda_training.STEPS = 4
            test_cuda_training.compare_training(test_cuda_training.SMALL, 0)
        finally:
            recorder.end()
        assert recorder.num_launched == 0
    assert len(lines) == 1 and "901" in lines[0], lines
    return 1


def simulate() -> int:
    """Run the checks in the simulator; returns their number."""
    import test_cuda_training

    from nnet3py.ops.cuda import memory

    memory.stream_handle = lambda: 7
    plain = test_cuda_training.TDNNF.replace("NaturalGradientAffine", "Affine").replace(
        "use-bias=false", "use-bias=false use-natural-gradient=false")
    with test_cuda_training.fewer_threads():
        return (check_changed_settings() + check_refusals() + check_training(plain, 2, 2, 0)
                + check_training(test_cuda_training.TDNNF, 2, 2, 0) + check_learning_now_and_then())


if __name__ == "__main__":
    print(simulate())
