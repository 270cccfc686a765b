"""Options of the drivers that work in stages: i-vectors, trees, flat start, lattices, discriminative training.

Names and defaults are those of Kaldi's scripts, where these have such an option.
"""
from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.drivers.options import JobOptions, check_plain
from nnet3py.errors import UsageError
from nnet3py.ivectors.options import OnlineSettings
from nnet3py.option_fields import GPU_CHOICES, like, opt, options_class
from nnet3py.training.options import TrainerOptions
from nnet3py.trees import BuildOptions


@options_class
class WorkOptions(JobOptions):
    """Options that all drivers of :class:`~nnet3py.drivers.staged.StagedWork` have."""

    feat_dir: str = opt("feat-dir", "", "Folder of data with feats.scp and utt2spk", harmless=True)

    folders: ClassVar[tuple[str, ...]] = ("dir", "feat_dir")           # fields of required folders
    more_folders: ClassVar[tuple[str, ...]] = ()     # fields of optional folders that are part of commands

    def check(self) -> None:
        """Raise UsageError if a value cannot be used, or a required one is missing."""
        names = {field_.name: field_.metadata["name"] for field_ in dataclasses.fields(self)}
        for field in self.folders:
            if not getattr(self, field):
                raise UsageError(f"--{names[field]} was not given", "see --help for an example")
        for field in (*self.folders, *self.more_folders):
            if getattr(self, field):
                check_plain(f"--{names[field]}", getattr(self, field))
        super().check()


@options_class
class ExtractorOptions(WorkOptions):
    """Options of train-ivector-extractor."""

    nj: int = opt("nj", 4, "Parts of the data, with a job each", least=1)
    online_cmvn_config: str | None = opt("online-cmvn-config", None, "File of options of apply-cmvn-online",
                                         harmless=True)
    transform_dir: str | None = opt("transform-dir", None, "Folder with a transform of spliced features: "
                                    "final.mat, splice_opts; blank: estimate one (PCA)", harmless=True)
    splice_opts: str = opt("splice-opts", "--left-context=3 --right-context=3", "Options of splice-feats, if the "
                           "transform is estimated")
    pca_dim: int = opt("pca.dim", 40, "Dimension after the transform", least=1)
    pca_subsample: int = opt("pca.subsample", 5, "Use every N-th frame for the transform", least=1)
    pca_max_utts: int = opt("pca.max-utts", 5000, "Greatest number of utterances used for the transform", least=1)
    ubm_feat_dir: str | None = opt("ubm.feat-dir", None, "Data for transform and mixture, such as a part of "
                                   "--feat-dir; blank: --feat-dir", harmless=True)
    num_gauss: int = opt("ubm.num-gauss", 512, "Number of Gaussians of the mixture", least=1)
    ubm_num_iters: int = opt("ubm.num-iters", 4, "Passes over all data for the mixture", least=1)
    ubm_num_iters_init: int = opt("ubm.num-iters-init", 20, "Iterations on frames in memory, before these "
                                  "passes", least=1)
    ubm_num_frames: int = opt("ubm.num-frames", 500000, "Frames in memory for these iterations", least=1)
    initial_gauss_proportion: float = opt("ubm.initial-gauss-proportion", 0.5, "Share of the Gaussians with "
                                          "which these iterations start", above=0, most=1)
    ubm_num_gselect: int = opt("ubm.num-gselect", 30, "Gaussians selected for each frame in the passes", least=1)
    ubm_subsample: int = opt("ubm.subsample", 2, "Use every N-th frame in the passes", least=1)
    min_gaussian_weight: float = opt("ubm.min-gaussian-weight", 1.0e-4, "Least weight of a Gaussian", least=0)
    remove_low_count_gaussians: bool = opt("ubm.remove-low-count-gaussians", True, "Remove Gaussians with too little "
                                           "data after the last pass")
    full_num_iters: int = opt("ubm.full-num-iters", 0, "Passes of training full covariances, with which the extractor "
                              "starts (0: it starts with diagonal ones, as in Kaldi's recipes)", least=0)
    ivector_dim: int = opt("ivector-dim", 100, "Dimension of the i-vectors", least=1)
    num_iters: int = opt("num-iters", 10, "Iterations of training the extractor", least=1)
    num_gselect: int = like(OnlineSettings, "num_gselect")
    posterior_scale: float = like(OnlineSettings, "posterior_scale")
    min_post: float = like(OnlineSettings, "min_post")
    subsample: int = opt("subsample", 2, "Use every N-th frame in training the extractor", least=1)
    online_cmvn_iextractor: bool = opt("online-cmvn-iextractor", False, "Train the extractor on normalized features")
    extract_to: str | None = opt("extract-to", None, "Also extract the i-vectors of --feat-dir, into this folder, as "
                                 "extract-ivectors does", harmless=True)

    more_folders = ("online_cmvn_config", "transform_dir", "ubm_feat_dir", "extract_to")

    def check(self) -> None:
        super().check()
        if int(self.initial_gauss_proportion * self.num_gauss) < 1:
            raise UsageError(f"--ubm.initial-gauss-proportion={self.initial_gauss_proportion:g}: expected at least one "
                             f"of {self.num_gauss} Gaussians")


