"""What smaller numbers in an ONNX file cost: accuracy, words and time, for a model folder and sounds.

    python benchmarks/quantized.py MODEL SOUND [SOUND ...] [--runs=9] [--speeds=1]

MODEL is a folder as nnet3py.Recognizer takes it, and sounds are files that it reads. The kinds of
``nnet3py export --quantize``, and below them what onnxruntime's own tool makes of the same file: products of integers,
with values that are rounded to 8 bits as they come (quantize_dynamic). Size, and how long onnxruntime takes for all
sounds by one thread, are relative to float32; the time is the median of runs in turns. Rows are frames of output: how
many have the same best column, and the root mean square of the difference, relative to the standard deviation of the
outputs. Words are those of the best path through the model's graph, each sound being one utterance whose frames all
have the i-vector of the whole.
"""
from __future__ import annotations

import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import nnet3py
from nnet3py.acoustic_model import read_model
from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.word_errors import edit_distance
from nnet3py.export.export_onnx import export_onnx
from nnet3py.export.onnx_stream import session, utterance_output
from nnet3py.export.quantize import KINDS, Loss, loss_of_rows, quantize, utterances_for
from nnet3py.option_fields import with_values
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.recognizer import acoustic_scale, read_decoding_graph
from nnet3py.recognition.sound import open_sound

DYNAMIC = "onnxruntime dynamic"
Outputs = list[np.ndarray]


def at_speeds(path: str, speeds: list[float]) -> list[tuple[np.ndarray, int]]:
    """A sound at several speeds, float32 (samples,), and how many there are a second."""
    sound = open_sound(path)
    samples = np.concatenate(list(sound.blocks()))
    return [(samples, round(speed * sound.rate)) for speed in speeds]


def searching(folder: ModelFolder) -> Callable[[Outputs], list[list[int]]]:
    """What finds the words of outputs."""
    model = read_model(folder.model)
    graph, scale = read_decoding_graph(folder, model.transition_model), acoustic_scale(folder, model)
    options = with_values(DecoderOptions(), folder.options)

    def words(outputs: Outputs) -> list[list[int]]:
        sentences = []
        for rows in outputs:
            decoder = LatticeDecoder(graph, options)
            decoder.advance(scale * rows)
            path = decoder.best_path()
            sentences.append([] if path is None else path.words.tolist())
        return sentences

    return words


def computed(running: Any, inputs: list[dict[str, np.ndarray]]) -> Outputs:
    """The outputs of utterances, (rows, columns) each."""
    return [utterance_output(running, given)[0] for given in inputs]


def line(name: str, loss: Loss, words: list[list[int]], expected: list[list[int]], seconds: float, exact: float) -> str:
    """A line of the table."""
    changed = sum(edit_distance(first, second).total for first, second in zip(expected, words, strict=True))
    count = sum(map(len, expected))
    return (f"{name:20}{loss.bytes_after / loss.bytes_before:6.3f}{100 * loss.same_best:9.2f} %"
            f"{100 * loss.relative:9.3f} %{changed:7} of {count}{seconds / exact:7.2f}")


@click.command()
@click.argument("model")
@click.argument("sounds", nargs=-1, required=True)
@click.option("--runs", default=9, show_default=True, help="Runs of each, in turns, after one that is not counted.")
@click.option("--speeds", default="1", show_default=True, help="Each sound is taken at each of these: 0.9,1,1.1")
def main(model: str, sounds: tuple[str, ...], runs: int, speeds: str) -> None:
    """Print the table."""
    from onnxruntime.quantization import quantize_dynamic

    front_end, model_folder = nnet3py.front_end(model), read_model_folder(model)
    utterances = [tuple(front_end(*each)) for sound in sounds
                  for each in at_speeds(sound, list(map(float, speeds.split(","))))]
    words = searching(model_folder)
    priors = read_model(model_folder.model).priors
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {"float32": folder / "float32.onnx"}
        export_onnx(model_folder.model, files["float32"], use_priors=len(priors) > 0,
                    frame_subsampling_factor=model_folder.options.get("frame-subsampling-factor", 1))
        inputs = utterances_for(session(str(files["float32"])).get_inputs(), utterances)
        for kind in KINDS:
            files[kind] = folder / f"{kind}.onnx"
            quantize(files["float32"], files[kind], kind, inputs)
        files[DYNAMIC] = folder / "dynamic.onnx"
        logging.disable(logging.WARNING)                           # that the file should be prepared with another tool
        quantize_dynamic(files["float32"], files[DYNAMIC], per_channel=True)
        running = {name: session(str(path)) for name, path in files.items()}
        outputs = {name: computed(each, inputs) for name, each in running.items()}
        times: dict[str, list[float]] = {name: [] for name in files}
        for _ in range(runs):
            for name, each in running.items():
                start = time.perf_counter()
                computed(each, inputs)
                times[name].append(time.perf_counter() - start)
        sizes = {name: os.path.getsize(path) for name, path in files.items()}
    exact = np.concatenate(outputs["float32"])
    expected = words(outputs["float32"])
    print(f"{len(inputs)} sounds, {len(exact)} rows; float32: {sizes['float32']} bytes, "
          f"{1000 * statistics.median(times['float32']):.0f} ms")
    print(f"{'':20}{'size':>6}{'same best':>11}{'difference':>11}{'words':>10}{'time':>9}")
    for name, rounded in outputs.items():
        loss = loss_of_rows(exact, np.concatenate(rounded))._replace(
            bytes_before=sizes["float32"], bytes_after=sizes[name])
        print(line(name, loss, words(rounded), expected, statistics.median(times[name]),
                   statistics.median(times["float32"])))


if __name__ == "__main__":
    main()
