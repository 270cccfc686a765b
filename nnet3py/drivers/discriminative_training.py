"""Drivers of sequence-discriminative training: denominator lattices, then examples, iterations and priors.

    train_discriminative(DiscriminativeTrainingOptions(feat_dir="data/train", lang="data/lang", src_dir="exp/tdnn",
                                                       dir="exp/tdnn_smbr"))
    make_denlats(LatticesOptions(feat_dir="data/train", lang="data/lang", src_dir="exp/tdnn", dir="exp/denlats"))

:class:`LatticeMaking` decodes the training data with a weak language model (Kaldi: steps/nnet3/make_denlats.sh);
:class:`DiscriminativeTraining` adds alignments, examples and training in one folder (Kaldi: steps/nnet3/align.sh,
get_egs_discriminative.sh, train_discriminative.sh). Models after each epoch are epochN.mdl, and epochN_adj.mdl with
adjusted priors, except for chain models, which have none; final.mdl is the last of these.
"""
from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.cached_property import cached_property
from nnet3py.decoding.symbols import read_text
from nnet3py.drivers.data_folder import (
    DataFolder,
    Features,
    Ivectors,
    choose_subsets,
    select,
    split,
    write_int_text,
)
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.staged import StagedWork, Step, copy_file
from nnet3py.drivers.staged_options import DiscriminativeTrainingOptions, LatticesOptions
from nnet3py.errors import FormatError, UsageError
from nnet3py.formats.holders import GENERAL_MATRIX
from nnet3py.io.streams import write_text
from nnet3py.io.tables import SequentialReader

LISTS, LATTICES = -4, -2                              # stages
LANG = ("L.fst", "L_disambig.fst", "words.txt", "phones.txt", "phones/disambig.int", "phones/silence.csl")


