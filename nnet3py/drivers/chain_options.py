"""The options of train-chain: Kaldi's names, defaults and meanings, and a few of our own.

Kaldi: steps/nnet3/chain/train.py. Ours are --ali-dir (alignments in place of lattices) and --chain.phone-lm.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

from nnet3py.chain.options import SupervisionOptions
from nnet3py.drivers.options import CommonOptions, RnnPart
from nnet3py.errors import UsageError
from nnet3py.option_fields import like, opt
from nnet3py.training.options import ChainOptions as ObjectiveOptions


@dataclass(init=False, repr=False, eq=False)
class ChainOptions(CommonOptions):
    """Options of train-chain."""

    tree_dir: str | None = opt("tree-dir", None, "Folder with tree, final.mdl, num_jobs, ali.*.gz and phones.txt, for "
                               "the tree and the phone language model", harmless=True)
    lat_dir: str | None = opt("lat-dir", None, "Folder of lattices of the transcripts: lat.*.gz, final.mdl",
                              harmless=True)
    ali_dir: str | None = opt("ali-dir", None, "Folder of alignments to use in place of lattices: ali.*.gz, num_jobs, "
                              "final.mdl, tree", harmless=True)

    languages: str | None = opt("languages", None, "File with a line for each language, such as 'en feat-dir=data/en "
                                "tree-dir=exp/en_tree ali-dir=exp/en_ali' (or lat-dir), perhaps with "
                                "online-ivector-dir, weight and copies: one network is trained for all")
    e2e: bool = opt("e2e", False, "Train from a flat start, on whole utterances and their graphs: --tree-dir is a "
                    "folder of prepare-e2e, or of Kaldi's prepare_e2e.sh with phone_lm.fst")

    chunk_width: str = opt("egs.chunk-width", "20", "Input frames per chunk; several with commas between")
    chunk_left_context: int = like(RnnPart, "chunk_left_context", default=0)
    chunk_right_context: int = like(RnnPart, "chunk_right_context")
    chunk_left_context_initial: int = like(RnnPart, "chunk_left_context_initial")
    chunk_right_context_final: int = like(RnnPart, "chunk_right_context_final")
    egs_nj: int = opt("egs.nj", 0, "Jobs that make the examples (0: as many as is usual)")

    lm_opts: str | None = opt("chain.lm-opts", None, "Options of chain-est-phone-lm")
    phone_lm: str | None = opt("chain.phone-lm", None, "A phone language model that is there already; blank: one of "
                               "the phones in --tree-dir")
    l2_regularize: float = like(ObjectiveOptions, "l2_regularize", "chain.l2-regularize")
    xent_regularize: float = like(ObjectiveOptions, "xent_regularize", "chain.xent-regularize")
    left_tolerance: int = like(SupervisionOptions, "left_tolerance", "chain.left-tolerance")
    right_tolerance: int = like(SupervisionOptions, "right_tolerance", "chain.right-tolerance")
    leaky_hmm_coefficient: float = like(ObjectiveOptions, "leaky_hmm_coefficient", "chain.leaky-hmm-coefficient")
    apply_deriv_weights: bool = opt("chain.apply-deriv-weights", True, "Multiply derivatives with the weights of the "
                                    "examples' frames")
    frame_subsampling_factor: int = opt("chain.frame-subsampling-factor", 3, "Input frames per output frame")
    alignment_subsampling_factor: int = opt("chain.alignment-subsampling-factor", 3, "Frames of the lattices or "
                                            "alignments per output frame")
    left_deriv_truncate: int | None = opt("chain.left-deriv-truncate", None, "The negative of "
                                          "--trainer.deriv-truncate-margin, as older recipes give it")
    chain_opts: str = opt("chain-opts", "", "Further options of nnet3-chain-train, with blanks between")

    # What frame-level training has under other names.
    samples_per_iter: int = opt("trainer.frames-per-iter", 800000, "Input frames per archive, at most", least=1)
    minibatch_size: str = opt("trainer.num-chunk-per-minibatch", "128", "Chunks per minibatch: 128, 128,64, "
                              "150=64,32/90=128")
    num_epochs: float = opt("trainer.num-epochs", 10.0, "Passes over the data, each at all frame shifts")
    initial_effective_lrate: float = like(CommonOptions, "initial_effective_lrate", default=0.0002)
    final_effective_lrate: float = like(CommonOptions, "final_effective_lrate", default=0.00002)
    shrink_value: float = like(RnnPart, "shrink_value", default=1.0)
    shrink_saturation_threshold: float = like(RnnPart, "shrink_saturation_threshold")
    deriv_truncate_margin: int | None = opt("trainer.deriv-truncate-margin", None,
                                            "Frames beyond a chunk and its context up to which derivatives go; blank: "
                                            "all")
    compute_per_dim_accuracy: bool = opt("trainer.compute-per-dim-accuracy", False,
                                         "No effect: chain models have no accuracy", harmless=True)

    lwf_model: str | None = opt("chain.lwf-model", None, "Another model, whose posteriors are added to the "
                                "derivatives: the network learns them, too (learning without forgetting)")
    lwf_scale: float = opt("chain.lwf-scale", 0.0, "Their factor, such as 0.5")
    lwf_type: str = opt("chain.lwf-type", "den", "den: that model's posteriors by the denominator graph; raw: the "
                        "exponentials of its output, which is then one of log-probabilities")
    lwf_clip_threshold: float = opt("chain.lwf-clip-threshold", 0.0, "Posteriors by the denominator graph below this "
                                    "become 0")

    semisup_feat_dir: str | None = opt("semisup.feat-dir", None, "Folder of data without transcripts, for "
                                       "semi-supervised training", harmless=True)
    semisup_lat_dir: str | None = opt("semisup.lat-dir", None, "Folder of lattices that a chain model made of it: "
                                      "lat.*.gz, final.mdl", harmless=True)
    semisup_ivector_dir: str | None = opt("semisup.online-ivector-dir", None, "Its folder with ivector_online.scp",
                                          harmless=True)
    semisup_weight: float = opt("semisup.weight", 1.0, "Factor of its derivatives, besides their confidence")
    semisup_copies: int = opt("semisup.num-copies", 1, "How often it counts in an epoch")
    semisup_sup_copies: int = opt("semisup.num-copies-sup", 1, "How often the data with transcripts counts then")
    semisup_lm_repeats: str = opt("semisup.lm-repeats", "1,1", "How often transcripts, and best paths of the lattices, "
                                  "count in the phone language model")
    semisup_acwt: float = opt("semisup.acwt", 0.1, "Factor of the lattices' acoustic costs, for confidence and pruning")
    semisup_lm_scale: float = opt("semisup.lattice-lm-scale", 0.5, "Factor of the lattices' graph costs that stay, "
                                  "below 1")
    semisup_prune_beam: float = opt("semisup.lattice-prune-beam", 4.0, "Beam that its lattices are pruned to")
    semisup_tolerance: int = opt("semisup.tolerance", 1, "Frames by which its phones may begin earlier and end later")

    def check(self) -> None:
        from nnet3py.drivers.egs.egs_folder import is_chunk_width

        super().check()
        if self.languages:
            self._check_languages()
        elif not self.tree_dir:
            raise UsageError("no tree was given", "say --tree-dir=exp/chain_tree")
        if self.lat_dir and self.ali_dir:
            raise UsageError("both --lat-dir and --ali-dir were given", "give the one that examples are made of")
        self._check_semisup()
        if self.e2e and (self.lat_dir or self.ali_dir):
            raise UsageError("--e2e=true trains without alignments, but --lat-dir or --ali-dir was given")
        if not (self.egs_dir or self.lat_dir or self.ali_dir or self.e2e or self.languages):
            raise UsageError("there is nothing that examples can be made of", "say --lat-dir=exp/tri_lats, or "
                             "--ali-dir=exp/tri_ali, or --egs.dir if they are there already")
        for name, least in (("frame-subsampling-factor", 1), ("alignment-subsampling-factor", 1),
                            ("left-tolerance", 0), ("right-tolerance", 0)):
            if (value := getattr(self, name.replace("-", "_"))) < least:
                raise UsageError(f"--chain.{name}={value}: expected {least} or more")
        for name, value in (("left", self.chunk_left_context), ("right", self.chunk_right_context)):
            if value < 0:
                raise UsageError(f"--egs.chunk-{name}-context={value}: expected 0 or more")
        if not is_chunk_width(self.chunk_width):
            raise UsageError(f"--egs.chunk-width={self.chunk_width}: expected numbers above 0 with commas between")
        if self.leaky_hmm_coefficient <= 0.0:
            raise UsageError(f"--chain.leaky-hmm-coefficient={self.leaky_hmm_coefficient:g}: expected above 0",
                             "0.1 is usual, 1e-5 almost none")
        self._check_lwf()
        for name, number in (("lwf-scale", self.lwf_scale), ("lwf-clip-threshold", self.lwf_clip_threshold),
                             ("l2-regularize", self.l2_regularize), ("xent-regularize", self.xent_regularize)):
            if number < 0.0:
                raise UsageError(f"--chain.{name}={number:g}: expected 0 or more")

    def _check_semisup(self) -> None:
        if bool(self.semisup_feat_dir) != bool(self.semisup_lat_dir) or self.semisup_feat_dir and (
                self.e2e or self.egs_dir):
            raise UsageError("semi-supervised training needs --semisup.feat-dir and --semisup.lat-dir, and neither "
                             "--e2e=true nor --egs.dir")
        if not re.fullmatch("[1-9][0-9]?,[0-9][0-9]?", self.semisup_lm_repeats):
            raise UsageError(f"--semisup.lm-repeats={self.semisup_lm_repeats}: expected two numbers below 100, "
                             "such as 3,2")
        for name, value in (("weight", self.semisup_weight), ("acwt", self.semisup_acwt),
                            ("lattice-prune-beam", self.semisup_prune_beam), ("num-copies", self.semisup_copies),
                            ("num-copies-sup", self.semisup_sup_copies)):
            if not 0.0 < value < float("inf"):
                raise UsageError(f"--semisup.{name}={value:g}: expected above 0")

    def _check_lwf(self) -> None:
        if bool(self.lwf_model) != bool(self.lwf_scale) or self.lwf_type not in ("raw", "den"):
            raise UsageError(f"--chain.lwf-model={self.lwf_model or ''} --chain.lwf-scale={self.lwf_scale:g} "
                             f"--chain.lwf-type={self.lwf_type}: expected a model with a scale, and raw or den",
                             "0.5 is a usual scale")

    def _check_languages(self) -> None:
        alone = {"tree-dir": self.tree_dir, "feat-dir": self.feat_dir, "ali-dir": self.ali_dir, "lat-dir": self.lat_dir,
                 "feat.online-ivector-dir": self.online_ivector_dir, "egs.dir": self.egs_dir, "e2e": self.e2e,
                 "chain.phone-lm": self.phone_lm, "chain.lwf-model": self.lwf_model,
                 "semisup.feat-dir": self.semisup_feat_dir, "backstitch": self.backstitch_scale}
        given = [name for name, value in alone.items() if value]
        if given:
            raise UsageError(f"--languages and --{given[0]} cannot both be given",
                             "folders of each language stand in its line of the file")
