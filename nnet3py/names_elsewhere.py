"""Hints for names of other libraries, such as ``load_model`` or ``nnet.forward``: how nnet3py does the same. Light."""
from __future__ import annotations

from nnet3py.advice import elsewhere

# Names of the package.
NAMES = elsewhere(**{
    # networks and model files
    "load read open from_file load_nnet read_network load_network Network NeuralNetwork":
        "nnet3py.read_nnet('final.mdl')",
    "load_model Model AmNnetSimple from_pretrained":
        "nnet3py.read_model('final.mdl'); for speech to text: nnet3py.Recognizer('model-folder')",
    "save write write_nnet save_nnet": "nnet.write('final.raw')",
    "write_model save_model": "model.write('final.mdl')",
    "models list_models download": "nnet3py.Recognizer.find('en-us') finds a model where vosk keeps it",
    "from_config parse_config Sequential": "nnet3py.Nnet.from_config(text)",
    "NaturalGradientAffineComponent AffineComponent": "nnet3py.Nnet.from_config(text); nnet['name'] is a component",
    "print_model plot draw visualize show": "nnet3py.summary(nnet); a notebook draws it",
    "diff equal allclose": "nnet3py.compare(nnet, other)",
    "version": "nnet3py.__version__",
    "help docs": "help(nnet3py)",
    # computing
    "predict forward run infer evaluate apply": "nnet3py.compute(nnet, feats)",
    "no_grad eval inference_mode": "nothing is to be done: nnet3py.compute(nnet, feats) computes in test mode",
    "grad backward autograd jacobian": "nnet3py.gradients(nnet, feats, targets=classes)",
    "cuda device gpu to get_device set_device": "nnet3py.compute(nnet, feats, device='cuda')",
    "set_num_threads num_threads": "os.environ['NNET3PY_NUM_THREADS'] = '4', before the first computation",
    "StreamingNnet StreamingComputer Streaming": "nnet3py.LoopedComputer(nnet).stream()",
    # training
    "fit train_on": "nnet3py.train(nnet, feats, targets)",
    "optim SGD Adam AdamW Optimizer optimizer":
        "nnet3py.train(nnet, data) is natural gradient; for others: module = nnet3py.to_torch(nnet)",
    "nn Module Linear": "nnet3py.to_torch(nnet) is a torch.nn.Module",
    "CrossEntropyLoss MSELoss NLLLoss BCELoss cross_entropy mse losses":
        "nnet3py.train(nnet, feats, targets, loss=torch.nn.CrossEntropyLoss())",
    "Callback EarlyStopping ModelCheckpoint":
        "nnet3py.train(nnet, data, validation=more, patience=3, checkpoints='exp')",
    "seed manual_seed set_seed srand": "nnet3py.train(nnet, data, options=nnet3py.TrainerOptions(srand=1))",
    "Nnet3Classifier": "from nnet3py.sklearn import Nnet3Classifier",
    "Nnet3Regressor": "from nnet3py.sklearn import Nnet3Regressor",
    "ExampleDataset Dataset DataLoader EgsDataset NnetExampleDataset":
        "from nnet3py.torch_data import ExampleDataset",
    "ChainLoss LFMMI LFMMILoss chain_loss": "from nnet3py.torch import ChainLoss",
    "orthonormal_constraint_ orthonormal_constraint constrain_orthonormal":
        "from nnet3py.torch import orthonormal_constraint_",
    **{name: f"from nnet3py.torch import {name}" for name in (
        "ChainSums", "ChainSystem", "NaturalGradient", "supervision_from_alignments", "supervision_from_lattices",
        "supervision_from_phones")},
    # tables
    "read_ark read_scp read_feats load_feats read_mat read_mat_ark read_mat_scp load_ark load_scp load_mat ReadHelper "
    "SequentialMatrixReader": "nnet3py.read_matrices('ark:feats.ark')",
    "write_ark write_feats write_mat save_ark WriteHelper MatrixWriter": "nnet3py.write_matrices('ark:out.ark', table)",
    "read_ali read_int_vectors read_vec_int read_vec_int_ark": "nnet3py.read_alignments('ark:ali.ark')",
    "read_lat read_lattice": "nnet3py.read_lattices('ark:lat.ark')",
    # sound and words
    "mfcc compute_mfcc Mfcc MFCC": "nnet3py.features('a.wav')",
    **{name: f"nnet3py.features('a.wav', kind='{name}')" for name in ("fbank", "plp", "spectrogram", "pitch")},
    "feature_extraction extract_features compute_features": "nnet3py.features('a.wav', kind='fbank')",
    "read_wav load_wav load_audio AudioSegment":
        "nnet3py.features('a.wav') reads the file; of samples: nnet3py.features(samples, 16000)",
    "ivector extract_ivector extract_ivectors": "feats, ivector = nnet3py.front_end('model-folder')('a.wav')",
    "transcribe recognize recognize speech_to_text asr": "nnet3py.Recognizer('model-folder').transcribe('a.wav')",
    "KaldiRecognizer SpkModel SetLogLevel": "from nnet3py.vosk import KaldiRecognizer, Model, SpkModel, SetLogLevel",
    "forced_align force_align forced_alignment align_text": "nnet3py.align('model-folder', 'a.wav', 'the words')",
    "compute_wer word_error_rate cer": "nnet3py.wer(references, hypotheses)",
    "greedy_decode decode_greedy ctc_decode phones": "nnet3py.decode_phones(model, feats)",
    "Decoder FasterDecoder": "nnet3py.decode(model, log_likes, graph); step by step: nnet3py.LatticeDecoder(graph)",
    "Fst HCLG read_fst": "nnet3py.DecodingGraph.read('HCLG.fst', transition_model)",
    "diarization speakers": "nnet3py.diarize('speaker-model-folder', 'a.wav')",
    "LanguageModel RNNLM": "nnet3py.RnnLanguageModel('rnnlm-folder')",
    # other programs
    "to_onnx save_onnx": "nnet3py.export_onnx(nnet, 'final.onnx')",
    "load_onnx read_onnx import_onnx OnnxModel": "nnet3py.from_onnx('final.onnx')",
    "torchscript trace script jit": "torch.export.export(nnet3py.to_torch(nnet), (input,))",
    "as_torch torch_module": "nnet3py.to_torch(nnet)",
    "Dim": "from torch.export import Dim",
})

