"""Folders of chain examples, made of features with alignments or lattices.

    with make_executor("run.pl") as executor:
        make_chain_egs("data/train", "exp/chain", "exp/tri_ali", "exp/chain/egs", ChainEgsOptions(), executor)

Kaldi: steps/nnet3/chain/get_egs.sh, which takes lattices only. Diagnostic examples are normalized when they are made,
training examples when they are shuffled.
"""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from nnet3py.cached_property import cached_property
from nnet3py.drivers.data_folder import AliFolder
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.make_egs import AlignmentLists, EgsMaker, read_unsorted_list
from nnet3py.drivers.options import ChainEgsOptions, check_plain
from nnet3py.drivers.staged import fingerprint
from nnet3py.errors import FormatError, UsageError
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object

_GRAPHS = ("tree", "0.trans_mdl", "normalization.fst")
MOST_CHANGED = 4          # frames by which nnet3-chain-e2e-get-egs shortens or lengthens an utterance


def make_chain_egs(data: str | Path, chain: str | Path, labels: str | Path, folder: str | Path,
                   options: ChainEgsOptions, executor: Executor) -> EgsFolder:
    """Make chain examples.

    Parameters
    ----------
    data : data directory
    chain : folder with tree, 0.trans_mdl and normalization.fst
    labels : folder of alignments (ali.*.gz), at the full frame rate or, with an alignment-subsampling-factor of 1, at
        the lower one; or of lattices (lat.*.gz); or, for examples of whole utterances, of their graphs (fst.*.scp)
    folder : folder to make

    Raises UsageError, FormatError for bad lists or folders, JobsFailed.
    """
    kind: type[_ChainFromGraphs | _ChainFromLattices | _ChainFromAlignments] = _ChainFromAlignments
    if options.frames_per_eg == "-1":
        kind = _ChainFromGraphs
    elif (Path(labels) / "lat.1.gz").exists():
        kind = _ChainFromLattices
    return kind(data, folder, options, executor, Path(chain), Path(labels)).make()


def _numbered_files(folder: Path, name: str, ending: str) -> list[Path]:
    numbers = (file.name.split(".")[1] for file in folder.glob(f"{name}.*.{ending}"))
    return [folder / f"{name}.{number}.{ending}" for number in sorted(int(text) for text in numbers if text.isdigit())]


class _ChainEgs(EgsMaker):
    """Base of making chain examples."""

    kind = "cegs"
    programs = "nnet3-chain-"
    options: ChainEgsOptions
    chain: Path

    def set_chain(self, chain: Path) -> None:
        """Set the folder with tree, transition model and graph; raise FormatError if a file is missing."""
        check_plain("the folder", chain)
        for name in _GRAPHS:
            if not (chain / name).is_file():
                raise FormatError(f"expected a folder with {', '.join(_GRAPHS)}, but it has no {name}", path=str(chain),
                                  hint="make them with chain-est-phone-lm and chain-make-den-fst")
        self.chain = chain

    @cached_property
    def num_pdfs(self) -> int:
        """Number of pdfs of the tree."""
        return read_object(self.chain / "tree", ContextDependency.read).num_pdfs

    def chain_inputs(self) -> dict[str, str]:
        """Return the checksum of each file of the chain folder, by name."""
        return {name: fingerprint(self.chain / name) for name in _GRAPHS}

    def shuffled(self, source: str, archive: int) -> str:
        words = ["nnet3-chain-normalize-egs", *self._scale(), f"{self.chain}/normalization.fst", source, "ark:-"]
        return f"{' '.join(words)} | {super().shuffled('ark:-', archive)}"

    def chosen_counts(self) -> list[tuple[str, str, str, int]]:
        options = self.options
        return [
            ("create_valid_subset_combine", "valid_all", "valid_combine", options.num_valid_egs_combine),
            ("create_valid_subset_diagnostic", "valid_all", "valid_diagnostic", options.num_egs_diagnostic),
            ("create_train_subset_combine", "train_subset_all", "train_combine", options.num_train_egs_combine),
            ("create_train_subset_diagnostic", "train_subset_all", "train_diagnostic", options.num_egs_diagnostic)]

    def wanted_archives(self, num_frames: int) -> int:
        return num_frames // self.options.frames_per_iter + 1

    def more_info(self) -> dict[str, object]:
        return {"num_pdfs": self.num_pdfs}

    def _scale(self) -> list[str]:
        scale = self.options.lattice_lm_scale
        return [f"--normalization-fst-scale={1.0 - scale:g}"] if scale else []


