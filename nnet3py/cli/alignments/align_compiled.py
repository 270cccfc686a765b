"""Forced alignment: compile-train-graphs, compile-train-graphs-fsts and nnet3-align-compiled."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log
from nnet3py.cli.nnet.utterances import IVEC, SIMPLE, IvectorSource, check_ivector_options, compute_options
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.option_groups import DEVICE, set_up, without
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.decoding.options import TrainingGraphOptions
from nnet3py.errors import Nnet3Error, NumericError, UsageError, within
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.decoding.lattice_decoder import Decoded
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.holder import Holder
    from nnet3py.transducers.fst import Fst

_MIN_ACTIVE = 20      # states that are kept per frame even outside the beam, as in Kaldi's aligners
_LATTICE_BEAM = 0.01  # only the best path of the lattice is used
_GRAPH_OPTIONS = (
    *declared(settings_of(TrainingGraphOptions)),
    option("batch-size", int, 250, "No effect: graphs are made one after the other"),
    option("read-disambig-syms", str, "", "File of disambiguation symbols (integers) among the lexicon's input labels"),
)


@kaldi_command("compile-train-graphs", "Graphs", "Make the graphs of transcripts, for forced alignment.", """
Make the decoding graphs (HCLG) of utterances from their transcripts, for forced alignment: FSTs from transition-ids to
words. Transition costs have the scale 0 by default, because nnet3-align-compiled adds them. Transcripts are vectors of
integer word ids.

Usage: compile-train-graphs [options] <tree-in> <model-in> <lexicon-fst-in> <transcriptions-rspecifier> \
<graphs-wspecifier>
e.g.:
 compile-train-graphs tree final.mdl lang/L.fst ark,t:train.int ark:graphs.fsts
See also: make-graph --write-lang, compile-train-graphs-fsts, nnet3-align-compiled
""", arguments=(5, 5), options=_GRAPH_OPTIONS)
def compile_train_graphs(args: list[str], options: Options) -> int:
    from nnet3py.decoding.graph import word_line
    from nnet3py.formats.holders import INT_VECTOR

    return 0 if _compile_graphs(args, options, INT_VECTOR, word_line) else 1


@kaldi_command("compile-train-graphs-fsts", "Graphs", "Make the graphs of FSTs of words, for forced alignment.", """
Make the decoding graphs (HCLG) of utterances, for forced alignment, from FSTs that accept the possible word sequences
of each. The lexicon has disambiguation symbols.

Usage: compile-train-graphs-fsts [options] <tree-in> <model-in> <lexicon-fst-in> <fsts-rspecifier> <graphs-wspecifier>
e.g.:
 compile-train-graphs-fsts --read-disambig-syms=lang/phones/disambig.int tree final.mdl lang/L_disambig.fst \
ark:words.fsts ark:graphs.fsts
See also: compile-train-graphs, nnet3-align-compiled
""", arguments=(5, 5), options=_GRAPH_OPTIONS)
def compile_train_graphs_fsts(args: list[str], options: Options) -> int:
    from nnet3py.transducers.fst_text import FST

    if not options.read_disambig_syms:
        log.warning("--read-disambig-syms is not given: with a lexicon without disambiguation symbols, graphs of many "
                    "words may not be determinizable")
    _compile_graphs(args, options, FST, lambda words: words)
    return 0


def _compile_graphs(args: list[str], options: Options, holder: Holder, words_of: Callable[[Any], Fst]) -> int:
    """Write the training graph of each entry of the table ``args[3]``; return the number of graphs.

    ``words_of`` turns an entry, which ``holder`` has read, into an FST of words.
    """
    from nnet3py.decoding.graph import make_training_graph, read_fst_file
    from nnet3py.decoding.symbols import read_text
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.transducers.fst_text import FST

    tree = read_object(args[0], ContextDependency.read)
    model = read_transition_model(args[1])
    lexicon = read_fst_file(args[2])
    disambig = read_text(options.read_disambig_syms).split() if options.read_disambig_syms else []
    if not all(number.isdecimal() for number in disambig):
        raise UsageError(f"expected integers in {options.read_disambig_syms}, found '{' '.join(disambig)[:40]}'")
    symbols = [int(number) for number in disambig]
    graph_options = fields_from(options, TrainingGraphOptions())

    def graph(key: str, value: Any) -> Fst | None:
        try:
            return make_training_graph(lexicon, words_of(value), tree, model, symbols, graph_options)
        except Nnet3Error as error:
            log.warning(f"Problem creating decoding graph for utterance {key}: {error}")
            return None

    done, failed = convert_table(args[3], args[4], holder, FST, graph)
    log.log(f"compile-train-graphs: succeeded for {done} graphs, failed for {failed}")
    return done


@kaldi_command("nnet3-align-compiled", "Alignments and posteriors",
               "Align features with the graphs of transcripts.", """
