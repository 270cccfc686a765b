"""nnet3-inspect: what is said of models and folders, and what is said to be missing."""
from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from component_forms import FORM_NAMES, FORMS, parts
from paths import DATA, ROOT, shared_golden
from recognition_cases import kaldi_folder

import nnet3py
from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.cli.nnet.networks import inspect as command
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.inspection import inspect
from nnet3py.inspection.facts import Inspection
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode

NETWORK = DATA / "network"
CONFIG = """
input-node name=input dim=40
input-node name=ivector dim=10
component name=lda type=FixedAffineComponent input-dim=130 output-dim=130
component-node name=lda component=lda input=Append(Offset(input, -1), input, Offset(input, 3), \
ReplaceIndex(ivector, t, 0))
component name=a-component-with-quite-a-long-name.affine type=NaturalGradientRepeatedAffineComponent input-dim=130 \
output-dim=20 num-repeats=10
component-node name=a component=a-component-with-quite-a-long-name.affine input=lda
component name=r type=RectifiedLinearComponent dim=20
component-node name=r component=r input=Sum(a, IfDefined(Offset(r, -1)))
component name=bn type=BatchNormComponent dim=20
component-node name=bn component=bn input=r
component name=drop type=DropoutComponent dim=20 dropout-proportion=0.1
component-node name=drop component=drop input=bn
component name=o type=AffineComponent input-dim=20 output-dim=10 learning-rate=0.5
component-node name=o component=o input=drop
component-node name=unused component=o input=drop
component name=spare type=NoOpComponent dim=3
output-node name=output input=o
output-node name=second input=o objective=quadratic
"""
TRAINED = 1234567.0


@pytest.fixture
def nnet() -> Nnet:
    return Nnet.from_config(CONFIG, seed=1)


def inspected(nnet: Nnet, folder: Path, name: str = "x.raw") -> Inspection:
    nnet.write(str(folder / name))
    return inspect(str(folder / name))


def trained(nnet: Nnet) -> Nnet:
    """The network with statistics, as if it had been trained."""
    for component in nnet.components:
        for name in component.STATISTICS:
            getattr(component, name)[...] = TRAINED
    return nnet


def acoustic_model() -> AcousticModel:
    model = read_model(str(NETWORK / "am-priors.mdl"))
    trained(model.nnet)
    model.nnet.component("r").stored[:] = True       # type: ignore[attr-defined]
    return model


def missing(ready: Any) -> str:
    return "\n".join(f"{lack.what} -> {lack.do}" for lack in ready.missing)


@pytest.mark.parametrize("binary", [True, False])
def test_facts_of_a_network(nnet: Nnet, tmp_path: Path, binary: bool) -> None:
    nnet.write(str(tmp_path / "x.raw"), binary=binary)
    found = inspect(str(tmp_path / "x.raw"))
    model, network = found.model, found.model.network
    assert (model.kind, model.is_binary, model.size) == ("raw network", binary, (tmp_path / "x.raw").stat().st_size)
    assert [(p.name, p.dim) for p in network.inputs] == [("input", 40), ("ivector", 10)]
    assert [(p.name, p.dim, p.objective) for p in network.outputs] == [("output", 10, "linear"),
                                                                      ("second", 10, "quadratic")]
    assert (network.left_context, network.right_context, network.modulus) == (1, 3, 1)
    assert network.is_recurrent and network.is_simple and not network.is_gradient
    assert network.num_parameters == nnet.num_parameters() == 13 * 2 + 2 + 20 * 10 + 10
    assert (network.num_updatable, network.num_nodes) == (2, 11)
    assert network.unused_nodes == ["unused"] and network.unused_components == ["spare"]
    assert re.search(r"^unused nodes +unused\nunused components +spare$", found.text(), re.MULTILINE)
    assert network.memory_bytes > 4 * (network.num_parameters + 130 * 131)
    assert model.transitions is None and model.priors is None and found.folder is None
    assert [layer.name for layer in network.layers] == nnet.component_names
    layer = {layer.name: layer for layer in network.layers}["o"]
    assert (layer.type, layer.input_dim, layer.output_dim, layer.num_parameters, layer.nodes, layer.frames,
            layer.learning_rate, layer.test_mode) == ("AffineComponent", 20, 10, 210, ["o", "unused"], None, 0.5, None)


