"""The driver of chain training (LF-MMI), ``train_chain``: for one language, or one network for several.

    train_chain(ChainOptions(dir="exp/tdnnf", feat_dir="data/train", tree_dir="exp/chain_tree", ali_dir="exp/ali"))
    train_chain(ChainOptions(dir="exp/multi", languages="languages.txt"))

The file of languages has a line for each, such as ``en feat-dir=data/en tree-dir=exp/en_tree ali-dir=exp/en_ali``. The
network has outputs output-LANGUAGE, and a tree for each. Kaldi: steps/nnet3/chain/train.py, e2e/train_e2e.py, and
steps/chain2/train.sh for several languages.
"""
from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

from nnet3py.cached_property import cached_property
from nnet3py.drivers.commands import CHAIN, RAW, ChainCommands, ModelFiles, Network
from nnet3py.drivers.data_folder import AliFolder, phone_lines
from nnet3py.drivers.diagnostics import write_report
from nnet3py.drivers.egs_folder import EgsFolder, Source, combine_egs
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.frame_level import FrameLevelTraining
from nnet3py.drivers.make_chain_egs import make_chain_egs
from nnet3py.drivers.options import ChainEgsOptions, ChainOptions, check_plain
from nnet3py.drivers.schedules import Plan
from nnet3py.drivers.staged import fingerprint
from nnet3py.drivers.training import Stage, link
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.io.streams import write_text
from nnet3py.network.nnet import Nnet
from nnet3py.report.training_logs import TrainLog

_WHOLE_UTTERANCES = "-1"
_NAME = re.compile(r"[A-Za-z0-9_.]+")           # of a language, in names of nodes and folders


