"""Stage 6: chain examples with the model's topology and tree; the denominator has old and new phone sequences."""
from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from nnet3py.chain.den_fst import make_den_fst
from nnet3py.chain.normalization import normalization_fst
from nnet3py.chain.options import PhoneLmOptions
from nnet3py.chain.phone_lm import PhoneLmEstimator
from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.drivers.data_folder import read_list, write_list
from nnet3py.drivers.executor import Executor
from nnet3py.drivers.make_chain_egs import make_chain_egs
from nnet3py.drivers.options import ChainEgsOptions
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.features import trained_parts
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.streams import write_text
from nnet3py.io.tables import SequentialReader
from nnet3py.network.model_file import read_nnet
from nnet3py.recognition.model_folder import read_model_folder
from nnet3py.transducers.fst_text import write_fst_file

logger = logging.getLogger(__name__)

NO_NORMALIZATION = "--norm-means=false --norm-vars=false"      # features are as the network takes them
TOLERANCE = 1                     # output frames by which phones may begin earlier and end later
LM_STATES = 1000                  # of the phone language model, besides those of pairs of phones
FRAMES_PER_ITER = 150_000
_WIDTHS = (150, 100, 60, 30)      # input frames of examples; only widths that most utterances exceed are used
_LONGER = 0.6                     # fraction of the utterances that count as most


def run(work: WorkFolder, options: FineTuneOptions, executor: Executor) -> None:
    """Write ``egs/``, and in ``train/`` the tree, the transition model and the denominator for training."""
    folder = read_model_folder(options.model)
    factor = int(folder.options.get("frame-subsampling-factor", 1))
    make_graphs(work, options)
    data, ivectors, held_out = _together(work)
    left, right = compute_simple_nnet_context(read_nnet(str(work.model / "final.mdl")))
    shift = factor // 2
    egs_options = ChainEgsOptions(
        frames_per_eg=chunk_widths([int(count) for count in read_list(data / "utt2num_frames").values()]),
        left_context=left + shift, right_context=right + shift, frame_subsampling_factor=factor,
        alignment_subsampling_factor=1, left_tolerance=TOLERANCE, right_tolerance=TOLERANCE,
        frames_per_iter=FRAMES_PER_ITER, srand=options.srand, nj=options.nj, cmvn_opts=NO_NORMALIZATION,
        online_ivector_dir=str(ivectors) if ivectors else None, valid_uttlist=str(held_out), num_egs_diagnostic=300,
        num_train_egs_combine=200, num_valid_egs_combine=200, num_utts_subset=50)
    make_chain_egs(data, work.train, work.align, work.egs, egs_options, executor)


