"""Readiness of models for computing, training, decoding, recognition and fine-tuning: missing things and remedies."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nnet3py.errors import Nnet3Error
from nnet3py.inspection.facts import (
    PITCH_CONFS,
    FolderFacts,
    Inspection,
    Lack,
    ModelFacts,
    NetworkFacts,
    Port,
    Readiness,
)

if TYPE_CHECKING:
    from nnet3py.recognition.model_folder import ModelFolder

MOST_NAMES = 3     # components that a message names


def judge(inspection: Inspection) -> None:
    """Set ``computing``, ``training`` and ``decoding`` of an inspection, in place."""
    model = inspection.model
    if model is None:
        for purpose in (inspection.computing, inspection.training, inspection.decoding):
            purpose.missing.append(_no_model(inspection))
    elif model.network is None:
        lack = Lack(f"a network: this is a {model.kind}, of use for its transition model only",
                    f"nnet3-init CONFIG 0.raw; nnet3-am-init {model.path} 0.raw 0.mdl")
        for purpose in (inspection.computing, inspection.training, inspection.decoding):
            purpose.missing.append(lack)
    else:
        _computing(inspection, model, model.network)
        _training(inspection, model, model.network)
        _decoding(inspection, model, model.network)


def _no_model(inspection: Inspection) -> Lack:
    config = "configs/final.config"
    if inspection.folder is not None and config in inspection.folder.files:
        return Lack("a model: the folder holds none, only its config",
                    f"nnet3-init {inspection.folder.path}/{config} 0.raw")
    return Lack("a model: the folder holds none", "train one, or copy final.mdl or final.raw here")


# -- computing ---------------------------------------------------------------------------------------------------------


def _computing(inspection: Inspection, model: ModelFacts, network: NetworkFacts) -> None:
    ready = inspection.computing
    _features(inspection, network, ready)
    _usable_network(model, network, ready)
    if network.frames == 0.0:
        ready.notes.append("the parameters are random, or the statistics were zeroed: nothing was trained yet")
    if inspection.frame_subsampling_factor not in (None, 1):
        ready.notes.append(f"give --frame-subsampling-factor={inspection.frame_subsampling_factor}: "
                           "the targets had one frame for as many of input")
    elif inspection.frame_subsampling_factor is None and model.looks_like_chain:
        ready.notes.append("a chain model, which usually has --frame-subsampling-factor=3; nothing here says so")
    if network.is_recurrent:
        ready.notes.append("recurrent: --frames-per-chunk and the extra contexts change the output; take those of the "
                           "training")


def _features(inspection: Inspection, network: NetworkFacts, ready: Readiness) -> None:
    """Append to ``ready.takes`` the features and i-vectors that the network reads for each utterance."""
    folder = inspection.folder or FolderFacts("")
    for port in network.inputs:
        if port.name == "input":
            normalized = folder.settings.get("cmvn_opts", "")
            ready.takes.append(f"features of dimension {port.dim}{_made_by(folder)}"
                               + (f", normalized by apply-cmvn {normalized}" if normalized else ""))
        elif port.name == "ivector":
            number = folder.settings.get("final.ie.id")
            ready.takes.append(f"i-vectors of dimension {port.dim} (--ivectors or --online-ivectors)"
                               + (f" of the extractor with the id {number}" if number else
                                  f" of the extractor in {folder.extractor}/" if folder.extractor else ""))


def _made_by(folder: FolderFacts) -> str:
    """Return words such as ", by compute-mfcc-feats --config=FILE" for the folder's conf file; "" without one."""
    pitch = next((name for name in PITCH_CONFS if name in folder.settings), "")
    for name in ("conf/mfcc.conf", "conf/fbank.conf", "conf/plp.conf", "mfcc.conf"):
        if name in folder.settings:
            kind = name.rpartition("/")[2].removesuffix(".conf")
            made_by = f", by compute-{kind}-feats --config={folder.path}/{name}"
            return made_by if not pitch else (
                f"{made_by} and compute-and-process-kaldi-pitch-feats --config={folder.path}/{pitch}, put beside each "
                "other by paste-feats --length-tolerance=2")
    return ""