def test_facts_of_an_acoustic_model(tmp_path: Path) -> None:
    found = inspect(str(NETWORK / "am-priors.mdl")).model
    assert found.kind == "acoustic model"
    assert found.priors.size == 10 and found.priors.sum == pytest.approx(1.0, abs=1e-4)
    facts = found.transitions
    assert (facts.num_phones, facts.num_pdfs, facts.num_transition_ids, facts.is_chain) == (5, 10, 20, False)
    assert not inspect(str(NETWORK / "am.mdl")).model.priors
    assert inspect(str(NETWORK / "am.mdl.txt")).model.is_binary is False


def test_a_transition_model_alone() -> None:
    found = inspect(str(NETWORK / "trans.mdl"))
    assert found.model.kind == "transition model" and found.model.network is None
    for ready in (found.computing, found.training, found.decoding):
        assert "nnet3-am-init" in missing(ready)
    assert "transition-ids" in found.text()


def test_a_gmm_model(tmp_path: Path) -> None:
    data = (NETWORK / "trans.mdl").read_bytes()
    (tmp_path / "mono.mdl").write_bytes(data + b"<DIMENSION> \4\x27\0\0\0")
    found = inspect(str(tmp_path / "mono.mdl"))
    assert found.model.kind == "GMM model" and found.model.transitions.num_pdfs == 10
    assert "this is a GMM model, of use for its transition model only" in missing(found.decoding)


def test_statistics_say_whether_it_was_trained(nnet: Nnet, tmp_path: Path) -> None:
    assert inspected(nnet, tmp_path).model.network.frames == 0.0
    found = inspected(trained(nnet), tmp_path)
    assert found.model.network.frames == TRAINED and not found.model.network.without_statistics
    assert "statistics of 1,234,567 frames; learning rates 0.001 to 0.5" in found.text()
    plain = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input\n")
    found = inspected(plain, tmp_path)
    assert found.model.network.frames is None and "not known: no component has statistics" in found.text()


@pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)
def test_every_type_of_component(type_name: str, line: str, tmp_path: Path) -> None:
    nnet = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input\n"
                            f"component name=c type={type_name} {line}\n")
    found = inspected(nnet, tmp_path)
    component, layer = nnet.component("c"), found.model.network.layers[0]
    assert (layer.type, layer.input_dim, layer.output_dim, layer.num_parameters) == (
        type_name, component.input_dim, component.output_dim, component.num_parameters())
    counts_rows = any({"counters", "count"} & set(part.STATISTICS) for part in parts(component))
    assert (layer.frames is not None) == counts_rows
    assert found.model.network.memory_bytes >= 4 * layer.num_parameters
    json.dumps(found.as_dict(), allow_nan=False)


def test_nothing_is_missing_of_a_trained_acoustic_model(tmp_path: Path) -> None:
    acoustic_model().write(str(tmp_path / "final.mdl"))
    found = inspect(str(tmp_path / "final.mdl"))
    assert found.computing.is_ready and found.training.is_ready and found.decoding.is_ready and not found.problems
    assert found.computing.takes == ["features of dimension 40"]
    assert found.decoding.takes[-1] == "a decoding graph (HCLG.fst and words.txt)"
    assert any("nnet3-am-copy --raw=true" in note for note in found.training.notes)
    assert re.search(r"^for training +nothing is missing$(?:.*\n)*?^  note  +\S", found.text(), re.MULTILINE)


def test_a_raw_network_lacks_what_decoding_needs(nnet: Nnet, tmp_path: Path) -> None:
    found = inspected(trained(nnet), tmp_path)
    assert found.computing.is_ready and found.training.is_ready
    assert "a transition model: this is a raw network -> nnet3-am-init" in missing(found.decoding)
    assert found.computing.takes == ["features of dimension 40",
                                     "i-vectors of dimension 10 (--ivectors or --online-ivectors)"]
    assert "input (40), ivector (10)" in found.training.takes[0] and "left context of at least 1" in \
        found.training.takes[0]


def test_batch_normalization_and_training(nnet: Nnet, tmp_path: Path) -> None:
    found = inspected(nnet, tmp_path)
    assert "statistics of batch normalization in bn -> train" in missing(found.computing)
    assert "training: the parameters are random" in missing(found.decoding)
    assert any("random" in note for note in found.computing.notes)
    set_batchnorm_test_mode(trained(nnet), True)
    set_dropout_test_mode(nnet, True)
    notes = " ".join(inspected(nnet, tmp_path).training.notes)
    assert "batch normalization is in test mode" in notes and "dropout is in test mode" in notes
    assert "batch normalization on, dropout on" in inspected(nnet, tmp_path).text()