class ChainTraining(FrameLevelTraining):
    """Training of a chain model: the driver ``train-chain``."""

    name, commands_class = "train-chain", ChainCommands
    models: ClassVar[ModelFiles] = CHAIN
    report = ("accuracy.report", "objective")
    phone_lm_stage: ClassVar[int] = -6
    den_fst_stage: ClassVar[int] = -5
    init_stage, egs_stage, lda_stage = -4, -3, -2
    output = "output"                           # output node for the tree
    options: ChainOptions

    # -- the data ------------------------------------------------------------------------------------------------------

    @property
    def tree_dir(self) -> Path:
        """Folder of the tree."""
        assert self.options.tree_dir
        return Path(self.options.tree_dir)

    @cached_property
    def num_pdfs(self) -> int:
        """Number of pdfs of the tree."""
        return read_object(self.tree_dir / "tree", ContextDependency.read).num_pdfs

    def begin(self) -> None:
        super().begin()
        for option, path in (("--tree-dir", self.options.tree_dir), ("--chain.phone-lm", self.options.phone_lm),
                             ("--chain.lwf-model", self.options.lwf_model)):
            if path:
                check_plain(option, path)
        self._check_tree_dir()
        self.check_network()
        for name in ("tree", "phones.txt", "num_jobs"):
            if (self.tree_dir / name).is_file():
                shutil.copyfile(self.tree_dir / name, self.folder.path / name)
        write_text(str(self.folder.path / "frame_subsampling_factor"), f"{self.options.frame_subsampling_factor}\n")

    def _check_tree_dir(self) -> None:
        for name in ("tree", "final.mdl"):
            if not (self.tree_dir / name).is_file():
                raise FormatError(f"expected a folder with a tree and a transition model, but it has no {name}",
                                  path=str(self.tree_dir), hint="--tree-dir needs tree, final.mdl, ali.*.gz, num_jobs")
        labels = self.options.ali_dir or self.options.lat_dir
        if labels and phone_lines(self.tree_dir) and phone_lines(Path(labels)) and (
                phone_lines(self.tree_dir) != phone_lines(Path(labels))):
            raise FormatError(f"the phones are others than those in {self.tree_dir}/phones.txt",
                              path=f"{labels}/phones.txt", hint="make the tree for these phones")

    def check_network(self) -> None:
        """Raise UsageError if the network does not fit the tree or the options.

        The network is --trainer.input-model or configs/ref.raw; nothing is checked before there is either.
        """
        if self.options.e2e and self.has_init_config:
            raise UsageError(f"{self.folder.configs} has init.config, of a network that begins with an LDA-like "
                             "transform, for which --e2e=true has no alignments", "leave out that layer")
        if self.teacher is not None and self.teacher.output_dim("output") != self.num_pdfs:
            raise UsageError(f"the network in {self.options.lwf_model} has {self.teacher.output_dim('output')} "
                             f"outputs, the tree in {self.tree_dir} {self.num_pdfs} pdfs",
                             "--chain.lwf-model must be a model of the same tree")
        self._check_outputs([self])

    def _check_outputs(self, trainings: Sequence[ChainTraining]) -> None:
        reference = self.options.input_model or str(self.folder.configs / "ref.raw")
        if not Path(reference).exists():
            return
        from nnet3py.network.model_file import read_nnet

        network = read_nnet(reference)
        for training in trainings:
            output, dim = training.output, network.output_dim(training.output)
            if dim != training.num_pdfs:
                raise UsageError(
                    f"the network in {reference} has no node '{output}'" if dim < 0 else
                    f"the network in {reference} has {dim} outputs at '{output}', the tree in {training.tree_dir} "
                    f"{training.num_pdfs} pdfs", "make a network for this tree")
            if self.options.xent_regularize and network.output_dim(f"{output}-xent") < 0:
                raise UsageError(f"--chain.xent-regularize={self.options.xent_regularize:g}, but {reference} "
                                 f"has no {output}-xent", f"add an output layer named {output}-xent, or say 0")

    @cached_property
    def teacher(self) -> Nnet | None:
        """Teacher network of learning without forgetting (--chain.lwf-model), whose posteriors are targets, or None."""
        if not self.options.lwf_model:
            return None
        from nnet3py.network.model_file import read_nnet

        return read_nnet(self.options.lwf_model)

    def needed_context(self) -> tuple[int, int]:
        needs, shift = [super().needed_context()], self.options.frame_subsampling_factor // 2
        if self.teacher is not None:
            from nnet3py.compiler.build_graph import compute_simple_nnet_context

            needs.append(compute_simple_nnet_context(self.teacher))
        left, right = (max(sides) + shift for sides in zip(*needs, strict=True))   # training shifts examples so far
        return left, right

    @property
    def chunk_width(self) -> str:
        """Input frames per example, in the form of ``EgsFolder.frames_per_eg``; ``-1`` for whole utterances."""
        if self.options.e2e:
            return _WHOLE_UTTERANCES
        if self.options.egs_dir and EgsFolder(self.egs_path).frames_per_eg == _WHOLE_UTTERANCES:
            return _WHOLE_UTTERANCES
        return self.options.chunk_width

    def open_egs(self) -> EgsFolder:
        for name in ("0.trans_mdl", "den.fst"):
            if not (self.folder.path / name).is_file():
                raise UsageError(f"{self.folder.path} has no {name}", f"--stage={self.phone_lm_stage} makes it")
        egs = super().open_egs()
        check_examples(egs, self.options.frame_subsampling_factor, self.num_pdfs)
        return egs

    # -- stages --------------------------------------------------------------------------------------------------------

    def stages_to_egs(self) -> list[Stage]:
        folder, stages = self.folder.path, []
        phone_lm = folder / "phone_lm.fst"
        given = self.given_phone_lm
        if given is None or Path(given).resolve() != phone_lm.resolve():
            stages.append(Stage(self.phone_lm_stage, "Creating phone language-model", self._make_phone_lm, (phone_lm,)))
        stages.append(Stage(self.den_fst_stage, "Creating denominator FST", self._make_den_fst, self.graph_files))
        return [*stages, *super().stages_to_egs()]

    @property
    def graph_files(self) -> tuple[Path, ...]:
        """Paths of the transition model and the graphs that are made for the tree."""
        return tuple(self.folder.path / name for name in ("0.trans_mdl", "den.fst", "normalization.fst"))

    @property
    def given_phone_lm(self) -> str | None:
        """Path of a phone language model to copy: --chain.phone-lm, or end to end the tree folder's; None: none."""
        return self.options.phone_lm or (str(self.tree_dir / "phone_lm.fst") if self.options.e2e else None)

    def _make_phone_lm(self) -> None:
        if self.given_phone_lm:
            if not Path(self.given_phone_lm).is_file():
                raise UsageError(f"there is no {self.given_phone_lm}", "prepare-e2e makes it, or chain-est-phone-lm "
                                 "for --chain.phone-lm")
            self.run_jobs({"make_phone_lm": f"cp {self.given_phone_lm} {self.folder.path}/.phone_lm && "
                                            f"mv {self.folder.path}/.phone_lm {self.folder.path}/phone_lm.fst"})
            return
        alignments = AliFolder(self.tree_dir)
        self.run_jobs({"make_phone_lm": ChainCommands.phone_lm(self.options, str(alignments.model),
                                                               alignments.all_rspecifier)})

    def _make_den_fst(self) -> None:
        folder = self.folder.path
        self.run_jobs({"copy_transition_model": f"copy-transition-model {self.tree_dir}/final.mdl "
                                                f"{folder}/0.trans_mdl"})
        names = ("tree", "0.trans_mdl", "phone_lm.fst", "den.fst", "normalization.fst")
        self.run_jobs({"make_den_fst": " ".join(["chain-make-den-fst", *(f"{folder}/{name}" for name in names)])})

    def make_egs(self, executor: Executor) -> None:
        options = self.options
        labels = str(self.tree_dir) if options.e2e else options.ali_dir or options.lat_dir
        if not options.feat_dir or not labels:
            raise UsageError("neither examples nor features with lattices or alignments were given",
                             "give --feat-dir=data/NAME and --lat-dir or --ali-dir, or --egs.dir")
        egs_options = self.egs_options(
            ChainEgsOptions, frame_subsampling_factor=options.frame_subsampling_factor,
            alignment_subsampling_factor=options.alignment_subsampling_factor, frames_per_iter=options.samples_per_iter,
            left_tolerance=options.left_tolerance, right_tolerance=options.right_tolerance,
            **({"nj": options.egs_nj} if options.egs_nj > 0 else {}))
        if not options.semisup_feat_dir:
            make_chain_egs(options.feat_dir, self.folder.path, labels, self.egs_path, egs_options, executor)
            return
        supervised, unsupervised = self.parts_of_egs
        egs_options = replace(egs_options, generate_egs_scp=True)
        make_chain_egs(options.feat_dir, self.folder.path, labels, supervised, egs_options, executor)
        make_chain_egs(options.semisup_feat_dir, self.folder.path, str(options.semisup_lat_dir), unsupervised,
                       replace(egs_options, deriv_weights_scp=str(self._frame_weights(executor)),
                               online_ivector_dir=options.semisup_ivector_dir, acwt=options.semisup_acwt,
                               lattice_lm_scale=options.semisup_lm_scale, lattice_prune_beam=options.semisup_prune_beam,
                               left_tolerance=options.semisup_tolerance, right_tolerance=options.semisup_tolerance,
                               alignment_subsampling_factor=1), executor)
        combine_egs([Source(supervised, copies=options.semisup_sup_copies),
                     Source(unsupervised, copies=options.semisup_copies)], self.egs_path, options.srand)

    def _frame_weights(self, executor: Executor) -> Path:
        """Compute the weight of each frame of the untranscribed data; return the list (scp) of the vectors.

        A frame's weight is the posterior of the best path's pdf in the lattice, times --semisup.weight. Kaldi:
        steps/best_path_weights.sh.
        """
        options, folder = self.options, self.folder.path / "weights"
        lattices = Path(str(options.semisup_lat_dir))
        check_plain("--semisup.lat-dir", lattices)
        folder.mkdir(exist_ok=True)
        archives = sorted(lattices.glob("lat.*.gz"))
        if not archives or not (lattices / "final.mdl").is_file():
            raise FormatError("expected a folder of lattices with lat.1.gz, lat.2.gz … and final.mdl",
                              path=str(lattices))
        jobs, scale = [], f"--acoustic-scale={options.semisup_acwt:g}"
        for number, archive in enumerate(archives, 1):
            read, model = f"gunzip -c {archive} |", lattices / "final.mdl"
            jobs.append(Job(
                f'lattice-best-path {scale} "ark:{read}" ark:/dev/null "ark:| ali-to-pdf {model} ark:- '
                f'ark:{folder}/pdfs.{number}.ark" && lattice-to-post {scale} "ark:{read}" ark:- | '
                f"post-to-pdf-post {model} ark:- ark:- | copy-post --scale={options.semisup_weight:g} ark:- ark:- | "
                f"get-post-on-ali ark:- ark:{folder}/pdfs.{number}.ark "
                f"ark,scp:{folder}/weights.{number}.ark,{folder}/weights.{number}.scp",
                self.folder.log(f"frame_weights.{number}")))
        executor.run(jobs)
        lists = [folder / f"weights.{number}.scp" for number in range(1, len(archives) + 1)]
        write_text(str(folder / "weights.scp"), "".join(path.read_text(encoding="utf-8") for path in lists))
        return folder / "weights.scp"

    def _make_model(self) -> None:
        folder = self.folder.path
        raw = self.options.input_model or self._make_network(-1)
        self.run_jobs({"init_mdl": f"nnet3-am-init {folder}/0.trans_mdl {raw} {self.folder.model(0)}"})

    def make_plan(self, egs: EgsFolder) -> Plan:
        plan = super().make_plan(egs)
        write_text(str(self.folder.path / "num_iters"), f"{plan.num_iters}\n")
        return plan

    def stages_to_final(self) -> list[Stage]:
        number, final = self.plan.num_iters, self.folder.model("final")

        def finish() -> None:
            if self.options.do_final_combination:
                self._combine("final")
            else:
                link(self.folder.model(number).name, final)

        return [Stage(number, "Doing final combination to produce final.mdl", finish, (final,))]

    def diagnosed_at_end(self) -> str | None:
        return "final"

    def _end(self) -> None:
        super()._end()
        if self.options.cleanup and self.options.remove_egs:
            for path in self.parts_of_egs:
                if (path / "info" / "num_archives").is_file():
                    EgsFolder(path).remove()

    @property
    def parts_of_egs(self) -> list[Path]:
        """Folders of the supervised and the unsupervised examples in semi-supervised training; else empty."""
        return [self.folder.path / name for name in ("egs_sup", "egs_unsup")] if self.options.semisup_feat_dir else []

    def _configs(self) -> dict[str, Any]:
        return {**super()._configs(), **self.fingerprints()}

    def fingerprints(self) -> dict[str, str]:
        """Return a checksum of the tree, as a dict, empty without a tree: a training cannot go on with another tree."""
        tree = fingerprint(self.tree_dir / "tree")[:16]
        return {"tree": tree} if tree else {}


