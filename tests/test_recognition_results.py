"""Results: words aligned, rescored, alternatives; segments joined. Compared with Kaldi's commands on its lattices."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lattice_cases import LATTICE_DATA, check_same_words, kaldi_lattices
from recognition_cases import RATE, dialogue, recognized
from rnnlm_cases import rnnlm_folder

from nnet3py.decoding.symbols import SymbolTable
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.paths import best_path, path_of
from nnet3py.lattices.pruning import pruned
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.recognition import results
from nnet3py.recognition.results import Result, ResultMaker, aligner, rescorer
from nnet3py.rnnlm.model import RnnLanguageModel
from nnet3py.transducers.compact_lattice import CompactLattice

DATA = LATTICE_DATA / "data"
SHIFT, SCALE, BEAM = 0.03, 0.5, 5.0      # of the lattices in the folder ctm-conf
COST = 1.0e-3                            # sums of costs that were taken off and added again, in single precision
LAST_DIGIT = 0.0051                      # of a CTM


def maker(**more: object) -> ResultMaker:
    model = read_object(str(DATA / "trans.mdl"), TransitionModel.read)
    return ResultMaker(SymbolTable.read(str(DATA / "words.txt")), model, SHIFT, SCALE, **more)    # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["word_boundary.int", "align_lexicon.int"])
def test_words_times_and_confidences_are_kaldis(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(results, "_CONFIDENCE_SCALES", Scales())
    names = ("", str(DATA / name)) if "lexicon" in name else (str(DATA / name), "")
    make = maker(align=aligner(maker().model, *names))
    ctm = {line.split()[0]: line.split()[2:] for line in (LATTICE_DATA / "ctm-conf" / "ctm").read_text().splitlines()}
    for key, lattice in kaldi_lattices("decode/lat.ark").items():
        narrow = pruned(scaled(lattice, Scales(1.0, SCALE)), BEAM)
        word, = make.result(narrow, 0, 60).words
        begin, length, number, confidence = ctm[key]
        assert make.words[word.word] == int(number)
        assert (word.start, word.end - word.start, word.confidence) == pytest.approx(
            (float(begin), float(length), float(confidence)), abs=LAST_DIGIT)


def test_alternatives_have_kaldis_costs() -> None:
    make = maker()
    for lattice in kaldi_lattices("decode/lat.ark").values():
        result = make.result(scaled(lattice, Scales(1.0, SCALE)), 100, 60)
        assert (result.start, result.end) == (3.0, 4.8)
        best = path_of(best_path(scaled(lattice, Scales(1.0, SCALE))))        # type: ignore[arg-type]
        assert best is not None and result.nbest[0] == (make.words.text(best.words), pytest.approx(best.cost))
        costs = [cost for _, cost in result.best(5)]
        assert len(costs) == 5 and costs == sorted(costs)
        assert np.allclose(result.lattice.weights, lattice.weights, rtol=1e-5)


def test_rescoring_is_kaldis() -> None:
    rescore = rescorer(str(LATTICE_DATA / "graph-grammar" / "G.fst"), str(LATTICE_DATA / "const-arpa" / "G.carpa"))
    make = maker(rescore=rescore)
    expected = kaldi_lattices("rescore-const-arpa/lat.ark")
    for key, lattice in kaldi_lattices("decode/lat.ark").items():
        best = path_of(best_path(scaled(expected[key], Scales(1.0, SCALE))))   # type: ignore[arg-type]
        text, cost = make.result(scaled(lattice, Scales(1.0, SCALE)), 0, 60).nbest[0]
        assert best is not None and text == make.words.text(best.words) and cost == pytest.approx(best.cost, abs=COST)
    assert rescorer("", "") is None and aligner(make.model, "", "") is None


def test_rescoring_with_an_rnn_is_what_the_programs_do(tmp_path: Path) -> None:
    """lattice-lmrescore-kaldi-rnnlm-pruned, with vosk's options, on what the const-ARPA made of lattices."""
    model = RnnLanguageModel(rnnlm_folder(tmp_path, "tdnn"))
    grammars = str(LATTICE_DATA / "graph-grammar" / "G.fst"), str(LATTICE_DATA / "const-arpa" / "G.carpa")
    with_rnn, without = maker(rescore=rescorer(*grammars, model)), maker(rescore=rescorer(*grammars))
    differ = 0
    for lattice in kaldi_lattices("decode/lat.ark").values():
        narrow = scaled(lattice, Scales(1.0, SCALE))
        result, before = with_rnn.result(narrow, 0, 60), without.result(narrow, 0, 60)
        expected = model.rescore(before.lattice, grammars[1], scale=0.5, acoustic_scale=SCALE, max_ngram_order=4,
                                 pruning=PrunedCompositionOptions(beam=3.0, max_arcs=3000))
        check_same_words(scaled(result.lattice, Scales(1.0, SCALE)), scaled(expected, Scales(1.0, SCALE)), COST)
        differ += result.nbest[0] != before.nbest[0]
    assert differ


def test_a_lattice_that_rescoring_empties_stays(caplog: pytest.LogCaptureFixture) -> None:
    lattice = next(iter(kaldi_lattices("decode/lat.ark").values()))
    result = maker(rescore=lambda lattice: CompactLattice.empty()).result(lattice, 0, 60)
    assert result.words and "no path" in caplog.text


def test_segments_are_joined() -> None:
    whole = recognized()
    first, second = whole.segments[:2]
    assert whole.text.startswith(f"{first.text} {second.text}") and second.segments == (second,)
    assert second.start == first.end and whole.end == pytest.approx(len(dialogue()) / RATE, abs=0.05)
    both = Result.joined([first, second])
    texts = [a.text + " " + b.text for a in first.nbest for b in second.nbest]
    sums = sorted(a.cost + b.cost for a in first.nbest for b in second.nbest)[:10]
    assert [cost for _, cost in both.nbest] == pytest.approx(sums, abs=0.01) and both.nbest[0].text == texts[0]


def test_nothing() -> None:
    result = maker().result(CompactLattice.empty(), 7, 0)
    assert result.words == () and result.text == "" and result.nbest == [] and result.start == result.end
