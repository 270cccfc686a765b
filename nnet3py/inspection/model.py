"""Descriptions of model files: networks, transition models and priors."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from nnet3py.acoustic_model import AcousticModel
from nnet3py.components.base import Component, Properties
from nnet3py.errors import Nnet3Error
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.inspection.facts import Layer, ModelFacts, NetworkFacts, Port, PriorFacts, TransitionFacts
from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader
from nnet3py.network.edit_checks import FIXED_ARRAYS
from nnet3py.network.nnet import Nnet
from nnet3py.network.recurrence import is_recurrent
from nnet3py.network.structure import ComponentNode, InputNode, orphan_components, orphan_nodes

# Kind, whether the file is binary, and the parts that it may have.
Contents = tuple[str, bool, TransitionModel | None, Nnet | None, "np.ndarray | None"]


def model_facts(path: str) -> ModelFacts:
    """Read a raw network, an acoustic model or a transition model, text or binary, and describe it.

    Parameters
    ----------
    path : any rxfilename

    Raises
    ------
    FormatError : bytes that are not a model
    Nnet3Error : a file that cannot be opened
    """
    kind, is_binary, transitions, nnet, priors = read_object(path, _read_model)
    return ModelFacts(path, kind, is_binary, os.path.getsize(path) if os.path.isfile(path) else None,
                      None if nnet is None else network_facts(nnet),
                      None if transitions is None else transition_facts(transitions),
                      None if priors is None or not priors.size else prior_facts(priors))


def _read_model(reader: TokenReader) -> Contents:
    if reader.peek_token() == "N":
        return "raw network", reader.binary, None, Nnet.read(reader), None
    if reader.peek_token() != "T":
        raise reader.unexpected(reader.token(), "<Nnet3> or <TransitionModel>, with which models begin")
    transitions = TransitionModel.read(reader)
    reader.skip_whitespace()
    if reader.at_end():
        return "transition model", reader.binary, transitions, None, None
    if reader.peek_token() == "D":      # <DIMENSION>: Gaussian mixtures follow, which are not read
        return "GMM model", reader.binary, transitions, None, None
    model = AcousticModel.read_after(transitions, reader)
    return "acoustic model", reader.binary, transitions, model.nnet, model.priors


def network_facts(nnet: Nnet) -> NetworkFacts:
    """Describe a network."""
    left, right, note = _contexts(nnet)
    orphans = set(orphan_nodes(nnet))
    nodes: list[list[str]] = [[] for _ in nnet.components]
    for node in nnet.nodes:
        if isinstance(node, ComponentNode):
            nodes[node.component_index].append(node.name)
    layers = [_layer(name, component, used) for (name, component), used
              in zip(nnet.named_components(), nodes, strict=True)]
    seen = [layer.frames for layer in layers if layer.frames is not None]
    arrays = [_arrays(component) for component in nnet.components]
    visible = [name for name, _ in nnet.named_nodes()]
    return NetworkFacts(
        inputs=[Port(node.name, node.dim) for node in nnet.nodes if isinstance(node, InputNode)],
        outputs=[Port(node.name, nnet.node_dim(i), nnet.descriptor_of(i).objective)
                 for i, node in enumerate(nnet.nodes) if nnet.is_output(i)],
        left_context=left, right_context=right, context_note=note,
        modulus=nnet.modulus(), is_simple=nnet.is_simple(), is_recurrent=is_recurrent(nnet),
        num_parameters=nnet.num_parameters(),
        num_updatable=sum(component.has(Properties.UPDATABLE) for component in nnet.components),
        num_nodes=len(visible), memory_bytes=sum(array.nbytes for values in arrays for array in values),
        layers=layers, frames=max(seen) if seen else None,
        not_finite=[name for name, values in zip(nnet.component_names, arrays, strict=True)
                    if not all(np.isfinite(array).all() for array in values)],
        without_statistics=[layer.name for layer in layers
                            if layer.type == "BatchNormComponent" and layer.frames == 0.0],
        is_gradient=any(getattr(component, "is_gradient", False) for component in nnet.components),
        unused_nodes=[nnet.nodes[i].name for i in sorted(orphans) if nnet.nodes[i].name in visible],
        unused_components=[nnet.component_names[c] for c in orphan_components(nnet)])


def _contexts(nnet: Nnet) -> tuple[int | None, int | None, str]:
    """Compute the left and right context; return None for both, with the reason, if they are not defined."""
    from nnet3py.compiler.build_graph import compute_simple_nnet_context

    if not nnet.is_simple():
        return None, None, "defined only for networks with an 'input', an 'output' and no other input but 'ivector'"
    try:
        left, right = compute_simple_nnet_context(nnet)
    except Nnet3Error as error:
        return None, None, error.message
    return left, right, ""


def _layer(name: str, component: Component, nodes: list[str]) -> Layer:
    is_updatable = component.has(Properties.UPDATABLE)
    return Layer(name, type(component).__name__, component.input_dim, component.output_dim, component.num_parameters(),
                 nodes, _frames(component), getattr(component, "learning_rate", None) if is_updatable else None,
                 getattr(component, "test_mode", None))


def _frames(component: Any) -> float | None:
    """Return the number of frames that a component's statistics count, None without statistics.

    For a composite component it is the largest number of its children.
    """
    inner = [frames for child in getattr(component, "children", ()) if (frames := _frames(child)) is not None]
    for attribute in ("counters", "count"):      # the first counter counts rows
        if attribute in component.STATISTICS:
            inner.append(float(getattr(component, attribute)[0]))
    return max(inner) if inner else None


def _arrays(component: Any) -> list[np.ndarray]:
    """Return the parameters, statistics and fixed matrices of a component."""
    parts = [component, *getattr(component, "children", ())]
    arrays = list(component.parameters().values())
    for part in parts:
        names = (*part.STATISTICS, *FIXED_ARRAYS.get(type(part).__name__, ()))
        arrays += [array for array in (getattr(part, name) for name in names)
                  if not any(array is other for other in arrays)]
    return arrays


def transition_facts(transitions: TransitionModel) -> TransitionFacts:
    """Describe a transition model."""
    return TransitionFacts(len(transitions.topology.phones), transitions.num_pdfs, transitions.num_transition_states,
                           transitions.num_transition_ids, not transitions.topology.is_hmm)


def prior_facts(priors: np.ndarray) -> PriorFacts:
    """Describe priors, float32 (pdfs,), which must not be empty."""
    return PriorFacts(priors.size, float(priors.sum(dtype=np.float64)), float(priors.min()), float(priors.max()))
