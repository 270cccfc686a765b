"""The options of make-denlats and train-discriminative; defaults are those of Kaldi's scripts."""
from __future__ import annotations

from dataclasses import dataclass

from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.drivers.preparation_options import WorkOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import like, opt
from nnet3py.training.options import TrainerOptions

_CRITERIA = ("mmi", "mpfe", "smbr")


@dataclass(init=False, repr=False, eq=False)
class LatticesOptions(WorkOptions):
    """Options of make-denlats, which train-discriminative has as well."""

    feat_dir: str = opt("feat-dir", "", "Folder of data with text, feats.scp and utt2spk", harmless=True)
    src_dir: str = opt("src-dir", "", "Folder of the model to begin with: final.mdl, tree, cmvn_opts, phones.txt; of a "
                       "chain model also frame_subsampling_factor", harmless=True)
    lang: str = opt("lang", "", "Folder with L.fst, L_disambig.fst, words.txt, phones.txt, phones/, oov.txt",
                    harmless=True)
    online_ivector_dir: str | None = opt("feat.online-ivector-dir", None, "Folder with ivector_online.scp",
                                         harmless=True)
    nj: int = opt("nj", 2, "Parts of the data, with a job each", least=1)
    acoustic_scale: float | None = opt("acoustic-scale", None, "Factor of the acoustic scores in alignment, lattices "
                                       "and training; blank: 0.1, or 1.0 for a chain model")
    self_loop_scale: float | None = opt("self-loop-scale", None, "Factor of the costs of self-loops; blank: 0.1, or "
                                        "1.0 for a chain model")
    graph_dir: str | None = opt("denlats.graph-dir", None, "Folder with the graph of the lattices, HCLG.fst; blank: "
                                "one of a unigram model of the transcripts is made", harmless=True)
    beam: float = opt("denlats.beam", 13.0, "Beam of decoding", least=0)
    lattice_beam: float = opt("denlats.lattice-beam", 7.0, "Beam of the lattices", least=0)
    max_active: int = opt("denlats.max-active", 5000, "Most states of a frame of decoding", least=1)
    min_active: int = opt("denlats.min-active", 200, "Fewest states of a frame of decoding", least=0)
    use_gpu: str = opt("use-gpu", "no", "Whether decoding, alignment and training use a GPU: yes, no, wait, optional")

    folders = (*WorkOptions.folders, "src_dir", "lang")
    more_folders = ("online_ivector_dir", "graph_dir")

    def check(self) -> None:
        super().check()
        for name, value in (("acoustic-scale", self.acoustic_scale), ("self-loop-scale", self.self_loop_scale)):
            if value is not None and value < 0.0:
                raise UsageError(f"--{name}={value:g}: expected 0 or more")


@dataclass(init=False, repr=False, eq=False)
class DiscriminativeTrainingOptions(LatticesOptions):
    """Options of train-discriminative."""

    frames_per_eg: str = opt("egs.frames-per-eg", "150", "Input frames of an example: a list, the usual one first")
    frames_overlap_per_eg: int = opt("egs.frames-overlap-per-eg", 30, "Frames by which neighboring examples overlap",
                                     least=0)
    frames_per_iter: int = opt("egs.frames-per-iter", 400000, "Input frames that a job sees in an iteration, about",
                               least=1)
    num_utts_subset: int = opt("egs.num-utts-subset", 80, "Utterances held out, and as many of the training data, for "
                               "objectives; at most a tenth of all", least=1)
    criterion: str = like(DiscriminativeOptions, "criterion", "trainer.criterion")
    boost: float = like(DiscriminativeOptions, "boost", "trainer.boost", least=0)
    drop_frames: bool = like(DiscriminativeOptions, "drop_frames", "trainer.drop-frames")
    one_silence_class: bool = like(DiscriminativeOptions, "one_silence_class", "trainer.one-silence-class",
                                   default=True)
    l2_regularize: float = like(DiscriminativeOptions, "l2_regularize", "trainer.l2-regularize", least=0)
    xent_regularize: float = like(DiscriminativeOptions, "xent_regularize", "trainer.xent-regularize", least=0)
    learning_rate: float = opt("trainer.learning-rate", 0.00002, "Learning rate of all components, for all of the "
                               "training; chain models take 0.000005 or less", least=0)
    num_epochs: int = opt("trainer.num-epochs", 4, "Passes over the examples; with frame shifts each is as many as the "
                          "model's frame subsampling factor", least=1)
    num_jobs: int = opt("trainer.num-jobs", 4, "Training jobs of an iteration, whose networks are averaged; at most as "
                        "many as there are archives", least=1)
    minibatch_size: str = opt("trainer.minibatch-size", "64", "Examples of a minibatch")
    max_param_change: float = like(TrainerOptions, "max_param_change", "trainer.max-param-change", least=0)
    momentum: float = like(TrainerOptions, "momentum", "trainer.momentum", least=0)
    apply_deriv_weights: bool = opt("trainer.apply-deriv-weights", True, "Frames that several examples have count once")
    use_frame_shift: bool = opt("trainer.use-frame-shift", False, "Shift the input of chain models by some frames, "
                                "others in each pass")
    srand: int = opt("srand", 0, "Seed of the order of examples")


    def check(self) -> None:
        super().check()
        if self.criterion not in _CRITERIA:
            raise UsageError(f"--trainer.criterion={self.criterion}: expected {', '.join(_CRITERIA)}")