def check_examples(egs: EgsFolder, frame_subsampling_factor: int, num_pdfs: int) -> None:
    """Raise Nnet3Error if the first example of a folder has another frame rate or belongs to another tree."""
    from nnet3py.egs.chain_example import read_chain_egs

    if egs.kind != "cegs":
        raise FormatError("expected a folder of chain examples, but it has no combine.cegs and no cegs.1.scp",
                          path=str(egs.path))
    with closing(read_chain_egs(egs.training_rspecifier(1))) as examples:       # type: ignore[type-var]
        key, first = next(examples)
    for output in first.outputs:
        if output.supervision.label_dim != num_pdfs:
            raise Nnet3Error(f"the examples in {egs.path} are of {output.supervision.label_dim} pdfs ({key}), the tree "
                             f"has {num_pdfs}", "make examples with this tree")
        times = output.indexes[:, 1]
        if len(times) > 1 and times[1] - times[0] != frame_subsampling_factor:
            raise Nnet3Error(f"the examples in {egs.path} have an output every {times[1] - times[0]} frames ({key}), "
                             f"but --chain.frame-subsampling-factor={frame_subsampling_factor}",
                             "give the factor that the examples were made with, or make them again")


# -- several languages -------------------------------------------------------------------------------------------------


@dataclass
class Language:
    """Language of a multilingual training: a line of --languages, with its folders, weight and copies of examples."""

    name: str
    feat_dir: str = ""
    tree_dir: str = ""
    ali_dir: str = ""
    lat_dir: str = ""
    online_ivector_dir: str = ""
    weight: float = 1.0
    copies: int = 1


