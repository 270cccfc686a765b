"""What somebody types first who knows PyTorch, numpy or Kaldi: it works, or one line says what to type."""
from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA
from runtime_cases import TDNN

import nnet3py

DEMO = os.path.join(os.path.dirname(nnet3py.__file__), "recognition", "demo_model")
LINEAR = """
input-node name=input dim=3
component name=affine type=NaturalGradientAffineComponent input-dim=3 output-dim=4
component-node name=affine component=affine input=input
output-node name=output input=affine
"""
WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=affine type=AffineComponent input-dim=5 output-dim=4
component-node name=affine component=affine input=Append(input, ReplaceIndex(ivector, t, 0))
output-node name=output input=affine
"""
WORKS = ""
NO_LOG_SOFTMAX = "'output' must be log-probabilities: expected a log-softmax at its end"


def works(*codes: str) -> list[tuple[str, str]]:
    """Attempts that work."""
    return [(code, WORKS) for code in codes]


# As they were typed, by what was wanted. WORKS, or what the message says, with what to type.
ATTEMPTS: dict[str, list[tuple[str, str]]] = {
    "look at a network": [
        *works(
            "nnet", "print(nnet)", "nnet.summary()", "nnet3py.summary(nnet)", "nnet3py.summary(model)",
            "nnet3py.summary('final.mdl')", "nnet3py.info(nnet)", "nnet3py.info(model)", "nnet3py.inspect('final.mdl')",
            "help(nnet3py.train)", "len(nnet)", "list(nnet)", "'t' in nnet", "nnet['t']", "nnet.num_parameters()",
            "nnet.input_dim(), nnet.output_dim()", "nnet.component_names", "nnet.components"),
        ("nnet3py.inspect(nnet)", "nnet3py.summary(nnet)"),
        ("nnet['tt']", "did you mean 't'"),
        ("nnet[0]", "it has a, t, b"),
        ("nnet.a", "nnet['a']"),
        ("nnet.NumParameters()", "num_parameters"),
        ("nnet.num_params", "nnet.num_parameters()"),
        ("nnet.context", "nnet3py.info(nnet)"),
        ("nnet.left_context", "nnet.summary()"),
        ("nnet.layers", "nnet.summary()"),
        ("nnet.children()", "nnet[name]"),
        ("nnet.plot()", "nnet.summary()"),
        ("nnet.sumary()", "did you mean 'summary'"),
        ("nnet.Info()", "nnet3py.info"),
        ("nnet3py.info(feats)", "expected a network or an acoustic model, found ndarray (30, 3)"),
        ("nnet.shape", "nnet.input_dim"),
        ("nnet3py.version", "nnet3py.__version__"),
        ("nnet3py.help", "help(nnet3py)"),
        ("nnet3py.comput", "did you mean 'compute'"),
    ],
    "parameters as arrays": [
        *works(
            "nnet['a'].linear_params", "nnet['a']['bias_params']", "nnet['a'].parameters()",
            "[nnet[name].parameters() for name in nnet]"),
        ("nnet['a'].weight", "component['linear_params']"),
        ("nnet['a'].bias", "bias_params"),
        ("nnet['a']['weight']", "linear_params"),
        ("nnet.parameters()", "nnet[name].parameters()"),
        ("nnet.state_dict()", "nnet[name].parameters()"),
        ("nnet.load_state_dict({})", "nnet3py.read_nnet"),
        ("nnet['a'].in_features", "component.input_dim"),
        ("nnet['a'].requires_grad_(False)", "nnet3py.freeze(nnet"),
        ("nnet['a'].lr", "nnet3py.set_learning_rate(nnet"),
    ],
    "read and write": [
        *works(
            "nnet3py.read_nnet('final.raw')", "nnet3py.read_nnet('final.mdl')", "nnet3py.read_nnet(DEMO)",
            "nnet3py.read_model('final.mdl')", "nnet3py.read_model(DEMO)",
            "nnet.write('a.raw'), nnet3py.read_nnet('a.raw') == nnet", "model.write('b.mdl')", "nnet.copy()",
            "model.copy() == model", "copy.deepcopy(nnet) == nnet", "pickle.loads(pickle.dumps(nnet)) == nnet",
            "pickle.loads(pickle.dumps(model)) == model"),
        ("nnet3py.read_model('final.raw')", "found a raw network"),
        ("nnet3py.read_nnet('no.mdl')", "no.mdl"),
        ("nnet3py.read_nnet(nnet)", "expected the path of a model, found Nnet"),
        ("nnet3py.load('final.mdl')", "nnet3py.read_nnet"),
        ("nnet3py.load_nnet('final.raw')", "nnet3py.read_nnet"),
        ("nnet3py.load_model('final.mdl')", "nnet3py.read_model('final.mdl')"),
        ("nnet3py.Model('model-folder')", "nnet3py.Recognizer('model-folder')"),
        ("nnet3py.models", "nnet3py.Recognizer.find"),
        ("nnet3py.from_pretrained('x')", "nnet3py.read_model"),
        ("nnet3py.Nnet('final.raw')", "nnet3py.read_nnet('final.raw')"),
        ("nnet3py.Nnet.load('final.raw')", "nnet3py.read_nnet('final.raw')"),
        ("nnet3py.Nnet.read('final.raw')", "nnet3py.read_nnet('final.raw')"),
        ("nnet3py.Nnet.from_config('a.config')", "open('a.config').read()"),
        ("nnet3py.AcousticModel('final.mdl')", "nnet3py.read_model('final.mdl')"),
        ("nnet3py.TransitionModel('final.mdl')", "nnet3py.read_transition_model('final.mdl')"),
        ("nnet.save('x')", "nnet.write"),
        ("nnet3py.save(nnet, 'x')", "nnet.write"),
        ("model.save('x')", "model.write"),
        ("nnet.clone()", "nnet.copy()"),
    ],
    "an acoustic model wherever a network goes": [
        *works(
            "model", "model.transition_model", "model.priors", "model['a']", "list(model), len(model)",
            "model.summary()", "model(model_feats)", "nnet3py.compute(model, model_feats)",
            "nnet3py.LoopedComputer(model)", "nnet3py.UtteranceComputer(model)", "nnet3py.for_inference(model)",
            "nnet3py.freeze(model), nnet3py.unfreeze(model)", "nnet3py.set_learning_rate(model, 0.1)",
            "nnet3py.train(model, model_feats, np.arange(20) % 10)", "nnet3py.Trainer(model)",
            "nnet3py.NnetTrainer(model)", "nnet3py.compare(model, 'final.mdl')",
            "nnet3py.gradients(model, model_feats, targets=np.zeros(20, int))"),
        ("model.forward(model_feats)", "model(feats)"),
        ("model.num_pdfs", "model.transition_model.num_pdfs"),
        ("model.phones", "model.transition_model.topology.phones"),
        ("model.tree", "a file of its own"),
        ("nnet.transition_model", "nnet3py.read_model"),
        ("nnet.priors", "nnet3py.read_model"),
    ],
    "compute": [
        *works(
            "nnet(feats)", "nnet3py.compute(nnet, feats)", "nnet(feats.tolist())", "nnet(feats.astype(float))",
            "nnet(feats[None])", "nnet([feats, feats[:7]])", "nnet({'utt1': feats, 'utt2': feats})",
            "nnet(np.stack([feats, feats]))", "nnet(feats, output='t')", "nnet(feats, output=['t', 'output'])",
            "nnet3py.compute('final.raw', feats)", "nnet3py.compute(DEMO, demo_feats, demo_ivector)",
            "nnet3py.UtteranceComputer(nnet)(feats)", "nnet3py.LoopedComputer(nnet)(feats)",
            "nnet3py.LoopedComputer(nnet).stream()(feats)",
            "nnet3py.Computer(nnet3py.compile(nnet, nnet3py.ComputationRequest("
            "[nnet3py.IoSpecification.frames('input', 1, -5, 9)], "
            "[nnet3py.IoSpecification.frames('output', 1, 0, 2)])), nnet)"),
        ("nnet3py.LoopedComputer(nnet).accept(feats)", "looped.stream()"),
        ("nnet3py.LoopedComputer(nnet).stream().push(feats)", "stream.accept(feats)"),
        ("nnet.forward(feats)", "nnet(feats)"),
        ("nnet.predict(feats)", "nnet(feats)"),
        ("nnet.compute(feats)", "nnet3py.compute(nnet, feats)"),
        ("nnet.Compute(feats)", "nnet3py.compute(nnet, feats)"),
        ("nnet3py.predict(nnet, feats)", "nnet3py.compute"),
        ("nnet.eval()", "computes in test mode"),
        ("nnet3py.no_grad()", "computes in test mode"),
        ("nnet.to('cuda')", "device='cuda'"),
        ("nnet.cuda()", "device='cuda'"),
        ("nnet3py.cuda.is_available()", "device='cuda'"),
        ("nnet(feats, device='gpu')", "expected 'cpu' or 'cuda'"),
        ("nnet.half()", "float32"),
        ("nnet3py.set_num_threads(4)", "NNET3PY_NUM_THREADS"),
        ("nnet(feats, batch_size=4)", "compute(nnet, [feats, more])"),
        ("nnet(feats, outputs=['t'])", "output="),
        ("nnet(feats, 'output')", "output='output'"),
        ("nnet3py.compute(nnet, feats, output='o')", "no node 'o'"),
        ("nnet(feats, layer='t')", "did you mean output=?"),
        ("nnet(feats, output=0)", "its nodes are input"),
        ("nnet3py.compute(feats, nnet)", "the network comes first"),
        ("nnet3py.compute(3, feats)", "nnet3py.read_nnet"),
        ("nnet(feats[:, :2])", "dimension 3 but you provided 2"),
        ("nnet(feats.T)", "dimension 3 but you provided 30"),
        ("nnet(feats[0])", "(frames, dim)"),
        ("nnet('scp:feats.scp')", "nnet3py.read_matrices('scp:feats.scp')"),
        ("nnet()", "missing 1 required positional argument: 'feats'"),
    ],
    "i-vectors": [
        *works(
            "with_ivector(feats, np.zeros(2))", "with_ivector(feats, ivector=np.zeros(2))",
            "with_ivector(feats, ivector=np.zeros((3, 2)), online_ivector_period=10)",
            "with_ivector([feats, feats], [np.zeros(2), np.ones(2)])"),
        ("with_ivector(feats)", "give or leave out ivector="),
        ("nnet(feats, np.zeros(5))", "give or leave out ivector="),
        ("with_ivector(feats, ivector=np.zeros((3, 2)))", "give online_ivector_period=10"),
        ("with_ivector(feats, ivector=(10, np.zeros((3, 2))))", "online_ivector_period="),
        ("with_ivector(feats, ivectors=np.zeros(2))", "did you mean ivector=?"),
        ("with_ivector(feats, online_ivectors=np.zeros((3, 2)))", "online_ivector_period=10"),
    ],
    "train": [
        *works(
            "nnet3py.train(nnet, feats, classes)", "nnet3py.train(nnet, (feats, classes))",
            "nnet3py.train(nnet, [(feats, classes), (feats[:20], classes[:20])])",
            "nnet3py.train(nnet, feats, classes.tolist())",
            "nnet3py.train(nnet, feats, np.eye(nnet.output_dim())[classes])",
            "nnet3py.train(nnet, feats, classes, validation=(feats, classes))",
            "nnet3py.train(nnet, feats, classes, callbacks=lambda progress: None)",
            "nnet3py.train(linear, feats, np.eye(4)[classes])", "nnet3py.gradients(nnet, feats, targets=classes)"),
        ("nnet3py.train(linear, feats, classes)", NO_LOG_SOFTMAX),
        ("nnet.fit(feats, classes)", "nnet3py.train"),
        ("nnet3py.fit(nnet, feats, classes)", "nnet3py.train"),
        ("nnet.train()", "nnet3py.train(nnet, feats, targets)"),
        ("nnet.backward()", "nnet3py.gradients(nnet"),
        ("nnet.zero_grad()", "nnet3py.Trainer(nnet).step"),
        ("nnet.step(feats)", "nnet3py.Trainer(nnet).step"),
        ("nnet3py.train(nnet, feats, classes, epochs=3)", "did you mean num_epochs=?"),
        ("nnet3py.train(nnet, feats, classes, lr=0.1)", "did you mean learning_rate=?"),
        ("nnet3py.train(nnet, feats, classes, batch_size=8)", "did you mean minibatch_size=?"),
        ("nnet3py.train(nnet, feats, classes, device='cuda')", "TrainerOptions(device='cuda')"),
        ("nnet3py.train(nnet, feats, classes, optimizer='adam')", "nnet3py.to_torch(nnet)"),
        ("nnet3py.train(nnet, feats, classes, verbose=1)", "nnet3py.show_log('INFO')"),
        ("nnet3py.train(nnet, feats, classes, num_epochs=0)", "must be 1 or more"),
        ("nnet3py.train(nnet, feats, classes, validation_data=(feats, classes))", "validation=(feats, classes)"),
        ("nnet3py.train(nnet, feats, classes, validation=0.1)", "cannot train on float"),
        ("nnet3py.train(nnet, 'egs.ark')", "try 'ark:egs.ark'"),
        ("nnet3py.train('final.raw', feats, classes)", "nnet = nnet3py.read_nnet('final.raw')"),
        ("nnet3py.train(nnet, feats)", "expected arrays"),
        ("nnet3py.train(nnet, feats, np.full(30, 99))", "99"),
        ("nnet3py.train(nnet, feats, np.zeros(7, int))", "30"),
        ("nnet3py.train(nnet, feats, classes.astype(float))", "expected integers (30,)"),
        ("nnet3py.train(nnet, feats, feats, feats)", "train(nnet, [(feats, targets, ivector)])"),
        ("nnet3py.gradients(nnet, feats)", "targets=classes"),
        ("nnet3py.gradients(nnet, feats, classes)", "gradients(nnet, feats, targets=classes)"),
        ("nnet3py.optim.Adam", "nnet3py.to_torch(nnet)"),
        ("nnet3py.CrossEntropyLoss()", "loss=torch.nn.CrossEntropyLoss"),
        ("nnet3py.manual_seed(1)", "TrainerOptions(srand=1)"),
        ("nnet3py.EarlyStopping()", "patience=3"),
        ("nnet3py.Nnet3Classifier", "from nnet3py.sklearn import Nnet3Classifier"),
    ],
    "what training leaves": [
        *works(
            "history", "history['objective']", "history['validation_accuracy']",
            "history[0], history[-1], len(history), list(history)"),
        ("history['loss']", "-history['objective']"),
        ("history['accuracy']", "history['validation_accuracy']"),
        ("history.history", "history.arrays()"),
        ("history.losses", "-history['objective']"),
        ("history.plot()", "pandas.DataFrame(history.arrays())"),
    ],
    "losses and steps of one's own": [
        *works(
            "nnet3py.train(linear, feats, classes, loss=lambda y, target: (0.0, 0 * y))",
            "nnet3py.Loss(lambda y, target: (0.0, 0 * y))", "nnet3py.Trainer(nnet)",
            "nnet3py.Trainer(nnet).step(feats, classes)"),
        ("nnet3py.train(nnet, feats, feats, loss='mse')", "expected a function (output, target)"),
        ("nnet3py.train(nnet, feats, feats, loss=lambda y, t: 1.0)", "returned float, expected (value, derivative)"),
        ("nnet3py.train(nnet, feats, classes, criterion=max)", "did you mean loss=?"),
        ("nnet3py.Trainer(nnet, lr=0.1)", "did you mean learning_rate=?"),
        ("nnet3py.Trainer(nnet).fit(feats, classes)", "trainer.step(feats, targets)"),
        ("nnet3py.Trainer(nnet).zero_grad()", "each step begins anew"),
        ("nnet3py.Trainer(nnet).save('state')", "trainer.state_dict()"),
    ],
    "freeze": [
        *works(
            "nnet3py.freeze(nnet)", "nnet3py.freeze(nnet, 'a')", "nnet3py.freeze(nnet, ['a', 'b*'])",
            "nnet3py.unfreeze(nnet)", "nnet['a'].freeze()", "nnet3py.set_learning_rate(nnet, 0.1, 'a')",
            "nnet3py.apply_edits(nnet, 'set-learning-rate name=a* learning-rate=0.1')"),
        ("nnet3py.freeze(nnet, 'zz')", "matches no"),
        ("nnet.freeze('a')", "nnet3py.freeze(nnet"),
        ("nnet.requires_grad_(False)", "nnet3py.freeze(nnet"),
        ("nnet3py.freeze('final.raw', 'a')", "nnet3py.read_nnet('final.raw')"),
        ("nnet3py.set_learning_rate(nnet, 'a', 0.1)", "set_learning_rate(nnet, 0.001, 'tdnn1*')"),
        ("nnet.learning_rate", "nnet3py.set_learning_rate(nnet"),
        ("nnet3py.apply_edits(nnet, 'remove')", "did you mean 'remove-orphans'"),
    ],
    "compare": [
        *works(
            "nnet == nnet.copy()", "nnet != nnet.copy()", "nnet3py.compare(nnet, nnet.copy())",
            "bool(nnet3py.compare(nnet, nnet))", "nnet3py.compare(nnet, 'final.raw')", "model == model.copy()",
            "model.transition_model == model.copy().transition_model"),
        ("nnet.compare(nnet)", "nnet3py.compare(nnet, other)"),
        ("nnet3py.diff(nnet, nnet)", "nnet3py.compare"),
    ],
    "tables": [
        *works(
            "nnet3py.write_matrices('ark:feats.ark', {'utt1': feats}), dict(nnet3py.read_matrices('ark:feats.ark'))"),
        ("nnet3py.read_matrices('feats.ark')", "try 'ark:feats.ark'"),
        ("nnet3py.write_matrices('feats.ark', {'utt1': feats})", "try 'ark:feats.ark'"),
        ("nnet3py.write_matrices({'utt1': feats}, 'ark:feats.ark')", "expected a wspecifier such as 'ark:out.ark'"),
        ("nnet3py.read_matrices('ark:a.ark')['utt1']", "dict(nnet3py.read_matrices('ark:a.ark'))['utt1']"),
        ("nnet3py.read_egs('egs.ark')", "try 'ark:egs.ark'"),
        ("nnet3py.read_mat_ark('a')", "nnet3py.read_matrices"),
        ("nnet3py.ReadHelper('scp:a.scp')", "nnet3py.read_matrices"),
        ("nnet3py.read_ali('a')", "nnet3py.read_alignments"),
        ("nnet3py.read_lattices('lat.ark')", "try 'ark:lat.ark'"),
    ],
    "features": [
        *works(
            "nnet3py.features(samples, 16000)", "nnet3py.features(samples, 16000, 'fbank')",
            "nnet3py.features(samples, 16000, config={'num_ceps': 20, 'dither': 0})", "nnet3py.feat.add_deltas(feats)",
            "nnet3py.feat.splice(feats)", "nnet3py.feat.normalize(feats)", "nnet3py.feat.voiced_frames(feats)",
            "nnet3py.feat.compute_pitch(samples.astype(np.float32), 16000)",
            "nnet3py.lattices.best_path(result.lattice)"),
        ("nnet3py.feat.apply_cmvn(feats)", "normalize(feats"),
        ("nnet3py.feat.mfcc(samples)", "nnet3py.features"),
        ("nnet3py.lattices.prune(result.lattice)", "pruned(lattice, 8.0)"),
        ("nnet3py.ivectors.eer", "equal_error_rate"),
        ("nnet3py.chain.ChainLoss", "from nnet3py.torch import ChainLoss"),
        ("nnet3py.mfcc(samples, 16000)", "nnet3py.features('a.wav')"),
        ("nnet3py.fbank(samples)", "kind='fbank'"),
        ("nnet3py.features(samples)", "give it after them"),
        ("nnet3py.features(samples, sample_rate=16000)", "did you mean rate=?"),
        ("nnet3py.features(samples, 16000, num_ceps=40)", "config={'num-ceps': 40"),
        ("nnet3py.features(samples, 16000, 'mfc')", "expected one of mfcc, fbank"),
        ("nnet3py.features(samples.tolist(), 16000)", "np.asarray(sound, np.int16)"),
        ("nnet3py.features('no.wav')", "there is no file no.wav"),
        ("nnet3py.load_audio('a.wav')", "nnet3py.features"),
        ("nnet3py.extract_ivector('a.wav')", "nnet3py.front_end('model-folder')"),
    ],
    "from sound to words": [
        *works(
            "recognizer", "recognizer.transcribe(samples, 16000)", "recognizer(samples, 16000)",
            "recognizer.transcribe(samples)", "recognizer.sample_rate",
            "recognizer.words['ten'], recognizer.words[1], 'ten' in recognizer.words, len(recognizer.words)",
            "recognizer.stream().accept_waveform(samples)", "recognizer.stream().partial", "result",
            "str(result), result.text, result.words, result.lattice, result.nbest"),
        ("nnet3py.transcribe('a.wav')", "Recognizer('model-folder').transcribe('a.wav')"),
        ("nnet3py.Recognizer('x').transcribe('a.wav')", "there is no model folder x"),
        ("nnet3py.Recognizer(model)", "nnet3py.Recognizer('model-folder')"),
        ("recognizer.transcribe(samples, rate=16000)", "did you mean sample_rate=?"),
        ("recognizer.transcribe('no.wav')", "there is no file no.wav"),
        ("recognizer.recognize(samples)", "recognizer.transcribe('a.wav')"),
        ("recognizer.AcceptWaveform(samples)", "stream = recognizer.stream()"),
        ("recognizer.stream().AcceptWaveform(samples)", "stream.accept_waveform(samples)"),
        ("recognizer.stream().text", "stream.result().text"),
        ("recognizer.vocabulary", "recognizer.words"),
        ("recognizer.stream(phrases='ten minutes')", "phrases=['ten minutes']"),
        ("nnet3py.KaldiRecognizer", "from nnet3py.vosk import KaldiRecognizer"),
        ("result['text']", "result.text"),
        ("result.confidence", "word.confidence"),
        ("result.json()", "word._asdict()"),
    ],
    "decode, align, count errors": [
        *works(
            "nnet3py.decode(DEMO, log_likes).text", "nnet3py.decode(DEMO, demo_feats, ivector=demo_ivector)",
            "nnet3py.decode(recognizer, log_likes)", "nnet3py.decode(DEMO, log_likes, options={'beam': 13})",
            "nnet3py.decode_phones(DEMO, log_likes).names", "nnet3py.decode_phones(model, model_feats).text",
            "nnet3py.decode_phones(recognizer, samples, 16000)",
            "nnet3py.align(DEMO, samples, 'ten', 16000).words[0].phones[0].start",
            "nnet3py.align(recognizer, samples, ['ten'], 16000)", "nnet3py.wer('one two', 'one too')",
            "nnet3py.wer(['one', 'two'], ['one', 'too']).wer", "nnet3py.wer({'utt1': 'one two'}, {'utt1': 'one too'})",
            "float(nnet3py.wer('one', 'one'))", "str(nnet3py.wer('one', 'one'))",
            "nnet3py.WordErrors().add('one two', 'one too')"),
        ("nnet3py.decode(DEMO, log_likes, beam=13)", "options={'beam': 13}"),
        ("nnet3py.decode(DEMO, log_likes, options={'bem': 13})", "did you mean --beam"),
        ("nnet3py.decode(DEMO, samples)", "nnet3py.Recognizer(folder).transcribe('a.wav')"),
        ("nnet3py.decode(model, np.zeros((5, 10)))", "give graph="),
        ("nnet3py.decode(log_likes)", "missing 1 required positional argument: 'log_likes'"),
        ("nnet3py.DecodingGraph('HCLG.fst')", "nnet3py.DecodingGraph.read('HCLG.fst'"),
        ("nnet3py.DecodingGraph.read(DEMO + '/graph/HCLG.fst', nnet3py.read_model(DEMO))", "model.transition_model"),
        ("nnet3py.decode_phones(nnet, feats)", "nnet3py.read_model('final.mdl')"),
        ("nnet3py.greedy_decode(model, feats)", "nnet3py.decode_phones(model, feats)"),
        ("nnet3py.align(DEMO, samples, 'ten')", "give it after them"),
        ("nnet3py.align(DEMO, samples, 'xyzzy', 16000)", "does not know the word 'xyzzy'"),
        ("recognizer.align(samples, 'ten')", "nnet3py.align("),
        ("nnet3py.forced_align('a.wav', 'ten')", "nnet3py.align("),
        ("nnet3py.WordErrors('one two', 'one too')", "nnet3py.wer('one two', 'one too')"),
        ("nnet3py.WordErrors().update('one', 'two')", "errors.add('one two', 'one too')"),
        ("nnet3py.wer(['one'], 'one')", "of the same kind"),
        ("nnet3py.compute_wer('a', 'b')", "nnet3py.wer("),
        ("nnet3py.diarize(DEMO, samples, 16000)", "give the folder of a speaker model"),
        ("nnet3py.LanguageModel('x')", "nnet3py.RnnLanguageModel"),
        ("nnet3py.RnnLanguageModel('x')", "there is no folder x"),
    ],
}
ONNX: list[tuple[str, str]] = [
    *works(
        "nnet3py.export_onnx(nnet, 'a.onnx')", "nnet3py.export_onnx('final.raw', 'a.onnx')",
        "nnet3py.export_onnx(nnet, 'a.onnx', quantize='int8')",
        "nnet3py.export_onnx(nnet, 'a.onnx', quantize='int8', quantize_on=feats)",
        "nnet3py.export_onnx(nnet, 'a.onnx', quantize='int8', quantize_on=[feats])",
        "nnet3py.export_onnx(nnet, 'a.onnx'), nnet3py.from_onnx('a.onnx')",
        "nnet3py.export_onnx(model, 'a.onnx'), nnet3py.from_onnx('a.onnx', model)",
        "nnet3py.export_onnx(nnet, 'a.onnx', quantize='int16')",
        "nnet3py.export_onnx(nnet, 'a.onnx'), nnet3py.quantize('a.onnx', 'b.onnx')",
        "nnet3py.export_onnx(nnet, 'a.onnx', streaming=True), nnet3py.OnnxStream('a.onnx')"),
    ("nnet3py.export_onnx(nnet, 'a.onnx', quantize=True)", "expected one of int8"),
    ("nnet3py.export_onnx(nnet, 'a.onnx', quantize='int4')", "expected one of int8"),
    ("nnet3py.export_onnx(nnet, 'a.onnx', opset=17)", "the opset is 17"),
    ("nnet3py.export_onnx(nnet, 'a.onnx', dynamic_axes={})", "any number of sequences and frames"),
    ("nnet3py.export_onnx(nnet)", "missing 1 required positional argument: 'path'"),
    ("nnet.to_onnx('a.onnx')", "nnet3py.export_onnx(nnet"),
    ("nnet3py.load_onnx('a.onnx')", "nnet3py.from_onnx"),
    ("nnet3py.read_nnet('a.onnx')", "nnet3py.from_onnx('a.onnx')"),
    ("nnet3py.from_onnx('final.raw')", "this is no ONNX file"),
    ("nnet3py.export_onnx(nnet, 'a.onnx'), nnet3py.OnnxStream('a.onnx')", "export it with streaming=True"),
]
TORCH: list[tuple[str, str]] = [
    *works(
        "nnet3py.to_torch(nnet)(torch.from_numpy(feats)[None])", "nnet3py.to_torch('final.raw')",
        "nnet3py.to_torch(with_ivector)(torch.zeros(1, 30, 3), torch.zeros(1, 2))",
        "nnet3py.to_torch(with_ivector)(torch.zeros(1, 30, 3), ivector=torch.zeros(1, 2))",
        "pickle.loads(pickle.dumps(nnet3py.to_torch(nnet)))", "copy.deepcopy(nnet3py.to_torch(nnet))",
        "torch.save(nnet3py.to_torch(nnet), 'module.pt')", "torch.save(nnet, 'nnet.pt')",
        "torch.save(nnet3py.to_torch(nnet).state_dict(), 'state.pt')",
        "nnet3py.from_torch(nnet3py.to_torch(nnet), nnet) == nnet", "nnet(torch.from_numpy(feats))",
        "with_ivector(feats, torch.zeros(2))",
        "nnet3py.train(nnet, torch.from_numpy(feats), torch.from_numpy(classes))",
        "nnet3py.train(linear, feats, classes, loss=torch.nn.CrossEntropyLoss())",
        "nnet3py.gradients(nnet, torch.from_numpy(feats), targets=classes)", "nnet3py.torch.ChainLoss",
        "nnet3py.torch.NaturalGradient(torch.nn.Linear(3, 4), lr=0.1)",
        "nnet3py.torch.orthonormal_constraint_(torch.eye(3))", "nnet3py.torch_data.ExampleDataset('ark:egs.ark')"),
    ("nnet3py.to_torch(with_ivector)(torch.zeros(1, 30, 3))", "'ivector' is not given"),
    ("nnet3py.to_torch(nnet)(torch.from_numpy(feats))", "input.unsqueeze(0)"),
    ("nnet3py.to_torch(nnet, device='cuda')", "nnet3py.to_torch(nnet).to('cuda')"),
    ("nnet.to_torch()", "nnet3py.to_torch(nnet)"),
    ("nnet3py.nn.Linear(3, 4)", "nnet3py.to_torch(nnet)"),
    ("nnet3py.Dim", "from torch.export import Dim"),
    ("nnet3py.from_torch(nnet3py.to_torch(nnet))", "from_torch(module, 'final.raw')"),
    ("nnet3py.from_torch(torch.nn.Linear(3, 4), nnet)", "belongs to no component"),
    ("nnet3py.features(torch.zeros(16000), 16000)", "tensor.numpy()"),
    ("nnet3py.ChainLoss", "from nnet3py.torch import ChainLoss"),
    ("nnet3py.torch.LFMMI", "from nnet3py.torch import ChainLoss"),
    ("nnet3py.ChainSystem", "from nnet3py.torch import ChainSystem"),
    ("nnet3py.NaturalGradient", "from nnet3py.torch import NaturalGradient"),
    ("nnet3py.torch.NaturalGradient(torch.nn.Linear(3, 4).parameters(), lr=0.1)", "the module itself"),
    ("nnet3py.torch.orthonormal_constraint", "did you mean 'orthonormal_constraint_'"),
    ("nnet3py.orthonormal_constraint_", "from nnet3py.torch import orthonormal_constraint_"),
    ("nnet3py.torch_data.ExampleDataset('egs.ark')", "try 'ark:egs.ark'"),
    ("nnet3py.torch_data.ExampleDataset('ark:cegs.ark')[0]", "next(iter(data))"),
    ("nnet3py.torch_data.ChainDataset", "reads chain examples, too"),
    ("nnet3py.ExampleDataset", "from nnet3py.torch_data import ExampleDataset"),
]
ALL = [pytest.param(code, said, id=code) for attempts in ATTEMPTS.values() for code, said in attempts]


@pytest.fixture(scope="module")
def recognition() -> dict[str, Any]:
    """What attempts take that is slow to make."""
    recognizer, samples = nnet3py.Recognizer(DEMO), np.zeros(16000, np.int16)
    feats, ivector = nnet3py.front_end(DEMO)(samples, 16000)
    return {"recognizer": recognizer, "samples": samples, "result": recognizer.transcribe(samples, 16000),
            "demo_feats": feats, "demo_ivector": ivector, "log_likes": nnet3py.compute(DEMO, feats, ivector)}


@pytest.fixture
def attempt(recognition: dict[str, Any], here: Path) -> Callable[..., None]:
    """Type a line in a folder with two models, and check what comes of it."""
    nnet, model = nnet3py.Nnet.from_config(TDNN), nnet3py.read_model(DATA / "network" / "am-priors.mdl")
    nnet.write("final.raw")
    model.write("final.mdl")
    feats = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    classes = np.arange(30) % 4
    names = {**recognition, "nnet3py": nnet3py, "np": np, "copy": copy, "pickle": pickle, "DEMO": DEMO, "nnet": nnet,
             "model": model, "feats": feats, "classes": classes, "linear": nnet3py.Nnet.from_config(LINEAR),
             "with_ivector": nnet3py.Nnet.from_config(WITH_IVECTOR),
             "model_feats": np.random.default_rng(0).standard_normal((20, 40)).astype(np.float32)}

    def type_in(code: str, said: str, **more: Any) -> None:
        if "history" in code.split("[")[0].split(".")[0]:
            more["history"] = nnet3py.train(nnet.copy(), feats, classes, validation=(feats, classes), num_epochs=2)
        if said == WORKS:
            shown = repr(eval(code, {**names, **more}))
            assert "object at 0x" not in shown or "torch" in code
            return
        with pytest.raises((nnet3py.Nnet3Error, AttributeError, TypeError), match=re.escape(said)) as raised:
            eval(code, {**names, **more})
        assert "\n" not in str(raised.value).strip()

    return type_in


@pytest.mark.parametrize(("code", "said"), ALL)
def test_it_works_or_says_what_to_type(code: str, said: str, attempt: Callable[..., None]) -> None:
    attempt(code, said)


@pytest.mark.parametrize(("code", "said"), ONNX)
def test_onnx(code: str, said: str, attempt: Callable[..., None]) -> None:
    pytest.importorskip("onnxruntime")
    attempt(code, said)


@pytest.mark.parametrize(("code", "said"), TORCH)
def test_torch(code: str, said: str, attempt: Callable[..., None]) -> None:
    attempt(code, said, torch=pytest.importorskip("torch"))


def test_every_public_class_shows_what_it_is() -> None:
    values = (getattr(nnet3py, name) for name in nnet3py._PUBLIC)
    assert [value.__name__ for value in values
            if isinstance(value, type) and value.__repr__ is object.__repr__] == []


def test_what_is_not_there_is_not_there() -> None:
    nnet = nnet3py.Nnet.from_config(TDNN)
    assert not hasattr(nnet, "fit") and not hasattr(nnet, "__array__") and not hasattr(nnet3py, "load")


def test_importing_stays_light() -> None:
    code = ("import sys, nnet3py; from nnet3py import log; hasattr(nnet3py, 'load'); "
            "print([name for name in ('numpy', 'numba', 'sklearn', 'difflib') if name in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
