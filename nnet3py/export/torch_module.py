"""Networks as torch modules, and the parameters of such modules back into networks."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from nnet3py.advice import arguments_elsewhere
from nnet3py.components.base import Component, Properties
from nnet3py.errors import FormatError, Nnet3Error, ShapeError, UsageError
from nnet3py.export.export_options import ExportOptions, ExportSettings
from nnet3py.export.limits import least_frames
from nnet3py.export.models import graph_of, read, select_outputs
from nnet3py.export.operations import Graph, all_ops, linear_weights
from nnet3py.export.plain_weights import all_components, batch_norm_arrays, named_arrays, set_arrays
from nnet3py.export.torch_source import TorchSource
from nnet3py.extras import load
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from nnet3py.acoustic_model import AcousticModel

    TorchState: TypeAlias = torch.nn.Module | Mapping[str, torch.Tensor]

WRAPPERS = "_orig_mod.", "module."      # prefixes of names of parameters: torch.compile, DistributedDataParallel


def import_torch() -> Any:
    """Import the package torch. Raises Nnet3Error with the command that installs it."""
    return load("torch", "torch modules need", "torch")


@arguments_elsewhere(ExportOptions, device="module = nnet3py.to_torch(nnet).to('cuda')",
                     dtype="module = nnet3py.to_torch(nnet).half(), or .to(torch.bfloat16)",
                     trainable_or_requires_grad="nothing is to be done: module.train(), and module.parameters() are "
                     "what an optimizer takes")
def to_torch(model: Nnet | AcousticModel | str | os.PathLike[str], options: ExportOptions | None = None,
             **settings: Unpack[ExportSettings]) -> torch.nn.Module:
    """Make a ``torch.nn.Module`` with the same outputs as nnet3py, with one submodule for each component.

    Affine components are ``nn.Linear``, batch normalization is ``nn.BatchNorm1d``; a component ``tdnn1.affine`` is
    ``module.tdnn1.affine``. The module is in evaluation mode; ``module.source`` is its source. ``torch.save``,
    ``pickle``, ``copy.deepcopy``, ``torch.compile``, ``torch.export`` and ``torch.jit.script`` accept it.

    ``module(input, ivector=None)`` takes float tensors, (sequences, frames, dim) and (sequences, dim), then further
    inputs by name, and returns float (sequences, output frames, output dim); with several outputs, a list of these. The
    module raises ShapeError, or UsageError for another dtype than that of the parameters.

    Batch normalization without statistics begins as ``nn.BatchNorm1d`` does, with mean 0 and variance 1.

    Parameters
    ----------
    model : network, acoustic model, file of one, or model folder; not changed
    options, settings : see :class:`~nnet3py.export.export_options.ExportOptions`; or its attributes by name. Components
        are never merged.

    Returns
    -------
    A ``torch.nn.Module``.

    Raises
    ------
    Nnet3Error : a network that cannot be exported; torch is not installed
    """
    return _to_torch(model, options or ExportOptions(**settings), needs_statistics=False)


def _to_torch(model: Nnet | AcousticModel | str | os.PathLike[str], options: ExportOptions,
              needs_statistics: bool) -> Any:
    torch = import_torch()
    from nnet3py.export.torch_network import network_class

    options = dataclasses.replace(options, collapse=False)
    if options.streaming:
        raise UsageError("streaming=True: a torch module computes whole utterances only",
                         "for streams, export ONNX with --streaming")
    nnet, _ = read(model, options.use_priors)
    graph = graph_of(model, options, needs_statistics)
    writer = TorchSource(graph, least_frames(select_outputs(nnet, options.output), graph))
    module = network_class(writer.source())()
    _add_components(torch, module, graph, all_components(nnet))
    for buffer, name in writer.constants.items():
        module.register_buffer(buffer, torch.from_numpy(graph.weights[name].array.copy()), persistent=False)
    for buffer, columns in writer.columns.items():
        module.register_buffer(buffer, torch.tensor(columns), persistent=False)
    return module.eval()


def _add_components(torch: Any, module: Any, graph: Graph, components: dict[str, Component]) -> None:
    nn = torch.nn
    plain = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "softmax": lambda: nn.Softmax(-1),
             "log_softmax": lambda: nn.LogSoftmax(-1)}
    for op in all_ops(graph):
        name = op.settings.get("component")
        if name is None:
            continue
        if op.kind == "linear":
            _put(nn, module, name, _linear(torch, graph, op.settings, components[name]))
        elif op.kind == "batch_norm":
            _put(nn, module, name, _batch_norm(torch, components[name]))
        else:
            _put(nn, module, name, plain[op.kind]())
    of_linear = linear_weights(graph)
    for weight in graph.weights.values():
        if weight.is_parameter and weight.name not in of_linear:
            holder = _put(nn, module, weight.component, nn.Module())
            holder.register_parameter(weight.attribute, nn.Parameter(
                torch.from_numpy(weight.array.copy()), _is_trained(components[weight.component])))


def _is_trained(component: Component) -> bool:
    return bool(component.has(Properties.UPDATABLE))


def _put(nn: Any, module: Any, name: str, new: Any) -> Any:
    """Return the submodule ``name``, a path with dots; add ``new`` in its place if it does not exist."""
    *folders, last = name.split(".")
    for folder in folders:
        if folder not in module._modules:
            _add(module, folder, nn.Module())
        module = module._modules[folder]
    old = module._modules.get(last)
    if old is None:
        _add(module, last, new)
        return new
    if type(old) is nn.Module and type(new) is not nn.Module:     # a parent that is itself a component
        for child, inside in old._modules.items():
            new.add_module(child, inside)
        module._modules[last] = new
        return new
    return old


def _add(module: Any, name: str, new: Any) -> None:
    try:
        module.add_module(name, new)
    except KeyError as error:
        raise Nnet3Error(f"torch modules cannot have a part called '{name}': {error}",
                         "rename the component with nnet3-copy --edits") from error


def _linear(torch: Any, graph: Graph, settings: dict[str, Any], component: Component) -> Any:
    weight = graph.weights[settings["weight"]].array
    bias = next((op.settings["bias"] for op in all_ops(graph) if op.kind == "linear" and op.settings["bias"]
                 and op.settings["component"] == settings["component"]), None)
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight.copy()))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(graph.weights[bias].array.copy()))
    return layer.requires_grad_(_is_trained(component))


def _moments(component: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of batch normalization, float32; 0 and 1 without statistics."""
    if component.count[0] == 0:
        return np.zeros(component.block_dim, np.float32), np.ones(component.block_dim, np.float32)
    mean = component.sum / component.count[0]
    variance = np.maximum(component.sumsq / component.count[0] - mean**2, 0.0)
    return mean.astype(np.float32), variance.astype(np.float32)


