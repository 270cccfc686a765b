"""What makes the input of a network, read from the files that options name. Options are by Kaldi's names."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnet3py.feat.pitch import pitch_options
from nnet3py.feat.process_pitch import process_pitch_options
from nnet3py.feat.speech import SpeechOptions
from nnet3py.formats.holders import read_matrix_file
from nnet3py.gaussians.mixtures import DiagGmm
from nnet3py.io.object_files import read_object
from nnet3py.ivectors.extractor import IvectorExtractor
from nnet3py.ivectors.online import OnlineModels
from nnet3py.ivectors.options import OnlineSettings
from nnet3py.option_fields import field_values
from nnet3py.recognition import option_tables as tables
from nnet3py.recognition.feature_stream import PitchSettings
from nnet3py.recognition.pipeline import PipelineModels


def pipeline_models(speech: SpeechOptions, values: Mapping[str, Any], cmvn: Mapping[str, Any] | None,
                    ivectors: Mapping[str, Any] | None, pitch: Mapping[str, Any] | None = None) -> PipelineModels:
    """Features, normalization and i-vectors.

    Parameters
    ----------
    values : of ``ivector-silence-weighting.…``
    cmvn : of the normalization of the network's input, with ``global-cmvn-stats``; None for none
    ivectors : as of :func:`ivector_models`; None for none
    pitch : options of pitch and of what is made of it; None for none

    Raises Nnet3Error for files that are not what they should be, or do not fit.
    """
    models = PipelineModels(speech, silence_weighting=tables.weighting_options(values))
    if cmvn is not None:
        models.cmvn = tables.cmvn_options(cmvn)
        models.global_stats = read_matrix_file(cmvn["global-cmvn-stats"], dtype=np.float64)
    if ivectors is not None:
        models.ivectors = ivector_models(ivectors)
    if pitch is not None:
        models.pitch = PitchSettings(pitch_options(pitch), process_pitch_options(pitch))
    models.check()
    return models


def ivector_models(values: Mapping[str, Any]) -> OnlineModels:
    """What i-vectors are estimated with. Nnet3Error for files that are not what they should be, or do not fit.

    ``values`` has ``IVECTOR_FILES`` and other options of ``IVECTOR``, as far as they are given, and in place of
    ``splice-config`` and ``cmvn-config`` the options ``splice`` and ``cmvn`` that these files give.
    """
    models = OnlineModels(
        read_object(values["ivector-extractor"], IvectorExtractor.read), read_object(values["diag-ubm"], DiagGmm.read),
        read_matrix_file(values["lda-matrix"]), read_matrix_file(values["global-cmvn-stats"], dtype=np.float64),
        tables.cmvn_options(values["cmvn"]), **field_values(OnlineSettings, {**values, **values["splice"]}))
    models.use_most_recent |= models.greedy
    models.check()
    return models
