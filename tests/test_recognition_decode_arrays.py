"""Words and phones of arrays and sounds, with the demo model: "set a timer for ten minutes"."""
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.recognition.front_end import FrontEndOutput
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.transducers.fst_text import read_fst_file

TEXT = "set a timer for ten minutes"
GRAPH = f"{demo_folder()}/graph/HCLG.fst"
NUM_FRAMES = 90


@pytest.fixture(scope="module")
def sound() -> FrontEndOutput:
    return nnet3py.front_end(demo_folder())(str(DATA / "demo.wav"))


@pytest.fixture(scope="module")
def log_likes(sound: FrontEndOutput) -> np.ndarray:
    return np.asarray(nnet3py.compute(demo_folder(), *sound))


def test_log_likelihoods_and_features_have_the_same_words(sound: FrontEndOutput, log_likes: np.ndarray) -> None:
    decoded = nnet3py.decode(demo_folder(), log_likes)
    assert decoded.text == TEXT and decoded.words == tuple(TEXT.split()) and decoded.reached_final
    assert len(decoded.word_ids) == 6 and decoded.transition_ids.shape == (NUM_FRAMES,)
    others = nnet3py.decode(demo_folder(), sound), nnet3py.decode(demo_folder(), sound.features, ivector=sound.ivector)
    for other in others:
        np.testing.assert_array_equal(other.transition_ids, decoded.transition_ids)
    with pytest.raises(ShapeError, match="ivector"):
        nnet3py.decode(demo_folder(), sound.features)


def test_the_costs_are_those_of_the_path(log_likes: np.ndarray) -> None:
    model = nnet3py.read_model(demo_folder())
    for scale in (1.0, 0.5):
        decoded = nnet3py.decode(demo_folder(), log_likes, acoustic_scale=scale)
        pdfs = model.transition_model.transition_id_to_pdf[decoded.transition_ids]
        likelihood = float(log_likes[np.arange(NUM_FRAMES), pdfs].sum(dtype=np.float64))
        assert decoded.acoustic_cost == pytest.approx(-scale * likelihood, rel=1e-4)
        best = min(_path_costs(decoded.lattice))
        assert best == pytest.approx(decoded.graph_cost - likelihood, rel=1e-2)


def _path_costs(lattice: Any) -> list[float]:
    """The cost of every path."""
    def costs(state: int) -> list[float]:
        here = [float(lattice.final_weights[state].sum())] if np.isfinite(lattice.final_weights[state]).all() else []
        for arc in range(lattice.arc_starts[state], lattice.arc_starts[state + 1]):
            here += [float(lattice.weights[arc].sum()) + rest for rest in costs(int(lattice.next_states[arc]))]
        return here

    return costs(lattice.start)


@pytest.mark.parametrize("graph", [GRAPH, f"{demo_folder()}/graph", f"{demo_folder()}/graph-lookahead"])
def test_graphs_in_files(log_likes: np.ndarray, graph: str) -> None:
    assert nnet3py.decode(demo_folder(), log_likes, graph).text == TEXT
    assert nnet3py.decode(Path(demo_folder()) / "am" / "final.mdl", log_likes, Path(graph)).text == TEXT


def test_models_and_graphs_in_memory(log_likes: np.ndarray, sound: FrontEndOutput) -> None:
    model = nnet3py.read_model(demo_folder())
    transitions = model.transition_model
    assert nnet3py.decode(model, log_likes, GRAPH).text == TEXT             # words.txt beside the graph
    assert nnet3py.decode(model, sound, GRAPH).text == TEXT
    for graph in (read_fst_file(GRAPH), nnet3py.DecodingGraph.read(GRAPH, transitions)):
        decoded = nnet3py.decode(transitions, log_likes, graph)
        assert decoded.words == tuple(map(str, decoded.word_ids.tolist()))
        table = f"{demo_folder()}/graph/words.txt"
        for words in (table, SymbolTable.read(table)):
            assert nnet3py.decode(transitions, log_likes, graph, words=words).text == TEXT


