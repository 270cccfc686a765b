"""Results of an inspection as plain data, which ``--json`` prints, and as a table of at most 80 columns."""
from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

PITCH_CONFS = ("conf/online_pitch.conf", "conf/pitch.conf")       # options of pitch, in a model folder


@dataclass
class Port:
    """Input or output of a network.

    Attributes
    ----------
    dim : int
        Number of columns.
    objective : str
        ``linear`` or ``quadratic``; empty for inputs.
    """

    name: str
    dim: int
    objective: str = ""


@dataclass
class Layer:
    """Component of a network.

    Attributes
    ----------
    nodes : list of str
        Component nodes that use the component; empty for an unused one.
    frames : float or None
        Number of frames that the component's statistics count; None for a component without statistics.
    learning_rate : float or None
        None for a component that is not trained.
    test_mode : bool or None
        None for a component without such a mode.
    """

    name: str
    type: str
    input_dim: int
    output_dim: int
    num_parameters: int
    nodes: list[str]
    frames: float | None
    learning_rate: float | None
    test_mode: bool | None


@dataclass
class NetworkFacts:
    """Description of a network.

    Attributes
    ----------
    left_context, right_context : frames that an output frame needs; None if they are undefined (``context_note``)
    context_note : reason why the contexts are undefined
    modulus : smallest number of frames by which inputs can be shifted so that the outputs are shifted, too
    is_recurrent : whether values depend on those of the same node at other times
    memory_bytes : bytes of parameters, statistics and fixed matrices
    frames : largest number of frames that any component's statistics count; None if no component has statistics
    not_finite : names of components with NaN or infinity
    without_statistics : names of batch-normalization components without statistics
    is_gradient : whether the parameters are derivatives
    unused_nodes, unused_components : names of nodes and components that no output needs
    """

    inputs: list[Port]
    outputs: list[Port]
    left_context: int | None
    right_context: int | None
    context_note: str
    modulus: int
    is_simple: bool
    is_recurrent: bool
    num_parameters: int
    num_updatable: int
    num_nodes: int
    memory_bytes: int
    layers: list[Layer]
    frames: float | None
    not_finite: list[str]
    without_statistics: list[str]
    is_gradient: bool
    unused_nodes: list[str]
    unused_components: list[str]

    def input_dim(self, name: str) -> int:
        """Return the number of columns of an input; 0 for an unknown name."""
        return next((port.dim for port in self.inputs if port.name == name), 0)

    def output_dim(self, name: str) -> int:
        """Return the number of columns of an output; 0 for an unknown name."""
        return next((port.dim for port in self.outputs if port.name == name), 0)

    def test_modes(self, *types: str) -> list[bool]:
        """Return the test modes of components of these types; without types, of all except batch normalization."""
        return [layer.test_mode for layer in self.layers if layer.test_mode is not None
                and (layer.type in types if types else layer.type != "BatchNormComponent")]


@dataclass
class TransitionFacts:
    """Description of a transition model.

    Attributes
    ----------
    is_chain : bool
        Whether self-loops have pdfs of their own in its topology, as in chain models.
    """

    num_phones: int
    num_pdfs: int
    num_transition_states: int
    num_transition_ids: int
    is_chain: bool


@dataclass
class PriorFacts:
    """Description of the priors of an acoustic model."""

    size: int
    sum: float
    min: float
    max: float


@dataclass
class ModelFacts:
    """Description of a model file.

    Attributes
    ----------
    kind : str
        ``raw network``, ``acoustic model``, ``transition model`` or ``GMM model`` (of which only the transition model
        is read).
    size : int or None
        Bytes of the file; None for a pipe.
    """

    path: str
    kind: str
    is_binary: bool
    size: int | None
    network: NetworkFacts | None = None
    transitions: TransitionFacts | None = None
    priors: PriorFacts | None = None

    @property
    def looks_like_chain(self) -> bool:
        """True for the topology or the outputs of a chain (LF-MMI) model."""
        return bool(self.transitions and self.transitions.is_chain
                    or self.network and self.network.output_dim("output-xent"))


@dataclass
class FolderFacts:
    """Description of a model folder besides the inspected model.

    Attributes
    ----------
    path : path of the folder
    other_models : names of further model files
    settings : name of a small file -> its text, such as ``cmvn_opts``
    files : name of another known file that exists -> its purpose
    graphs : decoding graphs; for a graph that is composed while decoding, its first part ``HCLr.fst``
    extractor : folder of an i-vector extractor in this folder; empty if there is none
    num_phones : number of symbols of ``phones.txt`` without epsilon and disambiguation symbols; None without the file
    num_tree_pdfs : number of leaves of ``tree``; None without the file
    egs : files of ``egs/info`` about the training examples, name -> text
    """

    path: str
    other_models: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    graphs: list[str] = field(default_factory=list)
    extractor: str = ""
    num_phones: int | None = None
    num_tree_pdfs: int | None = None
    egs: dict[str, str] = field(default_factory=dict)


@dataclass
class Lack:
    """Something that a model or folder lacks: what it is, and what to do about it, often a command."""

    what: str
    do: str


