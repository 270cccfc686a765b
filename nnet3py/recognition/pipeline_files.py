"""What makes the input of a network, read from the files that a model folder names."""
from __future__ import annotations

import numpy as np

from nnet3py.features.speech import speech_options
from nnet3py.formats.matrix_files import read_matrix_file
from nnet3py.gaussians.diag_gmm import DiagGmm
from nnet3py.io.object_files import read_object
from nnet3py.ivectors.extractor import IvectorExtractor
from nnet3py.ivectors.online import OnlineModels
from nnet3py.recognition import option_tables as tables
from nnet3py.recognition.model_folder import ModelFolder
from nnet3py.recognition.pipeline import PipelineModels


def pipeline_models(folder: ModelFolder) -> PipelineModels:
    """Features, i-vectors and normalisation. Nnet3Error for files that are not what they should be, or do not fit.

    Sound of any rate is resampled. Features are without dither, which streams see to.
    """
    speech = speech_options(folder.feature_kind, {
        **folder.features, "dither": 0.0, "allow-downsample": True, "allow-upsample": True})
    models = PipelineModels(speech, ivector_models(folder), silence_weighting=tables.weighting_options(folder.options))
    if folder.cmvn is not None:
        models.cmvn = tables.cmvn_options(folder.cmvn)
        models.global_stats = read_matrix_file(folder.cmvn["global-cmvn-stats"], dtype=np.float64)
    models.check()
    return models


def ivector_models(folder: ModelFolder) -> OnlineModels | None:
    """What i-vectors are estimated with; None if the folder has none."""
    if folder.ivectors is None:
        return None
    values = {**tables.IVECTOR, **folder.ivectors}
    splice = {**tables.SPLICE, **values["splice"]}
    greedy = values["greedy-ivector-extractor"]
    return OnlineModels(
        read_object(values["ivector-extractor"], IvectorExtractor.read), read_object(values["diag-ubm"], DiagGmm.read),
        read_matrix_file(values["lda-matrix"]), read_matrix_file(values["global-cmvn-stats"], dtype=np.float64),
        splice["left-context"], splice["right-context"], tables.cmvn_options(values["cmvn"]),
        values["online-cmvn-iextractor"], values["ivector-period"], values["num-gselect"], values["min-post"],
        values["posterior-scale"], values["max-count"], values["max-remembered-frames"],
        values["use-most-recent-ivector"] or greedy, greedy)