def test_other_names_of_ports(nnet: Nnet, tmp_path: Path) -> None:
    nnet.rename_node("output", "out")
    nnet.rename_node("input", "feats")
    found = inspected(nnet, tmp_path)
    text = missing(found.computing)
    assert "an input node named 'input' (there is feats (40), ivector (10)) -> nnet3-copy" in text
    assert "rename-node old-name=out new-name=output" in text
    assert found.model.network.left_context is None and "not known: defined only for" in found.text()


def test_an_input_that_commands_cannot_feed(nnet: Nnet, tmp_path: Path) -> None:
    nnet.rename_node("ivector", "speaker")
    assert "a way to feed speaker" in missing(inspected(nnet, tmp_path).computing)


def test_an_output_that_cannot_be_computed(tmp_path: Path) -> None:
    nnet = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=Offset(input, 5000)\n")
    found = inspected(nnet, tmp_path)
    assert "an output that can be computed: the network computes no output" in missing(found.computing)


def test_parameters_that_cannot_be_used(nnet: Nnet, tmp_path: Path) -> None:
    nnet.component("o").parameters()["bias_params"][0] = np.nan
    found = inspected(nnet, tmp_path)
    assert found.model.network.not_finite == ["o"]
    for ready in (found.computing, found.training, found.decoding):
        assert "finite numbers: o hold NaN or infinity" in missing(ready)
    for number, text in ((3, "c0, c1, c2 hold NaN"), (4, "c0, c1, c2 and 1 more hold NaN")):
        large = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input\n" + "".join(
            f"component name=c{i} type=PerElementScaleComponent dim=2\n" for i in range(number)))
        for component in large.components:
            component.parameters()["scales"][0] = np.nan
        assert text in missing(inspected(large, tmp_path).computing)


def test_gradients_and_networks_that_cannot_be_trained(nnet: Nnet, tmp_path: Path) -> None:
    found = inspected(nnet.as_gradient(), tmp_path)
    assert "this one is a gradient" in missing(found.training) and "a gradient" in found.text()
    for component in nnet.components:
        if hasattr(component, "learning_rate"):
            component.learning_rate = 0.0
    assert "learning rates: all are 0 -> nnet3-copy --learning-rate" in missing(inspected(nnet, tmp_path).training)
    fixed = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input\n")
    assert "components with parameters" in missing(inspected(fixed, tmp_path).training)


def test_priors_and_pdfs(tmp_path: Path) -> None:
    model = acoustic_model()
    model.priors = model.priors[:0]
    model.write(str(tmp_path / "x.mdl"))
    assert "priors, by which the output is divided -> nnet3-am-adjust-priors" in missing(
        inspect(str(tmp_path / "x.mdl")).decoding)
    model.priors = np.array([0.5, 0.0], dtype=np.float32)
    model.nnet.set_node_input("output", "Append(l, l)")
    model.write(str(tmp_path / "x.mdl"))
    found = inspect(str(tmp_path / "x.mdl"))
    assert "'output' has 20, the transition model 10" in missing(found.decoding)
    assert "the priors are odd: they sum to 0.5, the least is 0" in found.decoding.notes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as after training, with nothing missing."""
    for name in ("tree", "topo"):
        shutil.copy(NETWORK / name, tmp_path / name)
    acoustic_model().write(str(tmp_path / "final.mdl"))
    for name, text in {"cmvn_opts": "--norm-means=false --norm-vars=false\n", "frame_subsampling_factor": "1\n",
                       "num_jobs": "4\n", "phones.txt": "<eps> 0\na 1\nb 2\nc 3\nd 4\ne 5\n#0 6\n",
                       "configs/vars": "model_left_context=2\nmodel_right_context=2\n", "configs/final.config": "x",
                       "egs/info/feat_dim": "40\n", "egs/info/left_context": "3", "egs/info/right_context": "2",
                       "graph_tg/HCLG.fst": "x", "12.mdl": "", "3.mdl": "", "12.1.raw": "", "init.raw": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_complete_folder(folder: Path) -> None:
    found = inspect(str(folder))
    assert found.model.path == str(folder / "final.mdl") and found.problems == []
    assert found.computing.is_ready and found.training.is_ready and found.decoding.is_ready
    facts = found.folder
    assert facts.other_models == ["12.mdl", "3.mdl", "12.1.raw", "init.raw"]
    assert (facts.num_phones, facts.num_tree_pdfs, facts.graphs) == (5, 10, ["graph_tg/HCLG.fst"])
    assert facts.settings["num_jobs"] == "4" and found.frame_subsampling_factor == 1
    assert found.computing.takes == [
        "features of dimension 40, normalized by apply-cmvn --norm-means=false --norm-vars=false"]
    assert not any("--frame-subsampling-factor" in note for note in found.computing.notes)
    text = found.text()
    for part in ("phones.txt the names of the phones (5 phones)", "egs/info feat_dim 40, left_context 3",
                 "configs/vars model_left_context=2, model_right_context=2", "phones in context to pdfs (10 pdfs)"):
        assert part in " ".join(text.split())


UNTRAINED_TEXT = """\
x.raw: a raw network, binary, 71,016 bytes

