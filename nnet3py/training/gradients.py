"""Derivatives of a loss with respect to a network's inputs and parameters, without index arrays."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nnet3py.advice import arguments_elsewhere
from nnet3py.compiler import compile
from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.base import Component, with_children
from nnet3py.errors import ShapeError, UsageError
from nnet3py.network.inference import compute_only
from nnet3py.network.model_file import AnyModelOrFile, network_or_file
from nnet3py.network.model_place import subsampling_beside
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
from nnet3py.ops import get_ops
from nnet3py.runtime.computer import Computer
from nnet3py.runtime.cutting import NetworkIo
from nnet3py.training.objectives import compute_objective
from nnet3py.training.targets import Targets, as_supervision

Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


class _InputAndNnet(NamedTuple):
    """The pair that :class:`Gradients` unpack into."""

    input: NDArray[np.float32]
    nnet: Nnet


class Gradients(_InputAndNnet):
    """Result of :func:`gradients`; unpacks as ``input, nnet``.

    Attributes
    ----------
    input : the derivative with respect to the features, float32 (frames, input dim)
    nnet : a network of the same form whose parameters are the derivatives: ``nnet["tdnn1.affine"].parameters()``
    output : the network's output, float32 (rows, dim)
    value : the loss or objective; NaN if ``output_deriv`` was given
    ivector : the derivative with respect to the i-vector, float32 (ivector dim,); None without i-vector
    """

    output: NDArray[np.float32]
    value: float
    ivector: NDArray[np.float32] | None

    def __new__(cls, input: NDArray[np.float32], nnet: Nnet, output: NDArray[np.float32], value: float,
                ivector: NDArray[np.float32] | None = None) -> Gradients:
        self = super().__new__(cls, input, nnet)
        self.output, self.value, self.ivector = output, value, ivector
        return self

    def __getnewargs__(self) -> tuple[object, ...]:       # for copies and pickle
        return *self, self.output, self.value, self.ivector

    def __repr__(self) -> str:
        arrays = {"input": self.input, "output": self.output, "ivector": self.ivector}
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items() if array is not None)
        return f"<Gradients: value {self.value:.6g}, {shapes}, nnet {self.nnet!r}>"


@arguments_elsewhere(ivectors="ivector=", target_or_classes_or_labels_or_y="targets=", criterion="loss=",
                     outputs_or_node="output=")
def gradients(model: AnyModelOrFile, feats: np.ndarray,
              output_deriv: np.ndarray | None = None, *, loss: Loss | None = None, targets: Targets | None = None,
              ivector: np.ndarray | None = None, output: str = "output", frame_subsampling_factor: int | None = None,
              training_mode: bool = False, device: str = "cpu") -> Gradients:
    """Compute derivatives with respect to features and parameters, for one utterance computed in one piece.

    The derivatives are those of a ``loss``, or of the objective of training with ``targets``, or of the sum of
    ``output_deriv`` times the output. Exactly one of the three must be given.

    >>> found = nnet3py.gradients(nnet, feats, targets=classes)
    >>> found.value, found.input.shape, found.nnet["affine1"].parameters()["bias_params"].shape

    Parameters
    ----------
    model : a network, an acoustic model, or the file of one; it does not change
    feats : features, float (frames, input dim)
    output_deriv : the derivative at the output, float (rows, dim)
    loss : a function of the output, float32 (rows, dim), that returns the loss and its derivative, of the same shape
    targets : as for :func:`nnet3py.training.targets.as_targets`; the objective is that of the output node, a sum over
        rows: the larger, the better
    ivector : the i-vector, float (ivector dim,), where the network has an input ``ivector``
    output : the name of the node, an output or any other
    frame_subsampling_factor : frames for each row of output; None: the factor in the model's folder, else 1
    training_mode : True: batch-norm with the utterance's own statistics, and dropout, as they are set in the network;
        False: both in test mode, as in :func:`nnet3py.compute`
    device : "cpu" or "cuda"

    Returns
    -------
    Gradients : ``.input``, float32 (frames, input dim); ``.nnet``, whose parameters are the derivatives; ``.output``,
        ``.value``, ``.ivector``

    Frames before the first and after the last are copies of these two; their derivatives are added to those of the
    originals. Self-repair, which training adds to derivatives of nonlinearities, is left out.

    Raises
    ------
    UsageError : none or several of ``output_deriv``, ``loss`` and ``targets``
    ShapeError : arrays whose shapes do not fit the network
    NumericError : NaN or infinity in them
    Nnet3Error : a node that the network does not have, a file that cannot be read
    """
    if sum(given is not None for given in (output_deriv, loss, targets)) != 1:
        raise UsageError("expected one of output_deriv, loss and targets",
                         "gradients(nnet, feats, targets=classes), or loss=lambda y: (value, derivative)")
    nnet = network_or_file(model)
    factor = subsampling_beside(nnet.path) if frame_subsampling_factor is None else frame_subsampling_factor
    if factor < 1:
        raise UsageError(f"frame_subsampling_factor={factor} must be 1 or more")
    form = _form(nnet, output, training_mode)
    feats, vector = np.asarray(feats), None if ivector is None else np.asarray(ivector)
    io = NetworkIo(form)
    io.check_features(feats)
    io.check_ivectors(vector, None, 0)
    if not len(feats):
        raise ShapeError("expected features of one frame or more, found none")

    num_rows = -(-len(feats) // factor)
    left, right = compute_simple_nnet_context(form)
    last = (num_rows - 1) * factor
    times = np.clip(np.arange(-left, last + right + 1), 0, len(feats) - 1)
    request = _request(left, right, last, factor, vector is not None)
    gradient = form.as_gradient()
    computer = Computer(compile(form, request), form, update=gradient, device=device)
    computer.accept_input("input", feats[times])
    if vector is not None:
        computer.accept_input("ivector", vector[None])
    computer.run()
    values = computer.output("output")
    if targets is not None:
        value, deriv = _objective(form, values, targets)
    elif loss is not None:
        value, deriv = loss(values.copy())
    else:
        value, deriv = float("nan"), np.asarray(output_deriv)
    if np.shape(deriv) != values.shape:
        raise ShapeError(f"expected the derivative of the output to be float {values.shape}, found {np.shape(deriv)}",
                         "classes are given by name: gradients(nnet, feats, targets=classes)" if np.ndim(deriv) == 1
                         else None)
    computer.accept_input("output", np.asarray(deriv, dtype=np.float32))
    computer.run()
    of_input = np.zeros(feats.shape, dtype=np.float32)
    np.add.at(of_input, times, computer.output("input"))
    return Gradients(of_input, _whole(nnet, gradient), values, float(value),
                     None if vector is None else computer.output("ivector")[0])


def _form(nnet: Nnet, output: str, training_mode: bool) -> Nnet:
    """Return a copy of the network whose only output, called ``output``, is the node ``output``."""
    form = nnet.copy()
    form.nodes = [copy.copy(node) for node in nnet.nodes]
    form.components, form.component_names = list(form.components), list(form.component_names)
    compute_only(form, output)
    if not training_mode:
        set_batchnorm_test_mode(form, True)
        set_dropout_test_mode(form, True)
    for component in with_children(form.components):
        _switch_off_self_repair(component)
    return form


def _switch_off_self_repair(component: Component) -> None:
    """Turn off self-repair, a term that training adds to derivatives of units which saturate."""
    if hasattr(component, "self_repair_scale"):
        component.self_repair_scale = np.float32(0.0)
    if hasattr(component, "self_repair_config"):           # of an LSTM: thresholds, then scales
        config = component.self_repair_config.copy()
        config[len(config) // 2:] = 0.0
        component.self_repair_config = config


def _request(left: int, right: int, last: int, factor: int, has_ivector: bool) -> ComputationRequest:
    inputs = [IoSpecification.frames("input", 1, -left, last + right + 1, has_deriv=True)]
    if has_ivector:
        inputs.append(IoSpecification.frames("ivector", 1, 0, 1, has_deriv=True))
    return ComputationRequest(inputs, [IoSpecification.frames("output", 1, 0, last + 1, factor, has_deriv=True)],
                              need_model_derivative=True)


def _objective(form: Nnet, values: np.ndarray, targets: Targets) -> tuple[float, np.ndarray]:
    supervision, deriv = as_supervision(targets, *values.shape), np.empty_like(values)
    kind = form.descriptor_of(form.node_index("output")).objective
    return compute_objective(get_ops("cpu"), kind, supervision, values, deriv).value, deriv


def _whole(nnet: Nnet, gradient: Nnet) -> Nnet:
    """Return the gradient with all components of ``nnet``; those that ``gradient`` lacks are 0."""
    whole = nnet.as_gradient()
    for name, component in gradient.named_components():
        whole.components[whole.component_index(name)] = component
    return whole
