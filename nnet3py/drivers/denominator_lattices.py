"""The driver that makes denominator lattices: training data decoded with a weak language model.

    make_denlats(LatticesOptions(feat_dir="data/train", lang="data/lang", src_dir="exp/tdnn", dir="exp/denlats"))

Kaldi: steps/nnet3/make_denlats.sh. In the end the folder has lat.N.gz and num_jobs.
"""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.cached_property import cached_property
from nnet3py.decoding.symbols import read_text
from nnet3py.drivers.discriminative_options import LatticesOptions
from nnet3py.drivers.egs.data_folder import DataFolder
from nnet3py.drivers.egs.parts import Features, Ivectors, split
from nnet3py.drivers.jobs.executor import Executor
from nnet3py.drivers.staged import StagedWork, Step
from nnet3py.errors import FormatError
from nnet3py.io.streams import write_text

LISTS, LATTICES = -4, -2                              # stages
LANG = ("L.fst", "L_disambig.fst", "words.txt", "phones.txt", "phones/disambig.int", "phones/silence.csl")


class LatticeMaking(StagedWork):
    """make-denlats."""

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
        """The model to decode with."""
        return read_model(self.source / "final.mdl")

    def line(self, name: str) -> str:
        """What a small file of the model's folder says; "" if there is none."""
        path = self.source / name
        return read_text(path).strip() if path.is_file() else ""

    @property
    def is_chain(self) -> bool:
        """Whether the model is a chain model: it has no priors, and its scales are 1."""
        return self.factor > 1 or not len(self.model.priors)

    @property
    def acoustic_scale(self) -> float:
        """The factor of acoustic scores."""
        given = self.options.acoustic_scale
        return given if given is not None else 1.0 if self.is_chain else 0.1

    @property
    def self_loop_scale(self) -> float:
        """The factor of the costs of self-loops."""
        given = self.options.self_loop_scale
        return given if given is not None else 1.0 if self.is_chain else 0.1

    def named_parts(self) -> list[tuple[str, list[str]]]:
        """What is decoded: a part for each job."""
        return [(str(number), part) for number, part in enumerate(self.parts, 1)]

    def computing(self) -> str:
        """Options of programs that compute the network."""
        words = [f"--use-gpu={self.options.use_gpu}", f"--acoustic-scale={self.acoustic_scale:g}"]
        if self.factor > 1:
            words.append(f"--frame-subsampling-factor={self.factor}")
        return " ".join([*words, *(self.ivectors.options if self.ivectors else [])])

    def steps(self) -> list[Step]:
        return [Step(LISTS, "lists", "Looking at the data", action=self.write_lists), *self.lattice_steps(),
                Step(LATTICES, "count", "Counting them",
                     action=lambda: write_text(str(self.product), f"{len(self.parts)}\n"))]

    def write_lists(self) -> None:
        """Write what the jobs read."""
        for name, utterances in self.named_parts():
            self.features.write_part(name, utterances)

    def lattice_steps(self) -> Iterator[Step]:
        """A graph, if none is given, and the lattices."""
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