def _usable_network(model: ModelFacts, network: NetworkFacts, ready: Readiness) -> None:
    """Append to ``ready.missing`` what a network lacks for nnet3-compute and all decoders."""
    _names_of_ports(model, network, ready)
    if network.is_simple and network.left_context is None:
        ready.missing.append(Lack(f"an output that can be computed: {network.context_note}",
                                  "look at the descriptors with nnet3-info"))
    _finite(network, ready)
    if network.without_statistics:
        ready.missing.append(Lack(
            f"statistics of batch normalization in {_some(network.without_statistics)}",
            "train the network; nnet3-train stores them as it goes"))


def _names_of_ports(model: ModelFacts, network: NetworkFacts, ready: Readiness) -> None:
    if not network.input_dim("input"):
        ready.missing.append(Lack(f"an input node named 'input' (there is {_ports(network.inputs)})", _rename(
            network.inputs[0].name, "input")))
    if not network.output_dim("output"):
        ready.missing.append(Lack(f"an output node named 'output' (there is {_ports(network.outputs)})", _rename(
            network.outputs[0].name, "output")))
    others = [port.name for port in network.inputs if port.name not in ("input", "ivector")]
    if others and network.input_dim("input") and not network.input_dim("ivector"):
        ready.missing.append(Lack(f"a way to feed {', '.join(others)}: commands feed 'input' and 'ivector' only",
                                  "compute with nnet3py.Computer from Python"))


def _rename(old: str, new: str) -> str:
    return f"nnet3-copy --edits='rename-node old-name={old} new-name={new}' IN OUT"


def _finite(network: NetworkFacts, ready: Readiness) -> None:
    if network.not_finite:
        ready.missing.append(Lack(f"finite numbers: {_some(network.not_finite)} hold NaN or infinity",
                                  "the training diverged; take an earlier model, and train with a lower learning rate"))


# -- training ----------------------------------------------------------------------------------------------------------


def _training(inspection: Inspection, model: ModelFacts, network: NetworkFacts) -> None:
    ready = inspection.training
    _examples(inspection, model, network, ready)
    if network.num_updatable == 0:
        ready.missing.append(Lack("components with parameters that training changes",
                                  "replace fixed components, as with Nnet.replace_component"))
    elif all(not layer.learning_rate for layer in network.layers):
        ready.missing.append(Lack("learning rates: all are 0", f"nnet3-copy --learning-rate=0.001 {model.path} OUT"))
    _finite(network, ready)
    if network.is_gradient:
        ready.missing.append(Lack("a network: this one is a gradient, its parameters are derivatives",
                                  "take the model that it was computed for"))
    if model.kind == "acoustic model":
        ready.notes.append(f"nnet3-train takes the raw network: nnet3-am-copy --raw=true {model.path} -")
    if any(network.test_modes("BatchNormComponent")):
        ready.notes.append("batch normalization is in test mode, and stores no statistics: nnet3-copy switches it off")
    if any(network.test_modes()):
        ready.notes.append("dropout is in test mode, and drops nothing: "
                           "nnet3py.network.whole_model.set_dropout_test_mode(nnet, False) switches that off")


def _examples(inspection: Inspection, model: ModelFacts, network: NetworkFacts, ready: Readiness) -> None:
    inputs = _ports(network.inputs)
    chain = model.looks_like_chain
    outputs = _ports([port for port in network.outputs if not (chain and port.name.endswith("-xent"))])
    contexts = "" if network.left_context is None else (
        f", with a left context of at least {network.left_context} and a right context of at least "
        f"{network.right_context} frames")
    ready.takes.append(f"examples with {inputs} and targets for {outputs}{contexts}")
    maker = "nnet3-chain-get-egs" if chain else "nnet3-get-egs"
    if inspection.folder is None:
        ready.notes.append(f"{maker} makes examples")
    elif not inspection.folder.egs:
        ready.missing.append(Lack("training examples in egs/, or their description in egs/info",
                                  f"make them with {maker}, or keep them elsewhere"))
    if inspection.folder is not None and chain:
        for name in ("den.fst", "normalization.fst"):
            if name not in inspection.folder.files:
                ready.missing.append(Lack(f"{name}, which chain training needs",
                                          "chain-make-den-fst makes it of tree, transition model and phone_lm.fst"))


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decoding(inspection: Inspection, model: ModelFacts, network: NetworkFacts) -> None:
    ready = inspection.decoding
    _features(inspection, network, ready)
    _usable_network(model, network, ready)
    if network.frames == 0.0:
        ready.missing.append(Lack("training: the parameters are random, or the statistics were zeroed",
                                  "train the network"))
    _transitions_and_priors(model, network, ready)
    if inspection.folder is None:
        ready.takes.append("a decoding graph (HCLG.fst and words.txt)")
    else:
        _folder_for_decoding(inspection, model, network, ready)