inputs            input (40), ivector (10)
outputs           output (10), second (10, quadratic)
i-vectors         needed, of dimension 10
context           1 frames left, 3 right; modulus 1
subsampling       not said; usually none
recurrent         yes
parameters        238 in 2 of 7 components; 69.9 kB with statistics and fixed
                  matrices
nodes             11
trained           no: there are no statistics; learning rates 0.001 to 0.5
test mode         batch normalization off, dropout off
unused nodes      unused
unused components spare

component                    type                            in  out  parameters
---------------------------  -----------------------------  ---  ---  ----------
lda                          FixedAffine                    130  130           -
a-component-with-quite-a-long-name.affine
                             NaturalGradientRepeatedAffine  130   20          28
r                            RectifiedLinear                 20   20           -
bn                           BatchNorm                       20   20           -
drop                         Dropout                         20   20           -
o                            Affine                          20   10         210
spare                        NoOp                             3    3           -

for computing     1 thing missing
  missing         statistics of batch normalization in bn
    do            train the network; nnet3-train stores them as it goes
  takes           features of dimension 40
  takes           i-vectors of dimension 10 (--ivectors or --online-ivectors)
  note            the parameters are random, or the statistics were zeroed:
                  nothing was trained yet
  note            recurrent: --frames-per-chunk and the extra contexts change
                  the output; take those of the training

for training      nothing is missing
  takes           examples with input (40), ivector (10) and targets for output
                  (10), second (10), with a left context of at least 1 and a
                  right context of at least 3 frames
  note            nnet3-get-egs makes examples

for decoding      3 things missing
  missing         statistics of batch normalization in bn
    do            train the network; nnet3-train stores them as it goes
  missing         training: the parameters are random, or the statistics were
                  zeroed
    do            train the network
  missing         a transition model: this is a raw network
    do            nnet3-am-init tree topo x.raw OUT.mdl, or with another model
                  for tree and topo
  takes           features of dimension 40
  takes           i-vectors of dimension 10 (--ivectors or --online-ivectors)
  takes           a decoding graph (HCLG.fst and words.txt)
"""
FOLDER_TEXT = """\
.: a model folder

model                     final.mdl
other models              12.mdl, 3.mdl, 12.1.raw, init.raw
frame_subsampling_factor  1
cmvn_opts                 --norm-means=false --norm-vars=false
num_jobs                  4
configs/vars              model_left_context=2, model_right_context=2
tree                      the tree that maps phones in context to pdfs (10 pdfs)
phones.txt                the names of the phones (5 phones)
topo                      the topology of the phones
configs/final.config      the network as config lines
graphs                    graph_tg/HCLG.fst
egs/info                  feat_dim 40, left_context 3, right_context 2

./final.mdl: an acoustic model, binary, 12,632 bytes

inputs            input (40)
outputs           output (10)
i-vectors         not needed
context           2 frames left, 2 right; modulus 1
subsampling       one frame of output for 1 of input
recurrent         no
parameters        2,630 in 2 of 4 components; 11.3 kB with statistics and fixed
                  matrices
nodes             6
trained           statistics of 1,234,567 frames; learning rate 0.001
test mode         no component has one
transition model  5 phones, 10 pdfs, 20 transition-ids
priors            10, from 0.0182 to 0.182, sum 1

component  type                    in  out  parameters
---------  ---------------------  ---  ---  ----------
a          NaturalGradientAffine  120   20       2,420
r          RectifiedLinear         20   20           -
o          NaturalGradientAffine   20   10         210
l          LogSoftmax              10   10           -

