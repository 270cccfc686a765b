"""Phones of sounds, features and log-likelihoods, with the model that comes with the package."""
from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.recognition.front_end import FrontEndOutput
from nnet3py.recognition.model_folder import demo_folder

SOUND, TEXT = str(DATA / "demo.wav"), "set a timer for ten minutes"
NUM_FRAMES = 90
HEARD = "SIL s E t @ t aI n @ f O@ t E n m eI d I t s SIL"
MOST_ERRORS = 30.0        # percent, without any language model; those of the words are 0


@pytest.fixture(scope="module")
def output() -> FrontEndOutput:
    return nnet3py.front_end(demo_folder())(SOUND)


@pytest.fixture(scope="module")
def log_likes(output: FrontEndOutput) -> np.ndarray:
    return np.asarray(nnet3py.compute(demo_folder(), *output))


@pytest.fixture(scope="module")
def model() -> AcousticModel:
    return nnet3py.read_model(demo_folder())


def test_most_phones_are_those_of_the_aligned_text() -> None:
    decoded = nnet3py.decode_phones(demo_folder(), SOUND)
    aligned = nnet3py.align(demo_folder(), SOUND, TEXT)
    errors = nnet3py.wer([[phone.phone.rsplit("_", 1)[0] for phone in aligned.phones]], [decoded.names])
    assert decoded.text == HEARD and errors.words == 21 and errors.wer < MOST_ERRORS


def test_phones_have_times() -> None:
    decoded = nnet3py.decode_phones(demo_folder(), SOUND)
    borders = [0, *(phone.end_frame for phone in decoded.phones)]
    assert [phone.first_frame for phone in decoded.phones] == borders[:-1] and borders[-1] == NUM_FRAMES
    assert decoded.transition_ids.shape == (NUM_FRAMES,) and decoded.seconds_per_frame == pytest.approx(0.03)
    for phone in decoded.phones:
        assert phone.start == pytest.approx(0.03 * phone.first_frame) and phone.end > phone.start
    aligned = nnet3py.align(demo_folder(), SOUND, TEXT).phones
    for ours, theirs in zip(decoded.phones[:7], aligned[:7], strict=True):          # up to the first that differs
        assert ours.phone == theirs.phone.rsplit("_", 1)[0] and abs(ours.end - theirs.end) < 0.1


def test_sound_features_and_log_likelihoods_are_the_same(output: FrontEndOutput, log_likes: np.ndarray,
                                                         model: AcousticModel) -> None:
    expected = nnet3py.decode_phones(demo_folder(), SOUND)
    for given in (nnet3py.decode_phones(demo_folder(), output), nnet3py.decode_phones(demo_folder(), log_likes),
                  nnet3py.decode_phones(model, output.features, ivector=output.ivector,
                                        phones=f"{demo_folder()}/graph/phones.txt"),
                  nnet3py.decode_phones(f"{demo_folder()}/am/final.mdl", output)):
        assert given.phones == expected.phones and given.log_likelihood == pytest.approx(expected.log_likelihood)
    numbers = nnet3py.decode_phones(model.transition_model, log_likes)
    assert all(name.isdecimal() for name in numbers.names) and numbers.seconds_per_frame == 0.01
    assert nnet3py.decode_phones(model.transition_model, log_likes, phones={1: "quiet"}).names[0] == "quiet"


def test_a_cost_for_each_phone_makes_fewer(log_likes: np.ndarray) -> None:
    counts = [len(nnet3py.decode_phones(demo_folder(), log_likes, insertion_penalty=cost).phones)
              for cost in (-4, 0, 4)]
    assert counts[0] > counts[1] > counts[2] > 1


def test_priors_are_divided_out(output: FrontEndOutput, log_likes: np.ndarray, model: AcousticModel) -> None:
    """Self-loops and log-likelihoods are then scaled as Kaldi's scripts do for such models."""
    priors = np.random.default_rng(0).dirichlet(np.full(model.transition_model.num_pdfs, 3.0)).astype(np.float32)
    with_priors = AcousticModel(model.transition_model, model.nnet, priors)
    found = nnet3py.decode_phones(with_priors, output)
    given = nnet3py.decode_phones(with_priors, log_likes - np.log(priors))
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


def test_what_cannot_be_decoded(model: AcousticModel, output: FrontEndOutput, log_likes: np.ndarray) -> None:
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
        nnet3py.decode_phones(model, log_likes, acoustic_scale=0.0)
    with pytest.raises(UsageError, match="a phone language model needs the tree"):
        nnet3py.decode_phones(model, log_likes, phone_lm=f"{demo_folder()}/graph/HCLG.fst")
