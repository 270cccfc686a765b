"""A program of somebody who checks types: one call or more of all that Python programs use. Runs in an empty folder.

``test_types.py`` runs it, and has mypy check it strictly.
"""
from __future__ import annotations

import importlib.resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import nnet3py
from nnet3py import chain, feat, ivectors, lattices

CONFIG = """
input-node name=input dim=3
component name=affine1 type=NaturalGradientAffineComponent input-dim=9 output-dim=8
component name=relu1 type=RectifiedLinearComponent dim=8
component name=affine2 type=NaturalGradientAffineComponent input-dim=8 output-dim=4
component name=log-softmax type=LogSoftmaxComponent dim=4
component-node name=affine1 component=affine1 input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=relu1 component=relu1 input=affine1
component-node name=affine2 component=affine2 input=relu1
component-node name=log-softmax component=log-softmax input=affine2
output-node name=output input=log-softmax
"""
Floats = NDArray[np.float32]
rng = np.random.default_rng(0)


def networks() -> nnet3py.Nnet:
    """Made, looked at, edited, written, read."""
    nnet = nnet3py.Nnet.from_config(CONFIG, seed=1)
    nnet.write("final.raw")
    again = nnet3py.read_nnet(Path("final.raw"))
    same: bool = again == nnet and nnet3py.compare(again, "final.raw").same
    names: list[str] = nnet3py.freeze(nnet, "affine1") + nnet3py.unfreeze(nnet, ["affine*"])
    nnet3py.set_learning_rate(nnet, 0.01, "affine*")
    nnet3py.set_batchnorm_test_mode(nnet, False)
    nnet3py.set_dropout_test_mode(nnet, False)
    nnet3py.apply_edits(nnet, "set-learning-rate-factor name=affine* learning-rate-factor=1")
    weights: Floats = nnet["affine1"].parameters()["linear_params"]
    nnet.set_parameters("affine2", {"bias_params": np.zeros(4)})
    text: str = nnet3py.info(nnet) + str(nnet3py.summary(nnet)) + nnet.summary().headline
    facts = nnet3py.inspect("final.raw")
    print(same, names, weights.shape, len(text), facts.computing.is_ready, facts.as_dict()["path"])
    print(nnet3py.for_inference(nnet).component_names, [name for name in nnet], "affine1" in nnet)
    return nnet


def computing(nnet: nnet3py.Nnet) -> None:
    """Of one array and of several, of one node and of several; streams; requests."""
    feats = rng.standard_normal((30, 3)).astype(np.float32)
    one: Floats = nnet(feats)
    by_node: dict[str, Floats] = nnet(feats, output=["relu1", "output"], frames_per_chunk=20)
    several: list[Floats] = nnet3py.compute("final.raw", [feats, feats[:7]], progress=True)
    by_name: dict[str, Floats] = nnet3py.compute(nnet, {"a": feats, "b": feats[:7]}, output="relu1")
    of_both: dict[str, dict[str, Floats]] = nnet({"a": feats}, output=("relu1", "output"))
    print(one.shape, sorted(by_node), [each.shape for each in several], sorted(by_name), sorted(of_both["a"]))
    options = nnet3py.ComputeOptions(frames_per_chunk=20)
    whole: Floats = nnet3py.UtteranceComputer(nnet, options).compute(feats)
    looped = nnet3py.LoopedComputer(nnet, 10)
    stream: nnet3py.LoopedStream = looped.stream()
    rows: list[Floats] = [stream.accept(feats[:12]), stream.accept(feats[12:]), stream.finish()]
    print(whole.shape, sum(map(len, rows)), stream.num_frames)
    io = nnet3py.IoSpecification
    request = nnet3py.ComputationRequest([io.frames("input", 1, -1, 6)], [io.frames("output", 1, 0, 5)])
    computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet)
    computer.accept_input("input", feats[:7])
    computer.run()
    values: Floats = computer.output("output")
    print(values.shape)


def squares(output: Floats, target: NDArray[np.float32]) -> tuple[float, np.ndarray]:
    """A loss: its value and its derivative."""
    difference = output - target
    return float((difference ** 2).mean()), 2 * difference / difference.size


def training(nnet: nnet3py.Nnet) -> None:
    """Gradients, data in several forms, what happens after each pass."""
    feats = rng.standard_normal((40, 3)).astype(np.float32)
    classes = (feats[:, 0] > 0).astype(int)
    dx, parameters = nnet3py.gradients(nnet, feats, targets=classes)
    found: nnet3py.Gradients = nnet3py.gradients(nnet, feats, loss=lambda y: (float((y ** 2).sum()), 2 * y))
    print(dx.shape, parameters["affine2"].parameters()["bias_params"].shape, found.value > 0)

    def enough(progress: object) -> bool:
        return False

    history = nnet3py.train(nnet, feats, classes, num_epochs=2, learning_rate=0.01, validation=(feats, classes),
                            callbacks=[enough], options=nnet3py.TrainerOptions(srand=1))
    nnet3py.train(nnet, [(feats, classes), (feats[:20], classes[:20].tolist())],
                  minibatches=nnet3py.MinibatchOptions(num_frames="10"))
    nnet3py.train(nnet, {"a": feats}, {"a": classes})
    nnet3py.train(nnet, feats, feats[:, :1], loss=squares, num_epochs=1)
    trainer = nnet3py.Trainer(nnet, learning_rate=0.001, loss=nnet3py.Loss(squares, reduction="mean"), momentum=0.5)
    value: float = trainer.step(feats[None], feats[None, :, :1])
    output: Floats = trainer.forward(feats)
    trainer.backward(np.ones_like(output))
    state: dict[str, np.ndarray] = trainer.state_dict()
    trainer.load_state_dict(state)
    print(value > 0, trainer.num_steps, trainer.nnet is nnet)
    objective: NDArray[np.float64] = history["objective"]
    print(objective.shape, history.best, history.epochs[0].seconds >= 0)