for computing     nothing is missing
  takes           features of dimension 40, normalized by apply-cmvn
                  --norm-means=false --norm-vars=false

for training      nothing is missing
  takes           examples with input (40) and targets for output (10), with a
                  left context of at least 2 and a right context of at least 2
                  frames
  note            nnet3-train takes the raw network: nnet3-am-copy --raw=true
                  ./final.mdl -

for decoding      nothing is missing
  takes           features of dimension 40, normalized by apply-cmvn
                  --norm-means=false --norm-vars=false
  takes           the graph ./graph_tg/HCLG.fst

for recognition   2 things missing
  missing         there is no words.txt beside ./graph_tg/HCLG.fst, nor are
                  there words in it
    do            correct or copy the file that is named
  missing         there is no conf/mfcc.conf, which says how features are
                  computed
    do            copy the file by which the features of the training were made
  takes           sound of any sampling rate: nnet3-transcribe FOLDER SOUND,
                  nnet3py.Recognizer(FOLDER)
  note            a model as Kaldi's training leaves it, with a graph, MFCC
  note            no phones/word_boundary.int or phones/align_lexicon.int beside
                  the graph: the times of words are a little off
  note            nothing says which phones are silence
                  (--endpoint.silence-phones): an utterance ends only after 20
                  seconds
"""


def test_the_whole_table_of_a_network(nnet: Nnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nnet.write("x.raw")
    assert inspect("x.raw").text() == UNTRAINED_TEXT
    set_batchnorm_test_mode(trained(nnet), True)
    nnet.write("x.raw")
    found = inspect("x.raw")
    assert "\ntrained           statistics of 1,234,567 frames; learning rates 0.001 to 0.5\n" \
           "test mode         batch normalization on, dropout off\n" in found.text()
    assert found.computing.notes == ["recurrent: --frames-per-chunk and the extra contexts change the output; take "
                                     "those of the training"]


def test_the_whole_table_of_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert inspect(".").text() == FOLDER_TEXT


@pytest.mark.parametrize(("size", "text"), [
    (999, "999 bytes"), (1000, "1.0 kB"), (999_900, "999.9 kB"), (10**6, "1.0 MB"), (99 * 10**7, "990.0 MB"),
    (10**9, "1.0 GB"), (3 * 10**12, "3000.0 GB")])
def test_memory_in_words(nnet: Nnet, tmp_path: Path, size: int, text: str) -> None:
    found = inspected(nnet, tmp_path)
    found.model.network.memory_bytes = size
    assert f"238 in 2 of 7 components; {text} with" in found.text()


@pytest.mark.parametrize(("number", "text"), [(1, "1.raw"), (6, "6.raw, 5.raw, 4.raw, 3.raw, 2.raw, 1.raw"),
                                              (7, "7.raw, 6.raw, 5.raw, 4.raw, 3.raw, 2.raw and 1 more")])
def test_six_other_models_are_named(nnet: Nnet, tmp_path: Path, number: int, text: str) -> None:
    for i in range(1, number + 1):
        (tmp_path / f"{i}.raw").write_text("")
    nnet.write(str(tmp_path / "final.raw"))
    assert f"\nother models      {text}\n" in inspect(str(tmp_path)).text()


def test_a_folder_without_most_of_it(folder: Path) -> None:
    for name in ("tree", "phones.txt", "cmvn_opts", "frame_subsampling_factor"):
        (folder / name).unlink()
    shutil.rmtree(folder / "graph_tg")
    shutil.rmtree(folder / "egs")
    found = inspect(str(folder))
    assert [(lack.what, lack.do) for lack in found.decoding.missing] == [
        ("a decoding graph (graph*/HCLG.fst)",
         f"make-graph LANG GRAMMAR {folder}/tree {folder}/final.mdl {folder}/graph"),
        ("tree, by which graphs are made for the model", "copy it from the folder of the alignments"),
        ("phones.txt, by which graphs are made for the model", "copy it from the folder of the alignments")]
    assert found.decoding.notes == ["no cmvn_opts says how features are normalized; do as the training did"]
    assert missing(found.training) == ("training examples in egs/, or their description in egs/info -> "
                                       "make them with nnet3-get-egs, or keep them elsewhere")


def test_a_graph_needs_no_tree(folder: Path) -> None:
    for name in ("tree", "phones.txt", "topo"):
        (folder / name).unlink()
    found = inspect(str(folder)).decoding
    assert found.is_ready and f"the graph {folder}/graph_tg/HCLG.fst" in found.takes


@pytest.fixture
def published(nnet: Nnet, tmp_path: Path) -> Path:
    """A folder laid out as models for recognition are published, its model in am/."""
    model = acoustic_model()
    (tmp_path / "am").mkdir()
    model.write(str(tmp_path / "am" / "final.mdl"))
    for name, text in {"graph/HCLr.fst": "x", "graph/Gr.fst": "x", "graph/words.txt": "x", "ivector/final.ie": "x",
                       "graph/phones.txt": "<eps> 0\na 1\nb 2\nc 3\nd 4\ne 5\n#0 6\n", "conf/mfcc.conf": "--num-ceps=4",
                       "conf/model.conf": "--beam=10.0  # narrow\n--frame-subsampling-factor=3\n", "README": "x",
                       **{f"ivector/{name}": "x" for name in ("final.dubm", "final.mat", "global_cmvn.stats")}}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_published_folder(published: Path) -> None:
    found = inspect(str(published))
    assert found.model.path == str(published / "am/final.mdl") and found.problems == []
    assert found.computing.is_ready and found.decoding.is_ready and found.frame_subsampling_factor == 3
    assert (found.folder.graphs, found.folder.extractor, found.folder.num_phones) == (["graph/HCLr.fst"], "ivector", 5)
    assert found.computing.takes == [
        f"features of dimension 40, by compute-mfcc-feats --config={published}/conf/mfcc.conf"]
    assert any("HCLr.fst and Gr.fst" in note for note in found.decoding.notes)
    text = " ".join(found.text().split())
    assert "model am/final.mdl" in text and "i-vectors an extractor, in ivector/" in text
    assert any("give --frame-subsampling-factor=3:" in note for note in found.computing.notes)
    (published / "graph/Gr.fst").unlink()
    (published / "ivector/final.dubm").unlink()
    (published / "conf/model.conf").write_text("--frame_subsampling_factor=x")
    found = inspect(str(published))
    assert not found.decoding.is_ready and found.problems == [
        "ivector/ has final.ie, but no final.dubm",
        "conf/model.conf, --frame-subsampling-factor, holds 'x', which is not a number of 1 or more"]


def test_the_extractor_of_a_published_folder(nnet: Nnet, published: Path) -> None:
    (published / "am/final.mdl").unlink()
    trained(nnet).write(str(published / "am/final.raw"))
    found = inspect(str(published))
    assert found.computing.takes[1].endswith("of the extractor in ivector/")
    assert not any("final.ie.id" in note for note in found.decoding.notes)


def test_hints_name_commands_of_this_package(folder: Path) -> None:
    """Kaldi's scripts are not here to be run."""
    shutil.rmtree(folder / "graph_tg")
    for path in (folder, NETWORK, NETWORK / "am.mdl"):
        found = inspect(str(path))
        hints = [lack.do for ready in (found.computing, found.training, found.decoding) for lack in ready.missing]
        assert not re.search(r"\b(utils|steps|local)/", " ".join(hints))


