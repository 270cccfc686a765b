"""Commands on phonetic decision trees, HMM topologies and first Gaussian mixture models, with Kaldi's names.

``building.py``: from statistics (``acc_tree_stats``) and questions to trees (``build_tree``); ``initial_models.py``:
topologies, monophone and biphone trees, GMMs with one Gaussian for each pdf (``gmm_init_mono``). Chain training needs
a tree; Kaldi's GMM training is not here, so alignments for it come from elsewhere, or from a chain model.

The algorithms are in ``nnet3py.trees`` and ``nnet3py.hmm``, which are imported inside the commands, like numpy. No
library builds Kaldi's trees.
"""