@dataclass
class Readiness:
    """Result of checking whether a model can be used for a purpose, such as training.

    Attributes
    ----------
    takes : inputs that this use needs, such as features of a dimension
    missing : necessary things that are missing; empty if the model is ready
    notes : warnings and hints
    """

    takes: list[str] = field(default_factory=list)
    missing: list[Lack] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        """True if nothing is missing."""
        return not self.missing


WIDTH = 80
KEY_WIDTH = 18           # characters of the first column of a list of facts
MOST_MODELS = 6          # number of other models that are named
Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"
HEADINGS = ("component", "type", "in", "out", "parameters")


@dataclass
class Inspection:
    """Result of :func:`nnet3py.inspect`.

    Attributes
    ----------
    path : the path, as given
    model : description of the model; None for a folder without a model
    folder : description of the folder; None for a file
    frame_subsampling_factor : input frames per output frame in decoding; None if no file of the folder has it
    computing, training, decoding : readiness for each purpose
    recognition : readiness for recognizing sound; empty for a file
    fine_tuning : readiness for fine-tuning; None except for a folder that can recognize sound
    problems : messages about contradictions and unusable files
    """

    path: str
    model: ModelFacts | None
    folder: FolderFacts | None
    frame_subsampling_factor: int | None = None
    computing: Readiness = field(default_factory=Readiness)
    training: Readiness = field(default_factory=Readiness)
    decoding: Readiness = field(default_factory=Readiness)
    recognition: Readiness = field(default_factory=Readiness)
    fine_tuning: Readiness | None = None
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Json]:
        """Return all fields as nested dicts and lists, with ``is_ready``; None in place of NaN and infinity."""
        facts: Any = _plain(asdict(self))
        for purpose in ("computing", "training", "decoding", "recognition", "fine_tuning"):
            if facts[purpose] is not None:
                facts[purpose]["is_ready"] = getattr(self, purpose).is_ready
        return dict(facts)

    def text(self) -> str:
        """Return a table of at most 80 columns, which ends with a newline."""
        lines: list[str] = []
        if self.folder is not None:
            lines += [f"{self.path}: a model folder", "", *_folder_lines(self, self.folder), ""]
        if self.model is not None:
            lines += [f"{self.model.path}: {_headline(self.model)}", "", *_model_lines(self, self.model), ""]
            if self.model.network is not None and self.model.network.layers:
                lines += [*_layer_lines(self.model.network.layers), ""]
        for purpose, ready in (("computing", self.computing), ("training", self.training), ("decoding", self.decoding),
                               ("recognition", None if self.folder is None else self.recognition),
                               ("fine-tuning", self.fine_tuning)):
            if ready is not None:
                lines += [*_readiness_lines(purpose, ready), ""]
        for problem in self.problems:
            lines += _item("problem", problem)
        return "\n".join(lines).rstrip("\n") + "\n"

    def __str__(self) -> str:
        return self.text()


