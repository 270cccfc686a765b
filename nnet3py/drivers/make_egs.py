"""Folders of frame-level examples; :class:`EgsMaker`, the base of making any kind of examples.

    with make_executor("run.pl") as executor:
        make_egs("data/train", "exp/tri_ali", "exp/tdnn/egs", EgsOptions(left_context=16, right_context=12), executor)

Steps that are complete are not repeated. Kaldi: steps/nnet3/get_egs.sh and get_egs_targets.sh.
"""
from __future__ import annotations

import dataclasses
import logging
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nnet3py.drivers.data_folder import (
    AliFolder,
    ArchivePlan,
    DataFolder,
    Features,
    Ivectors,
    Steps,
    choose_subsets,
    plan_archives,
    read_lengths,
    read_list,
    split,
    table_dim,
    write_list,
)
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.options import CommonEgsOptions, EgsOptions, check_plain
from nnet3py.drivers.staged import FolderLock, fingerprint
from nnet3py.errors import FormatError, UsageError
from nnet3py.io.streams import read_lines, write_text

logger = logging.getLogger(__name__)

_COPY, _SUBSETS, _TRAINING, _SHUFFLE = 1, 2, 3, 4      # the steps' numbers in Kaldi's scripts
_ALWAYS = 1000                                         # stage of steps that --stage never skips


