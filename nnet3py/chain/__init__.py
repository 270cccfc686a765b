"""LF-MMI (chain) training: graphs, supervision and what makes them.

``phone_lm.py``, ``den_fst.py`` (``make_den_fst(tree, model, phone_lm) -> Fst``), ``minimize.py`` (what makes it
small; in the order of arcs that Kaldi's numbers depend on), ``normalization.py`` (``normalization_fst(den_fst)``),
``den_graph.py`` (``initial_probs(den_fst)``, ``DenominatorGraph(den_fst, num_pdfs)``: arcs by destination, by source
and by pdf as arrays), ``proto_supervision.py``, ``make_supervision.py``, ``normalize.py``, ``make_egs.py``.
docs/chain.md is for users.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.advice import elsewhere
from nnet3py.public_names import give_names

if TYPE_CHECKING:
    from nnet3py.chain.den_fst import make_den_fst as make_den_fst
    from nnet3py.chain.den_graph import DenominatorGraph as DenominatorGraph
    from nnet3py.chain.den_graph import initial_probs as initial_probs
    from nnet3py.chain.den_graph import read_den_graph as read_den_graph
    from nnet3py.chain.end_to_end import end_to_end_supervision as end_to_end_supervision
    from nnet3py.chain.make_supervision import SupervisionMaker as SupervisionMaker
    from nnet3py.chain.normalization import normalization_fst as normalization_fst
    from nnet3py.chain.normalize import Normalizer as Normalizer
    from nnet3py.chain.numerator import Numerator as Numerator
    from nnet3py.chain.numerator import compute_numerator as compute_numerator
    from nnet3py.chain.options import PhoneLmOptions as PhoneLmOptions
    from nnet3py.chain.options import SupervisionOptions as SupervisionOptions
    from nnet3py.chain.phone_lm import estimate_phone_lm as estimate_phone_lm
    from nnet3py.chain.proto_supervision import ProtoSupervision as ProtoSupervision
    from nnet3py.chain.proto_supervision import proto_from_lattice as proto_from_lattice
    from nnet3py.chain.proto_supervision import proto_from_phones as proto_from_phones
    from nnet3py.chain.supervision_splitter import SupervisionSplitter as SupervisionSplitter
    from nnet3py.chain.unconstrained import unconstrained as unconstrained

_PUBLIC = {
    "estimate_phone_lm": "nnet3py.chain.phone_lm",
    "PhoneLmOptions": "nnet3py.chain.options",
    "make_den_fst": "nnet3py.chain.den_fst",
    "DenominatorGraph": "nnet3py.chain.den_graph",
    "read_den_graph": "nnet3py.chain.den_graph",
    "initial_probs": "nnet3py.chain.den_graph",
    "normalization_fst": "nnet3py.chain.normalization",
    "proto_from_phones": "nnet3py.chain.proto_supervision",
    "proto_from_lattice": "nnet3py.chain.proto_supervision",
    "ProtoSupervision": "nnet3py.chain.proto_supervision",
    "SupervisionOptions": "nnet3py.chain.options",
    "SupervisionMaker": "nnet3py.chain.make_supervision",
    "Normalizer": "nnet3py.chain.normalize",
    "SupervisionSplitter": "nnet3py.chain.supervision_splitter",
    "end_to_end_supervision": "nnet3py.chain.end_to_end",
    "unconstrained": "nnet3py.chain.unconstrained",
    "compute_numerator": "nnet3py.chain.numerator",
    "Numerator": "nnet3py.chain.numerator",
}
give_names(__name__, _PUBLIC, elsewhere(**{
    "ChainLoss LFMMI": "from nnet3py.torch import ChainLoss", "ChainSystem": "from nnet3py.torch import ChainSystem",
    "read_chain_egs": "nnet3py.read_chain_egs('ark:cegs.ark')", "phone_lm": "estimate_phone_lm",
    "supervision_from_alignments": "from nnet3py.torch import supervision_from_alignments",
    "den_fst denominator": "make_den_fst(tree, model, phone_lm), DenominatorGraph(den_fst, num_pdfs)",
    "numerator": "compute_numerator",
}))