@options_class
class IvectorOptions(WorkOptions):
    """Options of extract-ivectors."""

    extractor_dir: str = opt("extractor-dir", "", "Folder of the extractor, from train-ivector-extractor",
                             harmless=True)
    nj: int = opt("nj", 4, "Parts of the data, with a job each", harmless=True, least=1)
    utts_per_spk_max: int = opt("utts-per-spk-max", 0, "Split speakers into new ones of at most this many "
                                "utterances, 2 for training data, so that i-vectors vary (0: do not split)", least=0)
    ivector_period: int = like(OnlineSettings, "period")
    num_gselect: int = like(OnlineSettings, "num_gselect")
    min_post: float = like(OnlineSettings, "min_post")
    posterior_scale: float = like(OnlineSettings, "posterior_scale")
    max_count: float = like(OnlineSettings, "max_count")
    use_vad: bool = opt("use-vad", False, "Weight frames by vad.scp of the data")
    compress: bool = opt("compress", True, "Store i-vectors compressed")

    folders = (*WorkOptions.folders, "extractor_dir")


@options_class
class TreeOptions(WorkOptions):
    """Options of nnet3-build-tree."""

    lang: str = opt("lang", "", "Folder with topo, phones.txt and phones/; the topology may differ from that of the "
                    "alignments", harmless=True)
    ali_dir: str = opt("ali-dir", "", "Folder of alignments: ali.*.gz, num_jobs, final.mdl, tree, phones.txt; "
                       "optionally final.mat, trans.* and the options of their features", harmless=True)
    num_leaves: int = opt("num-leaves", 0, "Greatest number of leaves of the tree, such as 3500")
    context_opts: str = opt("context-opts", "", "Options of the window of phones; for chain models "
                            "'--context-width=2 --central-position=1', the phone and its left neighbor")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per frame of the model; 3 for "
                                        "chain models", least=1)
    alignment_subsampling_factor: int | None = opt("alignment-subsampling-factor", None, "Frames of the alignments per "
                                                   "frame of the model; blank: --frame-subsampling-factor", least=1)
    cluster_thresh: float = like(BuildOptions, "cluster_threshold")
    repeat_frames: bool = opt("repeat-frames", False, "Repeat the converted alignments' frames, for the full rate")
    tree_stats_opts: str = opt("tree-stats-opts", "", "Further options of acc-tree-stats")
    cluster_phones_opts: str = opt("cluster-phones-opts", "", "Further options of cluster-phones")

    folders = (*WorkOptions.folders, "lang", "ali_dir")

    def check(self) -> None:
        super().check()
        if self.num_leaves < 1:
            raise UsageError(f"--num-leaves={self.num_leaves}: expected how many leaves the tree may have",
                             "about 3500 for 100 hours of speech and more, some hundreds for few hours")


@options_class
class FlatStartOptions(WorkOptions):
    """Options of prepare-e2e."""

    feat_dir: str = opt("feat-dir", "", "Folder of data with text and utt2spk", harmless=True)
    lang: str = opt("lang", "", "Folder with L.fst, words.txt, phones.txt, topo, phones/, and lexicon.txt or "
                    "phones/align_lexicon.txt", harmless=True)
    nj: int = opt("nj", 4, "Parts of the data, with a job each", least=1)
    type: str = opt("type", "mono", "mono: monophone tree; biphone: full biphone tree, with a pdf for each pair of "
                    "left phone and phone", choices=("mono", "biphone"))
    shared_phones: bool = opt("shared-phones", True, "Phones on one line of phones/sets.int share pdfs")
    ci_silence: bool = opt("ci-silence", False, "Silence is context-independent (biphone)")
    tree_dir: str | None = opt("tree-dir", None, "Folder with existing tree and final.mdl; blank: make new ones",
                               harmless=True)
    lm_opts: str = opt("lm-opts", "--num-extra-lm-states=2000", "Options of chain-est-phone-lm")
    edge_silprob: float = opt("edge-silprob", 0.8, "Probability of silence before the first word and after the "
                              "last, in the phone language model", least=0, most=1)
    between_silprob: float = opt("between-silprob", 0.1, "Probability of silence between two words, in the "
                                 "phone language model", least=0, most=1)
    srand: int = opt("srand", 0, "Seed of the silences")

    folders = (*WorkOptions.folders, "lang")
    more_folders = ("tree_dir",)

    def check(self) -> None:
        super().check()
        if self.ci_silence and self.type == "mono":
            raise UsageError("--ci-silence=true is for --type=biphone: without context, silence has none either")


