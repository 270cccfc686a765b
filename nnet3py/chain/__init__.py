"""LF-MMI (chain) training: graphs, supervision, and both sums of the objective. docs/chain.md is for users.

The most important names: ``make_den_fst`` (``den_fst.py``), ``SupervisionMaker`` (``supervision.py``) and
``DenominatorComputation`` (``denominator.py``). ``phone_lm.py`` estimates the language model of the denominator graph;
``den_graph.py`` has that graph as arrays; ``normalization.py`` adds its costs to supervisions; ``numerator.py`` sums
over the paths of a supervision; ``make_egs.py`` cuts utterances into examples; ``acceptor.py`` determinizes, minimizes
and composes small acceptors.

Imports nothing of ``training/``: networks are trained there. OpenFst (kaldifst, the extra ``chain``) is used for what
Kaldi leaves to OpenFst: minimizing graphs with cycles. For a supervision's few states, OpenFst's composition and
determinization are slower than lists. PyChain has both sums for PyTorch, which it needs, and has to be compiled.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.public_names import give_names

if TYPE_CHECKING:
    from nnet3py.chain.den_fst import make_den_fst as make_den_fst
    from nnet3py.chain.den_graph import DenominatorGraph as DenominatorGraph
    from nnet3py.chain.den_graph import initial_probs as initial_probs
    from nnet3py.chain.den_graph import read_den_graph as read_den_graph
    from nnet3py.chain.normalization import Normalizer as Normalizer
    from nnet3py.chain.normalization import normalization_fst as normalization_fst
    from nnet3py.chain.numerator import Numerator as Numerator
    from nnet3py.chain.numerator import compute_numerator as compute_numerator
    from nnet3py.chain.options import PhoneLmOptions as PhoneLmOptions
    from nnet3py.chain.options import SupervisionOptions as SupervisionOptions
    from nnet3py.chain.phone_lm import estimate_phone_lm as estimate_phone_lm
    from nnet3py.chain.supervision import ProtoSupervision as ProtoSupervision
    from nnet3py.chain.supervision import SupervisionMaker as SupervisionMaker
    from nnet3py.chain.supervision import SupervisionSplitter as SupervisionSplitter
    from nnet3py.chain.supervision import end_to_end_supervision as end_to_end_supervision
    from nnet3py.chain.supervision import proto_from_lattice as proto_from_lattice
    from nnet3py.chain.supervision import proto_from_phones as proto_from_phones
    from nnet3py.chain.supervision import unconstrained as unconstrained

_PUBLIC = {
    "estimate_phone_lm": "nnet3py.chain.phone_lm",
    "PhoneLmOptions": "nnet3py.chain.options",
    "make_den_fst": "nnet3py.chain.den_fst",
    "DenominatorGraph": "nnet3py.chain.den_graph",
    "read_den_graph": "nnet3py.chain.den_graph",
    "initial_probs": "nnet3py.chain.den_graph",
    "normalization_fst": "nnet3py.chain.normalization",
    "proto_from_phones": "nnet3py.chain.supervision",
    "proto_from_lattice": "nnet3py.chain.supervision",
    "ProtoSupervision": "nnet3py.chain.supervision",
    "SupervisionOptions": "nnet3py.chain.options",
    "SupervisionMaker": "nnet3py.chain.supervision",
    "Normalizer": "nnet3py.chain.normalization",
    "SupervisionSplitter": "nnet3py.chain.supervision",
    "end_to_end_supervision": "nnet3py.chain.supervision",
    "unconstrained": "nnet3py.chain.supervision",
    "compute_numerator": "nnet3py.chain.numerator",
    "Numerator": "nnet3py.chain.numerator",
}
give_names(__name__, _PUBLIC, {
    "ChainLoss LFMMI": "from nnet3py.torch import ChainLoss", "ChainSystem": "from nnet3py.torch import ChainSystem",
    "read_chain_egs": "nnet3py.read_chain_egs('ark:cegs.ark')", "phone_lm": "estimate_phone_lm",
    "supervision_from_alignments": "from nnet3py.torch import supervision_from_alignments",
    "den_fst denominator": "make_den_fst(tree, model, phone_lm), DenominatorGraph(den_fst, num_pdfs)",
    "numerator": "compute_numerator",
})