Align features with the graphs of their transcripts, as compile-train-graphs makes them, by Viterbi decoding, and write
alignments: the transition-id of every frame. Optionally write the log-likelihood of each utterance.

Usage: nnet3-align-compiled [options] <nnet-in> <graphs-rspecifier> <features-rspecifier> <alignments-wspecifier> \
[<scores-wspecifier>]
e.g.:
 nnet3-align-compiled --acoustic-scale=0.1 final.mdl ark:graphs.fsts scp:feats.scp ark:ali.ark
or, with a chain model:
 nnet3-align-compiled --acoustic-scale=1.0 --frame-subsampling-factor=3 final.mdl ark:graphs.fsts scp:feats.scp \
ark:ali.ark
See also: compile-train-graphs, ali-to-phones, nnet3-latgen-faster
""", arguments=(4, 5), options=[
    option("beam", float, 200.0, "Decoding beam", above=0),
    option("retry-beam", float, 0.0, "Beam of a second attempt where the first finds no path to a final state (0: "
           "none)"),
    option("careful", bool, False, "Not supported; must be false"),
    option("transition-scale", float, 1.0, "Factor of the log-probabilities of transitions between states"),
    option("self-loop-scale", float, 1.0, "Factor of the log-probabilities of staying in a state, and of leaving it"),
    option("write-per-frame-acoustic-loglikes", str, "", "Wspecifier of vectors: the log-likelihood of each frame on "
           "the best path, without acoustic scale"),
    *SIMPLE, *without(IVEC, "utt2spk"), *DEVICE,
])
def align_compiled(args: list[str], options: Options) -> int:
    from nnet3py.acoustic_model import read_model
    from nnet3py.formats.holders import FLOAT, FLOAT_MATRIX, FLOAT_VECTOR, INT_VECTOR
    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.runtime.compute import UtteranceComputer
    from nnet3py.transducers.fst_text import FST

    check_ivector_options(options)
    if 0.0 != options.retry_beam <= options.beam:
        raise UsageError(f"--retry-beam={options.retry_beam:g}: expected more than --beam={options.beam:g}, or 0")
    if options.careful or options.acoustic_scale == 0.0:
        raise UsageError("--careful=true is not supported" if options.careful else "--acoustic-scale must not be 0")
    device = set_up(options)
    model = read_model(args[0])
    computer = UtteranceComputer(prepare_for_test(model.nnet), compute_options(options), model.priors, device)
    aligner = _Aligner(model.transition_model, options)
    with ExitStack() as stack:
        alignments = stack.enter_context(TableWriter(args[3], INT_VECTOR))
        scores = stack.enter_context(TableWriter(args[4], FLOAT)) if len(args) == 5 else None
        per_frame = options.write_per_frame_acoustic_loglikes
        frames = stack.enter_context(TableWriter(per_frame, FLOAT_VECTOR)) if per_frame else None
        ivectors = stack.enter_context(IvectorSource(options))
        features = stack.enter_context(RandomAccessReader(args[2], FLOAT_MATRIX))
        for key, graph in stack.enter_context(SequentialReader(args[1], FST)):
            aligned = aligner.align(key, graph, features.get(key), computer, ivectors)
            if aligned is None:
                continue
            alignments.write(key, aligned.path.alignment)
            if scores is not None:
                scores.write(key, aligned.path.log_likelihood)
            if frames is not None:
                frames.write(key, aligned.frame_log_likes)
    aligner.report()
    return 0 if aligner.done else 1


class _Aligned(NamedTuple):
    """Best path of an utterance, and the log-likelihood of each of its frames, float32 (frames,), unscaled."""

    path: Decoded
    frame_log_likes: np.ndarray


class _Aligner:
    """Aligner of utterances, each with a graph of its own; it has the counts and sums of the log lines."""

    def __init__(self, model: TransitionModel, options: Options) -> None:
        self._model, self._options = model, options
        self.done = self.errors = self.retried = self.frames = 0
        self.log_likelihood = 0.0

    def align(self, key: str, graph: Fst, feats: np.ndarray | None, computer: Any,
              ivectors: IvectorSource) -> _Aligned | None:
        """Return the alignment of an utterance; None, having logged a warning, if it cannot be aligned."""
        alignment = self._attempt(key, graph, feats, computer, ivectors)
        if alignment is None:
            self.errors += 1
            return None
        self.done += 1
        self.frames += len(alignment.path.alignment)
        self.log_likelihood += alignment.path.log_likelihood / self._options.acoustic_scale
        return alignment

    def _attempt(self, key: str, graph: Fst, feats: np.ndarray | None, computer: Any,
                 ivectors: IvectorSource) -> _Aligned | None:
        if feats is None or not len(feats):
            log.warning(f"No features for utterance {key}" if feats is None else f"Zero-length utterance: {key}")
            return None
        try:
            with within(f"utterance {key}"):
                ivector, online_ivectors = ivectors.find(key)
                likes = computer.compute(feats, ivector, online_ivectors, self._options.online_ivector_period)
                return self._search(key, graph, likes)
        except KeyError as error:
            log.warning(f"No {error.args[0]} available for utterance {key}")
        except NumericError as error:
            log.warning(f"Skipping {error}")
        return None

    def _search(self, key: str, graph: Fst, likes: np.ndarray) -> _Aligned | None:
        import numpy as np

        from nnet3py.decoding.graph import with_transition_costs
        from nnet3py.decoding.lattice_decoder import Decoder
        from nnet3py.decoding.options import DecoderOptions

        options = self._options
        if graph.start < 0:
            log.warning(f"Empty decoding graph for {key}")
            return None
        weighted = with_transition_costs(graph, self._model, options.transition_scale, options.self_loop_scale)
        narrow, wide = (DecoderOptions(beam=beam, min_active=_MIN_ACTIVE, lattice_beam=_LATTICE_BEAM)
                        for beam in (options.beam, options.retry_beam or options.beam))
        decoder = Decoder(weighted, self._model, narrow)
        decoded = decoder.decode(likes)
        if (decoded is None or not decoded.reached_final) and options.retry_beam > 0.0:
            self.retried += 1
            log.warning(f"Retrying utterance {key} with beam {options.retry_beam:g}")
            decoded = decoder.decode(likes, wide)
        if decoded is None or not decoded.reached_final:
            log.warning(f"Did not successfully decode file {key}, len = {len(likes)}")
            return None
        pdfs = self._model.transition_id_to_pdf[decoded.alignment]
        costs = 0.0 - likes[np.arange(len(pdfs)), pdfs]          # Kaldi negates costs: 0 becomes -0
        return _Aligned(decoded, -costs / np.float32(options.acoustic_scale))

    def report(self) -> None:
        log.log(f"Overall log-likelihood per frame is {self.log_likelihood / max(self.frames, 1):.6g} over "
                f"{self.frames} frames.")
        log.log(f"Retried {self.retried} out of {self.done + self.errors} utterances.")
        log.log(f"Done {self.done}, errors on {self.errors}")