def test_options_by_name_win_over_the_folder(log_likes: np.ndarray) -> None:
    def num_arcs(beam: float) -> int:
        return nnet3py.decode(demo_folder(), log_likes, options={"beam": 20, "lattice_beam": beam}).lattice.num_arcs

    narrow, wide = num_arcs(0.1), num_arcs(18)
    assert narrow < wide
    options = nnet3py.DecoderOptions(beam=20, lattice_beam=0.1)
    assert nnet3py.decode(demo_folder(), log_likes, options=options).lattice.num_arcs == narrow
    with pytest.raises(UsageError, match="--baem is not an option here.*did you mean --beam"):
        nnet3py.decode(demo_folder(), log_likes, options={"baem": 3})


def test_what_cannot_be_decoded(log_likes: np.ndarray, sound: FrontEndOutput, tmp_path: Path) -> None:
    model = nnet3py.read_model(demo_folder())
    with pytest.raises(ShapeError, match=r"expected log-likelihoods \(frames, 344\), or features of dimension 40"):
        nnet3py.decode(demo_folder(), log_likes[:, :-1])
    with pytest.raises(ShapeError, match=r"expected log-likelihoods \(frames, 344\), found"):
        nnet3py.decode(model.transition_model, sound.features, GRAPH)
    with pytest.raises(UsageError, match="cannot compute log-likelihoods of features"):
        nnet3py.decode(model.transition_model, sound, GRAPH)
    with pytest.raises(UsageError, match="no graph to search"):
        nnet3py.decode(model, log_likes)
    for scale in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="acoustic_scale"):
            nnet3py.decode(demo_folder(), log_likes, acoustic_scale=scale)
    (tmp_path / "am").mkdir()
    with pytest.raises(Nnet3Error, match="there is no acoustic model"):
        nnet3py.decode(tmp_path, log_likes)
    shutil.copy(f"{demo_folder()}/am/final.mdl", tmp_path / "am")
    with pytest.raises(Nnet3Error, match="there is no graph.*give graph="):
        nnet3py.decode(tmp_path, log_likes)
    assert nnet3py.decode(tmp_path, log_likes, GRAPH).text == TEXT          # the rest of the folder is not needed


SOUND, PHONES_TEXT = str(DATA / "demo.wav"), "set a timer for ten minutes"
PHONES_FRAMES = 90
HEARD = "SIL s E t @ t aI n @ f O@ t E n m eI d I t s SIL"
MOST_ERRORS = 30.0        # percent, without any language model; those of the words are 0


@pytest.fixture(scope="module")
def output() -> FrontEndOutput:
    return nnet3py.front_end(demo_folder())(SOUND)


@pytest.fixture(scope="module")
def phones_log_likes(output: FrontEndOutput) -> np.ndarray:
    return np.asarray(nnet3py.compute(demo_folder(), *output))


@pytest.fixture(scope="module")
def model() -> AcousticModel:
    return nnet3py.read_model(demo_folder())


def test_most_phones_are_those_of_the_aligned_text() -> None:
    decoded = nnet3py.decode_phones(demo_folder(), SOUND)
    aligned = nnet3py.align(demo_folder(), SOUND, PHONES_TEXT)
    errors = nnet3py.wer([[phone.phone.rsplit("_", 1)[0] for phone in aligned.phones]], [decoded.names])
    assert decoded.text == HEARD and errors.words == 21 and errors.wer < MOST_ERRORS


def test_phones_have_times() -> None:
    decoded = nnet3py.decode_phones(demo_folder(), SOUND)
    borders = [0, *(phone.end_frame for phone in decoded.phones)]
    assert [phone.first_frame for phone in decoded.phones] == borders[:-1] and borders[-1] == PHONES_FRAMES
    assert decoded.transition_ids.shape == (PHONES_FRAMES,) and decoded.seconds_per_frame == pytest.approx(0.03)
    for phone in decoded.phones:
        assert phone.start == pytest.approx(0.03 * phone.first_frame) and phone.end > phone.start
    aligned = nnet3py.align(demo_folder(), SOUND, PHONES_TEXT).phones
    for ours, theirs in zip(decoded.phones[:7], aligned[:7], strict=True):          # up to the first that differs
        assert ours.phone == theirs.phone.rsplit("_", 1)[0] and abs(ours.end - theirs.end) < 0.1