@options_class
class LatticesOptions(WorkOptions):
    """Options of make-denlats, which train-discriminative has as well."""

    feat_dir: str = opt("feat-dir", "", "Folder of data with text, feats.scp and utt2spk", harmless=True)
    src_dir: str = opt("src-dir", "", "Folder of the initial model: final.mdl, tree, cmvn_opts, phones.txt; of a chain "
                       "model also frame_subsampling_factor", harmless=True)
    lang: str = opt("lang", "", "Folder with L.fst, L_disambig.fst, words.txt, phones.txt, phones/, oov.txt",
                    harmless=True)
    online_ivector_dir: str | None = opt("feat.online-ivector-dir", None, "Folder with ivector_online.scp",
                                         harmless=True)
    nj: int = opt("nj", 2, "Parts of the data, with a job each", least=1)
    acoustic_scale: float | None = opt("acoustic-scale", None, "Factor of the acoustic scores in alignment, lattices "
                                       "and training; blank: 0.1, or 1.0 for a chain model", above=0,
                                       below=math.inf)
    self_loop_scale: float | None = opt("self-loop-scale", None, "Factor of the log-probabilities of self-loops; "
                                        "blank: 0.1, or 1.0 for a chain model", least=0)
    graph_dir: str | None = opt("denlats.graph-dir", None, "Folder with the graph of the lattices, HCLG.fst; blank: "
                                "make one of a unigram model of the transcripts", harmless=True)
    beam: float = opt("denlats.beam", 13.0, "Decoding beam", least=0)
    lattice_beam: float = opt("denlats.lattice-beam", 7.0, "Lattice beam", least=0)
    max_active: int = opt("denlats.max-active", 5000, "Greatest number of active states in a frame", least=1)
    min_active: int = opt("denlats.min-active", 200, "Least number of active states in a frame", least=0)
    use_gpu: str = opt("use-gpu", "no", "yes|no|optional|wait: use a GPU for decoding, alignment and training",
                       choices=GPU_CHOICES)

    folders = (*WorkOptions.folders, "src_dir", "lang")
    more_folders = ("online_ivector_dir", "graph_dir")


@options_class
class DiscriminativeTrainingOptions(LatticesOptions):
    """Options of train-discriminative."""

    frames_per_eg: str = opt("egs.frames-per-eg", "150", "Input frames of an example: a comma-separated list, the "
                             "usual number first")
    frames_overlap_per_eg: int = opt("egs.frames-overlap-per-eg", 30, "Frames by which neighboring examples overlap",
                                     least=0)
    frames_per_iter: int = opt("egs.frames-per-iter", 400000, "Approximate number of input frames of a job in an "
                               "iteration", least=1)
    num_utts_subset: int = opt("egs.num-utts-subset", 80, "Number of held-out and of training utterances for "
                               "diagnostics; at most a tenth of all", least=1)
    criterion: str = like(DiscriminativeOptions, "criterion", "trainer.criterion")
    boost: float = like(DiscriminativeOptions, "boost", "trainer.boost")
    drop_frames: bool = like(DiscriminativeOptions, "drop_frames", "trainer.drop-frames")
    one_silence_class: bool = like(DiscriminativeOptions, "one_silence_class", "trainer.one-silence-class",
                                   default=True)
    l2_regularize: float = like(DiscriminativeOptions, "l2_regularize", "trainer.l2-regularize")
    xent_regularize: float = like(DiscriminativeOptions, "xent_regularize", "trainer.xent-regularize")
    learning_rate: float = opt("trainer.learning-rate", 0.00002, "Learning rate of all components, constant; 0.000005 "
                               "or less for chain models", least=0)
    num_epochs: int = opt("trainer.num-epochs", 4, "Passes over the examples; with frame shifts each counts as many as "
                          "the model's frame subsampling factor", least=1)
    num_jobs: int = opt("trainer.num-jobs", 4, "Parallel training jobs, whose networks are averaged; at most the "
                        "number of archives", least=1)
    minibatch_size: str = opt("trainer.minibatch-size", "64", "Examples of a minibatch")
    max_param_change: float = like(TrainerOptions, "max_param_change", "trainer.max-param-change")
    momentum: float = like(TrainerOptions, "momentum", "trainer.momentum", below=1)
    apply_deriv_weights: bool = opt("trainer.apply-deriv-weights", True, "Weight frames so that those of several "
                                    "examples count once")
    use_frame_shift: bool = opt("trainer.use-frame-shift", False, "Shift the input of chain models by different "
                                "numbers of frames in each pass")
    srand: int = opt("srand", 0, "Seed of the order of examples")
