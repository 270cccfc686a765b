"""Kaldi's programs that are not part of nnet3py, each with a replacement; imported only for an unknown command name.

No name of the registry may be listed here.
"""
from __future__ import annotations

from difflib import get_close_matches

from nnet3py.cli.registry import COMMANDS, PERSON_NAMES

_OTHER_MODELS = ("models other than nnet3 networks are not part of it; train and align with Kaldi, and bring its "
                 "alignments: see train-dnn and convert-ali")
_OLD_NETWORKS = "networks older than nnet3 are not part of it; the same is done for nnet3 by {}"

# Replacement -> names of Kaldi's programs.
_INSTEAD: dict[str, str] = {
    _OTHER_MODELS: """
        gmm-acc-hlda gmm-acc-mllt gmm-acc-mllt-global gmm-acc-stats gmm-acc-stats-ali gmm-acc-stats-twofeats
        gmm-acc-stats2 gmm-adapt-map gmm-align gmm-align-compiled gmm-basis-fmllr-accs
        gmm-basis-fmllr-accs-gpost gmm-basis-fmllr-training gmm-boost-silence gmm-compute-likes gmm-copy
        gmm-decode-biglm-faster gmm-decode-faster gmm-decode-faster-regtree-fmllr gmm-decode-faster-regtree-mllr
        gmm-decode-simple gmm-est gmm-est-basis-fmllr gmm-est-basis-fmllr-gpost gmm-est-fmllr
        gmm-est-fmllr-global gmm-est-fmllr-gpost gmm-est-fmllr-raw gmm-est-fmllr-raw-gpost gmm-est-gaussians-ebw
        gmm-est-lvtln-trans gmm-est-map gmm-est-regtree-fmllr gmm-est-regtree-fmllr-ali gmm-est-regtree-mllr
        gmm-est-rescale gmm-est-weights-ebw gmm-fmpe-acc-stats gmm-get-feat-deriv gmm-get-stats-deriv
        gmm-global-acc-stats-twofeats gmm-global-est-fmllr gmm-global-est-lvtln-trans gmm-global-get-frame-likes
        gmm-global-info gmm-info gmm-init-lvtln gmm-init-model-flat gmm-ismooth-stats gmm-latgen-biglm-faster
        gmm-latgen-faster gmm-latgen-faster-parallel gmm-latgen-faster-regtree-fmllr gmm-latgen-map
        gmm-latgen-simple gmm-latgen-tracking gmm-make-regtree gmm-mixup gmm-post-to-gpost gmm-rescore-lattice
        gmm-sum-accs gmm-train-lvtln-special gmm-transform-means gmm-transform-means-global
        fgmm-global-acc-stats-post fgmm-global-acc-stats-twofeats fgmm-global-get-frame-likes fgmm-global-info
        fgmm-global-merge fgmm-global-mixdown sgmm2-acc-stats sgmm2-acc-stats-gpost
        sgmm2-acc-stats2 sgmm2-align-compiled sgmm2-comp-prexform sgmm2-copy sgmm2-est sgmm2-est-ebw
        sgmm2-est-fmllr sgmm2-est-fmllr-gpost sgmm2-est-spkvecs sgmm2-est-spkvecs-gpost sgmm2-gselect sgmm2-info
        sgmm2-init sgmm2-latgen-faster sgmm2-latgen-faster-parallel sgmm2-post-to-gpost sgmm2-project
        sgmm2-rescore-lattice sgmm2-sum-accs init-ubm copy-gselect fmpe-acc-stats fmpe-apply-transform fmpe-est
        fmpe-init fmpe-sum-accs est-mllt sum-mllt-accs decode-faster decode-faster-mapped""",
    _OLD_NETWORKS.format("nnet3-init, train-dnn, nnet3-compute and nnet3-latgen-faster"): """
        nnet-align-compiled nnet-am-average nnet-am-compute nnet-am-copy nnet-am-fix nnet-am-info nnet-am-init
        nnet-am-mixup nnet-am-rescale nnet-am-switch-preconditioning nnet-am-widen nnet-adjust-priors
        nnet-combine nnet-combine-a nnet-combine-egs-discriminative nnet-combine-fast
        nnet-compare-hash-discriminative nnet-compute nnet-compute-from-egs nnet-compute-prob nnet-concat
        nnet-copy nnet-copy-egs nnet-copy-egs-discriminative nnet-forward nnet-get-egs
        nnet-get-egs-discriminative nnet-get-weighted-egs nnet-info nnet-init nnet-initialize nnet-insert
        nnet-latgen-faster nnet-latgen-faster-parallel nnet-logprob nnet-modify-learning-rates
        nnet-normalize-stddev nnet-replace-last-layers nnet-set-learnrate nnet-show-progress nnet-shuffle-egs
        nnet-shuffle-egs-discriminative nnet-subset-egs nnet-to-raw-nnet nnet-train-discriminative-parallel
        nnet-train-discriminative-simple nnet-train-ensemble nnet-train-frmshuff nnet-train-mmi-sequential
        nnet-train-mpe-sequential nnet-train-multistream nnet-train-parallel nnet-train-parallel-perturbed
        nnet-train-perutt nnet-train-simple nnet-train-simple-perturbed nnet-train-transitions nnet1-to-raw-nnet
        raw-nnet-concat raw-nnet-copy raw-nnet-info rbm-convert-to-nnet rbm-train-cd1-frmshuff transf-to-nnet
        nnet-kl-hmm-acc""",
    "use nnet3-combine": "nnet3-combine-fast",
    _OLD_NETWORKS.format("online2-wav-nnet3-latgen-faster"): """
        online2-wav-nnet2-latgen-faster online2-wav-nnet2-latgen-threaded online2-wav-gmm-latgen-faster
        online2-wav-nnet2-am-compute online-wav-gmm-decode-faster online-gmm-decode-faster""",
    "use online2-wav-nnet3-latgen-faster": """
        online2-wav-nnet3-latgen-incremental
        online2-wav-nnet3-wake-word-decoder-faster batched-wav-nnet3-cuda batched-wav-nnet3-cuda2
        batched-wav-nnet3-cuda-online""",
    "use online2-tcp-nnet3-decode-faster": """
        online-server-gmm-decode-faster online-audio-client online-audio-server-decode-faster online-net-client""",
    "use compute-online-feats": "compute-online-feats-cuda compute-online-feats-batched-cuda",
    "use latgen-faster-mapped": "latgen-incremental-mapped",
    "use process-kaldi-pitch-feats": "process-pitch-feats",
    "write both with copy-int-vector ark:A ark,t:- and compare the text": "compare-int-vector",
    "posteriors come from alignments, with ali-to-post": "post-to-phone-post prob-to-post",
    "use copy-post on one table after the other": "sum-post",
    "use matrix-sum": "sum-matrices matrix-max",
    "use est-lda": "get-full-lda-mat",
    "use fsttablecompose; symbols that stand for failure or rest are understood by lattice-compose": """
        fstphicompose fstrhocompose fstpropfinal""",
    "use fstcomposecontext, which makes contexts as they are needed": """
        fstmakecontextfst fstmakecontextsyms fstaddsubsequentialloop""",
    "use fstdeterminizestar --use-log=true": "fstdeterminizelog",
    "use fstrandgen": "fstrand",
    "use fstminimizeencoded and fstrmepslocal": "fstfactor",
    "use nnet3-align-compiled, or phones-to-ali for phones whose times are known": """
        align-mapped align-compiled-mapped align-equal align-equal-compiled""",
    "use ali-to-phones": "phones-to-prons prons-to-wordali",
    "use compile-train-graphs": "compile-train-graphs-without-lexicon compile-graph",
    "use ali-to-post and post-to-tacc, then nnet3-am-adjust-priors": "analyze-counts",
    "examples are made by nnet3-get-egs": "build-pfile-from-ali nnet-relabel-egs",
    "change sound before with another program, such as sox in wav.scp": "compress-uncompress-speex",
    "pronunciation scores are not part of it; nnet3-compute gives the posteriors they are made of": "compute-gop",
    "searching for words in indexes is not part of it; use Kaldi's on our lattices": """
        kws-index-union kws-search lattice-to-kws-index lattice-to-kws-index2 transcripts-to-fsts compute-atwv
        print-proxy-keywords generate-proxy-keywords""",
    "networks of other toolkits are not part of it; use lattice-lmrescore-kaldi-rnnlm-pruned": """
        lattice-lmrescore-rnnlm lattice-lmrescore-tf-rnnlm lattice-lmrescore-tf-rnnlm-pruned""",
    "RNN language models are trained by one command of our own, train-rnnlm": """
        rnnlm-compute-prob rnnlm-copy-egs rnnlm-get-egs rnnlm-get-sampling-lm rnnlm-train""",
}


def what_instead(name: str) -> tuple[str, str]:
    """Return the error message and the hint for a command ``name`` that is not in the registry."""
    hints = missing_programs()
    if name in hints:
        return f"Kaldi's program {name} is not part of nnet3py", hints[name]
    message = f"There is no command '{name}'"
    close = get_close_matches(name, [*PERSON_NAMES, *(command for command in COMMANDS if command not in PERSON_NAMES),
                                     *hints], 1)
    if not close:
        return message, "see nnet3py --help"
    if close[0] in hints:
        return message, f"Kaldi has {close[0]}, which is not part of nnet3py: {hints[close[0]]}"
    return message, f"did you mean '{close[0]}'?"


def missing_programs() -> dict[str, str]:
    """Return Kaldi's programs that are not part of nnet3py, each with its replacement."""
    return {name: hint for hint, names in _INSTEAD.items() for name in names.split()}