@pytest.mark.parametrize(("name", "text", "problem"), [
    ("frame_subsampling_factor", "three", "holds 'three', which is not a number"),
    ("frame_subsampling_factor", "0", "not a number of 1 or more"),
    ("frame_subsampling_factor", "9" * 50, "not a number of 1 or more"),
    ("frame_subsampling_factor", "²", "not a number of 1 or more"),
    ("phones.txt", "<eps> 0\na 1\n", "phones.txt has phones: 1, but the transition model has: 5"),
    ("phones.txt", "a b c\n", "phones.txt is not a list"),
    ("tree", "garbage", "tree cannot be read: "),
    ("tree", "", "tree cannot be read: "),
    ("cmvn_opts", "x" * 5000, "cmvn_opts is not a short text"),
    ("cmvn_opts", "\0B", "cmvn_opts is not a short text"),
    ("configs/vars", "model_left_context=5\n", "configs/vars says left context: 5, but the model needs: 2"),
    ("egs/info/feat_dim", "41", "egs/info says feat_dim: 41, but the model's 'input' has: 40"),
    ("egs/info/ivector_dim", "100", "egs/info says ivector_dim: 100, but the model's 'ivector' has: 0"),
    ("egs/info/left_context", "1", "egs/info has left context: 1, but the model needs: 2"),
])
def test_what_does_not_fit_is_said(folder: Path, name: str, text: str, problem: str) -> None:
    (folder / name).write_text(text)
    found = inspect(str(folder))
    assert len(found.problems) == 1 and problem in found.problems[0]
    assert problem in " ".join(found.text().split())