def read_languages(path: str) -> list[Language]:
    """Read lines ``NAME KEY=VALUE …``; skip blank lines and comments (#). Raises FormatError for other lines."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from error
    languages: dict[str, Language] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        language = Language(words[0])
        if not _NAME.fullmatch(words[0]) or words[0] in languages or words[0] == "xent":
            raise FormatError(f"line {number}: expected a new name of letters, digits, '_' and '.', found '{words[0]}'",
                              path=path)
        for word in words[1:]:
            key, _, value = word.partition("=")
            _set(language, key, value, f"line {number}", path)
        if not language.tree_dir or not language.feat_dir or bool(language.ali_dir) == bool(language.lat_dir):
            raise FormatError(f"line {number}: {words[0]} needs feat-dir=, tree-dir=, and either ali-dir= or lat-dir=",
                              path=path)
        languages[language.name] = language
    if not languages:
        raise FormatError("expected a line for each language, found none", path=path)
    return list(languages.values())


def _set(language: Language, key: str, value: str, where: str, path: str) -> None:
    field = key.replace("-", "_")
    if field not in Language.__dataclass_fields__ or field == "name" or not value:
        raise FormatError(f"{where}: expected KEY=VALUE with a key such as tree-dir, found '{key}={value}'", path=path)
    kind = type(getattr(language, field))
    try:
        setattr(language, field, kind(value))
    except ValueError:
        raise FormatError(f"{where}: expected a number for {key}, found '{value}'", path=path) from None


class LanguageCommands(ChainCommands):
    """Commands of train-chain --languages."""

    train_program = "nnet3-chain-train2"
    combine_program = "nnet3-chain-combine2"
    merge_egs = "nnet3-chain-merge-egs --multilingual-eg=true"
    lda_egs: EgsFolder                   # of one language: LDA statistics need one set of classes

    @property
    def den_fst(self) -> str:
        return f"{self.dir}/den_fsts"

    def lda_stats(self, job: int) -> str:
        archive = (job - 1) % self.lda_egs.num_archives + 1
        return (f'{self.lda_program} --rand-prune={self.options.rand_prune} {self.dir}/init.raw '
                f'"{self.lda_egs.training_rspecifier(archive)}" {self.dir}/{job}.lda_stats')


class _OneLanguage(ChainTraining):
    """Chain training of one language up to its graphs and examples, in a folder of its own."""

    def __init__(self, whole: LanguagesTraining, language: Language) -> None:
        options = replace(whole.options, languages=None, dir=f"{whole.options.dir}/{language.name}",
                          feat_dir=language.feat_dir, tree_dir=language.tree_dir, ali_dir=language.ali_dir or None,
                          lat_dir=language.lat_dir or None, online_ivector_dir=language.online_ivector_dir or None,
                          egs_opts=f"{whole.options.egs_opts or ''} --generate-egs-scp true")
        super().__init__(options)
        self.whole, self.language, self.output = whole, language, f"output-{language.name}"

    def network(self) -> Network:
        return self.whole.network()

    def check_network(self) -> None:
        return

    def prepare(self, executor: Executor) -> None:
        """Check the data and make the folder, on every start; ``executor`` runs the language's jobs from now on."""
        self.executor = executor
        (self.folder.path / "log").mkdir(parents=True, exist_ok=True)
        self.begin()

    def make_graphs(self) -> None:
        """Make the phone language model, the denominator graph and the normalization graph."""
        self._make_phone_lm()
        self._make_den_fst()
        (self.whole.folder.path / "den_fsts").mkdir(exist_ok=True)
        link(f"../{self.language.name}/den.fst", self.whole.folder.path / "den_fsts" / f"{self.language.name}.den.fst")

    def write_model(self, network: str, has_plain_output: bool) -> None:
        """Write final.mdl of this language: the final network with only this language's output, and its tree's HMMs.

        ``has_plain_output`` : whether the network also has an output named ``output``
        """
        edits = ["rename-node old-name=output new-name=output-unused"] if has_plain_output else []
        edits += [f"rename-node old-name={self.output} new-name=output", "remove-output-nodes name=output-*",
                  "remove-orphans"]
        self.run_jobs({"final": f"nnet3-copy --edits='{'; '.join(edits)}' {network} - | nnet3-am-init "
                                f"{self.folder.path}/0.trans_mdl - {self.folder.path}/final.mdl"})


