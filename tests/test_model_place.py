"""What a model folder says of its model: all that compute with it, or export it, take the same factor from it."""
from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.errors import FormatError, UsageError
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.network.model_place import model_in, subsampling_beside, subsampling_of_folder
from nnet3py.recognition.model_folder import demo_folder, look_at_folder

FRAMES = 20
CONFIG = """
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=3 output-dim={pdfs}
component-node name=affine component=affine input=input
output-node name=output input=affine
"""


def make(folder: Path, files: dict[str, str]) -> Path:
    """A model folder of an acoustic model, the first of ``files``, and texts."""
    transitions = nnet3py.read_model(str(DATA / "network" / "am-priors.mdl")).transition_model
    for number, (name, text) in enumerate(files.items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if number:
            (folder / name).write_text(text)
        else:
            nnet = nnet3py.Nnet.from_config(CONFIG.format(pdfs=transitions.num_pdfs), seed=1)
            AcousticModel(transitions, nnet).write(folder / name)
    return folder


PUBLISHED, PLAIN = {"am/final.mdl": ""}, {"final.mdl": ""}
OLD = {**PLAIN, "mfcc.conf": "", "HCLG.fst": ""}
FACTORS = {
    "published": ({**PUBLISHED, "conf/model.conf": "--beam=10   # options\n--frame-subsampling-factor=3\n"}, 3),
    "published, two in a line": ({**PUBLISHED, "conf/model.conf": "--beam=10 --frame-subsampling-factor=2\n"}, 2),
    "published, says nothing": ({**PUBLISHED, "conf/model.conf": "--beam=10\n"}, None),
    "published, no conf": ({**PUBLISHED, "am/frame_subsampling_factor": "2\n"}, 2),
    "old, says nothing": (OLD, 3),
    "old": ({**OLD, "model.conf": "--frame_subsampling_factor=2\n"}, 2),
    "online": ({**PLAIN, "conf/online.conf": "--frame-subsampling-factor=2\n", "frame_subsampling_factor": "3\n"}, 2),
    "training": ({**PLAIN, "frame_subsampling_factor": "3\n"}, 3),
    "training, options": ({**PLAIN, "conf/model.conf": "--frame-subsampling-factor=2\n",
                           "frame_subsampling_factor": "3\n"}, 2),
    "nothing": (PLAIN, None),
}


@pytest.mark.parametrize("name", FACTORS)
def test_everything_takes_the_factor_of_the_folder(tmp_path: Path, name: str) -> None:
    files, factor = FACTORS[name]
    folder, model = make(tmp_path, files), str(tmp_path / next(iter(files)))
    rows = -(-FRAMES // (factor or 1))
    feats = np.ones((FRAMES, 3), np.float32)
    assert model_in(folder) == model_in(model) == model
    assert subsampling_of_folder(str(folder)) == factor and subsampling_beside(model) == (factor or 1)
    assert look_at_folder(folder).options.get("frame-subsampling-factor") == factor
    for given in (folder, model, nnet3py.read_model(folder), nnet3py.read_nnet(str(folder))):
        assert len(nnet3py.compute(given, feats)) == rows
        assert len(nnet3py.compute(given, feats, frame_subsampling_factor=5)) == FRAMES // 5
        assert graph_of(given, ExportOptions()).frame_subsampling_factor == (factor or 1)
        assert graph_of(given, ExportOptions(frame_subsampling_factor=5)).frame_subsampling_factor == 5
    assert nnet3py.LoopedComputer(nnet3py.read_nnet(folder)).frame_subsampling_factor == (factor or 1)
    assert len(nnet3py.gradients(folder, feats, output_deriv=np.ones((rows, len(nnet3py.compute(folder, feats)[0])),
                                                                     np.float32)).output) == rows


def test_the_recognizer_takes_a_given_factor_first(tmp_path: Path) -> None:
    folder = make(tmp_path, FACTORS["published"][0])
    assert look_at_folder(folder, options={"frame-subsampling-factor": 4}).options["frame-subsampling-factor"] == 4


def test_a_module_of_torch_has_a_row_for_three_frames() -> None:
    torch = pytest.importorskip("torch")
    front_end = nnet3py.front_end(demo_folder())
    feats, ivector = front_end(str(DATA / "demo.wav"))
    expected = nnet3py.compute(demo_folder(), feats, ivector, frames_per_chunk=len(feats))
    assert len(expected) == -(-len(feats) // 3)
    module = nnet3py.to_torch(demo_folder())
    inputs = {"input": torch.from_numpy(feats)[None], "ivector": torch.from_numpy(ivector)[None]}
    assert module(**inputs).shape == (1, *expected.shape)


@pytest.mark.parametrize("text", ["", "three", "0", "-3", "1e9", "99999999999"])
def test_anything_but_a_number_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    folder = make(tmp_path, {**PUBLISHED, "conf/model.conf": f"--frame-subsampling-factor={text}\n"})
    with pytest.raises(FormatError, match=r"expected a number of 1 or more, found .*model.conf"):
        nnet3py.compute(folder, np.ones((FRAMES, 3)))
    (folder / "conf" / "model.conf").write_text("factor 3\n")
    with pytest.raises(UsageError, match="does not look like a line from a config file"):
        nnet3py.compute(folder, np.ones((FRAMES, 3)))


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(nnet3py.Nnet3Error, match="cannot open '.*' for reading"):
        nnet3py.compute(tmp_path, np.ones((FRAMES, 3)))
    shutil.copy(DATA / "network" / "am-priors.mdl", tmp_path / "final.raw")
    assert nnet3py.read_nnet(tmp_path).path == str(tmp_path / "final.raw")