class _ChunkEgs(_ChainEgs):
    """Base of making examples of chunks of utterances, from phones with times (alignments or lattices)."""

    @abstractmethod
    def phones(self, name: str) -> str:
        """Return the command that writes a part's phones to standard output, with lengths or as phone lattices."""

    def supervision_options(self) -> list[str]:
        """Return the options of chain-get-supervision."""
        options = self.options
        words = [f"--frame-subsampling-factor={options.alignment_subsampling_factor}",
                 f"--left-tolerance={options.left_tolerance}", f"--right-tolerance={options.right_tolerance}"]
        return words if options.constrained else [*words, "--convert-to-pdfs=false"]

    def get_egs(self, name: str) -> str:
        options = self.options
        supervision = ["chain-get-supervision", *self.supervision_options(), f"{self.chain}/tree",
                       f"{self.chain}/0.trans_mdl", "ark:-", "ark:-"]
        srand = options.srand + (int(name) if name.isdigit() else 0)
        words = ["nnet3-chain-get-egs", f"--srand={srand}", *self.context_options()]
        if options.deriv_weights_scp:
            words.append(f"--deriv-weights-rspecifier=scp:{options.deriv_weights_scp}")
        if not options.constrained:
            words.append(f"--transition-model={self.chain}/0.trans_mdl")
        if not name.isdigit():      # diagnostic examples; training examples are normalized when they are shuffled
            words += [*self._scale(), f"{self.chain}/normalization.fst"]
        words += [f'"{self.features.rspecifier(name)}"', "ark,s,cs:-"]
        return f"{self.phones(name)} | {' '.join(supervision)} | {' '.join(words)}"


class _ChainFromAlignments(_ChunkEgs, AlignmentLists):
    """Making of examples from alignments."""

    def __init__(self, data: str | Path, folder: str | Path, options: ChainEgsOptions, executor: Executor, chain: Path,
                 labels: Path) -> None:
        AlignmentLists.__init__(self, data, folder, options, executor, AliFolder(labels))
        if options.lattice_lm_scale or options.lattice_prune_beam:
            raise UsageError(f"--lattice-lm-scale={options.lattice_lm_scale:g} and --lattice-prune-beam="
                             f"{options.lattice_prune_beam:g} are for lattices, but {labels} has none")
        self.set_chain(chain)

    def inputs(self) -> dict[str, str]:
        return {**super().inputs(), **self.chain_inputs()}

    def phones(self, name: str) -> str:
        return f"ali-to-phones --write-lengths=true {self.ali.model} scp:{self.folder}/split/{name}/ali.scp ark:-"


class _ChainFromLattices(_ChunkEgs):
    """Making of examples from lattices, which lattice-align-phones aligns with phones."""

    def __init__(self, data: str | Path, folder: str | Path, options: ChainEgsOptions, executor: Executor, chain: Path,
                 labels: Path) -> None:
        super().__init__(data, folder, options, executor)
        check_plain("the folder", labels)
        self.set_chain(chain)
        self.lattices = labels

    @cached_property
    def archives(self) -> list[Path]:
        """Archives of lattices, lat.1.gz and so on."""
        return _numbered_files(self.lattices, "lat", "gz")

    def inputs(self) -> dict[str, str]:
        names = [*self.archives, self.lattices / "final.mdl"]
        return {**{file.name: fingerprint(file) for file in names}, **self.chain_inputs()}

    def prepare_jobs(self) -> Iterator[tuple[str, Job]]:
        for number, archive in enumerate(self.archives, 1):
            base, options = f"{self.folder}/lat.{number}", self.options
            read = "lattice-copy" if not options.lattice_prune_beam else (
                f"lattice-prune --acoustic-scale={options.acwt:g} --beam={options.lattice_prune_beam:g}")
            yield self.job(f"lattice_copy.{number}", f'{read} "ark:gunzip -c {archive} |" '
                                                     f"ark,scp:{base}.ark,{base}.scp")

    def write_part(self, name: str, utterances: Sequence[str]) -> None:
        lattices: dict[str, str] = {}
        for number in range(1, len(self.archives) + 1):
            lattices |= read_unsorted_list(self.folder / f"lat.{number}.scp")
        self.write_labels(name, utterances, lattices, "lat.scp", "a lattice", self.lattices)

    def supervision_options(self) -> list[str]:
        scale = self.options.lattice_lm_scale
        return [*super().supervision_options(), "--lattice-input=true", *([f"--lm-scale={scale:g}"] if scale else [])]

    def phones(self, name: str) -> str:
        return (f"lattice-align-phones --replace-output-symbols=true {self.lattices}/final.mdl "
                f"scp:{self.folder}/split/{name}/lat.scp ark:-")


