"""Every command on a tiny input, for measuring what starting it costs: the commands and what they read.

``COMMANDS`` names each command that needs no compiled kernel, with its arguments; :func:`write_inputs` makes the files.
``NOT_MEASURED`` names the others, and why.
"""
from __future__ import annotations

from pathlib import Path

from nnet3py.cli.main import load
from nnet3py.cli.registry import GROUPS

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
MODEL, TREE = str(DATA / "network" / "trans.mdl"), str(DATA / "network" / "tree")
CHAIN, EGS, RNNLM = DATA / "chain", DATA / "egs", DATA / "rnnlm"
NOWHERE, NO_TABLE = "/dev/null", "ark:/dev/null"

COMMANDS = [
    # Models
    ("nnet3-init", "config", NOWHERE), ("nnet3-info", "raw"), ("nnet3-inspect", "raw"), ("nnet3-copy", "raw", NOWHERE),
    ("nnet3-compile", "--frames=1", "--summary", "raw"),
    ("nnet3-average", "raw", "raw", NOWHERE), ("nnet3-show-progress", "raw", "raw"),
    ("nnet3-am-init", MODEL, "raw", NOWHERE), ("nnet3-am-info", "am"), ("nnet3-am-copy", "am", NOWHERE),
    ("nnet3-am-adjust-priors", "am", "counts", NOWHERE), ("nnet3-am-train-transitions", "am", "ark:ali", NOWHERE),
    ("xconfig-to-configs", "--xconfig-file=xconfig", "--config-dir=configs"),
    ("copy-transition-model", MODEL, NOWHERE), ("show-transitions", "phones", MODEL), ("am-info", MODEL),
    ("tree-info", TREE), ("make-topology", "1:2", "", NOWHERE),
    ("make-mono-tree", "topo", NOWHERE, NOWHERE),
    ("bin-path",), ("docs", "--print-path"), ("nnet3-extras",), ("cuda-gpu-available",), ("cuda-compiled",),
    ("nnet3-monitor", "exp"),
    # Examples
    ("nnet3-get-egs", "--num-frames=8", "--num-pdfs=10", "ark:feats", "ark:post", NO_TABLE),
    ("nnet3-get-egs-dense-targets", "--num-frames=8", "--num-targets=4", "ark:feats", "ark:feats", NO_TABLE),
    ("nnet3-get-egs-simple", "input=ark:feats", "output=ark:feats", NO_TABLE),
    ("nnet3-xvector-get-egs", "--num-pdfs=2", "ranges", "ark:feats", NO_TABLE),
    ("nnet3-egs-augment-image", "--num-channels=1", "ark:egs", NO_TABLE),
    ("nnet3-copy-egs", "ark:egs", NO_TABLE), ("nnet3-shuffle-egs", "ark:egs", NO_TABLE),
    ("nnet3-subset-egs", "ark:egs", NO_TABLE),
    ("nnet3-merge-egs", "--minibatch-size=1", "ark:egs", NO_TABLE),
    *((f"nnet3-{kind}-{action}-egs", f"ark:{EGS / file}", NO_TABLE)
      for kind, file in (("chain", "chain-to-merge.ark"), ("discriminative", "discriminative.ark"))
      for action in ("copy", "shuffle", "subset")),
    ("nnet3-chain-merge-egs", "--minibatch-size=1", f"ark:{EGS / 'chain-to-merge.ark'}", NO_TABLE),
    ("nnet3-discriminative-merge-egs", f"ark:{EGS / 'discriminative.ark'}", NO_TABLE),
    ("nnet3-chain-normalize-egs", str(CHAIN / "normalization.fst"), f"ark:{EGS / 'chain.ark'}", NO_TABLE),
    ("nnet3-chain-get-egs", "--num-frames=20", str(CHAIN / "normalization.fst"), "ark:feats", "ark:supervision",
     NO_TABLE),
    ("nnet3-chain-e2e-get-egs", "--num-frames=20", str(CHAIN / "normalization.fst"), "ark:feats", "ark:graphs",
     str(CHAIN / "0.trans_mdl"), NO_TABLE),
    # Graphs and lattices
    ("chain-get-supervision", str(CHAIN / "tree"), str(CHAIN / "0.trans_mdl"), "ark:lengths", NO_TABLE),
    ("chain-est-phone-lm", "ark:sequences", NOWHERE),
    ("chain-make-den-fst", str(CHAIN / "tree"), str(CHAIN / "0.trans_mdl"), "phone_lm", NOWHERE, NOWHERE),
    ("chain-make-num-fst-e2e", str(CHAIN / "0.trans_mdl"), str(CHAIN / "normalization.fst"), "ark:graphs", NO_TABLE),
    ("text-to-phones", "lexicon", "text", NO_TABLE),
    ("rnnlm-get-word-embedding", str(RNNLM / "word_feats.txt"), str(RNNLM / "feat_embedding.mat"), NOWHERE),
    # Features
    ("copy-feats", "ark:feats", NO_TABLE), ("feat-to-dim", "ark:feats", "-"), ("feat-to-len", "ark:feats"),
    ("compute-cmvn-stats", "ark:feats", NO_TABLE), ("modify-cmvn-stats", "0", "ark:stats", NO_TABLE),
    ("apply-cmvn", "stats:2", "ark:feats", NO_TABLE), ("apply-cmvn-online", "stats:2", "ark:feats", NO_TABLE),
    ("splice-feats", "ark:feats", NO_TABLE), ("add-deltas", "ark:feats", NO_TABLE),
    ("select-feats", "0", "ark:feats", NO_TABLE), ("subset-feats", "ark:feats", NO_TABLE),
    ("subsample-feats", "ark:feats", NO_TABLE), ("shift-feats", "ark:feats", NO_TABLE),
    ("paste-feats", "ark:feats", "ark:feats", NO_TABLE),
    ("append-vector-to-feats", "ark:feats", "ark:vecs", NO_TABLE), ("transform-feats", "matrix", "ark:feats", NO_TABLE),
    ("transform-vec", "matrix", "ark:vecs", NO_TABLE), ("est-pca", "--dim=2", "ark:feats", NOWHERE),
    ("compute-mfcc-feats", "ark:wav", NO_TABLE), ("compute-fbank-feats", "ark:wav", NO_TABLE),
    ("compute-online-feats", "ark:wav", NO_TABLE, NO_TABLE),
    ("online2-wav-dump-features", "--print-ivector-dim=true"),
    ("wav-copy", "ark:wav", NO_TABLE), ("wav-perturb", "--speed=0.9", "ark:wav", NO_TABLE),
    ("wav-to-duration", "ark:wav", NO_TABLE),
    ("extract-segments", "ark:wav", "segments", NO_TABLE),
    ("compute-plp-feats", "ark:wav", NO_TABLE), ("compute-spectrogram-feats", "ark:wav", NO_TABLE),
    ("compute-kaldi-pitch-feats", "ark:wav", NO_TABLE), ("interpolate-pitch", "ark:pitch", NO_TABLE),
    ("process-kaldi-pitch-feats", "ark:pitch", NO_TABLE),
    ("compute-and-process-kaldi-pitch-feats", "ark:wav", NO_TABLE),
    ("extract-feature-segments", "ark:feats", "segments", NO_TABLE), ("concat-feats", "matrix", "matrix", NOWHERE),
    ("compare-feats", "ark:feats", "ark:feats"), ("copy-feats-to-htk", "ark:feats"),
    ("copy-feats-to-sphinx", "ark:feats"), ("post-to-feats", "--post-dim=21", "ark:post", NO_TABLE),
    ("append-post-to-feats", "--post-dim=21", "ark:feats", "ark:post", NO_TABLE),
    ("multiply-vectors", "ark:vecs", "ark:vecs", NO_TABLE), ("compose-transforms", "echo [ 1 2 ] |", "matrix", NOWHERE),
    ("extend-transform-dim", "--new-dimension=9", "echo [ 1 ] |", NOWHERE),
    ("apply-cmvn-sliding", "ark:feats", NO_TABLE),
    ("compute-cmvn-stats-two-channel", "echo a call A |", "ark:feats", NO_TABLE),
    ("add-deltas-sdc", "ark:feats", NO_TABLE), ("wav-reverberate", "wav:2", NOWHERE),
    ("extend-wav-with-silence", "ark:wav", NO_TABLE),
    # Matrices, vectors, statistics
    ("copy-matrix", "ark:feats", NO_TABLE), ("copy-vector", "ark:vecs", NO_TABLE),
    ("copy-int-vector", "ark:ali", NO_TABLE), ("vector-scale", "ark:vecs", NO_TABLE),
    ("vector-sum", "ark:vecs", NOWHERE), ("matrix-sum", "ark:feats", NOWHERE),
    ("matrix-sum-rows", "ark:feats", NO_TABLE), ("matrix-dim", "ark:feats"),
    ("acc-lda", MODEL, "ark:feats", "ark:post", NOWHERE), ("sum-lda-accs", NOWHERE, "lda"),
    ("est-lda", "--dim=2", NOWHERE, "lda"), ("nnet-get-feature-transform", NOWHERE, "lda"),
    # Alignments and posteriors
    ("ali-to-pdf", MODEL, "ark:ali", NO_TABLE), ("ali-to-phones", MODEL, "ark:ali", NO_TABLE),
    ("ali-to-post", "ark:ali", NO_TABLE), ("copy-post", "ark:post", NO_TABLE),
    ("post-to-smat", "--dim=21", "ark:post", NO_TABLE), ("post-to-tacc", MODEL, "ark:post", NOWHERE),
    ("phones-to-ali", MODEL, TREE, "ark:frames", NO_TABLE),
    ("convert-ali", MODEL, MODEL, TREE, "ark:alignment", NO_TABLE),
    ("show-alignments", "phones", MODEL, "ark:alignment"), ("post-to-pdf-post", MODEL, "ark:post", NO_TABLE),
    ("weight-silence-post", "0.5", "1", MODEL, "ark:post", NO_TABLE), ("post-to-weights", "ark:post", NO_TABLE),
    ("get-post-on-ali", "ark:post", "ark:ali", NO_TABLE),
    ("weight-post", "ark:post", "ark:voiced", NO_TABLE),
    ("logprob-to-post", "ark:feats", NO_TABLE), ("compute-vad", "ark:feats", NO_TABLE),
    ("select-voiced-frames", "ark:feats", "ark:voiced", NO_TABLE), ("scale-post", "ark:post", "0.5", NO_TABLE),
    # Trees
    ("hmm-info", MODEL), ("copy-tree", TREE, NOWHERE), ("draw-tree", "phones", TREE),
    ("gmm-init-mono", "topo", "4", NOWHERE, NOWHERE), ("gmm-init-biphone", "topo", "4", NOWHERE, NOWHERE),
    ("acc-tree-stats", "mono", "ark:feats", "ark:monophones", NOWHERE), ("sum-tree-stats", NOWHERE, "treeacc"),
    ("cluster-phones", "treeacc", "sets", NOWHERE), ("compile-questions", "topo", "sets", NOWHERE),
    ("build-tree", "treeacc", "roots", "questions", "topo", NOWHERE),
    ("build-tree-two-level", "treeacc", "roots", "questions", "topo", NOWHERE, NOWHERE),
    ("gmm-init-model", "built", "treeacc", "topo", NOWHERE),
]

