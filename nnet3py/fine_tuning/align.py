"""Stage 5: alignments of the data by the model itself; utterances whose text does not fit their sound are set aside.

The graph of an utterance is compiled from lexicon and tree; without these, it is the part of the model's graph for the
words of the text. Each utterance is also recognized with the whole graph. Where the recognized words are much likelier
than the text, by more than for other utterances, the text probably belongs to another utterance.
"""
from __future__ import annotations

import dataclasses
import gzip
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.graph import make_training_graph, with_transition_costs, word_line
from nnet3py.decoding.lattice_decoder import Decoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.drivers.data_folder import read_list
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.features import PERIOD, trained_parts
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.words import GRAMMAR, HCL
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.io.random_access import RandomAccessReader
from nnet3py.io.streams import write_text
from nnet3py.io.tables import SequentialReader, TableWriter
from nnet3py.network.inference import prepare_for_test
from nnet3py.recognition.aligning import alignment_graph, best_alignment, graph_of_words
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.recognizer import read_decoding_graph
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.options import ComputeOptions
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst_file

logger = logging.getLogger(__name__)

_FREE_BEAM = DecoderOptions(beam=12.0, max_active=2000, lattice_beam=0.01)
_FRAMES_PER_CHUNK = 150
# An utterance is set aside if its excess (log-likelihood per frame of the recognized words minus that of the text) is
# above the median by so many standard deviations, and at least by _LEAST_DIFFERENCE. With the demo model, correct texts
# had at most 0.16, even for a voice that the model hardly recognizes; of 16 exchanged texts 12 had 0.2 to 1.1.
_DEVIATIONS, _LEAST_DIFFERENCE = 6.0, 0.2
_DEVIATION_OF_MAD = 1.4826            # a normal distribution's standard deviation, in median absolute deviations
_FEW = 10                             # utterances; with fewer no median is taken

GraphOf = Callable[[Sequence[int]], Fst | LookaheadGraph]


