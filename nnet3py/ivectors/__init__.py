"""I-vectors: what distinguishes the sound of speakers or utterances, and the comparison of speakers' vectors.

Most important: ``IvectorExtractor`` (``extractor.py``) with ``UtteranceStats``, ``OnlineIvectors`` (``online.py``:
i-vectors while frames arrive, with the statistics of the speaker's earlier utterances) and ``Plda`` (``scoring.py``,
with LDA, clustering and error rates). ``training.py`` estimates extractors. Float64, but likelihoods and posteriors are
in single precision as in Kaldi.

This package imports ``feat`` and ``gaussians``, no networks and no ``ops``; ``options.py`` imports no numpy.
scikit-learn has LDA and speechbrain a PLDA; neither has i-vector extractors, or reads Kaldi's files.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.public_names import give_names

if TYPE_CHECKING:
    from nnet3py.ivectors.extractor import Distribution as Distribution
    from nnet3py.ivectors.extractor import IvectorExtractor as IvectorExtractor
    from nnet3py.ivectors.extractor import UtteranceStats as UtteranceStats
    from nnet3py.ivectors.online import AdaptationState as AdaptationState
    from nnet3py.ivectors.online import OnlineIvectors as OnlineIvectors
    from nnet3py.ivectors.online import OnlineModels as OnlineModels
    from nnet3py.ivectors.online import ivectors_of_posteriors as ivectors_of_posteriors
    from nnet3py.ivectors.options import EstimationOptions as EstimationOptions
    from nnet3py.ivectors.options import StatsOptions as StatsOptions
    from nnet3py.ivectors.scoring import EqualErrorRate as EqualErrorRate
    from nnet3py.ivectors.scoring import Lda as Lda
    from nnet3py.ivectors.scoring import Plda as Plda
    from nnet3py.ivectors.scoring import PldaTraining as PldaTraining
    from nnet3py.ivectors.scoring import equal_error_rate as equal_error_rate
    from nnet3py.ivectors.scoring import linear_discriminants as linear_discriminants
    from nnet3py.ivectors.training import ExtractorStats as ExtractorStats
    from nnet3py.ivectors.training import estimate as estimate

_PUBLIC = {name: f"nnet3py.ivectors.{module}" for module, names in {
    "extractor": "IvectorExtractor UtteranceStats Distribution",
    "online": "OnlineIvectors OnlineModels AdaptationState ivectors_of_posteriors",
    "training": "ExtractorStats estimate",
    "options": "StatsOptions EstimationOptions",
    "scoring": "Plda PldaTraining linear_discriminants Lda equal_error_rate EqualErrorRate",
}.items() for name in names.split()}
give_names(__name__, _PUBLIC, {
    "extract ivector extract_ivector": "feats, ivector = nnet3py.front_end('model-folder')('a.wav')",
    "xvector": "nnet3py.xvector('speaker-model-folder', 'a.wav')", "eer": "equal_error_rate",
    "LDA": "Lda, linear_discriminants", "PLDA": "Plda",
    "read read_ivectors": "nnet3py.read_matrices('ark:ivectors.ark')",
})