class LatticeMaking(StagedWork):
    """Making of denominator lattices: the driver ``make-denlats``."""

    options: LatticesOptions

    def begin(self) -> None:
        options, self.lang, self.source = self.options, Path(self.options.lang), Path(self.options.src_dir)
        for folder, names, hint in ((self.lang, LANG, "such as prepare-lang and utils/prepare_lang.sh make"),
                                    (self.source, ("final.mdl", "tree"), "such as train-dnn and train-chain leave")):
            for name in names:
                if not (folder / name).is_file():
                    raise FormatError(f"expected a folder with {name}", path=str(folder), hint=hint)
        self.data = DataFolder(options.feat_dir)
        self.features = Features(self.data, self.line("cmvn_opts"), False, self.path)
        self.data.check(["text", *self.features.need])
        self.ivectors = Ivectors.read(options.online_ivector_dir) if options.online_ivector_dir else None
        if options.graph_dir and not (Path(options.graph_dir) / "HCLG.fst").is_file():
            raise FormatError("expected a folder with HCLG.fst", path=options.graph_dir)
        self.factor = int(self.line("frame_subsampling_factor") or 1)
        self.parts = split(self.data.utterances, self.data.utt2spk, options.nj, by_speaker=False)

    def inputs(self) -> Iterator[Path]:
        yield from (self.data.path / name for name in ("feats.scp", "utt2spk", "text"))
        yield from (self.lang / name for name in LANG)
        yield from (self.source / name for name in ("final.mdl", "tree", "cmvn_opts"))
        if self.options.graph_dir:
            yield Path(self.options.graph_dir) / "HCLG.fst"

    @property
    def product(self) -> Path:
        return self.path / "num_jobs"

    @cached_property
    def model(self) -> AcousticModel:
        """Acoustic model with which the data are decoded."""
        return read_model(self.source / "final.mdl")

    def line(self, name: str) -> str:
        """Return the contents of a file with one line in the model's folder; "" if there is no such file."""
        path = self.source / name
        return read_text(path).strip() if path.is_file() else ""

    @property
    def is_chain(self) -> bool:
        """True for a chain model, which has no priors, and for which acoustic and self-loop scale are 1."""
        return self.factor > 1 or not len(self.model.priors)

    @property
    def acoustic_scale(self) -> float:
        """Factor of the acoustic log-likelihoods."""
        given = self.options.acoustic_scale
        return given if given is not None else 1.0 if self.is_chain else 0.1

    @property
    def self_loop_scale(self) -> float:
        """Factor of the log-probabilities of self-loops."""
        given = self.options.self_loop_scale
        return given if given is not None else 1.0 if self.is_chain else 0.1

    def named_parts(self) -> list[tuple[str, list[str]]]:
        """Return (name, utterances) of each part of the data that a job decodes."""
        return [(str(number), part) for number, part in enumerate(self.parts, 1)]

    def computing(self) -> str:
        """Return the options of programs that compute the network's output."""
        words = [f"--use-gpu={self.options.use_gpu}", f"--acoustic-scale={self.acoustic_scale:g}"]
        if self.factor > 1:
            words.append(f"--frame-subsampling-factor={self.factor}")
        return " ".join([*words, *(self.ivectors.options if self.ivectors else [])])

    def steps(self) -> list[Step]:
        return [Step(LISTS, "lists", "Checking the data", action=self.write_lists), *self.lattice_steps(),
                Step(LATTICES, "count", "Counting the lattices",
                     action=lambda: write_text(str(self.product), f"{len(self.parts)}\n"))]

    def write_lists(self) -> None:
        """Write the lists of utterances and features of each part, which the jobs read."""
        for name, utterances in self.named_parts():
            self.features.write_part(name, utterances)

    def lattice_steps(self) -> Iterator[Step]:
        """Yield the steps that make a graph, if none is given, and the lattices."""
        options, lang, source = self.options, self.lang, self.source
        graph = Path(options.graph_dir) if options.graph_dir else self.path / "dengraph"
        if not options.graph_dir:
            yield Step(LATTICES, "graph", "Making a graph of a unigram model of the transcripts", [self.job(
                f"make-graph --order=1 --self-loop-scale={self.self_loop_scale:g} {lang} text:{self.data.path}/text "
                f"{source}/tree {source}/final.mdl {graph}", "make_graph")])
        decoding = (f"--determinize-lattice=false --word-determinize=false --phone-determinize=false "
                    f"--max-active={options.max_active} --min-active={options.min_active} --beam={options.beam:g} "
                    f"--lattice-beam={options.lattice_beam:g} --allow-partial=false {self.computing()}")
        yield Step(LATTICES, "decode", "Making denominator lattices", [self.job(
            f'nnet3-latgen-faster {decoding} {source}/final.mdl {graph}/HCLG.fst "{self.features.rspecifier(name)}" '
            f"ark:- | lattice-determinize-non-compact --acoustic-scale={self.acoustic_scale:g} --prune=true "
            f'--minimize=false --beam={options.lattice_beam:g} ark:- "ark:| gzip -c > {self.path}/lat.{name}.gz"',
            f"decode_den.{name}") for name, _ in self.named_parts()])


