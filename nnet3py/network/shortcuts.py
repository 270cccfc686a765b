"""What users type first: ``nnet(feats)``, ``nnet["affine1"]``, ``nnet.summary()``.

Each is short for something longer, partly in higher-level modules, which are imported by name.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from nnet3py.components.base import Component
from nnet3py.config_line import did_you_mean
from nnet3py.errors import Nnet3Error, NoSuchAttribute
from nnet3py.network.callable_model import CallableModel
from nnet3py.network.nodes import ComponentNode
from nnet3py.network.surgery_nodes import NodeEdits
from nnet3py.shown import Shown

# Names in other libraries, and what to type here.
_ELSEWHERE = {
    **dict.fromkeys(("forward", "predict", "run", "compute", "infer"), "nnet(feats), or nnet3py.compute(nnet, feats)"),
    **dict.fromkeys(("fit", "train"), "nnet3py.train(nnet, (feats, targets))"),
    **dict.fromkeys(("step", "train_step", "optimizer"), "nnet3py.Trainer(nnet).step(feats, targets)"),
    **dict.fromkeys(("backward", "grad", "gradients"), "nnet3py.gradients(nnet, feats, targets=classes)"),
    **dict.fromkeys(("eval", "inference"), "nothing is to be done: nnet(feats) computes in test mode"),
    **dict.fromkeys(("to", "cuda", "cpu", "device"), "nnet3py.compute(nnet, feats, device='cuda')"),
    **dict.fromkeys(("save", "dump", "to_file"), "nnet.write('final.raw')"),
    **dict.fromkeys(("load", "load_state_dict"), "nnet3py.read_nnet('final.raw')"),
    **dict.fromkeys(("layers", "modules", "children", "named_modules", "keys", "values"),
                    "for name in nnet: nnet[name]; or nnet.summary()"),
    **dict.fromkeys(("parameters", "named_parameters", "state_dict", "weights", "get_weights"),
                    "for name in nnet: nnet[name].parameters()"),
    **dict.fromkeys(("shape", "dims", "dim", "inputs", "outputs"),
                    "nnet.input_dim('input'), nnet.output_dim('output'); or nnet.summary()"),
    **dict.fromkeys(("context", "left_context", "right_context", "receptive_field"),
                    "print(nnet.summary()), or nnet3py.info(nnet)"),
    **dict.fromkeys(("export", "to_onnx"), "nnet3py.export_onnx(nnet, 'final.onnx')"),
    "to_torch": "nnet3py.to_torch(nnet)",
    "info": "nnet3py.info(nnet)",
}


class Shortcuts(NodeEdits, CallableModel, Shown):
    """Short ways to inspect and use a network."""

    def __getitem__(self, name: str) -> Component:
        """The component of that name; or of that component node; or the input, output or dim-range node.

        To a type checker it is a component, as a name does not tell: nodes are what ``nnet.node(name)`` gives.

        >>> nnet["affine1"].output_dim
        32

        Raises Nnet3Error if there is none of that name.
        """
        if isinstance(name, str):
            if name in self.component_names:
                return self.component(name)
            if name in self.node_names:
                node = self.node(name)
                # a node for those who look at a prompt; type checkers are told of components only
                return self.components[node.component_index] if isinstance(node, ComponentNode) else cast(Any, node)
        names = [*dict.fromkeys((*self.component_names, *(node for node, _ in self.named_nodes())))]
        hint = did_you_mean(name, names) if isinstance(name, str) else None
        raise Nnet3Error(f"the network has no component or node {name!r}", hint or f"it has {', '.join(names)}")

    def __contains__(self, name: object) -> bool:
        """Whether a component or a node has that name."""
        return name in self.component_names or name in self.node_names

    def __iter__(self) -> Iterator[str]:
        """The names of the components, in the order of the file; ``named_components()`` gives more."""
        return iter(list(self.component_names))

    if not TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """AttributeError, which says what to type instead if another library has something by that name."""
            def advice() -> str | None:
                if name in _ELSEWHERE or name.startswith("_"):
                    return _ELSEWHERE.get(name)
                return did_you_mean(name, [public for public in dir(self) if not public.startswith("_")])
            raise NoSuchAttribute(f"a network has no '{name}'", advice)

    def __repr__(self) -> str:
        parameters = sum(component.num_parameters() for component in self.components)
        return (f"<Nnet: {self._ports(self.is_input) or 'no input'} -> {self._ports(self.is_output) or 'no output'}, "
                f"{len(self.components)} components, {parameters:,} parameters>")

    def _ports(self, wanted: Callable[[int], bool]) -> str:
        try:
            return ", ".join(f"{node.name} ({self.node_dim(i)})" for i, node in enumerate(self.nodes) if wanted(i))
        except Nnet3Error:      # it is being edited, and dimensions do not match yet
            return ", ".join(node.name for i, node in enumerate(self.nodes) if wanted(i))
