"""Outputs of a network for whole utterances. Kaldi: ``DecodableNnetSimple``, nnet3-compute.

Kaldi computes chunk after chunk. The output is the same here, but chunks of one shape, from one utterance or many, run
as one minibatch.
"""
from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast, overload

import numpy as np

from nnet3py import log
from nnet3py.advice import arguments_elsewhere
from nnet3py.compiler.cache import CompilerOptions
from nnet3py.compiler.disk_cache import ENVIRONMENT
from nnet3py.errors import ShapeError, UsageError, within
from nnet3py.network.callable_model import Array, ComputeSettings, Features, NodeNames, Outputs, Progress
from nnet3py.network.inference import InferenceForm, for_inference
from nnet3py.network.model_file import AnyModelOrFile, network_of, network_or_file, read_nnet
from nnet3py.network.model_place import model_in, subsampling_beside
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.batch import MinibatchComputer
from nnet3py.runtime.cutting import ChunkAfterChunk, Utterance
from nnet3py.runtime.options import MAX_PENDING, ComputeOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ComputeOptions", "UtteranceComputer", "compute"]

MOST_COMPUTERS = 4       # of a thread; each may hold as much memory as its longest utterance needed
MOST_MODELS = 4


class UtteranceComputer(MinibatchComputer):
    """A computer of utterances' outputs with one network; ``compute_all`` computes many at a time, which is faster.

    Parameters
    ----------
    nnet : the network, an acoustic model (whose priors are not used), or the file of one; left unchanged: a copy is put
        in test mode (:func:`nnet3py.network.inference.for_inference`)
    options : see :class:`ComputeOptions`
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    device : "cpu" or "cuda"
    max_pending : limit on waiting chunks: the number of float32 elements of their features and outputs
    training_mode : whether to compute with ``nnet`` itself, with batch norm and dropout as they are set
    """

    def __init__(self, nnet: AnyModelOrFile, options: ComputeOptions | None = None,
                 priors: np.ndarray | None = None, device: str = "cpu", max_pending: int = MAX_PENDING,
                 training_mode: bool = False) -> None:
        options, nnet = options or ComputeOptions(), for_inference(network_or_file(nnet), training_mode)
        super().__init__(nnet, options, ChunkAfterChunk(nnet, options, device), priors, device, max_pending,
                         training_mode)

    def __call__(self, feats: np.ndarray, ivector: np.ndarray | None = None) -> Array:
        """Compute one utterance, see :meth:`compute`: float (frames, dim) -> float32 (frames, output dim)."""
        return self.compute(feats, ivector)

    def compute(self, feats: np.ndarray, ivector: np.ndarray | None = None, online_ivectors: np.ndarray | None = None,
                online_ivector_period: int = 0) -> Array:
        """Compute the output of one utterance.

        Parameters
        ----------
        feats : float (frames, input dim)
        ivector : float (ivector dim,), the same for the whole utterance
        online_ivectors : float (count, ivector dim), one every ``online_ivector_period`` frames

        Returns
        -------
        float32 (ceil(frames / frame_subsampling_factor), output dim)

        Raises
        ------
        ShapeError : features or i-vectors of another dimension than the network's
        NumericError : NaN or infinity in them, or NaN in the network's output
        Nnet3Error : the utterance has too many frames after its last online i-vector
        """
        (_, result), = self.compute_all([Utterance("", feats, ivector, online_ivectors)], online_ivector_period)
        if isinstance(result, np.ndarray):
            return result
        raise result


class _ComputerKey(NamedTuple):
    """The arguments of :func:`compute` for which different computers are needed."""

    output: str | tuple[str, ...]
    frames_per_chunk: int
    frame_subsampling_factor: int
    device: str
    cache_dir: str | None


@dataclass
class _ComputerEntry:
    network: weakref.ref[Nnet]
    form: InferenceForm
    computer: UtteranceComputer


