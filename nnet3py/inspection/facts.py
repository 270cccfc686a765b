"""What an inspection finds, as plain data: numbers, names, lists of them. ``--json`` prints these fields."""
from __future__ import annotations

from dataclasses import dataclass, field

PITCH_CONFS = ("conf/online_pitch.conf", "conf/pitch.conf")       # options of pitch, in a model folder


@dataclass
class Port:
    """An input or output of a network.

    Attributes
    ----------
    dim : columns
    objective : ``linear`` or ``quadratic``; empty for inputs
    """

    name: str
    dim: int
    objective: str = ""


@dataclass
class Layer:
    """One component.

    Attributes
    ----------
    nodes : the nodes where it works; none for a component that nothing uses
    frames : rows that its statistics have seen; None for a component without statistics
    learning_rate : None for a component that is not trained
    test_mode : None for a component that has no such mode
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
    """What a network consists of.

    Attributes
    ----------
    left_context, right_context : frames that an output frame needs; None where ``context_note`` says why
    modulus : the shift of t under which it computes the same
    is_recurrent : values depend on those of the same node at other times
    memory_bytes : of parameters, statistics and fixed matrices
    frames : the most rows that any component's statistics have seen; None if no component has statistics
    not_finite : components that hold NaN or infinity
    without_statistics : components of batch normalization that have never seen data
    is_gradient : its parameters are derivatives
    unused_nodes, unused_components : what no output needs
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
        """Return columns of an input; 0 for none of that name."""
        return next((port.dim for port in self.inputs if port.name == name), 0)

    def output_dim(self, name: str) -> int:
        """Return columns of an output; 0 for none of that name."""
        return next((port.dim for port in self.outputs if port.name == name), 0)

    def test_modes(self, *types: str) -> list[bool]:
        """Return the test modes of the components of these types; of all but batch normalization if none is given."""
        return [layer.test_mode for layer in self.layers if layer.test_mode is not None
                and (layer.type in types if types else layer.type != "BatchNormComponent")]


@dataclass
class TransitionFacts:
    """What a transition model consists of.

    Attributes
    ----------
    is_chain : its topology gives self-loops a pdf of their own, as those of chain models do
    """

    num_phones: int
    num_pdfs: int
    num_transition_states: int
    num_transition_ids: int
    is_chain: bool


@dataclass
class PriorFacts:
    """The priors of an acoustic model."""

    size: int
    sum: float
    min: float
    max: float


@dataclass
class ModelFacts:
    """What one model file holds.

    Attributes
    ----------
    kind : ``raw network``, ``acoustic model``, ``transition model`` or ``GMM model`` (of which only the transition
        model is read)
    size : bytes of the file; None for a pipe
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
        """Whether topology or outputs are those of a chain (LF-MMI) model."""
        return bool(self.transitions and self.transitions.is_chain
                    or self.network and self.network.output_dim("output-xent"))


@dataclass
class FolderFacts:
    """What a model folder holds besides the model that was looked at.

    Attributes
    ----------
    path : of the folder
    other_models : names of further model files
    settings : name of a small file -> its text, such as ``cmvn_opts``
    files : other known files that are there -> what they are for
    graphs : decoding graphs; for those that are composed while decoding, the first part, ``HCLr.fst``
    extractor : the folder of an i-vector extractor in it; empty for none
    num_phones : symbols of ``phones.txt``, epsilon and disambiguation symbols excepted; None without the file
    num_tree_pdfs : leaves of ``tree``; None without the file
    egs : what ``egs/info`` says about the training examples, name -> text
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
    """Something that is missing, and what to do about it."""

    what: str
    do: str


@dataclass
class Readiness:
    """Whether the model can be used for a purpose.

    Attributes
    ----------
    takes : what it is given each time, such as features of a dimension
    missing : what it cannot do without
    notes : what to keep in mind
    """

    takes: list[str] = field(default_factory=list)
    missing: list[Lack] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing
