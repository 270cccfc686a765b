"""Looking at a path: a model file, or a folder such as Kaldi's training scripts make."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.inspection.facts import FolderFacts, ModelFacts
from nnet3py.inspection.model import model_facts
from nnet3py.inspection.readiness import judge
from nnet3py.inspection.text import Inspection

if TYPE_CHECKING:
    from pathlib import Path


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """What a model or a model folder holds, and what it lacks for computing, training or decoding.

    Parameters
    ----------
    path : a model file (any rxfilename; raw or acoustic, text or binary, or a transition model), or a folder,
        whose final model is taken, or else the one with the highest number

    Returns
    -------
    An :class:`~nnet3py.inspection.facts.Inspection`: ``as_dict()`` for programs, ``text()`` for people.

    Raises
    ------
    FormatError : bytes that are not a model
    UsageError : something other than a path
    Nnet3Error : a path that cannot be opened, or a folder that holds nothing of a model
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected a path, found {type(path).__name__}", "nnet3py.summary(nnet) looks at a network")
    path = os.fspath(path)
    if not os.path.isdir(path):
        inspection = Inspection(path, model_facts(path), None)
    else:
        from pathlib import Path  # slow to load, and only folders need it

        from nnet3py.inspection.folder import folder_facts

        problems: list[str] = []
        names = _readable(Path(path))
        folder = folder_facts(Path(path), problems)
        if not names and not (folder.files or folder.settings):
            raise Nnet3Error(f"the folder {path} holds no model (*.mdl, *.raw) and nothing that belongs to one",
                             "give the folder that has final.mdl or final.raw in it, or the model itself")
        model = model_facts(os.path.join(path, names[0])) if names else None
        inspection = Inspection(path, model, folder, problems=problems)
        inspection.frame_subsampling_factor = _subsampling(folder, problems)
        problems += _contradictions(folder, model)
    judge(inspection)
    if inspection.folder is not None:
        from nnet3py.inspection.recognizing import judge_recognition  # slow to load, and only folders need it

        judge_recognition(inspection)
    return inspection


def _readable(path: Path) -> list[str]:
    from nnet3py.inspection.folder import model_names

    try:
        return model_names(path)
    except OSError as error:
        raise Nnet3Error(f"cannot look into '{path}': {error.strerror}") from None


def _subsampling(folder: FolderFacts, problems: list[str]) -> int | None:
    """Return the factor that the folder, or its examples, are for."""
    places = {"frame_subsampling_factor": folder.settings.get("frame_subsampling_factor"),
              "egs/info/frame_subsampling_factor": folder.egs.get("frame_subsampling_factor"),
              "conf/model.conf, --frame-subsampling-factor,": _options(folder.settings.get("conf/model.conf", "")).get(
                  "frame-subsampling-factor")}
    name, text = next(((name, text) for name, text in places.items() if text is not None), ("", None))
    if text is None:
        return None
    number = _integer(text)
    if number is None or number < 1:
        problems.append(f"{name} holds {text[:40]!r}, which is not a number of 1 or more")
        return None
    return number


def _options(text: str) -> dict[str, str]:
    """Options of a file for --config, name -> text."""
    pairs = (line.split("#")[0].strip().removeprefix("--").partition("=") for line in text.splitlines())
    return {name.replace("_", "-").strip(): value.strip() for name, equals, value in pairs if equals}


def _integer(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else None


def _contradictions(folder: FolderFacts, model: ModelFacts | None) -> list[str]:
    """Where the folder's files contradict the model."""
    if model is None or model.network is None:
        return []
    network, transitions = model.network, model.transitions
    pairs: list[tuple[str, int | None, str, int | None]] = []
    if folder.num_tree_pdfs is not None:
        pairs.append(("tree has pdfs", folder.num_tree_pdfs, "the model's output has dimension",
                      network.output_dim("output") or None))
    if transitions is not None and "phones.txt" in folder.files:      # beside a graph it may have names of some only
        pairs.append(("phones.txt has phones", folder.num_phones, "the transition model has", transitions.num_phones))
    contexts = dict(line.split("=", 1) for line in folder.settings.get("configs/vars", "").splitlines() if "=" in line)
    for side, measured in (("left", network.left_context), ("right", network.right_context)):
        stated = _integer(contexts.get(f"model_{side}_context"))
        pairs.append((f"configs/vars says {side} context", stated, "the model needs", measured))
        given = _integer(folder.egs.get(f"{side}_context"))
        if given is not None and measured is not None and given < measured:
            pairs.append((f"egs/info has {side} context", given, "the model needs", measured))
    for name, key in (("input", "feat_dim"), ("ivector", "ivector_dim")):
        pairs.append((f"egs/info says {key}", _integer(folder.egs.get(key)), f"the model's '{name}' has",
                      network.input_dim(name)))
    contradictions = [f"{what}: {stated}, but {other}: {measured}" for what, stated, other, measured in pairs
             if stated is not None and measured is not None and stated != measured]
    mine, theirs = folder.settings.get("final.ie.id"), folder.egs.get("final.ie.id")
    if mine and theirs and mine != theirs:
        contradictions.append(f"final.ie.id is {mine}, but egs/info/final.ie.id {theirs}")
    return contradictions
