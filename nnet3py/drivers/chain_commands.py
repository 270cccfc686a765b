"""The command lines of the jobs of a chain training, as Kaldi's scripts write them.

Kaldi: steps/libs/nnet3/train/chain_objf/acoustic_model.py.
"""
from __future__ import annotations

from nnet3py.drivers.chain_options import ChainOptions
from nnet3py.drivers.commands import FrameCommands, ModelFiles, Step, derivative_limits

CHAIN = ModelFiles("mdl", wrapped=True, to_raw="nnet3-am-copy --raw=true", info="nnet3-am-info")
BACKSTITCH_RAMP = 15         # iterations in which the backward steps grow to their size
WHOLE_UTTERANCES_COMBINED = "1:64"     # a minibatch for combining models, of whole utterances


class ChainCommands(FrameCommands):
    """Commands of train-chain."""

    train_program = "nnet3-chain-train"
    prob_program = "nnet3-chain-compute-prob"
    combine_program = "nnet3-chain-combine"
    lda_program = "nnet3-chain-acc-lda-stats"
    copy_egs, shuffle_egs, merge_egs = "nnet3-chain-copy-egs", "nnet3-chain-shuffle-egs", "nnet3-chain-merge-egs"
    options: ChainOptions

    @property
    def passes(self) -> int:
        """An epoch goes through each archive once for every frame shift."""
        return self.options.frame_subsampling_factor

    @property
    def most_jobs(self) -> int:
        """Jobs that train on the same archive do so at different frame shifts."""
        return self.egs.num_archives * self.passes

    def selection(self, number: int) -> list[str]:
        return [f"--frame-shift={self.archive(number)[1]}"]

    def derivative_times(self) -> list[str]:
        options, old = self.options, self.options.left_deriv_truncate
        return derivative_limits(options.deriv_truncate_margin if old is None else -old, self.network)

    def train_options(self, step: Step) -> list[str]:
        options = self.options
        lwf = [f"--lwf-scale={options.lwf_scale}"] if options.lwf_model else []
        return [f"--apply-deriv-weights={str(options.apply_deriv_weights).lower()}", *self.prob_options(), *lwf,
                *options.chain_opts.split()]

    def train_inputs(self) -> list[str]:
        return [self.den_fst]

    def minibatches(self, step: Step, job: int) -> str:
        pipe, options = super().minibatches(step, job), self.options
        if not options.lwf_model:
            return pipe
        words = ["nnet3-chain-add-post-to-egs", "--use-gpu=no", f"--type={options.lwf_type}",
                 "--batchnorm-test-mode=true", "--dropout-test-mode=true",
                 f"--leaky-hmm-coefficient={options.leaky_hmm_coefficient}",
                 f"--clip-threshold={options.lwf_clip_threshold}", options.lwf_model, self.den_fst, "ark:- ark:-"]
        return f"{pipe.removesuffix(' |')} | {' '.join(words)} |"

    @property
    def combined_size(self) -> str:
        return WHOLE_UTTERANCES_COMBINED if self.options.e2e else super().combined_size

    @property
    def den_fst(self) -> str:
        """The denominator graph."""
        return f"{self.dir}/den.fst"

    def backstitch_scale(self, step: Step) -> float:
        return self.options.backstitch_scale * min(1.0, step.iteration / BACKSTITCH_RAMP)

    def prob_options(self) -> list[str]:
        return [*self._objective_options(), f"--xent-regularize={self.options.xent_regularize}"]

    def _objective_options(self) -> list[str]:
        return [f"--l2-regularize={self.options.l2_regularize}",
                f"--leaky-hmm-coefficient={self.options.leaky_hmm_coefficient}"]

    def per_dim_accuracy(self, subset: str) -> bool:
        return False

    def combine_options(self) -> list[str]:
        return self._objective_options()       # without the cross-entropy, which would count

    # -- before the first iteration ------------------------------------------------------------------------------------

    @staticmethod
    def phone_lm(options: ChainOptions, model: str, alignments: str) -> str:
        """Estimate the phone language model, from alignments with the transition model ``model``.

        In semi-supervised training from the best paths of lattices, too, each as often as --semisup.lm-repeats says.
        Kaldi: make_weighted_den_fst.sh.
        """
        estimate = " ".join(["chain-est-phone-lm", *(options.lm_opts or "").split()])
        phones = f'ali-to-phones {model} "{alignments}" ark:-'
        if options.semisup_lat_dir:
            best = (f"lattice-best-path --acoustic-scale={options.semisup_acwt:g} "
                    f'"ark:gunzip -c {options.semisup_lat_dir}/lat.*.gz |" ark:/dev/null ark:- | '
                    f"ali-to-phones {options.semisup_lat_dir}/final.mdl ark:- ark:-")
            repeats = [int(number) for number in options.semisup_lm_repeats.split(",")]
            sources = [phones] * repeats[0] + [best] * repeats[1]
            phones = f"{{ {' && '.join(sources)}; }}"
        return f"{phones} | {estimate} ark:- {options.dir}/phone_lm.fst"

    @staticmethod
    def den_fsts(folder: str) -> str:
        """Make the denominator graph and the normalization graph."""
        names = ("tree", "0.trans_mdl", "phone_lm.fst", "den.fst", "normalization.fst")
        return " ".join(["chain-make-den-fst", *(f"{folder}/{name}" for name in names)])
