"""What a model folder lacks for recognizing speech, and what to do about it."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nnet3py.errors import Nnet3Error
from nnet3py.inspection.facts import Lack, NetworkFacts, Readiness
from nnet3py.inspection.text import Inspection

if TYPE_CHECKING:
    from nnet3py.recognition.model_folder import ModelFolder

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
    """Fill in the part about recognition, in place; nothing for anything but a folder."""
    from nnet3py.recognition.model_folder import look_at_folder

    if inspection.folder is None:
        return
    ready = inspection.recognition
    try:
        folder = look_at_folder(inspection.folder.path)
    except Nnet3Error as error:
        ready.missing.append(Lack(str(error), "see the message"))
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
    """What fine-tuning can do with a folder that recognizes."""
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
    """Dimensions that the network takes but the folder's options do not give."""
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