def test_sound_features_and_log_likelihoods_are_the_same(output: FrontEndOutput, phones_log_likes: np.ndarray,
                                                         model: AcousticModel) -> None:
    expected = nnet3py.decode_phones(demo_folder(), SOUND)
    for given in (nnet3py.decode_phones(demo_folder(), output), nnet3py.decode_phones(demo_folder(), phones_log_likes),
                  nnet3py.decode_phones(model, output.features, ivector=output.ivector,
                                        phones=f"{demo_folder()}/graph/phones.txt"),
                  nnet3py.decode_phones(f"{demo_folder()}/am/final.mdl", output)):
        assert given.phones == expected.phones and given.log_likelihood == pytest.approx(expected.log_likelihood)
    numbers = nnet3py.decode_phones(model.transition_model, phones_log_likes)
    assert all(name.isdecimal() for name in numbers.names) and numbers.seconds_per_frame == 0.01
    assert nnet3py.decode_phones(model.transition_model, phones_log_likes, phones={1: "quiet"}).names[0] == "quiet"


def test_a_cost_for_each_phone_makes_fewer(phones_log_likes: np.ndarray) -> None:
    counts = [len(nnet3py.decode_phones(demo_folder(), phones_log_likes, insertion_penalty=cost).phones)
              for cost in (-4, 0, 4)]
    assert counts[0] > counts[1] > counts[2] > 1


def test_priors_are_divided_out(output: FrontEndOutput, phones_log_likes: np.ndarray, model: AcousticModel) -> None:
    """Self-loops and log-likelihoods are then scaled as Kaldi's scripts do for such models."""
    priors = np.random.default_rng(0).dirichlet(np.full(model.transition_model.num_pdfs, 3.0)).astype(np.float32)
    with_priors = AcousticModel(model.transition_model, model.nnet, priors)
    found = nnet3py.decode_phones(with_priors, output)
    given = nnet3py.decode_phones(with_priors, phones_log_likes - np.log(priors))
    assert found.phones == given.phones and found.names != nnet3py.decode_phones(model, output).names
    short = AcousticModel(model.transition_model, model.nnet, priors[:-1])
    with pytest.raises(ShapeError, match="343 priors, its network 344 outputs"):
        nnet3py.decode_phones(short, output)


def test_a_folder_without_a_graph_will_do(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(demo_folder(), tmp_path / "model"))
    shutil.move(folder / "graph" / "phones.txt", folder / "am" / "phones.txt")
    shutil.rmtree(folder / "graph")
    shutil.rmtree(folder / "graph-lookahead")
    assert nnet3py.decode_phones(folder, SOUND).text == HEARD
    with pytest.raises(Nnet3Error, match="there is no graph.*decode_phones needs none"):
        nnet3py.decode(folder, np.zeros((3, 344), np.float32))
    (folder / "conf" / "mfcc.conf").unlink()
    with pytest.raises(Nnet3Error, match="cannot be used for recognition: .*mfcc.conf"):
        nnet3py.decode_phones(folder, SOUND)


def test_what_cannot_be_decoded_to_phones(model: AcousticModel, output: FrontEndOutput,
                                          phones_log_likes: np.ndarray) -> None:
    with pytest.raises(UsageError, match="give the folder of the model, or features"):
        nnet3py.decode_phones(model, SOUND)
    with pytest.raises(UsageError, match="a transition model cannot compute"):
        nnet3py.decode_phones(model.transition_model, output)
    with pytest.raises(ShapeError, match=r"expected log-likelihoods \(frames, 344\), or features of dimension 40"):
        nnet3py.decode_phones(model, np.zeros((5, 7), np.float32))
    with pytest.raises(Nnet3Error, match="there are no frames"):
        nnet3py.decode_phones(demo_folder(), np.zeros(10, np.int16), 16000)
    with pytest.raises(UsageError, match="give it after them"):
        nnet3py.decode_phones(demo_folder(), np.zeros(16000, np.int16))
    with pytest.raises(UsageError, match="acoustic_scale=0"):
        nnet3py.decode_phones(model, phones_log_likes, acoustic_scale=0.0)
    with pytest.raises(UsageError, match="a phone language model needs the tree"):
        nnet3py.decode_phones(model, phones_log_likes, phone_lm=f"{demo_folder()}/graph/HCLG.fst")