# Attributes of a network.
NETWORK = elsewhere(**{
    "forward predict run compute infer": "nnet(feats), or nnet3py.compute(nnet, feats)",
    "fit": "nnet3py.train(nnet, feats, targets)",
    "train": "nnet3py.train(nnet, feats, targets) trains; there is no mode to set",
    "step train_step optimizer zero_grad": "nnet3py.Trainer(nnet).step(feats, targets)",
    "backward grad gradients": "nnet3py.gradients(nnet, feats, targets=classes)",
    "loss score evaluate": "nnet3py.gradients(nnet, feats, targets=classes).value; or train(…, validation=…)",
    "eval inference": "nothing is to be done: nnet(feats) computes in test mode",
    "to cuda cpu device": "nnet3py.compute(nnet, feats, device='cuda')",
    "float half double dtype": "nothing is to be done: networks compute in float32",
    "save dump to_file": "nnet.write('final.raw')",
    "load load_state_dict from_file from_pretrained": "nnet3py.read_nnet('final.raw')",
    "layers modules children named_modules keys values names items named_children":
        "for name in nnet: nnet[name]; or nnet.summary()",
    "parameters named_parameters state_dict weights get_weights": "for name in nnet: nnet[name].parameters()",
    "set_weights set_state": "nnet.set_parameters('affine1', {'bias_params': values})",
    "num_params n_params count_params": "nnet.num_parameters()",
    "shape dims dim inputs outputs input output in_features out_features input_size output_size":
        "nnet.input_dim('input'), nnet.output_dim('output'); or nnet.summary()",
    "context left_context right_context receptive_field": "print(nnet.summary()), or nnet3py.info(nnet)",
    "export export_onnx to_onnx": "nnet3py.export_onnx(nnet, 'final.onnx')",
    "quantize": "nnet3py.export_onnx(nnet, 'final.onnx', quantize='int16')",
    "to_torch as_torch": "nnet3py.to_torch(nnet)",
    "compare diff equal equals": "nnet3py.compare(nnet, other); or nnet == other",
    "info": "nnet3py.info(nnet)",
    "freeze requires_grad requires_grad_": "nnet3py.freeze(nnet, 'affine1*')",
    "unfreeze": "nnet3py.unfreeze(nnet, 'affine1*')",
    "clone": "nnet.copy()",
    "edits apply_edits": "nnet3py.apply_edits(nnet, 'set-learning-rate name=* learning-rate=0.001')",
    "learning_rate lr set_learning_rate": "nnet3py.set_learning_rate(nnet, 0.001)",
    "priors transition_model": "a network has none, an acoustic model has: nnet3py.read_model('final.mdl')",
    "decode recognize transcribe align": "nnet3py.Recognizer('model-folder').transcribe('a.wav'), nnet3py.decode, "
                                         "nnet3py.align",
    "plot draw show graph": "nnet.summary() as the last line of a notebook's cell, or nnet3py inspect --html=a.html",
})

# Attributes of an acoustic model; those of its network come after them.
ACOUSTIC_MODEL = elsewhere(**{
    "forward predict run compute infer": "model(feats), or nnet3py.compute(model, feats)",
    "fit train": "nnet3py.train(model, (feats, targets))",
    "eval inference": "nothing is to be done: model(feats) computes in test mode",
    "save dump to_file": "model.write('final.mdl')",
    "load from_file from_pretrained": "nnet3py.read_model('final.mdl')",
    "layers modules children named_modules": "for name in model: model[name]; or model.summary()",
    "parameters named_parameters state_dict weights": "for name in model: model[name].parameters()",
    "num_pdfs phones topology": "model.transition_model.num_pdfs, model.transition_model.topology.phones",
    "tree": "it is a file of its own, beside the model",
    "compare diff equal equals": "nnet3py.compare(model, other); or model == other",
    "decode recognize transcribe": "nnet3py.decode(model, feats, graph); nnet3py.decode_phones(model, feats)",
    "export_onnx to_onnx export": "nnet3py.export_onnx(model, 'final.onnx')",
    "to_torch as_torch": "nnet3py.to_torch(model)",
    "clone": "model.copy()",
})
