"""Options of online i-vectors, and the models that they name."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.feat.options import CMVN
from nnet3py.cli.process.options import OptionError, Options, declared, options_of_file
from nnet3py.recognition.options import IVECTOR_FILES, IVECTOR_SETTINGS, SPLICE_SETTINGS

if TYPE_CHECKING:
    from nnet3py.ivectors.online import OnlineModels

SPLICE_OPTIONS, ONLINE_OPTIONS = declared(SPLICE_SETTINGS), declared(IVECTOR_SETTINGS)


def ivector_values(options: Options) -> dict[str, Any]:
    """Return the options of online i-vectors, with those of the CMVN and splicing config files, by name.

    They are arguments of recognition.pipeline_files.ivector_models. Raises OptionError if a required file is not named.
    """
    for name in IVECTOR_FILES:
        if not options[name]:
            raise OptionError(f"--{name} option must be set",
                              "it is usually in the file of --config or --ivector-extraction-config")
    if options.greedy_ivector_extractor and not options.use_most_recent_ivector:
        log.warning("--use-most-recent-ivector is set because --greedy-ivector-extractor is")
    return {**options.as_dict(), "cmvn": options_of_file(options.cmvn_config, CMVN).as_dict(),
            "splice": options_of_file(options.splice_config, SPLICE_OPTIONS).as_dict()}


def online_models(options: Options) -> OnlineModels:
    """Read the models that the options name.

    Raises OptionError if a required file is not named, and Nnet3Error for models of different dimensions.
    """
    from nnet3py.cli.ivectors.extractor import derive
    from nnet3py.recognition.pipeline import ivector_models

    models = ivector_models(ivector_values(options))
    derive(models.extractor)
    return models
