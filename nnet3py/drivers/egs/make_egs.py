"""Folders of frame-level examples, made of features with alignments, or with dense or sparse targets.

    with make_executor("run.pl") as executor:
        make_egs("data/train", "exp/tri_ali", "exp/tdnn/egs", EgsOptions(left_context=16, right_context=12), executor)

Kaldi: steps/nnet3/get_egs.sh and get_egs_targets.sh. What was made already, wholly or in part, is not made again.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nnet3py.drivers.egs.ali_folder import AliFolder
from nnet3py.drivers.egs.data_folder import read_list, select, table_dim, write_list
from nnet3py.drivers.egs.egs_folder import EgsFolder
from nnet3py.drivers.egs.maker import EgsMaker, fingerprint
from nnet3py.drivers.egs.options import CommonEgsOptions, EgsOptions
from nnet3py.drivers.egs.steps import check_plain
from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.errors import FormatError, UsageError

__all__ = ["AlignmentLists", "EgsOptions", "make_egs", "make_target_egs", "read_unsorted_list"]


def make_egs(data: str | Path, ali: str | Path, folder: str | Path, options: EgsOptions,
             executor: Executor) -> EgsFolder:
    """Make examples of a data directory and its alignments. Kaldi: get_egs.sh.

    Raises UsageError, FormatError for bad lists or folders, JobsFailed.
    """
    return _AlignedEgs(data, folder, options, executor, AliFolder(ali)).make()


def make_target_egs(data: str | Path, targets_scp: str | Path, folder: str | Path, options: EgsOptions,
                    executor: Executor, target_type: str = "dense", num_targets: int | None = None) -> EgsFolder:
    """Make examples of a data directory and a list of targets. Kaldi: get_egs_targets.sh.

    ``target_type`` "dense": matrices with a row per frame; "sparse": a number per frame, of ``num_targets``, which must
    be given then. Raises as :func:`make_egs`.
    """
    if target_type not in ("dense", "sparse"):
        raise UsageError(f"--target-type={target_type}: expected dense or sparse")
    if target_type == "sparse" and not num_targets:
        raise UsageError("sparse targets need --num-targets, of how many they are one")
    return _TargetEgs(data, folder, options, executor, Path(targets_scp), target_type == "dense", num_targets).make()


class _FrameLevelEgs(EgsMaker):
    """What both kinds of frame-level examples have in common."""

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
    """What all examples that are made of alignments have in common."""

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
        alignments = read_unsorted_list(self.folder / "ali.scp")
        have = [utterance for utterance in utterances if utterance in alignments]
        if not have:
            raise FormatError(f"none of the {len(utterances)} utterances such as {utterances[0]} has an alignment",
                              path=str(self.ali.path), hint="do the data and the alignments belong together?")
        write_list(self.folder / "split" / name / "ali.scp", {key: alignments[key] for key in have})


class _AlignedEgs(_FrameLevelEgs, AlignmentLists):
    """Labels are pdfs of alignments."""

    def get_egs(self, name: str) -> str:
        labels = (f"ali-to-pdf {self.ali.model} scp:{self.folder}/split/{name}/ali.scp ark:- | "
                  "ali-to-post ark:- ark:- |")
        words = [f"{self.programs}get-egs", f"--num-pdfs={self.ali.num_pdfs}", *self.context_options()]
        return f'{" ".join(words)} "{self.features.rspecifier(name)}" "ark,s,cs:{labels}"'


class _TargetEgs(_FrameLevelEgs):
    """Labels are rows of matrices, or numbers."""

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
        targets = select(read_list(self.targets), utterances)
        if not targets:
            raise FormatError(f"none of the {len(utterances)} utterances such as {utterances[0]} has targets",
                              path=str(self.targets), hint="do the data and the targets belong together?")
        write_list(self.folder / "split" / name / "targets.scp", targets)

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
    """A list that a program wrote, in the order of its alignments."""
    lines = (line.split(None, 1) for line in path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"))
    return {fields[0]: fields[1] for fields in lines if len(fields) == 2}