def make_graphs(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write tree, 0.trans_mdl, phone_lm.fst, den.fst and normalization.fst. Raises Nnet3Error without a tree."""
    if not (work.model / "tree").is_file():
        raise Nnet3Error("there is no tree, and none was recovered from the graph: no denominator graph can be made",
                         "put the file 'tree' of the model's training into its folder")
    work.train.mkdir(parents=True, exist_ok=True)
    model = read_object(work.model / "final.mdl", TransitionModel.read)
    tree = read_object(work.model / "tree", ContextDependency.read)
    aligned = _aligned_phones(work, model)
    old = []
    if (work.model / "phones.ark").is_file():
        with SequentialReader(f"ark:{work.model}/phones.ark", INT_VECTOR) as drawn:
            old = [phones for _, phones in drawn]
    phone_lm = PhoneLmEstimator(PhoneLmOptions(num_extra_lm_states=LM_STATES))
    for phones in mixed(old + aligned.get("old_data", []), aligned.get("train", []), options.lm_weight):
        phone_lm.add(phones)
    for held_out in aligned.get("held_out", []):     # once: the denominator must accept held-out examples
        phone_lm.add(held_out.tolist())
    lm_fst = phone_lm.estimate()
    den = make_den_fst(tree, model, lm_fst)
    shutil.copyfile(work.model / "tree", work.train / "tree")
    write_object(str(work.train / "0.trans_mdl"), model.write)
    write_fst_file(work.train / "phone_lm.fst", lm_fst)
    write_fst_file(work.train / "den.fst", den)
    write_fst_file(work.train / "normalization.fst", normalization_fst(den))


def mixed(old: Sequence[np.ndarray], new: Sequence[np.ndarray], weight: float) -> Iterator[list[int]]:
    """Yield each old phone sequence once, and the new ones so often that they have about ``weight`` of all phones.

    Each new sequence is yielded at least once.
    """
    num_old, num_new = (sum(map(len, sequences)) for sequences in (old, new))
    times = 1
    if num_old and num_new and weight < 1.0:
        times = max(1, round(weight / (1.0 - weight) * num_old / num_new))
    for phones in old:
        yield phones.tolist()
    for _ in range(times):
        for phones in new:
            yield phones.tolist()


def _aligned_phones(work: WorkFolder, model: TransitionModel) -> dict[str, list[np.ndarray]]:
    """Return the phone sequences of the alignments, by part of the data.

    If the copies of an utterance have different sequences (other pauses or pronunciations), each of these is returned
    once.
    """
    part_of: dict[str, tuple[str, str]] = {
        key: (part, original) for part in trained_parts(work)
        for key, original in read_list(work.features(part) / "utt2uniq").items()}
    phones_of: dict[str, dict[tuple[str, bytes], np.ndarray]] = {}
    with SequentialReader(f"ark:gunzip -c {work.align}/ali.1.gz |", INT_VECTOR) as reader:
        for key, ids in reader:
            part, original = part_of[key]
            starts, _ = phone_starts(model, ids)
            phones = model.transition_id_to_phone[ids[starts]]
            phones_of.setdefault(part, {})[original, phones.tobytes()] = phones
    return {part: list(sequences.values()) for part, sequences in phones_of.items()}


def chunk_widths(lengths: Sequence[int]) -> str:
    """Choose the ``--chunk-width`` for utterances of these numbers of frames, such as ``100,60,30``."""
    least = np.sort(np.array(lengths))[int((1.0 - _LONGER) * (len(lengths) - 1))]
    fitting = [width for width in _WIDTHS if width <= least] or [_WIDTHS[-1]]
    return ",".join(map(str, fitting))


def _together(work: WorkFolder) -> tuple[Path, Path | None, Path]:
    """Join the aligned parts of the data in one data folder.

    Returns the data folder, the folder of i-vectors (None without i-vectors), and the file that lists the held-out
    utterances.
    """
    data, ivectors = work.path / "egs_data", work.path / "egs_ivectors"
    with SequentialReader(f"ark:gunzip -c {work.align}/ali.1.gz |", INT_VECTOR) as reader:
        aligned = {key for key, _ in reader}

    def joined_list(name: str, folder_of: Callable[[str], Path]) -> dict[str, str]:
        lists = [read_list(folder_of(part) / name) for part in trained_parts(work)]
        entries = {key: value for each in lists for key, value in each.items() if key in aligned}
        return dict(sorted(entries.items()))

    data.mkdir(exist_ok=True)
    for name in ("feats.scp", "utt2spk", "utt2uniq", "utt2num_frames", "text"):
        write_list(data / name, joined_list(name, work.features))
    held_out = [key for key in read_list(work.features("held_out") / "utt2spk") if key in aligned]
    write_text(str(data / "held_out"), "".join(f"{key}\n" for key in held_out))
    if not (work.ivectors("train") / "ivector_online.scp").is_file():
        return data, None, data / "held_out"
    ivectors.mkdir(exist_ok=True)
    write_list(ivectors / "ivector_online.scp", joined_list("ivector_online.scp", work.ivectors))
    shutil.copyfile(work.ivectors("train") / "ivector_period", ivectors / "ivector_period")
    return data, ivectors, data / "held_out"
