"""Whether it matters in which pieces an utterance is computed."""
from __future__ import annotations

import numpy as np

from nnet3py.components.base import Component
from nnet3py.network.descriptor import Failover, IfDefined, Part, ReplaceIndex
from nnet3py.network.loops import is_recurrent
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import DescriptorNode

_PROBE = np.zeros((1, 3), dtype=np.int32)


def is_local(nnet: Nnet) -> bool:
    """True if every output row depends on the same frames around it, however much else is computed with it.

    Then an utterance may be cut anywhere (at multiples of the network's modulus). False for recurrence, for what is
    used where it happens to be there (``IfDefined``, statistics pooling), and for frames that are named by a fixed t;
    the ``ivector`` input may be.
    """
    if is_recurrent(nnet):
        return False
    descriptors = (node.descriptor for node in nnet.nodes if isinstance(node, DescriptorNode))
    if any(_depends_on_cut(part, nnet) for descriptor in descriptors for part in descriptor.parts):
        return False
    return all(_needs_all_inputs(component) for component in nnet.components)


def _depends_on_cut(part: Part, nnet: Nnet) -> bool:
    if isinstance(part, IfDefined | Failover):
        return True
    if isinstance(part, ReplaceIndex) and part.variable == "t":
        return any(nnet.node_names[source.node] != "ivector" for source in part.sources())
    return any(_depends_on_cut(child, nnet) for child in part.children())


def _needs_all_inputs(component: Component) -> bool:
    """True if no output of the component can be computed while one of the inputs that it may use is missing."""
    num_choices = component.input_indexes(_PROBE).shape[1]
    available = ~np.eye(num_choices, dtype=bool)
    computable = [component.is_computable(_PROBE, row[None, :])[0][0] for row in available]
    return not any(computable)