# Commands whose exit status says something else than success: this machine has no GPU; nothing was merged; the
# documentation was not built.
OTHER_STATUS = {"cuda-gpu-available": 1, "cuda-compiled": 1, "nnet3-discriminative-merge-egs": 1,
                "docs": 255}

# What a command loads besides numpy, as an extra: its load time is not ours, so it is in what they are compared with.
LIBRARIES = {"nnet3-extras": "importlib.metadata", "rnnlm-get-word-embedding": "scipy.sparse", **dict.fromkeys((
    "apply-cmvn-online", "chain-get-supervision", "chain-make-den-fst", "compute-mfcc-feats", "compute-fbank-feats",
    "compute-plp-feats", "compute-spectrogram-feats", "compute-online-feats", "compute-kaldi-pitch-feats",
    "compute-and-process-kaldi-pitch-feats"), "llvmlite.binding")}

_KERNELS = "it computes with a network, so it needs compiled kernels"
_LOOPS = "it works by compiled loops, which are loaded in 0.05 s"
_GRAPHS = "it works on graphs by compiled loops or OpenFst; benchmarks/graphs.py measures it"
_CHILDREN = "it runs other commands"
NOT_MEASURED = {
    "warmup": "it compiles kernels",
    "tune": "it measures products",
    "resident": "it loads everything",
    **dict.fromkeys(("align", "diarize", "listen", "serve", "fine-tune", "vosk-transcriber"),
                    "it loads a model for recognition"),
    **dict.fromkeys(("nnet3-train", "nnet3-compute", "nnet3-compute-batch", "nnet3-compute-from-egs",
                     "nnet3-xvector-compute", "nnet3-xvector-compute-batched", "nnet3-acc-lda-stats",
                     "nnet3-compute-prob", "nnet3-combine", "nnet3-chain-train", "nnet3-chain-train2",
                     "nnet3-discriminative-get-egs", "nnet3-discriminative-train",
                     "nnet3-discriminative-compute-objf", "nnet3-discriminative-compute-from-egs",
                     "nnet3-chain-compute-prob", "nnet3-chain-combine", "nnet3-chain-combine2",
                     "nnet3-chain-compute-post", "nnet3-chain-add-post-to-egs", "nnet3-chain-acc-lda-stats",
                     "nnet3-latgen-faster", "nnet3-latgen-faster-parallel", "nnet3-latgen-faster-batch",
                     "nnet3-latgen-faster-looped", "nnet3-latgen-faster-looped-parallel",
                     "nnet3-latgen-faster-lookahead", "nnet3-latgen-grammar", "online2-wav-nnet3-latgen-faster",
                     "online2-wav-nnet3-latgen-grammar",
                     "online2-tcp-nnet3-decode-faster",
                     "nnet3-align-compiled", "nnet3-transcribe"), _KERNELS),
    **{name: _LOOPS for group in ("Lattices", "Scoring") for name in GROUPS[group]},
    **{name: _GRAPHS for group in ("Graphs", "Parts of graphs", "FSTs (OpenFst's programs)", "Language models")
       for name in GROUPS[group] if name != "rnnlm-get-word-embedding"},
    "train-rnnlm": _KERNELS,
    **dict.fromkeys(("latgen-faster-mapped", "latgen-faster-mapped-parallel", "word-error-rate"), _LOOPS),
    **{name: "it works with a model of speakers or its statistics, which no few lines of text can be"
       for name in GROUPS["Speakers and i-vectors"] if name not in {name for name, *_ in COMMANDS}},
    **dict.fromkeys(("train-dnn", "train-rnn", "train-raw-dnn", "train-raw-rnn", "train-chain", "make-egs",
                     "make-chain-egs", "prepare-e2e", "train-discriminative", "make-denlats",
                     "nnet3-build-tree", "train-ivector-extractor", "extract-ivectors"), _CHILDREN),
    **dict.fromkeys(("nnet3-export", "nnet3-import"), "it loads onnx or torch, which takes half a second or more"),
    "nnet3-report": "it draws with matplotlib, which takes a second to load",
}