@dataclass
class Aligner:
    """Aligner of utterances with their texts.

    Attributes
    ----------
    model : transition model
    words : table of words
    graph_of : function that makes the alignment graph of a sequence of word numbers, from transition-ids, with costs
    any_words : decoder with the graph of all words, which recognizes an utterance without regard to its text
    """

    model: TransitionModel
    words: SymbolTable
    graph_of: GraphOf
    any_words: Decoder

    def align(self, text: Sequence[str], log_likes: np.ndarray) -> np.ndarray:
        """Return the alignment of a text, int32 (output frames,) transition-ids.

        ``log_likes`` is float32 (output frames, pdfs). Raises Nnet3Error if a word is unknown or no path fits.
        """
        unknown = [word for word in text if word not in self.words]
        if unknown:
            raise Nnet3Error(f"the model does not know these words: {', '.join(sorted(set(unknown)))}")
        return best_alignment(self.graph_of([self.words[word] for word in text]), self.model, log_likes).alignment

    def excess(self, ids: np.ndarray, log_likes: np.ndarray) -> float:
        """Return the mean log-likelihood per frame of the recognized words minus that of the alignment ``ids``.

        0 if nothing is recognized.
        """
        decoded = self.any_words.decode(log_likes)
        if decoded is None:
            return 0.0
        pdfs = self.model.transition_id_to_pdf
        frames = np.arange(len(log_likes))
        return float(np.mean(log_likes[frames, pdfs[decoded.alignment]] - log_likes[frames, pdfs[ids]]))


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write ``align/`` for training, held-out and old data. Raises Nnet3Error if no utterance of a part is left."""
    folder = read_model_folder(options.model)
    model = read_model(work.model / "final.mdl")
    aligner = Aligner(model.transition_model, SymbolTable.read(str(work.lang / "words.txt")),
                      _graphs(work, folder, model.transition_model),
                      Decoder(_graph_of_all_words(work, folder, model.transition_model), model.transition_model,
                              _FREE_BEAM))
    work.align.mkdir(parents=True, exist_ok=True)
    aside: dict[str, str] = {}
    aligned: dict[str, np.ndarray] = {}
    usual: list[float] = []
    for part in trained_parts(work):
        done, failed, excess = _align_part(work, part, aligner, model, folder)
        if part != "held_out":                 # of the same kind as the training data, and often too few to compare
            usual = list(excess.values())
        wrong, original_of = mismatched_utterances(excess, usual), read_list(work.features(part) / "utt2uniq")
        done = {key: ids for key, ids in done.items() if original_of[key] not in wrong}       # all copies
        failed |= wrong
        aligned |= done
        aside |= failed
        if not done:
            raise Nnet3Error(f"none of the {len(failed)} utterances of {work.data(part)} could be aligned",
                             f"the first reason: {next(iter(failed.values()), 'there are none')}")
        logger.info("%s: %d utterances aligned, %d set aside", part, len(done), len(failed))
    with gzip.open(work.align / "ali.1.gz.tmp", "wb") as stream:
        stream.write(_archive(aligned, work.align))
    (work.align / "ali.1.gz.tmp").rename(work.align / "ali.1.gz")
    write_text(str(work.align / "num_jobs"), "1\n")
    write_text(str(work.set_aside), "".join(f"{key} {reason}\n" for key, reason in sorted(aside.items())))
    for name in ("final.mdl", "tree", "phones.txt"):
        if (work.model / name).is_file():
            shutil.copyfile(work.model / name, work.align / name)


def _archive(aligned: Mapping[str, np.ndarray], scratch: Path) -> bytes:
    path = scratch / "ali.tmp"
    with TableWriter(f"ark:{path}", INT_VECTOR) as writer:
        for key, ids in sorted(aligned.items()):
            writer.write(key, ids)
    content = path.read_bytes()
    path.unlink()
    return content


def _graphs(work: WorkFolder, folder: ModelFolder, model: TransitionModel) -> GraphOf:
    """Return a function that makes the alignment graph of a text, given the numbers of its words."""
    lexicon_file, tree_file = work.lang / "L.fst", work.model / "tree"
    if lexicon_file.is_file() and tree_file.is_file():
        lexicon, tree = read_fst_file(lexicon_file), read_object(tree_file, ContextDependency.read)

        return lambda words: with_transition_costs(
            make_training_graph(lexicon, word_line(np.array(words, dtype=np.int32)), tree, model), model)
    return partial(graph_of_words, alignment_graph(folder, model))


def _graph_of_all_words(work: WorkFolder, folder: ModelFolder,
                        model: TransitionModel) -> DecodingGraph | LookaheadGraph:
    """Return the graph for recognition with all words of the texts: the new graph if stage 3 made one."""
    graph_file, grammar = work.graph / "HCLG.fst", work.graph / GRAMMAR
    if graph_file.is_file():
        return DecodingGraph.read(str(graph_file), model)
    if grammar.is_file():
        hcl = str(work.graph / HCL) if (work.graph / HCL).is_file() else folder.graph
        folder = dataclasses.replace(folder, graph=hcl, grammar=str(grammar))
    return read_decoding_graph(folder, model)


def _align_part(work: WorkFolder, part: str, aligner: Aligner, model: AcousticModel,
                folder: ModelFolder) -> tuple[dict[str, np.ndarray], dict[str, str], dict[str, float]]:
    """Align one part of the data.

    Returns the alignments by utterance; the reasons for failures by utterance; and :meth:`Aligner.excess` by original
    utterance, measured on its copy with unchanged speed.
    """
    texts = {key: text.split() for key, text in read_list(work.features(part) / "text").items()}
    original_of = read_list(work.features(part) / "utt2uniq")
    judged = {_unchanged(original, original_of): original for original in original_of.values()}
    done: dict[str, np.ndarray] = {}
    failed: dict[str, str] = {}
    excess: dict[str, float] = {}
    for key, log_likes in log_likelihoods(model, work, part, folder):
        try:
            done[key] = aligner.align(texts[key], log_likes)
        except Nnet3Error as error:
            failed[key] = error.message
            continue
        if key in judged:
            excess[judged[key]] = aligner.excess(done[key], log_likes)
    return done, failed, excess


def _unchanged(original: str, copies: Mapping[str, str]) -> str:
    """Return the name of the copy of an utterance with the original speed."""
    return original if original in copies else f"sp1-{original}"


def log_likelihoods(model: AcousticModel, work: WorkFolder, part: str,
                    folder: ModelFolder) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each utterance of a part with the network's output, float32 (output frames, pdfs)."""
    factor = int(folder.options.get("frame-subsampling-factor", 1))
    computer = UtteranceComputer(prepare_for_test(model.nnet), ComputeOptions(
        frame_subsampling_factor=factor, frames_per_chunk=_FRAMES_PER_CHUNK, acoustic_scale=1.0), model.priors)
    ivectors = work.ivectors(part) / "ivector_online.scp"
    vectors = RandomAccessReader(f"scp:{ivectors}", FLOAT_MATRIX) if ivectors.is_file() else None
    with SequentialReader(f"scp:{work.features(part)}/feats.scp", FLOAT_MATRIX) as features:
        for key, frames in features:
            online = vectors.get(key) if vectors is not None else None
            yield key, computer.compute(frames, None, online, PERIOD if online is not None else 0)
    if vectors is not None:
        vectors.close()


def mismatched_utterances(excess: Mapping[str, float], usual: Sequence[float]) -> dict[str, str]:
    """Return utterances whose text is much less likely than the recognized words, each with the reason.

    ``excess``: :meth:`Aligner.excess` by utterance. ``usual``: values of :meth:`Aligner.excess` of the utterances to
    compare with; with fewer than 10, none is returned.
    """
    if len(usual) < _FEW:
        return {}
    median = float(np.median(usual))
    deviation = _DEVIATION_OF_MAD * float(np.median(np.abs(np.array(usual) - median)))
    limit = median + max(_LEAST_DIFFERENCE, _DEVIATIONS * deviation)
    return {key: f"the text does not fit the sound: other words are likelier by {value:.2f} per frame, "
                 f"where {median:.2f} is usual in these data" for key, value in excess.items() if value > limit}
