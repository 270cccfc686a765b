"""The driver ``train_chain``, for one language or for several: one network with an output and a tree for each.

    train_chain(ChainOptions(dir="exp/tdnnf", feat_dir="data/train", tree_dir="exp/chain_tree", ali_dir="exp/ali"))
    train_chain(ChainOptions(dir="exp/multi", languages="languages.txt"))

The file of languages has a line for each, such as ``en feat-dir=data/en tree-dir=exp/en_tree ali-dir=exp/en_ali``. The
network has outputs output-LANGUAGE. Kaldi: steps/chain2/train.sh.
"""
from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

from nnet3py.cached_property import cached_property
from nnet3py.drivers.chain_training import ChainTraining, check_examples
from nnet3py.drivers.commands import RAW, ChainCommands, ModelFiles, Network
from nnet3py.drivers.diagnostics import write_report
from nnet3py.drivers.egs.egs_folder import EgsFolder, Source, combine_egs
from nnet3py.drivers.jobs.executor import Executor
from nnet3py.drivers.options import ChainOptions
from nnet3py.drivers.training import Stage, link
from nnet3py.errors import FormatError, UsageError
from nnet3py.io.streams import write_text
from nnet3py.report.training_logs import TrainLog

_NAME = re.compile(r"[A-Za-z0-9_.]+")           # a language names nodes and folders


@dataclass
class Language:
    """Language of a multilingual training, a line of the file."""

    name: str
    feat_dir: str = ""
    tree_dir: str = ""
    ali_dir: str = ""
    lat_dir: str = ""
    online_ivector_dir: str = ""
    weight: float = 1.0
    copies: int = 1


def read_languages(path: str) -> list[Language]:
    """Read lines ``NAME KEY=VALUE …``; blank lines and those that begin with # are left out. FormatError for others."""
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
    """Graphs and examples of one language, in a folder of its own."""

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
        """Check the data, on every start; jobs are run by ``executor``."""
        self.executor = executor
        (self.folder.path / "log").mkdir(parents=True, exist_ok=True)
        self.begin()

    @property
    def graphs(self) -> tuple[Path, ...]:
        """Products of the stage that makes graphs."""
        return tuple(self.folder.path / name for name in ("0.trans_mdl", "den.fst", "normalization.fst"))

    def make_graphs(self) -> None:
        """Make the phone language model, the denominator graph and the normalization graph."""
        self._make_phone_lm()
        self._make_den_fst()
        (self.whole.folder.path / "den_fsts").mkdir(exist_ok=True)
        link(f"../{self.language.name}/den.fst", self.whole.folder.path / "den_fsts" / f"{self.language.name}.den.fst")

    def write_model(self, network: str, has_plain_output: bool) -> None:
        """Write the final network with the output of this language alone, as an acoustic model."""
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
        self._check_outputs()
        write_text(str(self.folder.path / "frame_subsampling_factor"), f"{self.options.frame_subsampling_factor}\n")

    def _check_outputs(self) -> None:
        reference = self.options.input_model or str(self.folder.configs / "ref.raw")
        if not Path(reference).exists():
            return
        from nnet3py.network.model_file import read_nnet

        network = read_nnet(reference)
        for language in self.languages:
            dim = network.output_dim(language.output)
            if dim != language.num_pdfs:
                raise UsageError(f"the network in {reference} has " + (
                    f"{dim} outputs {language.output}" if dim >= 0 else f"no output {language.output}") +
                    f", the tree in {language.tree_dir} {language.num_pdfs} pdfs", "make a network for these trees")
            if self.options.xent_regularize and network.output_dim(f"{language.output}-xent") < 0:
                raise UsageError(f"--chain.xent-regularize={self.options.xent_regularize:g}, but {reference} "
                                 f"has no {language.output}-xent", "add such an output layer, or say 0")

    def open_egs(self) -> EgsFolder:
        for language in self.languages:
            check_examples(EgsFolder(language.egs_path), self.options.frame_subsampling_factor, language.num_pdfs)
        egs = EgsFolder(self.egs_path)
        left, right, initial, final = self.egs_contexts()
        egs.verify(self.feat_dim, self.ivector_dim, self.ivector_id, left, right, initial, final, self.chunk_width)
        return egs

    @property
    def parts_of_egs(self) -> list[Path]:
        return [language.egs_path for language in self.languages]

    # -- stages --------------------------------------------------------------------------------------------------------

    def stages_to_egs(self) -> list[Stage]:
        graphs = [Stage(self.den_fst_stage, f"Creating graphs of language {language.language.name}",
                        language.make_graphs, language.graphs) for language in self.languages]
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