def _batch_norm(torch: Any, component: Any) -> Any:
    layer = torch.nn.BatchNorm1d(component.block_dim, eps=float(component.epsilon), affine=False)
    mean, variance = _moments(component)
    layer.running_mean.copy_(torch.from_numpy(mean))
    layer.running_var.copy_(torch.from_numpy(variance))
    return layer


# -- parameters of modules into networks -------------------------------------------------------------------------------


@overload
def from_torch(module: TorchState, model: AcousticModel, *, like: None = None) -> AcousticModel: ...
@overload
def from_torch(module: TorchState, model: Nnet | str | os.PathLike[str], *, like: None = None) -> Nnet: ...
@overload
def from_torch(module: TorchState, model: Nnet | AcousticModel | str | os.PathLike[str] | None = None, *,
               like: AcousticModel | str | os.PathLike[str]) -> AcousticModel: ...
def from_torch(module: TorchState, model: Nnet | AcousticModel | str | os.PathLike[str] | None = None, *,
               like: AcousticModel | str | os.PathLike[str] | None = None) -> Nnet | AcousticModel:
    """Return a copy of a model's network with the parameters of a module from :func:`to_torch`.

    Unchanged parameters keep their bytes. Learning rates and everything else unknown to torch stay as they are.

    Parameters
    ----------
    module : the module, also compiled or data-parallel; or its ``state_dict()``
    model : the network, acoustic model, or file from which the module was made; None for that of ``like``
    like : acoustic model, its file or its folder, whose transition model and priors the result gets

    Returns
    -------
    A network; an acoustic model if ``like`` is given, or if ``model`` is an :class:`AcousticModel` (of a file only the
    network is taken)

    Raises
    ------
    ShapeError : an unknown name or another shape; an output whose dimension is not the number of pdfs of ``like``
    """
    from nnet3py.acoustic_model import AcousticModel, acoustic_model

    whole = None if like is None else acoustic_model(like)
    if whole is None and isinstance(model, AcousticModel):
        whole = model
    if model is None and whole is None:
        raise UsageError("the network that the module was made from is needed", "from_torch(module, 'final.raw'), or "
                         "from_torch(module, like='final.mdl') for an acoustic model")
    nnet = (whole.nnet if model is None and whole is not None else read(model)[0]).copy()     # type: ignore[arg-type]
    state = module if isinstance(module, Mapping) else module.state_dict()
    set_state(nnet, {name: tensor.detach().cpu().float().numpy() for name, tensor in state.items()})
    return nnet if whole is None else whole.with_network(nnet)


