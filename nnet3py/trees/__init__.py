"""Decision trees over phones in context: their statistics, questions, growth, drawings, and first models made of them.

Most used are ``TreeStats`` (``stats.py``: events as an int32 table, the moments of their features as rows),
``build_tree`` (``build.py``) and ``question_sets`` (``clustering.py``). ``draw.py`` shows trees, ``initial_models.py``
makes the first models of ``gaussians/mixtures.py``. Rounding is Kaldi's single precision where it makes gains equal,
because then the order decides.

The package must not import decoding or training. scikit-learn's trees and clusters have neither these questions nor
Kaldi's rounding.
"""
from __future__ import annotations

from nnet3py.option_fields import opt, options_class


@options_class(frozen=True)
class BuildOptions:
    """Options of building a tree; defaults are those of build-tree."""

    width: int = opt("context-width", 3, "Phones in the window of the tree", least=1)
    position: int = opt("central-position", 1, "Which phone of the window is the one that is modeled, from 0",
                        least=0)
    threshold: float = opt("thresh", 300.0, "A split must gain more log-likelihood than this")
    max_leaves: int = opt("max-leaves", 0, "Leaves after splitting; 0 for no limit")
    cluster_threshold: float = opt("cluster-thresh", -1.0, "Leaves that lose less when put together are merged. "
                                   "Negative: the smallest gain of a split; 0: none are")
    round_num_leaves: bool = opt("round-num-leaves", True, "Merge leaves until their number is a multiple of 8")