_CONFIG = """input-node name=input dim=4
component name=affine type=NaturalGradientAffineComponent input-dim=12 output-dim=10
component name=softmax type=LogSoftmaxComponent dim=10
component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=softmax component=softmax input=affine
output-node name=output input=softmax
"""
_XCONFIG = """input dim=4 name=input
relu-batchnorm-layer name=tdnn dim=8 input=Append(-1,0,1)
output-layer name=output dim=5
"""


def write_inputs(folder: Path) -> None:
    """Write the files that COMMANDS name; ``folder`` must be the current one."""
    rows = "\n".join("0 1 2 3" if t % 2 else f"{t} 4 {t * t % 7} {t % 5}" for t in range(20))
    ids = [1, 2, 3, 4] * 5
    for name, text in {
            "feats": f"a [ {rows} ]\n", "vecs": "a [ 1 2 3 ]\n", "ali": f"a {' '.join(map(str, ids))}\n",
            "pitch": "a [ 0.5 100\n 0.7 110 ]\n",
            "stats": "a [ 9 9 9 9 20\n 30 40 50 60 0 ]\n", "matrix": "[ 1 0 0 0\n 0 1 0 1 ]\n",
            "post": f"a {' '.join(f'[ {number} 1 ]' for number in ids)}\n",
            "voiced": f"a [ {'1 0 ' * 10}]\n",
            "phones": "".join(f"p{number} {number}\n" for number in range(6)),
            "counts": f"[ {'1 ' * 10}]\n", "config": _CONFIG, "xconfig": _XCONFIG, "ranges": "a 0 0 0 10 1\n",
            "text": "a one two\n", "lexicon": "one 1 2\ntwo 2 1\n", "segments": "s a 0.1 0.4\n",
            "frames": "a 1 1 1 1 1 1\n", "halves": f"a {'1 ' * 10}{'2 ' * 10}\n",
            "sets": "1\n2\n", "roots": "shared split 1\nshared split 2\n",
            "graphs": "a\n0 1 1 1\n1\n\n",
            "lengths": "a 1 10 ; 2 10\n", "sequences": "a 1 2 3\nb 3 2 1\n"}.items():
        (folder / name).write_text(text)
    _write_logs(folder / "exp" / "log")
    _write_sound(folder / "wav")
    for name, *words in (("acc-lda", MODEL, "ark:feats", "ark:post", "lda"), ("nnet3-init", "config", "raw"),
                         ("make-topology", "1:2", "", "topo"), ("chain-est-phone-lm", "ark:sequences", "phone_lm"),
                         ("nnet3-am-init", MODEL, "raw", "am"),
                         ("nnet3-get-egs", "--num-frames=8", "--left-context=1", "--right-context=1", "--num-pdfs=10",
                          "ark:feats", "ark:post", "ark:egs"),
                         ("chain-get-supervision", str(CHAIN / "tree"), str(CHAIN / "0.trans_mdl"), "ark:lengths",
                          "ark:supervision"),
                         ("phones-to-ali", MODEL, TREE, "ark:frames", "ark,t:alignment"),
                         ("gmm-init-mono", "topo", "4", "mono", "monotree"),
                         ("phones-to-ali", "mono", "monotree", "ark:halves", "ark,t:monophones"),
                         ("acc-tree-stats", "mono", "ark:feats", "ark:monophones", "treeacc"),
                         ("compile-questions", "topo", "sets", "questions"),
                         ("build-tree", "treeacc", "roots", "questions", "topo", "built")):
        if load(name).execute(words):
            raise RuntimeError(f"{name} {' '.join(words)} failed")


def _write_logs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(3):
        for kind in ("train", "valid"):
            (folder / f"compute_prob_{kind}.{number}.log").write_text(
                "LOG (nnet3-compute-prob[5.5]:PrintTotalStats():nnet-diagnostics.cc:165) Overall log-likelihood for "
                f"'output' is -{3 - number} per frame, over 100 frames.\n")


def _write_sound(path: Path) -> None:
    import wave

    with open(path, "wb") as stream:
        stream.write(b"a ")
        with wave.open(stream, "wb") as sound:
            sound.setparams((1, 2, 16000, 0, "NONE", ""))
            sound.writeframes(b"\1\2\3\4" * 4000)
