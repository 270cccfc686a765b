"""Stages of fine-tuning on a small recognizer without tree, lexicon, word boundaries: parts, features, alignments."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from io_samples import read_table
from recognition_cases import PACKAGE, SOUNDS, samples_of

from nnet3py.acoustic_model import read_model
from nnet3py.decoding.lattice_decoder import Decoder
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.drivers.data_folder import read_list, write_list
from nnet3py.errors import FormatError
from nnet3py.fine_tuning import align, egs, features, model
from nnet3py.fine_tuning import folder as new_folder
from nnet3py.fine_tuning.plan import OLD_MARK, FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.train import interpolated, rate_factors
from nnet3py.fine_tuning.words import renumbered_words, union_of_graphs
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.network.model_file import read_nnet
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.transducers.fst import NO_WEIGHT, Fst

pytest.importorskip("kaldifst")

TEXTS = {"utt1": "five two nine five", "utt2": "seven zero three", "utt3": "eight five six four"}
SPEEDS = (1.0, 1.1)
SAME = 1e-5                   # of sums of squares of float32 parameters


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> WorkFolder:
    """Up to the alignments: utt1 and utt2 to train on, the latter once more with other words; utt3 held out, and of the
    old domain."""
    folder = WorkFolder(tmp_path_factory.mktemp("work"))
    options = FineTuneOptions(dir=str(folder.path), model=str(PACKAGE), data="data", out="new", volume_perturb=False)
    sounds = {path.stem: f"{path}" for path in SOUNDS}
    for part, utterances in (("train", {"utt1": sounds["utt1"], "utt2": sounds["utt2"], "wrong": sounds["utt2"]}),
                             ("held_out", {"utt3": sounds["utt3"]}), ("old_data", {"old-utt3": sounds["utt3"]})):
        folder.data(part).mkdir(parents=True)
        write_list(folder.data(part) / "wav.scp", utterances)
        write_list(folder.data(part) / "text", {key: TEXTS.get(key.removeprefix(OLD_MARK), "one unheard-of")
                                                       for key in utterances})
        write_list(folder.data(part) / "utt2spk", dict.fromkeys(utterances, "speaker"))
    monkey = pytest.MonkeyPatch()
    monkey.setattr(model, "NUM_SENTENCES", 200)
    model.run(folder, options)
    monkey.undo()
    folder.lang.mkdir()
    SymbolTable.read(str(PACKAGE / "graph" / "words.txt")).write(str(folder.lang / "words.txt"))
    models = features.folder_pipeline(features.read_model_folder(options.model))
    for part, speeds in (("train", SPEEDS), ("held_out", (1.0,)), ("old_data", (1.0,))):
        features.make_features(models, folder.data(part), folder.features(part), folder.ivectors(part), speeds)
    align.run(folder, options)
    return folder


def matrices(scp: Path) -> dict[str, np.ndarray]:
    return read_table(f"scp:{scp}", FLOAT_MATRIX)


@pytest.mark.parametrize("is_old", [False, True])
def test_the_new_folder_says_what_is_new_in_it(tmp_path: Path, is_old: bool) -> None:
    work = WorkFolder(tmp_path / "work")
    work.train.mkdir(parents=True)
    work.final_model.write_bytes(b"new parameters")
    work.choice.write_text(json.dumps({"is_old": is_old}))
    new_folder.run(work, FineTuneOptions(dir=str(work.path), model=str(PACKAGE), data="data", out="new"))
    words = "the parameters are the old ones" if is_old else "the parameters are new"
    assert f"{words}, the graph is the old one." in (work.new_model / new_folder.NOTE).read_text()
    assert (work.new_model / "am" / "final.mdl").read_bytes() == b"new parameters"
    work.graph.mkdir()
    (work.graph / "other.fst").touch()
    new_folder.run(work, FineTuneOptions(dir=str(work.path), model=str(PACKAGE), data="data", out="new"))
    assert f"{words}, the graph is new." in (work.new_model / new_folder.NOTE).read_text()


def test_what_cannot_be_had_is_said_in_a_line(work):
    notes = (work.model / "notes.txt").read_text().splitlines()
    assert any("without phones/word_boundary.int" in note for note in notes)
    assert not (work.model / "lexicon.txt").exists() and (work.model / "phones.ark").exists()


def test_feat_are_those_of_a_stream_at_every_speed(work):
    made, ivectors = (matrices(folder / name) for folder, name in (
        (work.features("train"), "feats.scp"), (work.ivectors("train"), "ivector_online.scp")))
    assert sorted(made) == list(made) == [f"sp{speed:g}-{key}" for speed in SPEEDS for key in ("utt1", "utt2", "wrong")]
    models = features.folder_pipeline(features.read_model_folder(PACKAGE))
    stream = features.inputs_of(models, samples_of(SOUNDS[0]).astype(np.float32), 16000.0)
    assert np.array_equal(made["sp1-utt1"], stream.features) and np.array_equal(ivectors["sp1-utt1"], stream.ivectors)
    assert len(ivectors["sp1-utt1"]) == -(-len(made["sp1-utt1"]) // features.PERIOD)
    assert len(made["sp1.1-utt1"]) == pytest.approx(len(made["sp1-utt1"]) / 1.1, abs=3)      # frames, at the ends
    assert read_list(work.features("train") / "utt2uniq")["sp1.1-utt2"] == "utt2"


def test_alignments_have_the_words_and_others_are_set_aside(work):
    transitions = read_object(work.align / "final.mdl", TransitionModel.read)
    aligned = read_table(f"ark:gunzip -c {work.align}/ali.1.gz |", INT_VECTOR)
    assert sorted(aligned) == ["old-utt3", "sp1-utt1", "sp1-utt2", "sp1.1-utt1", "sp1.1-utt2", "utt3"]
    frames = read_list(work.features("train") / "utt2num_frames")
    for key, ids in aligned.items():
        assert phone_starts(transitions, ids)[1]
        if key in frames:
            assert len(ids) == -(-int(frames[key]) // 3)
    aside = work.set_aside.read_text().splitlines()
    assert len(aside) == 2 and all("unheard-of" in line for line in aside)


def test_the_denominator_has_the_phones_of_all_that_was_aligned(work):
    transitions = read_object(work.align / "final.mdl", TransitionModel.read)
    phones = egs._aligned_phones(work, transitions)
    assert list(phones) == ["old_data", "train", "held_out"] and len(phones["held_out"]) == len(phones["old_data"]) == 1
    assert 2 <= len(phones["train"]) <= 4, "both utterances, at each speed if these differ"
    assert np.array_equal(phones["held_out"][0], phones["old_data"][0]), "the same sound"


def test_old_data_are_trained_on_but_are_not_new(work):
    data, ivectors, held_out = egs._together(work)
    utterances = ["old-utt3", "sp1-utt1", "sp1-utt2", "sp1.1-utt1", "sp1.1-utt2", "utt3"]
    assert list(read_list(data / "feats.scp")) == list(read_list(data / "text")) == utterances
    assert ivectors is not None and list(read_list(ivectors / "ivector_online.scp")) == utterances
    assert held_out.read_text() == "utt3\n"


def test_other_words_are_less_likely_than_what_is_recognized(work):
    folder = features.read_model_folder(PACKAGE)
    nnet = read_model(work.model / "final.mdl")
    transitions = nnet.transition_model
    aligner = align.Aligner(transitions, SymbolTable.read(str(work.lang / "words.txt")),
                            align._graphs(work, folder, transitions),
                            Decoder(align._graph_of_all_words(work, folder, transitions), transitions))
    for key, log_likes in align.log_likelihoods(nnet, work, "held_out", folder):
        right = aligner.align(TEXTS[key].split(), log_likes)
        assert abs(aligner.excess(right, log_likes)) < align._LEAST_DIFFERENCE
        other = aligner.align(TEXTS["utt2"].split(), log_likes)
        assert aligner.excess(other, log_likes) > align._LEAST_DIFFERENCE


def test_a_text_is_judged_by_the_copy_at_its_own_speed():
    copies = {"sp0.9-a": "a", "sp1-a": "a", "sp1.1-a": "a", "b": "b"}
    assert [align._unchanged(key, copies) for key in ("a", "b")] == ["sp1-a", "b"]


def test_words_that_are_not_heard_stand_out():
    usual = [0.01 * (number % 10) for number in range(20)]
    reasons = align.mismatched_utterances({"good": 0.2, "bad": 0.4}, usual)
    assert list(reasons) == ["bad"] and "likelier by 0.40 per frame, where 0.04 is usual" in reasons["bad"]
    few = [0.0] * 9
    assert not align.mismatched_utterances({"a": 0.1, "b": 9.0}, few), "nine say nothing about what is usual"
    assert list(align.mismatched_utterances({"a": 0.2, "b": 0.201}, [*few, 0.0])) == ["b"]
    usual = [-0.5, 0.5] * 5                 # 6 standard deviations, of which the median deviation is 1 / 1.4826
    limit = 6.0 * 1.4826 * 0.5
    assert list(align.mismatched_utterances({"a": limit - 0.001, "b": limit + 0.001}, usual)) == ["b"]


def test_old_and_new_phones_are_mixed_by_weight():
    old, new = [np.array([1, 2, 3, 4])] * 30, [np.array([5, 6])] * 2
    for weight, part in ((0.5, 0.5), (0.25, 0.25), (0.0, 0.032)):      # all are there at least once: 4 of 124
        phones = [phone for sequence in egs.mixed(old, new, weight) for phone in sequence]
        assert sum(phone > 4 for phone in phones) / len(phones) == pytest.approx(part, abs=0.01)
    ones = [np.array([phone]) for phone in range(6)]
    for weight, times in ((0.5, 2), (0.6, 3), (0.2, 1), (0.0, 1), (1.0, 1)):
        assert list(egs.mixed(ones[:4], ones[4:], weight)) == [[0], [1], [2], [3], *([[4], [5]] * times)]
    assert list(egs.mixed([], ones[:2], 0.9)) == [[0], [1]] and list(egs.mixed(ones[:2], [], 0.9)) == [[0], [1]]
    for lengths, widths in (([90, 160, 170, 200, 300], "150,100,60,30"), ([10, 20], "30"), ([30], "30"),
                            ([0, 0, 150, 150, 150, 150], "150,100,60,30"), ([0, 0, 149, 150, 150, 150], "100,60,30"),
                            ([0, 0, 0, 150, 150, 150], "30"), ([99, 300], "60,30"), ([100], "100,60,30")):
        assert egs.chunk_widths(lengths[::-1]) == widths


def test_layers_and_the_way_back():
    nnet = read_nnet(f"{demo_folder()}/am/final.mdl")
    last, upper, lower, every = (rate_factors(nnet, layers) for layers in ("last", "upper", "lower", "all"))
    names = list(every)
    assert lower == {name: 1.0 - upper[name] for name in names}
    assert last[names[0]] == upper[names[0]] == 0.0 < every[names[0]] < 1.0
    assert last[names[-1]] == upper[names[-1]] == every[names[-1]] == 1.0
    assert 0 < sum(last.values()) < sum(upper.values()) < sum(every.values())
    other = nnet.copy()
    other.scale(3.0)
    halfway = interpolated(other, nnet, 0.5)               # of 3 and 1 times the parameters
    assert halfway.squares() == pytest.approx(4.0 * nnet.squares(), rel=SAME) and nnet.squares().max() > 0.0


def acceptor(label: int) -> Fst:
    return Fst.from_arcs(0, np.array([NO_WEIGHT, 0.5]), [0], [label], [label], [0.25], [1])


def test_graphs_side_by_side():
    joined = union_of_graphs(acceptor(7), acceptor(9), 0.2)
    starts = {int(joined.next_states[arc]): float(joined.weights[arc]) for arc in range(2)}
    assert sorted(starts.values()) == pytest.approx([-np.log(0.8), -np.log(0.2)])
    cheap = min(starts, key=starts.__getitem__)
    arc = int(joined.arc_starts[cheap])
    assert joined.input_labels[arc] == 7 and joined.final_weights[joined.next_states[arc]] == 0.5
    words, others = SymbolTable.of([*"abcdefg"]), SymbolTable.of([*"gfedcba"])
    assert renumbered_words(acceptor(7), words, others).output_labels.tolist() == [1]
    with pytest.raises(FormatError, match="the word g"):
        renumbered_words(acceptor(7), words, SymbolTable.of(["a"]))