def _transitions_and_priors(model: ModelFacts, network: NetworkFacts, ready: Readiness) -> None:
    if model.transitions is None:
        ready.missing.append(Lack("a transition model: this is a raw network",
                                  f"nnet3-am-init tree topo {model.path} OUT.mdl, or with another model for tree and "
                                  "topo"))
    elif model.transitions.num_pdfs != network.output_dim("output") and network.output_dim("output"):
        ready.missing.append(Lack(f"as many outputs as pdfs: 'output' has {network.output_dim('output')}, the "
                                  f"transition model {model.transitions.num_pdfs}",
                                  "nnet3-am-init with the transition model of the targets"))
    if model.priors is None and not model.looks_like_chain and model.transitions is not None:
        ready.missing.append(Lack("priors, by which the output is divided",
                                  f"nnet3-am-adjust-priors {model.path} SUMMED-OUTPUT OUT.mdl"))
    elif model.priors is not None and not (model.priors.min > 0.0 and 0.99 < model.priors.sum < 1.01):
        ready.notes.append(f"the priors are odd: they sum to {model.priors.sum:g}, the least is {model.priors.min:g}")


def _folder_for_decoding(inspection: Inspection, model: ModelFacts, network: NetworkFacts, ready: Readiness) -> None:
    folder = inspection.folder
    assert folder is not None
    if folder.graphs:
        _graph(folder, ready)
    else:
        scale = " --self-loop-scale=1.0" if model.looks_like_chain else ""
        tree = "am/tree" if "am/tree" in folder.files else "tree"
        ready.missing.append(Lack("a decoding graph (graph*/HCLG.fst)", f"make-graph{scale} LANG GRAMMAR "
                                  f"{folder.path}/{tree} {model.path} {folder.path}/graph"))
        if tree not in folder.files:
            ready.missing.append(Lack("tree, by which graphs are made for the model",
                                      "copy it from the folder of the alignments"))
        if not {"phones.txt", "graph/phones.txt"} & set(folder.files):
            ready.missing.append(Lack("phones.txt, by which graphs are made for the model",
                                      "copy it from the folder of the alignments"))
    if "cmvn_opts" not in folder.settings and not _made_by(folder):
        ready.notes.append("no cmvn_opts says how features are normalized; do as the training did")
    if network.input_dim("ivector") and "final.ie.id" not in folder.settings and not folder.extractor:
        ready.notes.append("no final.ie.id says which extractor the i-vectors come from; take that of the training")
    if inspection.frame_subsampling_factor is None and model.looks_like_chain:
        ready.notes.append("a chain model without frame_subsampling_factor: write the factor (usually 3) into a file "
                           "of that name")


def _graph(folder: FolderFacts, ready: Readiness) -> None:
    """Add the folder's decoding graph to the inputs in ``ready.takes``; a lookahead graph also to ``ready.notes``."""
    ready.takes.append(f"the graph {folder.path}/{folder.graphs[0]}")
    if folder.graphs[0].endswith("HCLr.fst"):
        ready.notes.append("the graph is composed of HCLr.fst and Gr.fst while decoding: nnet3-latgen-faster-lookahead")


# -- texts of messages -------------------------------------------------------------------------------------------------


def _ports(ports: list[Port]) -> str:
    return ", ".join(f"{port.name} ({port.dim})" for port in ports)


