"""The driver that prepares a flat start: a tree without statistics, graphs of the transcripts, a phone language model.

    prepare_e2e(FlatStartOptions(feat_dir="data/train", lang="data/lang_chain", dir="exp/e2e_tree"))

Its folder is the --tree-dir of ``train-chain --e2e=true``. Kaldi: steps/nnet3/chain/e2e/prepare_e2e.sh, and the phone
language model of the recipes.
"""
from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nnet3py.cached_property import cached_property
from nnet3py.decoding.grammar import read_transcripts
from nnet3py.decoding.symbols import SymbolTable, read_text
from nnet3py.drivers.egs.data_folder import DataFolder, write_list
from nnet3py.drivers.egs.parts import split
from nnet3py.drivers.jobs.executor import Executor
from nnet3py.drivers.preparation_options import FlatStartOptions
from nnet3py.drivers.staged import StagedWork, Step
from nnet3py.errors import FormatError
from nnet3py.io.streams import write_text

LISTS, MODEL, PHONE_LM, GRAPHS = -1, 0, 1, 2          # stages
_LANG = ("L.fst", "words.txt", "phones.txt", "topo", "phones/sets.int", "phones/context_indep.csl",
         "phones/optional_silence.txt", "phones/disambig.int")
_FEATURE_DIM = 10        # of Gaussians that nobody uses
_SCALES = "--transition-scale=0.0 --self-loop-scale=0.0"


class FlatStart(StagedWork):
    """prepare-e2e."""

    options: FlatStartOptions

    def begin(self) -> None:
        self.lang, self.data = Path(self.options.lang), DataFolder(self.options.feat_dir)
        for name in _LANG:
            if not (self.lang / name).is_file():
                raise FormatError(f"expected a folder with the language's phones, but it has no {name}",
                                  path=self.options.lang, hint="such as prepare-lang and utils/prepare_lang.sh make")
        if not self.data.has("text") or not self.transcripts:
            raise FormatError("expected transcripts, but there is no text", path=self.options.feat_dir)

    def inputs(self) -> Iterator[Path]:
        yield from (self.data.path / name for name in ("text", "utt2spk"))
        yield from (self.lang / name for name in (*_LANG, "lexicon.txt", "phones/align_lexicon.txt", "oov.txt"))
        if self.options.tree_dir:
            yield from (Path(self.options.tree_dir) / name for name in ("tree", "final.mdl"))

    @property
    def product(self) -> Path:
        return self.path / "final.mdl"

    @cached_property
    def transcripts(self) -> dict[str, list[str]]:
        """The words of each utterance."""
        return read_transcripts(str(self.data.path / "text"))

    @cached_property
    def parts(self) -> list[list[str]]:
        """The utterances of each job."""
        return split(list(self.transcripts), self.data.utt2spk, self.options.nj, by_speaker=False)

    @property
    def _unknown(self) -> str:
        path = self.lang / "oov.txt"
        return read_text(path).strip() if path.is_file() else ""

    # -- the steps -----------------------------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        return [Step(LISTS, "lists", "Looking at the data", action=self._write_lists), self._model_step(),
                self._phone_lm_step(), self._graphs_step()]

    def _write_lists(self) -> None:
        words, unknown = SymbolTable.read(str(self.lang / "words.txt")), self._unknown
        for number, utterances in enumerate(self.parts, 1):
            lines = {}
            for utterance in utterances:
                replaced = [word if word in words or not unknown else unknown for word in self.transcripts[utterance]]
                lines[utterance] = " ".join(str(words[word]) for word in replaced)
            part = self.path / "split" / str(number)
            part.mkdir(parents=True, exist_ok=True)
            write_list(part / "text", lines)
        write_text(str(self.path / "num_jobs"), f"{len(self.parts)}\n")
        shutil.copyfile(self.lang / "phones.txt", self.path / "phones.txt")
        self._write_lexicon()

    def _write_lexicon(self) -> None:
        """lexicon.txt of this folder; prepare_lang.sh leaves one in which each line begins with two words."""
        own, aligned = self.lang / "lexicon.txt", self.lang / "phones" / "align_lexicon.txt"
        if own.is_file():
            shutil.copyfile(own, self.path / "lexicon.txt")
        elif aligned.is_file():
            fields = (line.split() for line in read_text(aligned).splitlines())
            write_text(str(self.path / "lexicon.txt"), "".join(
                " ".join(words[1:]) + "\n" for words in fields if len(words) > 2 and not words[0].startswith("<eps>")))
        else:
            raise FormatError("expected a folder with a lexicon, but it has no lexicon.txt and no "
                              "phones/align_lexicon.txt", path=str(self.lang))

    def _model_step(self) -> Step:
        options, path, lang = self.options, self.path, self.lang
        if options.tree_dir:
            make = f"cp {options.tree_dir}/tree {path}/tree && cp {options.tree_dir}/final.mdl {path}/0.mdl"
        else:
            silence = read_text(lang / "phones" / "context_indep.csl").strip()
            words = [f"gmm-init-{options.type}", *([f"--ci-phones={silence}"] if options.ci_silence else []),
                     *([f"--shared-phones={lang}/phones/sets.int"] if options.shared_phones else []),
                     f"{lang}/topo {_FEATURE_DIM} {path}/0.mdl {path}/tree"]
            make = " ".join(words)
        return Step(MODEL, "model", "Making a tree and its model", [
            self.job(f"{make} && copy-transition-model {path}/0.mdl {path}/0.trans_mdl", "init_model")])

    def _phone_lm_step(self) -> Step:
        options, path, lang = self.options, self.path, self.lang
        silence = read_text(lang / "phones" / "optional_silence.txt").strip()
        words = ["text-to-phones", f"--phones={lang}/phones.txt", f"--srand={options.srand}",
                 *([f"--silence-phone={silence}", f"--edge-silprob={options.edge_silprob}",
                    f"--between-silprob={options.between_silprob}"] if silence else []),
                 *([f"'--unknown-word={self._unknown}'"] if self._unknown else []),
                 f"{path}/lexicon.txt {self.data.path}/text ark:-"]
        return Step(PHONE_LM, "phone_lm", "Making a phone language model of the transcripts", [
            self.job(f"{' '.join(words)} | chain-est-phone-lm {options.lm_opts} ark:- {path}/phone_lm.fst",
                     "phone_lm")])

    def _graphs_step(self) -> Step:
        path, lang = self.path, self.lang
        jobs = [self.job(f"compile-train-graphs {_SCALES} --read-disambig-syms={lang}/phones/disambig.int {path}/tree "
                         f"{path}/0.mdl {lang}/L.fst ark,t:{path}/split/{number}/text "
                         f"ark,scp:{path}/fst.{number}.ark,{path}/fst.{number}.scp", f"compile_graphs.{number}")
                for number in range(1, len(self.parts) + 1)]
        return Step(GRAPHS, "graphs", "Making the graphs of the transcripts", jobs, self._finish)

    def _finish(self) -> None:
        shutil.copyfile(self.path / "0.mdl", self.path / ".final")
        (self.path / ".final").replace(self.product)


def prepare_e2e(options: FlatStartOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Prepare a flat start; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    FlatStart(options, executor, terminal).run()