class EgsMaker(ABC):
    """Base of making a folder of examples in steps, for one kind of examples in each subclass."""

    kind = "egs"
    programs = "nnet3-"       # prefix of the programs for these examples

    def __init__(self, data: str | Path, folder: str | Path, options: CommonEgsOptions, executor: Executor) -> None:
        options.check()
        check_plain("the folder", data)
        check_plain("the folder", folder)
        self.data, self.folder, self.options, self.executor = DataFolder(data), Path(folder), options, executor
        self.features = Features(self.data, (options.cmvn_opts or "").strip(), options.online_cmvn, self.folder)
        self.ivectors = Ivectors.read(options.online_ivector_dir) if options.online_ivector_dir else None

    # -- for subclasses --------------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self) -> dict[str, str]:
        """Return the checksums, by name, of the input files other than the data, such as alignments and model."""

    @abstractmethod
    def prepare_jobs(self) -> Iterator[tuple[str, Job]]:
        """Yield (name, job) for jobs that must end before examples are made."""

    @abstractmethod
    def write_part(self, name: str, utterances: Sequence[str]) -> None:
        """Write the list of labels for the utterances of the part ``name``."""

    @abstractmethod
    def get_egs(self, name: str) -> str:
        """Return the command that makes the examples of a part, without its last argument, the wspecifier."""

    # -- the steps -------------------------------------------------------------------------------------------------

    def make(self) -> EgsFolder:
        """Do the steps that are not complete; return the folder."""
        self.data.check(self.features.need)
        if self.options.online_cmvn:
            self.data.check_speaker_order()
        self.folder.mkdir(parents=True, exist_ok=True)
        with FolderLock(self.folder):
            steps = self._steps()
            if steps.is_done("complete"):
                if self._is_complete():
                    logger.info("The examples in %s are complete already", self.folder)
                    return EgsFolder(self.folder)
                steps.clear()
                steps = self._steps()
            self._make(steps)
        return EgsFolder(self.folder)

    def _make(self, steps: Steps) -> None:
        options = self.options
        steps.run(_ALWAYS, f"Computing lengths and statistics of {self.data.path}", self._data_jobs(), self.executor)
        subsets = choose_subsets(self.data.utterances, self.data.utt2uniq, options.num_utts_subset, options.srand,
                                 read_lines(options.valid_uttlist) if options.valid_uttlist else ())
        parts = split(subsets.training, self.data.utt2spk, options.nj, options.online_cmvn)
        plan = self._write_info()
        steps.run(_COPY, "Copying alignments or targets", self.prepare_jobs(), self.executor)

        def write_lists() -> None:
            write_list(self.folder / "valid_uttlist", subsets.valid)
            write_list(self.folder / "train_subset_uttlist", subsets.train_diagnostic)
            named = {"valid": subsets.valid, "train_subset": subsets.train_diagnostic,
                     **{str(number): part for number, part in enumerate(parts, 1)}}
            for name, utterances in named.items():
                self.features.write_part(name, utterances)
                self.write_part(name, utterances)

        steps.call(_ALWAYS, "lists", write_lists)
        steps.run(_SUBSETS, "Making examples of held-out utterances, and of some of training, for diagnostics",
                  self.diagnostic_jobs(), self.executor)
        steps.run(_SUBSETS, "Choosing diagnostic examples", self.choose_jobs(), self.executor)
        steps.run(_SUBSETS, "Merging examples for combining models", self._combine_jobs(), self.executor)
        steps.run(_TRAINING, f"Making training examples, by {len(parts)} jobs", self.training_jobs(len(parts), plan),
                  self.executor)
        steps.run(_SHUFFLE, f"Shuffling the examples of {plan.num_intermediate} archives",
                  self.shuffle_jobs(len(parts), plan), self.executor)
        steps.call(_ALWAYS, "complete", self._clean_up)
        logger.info("Made %d archives of examples in %s", plan.num_archives, self.folder)

    def job(self, name: str, command: str, log: str | None = None) -> tuple[str, Job]:
        """Return (name, job); the job's log is called ``log``, or else like the job."""
        return name, Job(command, self.folder / "log" / f"{log or name}.log")

    def diagnostic_jobs(self) -> Iterator[tuple[str, Job]]:
        """Yield jobs that make all examples of the held-out and the diagnostic utterances."""
        for name, target in (("valid", "valid_all"), ("train_subset", "train_subset_all")):
            yield self.job(f"create_{name}", f"{self.get_egs(name)} ark:{self.folder}/{target}.{self.kind}",
                           "create_valid_subset" if name == "valid" else "create_train_subset")

    def choose_jobs(self) -> Iterator[tuple[str, Job]]:
        """Yield the jobs that choose examples for diagnostics and combining models from :meth:`diagnostic_jobs`."""
        for name, source, target, number in self.chosen_counts():
            if number > 0:
                yield self.job(name, f"{self.programs}subset-egs --n={number} ark:{self.folder}/{source}.{self.kind} "
                                     f"{self._table(target)}")

    @abstractmethod
    def chosen_counts(self) -> list[tuple[str, str, str, int]]:
        """Return (name, source archive, target archive, number of examples) for each job of :meth:`choose_jobs`."""

    def training_jobs(self, num_parts: int, plan: ArchivePlan) -> Iterator[tuple[str, Job]]:
        """Yield the jobs that make training examples and write them at random to the intermediate archives."""
        for part in range(1, num_parts + 1):
            archives = " ".join(f"ark:{self._unshuffled(part, archive)}" for archive in plan.intermediates)
            spread = f"{self.programs}copy-egs --random=true --srand={part + self.options.srand} ark:- {archives}"
            yield self.job(f"get_egs.{part}", f"{self.get_egs(str(part))} ark:- | {spread}")

    def shuffle_jobs(self, num_parts: int, plan: ArchivePlan) -> Iterator[tuple[str, Job]]:
        """Yield the jobs that shuffle each intermediate archive and split it into final archives."""
        for archive in plan.intermediates:
            sources = " ".join(self._unshuffled(part, archive) for part in range(1, num_parts + 1))
            targets = [self._table(f"{self.kind}.{number}", "ark") for number in plan.finals(archive)]
            shuffle = self.shuffled(f'"ark:cat {sources} |"', archive)
            command = (f"{shuffle} {targets[0]}" if plan.multiple == 1 else
                       f"{shuffle} ark:- | {self.programs}copy-egs ark:- {' '.join(targets)}")
            yield self.job(f"shuffle.{archive}", command)

    def shuffled(self, source: str, archive: int) -> str:
        """Return the command that shuffles the examples of ``source``, without its last argument, the wspecifier."""
        return f"{self.programs}shuffle-egs --srand={archive + self.options.srand} {source}"

    # -- steps, lengths, files -------------------------------------------------------------------------------------

    def _steps(self) -> Steps:
        settings = {name: value for name, value in dataclasses.asdict(self.options).items() if name != "stage"}
        lists = {name: fingerprint(self.data.path / name) for name in ("feats.scp", "utt2spk", "utt2uniq", "cmvn.scp")}
        return Steps(self.folder, {"options": settings, "data": lists, "inputs": self.inputs(), "kind": self.kind},
                     self.options.stage)

    def _is_complete(self) -> bool:
        try:
            folder = EgsFolder(self.folder)
            folder.check_archives()
        except FormatError as error:
            logger.info("%s; making the examples again", error.message)
            return False
        return True

    def _data_jobs(self) -> Iterator[tuple[str, Job]]:
        if self.options.online_cmvn:
            yield self.job("global_cmvn_stats", self.features.global_stats_command)
        if not self.data.has("utt2num_frames"):
            yield self.job("utt2num_frames", f"feat-to-len --print-args=false scp:{self.data.path}/feats.scp "
                                             f"ark,t:{self.folder}/utt2num_frames")

    def _lengths(self) -> dict[str, int]:
        return self.data.utt2num_frames or read_lengths(self.folder / "utt2num_frames")

    def _num_frames(self) -> int:
        lengths = self._lengths()
        return sum(lengths.get(utterance, 0) for utterance in self.data.utterances)

    def eg_length(self) -> int:
        """Return the usual length of an example in frames: the first of ``frames_per_eg``, or an utterance's mean."""
        principal = int(self.options.frames_per_eg.split(",")[0])
        return principal if principal > 0 else max(1, self._num_frames() // len(self.data.utterances))

    def _write_info(self) -> ArchivePlan:
        options, num_frames = self.options, self._num_frames()
        plan = plan_archives(self.wanted_archives(num_frames), options.max_open_files or None)
        info: dict[str, object] = {
            "feat_dim": self.data.feat_dim, "ivector_dim": self.ivectors.dim if self.ivectors else 0,
            "num_frames": num_frames, "num_archives": plan.num_archives, "frames_per_eg": options.frames_per_eg,
            "egs_per_archive": num_frames // (self.eg_length() * plan.num_archives),
            "left_context": options.left_context, "right_context": options.right_context,
            "left_context_initial": options.left_context_initial, "right_context_final": options.right_context_final,
            **self.more_info()}
        if options.frame_subsampling_factor != 1:
            info["frame_subsampling_factor"] = options.frame_subsampling_factor
        if self.ivectors and self.ivectors.extractor_id:
            info["final.ie.id"] = self.ivectors.extractor_id
        (self.folder / "info").mkdir(exist_ok=True)
        for name, value in info.items():
            write_text(str(self.folder / "info" / name), f"{value}\n")
        write_text(str(self.folder / "cmvn_opts"), f"{self.features.cmvn_opts}\n")
        if options.online_cmvn:
            (self.folder / "online_cmvn").touch()
        logger.info("Examples of %d frames go into %d archives, about %d into each", num_frames, plan.num_archives,
                    info["egs_per_archive"])
        return plan

    @abstractmethod
    def wanted_archives(self, num_frames: int) -> int:
        """Return the number of training archives for data of ``num_frames`` frames."""

    def more_info(self) -> dict[str, object]:
        """Return contents of files of ``info/``, by name, for this kind of examples."""
        return {}

    def write_labels(self, name: str, utterances: Sequence[str], labels: Mapping[str, str], file: str, noun: str,
                     source: Path) -> None:
        """Write those of ``labels`` whose keys are utterances of the part ``name`` to its list ``file``.

        Raises FormatError if there are none; ``noun`` (such as "a lattice") and ``source``, the path of the labels, are
        for its message.
        """
        chosen = {utterance: labels[utterance] for utterance in utterances if utterance in labels}
        if not chosen:
            raise FormatError(f"none of the {len(utterances)} utterances such as {utterances[0]} has {noun}",
                              path=str(source), hint="do the labels belong to these data?")
        write_list(self.folder / "split" / name / file, chosen)

    def context_options(self) -> list[str]:
        """Return the options of programs that make examples: contexts, length, compression, i-vectors."""
        options = self.options
        words = [f"--left-context={options.left_context}", f"--right-context={options.right_context}",
                 f"--compress={str(options.compress).lower()}", f"--num-frames={options.frames_per_eg}"]
        if options.left_context_initial >= 0:
            words.append(f"--left-context-initial={options.left_context_initial}")
        if options.right_context_final >= 0:
            words.append(f"--right-context-final={options.right_context_final}")
        if options.frame_subsampling_factor != 1:
            words.append(f"--frame-subsampling-factor={options.frame_subsampling_factor}")
        return words + (self.ivectors.options if self.ivectors else [])

    def _combine_jobs(self) -> Iterator[tuple[str, Job]]:
        sources = " ".join(f"{self.folder}/{target}.{self.kind}" for _, _, target, number in self.chosen_counts()
                           if target.endswith("combine") and number > 0)
        yield self.job("combine", f'{self.programs}copy-egs "ark:cat {sources} |" {self._table("combine")}')

    def _table(self, name: str, ending: str | None = None) -> str:
        """Return the wspecifier of an archive, with a list (scp) beside it if ``generate_egs_scp``."""
        file = f"{self.folder}/{name}.{ending or self.kind}"
        return f"ark,scp:{file},{self.folder}/{name}.scp" if self.options.generate_egs_scp else f"ark:{file}"

    def _unshuffled(self, part: int, archive: int) -> str:
        return f"{self.folder}/{self.kind}_orig.{part}.{archive}.ark"

    def _clean_up(self) -> None:
        """Remove intermediate files, and temporary files of programs that were killed."""
        for pattern in (f"{self.kind}_orig.*.ark", f"*_all.{self.kind}", f"*_combine.{self.kind}", "*_combine.scp",
                        "ali.ark", "ali.scp", "lat.*.ark", "lat.*.scp", ".*.tmp"):
            for file in self.folder.glob(pattern):
                file.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "split", ignore_errors=True)


