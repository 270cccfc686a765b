"""Hints in error messages for names of other libraries, such as ``load_model``: how nnet3py does the same. Light."""
from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from nnet3py.errors import NoSuchAttribute, UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


class AdvisingType(type):
    """Metaclass that adds hints to errors of missing class attributes (``Nnet.load``) and of calls with a path.

    A class defines ``_FROM_FILE``, the hint for a call such as ``Nnet("final.raw")``, and ``_ELSEWHERE`` as for
    :class:`Advising`.
    """

    _ELSEWHERE: Mapping[str, str] = {}
    _FROM_FILE: str = ""

    if not TYPE_CHECKING:        # with these methods, a type checker would accept any attribute and any argument
        def __getattr__(cls, name: str) -> Any:
            """Raise AttributeError, with a hint if there is one for ``name``."""
            raise NoSuchAttribute(f"{cls.__name__} has no '{name}'", lambda: cls._ELSEWHERE.get(name))

        def __call__(cls, *arguments: Any, **settings: Any) -> Any:
            """Make an object of this class. Raises UsageError for a path in place of the arguments."""
            if cls._FROM_FILE and arguments and isinstance(arguments[0], str | os.PathLike):
                raise UsageError(f"{cls.__name__}() does not take a path", cls._FROM_FILE)
            return super().__call__(*arguments, **settings)

        @property
        def __signature__(cls) -> inspect.Signature:
            """Signature of the constructor, which ``help`` and editors show instead of that of ``__call__``."""
            signature = inspect.signature(cls.__init__)
            return signature.replace(parameters=list(signature.parameters.values())[1:],
                                     return_annotation=inspect.Signature.empty)


class Advising:
    """Base of classes that add hints to errors of missing attributes.

    A class defines ``_WHAT``, a noun for its objects in the message, and ``_ELSEWHERE``, a dict from names that other
    libraries use to hints.
    """

    _WHAT: ClassVar[str] = ""
    _ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:        # with this method, a type checker would accept any attribute
        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with a hint if there is one for ``name``."""
            raise NoSuchAttribute(f"{self._WHAT or type(self).__name__} has no '{name}'",
                                  lambda: self._advice(name))

    def _advice(self, name: str) -> str | None:
        """Return the hint for a missing attribute; None if there is none."""
        if name.startswith("_"):
            return None
        from nnet3py.config_line import did_you_mean  # commands start earlier without this module

        in_lower_case = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()         # Kaldi's names are like NumParameters
        public = [each for each in dir(self) if not each.startswith("_")]
        return (self._ELSEWHERE.get(name) or self._ELSEWHERE.get(in_lower_case)
                or did_you_mean(in_lower_case, public))


def elsewhere(**table: str) -> dict[str, str]:
    """Return a dict of hints for ``_ELSEWHERE``; a key of ``table`` may be several names, separated by blanks.

    >>> elsewhere(**{"fit train": "nnet3py.train(nnet, feats, targets)"})
    """
    return {name: text for names, text in table.items() for name in names.split()}


def arguments_elsewhere(*settings: Any, **table: str) -> Callable[[Function], Function]:
    """Return a decorator that turns an unknown argument of a function into a UsageError with a hint.

    Parameters
    ----------
    settings : dataclasses whose fields are also arguments of the function (its ``**options``)
    table : hints by names of arguments in other libraries, several names joined by ``_or_``. A hint that ends with
        ``=`` is the name of an argument here, and becomes "did you mean …?"
    """
    texts = {name: f"did you mean {text}?" if text.endswith("=") else text
             for names, text in table.items() for name in names.split("_or_")}

    def decorate(function: Function) -> Function:
        names = [parameter.name for parameter in inspect.signature(function).parameters.values()
                 if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)]
        names += [field.name for kind in settings for field in fields(kind)]

        @functools.wraps(function)
        def call(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in names:
                    from nnet3py.config_line import did_you_mean

                    raise UsageError(f"{function.__name__} has no argument {name}=",
                                     texts.get(name) or did_you_mean(name, names) or f"it has {', '.join(names)}")
            return function(*arguments, **given)

        return cast(Function, call)

    return decorate


# -- names of other libraries ------------------------------------------------------------------------------------------

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