def _plain(value: Any) -> Any:
    """Replace NaN and infinity by None in nested lists and dicts, as JSON lacks them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _item(key: str, text: str, indent: int = 0, key_width: int = KEY_WIDTH) -> list[str]:
    """Return lines with ``key`` in the first column and the wrapped text beside it."""
    wrapped = textwrap.wrap(text, WIDTH - key_width, break_on_hyphens=False, break_long_words=False) or [""]
    return [((" " * indent + key).ljust(key_width) + wrapped[0]).rstrip(),
            *(" " * key_width + line for line in wrapped[1:])]


# -- facts -------------------------------------------------------------------------------------------------------------


def _headline(model: ModelFacts) -> str:
    size = "" if model.size is None else f", {model.size:,} bytes"
    article = "an" if model.kind[0] in "aeiou" else "a"
    return f"{article} {model.kind}, {'binary' if model.is_binary else 'text'}{size}"


def _folder_lines(inspection: Inspection, folder: FolderFacts) -> list[str]:
    facts = []
    if inspection.model is not None:
        facts.append(("model", inspection.model.path.removeprefix(folder.path).lstrip("/")))
    if folder.other_models:
        rest = len(folder.other_models) - MOST_MODELS
        facts.append(("other models", ", ".join(folder.other_models[:MOST_MODELS])
                      + (f" and {rest} more" if rest > 0 else "")))
    facts += [(name, ", ".join(text.split("\n")) or "(empty)") for name, text in folder.settings.items()]
    for name, purpose in folder.files.items():
        what = {"tree": "pdfs", "phones.txt": "phones"}.get(name.rsplit("/", 1)[-1])
        count = {"pdfs": folder.num_tree_pdfs, "phones": folder.num_phones, None: None}[what]
        facts.append((name, purpose + ("" if count is None else f" ({count:,} {what})")))
    if folder.graphs:
        facts.append(("graphs", ", ".join(folder.graphs)))
    if folder.extractor:
        facts.append(("i-vectors", f"an extractor, in {folder.extractor}/"))
    if folder.egs:
        facts.append(("egs/info", ", ".join(f"{name} {text}" for name, text in folder.egs.items())))
    width = max(KEY_WIDTH, *(len(key) + 2 for key, _ in facts))
    return [line for key, text in facts for line in _item(key, text, key_width=width)]


def _model_lines(inspection: Inspection, model: ModelFacts) -> Iterator[str]:
    if model.network is not None:
        yield from _network_lines(inspection, model.network)
    if model.transitions is not None:
        facts = model.transitions
        yield from _item("transition model", f"{facts.num_phones:,} phones, {facts.num_pdfs:,} pdfs, "
                         f"{facts.num_transition_ids:,} transition-ids" + (", topology of a chain model"
                                                                          if facts.is_chain else ""))
    if model.kind == "acoustic model":
        priors = model.priors
        yield from _item("priors", "none" if priors is None else
                         f"{priors.size:,}, from {priors.min:.3g} to {priors.max:.3g}, sum {priors.sum:.6g}")


def _network_lines(inspection: Inspection, network: NetworkFacts) -> Iterator[str]:
    yield from _item("inputs", ", ".join(f"{port.name} ({port.dim})" for port in network.inputs))
    yield from _item("outputs", ", ".join(map(_output, network.outputs)))
    yield from _item("i-vectors", f"needed, of dimension {network.input_dim('ivector')}"
                     if network.input_dim("ivector") else "not needed")
    yield from _item("context", f"{network.left_context} frames left, {network.right_context} right; modulus "
                     f"{network.modulus}" if network.left_context is not None else
                     f"not known: {network.context_note}; modulus {network.modulus}")
    yield from _item("subsampling", _subsampling(inspection, network))
    yield from _item("recurrent", "yes" if network.is_recurrent else "no")
    yield from _item("parameters", f"{network.num_parameters:,} in {network.num_updatable} of {len(network.layers)} "
                     f"components; {_memory(network.memory_bytes)} with statistics and fixed matrices")
    yield from _item("nodes", f"{network.num_nodes}")
    yield from _item("trained", _trained(network))
    yield from _item("test mode", _test_modes(network))
    for key, names in (("unused nodes", network.unused_nodes), ("unused components", network.unused_components)):
        if names:
            yield from _item(key, ", ".join(names))


def _output(port: Port) -> str:
    return f"{port.name} ({port.dim}{'' if port.objective == 'linear' else ', ' + port.objective})"


def _subsampling(inspection: Inspection, network: NetworkFacts) -> str:
    if inspection.frame_subsampling_factor is not None:
        return f"one frame of output for {inspection.frame_subsampling_factor} of input"
    if inspection.model is not None and inspection.model.looks_like_chain:
        return "not said; chain models usually have one frame of output for 3 of input"
    return "not said; usually none"


def _trained(network: NetworkFacts) -> str:
    if network.is_gradient:
        return "a gradient: the parameters are derivatives"
    rates = {layer.learning_rate for layer in network.layers if layer.learning_rate is not None}
    rate = f"; learning rates {min(rates):.6g} to {max(rates):.6g}" if len(rates) > 1 else \
        f"; learning rate {min(rates):.6g}" if rates else ""
    if network.frames is None:
        return f"not known: no component has statistics{rate}"
    return (f"statistics of {network.frames:,.0f} frames" if network.frames else "no: there are no statistics") + rate


def _test_modes(network: NetworkFacts) -> str:
    def said(modes: list[bool]) -> str:
        return "on" if all(modes) else "partly on" if any(modes) else "off"

    batchnorm, dropout = network.test_modes("BatchNormComponent"), network.test_modes()
    test_modes = [f"{what} {said(modes)}" for what, modes in (("batch normalization", batchnorm), ("dropout", dropout))
             if modes]
    return ", ".join(test_modes) or "no component has one"


def _memory(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


# -- layers ------------------------------------------------------------------------------------------------------------


def _layer_lines(layers: list[Layer]) -> list[str]:
    """Return the lines of the table of layers; a name that is too long for its column has a line of its own."""
    rows = [HEADINGS, *((layer.name, layer.type.removesuffix("Component"), str(layer.input_dim), str(layer.output_dim),
                         f"{layer.num_parameters:,}" if layer.num_parameters else "-") for layer in layers)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    name_width = min(widths[0], max(WIDTH - sum(widths[1:]) - 2 * (len(HEADINGS) - 1), len(HEADINGS[0])))
    lines = []
    for name, kind, *numbers in rows:
        cells = [kind.ljust(widths[1]), *map(str.rjust, numbers, widths[2:])]
        if len(name) > name_width:
            lines.append(name)
            name = ""
        lines.append("  ".join([name.ljust(name_width), *cells]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in (name_width, *widths[1:])))
    return lines


# -- readiness ---------------------------------------------------------------------------------------------------------


def _readiness_lines(purpose: str, ready: Readiness) -> Iterator[str]:
    yield from _item(f"for {purpose}", "nothing is missing" if ready.is_ready else
                     f"{len(ready.missing)} thing{'s' if len(ready.missing) > 1 else ''} missing")
    for lack in ready.missing:
        yield from _item("missing", lack.what, indent=2)
        yield from _item("do", lack.do, indent=4)
    for given in ready.takes:
        yield from _item("takes", given, indent=2)
    for note in ready.notes:
        yield from _item("note", note, indent=2)