class LanguagesTraining(ChainTraining):
    """Chain training for several languages: ``train-chain --languages``."""

    commands_class = LanguageCommands
    models: ClassVar[ModelFiles] = RAW

    def __init__(self, options: ChainOptions, executor: Executor | None = None,
                 terminal: IO[str] | None = None) -> None:
        super().__init__(options, executor, terminal)
        assert options.languages
        self.languages = [_OneLanguage(self, language) for language in read_languages(options.languages)]

    # -- the data ------------------------------------------------------------------------------------------------------

    @cached_property
    def feat_dim(self) -> int:
        return self.languages[0].feat_dim

    @cached_property
    def ivector_dim(self) -> int:
        return self.languages[0].ivector_dim

    @cached_property
    def ivector_id(self) -> str | None:
        return self.languages[0].ivector_id

    def begin(self) -> None:
        for language in self.languages:
            language.prepare(self.executor)
        self._check_outputs(self.languages)
        write_text(str(self.folder.path / "frame_subsampling_factor"), f"{self.options.frame_subsampling_factor}\n")

    def open_egs(self) -> EgsFolder:
        for language in self.languages:
            check_examples(EgsFolder(language.egs_path), self.options.frame_subsampling_factor, language.num_pdfs)
        return self.verified_egs()

    @property
    def parts_of_egs(self) -> list[Path]:
        return [language.egs_path for language in self.languages]

    # -- stages --------------------------------------------------------------------------------------------------------

    def stages_to_egs(self) -> list[Stage]:
        graphs = [Stage(self.den_fst_stage, f"Creating graphs of language {language.language.name}",
                        language.make_graphs, language.graph_files) for language in self.languages]
        return [*graphs, *super(ChainTraining, self).stages_to_egs()]

    def make_egs(self, executor: Executor) -> None:
        for language in self.languages:
            language.make_egs(executor)
        combine_egs([Source(language.egs_path, language.language.name, language.language.weight,
                            language.language.copies) for language in self.languages], self.egs_path,
                    self.options.srand)

    def _make_lda(self) -> None:
        assert isinstance(self.commands, LanguageCommands)
        self.commands.lda_egs = EgsFolder(self.languages[0].egs_path)
        super()._make_lda()

    def _make_model(self) -> None:
        self._make_network(-1)

    def stages_to_final(self) -> list[Stage]:
        finals = tuple(language.folder.path / "final.mdl" for language in self.languages)
        return [*super().stages_to_final(),
                Stage(self.plan.num_iters + 1, "Writing a model for each language", self._write_models, finals)]

    def _write_models(self) -> None:
        from nnet3py.network.model_file import read_nnet

        final = str(self.folder.model("final"))
        has_plain_output = read_nnet(final).output_dim("output") >= 0
        for language in self.languages:
            language.write_model(final, has_plain_output)
            for name in ("cmvn_opts", "frame_subsampling_factor"):
                source = language.egs_path / name if name == "cmvn_opts" else self.folder.path / name
                if source.is_file():
                    shutil.copyfile(source, language.folder.path / name)

    # -- what is measured ----------------------------------------------------------------------------------------------

    def objective(self, job: TrainLog) -> float:
        """Return the objective of all languages, weighted by their frames."""
        outputs = [language.output for language in self.languages if language.output in job.objectives]
        frames = sum(job.frames.get(output, 0.0) for output in outputs)
        if not frames:
            return float("nan")
        return sum(job.objectives[output] * job.frames[output] for output in outputs) / frames

    def has_report(self) -> bool:
        return False

    def _end(self) -> None:
        for language in self.languages:
            write_report(self.folder, f"accuracy.{language.output}.report", "objective", language.output)
        super()._end()

    def _configs(self) -> dict[str, Any]:
        configs: dict[str, Any] = {}
        for language in self.languages:
            own = language.language
            configs |= {f"{own.name}/{key}": value for key, value in language.fingerprints().items()}
            configs[f"{own.name}/weight, copies"] = [own.weight, own.copies]
        return {**super(ChainTraining, self)._configs(), **configs}


def train_chain(options: ChainOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Train a chain model; arguments as for :class:`nnet3py.drivers.training.Training`."""
    (LanguagesTraining if options.languages else ChainTraining)(options, executor, terminal).run()