def files(nnet: nnet3py.Nnet) -> None:
    """Tables and archives."""
    feats = {"a": rng.standard_normal((9, 3)).astype(np.float32)}
    nnet3py.write_matrices("ark,scp:feats.ark,feats.scp", feats)
    read: dict[str, Floats] = dict(nnet3py.read_matrices("scp:feats.scp"))
    example = nnet3py.NnetExample([nnet3py.NnetIo("input", nnet3py.IoSpecification.frames("input", 1, 0, 9).indexes,
                                                  read["a"])])
    count: int = nnet3py.write_egs("ark:egs.ark", {"a": example})
    for key, each in nnet3py.read_egs("ark:egs.ark"):
        print(key, each.io[0].features.shape, count)
    trainer = nnet3py.NnetTrainer(nnet)
    print(trainer.num_minibatches)


def sound() -> None:
    """From sound to words, with the small model that comes with the package."""
    folder = Path(str(importlib.resources.files("nnet3py") / "recognition" / "demo_model"))
    samples = (8000 * np.sin(2 * np.pi * 150 * np.arange(16000) / 16000)).astype(np.int16)
    mfcc: Floats = nnet3py.features(samples, 16000, config={"num-mel-bins": 40, "use-energy": True})
    voiced: NDArray[np.bool_] = nnet3py.vad(mfcc)
    front_end = nnet3py.front_end(folder)
    feats, ivector = front_end(samples, 16000)
    log_likes: Floats = nnet3py.compute(folder, feats, ivector)
    decoded: nnet3py.DecodedText = nnet3py.decode(folder, log_likes, options={"beam": 13})
    aligned: nnet3py.AlignedText = nnet3py.align(folder, np.zeros(16000, np.int16), "ten minutes", 16000)
    start: float = aligned.words[0].start
    transition_ids: NDArray[np.int32] = aligned.transition_ids
    print(voiced.shape, feats.shape, decoded.text, start >= 0, len(transition_ids), nnet3py.Aligner(folder))
    recognizer = nnet3py.Recognizer(folder, options={"beam": 13.0})
    result: nnet3py.Result = recognizer.transcribe(samples, 16000)
    stream: nnet3py.Stream = recognizer.stream(16000)
    is_over: bool = stream.accept_waveform(samples)
    words: tuple[nnet3py.Word, ...] = stream.finish().words
    lattice: nnet3py.CompactLattice = result.lattice
    print(result.text, is_over, [word.confidence for word in words], lattice.num_states)
    model: nnet3py.AcousticModel = nnet3py.read_model(folder)
    transitions: nnet3py.TransitionModel = model.transition_model
    outputs: Floats = model(feats, ivector)
    errors: nnet3py.WordErrors = nnet3py.wer(["one two", "three"], ["one too", "three"])
    rate: float = errors.wer
    print(transitions.num_pdfs, outputs.shape, rate, errors.report())
    nnet3py.write_lattices("ark:lat.ark", {"a": lattice, "b": decoded.lattice})
    print([key for key, _ in nnet3py.read_lattices("ark:lat.ark")])


def functions() -> None:
    """Of features, graphs, lattices, i-vectors."""
    feats = rng.standard_normal((20, 3)).astype(np.float32)
    stats = feat.empty_stats(3)
    feat.accumulate_stats(feats, stats)
    print(feat.normalize(feats, stats).shape, feat.splice(feats, 1, 1).shape,
          feat.add_deltas(feats, feat.delta_filters(2, 2)).shape)
    phone_lm = chain.estimate_phone_lm([[1, 2], [2, 1, 1]], chain.PhoneLmOptions(ngram_order=2, no_prune_ngram_order=1))
    lattice = lattices.linear_lattice(np.array([1, 1, 2]), np.array([7]), 1.0, 2.0)
    best = lattices.best_path(lattices.scaled(lattice, lattices.Scales(acoustic=0.1)))
    path = None if best is None else lattices.path_of(best)
    print(phone_lm.num_states, path, ivectors.equal_error_rate(np.ones(3), np.zeros(3)).per_cent)


def onnx(nnet: nnet3py.Nnet) -> None:
    """ONNX files, where the packages for them are installed."""
    feats = rng.standard_normal((60, 3)).astype(np.float32)
    nnet3py.export_onnx(nnet, "stream.onnx", streaming=True)
    stream = nnet3py.OnnxStream("stream.onnx")
    rows: list[Floats] = [stream.accept(feats), stream.finish()]
    nnet3py.export_onnx(nnet, "whole.onnx", nnet3py.ExportOptions(log_softmax=True))
    loss = nnet3py.quantize("whole.onnx", "small.onnx", "int8", [feats])
    print(sum(map(len, rows)), loss.text())


def main() -> None:
    """All of it."""
    nnet = networks()
    computing(nnet)
    training(nnet)
    files(nnet)
    sound()
    functions()
    try:
        onnx(nnet)
    except nnet3py.Nnet3Error as error:
        print(error)


if __name__ == "__main__":
    nnet3py.show_log(None)
    main()
