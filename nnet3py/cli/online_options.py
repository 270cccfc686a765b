"""What the commands that recognise sound as it arrives share: option groups, and what is made of them."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.decode_table import DECODER, decoder_options
from nnet3py.cli.ivector_options import CMVN_OPTIONS, ONLINE_OPTIONS, cmvn_options, online_models
from nnet3py.cli.looped_options import LOOPED, looped_computer
from nnet3py.cli.option_groups import DEVICE, without
from nnet3py.cli.options import OptionError, Options, option
from nnet3py.cli.parser import options_of_file
from nnet3py.cli.speech_options import FEATURE_OPTIONS

if TYPE_CHECKING:
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.recognition.pipeline import FeaturePipeline, PipelineModels, SpeakerState
    from nnet3py.recognition.stream_decoder import StreamDecoder

_WEIGHTING, _ENDPOINT = "ivector-silence-weighting", "endpoint"

PIPELINE = (
    option("feature-type", str, "mfcc", "mfcc or fbank; plp cannot be computed", choices=("mfcc", "fbank", "plp")),
    option("mfcc-config", str, "", "Options file of compute-mfcc-feats"),
    option("plp-config", str, "", "Options file for PLP features, which cannot be computed"),
    option("fbank-config", str, "", "Options file of compute-fbank-feats"),
    option("cmvn-config", str, "", "Options file of apply-cmvn-online, for normalising the network's input; may be "
           "empty. Without one, nothing is normalised"),
    option("global-cmvn-stats", str, "", "Normalisation statistics of all the training data, for --cmvn-config"),
    option("add-pitch", bool, False, "Append pitch features, which cannot be computed"),
    option("online-pitch-config", str, "", "No effect: --add-pitch cannot be computed"),
    option("ivector-extraction-config", str, "", "Options file of ivector-extract-online2, for a network with "
           "i-vectors"),
    option(f"{_WEIGHTING}.silence-phones", str, "", "Phones (numbers, with colons) whose frames count less for "
           "i-vectors"),
    option(f"{_WEIGHTING}.silence-weight", float, 1.0, "What these count, such as 0.001"),
    option(f"{_WEIGHTING}.max-state-duration", float, -1.0, "Frames with the same transition-id in a row that count as "
           "silence, if they are so many (-1: never)"),
)

# must contain nonsilence, least trailing silence, greatest relative cost, least length
_RULES = ((False, 5.0, float("inf"), 0.0), (True, 0.5, 2.0, 0.0), (True, 1.0, 8.0, 0.0),
          (True, 2.0, float("inf"), 0.0), (False, 0.0, float("inf"), 20.0))
ENDPOINT = (
    option(f"{_ENDPOINT}.silence-phones", str, "", "Phones (numbers, with colons) that are silence"),
    *(option(f"{_ENDPOINT}.rule{number}.{name}", type(default), default, f"Rule {number}, by which an utterance is "
             f"over: {help_}")
      for number, defaults in enumerate(_RULES, 1)
      for (name, help_), default in zip((
          ("must-contain-nonsilence", "only if there was something else than silence"),
          ("min-trailing-silence", "least silence at the end, in seconds"),
          ("max-relative-cost", "how much worse than the best path one that may end here may be"),
          ("min-utterance-length", "least length, in seconds")), defaults, strict=True)),
)
STARTUP = option("num-threads-startup", int, 8, "No effect: i-vector extractors are read quickly enough")

DECODING = (
    *without(DECODER, "allow-partial", "word-symbol-table"), *LOOPED, *PIPELINE, *ENDPOINT, STARTUP, *DEVICE,
)


def pipeline_models(options: Options, online: bool = True) -> PipelineModels:
    """What the ``PIPELINE`` options name; not ``online``: i-vectors of all the frames of an utterance at once.

    Raises OptionError for what cannot be computed, and as PipelineModels.check.
    """
    import numpy as np

    from nnet3py.features.speech import speech_options
    from nnet3py.formats.matrix_files import read_matrix_file
    from nnet3py.recognition.option_tables import weighting_options
    from nnet3py.recognition.pipeline import PipelineModels

    kind = options.feature_type
    if kind == "plp":
        raise OptionError("--feature-type=plp: PLP features cannot be computed, because the library kaldi-native-fbank "
                          "has none", "mfcc and fbank can be")
    if options.add_pitch:
        raise OptionError("--add-pitch=true: pitch is not part of it", "only networks without pitch can be used")
    for other in ("mfcc", "plp", "fbank"):
        if other != kind and options[f"{other}-config"]:
            log.warning(f"--{other}-config option has no effect since feature type is set to {kind}.")
    models = PipelineModels(
        speech_options(kind, options_of_file(options[f"{kind}-config"], FEATURE_OPTIONS[kind]).as_dict()),
        silence_weighting=weighting_options(options.as_dict()))
    if options.cmvn_config:
        if not options.global_cmvn_stats:
            raise OptionError("--global-cmvn-stats option is required when --cmvn-config is specified.")
        models.cmvn = cmvn_options(options_of_file(options.cmvn_config, CMVN_OPTIONS))
        models.global_stats = read_matrix_file(options.global_cmvn_stats, dtype=np.float64)
    if options.ivector_extraction_config:
        models.ivectors = online_models(options_of_file(options.ivector_extraction_config, ONLINE_OPTIONS))
        if not online:
            models.ivectors.use_most_recent = models.ivectors.greedy = True
    models.check()
    return models


class OnlineDecoding:
    """A recogniser made of options and files: what all its streams share.

    Parameters
    ----------
    options : the ``DECODING`` options
    model, graph : names of files
    online : as of :func:`pipeline_models`
    """

    def __init__(self, options: Options, model: str, graph: str, online: bool = True) -> None:
        from nnet3py.acoustic_model import read_model
        from nnet3py.cli.compute_setup import set_up
        from nnet3py.decoding.decoding_graph import DecodingGraph
        from nnet3py.errors import within
        from nnet3py.lattices.phone_determinize import PhoneDeterminizeOptions
        from nnet3py.recognition.option_tables import endpoint_options

        if not options.determinize_lattice:
            raise OptionError("--determinize-lattice=false: only determinized lattices can be given here")
        if options.acoustic_scale == 0.0:
            raise OptionError("--acoustic-scale must not be 0")
        self.models = pipeline_models(options, online)
        self.endpoints = endpoint_options(options.as_dict())
        self._search = decoder_options(options)
        self._search.check()
        self.determinize = PhoneDeterminizeOptions(
            options.delta, options.max_mem, options.phone_determinize, options.word_determinize, options.minimize)
        device = set_up(options)
        acoustic = read_model(model)
        self.transition_model = acoustic.transition_model
        self._looped: Any = looped_computer(acoustic, options, device)
        with within(f"the graph {graph}"):
            self._graph = DecodingGraph.read(graph, self.transition_model)
        self._network: Any = None

    def prepare(self) -> None:
        """Make what takes time, before the first stream begins."""
        if self._network is None:
            self._network = self._looped.stream()

    def begin(self, state: SpeakerState | None = None) -> tuple[FeaturePipeline, StreamDecoder]:
        """A stream of a speaker of whom this is known. The one before is over."""
        from nnet3py.recognition.pipeline import FeaturePipeline
        from nnet3py.recognition.stream_decoder import StreamDecoder

        self.prepare()
        pipeline = FeaturePipeline(self.models, state)
        return pipeline, StreamDecoder(pipeline, self._looped, self._graph, self.transition_model, self._search,
                                       self.endpoints, self._network)


def words_text(words: SymbolTable, numbers: Any) -> str:
    """The words of these numbers, each followed by a blank; ``<#i>`` for the i-th if the table does not have it."""
    return "".join(f"{words.names.get(int(number), f'<#{place}>')} " for place, number in enumerate(numbers))


def log_endpoint(rule: tuple[str, Any]) -> None:
    """Say by which rule an utterance is over."""
    name, why = rule
    log.vlog(2, f"Endpointing rule {name} activated: {'true' if why.contains_nonsilence else 'false'},"
                f"{why.trailing_silence:.6g},{why.relative_cost:.6g},{why.utterance_length:.6g}")