class _ChainFromGraphs(_ChainEgs):
    """Making of examples of whole utterances, from training graphs. Kaldi: e2e/get_egs_e2e.sh."""

    def __init__(self, data: str | Path, folder: str | Path, options: ChainEgsOptions, executor: Executor, chain: Path,
                 labels: Path) -> None:
        super().__init__(data, folder, options, executor)
        for name in ("lattice_lm_scale", "deriv_weights_scp"):
            if getattr(options, name) or not options.constrained:
                raise UsageError("examples of whole utterances have no lattices, no weights of frames and no times",
                                 "leave out --lattice-lm-scale, --deriv-weights-scp and --constrained")
        check_plain("the folder", labels)
        self.set_chain(chain)
        self.graphs = labels
        if not self.lists:
            raise FormatError("expected a folder with training graphs, but it has no fst.1.scp", path=str(labels),
                              hint="prepare-e2e makes it, and Kaldi's prepare_e2e.sh does")

    @cached_property
    def lists(self) -> list[Path]:
        """Lists of training graphs, fst.1.scp and so on."""
        return _numbered_files(self.graphs, "fst", "scp")

    def inputs(self) -> dict[str, str]:
        lengths = {"allowed_lengths.txt": fingerprint(self.data.path / "allowed_lengths.txt")}
        return {**{file.name: fingerprint(file) for file in self.lists}, **lengths, **self.chain_inputs()}

    def prepare_jobs(self) -> Iterator[tuple[str, Job]]:
        return iter(())

    def write_part(self, name: str, utterances: Sequence[str]) -> None:
        graphs: dict[str, str] = {}
        for file in self.lists:
            graphs |= read_unsorted_list(file)
        self.write_labels(name, utterances, graphs, "fst.scp", "a graph", self.graphs)

    @cached_property
    def allowed_lengths(self) -> list[int]:
        """Lengths of examples in frames, ascending, from ``allowed_lengths.txt`` of the data.

        Without that file, lengths such that each utterance's is close to one of them.
        """
        path, factor = self.data.path / "allowed_lengths.txt", self.options.frame_subsampling_factor
        if path.is_file():
            words = path.read_text(encoding="utf-8", errors="replace").split()
            if not words or not all(word.isascii() and word.isdigit() and 0 < int(word) < 10**9 for word in words):
                raise FormatError(f"expected numbers of frames, 1 or more, found '{' '.join(words)[:40]}'",
                                  path=str(path))
            return [int(word) for word in words]
        apart = max(1, (2 * MOST_CHANGED + 1) // factor) * factor
        numbers = (round(length / apart) * apart for length in self._lengths().values())
        return sorted({max(number, factor) for number in numbers})

    def context_options(self) -> list[str]:
        lengths = ",".join(map(str, self.allowed_lengths))
        return [f"--num-frames={lengths}" if word.startswith("--num-frames=") else word
                for word in super().context_options()]

    def get_egs(self, name: str) -> str:
        srand = self.options.srand + (int(name) if name.isdigit() else 0)
        words = ["nnet3-chain-e2e-get-egs", f"--srand={srand}", *self.context_options()]
        if not name.isdigit():
            words.append(f"{self.chain}/normalization.fst")
        features = self.features.rspecifier(name)
        return (f'{" ".join(words)} "{features}" scp:{self.folder}/split/{name}/fst.scp {self.chain}/0.trans_mdl')