def set_state(nnet: Nnet, state: dict[str, np.ndarray]) -> list[str]:
    """Put the arrays of a state_dict into a network, in place; return the names of those that changed.

    ``state`` has arrays of any type, with the shapes of the module's parameters; raises as :func:`from_torch`.
    """
    components, arrays = all_components(nnet), named_arrays(nnet)
    given: dict[str, np.ndarray] = {}
    moments: dict[str, dict[str, np.ndarray]] = {}
    for name, array in state.items():
        component, attribute = _component_and_attribute(name, components)
        if component not in components:
            raise ShapeError(f"the state_dict has '{name}', which belongs to no component of the network")
        if attribute in ("running_mean", "running_var"):
            moments.setdefault(component, {})[attribute] = array
        elif attribute != "num_batches_tracked":
            given[_attribute(component, attribute, arrays)] = array
    for component, values in moments.items():
        given |= _statistics(component, components[component], values)
    return set_arrays(nnet, given)


def _component_and_attribute(name: str, components: dict[str, Component]) -> tuple[str, str]:
    """Split the name of a parameter into component and attribute; drop prefixes of torch.compile and DataParallel."""
    component, _, attribute = name.rpartition(".")
    while component not in components and name.startswith(WRAPPERS):
        name = name.partition(".")[2]
        component = name.rpartition(".")[0]
    return component, attribute


def _attribute(component: str, attribute: str, arrays: dict[str, np.ndarray]) -> str:
    """Return the key in ``arrays``, as of :func:`named_arrays`, of a module's parameter."""
    candidates = {"weight": ("linear_params", "params", "filter_params"), "bias": ("bias_params",)}.get(attribute, ())
    return next((f"{component}.{name}" for name in candidates if f"{component}.{name}" in arrays),
                f"{component}.{attribute}")


def _statistics(name: str, component: Any, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return batch-normalization statistics with the mean and variance in ``values``; none if they are unchanged."""
    mean, variance = _moments(component)
    new_mean, new_variance = values.get("running_mean", mean), values.get("running_var", variance)
    if mean.shape != new_mean.shape or variance.shape != new_variance.shape:
        raise ShapeError(f"the statistics of '{name}' have shape {new_mean.shape}, expected {mean.shape}")
    if np.array_equal(mean, new_mean) and np.array_equal(variance, new_variance):
        return {}
    return batch_norm_arrays(name, component, new_mean, new_variance)


def write_torch(model: Nnet | AcousticModel | str | os.PathLike[str], path: str, options: ExportOptions) -> None:
    """Write a model as a TorchScript file, which ``torch.jit.load`` reads without nnet3py.

    Raises Nnet3Error for a network that cannot be exported, also for batch normalization without statistics, since such
    files are not for training.
    """
    import io
    import warnings

    from nnet3py.io.streams import open_output

    torch = import_torch()
    module, buffer = _to_torch(model, options, needs_statistics=True), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")               # torch.jit is deprecated, but has no replacement yet
        torch.jit.save(torch.jit.script(module), buffer)
    with open_output(path) as file:
        file.write(buffer.getvalue())


def read_state(path: str) -> dict[str, np.ndarray]:
    """Read the state_dict in a file: TorchScript, or ``torch.save(module.state_dict(), path)``.

    Raises FormatError for any other file.
    """
    import warnings

    torch = import_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            state = torch.jit.load(path, map_location="cpu").state_dict()
        except (RuntimeError, ValueError):
            try:
                state = torch.load(path, map_location="cpu", weights_only=True)
            except Exception as error:                # pickle's exceptions for bad bytes have no common base
                raise FormatError(f"expected a TorchScript file or a file of a state_dict: {error}",
                                  path=path) from error
    if not isinstance(state, dict) or not all(hasattr(tensor, "numpy") for tensor in state.values()):
        raise FormatError("expected a state_dict, names and tensors", path=path)
    return {name: tensor.detach().float().numpy() for name, tensor in state.items()}