class _ComputerMemory(threading.local):
    """The computers and networks that :func:`compute` keeps for each thread: by network and arguments, and by file.

    Only a few are kept: the least recently used ones are dropped first, and those of a network when it is deleted.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[int, _ComputerKey], _ComputerEntry] = OrderedDict()
        self._networks: OrderedDict[str, tuple[tuple[int, ...], Nnet]] = OrderedDict()

    def computer(self, nnet: Nnet, wanted: _ComputerKey) -> UtteranceComputer:
        """Return the computer for ``nnet``, made again if the network's structure, settings or parameters changed."""
        if wanted.cache_dir is None:
            wanted = wanted._replace(cache_dir=os.environ.get(ENVIRONMENT, ""))
        key = id(nnet), wanted
        entry = self._entries.get(key)
        if entry is None or entry.network() is not nnet or not entry.form.is_of(nnet):
            entries = self._entries
            network = weakref.ref(nnet, lambda _: entries.pop(key, None))
            entry = entries[key] = _ComputerEntry(network, *_new_computer(nnet, wanted))
            while len(self._entries) > MOST_COMPUTERS:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return entry.computer

    def network(self, path: str) -> Nnet:
        """Return the network in a file, read again if the file has changed; a pipe is read each time."""
        path = model_in(path)
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return read_nnet(path)
        file = os.path.abspath(path)
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        version_before, nnet = self._networks.get(file, (None, None))
        if nnet is None or version_before != version:
            nnet = read_nnet(path)
            self._networks[file] = version, nnet
            while len(self._networks) > MOST_MODELS:
                self._networks.popitem(last=False)
        self._networks.move_to_end(file)
        return nnet


def _new_computer(nnet: Nnet, wanted: _ComputerKey) -> tuple[InferenceForm, UtteranceComputer]:
    form = InferenceForm(nnet, wanted.output, reads_shared=wanted.device == "cpu")
    options = ComputeOptions(
        frames_per_chunk=wanted.frames_per_chunk, frame_subsampling_factor=wanted.frame_subsampling_factor,
        compiler=CompilerOptions(cache_dir=wanted.cache_dir))
    return form, UtteranceComputer(form.nnet, options, device=wanted.device)


_memory = _ComputerMemory()


# Arrays are iterable, too: their overloads come first.
@overload
def compute(model: AnyModelOrFile, feats: np.ndarray, ivector: np.ndarray | None = None, *, output: str = "output",     # type: ignore[overload-overlap]
            **settings: Unpack[ComputeSettings]) -> Array: ...
@overload
def compute(model: AnyModelOrFile, feats: np.ndarray, ivector: np.ndarray | None = None, *, output: NodeNames,     # type: ignore[overload-overlap]
            **settings: Unpack[ComputeSettings]) -> dict[str, Array]: ...
@overload
def compute(model: AnyModelOrFile, feats: Mapping[str, np.ndarray], ivector: Features | None = None, *,
            output: str = "output", **settings: Unpack[ComputeSettings]) -> dict[str, Array]: ...
@overload
def compute(model: AnyModelOrFile, feats: Mapping[str, np.ndarray], ivector: Features | None = None, *,
            output: NodeNames, **settings: Unpack[ComputeSettings]) -> dict[str, dict[str, Array]]: ...
@overload
def compute(model: AnyModelOrFile, feats: Iterable[np.ndarray], ivector: Features | None = None, *,
            output: str = "output", **settings: Unpack[ComputeSettings]) -> list[Array]: ...
@overload
def compute(model: AnyModelOrFile, feats: Iterable[np.ndarray], ivector: Features | None = None, *, output: NodeNames,
            **settings: Unpack[ComputeSettings]) -> list[dict[str, Array]]: ...


@arguments_elsewhere(
    outputs_or_nodes_or_layers_or_layer_or_node="output=", ivectors="ivector=", chunk_size="frames_per_chunk=",
    online_ivectors="ivector=, a matrix, and online_ivector_period=10",
    ivector_period_or_period="online_ivector_period=",
    batch_size="several utterances are computed together: compute(nnet, [feats, more])",
    subsampling_or_subsampling_factor="frame_subsampling_factor=",
    priors_or_use_priors="nnet3py.UtteranceComputer(nnet, priors=model.priors)")
