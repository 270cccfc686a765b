"""Exported streams are looped computation, chunk by chunk."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from export_cases import (
    GOLDEN,
    NOT_LOOPED,
    SUBSAMPLED,
    all_cases,
    assert_close,
    chain_nnet,
    made_session,
    random_inputs,
    read_case,
    tolerance,
    with_numbers,
)
from random_networks import config, few_waves
from test_looped import CLOCKWORK

import nnet3py
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.export.plain_weights import named_arrays
from nnet3py.network.nnet import Nnet

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from hypothesis import given, settings  # noqa: E402

from nnet3py.export.from_onnx import set_from_onnx  # noqa: E402
from nnet3py.export.onnx_graph import LONG  # noqa: E402
from nnet3py.export.onnx_stream import OnnxStream  # noqa: E402


def clockwork() -> Nnet:
    return with_numbers(Nnet.from_config(CLOCKWORK, seed=1))


def assert_streams(name: str, nnet: Nnet, factor: int, sizes: tuple[int, ...] = (2, 7),
                   skip_dependent: bool = False) -> None:
    """Chunks of any size, and of one size, are looped computation; two streams side by side.

    ``skip_dependent``: leaves fixed chunks out where values depend on where chunks end. The frames before the first are
    chunks there, which looped computation does not have.
    """
    feats, ivectors = random_inputs(nnet, 50, 2)
    running = made_session(nnet, streaming=True, frame_subsampling_factor=factor)
    for size in sizes:
        looped = nnet3py.LoopedComputer(nnet, size * factor, frame_subsampling_factor=factor)
        expected = [looped.compute(x, None if ivectors is None else ivectors[n]) for n, x in enumerate(feats)]
        rows = looped.frames_per_chunk // factor                  # a multiple of what the network repeats itself after
        streams = [OnnxStream(running, rows)]
        if not (skip_dependent and running.get_modelmeta().custom_metadata_map["chunk_dependent"]):
            streams.append(OnnxStream(made_session(nnet, streaming=True, frame_subsampling_factor=factor,
                                                   chunk_outputs=rows, fixed_chunks=True)))
        for stream in streams:
            found = [stream.accept(feats[:, t:t + 9], ivectors) for t in range(0, 50, 9)] + [stream.finish(ivectors)]
            assert_close(np.concatenate([y for y in found if y.size], axis=1), np.stack(expected), tolerance(name))


@pytest.mark.parametrize(("name", "factor"), [("chain", 3), ("clockwork", 1), ("cases/statistics-pooling", 1)])
def test_streams_are_looped_computation(name: str, factor: int) -> None:
    nnet = read_case(name) if "/" in name else {"chain": chain_nnet, "clockwork": clockwork}[name]()
    assert_streams(name, nnet, factor, (3,))


@pytest.mark.slow
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the reference cases are not here")
def test_streams_of_all_reference_cases() -> None:
    for name in all_cases() - NOT_LOOPED:
        for factor in (1, 3) if name in SUBSAMPLED else (1,):
            assert_streams(name, read_case(name), factor)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(config("type=AffineComponent input-dim=2 output-dim=2"))
def test_streams_of_many_random_networks(text: str) -> None:
    """Those that looped computation cannot do are passed over."""
    nnet = with_numbers(Nnet.from_config(text, seed=2))
    with few_waves():
        try:
            for size in (2, 5):
                for feats in random_inputs(nnet, 50, 2)[0]:
                    nnet3py.LoopedComputer(nnet, size).compute(feats)
        except Nnet3Error:
            return
        try:
            assert_streams("random", nnet, 1, (2, 5), skip_dependent=True)
        except Nnet3Error as error:
            is_fixed = "a fixed number" in str(error) and "ReplaceIndex" in text
            others = "it reads both earlier and later frames", "the second choice of its Failover()"
            assert is_fixed or any(other in str(error) for other in others)


@pytest.mark.parametrize("nodes", [
    # the second choice is never read, and must not make others be computed too early
    {"a": "Sum(Round(input, 2), Failover(input, IfDefined(Offset(input, -2))))",
     "output": "Failover(a, IfDefined(Offset(a, 2)))"},
    # what only the next chunk needs can be computed there with a frame more
    {"a": "Sum(Round(input, 2), IfDefined(Offset(b, -3)))", "b": "Sum(Round(input, 2), IfDefined(Round(a, 1)))",
     "c": "Sum(Offset(Round(b, 2), -1), IfDefined(Offset(input, 1)))", "output": "Sum(b, IfDefined(Offset(c, -2)))"},
    # computable at every other time only, and chunks end at the others
    {"a": "Failover(Round(input, 2), input)", "output": "Sum(a, IfDefined(Offset(a, 1)))"},
    # needed at every other time only
    {"a": "Sum(input, IfDefined(Offset(input, 1)))", "b": "Sum(Offset(a, 1), IfDefined(a))", "output": "Switch(b, a)"},
])
def test_what_is_computed_when_it_is_needed(nodes: dict[str, str]) -> None:
    """The value of a node with optional input depends on the frames that there are when it is first needed."""
    lines = ["input-node name=input dim=2"]
    for name, descriptor in nodes.items():
        if name != "output":
            lines += [f"component name={name} type=AffineComponent input-dim=2 output-dim=2",
                      f"component-node name={name} component={name} input={descriptor}"]
    lines.append(f"output-node name=output input={nodes['output']}\n")
    assert_streams("optional", with_numbers(Nnet.from_config("\n".join(lines), seed=2)), 1, (2, 5), skip_dependent=True)


def test_the_time_of_a_long_stream_begins_anew() -> None:
    """Where the network looks at the time; float32 could not hold it for ever."""
    running = made_session(clockwork(), streaming=True, chunk_outputs=6, fixed_chunks=True)
    rng = np.random.default_rng(0)
    given = {each.name: rng.standard_normal((1, *each.shape[1:])).astype(np.float32) for each in running.get_inputs()}
    place = [each.name for each in running.get_outputs()].index("next.stream.time")
    again = LONG + -LONG % 3
    results = [running.run(None, given | {"stream.time": np.full((1, 1, 1), time, np.float32)})
               for time in (again, 2 * again, 3 * again)]
    assert [float(result[place].item()) for result in results] == [again + 6, again + 6, 2 * again + 6]
    np.testing.assert_array_equal(results[0][0], results[2][0])


def test_what_no_stream_can_compute() -> None:
    nnet = Nnet.from_config("""input-node name=input dim=2
