"""Whether outputs depend on how an utterance is cut into pieces."""
from __future__ import annotations

import numpy as np

from nnet3py.components.base import Component
from nnet3py.network.descriptor import Failover, IfDefined, Part, ReplaceIndex
from nnet3py.network.loops import LARGEST_GRAPH, is_recurrent, node_needs
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import DescriptorNode

_PROBE = np.zeros((1, 3), dtype=np.int32)
_NEVER = -2**40      # less than any offset


def is_local(nnet: Nnet) -> bool:
    """True if every output row depends on the same frames around it, however much else is computed with it.

    Then an utterance may be cut anywhere (at multiples of the network's modulus). False for recurrence, for inputs that
    are used only if available (``IfDefined``, statistics pooling), and for frames with a fixed t (but ``ivector``).
    """
    if is_recurrent(nnet):
        return False
    if any(_is_optional(part) or _names_frame(part, nnet) for part in _parts(nnet)):
        return False
    return all(_needs_all_inputs(component) for component in nnet.components)


def lookahead_is_at_most(nnet: Nnet, num_frames: int) -> bool:
    """True if no output row depends on input more than ``num_frames`` later, even if that is available.

    Then outputs do not change when more frames follow, as in a recurrence that goes forward in time.
    ``nnet`` has one input besides ``ivector``, named ``input``.
    """
    period = nnet.modulus()
    count = len(nnet.nodes) * period
    if count > LARGEST_GRAPH or any(_names_frame(part, nnet) for part in _parts(nnet)):
        return False
    edges = [(i * period + t, source * period + (t + offset) % period, offset)
             for i in range(len(nnet.nodes)) for source, t, offset in node_needs(nnet, i, period, any_x=True)]
    starts, ends, offsets = np.array(edges, dtype=np.int64).reshape(-1, 3).T
    furthest = np.full(count, _NEVER, dtype=np.int64)
    output = nnet.node_index("output") * period
    furthest[output:output + period] = 0
    for _ in range(count + 1):            # longest walks, by Bellman and Ford's method
        further = furthest.copy()
        np.maximum.at(further, ends, np.where(furthest[starts] == _NEVER, _NEVER, furthest[starts] + offsets))
        if np.array_equal(further, furthest):
            source = nnet.node_index("input") * period
            return int(furthest[source:source + period].max()) <= num_frames
        furthest = further
    return False                          # a recurrence that goes backward in time


def _parts(nnet: Nnet) -> list[Part]:
    return [part for node in nnet.nodes if isinstance(node, DescriptorNode) for part in node.descriptor.parts]


def _names_frame(part: Part, nnet: Nnet) -> bool:
    """True if the part uses a fixed t of something other than ``ivector``."""
    if isinstance(part, ReplaceIndex) and part.variable == "t":
        return any(nnet.node_names[source.node] != "ivector" for source in part.sources())
    return any(_names_frame(child, nnet) for child in part.children())


def _is_optional(part: Part) -> bool:
    return isinstance(part, IfDefined | Failover) or any(map(_is_optional, part.children()))


def _needs_all_inputs(component: Component) -> bool:
    """True if every output of the component needs all the inputs that it may use."""
    num_choices = component.input_indexes(_PROBE).shape[1]
    available = ~np.eye(num_choices, dtype=bool)
    computable = [component.is_computable(_PROBE, row[None, :])[0][0] for row in available]
    return not any(computable)