def compute(model: AnyModelOrFile, feats: Features, ivector: Features | None = None, frames_per_chunk: int = 50,
            device: str = "cpu", cache_dir: str | os.PathLike[str] | None = None, *, output: str | NodeNames = "output",
            frame_subsampling_factor: int | None = None, progress: bool | Progress = False,
            online_ivector_period: int | None = None) -> Outputs:
    """Compute the output of a network, with batch-norm and dropout in test mode, as ``nnet3-compute`` does.

    The prepared network is kept, so that further calls are fast. It is prepared again if its parameters, its structure
    or its file have changed.

    Parameters
    ----------
    model : a network, an acoustic model (its priors are not used), the file of one, or a model folder; left as it is
    feats : float (frames, input dim); or several such arrays, of any lengths, in a list (or any other iterable) or in a
        dict; or (sequences, frames, input dim)
    ivector : float (ivector dim,), or None if the network has no such input; or online i-vectors, float (count, ivector
        dim), one every ``online_ivector_period`` frames, of which each chunk uses that at its middle. With several
        ``feats``, as many of these, in the same form
    frames_per_chunk : frames computed at a time
    device : "cpu" or "cuda"
    cache_dir : a folder where compiled computations are kept for other processes; None: the folder that the environment
        variable NNET3PY_COMPUTATION_CACHE names, if it is set; "": no folder
    output : the node whose values are returned, an output of the network or any other; or a list of nodes, whose values
        come from one pass
    frame_subsampling_factor : frames for each row of output; None: the factor in the model's folder (in its options of
        decoding, or in the file ``frame_subsampling_factor``, which chain models have), else 1
    progress : True: show on a terminal how many of several ``feats`` are done; or a function, called with (done, total)
    online_ivector_period : frames from one online i-vector to the next, 10 as Kaldi's programs extract them

    Returns
    -------
    float32 (ceil(frames / frame_subsampling_factor), dim of the node); for a list of nodes a dict of these by node. For
    several features a list or a dict of such results (for a three-dimensional array such an array, or a dict of these);
    they are computed together, which is faster.

    Raises
    ------
    ShapeError : features or an i-vector of another dimension than the network's; online i-vectors without their period
    NumericError : NaN or infinity in them, or values that are not real numbers; NaN in the network's output
    Nnet3Error : a file that cannot be read, or no such node in the network; an utterance with too many frames after
        its last online i-vector

    Notes
    -----
    For more utterances than fit in memory, :class:`UtteranceComputer` takes and returns one after another.
    """
    nnet = _memory.network(os.fspath(model)) if isinstance(model, str | os.PathLike) else network_of(model)
    if frame_subsampling_factor is None:
        frame_subsampling_factor = subsampling_beside(nnet.path)
    folder = None if cache_dir is None else os.fspath(cache_dir)
    if not isinstance(output, str | list | tuple):
        raise UsageError(f"output={output!r}: expected the name of a node, or a list of them",
                         f"its nodes are {', '.join(nnet.node_names)}")
    nodes = output if isinstance(output, str) else tuple(output)
    if not nodes:
        raise UsageError("no node is asked for: output is empty", f"its nodes are {', '.join(nnet.node_names)}")
    columns = None if isinstance(nodes, str) else _node_columns(nnet, nodes)
    computer = _memory.computer(nnet, _ComputerKey(nodes, frames_per_chunk, frame_subsampling_factor, device, folder))
    several = _matrices_by_key(feats)
    if several is None:
        vector = None if ivector is None else _ivector_array(ivector)
        alone = _utterance("", np.asarray(feats), vector, online_ivector_period)
        return _by_node(computer.compute(*alone[1:4], online_ivector_period or 0), columns)
    vectors = _ivectors_by_key(ivector, several)
    utterances = [_utterance(key, np.asarray(matrix), vectors[key], online_ivector_period)
                  for key, matrix in several.items()]
    outputs: dict[str, np.ndarray] = {}
    computed = computer.compute_all(utterances, online_ivector_period or 0)
    for key, result in log.progress(computed, "computing", len(utterances)) if progress is True else computed:
        if not isinstance(result, np.ndarray):
            with within(f"utterance {key}"):
                raise result
        outputs[key] = result
        if callable(progress):
            progress(len(outputs), len(utterances))
    if isinstance(feats, np.ndarray):
        return _by_node(np.stack(list(outputs.values())), columns)
    by_key = {key: _by_node(values, columns) for key, values in outputs.items()}
    return cast(Outputs, by_key if isinstance(feats, Mapping) else list(by_key.values()))