def _some(names: list[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


_PITCH_DIM = 3
_ADVICE = (
    ("no graph", "make-graph, or give one that lies elsewhere: nnet3-transcribe --graph=GRAPH"),
    ("more than one graph", "nnet3-transcribe --graph=GRAPH"),
    ("acoustic model", "nnet3-am-init, or give the folder that has one"),
    ("which says how features", "copy the file by which the features of the training were made"),
    ("conf/model.conf", "write options of decoding into it, such as --acoustic-scale=1.0"),
    ("there is no file", "names in conf files are relative to the working directory, or to the model folder"),
)


def judge_recognition(inspection: Inspection) -> None:
    """Set ``recognition``, and ``fine_tuning`` if recognition is possible, of a folder's inspection, in place."""
    from nnet3py.recognition.model_folder import look_at_folder

    if inspection.folder is None:
        return
    ready = inspection.recognition
    try:
        folder = look_at_folder(inspection.folder.path)
    except Nnet3Error as error:
        ready.missing.append(Lack(str(error), "correct what the message names"))
        return
    ready.missing += [Lack(what, _advice(what)) for what in folder.missing]
    ready.takes.append("sound of any sampling rate: nnet3-transcribe FOLDER SOUND, nnet3py.Recognizer(FOLDER)")
    ready.notes += [folder.describe(), *folder.unused]
    if not (folder.word_boundary or folder.align_lexicon) and folder.graph:
        ready.notes.append("no phones/word_boundary.int or phones/align_lexicon.int beside the graph: the times of "
                           "words are a little off")
    if not folder.options.get("endpoint.silence-phones"):
        ready.notes.append("nothing says which phones are silence (--endpoint.silence-phones): an utterance ends only "
                           "after 20 seconds")
    if inspection.model is not None and inspection.model.network is not None:
        _dimensions(inspection, inspection.model.network, folder)
    if ready.is_ready:
        inspection.fine_tuning = _fine_tuning(folder)


def _fine_tuning(folder: ModelFolder) -> Readiness:
    """Return whether a folder that can recognize sound can be fine-tuned, and with which data."""
    from nnet3py.fine_tuning.requirements import requirements

    needed = requirements(folder.path)
    if not needed.can_fine_tune:
        return Readiness(missing=[Lack(note, "use a chain model with its graph, tree and lexicon") for note in
                                  needed.notes])
    what = "a voice, a room, words" if needed.can_add_words else "a voice, a room"
    return Readiness([f"speech with its words ({what}): nnet3py fine-tune FOLDER DATA --out=NEW"], notes=needed.notes)


def _advice(what: str) -> str:
    return next((advice for part, advice in _ADVICE if part in what), "correct or copy the file that is named")


def _dimensions(inspection: Inspection, network: NetworkFacts, folder: ModelFolder) -> None:
    """Append to what is missing for recognition the inputs of other dimensions than the folder's options produce."""
    missing = inspection.recognition.missing
    options, wanted = folder.features, network.input_dim("input")
    if folder.feature_kind == "fbank":
        feature_dim = int(options.get("num-mel-bins", 23)) + bool(options.get("use-energy", False))
    else:
        feature_dim = int(options.get("num-ceps", 13))
    if folder.pitch is not None:
        from nnet3py.feat.process_pitch import process_pitch_options

        feature_dim += process_pitch_options(folder.pitch).dim
    if options and wanted and feature_dim != wanted:
        advice = f"compare conf/{folder.feature_kind}.conf with that of the training"
        if folder.pitch is None and wanted == feature_dim + _PITCH_DIM:
            advice = f"{_PITCH_DIM} more may be pitch: copy conf/pitch.conf of the training, and set --add-pitch=true"
        missing.append(Lack(f"features of dimension {wanted}, which the network takes: the folder's options make "
                            f"{feature_dim}", advice))
    if network.input_dim("ivector") and folder.ivectors is None:
        missing.append(Lack(f"i-vectors of dimension {network.input_dim('ivector')}, which the network takes",
                            "copy the extractor of the training, with final.ie, final.dubm, final.mat, "
                            f"global_cmvn.stats and splice_opts, to {os.path.join(folder.path, 'ivector_extractor')}"))
