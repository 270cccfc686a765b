"""Options of commands that decode streams, and the recognizer that is made from their values."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.decoding.decode_table import DECODER, decoder_options
from nnet3py.cli.decoding.looped_options import LOOPED, looped_computer
from nnet3py.cli.feat.options import CMVN, FEATURE_OPTIONS
from nnet3py.cli.ivectors.options import ONLINE_OPTIONS, ivector_values
from nnet3py.cli.process.option_groups import DEVICE, set_up, without
from nnet3py.cli.process.options import OptionError, Options, declared, fields_from, option, options_of_file
from nnet3py.errors import within
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.recognition.options import (
    ENDPOINT_SETTINGS,
    PIPELINE_SETTINGS,
    PITCH_SETTINGS,
    endpoint_options,
)

if TYPE_CHECKING:
    from nnet3py.decoding.lattice_decoder import Graph
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.recognition.pipeline import FeaturePipeline, PipelineModels, SpeakerState
    from nnet3py.recognition.stream_decoder import StreamDecoder


PIPELINE, ENDPOINT, PITCH = map(declared, (PIPELINE_SETTINGS, ENDPOINT_SETTINGS, PITCH_SETTINGS))
STARTUP = option("num-threads-startup", int, 8, "No effect: i-vector extractors are read in one thread")

DECODING = (
    *without(DECODER, "allow-partial", "word-symbol-table"), *LOOPED, *PIPELINE, *ENDPOINT, STARTUP, *DEVICE,
)


def pipeline_models(options: Options, online: bool = True) -> PipelineModels:
    """Read the files that the options of the group ``PIPELINE`` name: options of features, CMVN, i-vector extractor.

    If ``online`` is False, i-vectors are estimated from all frames of an utterance. Raises OptionError for values that
    do not go together, and the errors of PipelineModels.check.
    """
    from nnet3py.cli.ivectors.extractor import derive
    from nnet3py.feat.speech import speech_options
    from nnet3py.recognition import pipeline

    kind = options.feature_type
    for other in ("mfcc", "plp", "fbank"):
        if other != kind and options[f"{other}-config"]:
            log.warning(f"--{other}-config option has no effect since feature type is set to {kind}.")
    speech = speech_options(kind, options_of_file(options[f"{kind}-config"], FEATURE_OPTIONS[kind]).as_dict())
    cmvn = ivectors = pitch = None
    if options.add_pitch:
        pitch = options_of_file(options.online_pitch_config, PITCH).as_dict()
    if options.cmvn_config:
        if not options.global_cmvn_stats:
            raise OptionError("--global-cmvn-stats option is required when --cmvn-config is specified.")
        cmvn = {**options_of_file(options.cmvn_config, CMVN).as_dict(), "global-cmvn-stats": options.global_cmvn_stats}
    if options.ivector_extraction_config:
        ivectors = ivector_values(options_of_file(options.ivector_extraction_config, ONLINE_OPTIONS))
    models = pipeline.pipeline_models(speech, options.as_dict(), cmvn, ivectors, pitch)
    if models.ivectors is not None:
        derive(models.ivectors.extractor)
        if not online:
            models.ivectors.use_most_recent = models.ivectors.greedy = True
    return models


class OnlineDecoding:
    """Recognizer made from options and files, for one stream at a time.

    Parameters
    ----------
    options : options of the group ``DECODING``
    model, graph : names of files
    online : whether each frame's i-vector is estimated from the frames up to it; if not, from the whole utterance
    read_graph : function of the file's name and the transition model that reads the graph; None reads a decoding graph
    """

    def __init__(self, options: Options, model: str, graph: str, online: bool = True,
                 read_graph: Callable[[str, TransitionModel], Graph] | None = None) -> None:
        from nnet3py.acoustic_model import read_model
        from nnet3py.decoding.decoding_graph import DecodingGraph

        if not options.determinize_lattice:
            raise OptionError("--determinize-lattice=false: this command writes only determinized lattices",
                              "leave out the option")
        if options.acoustic_scale == 0.0:
            raise OptionError("--acoustic-scale must not be 0")
        self.models = pipeline_models(options, online)
        self.endpoints = endpoint_options(options.as_dict())
        self._search = decoder_options(options)
        self.determinize = fields_from(options, PhoneDeterminizeOptions())
        device = set_up(options)
        acoustic = read_model(model)
        self.transition_model = acoustic.transition_model
        self._looped: Any = looped_computer(acoustic, options, device)
        with within(f"the graph {graph}"):
            self._graph: Graph = (read_graph or DecodingGraph.read)(graph, self.transition_model)
        self._network: Any = None

    def prepare(self) -> None:
        """Compile the network's computation, before the first stream begins."""
        if self._network is None:
            self._network = self._looped.stream()

    def begin(self, state: SpeakerState | None = None) -> tuple[FeaturePipeline, StreamDecoder]:
        """Begin a stream with a speaker's adaptation state; the stream before it must have ended."""
        from nnet3py.recognition.pipeline import FeaturePipeline
        from nnet3py.recognition.stream_decoder import StreamDecoder

        self.prepare()
        pipeline = FeaturePipeline(self.models, state)
        return pipeline, StreamDecoder(pipeline, self._looped, self._graph, self.transition_model, self._search,
                                       self.endpoints, self._network)


def words_text(words: SymbolTable, numbers: Any) -> str:
    """Return the words of word ids, each with a space after it; ``<#i>`` for the i-th if the table lacks its id."""
    return "".join(f"{words.names.get(int(number), f'<#{place}>')} " for place, number in enumerate(numbers))


def log_endpoint(rule: tuple[str, Any]) -> None:
    """Log the endpointing rule that ended an utterance; ``rule``: its name, and the values that were compared."""
    name, why = rule
    log.vlog(2, f"Endpointing rule {name} activated: {'true' if why.contains_nonsilence else 'false'},"
                f"{why.trailing_silence:.6g},{why.relative_cost:.6g},{why.utterance_length:.6g}")
