"""The options of i-vectors that are estimated as frames arrive, and what is made from them."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.feat.speech_options import CMVN
from nnet3py.cli.ivectors.inputs import derive
from nnet3py.cli.process.options import OptionError, Options, declared
from nnet3py.cli.process.parser import options_of_file
from nnet3py.recognition.options import IVECTOR_FILES, IVECTOR_SETTINGS, SPLICE_SETTINGS

if TYPE_CHECKING:
    from nnet3py.ivectors.online import OnlineModels

SPLICE_OPTIONS, ONLINE_OPTIONS = declared(SPLICE_SETTINGS), declared(IVECTOR_SETTINGS)


def ivector_values(options: Options) -> dict[str, Any]:
    """What recognition.pipeline.ivector_models takes. OptionError for a file that is missing."""
    for name in IVECTOR_FILES:
        if not options[name]:
            raise OptionError(f"--{name} option must be set",
                              "it usually stands in the file that --config or --ivector-extraction-config names")
    if options.greedy_ivector_extractor and not options.use_most_recent_ivector:
        log.warning("--use-most-recent-ivector is set because --greedy-ivector-extractor is")
    return {**options.as_dict(), "cmvn": options_of_file(options.cmvn_config, CMVN).as_dict(),
            "splice": options_of_file(options.splice_config, SPLICE_OPTIONS).as_dict()}


def online_models(options: Options) -> OnlineModels:
    """The models that options name. Raises as ivector_values, and Nnet3Error for files that do not fit."""
    from nnet3py.recognition.pipeline import ivector_models

    models = ivector_models(ivector_values(options))
    derive(models.extractor)
    return models
