"""Whether an output can be trained on classes: the objective of a class is the output's value for it."""
from __future__ import annotations

from nnet3py.components.base import Component
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode, node_dependencies
from nnet3py.network.whole_model import is_a

# behind a log-softmax they leave what is one, apart from constants and what is masked
_KEEPING = ("NoOpComponent", "FixedScaleComponent", "FixedBiasComponent", "PerElementScaleComponent",
            "PerElementOffsetComponent", "ScaleAndOffsetComponent", "PermuteComponent", "ClipGradientComponent",
            "BackpropTruncationComponent", "DropoutComponent", "GeneralDropoutComponent",
            "SpecAugmentTimeMaskComponent", "SumBlockComponent")


def check_class_output(nnet: Nnet, name: str = "output") -> None:
    """Refuse an output that classes would drive to infinity: with the objective ``linear``, but no log-probabilities.

    Components of one's own may be normalized, and pass.

    Raises
    ------
    UsageError : such an output
    """
    output = nnet.node_index(name)
    if nnet.descriptor_of(output).objective != "linear":
        return
    ends: list[str] = []
    seen: set[int] = set()
    ahead = [output]
    while ahead:
        i = ahead.pop()
        if i in seen:
            continue
        seen.add(i)
        node = nnet.nodes[i]
        if isinstance(node, ComponentNode):
            component = _last(nnet.component_of(i))
            if _is_normalized(component):
                return
            if not is_a(component, *_KEEPING):
                kind = type(component).__name__
                ends.append(f"{'an' if kind[0] in 'AEIO' else 'a'} {kind} in {node.name!r}")
                continue
        ahead += node_dependencies(nnet, i)
    raise UsageError(
        f"the targets are classes, for which {name!r} must be log-probabilities: expected a log-softmax at its end, "
        f"found {' and '.join(sorted(ends)) or 'none'}. The objective would grow without limit",
        f"add a LogSoftmaxComponent dim={nnet.output_dim(name)} before the output-node (xconfig's output-layer has "
        "one); for regression on classes set objective=quadratic in the output-node's line; or give the loss that you "
        "mean: nnet3py.train(…, loss=torch.nn.CrossEntropyLoss())")


def _last(component: Component) -> Component:
    """What gives the output of a component: in a composite the last one inside."""
    return _last(component.children[-1]) if component.children else component


def _is_normalized(component: Component) -> bool:
    return is_a(component, "LogSoftmaxComponent") or not type(component).__module__.startswith("nnet3py.")