def _utterance(key: str, feats: np.ndarray, ivector: np.ndarray | None, period: int | None) -> Utterance:
    """Make an utterance; a vector is its only i-vector, a matrix its online i-vectors."""
    if ivector is None or ivector.ndim != 2:
        return Utterance(key, feats, ivector)
    if period is None:
        raise ShapeError(f"online i-vectors are given, an array of shape {ivector.shape}, but not how many frames are "
                         "from one to the next", "give online_ivector_period=10, if they were extracted as usual; or "
                         "one i-vector (dim,)")
    return Utterance(key, feats, None, ivector)


def _matrices_by_key(feats: Features) -> dict[str, np.ndarray] | None:
    """Return several feature matrices by key (of a dict) or number; None if ``feats`` is a single matrix."""
    if isinstance(feats, np.ndarray) and (feats.ndim != 3 or not len(feats)):
        return None
    if isinstance(feats, Mapping):
        return dict(feats)
    if isinstance(feats, str):
        raise ShapeError(f"expected features, float (frames, dim), found {feats!r}",
                         f"of a table: compute(nnet, dict(nnet3py.read_matrices({feats!r}))); of a sound: "
                         "nnet3py.features('a.wav')")
    if not isinstance(feats, Iterable):
        raise ShapeError(f"expected features, float (frames, dim), found {type(feats).__name__}")
    listed = list(feats)
    if listed and all(np.ndim(rows) < 2 for rows in listed):         # the rows of a single matrix
        return None
    return {str(i): matrix for i, matrix in enumerate(listed)}


def _ivectors_by_key(ivector: Features | None, several: Mapping[str, np.ndarray]) -> dict[str, np.ndarray | None]:
    """Return the i-vector, or None, of each of the ``several`` feature matrices."""
    if ivector is None:
        return dict.fromkeys(several)
    if not isinstance(ivector, Mapping):
        vectors = list(ivector)
        if len(vectors) != len(several) or any(np.ndim(vector) not in (1, 2) for vector in vectors):
            raise ShapeError(f"expected {len(several)} i-vectors, float (dim,) or (count, dim) each, for as many "
                             f"matrices of features, found {len(vectors)} of shape "
                             f"{np.shape(vectors[0]) if vectors else ()}")
        ivector = dict(zip(several, vectors, strict=True))
    missing = next((key for key in several if key not in ivector), None)
    if missing is not None:
        raise ShapeError(f"there is no i-vector for utterance {missing}")
    return {key: _ivector_array(ivector[key]) for key in several}


def _ivector_array(ivector: Features) -> np.ndarray:
    """Convert one i-vector or online i-vectors to an array. Raises ShapeError for anything but numbers."""
    if isinstance(ivector, str):
        raise ShapeError(f"expected an i-vector, float (dim,), found {ivector!r}",
                         f"a node is given by name: output={ivector!r}")
    try:
        return np.asarray(ivector)
    except ValueError:
        raise ShapeError("expected an i-vector, float (dim,), or online ones, (count, dim), found a "
                         f"{type(ivector).__name__} of other arrays", "online_ivector_period= is an argument of its own"
                         ) from None


def _node_columns(nnet: Nnet, nodes: tuple[str, ...]) -> dict[str, slice]:
    """Return the columns of each node in the output of a network whose output appends all ``nodes``."""
    ends = np.cumsum([nnet.node_dim(nnet.node_index(name)) for name in nodes]).tolist()
    return {name: slice(begin, end) for name, begin, end in zip(nodes, [0, *ends], ends, strict=False)}


def _by_node(values: np.ndarray, columns: dict[str, slice] | None) -> Array | dict[str, Array]:
    if columns is None:
        return values
    return {name: np.ascontiguousarray(values[..., place]) for name, place in columns.items()}