output-node name=output input=Sum(input, IfDefined(ReplaceIndex(input, t, 0)))
""")
    with pytest.raises(Nnet3Error, match="a fixed number"):
        graph_of(nnet, ExportOptions(streaming=True))
    with pytest.raises(UsageError, match="--chunk-outputs"):
        graph_of(chain_nnet(), ExportOptions(streaming=True, fixed_chunks=True))
    early = Nnet.from_config("""input-node name=input dim=2
component name=a type=SigmoidComponent dim=2
component-node name=a component=a input=Sum(input, IfDefined(Offset(input, 1)))
output-node name=output input=Failover(Offset(a, -2), a)
""")
    with pytest.raises(Nnet3Error, match="'output': the second choice"):
        graph_of(early, ExportOptions(streaming=True))
    with pytest.raises(UsageError, match="computes blocks of 6 rows of output.*such as 6"):
        graph_of(clockwork(), ExportOptions(streaming=True, chunk_outputs=5))
    backward = Nnet.from_config("""input-node name=input dim=2
component name=a type=SigmoidComponent dim=2
component-node name=a component=a input=Sum(input, IfDefined(Offset(a, 1)))
output-node name=output input=a
""")
    assert graph_of(backward, ExportOptions(streaming=True)).metadata["chunk_dependent"] == "a"
    options = ExportOptions(streaming=True, chunk_outputs=10, frame_subsampling_factor=3)
    metadata = graph_of(chain_nnet(), options).metadata
    assert (metadata["chunk_shift"], metadata["chunk_length"]) == ("30", "36")


def test_the_weights_of_a_stream_come_back(tmp_path: Path) -> None:
    nnet = clockwork()
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", streaming=True, collapse=False)
    assert set_from_onnx(nnet, tmp_path / "a.onnx") == []
    other = clockwork()
    other.scale(0.5)
    assert set_from_onnx(other, tmp_path / "a.onnx")
    for name, array in named_arrays(other).items():
        np.testing.assert_array_equal(array, named_arrays(nnet)[name])


FEED_FORWARD = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=2 output-dim=3
component-node name=a component=a input=input
output-node name=output input=a
"""


@pytest.mark.parametrize(("text", "factor"), [(CLOCKWORK, 1), (FEED_FORWARD, 1), (FEED_FORWARD, 3)])
def test_a_stream_from_a_file_of_plain_matrices(text: str, factor: int, tmp_path: Path) -> None:
    """Without an axis of sequences, as LoopedStream has it; also of networks that carry nothing from chunk to chunk."""
    nnet = Nnet.from_config(text, seed=1)
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", streaming=True, frame_subsampling_factor=factor)
    stream, feats = OnnxStream(tmp_path / "a.onnx", 6), random_inputs(nnet, 50, 1)[0][0]
    rows = [stream.accept(feats[:0]), *(stream.accept(feats[t:t + 9]) for t in range(0, 50, 9)), stream.finish()]
    looped = nnet3py.LoopedComputer(nnet, 6 * factor, frame_subsampling_factor=factor)
    assert all(each.ndim == 2 for each in rows) and repr(stream).endswith("ended>")
    assert_close(np.concatenate(rows), looped.compute(feats), 1e-4)
    with pytest.raises(Nnet3Error, match="finished"):
        stream.accept(feats)


def test_what_streams_refuse(tmp_path: Path) -> None:
    nnet = Nnet.from_config(FEED_FORWARD, seed=1)
    nnet3py.export_onnx(nnet, tmp_path / "whole.onnx")
    with pytest.raises(UsageError, match="was not exported for streams.*streaming=True"):
        OnnxStream(tmp_path / "whole.onnx")
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", streaming=True)
    stream = OnnxStream(tmp_path / "a.onnx")
    for wrong in (np.ones((5, 3)), np.ones(2), np.ones((1, 5, 3))):
        with pytest.raises(ShapeError, match=r"expected features \(frames, 2\)"):
            stream.accept(wrong)
    stream.accept(np.ones((2, 5, 2)))
    with pytest.raises(ShapeError, match=r"expected features \(2, frames, 2\) of 2 streams"):
        stream.accept(np.ones((3, 5, 2)))
    assert OnnxStream(tmp_path / "a.onnx").finish().shape == (0, 0, 3)