def test_the_ids_of_i_vector_extractors(nnet: Nnet, tmp_path: Path) -> None:
    trained(nnet).write(str(tmp_path / "final.raw"))
    found = inspect(str(tmp_path))
    assert "no final.ie.id says which extractor" in " ".join(found.decoding.notes)
    (tmp_path / "final.ie.id").write_text("a1b2\n")
    (tmp_path / "egs" / "info").mkdir(parents=True)
    (tmp_path / "egs" / "info" / "final.ie.id").write_text("c3d4\n")
    found = inspect(str(tmp_path))
    assert found.computing.takes[1].endswith("of the extractor with the id a1b2")
    assert found.problems == ["final.ie.id is a1b2, but egs/info/final.ie.id c3d4"]


def test_the_model_of_a_folder(nnet: Nnet, tmp_path: Path) -> None:
    expected = ["0.raw", "2.raw", "10.raw", "10.mdl", "combined.raw", "combined.mdl", "final.raw", "final.mdl"]
    for name in expected:
        nnet.write(str(tmp_path / name))
        assert inspect(str(tmp_path)).model.path == str(tmp_path / name)


def test_chain_models(tmp_path: Path) -> None:
    golden = shared_golden() / "chain"
    found = inspect(str(golden))
    assert found.model.looks_like_chain and "targets for output (56)," in found.training.takes[0]
    assert any("--frame-subsampling-factor=3" in note for note in found.computing.notes)
    assert any("chain model without frame_subsampling_factor" in note for note in found.decoding.notes)
    for path in golden.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    (tmp_path / "frame_subsampling_factor").write_text("3")
    (tmp_path / "den.fst").unlink()
    found = inspect(str(tmp_path))
    assert found.frame_subsampling_factor == 3 and "one frame of output for 3 of input" in found.text()
    assert any("give --frame-subsampling-factor=3" in note for note in found.computing.notes)
    assert "den.fst, which chain training needs" in missing(found.training)
    assert inspect(str(golden / "0.trans_mdl")).model.transitions.is_chain


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="holds no model .*nothing that belongs to one"):
        inspect(str(tmp_path))
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "final.config").write_text("x")
    found = inspect(str(tmp_path))
    assert found.model is None
    assert f"nnet3-init {tmp_path}/configs/final.config 0.raw" in missing(found.computing)
    (tmp_path / "configs" / "final.config").unlink()
    (tmp_path / "tree").write_text("x")
    assert "train one, or copy" in missing(inspect(str(tmp_path)).decoding)
    assert "a model folder" in inspect(str(tmp_path)).text()


def golden_models() -> list[str]:
    return sorted(str(path) for path in [*NETWORK.glob("*/nnet.raw"), *NETWORK.glob("*.mdl")])


@pytest.mark.parametrize("path", golden_models())
def test_the_table_has_80_columns(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(path).parent)
    name = Path(path).name
    text = inspect(name).text()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.endswith("\n") and not text.endswith("\n\n") and all(line == line.rstrip() for line in text.split("\n"))


def test_long_names_have_a_line_of_their_own(nnet: Nnet, tmp_path: Path) -> None:
    lines = inspected(nnet, tmp_path).text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("component "))
    table = lines[start:start + 11]
    assert table[0].split() == ["component", "type", "in", "out", "parameters"]
    assert any(line == "a-component-with-quite-a-long-name.affine" for line in table)
    assert any(line.split() == ["NaturalGradientRepeatedAffine", "130", "20", "28"] for line in table)
    assert any(line.split() == ["spare", "NoOp", "3", "3", "-"] for line in table)
    assert max(map(len, table)) <= 80