def make_egs(data: str | Path, ali: str | Path, folder: str | Path, options: EgsOptions,
             executor: Executor) -> EgsFolder:
    """Make examples of a data directory and its alignments. Kaldi: get_egs.sh.

    Raises UsageError, FormatError for bad lists or folders, JobsFailed.
    """
    return _AlignedEgs(data, folder, options, executor, AliFolder(ali)).make()


def make_target_egs(data: str | Path, targets_scp: str | Path, folder: str | Path, options: EgsOptions,
                    executor: Executor, target_type: str = "dense", num_targets: int | None = None) -> EgsFolder:
    """Make examples of a data directory and a list of targets. Kaldi: get_egs_targets.sh.

    ``target_type`` "dense": matrices with a row for each frame; "sparse": vectors of integers below ``num_targets``,
    which must be given, for each frame. Raises as :func:`make_egs`.
    """
    if target_type not in ("dense", "sparse"):
        raise UsageError(f"--target-type={target_type}: expected dense or sparse")
    if target_type == "sparse" and not num_targets:
        raise UsageError("sparse targets need --num-targets, the number of classes")
    return _TargetEgs(data, folder, options, executor, Path(targets_scp), target_type == "dense", num_targets).make()


class _FrameLevelEgs(EgsMaker):
    """Base of making frame-level examples."""

    options: EgsOptions

    def chosen_counts(self) -> list[tuple[str, str, str, int]]:
        options, length = self.options, self.eg_length()
        diagnostic = max(1, options.num_frames_diagnostic // length)
        return [
            ("create_valid_subset_combine", "valid_all", "valid_combine", options.num_valid_frames_combine // length),
            ("create_valid_subset_diagnostic", "valid_all", "valid_diagnostic", diagnostic),
            ("create_train_subset_combine", "train_subset_all", "train_combine",
             max(1, options.num_train_frames_combine // length)),
            ("create_train_subset_diagnostic", "train_subset_all", "train_diagnostic", diagnostic)]

    def wanted_archives(self, num_frames: int) -> int:
        return num_frames // (self.eg_length() * self.options.samples_per_iter) + 1


class AlignmentLists(EgsMaker):
    """Base of making examples from alignments, which writes a list of alignments for each part."""

    def __init__(self, data: str | Path, folder: str | Path, options: CommonEgsOptions, executor: Executor,
                 ali: AliFolder) -> None:
        super().__init__(data, folder, options, executor)
        check_plain("the folder", ali.path)
        self.ali = ali

    def inputs(self) -> dict[str, str]:
        names = ["tree", "final.mdl", *(self.ali.archive(number).name for number in range(1, self.ali.num_jobs + 1))]
        return {name: fingerprint(self.ali.path / name) for name in names}

    def prepare_jobs(self) -> Iterator[tuple[str, Job]]:
        yield self.job("copy_alignments", f'copy-int-vector "{self.ali.all_rspecifier}" '
                                          f"ark,scp:{self.folder}/ali.ark,{self.folder}/ali.scp")

    def write_part(self, name: str, utterances: Sequence[str]) -> None:
        self.write_labels(name, utterances, read_unsorted_list(self.folder / "ali.scp"), "ali.scp",
                          "an alignment", self.ali.path)


class _AlignedEgs(_FrameLevelEgs, AlignmentLists):
    """Making of examples whose labels are the pdfs of alignments."""

    def get_egs(self, name: str) -> str:
        labels = (f"ali-to-pdf {self.ali.model} scp:{self.folder}/split/{name}/ali.scp ark:- | "
                  "ali-to-post ark:- ark:- |")
        words = [f"{self.programs}get-egs", f"--num-pdfs={self.ali.num_pdfs}", *self.context_options()]
        return f'{" ".join(words)} "{self.features.rspecifier(name)}" "ark,s,cs:{labels}"'


class _TargetEgs(_FrameLevelEgs):
    """Making of examples whose labels are rows of matrices, or integers."""

    def __init__(self, data: str | Path, folder: str | Path, options: EgsOptions, executor: Executor, targets: Path,
                 dense: bool, num_targets: int | None) -> None:
        super().__init__(data, folder, options, executor)
        check_plain("the list", targets)
        self.targets, self.dense = targets, dense
        dim = table_dim(f"scp:{targets}") if dense else num_targets
        assert dim is not None
        if num_targets and dim != num_targets:
            raise UsageError(f"the targets in {targets} have {dim} columns, expected {num_targets}")
        self.num_targets = dim

    def inputs(self) -> dict[str, str]:
        return {"targets": fingerprint(self.targets), "dense": str(self.dense), "num_targets": str(self.num_targets)}

    def prepare_jobs(self) -> Iterator[tuple[str, Job]]:
        return iter(())

    def write_part(self, name: str, utterances: Sequence[str]) -> None:
        self.write_labels(name, utterances, read_list(self.targets), "targets.scp", "targets", self.targets)

    def get_egs(self, name: str) -> str:
        targets = f"scp:{self.folder}/split/{name}/targets.scp"
        words = [*self.context_options(), f"--targets-length-tolerance={self.options.length_tolerance}"]
        if self.dense:
            words = [f"{self.programs}get-egs-dense-targets", f"--num-targets={self.num_targets}", *words]
            labels = targets.replace("scp:", "scp,s,cs:", 1)
        else:
            words = [f"{self.programs}get-egs", f"--num-pdfs={self.num_targets}", *words]
            labels = f"ark,s,cs:ali-to-post {targets} ark:- |"
        return f'{" ".join(words)} "{self.features.rspecifier(name)}" "{labels}"'

    def more_info(self) -> dict[str, object]:
        return {"num_targets": self.num_targets}


def read_unsorted_list(path: Path) -> dict[str, str]:
    """Read a list (scp) that need not be sorted; return the rest of each line by its key."""
    lines = (line.split(None, 1) for line in path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"))
    return {fields[0]: fields[1] for fields in lines if len(fields) == 2}
