"""Small systems of topology, tree and transition model for the tests of graphs."""
from __future__ import annotations

import numpy as np

from nnet3py.hmm.topology import HmmTopology, chain_topology, left_to_right_topology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import Constant, ContextDependency, Map, Split, Table, initial_transition_model, monophone_tree

System = tuple[ContextDependency, TransitionModel]


def with_random_probabilities(model: TransitionModel, seed: int = 3) -> TransitionModel:
    """The model with other transition probabilities, in place."""
    rng = np.random.default_rng(seed)
    log_probs = model.log_probs.copy()
    for first, end in zip(model.first_transition_id[1:], model.first_transition_id[2:], strict=False):
        log_probs[first:end] = np.log(rng.dirichlet(np.full(end - first, 5.0)))
    model.set_log_probs(log_probs)
    return model


def monophone_system(topology: HmmTopology) -> System:
    """Each pdf class of each phone has its own pdf."""
    tree = monophone_tree(topology)
    return tree, with_random_probabilities(initial_transition_model(tree, topology))


def context_system(topology: HmmTopology, width: int, central: int, asked: int) -> System:
    """Pdfs depend on the phone, the pdf class, and whether the phone at place ``asked`` of the window is 0 or 1."""
    pdfs = iter(range(1000))
    classes = {phone: range(topology.num_pdf_classes(phone)) for phone in topology.phones}

    def leaf(phone: int) -> Map:
        return Table(-1, tuple(Constant(next(pdfs)) for _ in classes[phone]))

    children = tuple(Split(asked, frozenset([0, 1]), leaf(phone), leaf(phone)) if phone in classes else None
                     for phone in range(max(classes) + 1))
    tree = ContextDependency(width, central, Table(central, children))
    return tree, with_random_probabilities(initial_transition_model(tree, topology))


SYSTEMS = {
    "chain": lambda: monophone_system(chain_topology([1, 2, 3])),
    "three-states": lambda: monophone_system(left_to_right_topology([2, 3], [1], 3, 4)),
    "left-biphone": lambda: context_system(chain_topology([1, 2, 3]), 2, 1, 0),
    "right-biphone": lambda: context_system(chain_topology([1, 2, 3]), 2, 0, 1),
    "triphone": lambda: context_system(left_to_right_topology([1, 2, 3], [], 2), 3, 1, 2),
}
