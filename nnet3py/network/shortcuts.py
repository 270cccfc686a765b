"""What users type first: ``nnet(feats)``, ``nnet["affine1"]``, ``nnet.summary()``.

Each is short for something longer, partly in higher-level modules, which are imported by name.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from nnet3py.advice import Advising, elsewhere
from nnet3py.components.base import Component
from nnet3py.config_line import did_you_mean
from nnet3py.errors import Nnet3Error
from nnet3py.network.callable_model import CallableModel
from nnet3py.network.nodes import ComponentNode
from nnet3py.network.surgery_nodes import NodeEdits
from nnet3py.shown import Shown

# Names in other libraries, and what to type here.
ELSEWHERE = elsewhere(**{
    "forward predict run compute infer": "nnet(feats), or nnet3py.compute(nnet, feats)",
    "fit": "nnet3py.train(nnet, feats, targets)",
    "train": "nnet3py.train(nnet, feats, targets) trains; there is no mode to set",
    "step train_step optimizer zero_grad": "nnet3py.Trainer(nnet).step(feats, targets)",
    "backward grad gradients": "nnet3py.gradients(nnet, feats, targets=classes)",
    "loss score evaluate": "nnet3py.gradients(nnet, feats, targets=classes).value; or train(…, validation=…)",
    "eval inference": "nothing is to be done: nnet(feats) computes in test mode",
    "to cuda cpu device": "nnet3py.compute(nnet, feats, device='cuda')",
    "float half double dtype": "nothing is to be done: networks compute in float32",
    "save dump to_file": "nnet.write('final.raw')",
    "load load_state_dict from_file from_pretrained": "nnet3py.read_nnet('final.raw')",
    "layers modules children named_modules keys values names items named_children":
        "for name in nnet: nnet[name]; or nnet.summary()",
    "parameters named_parameters state_dict weights get_weights": "for name in nnet: nnet[name].parameters()",
    "set_weights set_state": "nnet.set_parameters('affine1', {'bias_params': values})",
    "num_params n_params count_params": "nnet.num_parameters()",
    "shape dims dim inputs outputs input output in_features out_features input_size output_size":
        "nnet.input_dim('input'), nnet.output_dim('output'); or nnet.summary()",
    "context left_context right_context receptive_field": "print(nnet.summary()), or nnet3py.info(nnet)",
    "export export_onnx to_onnx": "nnet3py.export_onnx(nnet, 'final.onnx')",
    "quantize": "nnet3py.export_onnx(nnet, 'final.onnx', quantize='int16')",
    "to_torch as_torch": "nnet3py.to_torch(nnet)",
    "compare diff equal equals": "nnet3py.compare(nnet, other); or nnet == other",
    "info": "nnet3py.info(nnet)",
    "freeze requires_grad requires_grad_": "nnet3py.freeze(nnet, 'affine1*')",
    "unfreeze": "nnet3py.unfreeze(nnet, 'affine1*')",
    "clone": "nnet.copy()",
    "edits apply_edits": "nnet3py.apply_edits(nnet, 'set-learning-rate name=* learning-rate=0.001')",
    "learning_rate lr set_learning_rate": "nnet3py.set_learning_rate(nnet, 0.001)",
    "priors transition_model": "a network has none, an acoustic model has: nnet3py.read_model('final.mdl')",
    "decode recognize transcribe align": "nnet3py.Recognizer('model-folder').transcribe('a.wav'), nnet3py.decode, "
                                         "nnet3py.align",
    "plot draw show graph": "nnet.summary() as the last line of a notebook's cell, or nnet3py inspect --html=a.html",
})


class Shortcuts(NodeEdits, CallableModel, Advising, Shown):
    """Short ways to inspect and use a network."""

    _WHAT, _ELSEWHERE = "a network", ELSEWHERE

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

    def __len__(self) -> int:
        """How many components there are: as many as iteration gives."""
        return len(self.component_names)

    def __bool__(self) -> bool:
        """True, even without components: an empty network is a network."""
        return True

    def _advice(self, name: str) -> str | None:
        """What to type instead of an attribute, or None."""
        return f"nnet[{name!r}]" if name in self.__dict__.get("component_names", ()) else super()._advice(name)

    def __repr__(self) -> str:
        parameters = sum(component.num_parameters() for component in self.components)
        return (f"<Nnet: {self._ports(self.is_input) or 'no input'} -> {self._ports(self.is_output) or 'no output'}, "
                f"{len(self.components)} components, {parameters:,} parameters>")

    def _ports(self, wanted: Callable[[int], bool]) -> str:
        try:
            return ", ".join(f"{node.name} ({self.node_dim(i)})" for i, node in enumerate(self.nodes) if wanted(i))
        except Nnet3Error:      # it is being edited, and dimensions do not match yet
            return ", ".join(node.name for i, node in enumerate(self.nodes) if wanted(i))