def make_denlats(options: LatticesOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Make denominator lattices; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    LatticeMaking(options, executor, terminal).run()


ALIGN, EGS = -3, -1                                   # stages; the iterations are 0 and up
_SUBSETS = ("valid", "train")
_PRIOR_EXAMPLES, _PRIOR_JOBS = 20000, 4               # largest number of examples for priors; jobs
_SHUFFLED = 1000                                      # examples in the buffer of shuffling


class DiscriminativeTraining(LatticeMaking):
    """Sequence-discriminative training: the driver ``train-discriminative``."""

    options: DiscriminativeTrainingOptions

    def begin(self) -> None:
        super().begin()
        options = self.options
        if options.use_frame_shift and self.factor == 1:
            raise UsageError("--trainer.use-frame-shift=true is for models with frame subsampling, such as chain "
                             f"models, but {self.source} has no frame_subsampling_factor above 1",
                             "leave out the option")
        self.context = self.model.contexts()
        subsets = choose_subsets(self.data.utterances, self.data.utt2uniq,
                                 max(1, min(options.num_utts_subset, len(self.data.utterances) // 10)), options.srand)
        self.subsets = dict(zip(_SUBSETS, (subsets.valid, subsets.train_diagnostic), strict=True))
        self.parts = split(subsets.training, self.data.utt2spk, options.nj, by_speaker=False)

    @property
    def product(self) -> Path:
        return self.path / "final.mdl"

    @cached_property
    def num_frames(self) -> int:
        """Input frames of the training data."""
        lengths = self.data.utt2num_frames
        if lengths is None:
            with SequentialReader(f"scp:{self.data.path}/feats.scp", GENERAL_MATRIX) as reader:
                lengths = {utterance: matrix.shape[0] for utterance, matrix in reader}
        return sum(lengths[utterance] for part in self.parts for utterance in part)

    @property
    def num_archives(self) -> int:
        """Number of archives of examples; in an iteration each job reads one."""
        return self.num_frames // self.options.frames_per_iter + 1

    # -- the steps -----------------------------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        return [Step(LISTS, "lists", "Checking the data", action=self.write_lists), self._align_step(),
                *self.lattice_steps(), *self._egs_steps(), *self._iterations(), self._last_step()]

    def write_lists(self) -> None:
        super().write_lists()
        transcripts = self.data.lines("text")
        for name, utterances in self.named_parts():
            write_int_text(self.path, name, self.lang, {
                utterance: text.split() for utterance, text in select(transcripts, utterances).items()})
        for name in ("cmvn_opts", "tree", "phones.txt", "frame_subsampling_factor", "splice_opts", "final.ie.id"):
            if (self.source / name).is_file():
                shutil.copyfile(self.source / name, self.path / name)
        write_text(str(self.path / "num_jobs"), f"{len(self.parts)}\n")

    def named_parts(self) -> list[tuple[str, list[str]]]:
        """Return (name, utterances) of each part that is aligned and decoded: those of jobs, and diagnostic subsets."""
        return [*super().named_parts(), *((name, list(utterances)) for name, utterances in self.subsets.items())]

    def _align_step(self) -> Step:
        lang, source, loops = self.lang, self.source, self.self_loop_scale
        words, jobs = [f"--self-loop-scale={loops:g}", "--transition-scale=1.0"], []
        for name, _ in self.named_parts():
            part = self.path / "split" / name
            jobs.append(self.job(
                f"compile-train-graphs --read-disambig-syms={lang}/phones/disambig.int {source}/tree "
                f"{source}/final.mdl {lang}/L.fst ark,t:{part}/text ark:- | "
                f"nnet3-align-compiled {' '.join(words)} --beam=10 --retry-beam=40 {self.computing()} "
                f'{source}/final.mdl ark:- "{self.features.rspecifier(name)}" '
                f'"ark:| gzip -c > {self.path}/ali.{name}.gz"', f"align.{name}"))
        return Step(ALIGN, "align", "Aligning the transcripts", jobs)

    def _egs_steps(self) -> Iterator[Step]:
        options, path = self.options, self.path
        left, right = (frames + self.factor // 2 for frames in self.context)
        cutting = [f"--left-context={left}", f"--right-context={right}", f"--num-frames={options.frames_per_eg}",
                   f"--num-frames-overlap={options.frames_overlap_per_eg}", f"--frame-subsampling-factor={self.factor}",
                   f"--acoustic-scale={self.acoustic_scale:g}", *(self.ivectors.options if self.ivectors else [])]

        def made(name: str) -> str:
            return (f"nnet3-discriminative-get-egs {' '.join(cutting)} {self.source}/final.mdl "
                    f'"{self.features.rspecifier(name)}" "ark:gunzip -c {path}/lat.{name}.gz |" '
                    f'"ark:gunzip -c {path}/ali.{name}.gz |"')

        archives = range(1, self.num_archives + 1)
        jobs = []
        for number in range(1, len(self.parts) + 1):
            targets = " ".join(f"ark:{path}/degs_orig.{number}.{archive}.ark" for archive in archives)
            jobs.append(self.job(f"{made(str(number))} ark:- | nnet3-discriminative-copy-egs --random=true "
                                 f"--srand={number + options.srand} ark:- {targets}", f"get_egs.{number}"))
        jobs += [self.job(f"{made(name)} ark:{path}/{name}_diagnostic.degs", f"get_egs.{name}") for name in _SUBSETS]
        yield Step(EGS, "egs", f"Making examples in {len(archives)} archives", jobs)
        pieces = {archive: [path / f"degs_orig.{number}.{archive}.ark" for number in range(1, len(self.parts) + 1)]
                  for archive in archives}
        yield Step(EGS, "shuffle", "Shuffling them", [self.job(
            f'nnet3-discriminative-shuffle-egs --srand={archive + options.srand} "ark:cat {" ".join(map(str, files))} '
            f'|" ark:{path}/degs.{archive}.ark', f"shuffle.{archive}") for archive, files in pieces.items()],
                   leaves=[file for files in pieces.values() for file in files])

    # -- iterations ----------------------------------------------------------------------------------------------------

    @property
    def _passes(self) -> int:
        """Passes over the archives in an epoch: one for each shift of the input frames."""
        return self.factor if self.options.use_frame_shift else 1

    @property
    def num_jobs(self) -> int:
        """Number of training jobs of an iteration."""
        return min(self.options.num_jobs, self.num_archives)

    def _ends_of_epochs(self) -> dict[int, int]:
        """Return the epoch (from 1) that ends with an iteration, by iteration."""
        per_epoch = self.num_archives * self._passes / self.num_jobs
        return {max(1, round(epoch * per_epoch)) - 1: epoch for epoch in range(1, self.options.num_epochs + 1)}

    def _iterations(self) -> Iterator[Step]:
        path, rate, ends = self.path, self.options.learning_rate, self._ends_of_epochs()
        yield Step(0, "start", "Setting the learning rate", [self.job(
            f"nnet3-am-copy --edits='set-learning-rate learning-rate={rate:g}' {self.source}/final.mdl {path}/0.mdl",
            "start")])
        num_iters = max(ends) + 1
        for iteration in range(num_iters):
            objectives = [self._objective_job(iteration, subset) for subset in _SUBSETS]
            yield Step(iteration, "train", f"Iteration {iteration + 1} of {num_iters}",
                       [*(self._train_job(iteration, job) for job in range(1, self.num_jobs + 1)), *objectives],
                       needs=[path / f"{iteration}.mdl"], result=lambda x=iteration: self._shown(x))  # type: ignore[misc]
            networks = " ".join(f"{path}/{iteration + 1}.{job}.raw" for job in range(1, self.num_jobs + 1))
            yield Step(iteration, "average", "Averaging its networks", [self.job(
                f"nnet3-average {networks} - | nnet3-am-copy --set-raw-nnet=- {path}/{iteration}.mdl "
                f"{path}/{iteration + 1}.mdl", f"average.{iteration}")],
                leaves=[path / f"{iteration + 1}.{job}.raw" for job in range(1, self.num_jobs + 1)])
            if iteration in ends:
                yield from self._epoch_steps(iteration, ends[iteration])

    def _train_job(self, iteration: int, job: int) -> Job:
        options, path = self.options, self.path
        place = iteration * self.num_jobs + job - 1
        archive, shift = place % self.num_archives + 1, (place % self.num_archives + place // self.num_archives)
        shift = shift % self._passes if options.use_frame_shift else 0
        left, right = self.context
        minibatches = (f"nnet3-discriminative-copy-egs --frame-shift={shift} ark:{path}/degs.{archive}.ark ark:- | "
                       f"nnet3-discriminative-shuffle-egs --buffer-size={_SHUFFLED} "
                       f"--srand={iteration + options.srand} ark:- ark:- | "
                       f"nnet3-discriminative-merge-egs --minibatch-size={options.minibatch_size} ark:- ark:- |")
        words = [f"--use-gpu={options.use_gpu}", *self._objective_options(),
                 f"--apply-deriv-weights={str(options.apply_deriv_weights).lower()}",
                 f"--optimization.min-deriv-time={-left}", f"--optimization.max-deriv-time-relative={right}",
                 f"--max-param-change={options.max_param_change:g}", f"--momentum={options.momentum:g}"]
        return self.job(f'nnet3-discriminative-train {" ".join(words)} {path}/{iteration}.mdl "ark,bg:{minibatches}" '
                        f"{path}/{iteration + 1}.{job}.raw", f"train.{iteration}.{job}")

    def _objective_options(self) -> list[str]:
        options = self.options
        silence = read_text(self.lang / "phones" / "silence.csl").strip()
        return [f"--criterion={options.criterion}", f"--acoustic-scale={self.acoustic_scale:g}",
                f"--boost={options.boost:g}", f"--drop-frames={str(options.drop_frames).lower()}",
                f"--one-silence-class={str(options.one_silence_class).lower()}", f"--silence-phones={silence}",
                f"--l2-regularize={options.l2_regularize:g}", f"--xent-regularize={options.xent_regularize:g}"]

    def _objective_job(self, which: int | str, subset: str) -> Job:
        """Return the job that computes a model's objective on held-out or on training examples."""
        return self.job(
            f"nnet3-discriminative-compute-objf --use-gpu={self.options.use_gpu} "
            f"{' '.join(self._objective_options())} {self.path}/{which}.mdl "
            f'"ark,bg:nnet3-discriminative-merge-egs --minibatch-size=1:64 ark:{self.path}/{subset}_diagnostic.degs '
            'ark:- |"', f"compute_objf_{subset}.{which}")

    def _shown(self, which: int | str) -> str:
        """Return a text with a model's objectives on held-out and on training examples; "" if they are not logged."""
        values = [self.log_value(f"compute_objf_{subset}.{which}", r"Overall \w+ objective for 'output' is (\S+)")
                  for subset in _SUBSETS]
        return "objective before it: {} held out, {} in training".format(*values) if all(values) else ""

    # -- the end of an epoch -------------------------------------------------------------------------------------------

    def _epoch_steps(self, iteration: int, epoch: int) -> Iterator[Step]:
        path, model = self.path, f"{iteration + 1}.mdl"
        yield Step(iteration, f"epoch{epoch}", f"Epoch {epoch} is complete",
                   action=lambda: copy_file(path / model, path / f"epoch{epoch}.mdl"))
        if self.is_chain:
            return
        count = min(_PRIOR_JOBS, self.num_archives)
        sums = [path / f"post.{epoch}.{job}.vec" for job in range(1, count + 1)]
        yield Step(iteration, f"posteriors{epoch}", "Estimating its priors", [self.job(
            f"nnet3-discriminative-subset-egs --srand={job} --n={_PRIOR_EXAMPLES // count} ark:{path}/degs.{job}.ark "
            "ark:- | nnet3-discriminative-merge-egs --minibatch-size=1:64 ark:- ark:- | "
            f"nnet3-discriminative-compute-from-egs --use-gpu={self.options.use_gpu} --apply-exp=true "
            f'"nnet3-am-copy --raw=true {path}/{model} - |" ark:- ark:- | matrix-sum-rows ark:- ark:- | '
            f"vector-sum ark:- {target}", f"posteriors.{epoch}.{job}") for job, target in enumerate(sums, 1)],
            needs=[path / model])
        yield Step(iteration, f"priors{epoch}", "Setting them", [self.job(
            f"vector-sum {' '.join(map(str, sums))} {path}/post.{epoch}.vec && "
            f"nnet3-am-adjust-priors {path}/{model} {path}/post.{epoch}.vec {path}/epoch{epoch}_adj.mdl",
            f"adjust_priors.{epoch}")], needs=sums, leaves=[*sums, path / f"post.{epoch}.vec"])

    def _last_step(self) -> Step:
        path, ends = self.path, self._ends_of_epochs()
        last = f"epoch{self.options.num_epochs}"
        models = [path / f"{number}.mdl" for number in range(max(ends) + 2)]
        archives = [path / f"degs.{number}.ark" for number in range(1, self.num_archives + 1)]
        return Step(max(ends) + 1, "final", "Computing the last objectives",
                    [self._objective_job(last, subset) for subset in _SUBSETS],
                    action=lambda: copy_file(path / f"{last}{'' if self.is_chain else '_adj'}.mdl", self.product),
                    needs=[path / f"{last}.mdl"], leaves=[*models, *archives],
                    result=lambda: self._shown(last).replace("before it", "in the end"))


def train_discriminative(options: DiscriminativeTrainingOptions, executor: Executor | None = None,
                         terminal: IO[str] | None = None) -> None:
    """Train on lattices; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    DiscriminativeTraining(options, executor, terminal).run()