def test_json_is_the_same_and_strict(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.execute(["--print-args=false", "--json", str(folder)]) == 0
    out, err = capfd.readouterr()
    assert err == "" and json.loads(out) == inspect(str(folder)).as_dict()
    found = json.loads(out)
    assert found["model"]["network"]["layers"][0]["name"] == "a"
    assert found["decoding"]["is_ready"] is True and found["folder"]["settings"]["num_jobs"] == "4"


def test_json_has_no_nan(nnet: Nnet, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained(nnet).component("bn").count[0] = math.nan      # type: ignore[attr-defined]
    found = inspected(nnet, tmp_path)
    assert found.model.network.not_finite == ["bn"]
    assert command.execute(["--json=true", str(tmp_path / "x.raw")]) == 0
    out = capfd.readouterr().out
    layers = json.loads(out, parse_constant=pytest.fail)["model"]["network"]["layers"]
    assert [layer["frames"] for layer in layers if layer["name"] == "bn"] == [None]
    assert found.text()


def test_the_command_prints_the_table(capfd: pytest.CaptureFixture[str]) -> None:
    path = str(NETWORK / "am-priors.mdl")
    assert command.execute(["--print-args=false", path]) == 0
    assert capfd.readouterr().out == inspect(path).text() == str(nnet3py.inspect(path))


def test_it_needs_no_numba() -> None:
    code = ("import sys, numpy; before = set(sys.modules); import nnet3py; "       # older numpy imports json
            f"nnet3py.inspect({str(NETWORK / 'am.mdl')!r}).text(); "
            "sys.exit(sorted({'numba', 'scipy', 'json'} & (set(sys.modules) - before)) != [])")
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


@pytest.mark.parametrize("data", [b"", b"garbage", b"\0B", b"<Nnet3>", b"\0B<Nnet3> \n", b"<TransitionModel> "])
def test_what_is_no_model(tmp_path: Path, data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(FormatError):
        inspect(str(tmp_path / "bad"))
    (tmp_path / "final.mdl").write_bytes(data)
    assert command.execute(["--print-args=false", str(tmp_path)]) == 255
    err = capfd.readouterr().err
    assert err.count("ERROR (") == 1 and "final.mdl" in err and "internal error" not in err


def test_another_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "egs.ark").write_bytes(b"key \0B<Nnet3Eg> ")
    with pytest.raises(FormatError, match="expected <Nnet3> or <TransitionModel>, with which .*, found .key."):
        inspect(str(tmp_path / "egs.ark"))


def test_a_model_cut_anywhere(tmp_path: Path) -> None:
    data = (NETWORK / "am-priors.mdl").read_bytes()
    transitions = (NETWORK / "trans.mdl").read_bytes().rstrip()
    kinds = set()
    for end in {*range(0, 40), *range(40, len(data) - 20, 97), *range(len(data) - 20, len(data))}:
        (tmp_path / "bad").write_bytes(data[:end])
        try:
            kinds.add(inspect(str(tmp_path / "bad")).model.kind)
        except FormatError:
            pass
    assert kinds <= {"transition model"} and len(transitions) < len(data)    # cut behind its first half, it is one


def test_paths_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="cannot open '.*missing' for reading: No such file"):
        inspect(str(tmp_path / "missing"))
    assert command.execute(["--print-args=false"]) == 1
    assert command.execute(["--print-args=false", "a", "b"]) == 1


def test_what_is_missing_for_recognition(tmp_path: Path) -> None:
    folder = kaldi_folder(tmp_path)
    found = inspect(str(folder))
    assert found.recognition.is_ready and found.as_dict()["recognition"]["is_ready"]
    assert "a model as Kaldi's training leaves it, with a graph, MFCC, i-vectors" in found.recognition.notes
    assert any("after 20 seconds" in note for note in found.recognition.notes)
    (folder / "conf" / "mfcc.conf").write_text("--num-ceps=20\n")
    (folder / "graph" / "HCLG.fst").unlink()
    (folder / "ivector_extractor" / "final.ie").unlink()
    found = inspect(str(folder))
    text = missing(found.recognition)
    assert "there is no graph" in text and "make-graph" in text
    assert "features of dimension 40, which the network takes: the folder's options make 20" in text
    assert "i-vectors of dimension 12" in text
    assert "may be pitch" not in text
    (folder / "conf" / "mfcc.conf").write_text("--use-energy=false\n")
    assert "the folder's options make 13" in missing(inspect(str(folder)).recognition)
    (folder / "conf" / "mfcc.conf").write_text("--num-ceps=37\n")
    assert "3 more may be pitch: copy conf/pitch.conf" in missing(inspect(str(folder)).recognition)
    (folder / "conf" / "mfcc.conf").write_text("--num-kepstra=20\n")
    assert "--num-kepstra is not an option" in missing(inspect(str(folder)).recognition)
    text = " ".join(inspect(str(folder)).text().split())
    assert "for recognition 3 things missing" in text
    assert "for recognition" not in inspect(str(folder / "final.mdl")).text()
