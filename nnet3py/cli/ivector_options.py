"""The options of i-vectors that are estimated as frames arrive, and what is made of them."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.ivector_inputs import read_extractor
from nnet3py.cli.option_groups import NORM_MEANS, NORM_VARS, SKIP_DIMS
from nnet3py.cli.options import OptionError, Options, option
from nnet3py.cli.parser import options_of_file

if TYPE_CHECKING:
    from nnet3py.features.cmvn import OnlineOptions
    from nnet3py.ivectors.online import OnlineModels

CMVN_OPTIONS = (NORM_MEANS, NORM_VARS, SKIP_DIMS,
                option("cmn-window", int, 600, "Frames of the past that count"),
                option("speaker-frames", int, 600, "How many may come from the speaker's earlier utterances"),
                option("global-frames", int, 200, "How many may come from the global statistics"))
SPLICE_OPTIONS = (option("left-context", int, 4, "Frames before"), option("right-context", int, 4, "Frames after"))
_FILES = ("lda-matrix", "global-cmvn-stats", "cmvn-config", "splice-config", "diag-ubm", "ivector-extractor")
ONLINE_OPTIONS = (
    option("lda-matrix", str, "", "The transform of spliced features"),
    option("global-cmvn-stats", str, "", "Normalisation statistics of all the training data"),
    option("cmvn-config", str, "", "Options file for normalising, as of apply-cmvn-online; may be empty"),
    option("splice-config", str, "", "Options file for splicing, as of splice-feats"),
    option("diag-ubm", str, "", "The mixture of Gaussians"),
    option("ivector-extractor", str, "", "The extractor"),
    option("online-cmvn-iextractor", bool, False, "Normalise the features of the i-vectors' statistics, too"),
    option("ivector-period", int, 10, "Frames from one i-vector to the next"),
    option("num-gselect", int, 5, "Gaussians that are kept for each frame"),
    option("min-post", float, 0.025, "Smaller posteriors of Gaussians are left out"),
    option("posterior-scale", float, 0.1, "What posteriors count, as frames are not independent of each other"),
    option("max-count", float, 0.0, "Frames, times --posterior-scale, from which on more count no more; 0 for never"),
    option("use-most-recent-ivector", bool, True, "Estimate i-vectors at the frames that are asked for"),
    option("greedy-ivector-extractor", bool, False, "Use all frames that are there, for every frame"),
    option("max-remembered-frames", float, 1000.0, "Frames of a speaker that are remembered"),
)


def cmvn_options(options: Options) -> OnlineOptions:
    """How features are normalised, by the ``CMVN_OPTIONS``."""
    from nnet3py.recognition import option_tables

    return option_tables.cmvn_options(options.as_dict())


def online_models(options: Options) -> OnlineModels:
    """The models that options name. OptionError for one that is missing."""
    import numpy as np

    from nnet3py.formats.matrix_files import read_matrix_file
    from nnet3py.gaussians.diag_gmm import DiagGmm
    from nnet3py.io.object_files import read_object
    from nnet3py.ivectors.online import OnlineModels

    for name in _FILES:
        if not options[name]:
            raise OptionError(f"--{name} option must be set",
                              "it usually stands in the file that --config or --ivector-extraction-config names")
    cmvn = cmvn_options(options_of_file(options.cmvn_config, CMVN_OPTIONS))
    context = options_of_file(options.splice_config, SPLICE_OPTIONS)
    most_recent = options.use_most_recent_ivector
    if options.greedy_ivector_extractor and not most_recent:
        log.warning("--use-most-recent-ivector is set because --greedy-ivector-extractor is")
        most_recent = True
    models = OnlineModels(
        read_extractor(options.ivector_extractor), read_object(options.diag_ubm, DiagGmm.read),
        read_matrix_file(options.lda_matrix), read_matrix_file(options.global_cmvn_stats, dtype=np.float64),
        context.left_context, context.right_context,
        cmvn, options.online_cmvn_iextractor, options.ivector_period, options.num_gselect, options.min_post,
        options.posterior_scale, options.max_count, options.max_remembered_frames, most_recent,
        options.greedy_ivector_extractor)
    models.check()
    return models
