"""Drivers that make a tree and a transition model: from alignments, or without any (a flat start).

    build_tree(TreeOptions(feat_dir="data/train", lang="data/lang_chain", ali_dir="exp/tri_ali", dir="exp/chain/tree",
                           num_leaves=3500, frame_subsampling_factor=3,
                           context_opts="--context-width=2 --central-position=1"))
    prepare_e2e(FlatStartOptions(feat_dir="data/train", lang="data/lang_chain", dir="exp/e2e_tree"))

Either folder is the --tree-dir of ``train-chain``, the second with ``--e2e=true``. Kaldi:
steps/nnet3/chain/build_tree.sh; steps/nnet3/chain/e2e/prepare_e2e.sh, and the phone language model of the recipes.
"""
from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nnet3py.cached_property import cached_property
from nnet3py.decoding.symbols import read_text, read_transcripts
from nnet3py.drivers.data_folder import (
    AliFolder,
    DataFolder,
    phone_lines,
    select,
    spk2utt,
    split,
    write_int_text,
    write_list,
)
from nnet3py.drivers.executor import Executor
from nnet3py.drivers.staged import StagedWork, Step, copy_file
from nnet3py.drivers.staged_options import FlatStartOptions, TreeOptions
from nnet3py.errors import FormatError
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.io.streams import write_text
from nnet3py.io.tables import SequentialReader

MONO, STATS, TREE, MODEL, CONVERT = -5, -4, -3, -2, -1      # stages, as in Kaldi's script
_LANG = ("topo", "phones.txt", "phones/sets.int", "phones/roots.int", "phones/context_indep.csl",
         "phones/extra_questions.int")
_FEATURE_OPTIONS = ("splice_opts", "cmvn_opts", "delta_opts")
_FEW = 10              # utterances from which the Gaussians of the monophone model are initialized


class TreeBuilding(StagedWork):
    """Building of a tree: the driver ``nnet3-build-tree``."""

    options: TreeOptions

    def begin(self) -> None:
        options, self.lang = self.options, Path(self.options.lang)
        for name in _LANG[:-1]:
            if not (self.lang / name).is_file():
                raise FormatError(f"expected a folder with the language's phones, but it has no {name}",
                                  path=options.lang, hint="such as utils/prepare_lang.sh makes")
        self.ali = AliFolder(options.ali_dir)
        self.data = DataFolder(options.feat_dir)
        self.data.check(["cmvn.scp"])
        phones = phone_lines(self.ali.path)
        if phones and phones != phone_lines(self.lang):
            raise FormatError("the phones are others than those of the alignments", path=f"{options.lang}/phones.txt",
                              hint=f"compare with {self.ali.path}/phones.txt")
        if self._has_transforms:
            for number in self._numbers:
                if not (self.ali.path / f"trans.{number}").is_file():
                    raise FormatError(f"there is trans.1, but no trans.{number}", path=options.ali_dir)

    def inputs(self) -> Iterator[Path]:
        yield from (self.data.path / name for name in ("feats.scp", "utt2spk", "cmvn.scp"))
        yield from (self.lang / name for name in _LANG)
        yield from (self.ali.path / name for name in ("final.mdl", "final.mat", "trans.1", *_FEATURE_OPTIONS))
        yield from (self.ali.archive(number) for number in self._numbers)

    @property
    def product(self) -> Path:
        return self.path / "final.mdl"

    @property
    def _numbers(self) -> range:
        return range(1, self.ali.num_jobs + 1)

    @property
    def _has_transforms(self) -> bool:
        return (self.ali.path / "trans.1").is_file()

    # -- data and features ---------------------------------------------------------------------------------------------

    def _write_lists(self) -> None:
        """Write the lists of each job's utterances: those in its archive of alignments that have features."""
        for number in self._numbers:
            with SequentialReader(self.ali.rspecifier(number), INT_VECTOR) as alignments:
                keys = {key for key, _ in alignments}
            utterances = [utterance for utterance in self.data.utterances if utterance in keys]
            if not utterances:
                raise FormatError("none of the utterances of these alignments has features",
                                  path=str(self.ali.archive(number)),
                                  hint="are these the alignments of --feat-dir?")
            part = self._part(number)
            part.mkdir(parents=True, exist_ok=True)
            write_list(part / "feats.scp", select(self.data.feats, utterances))
            own = select(self.data.utt2spk, utterances)
            write_list(part / "utt2spk", own)
            write_list(part / "cmvn.scp", select(self.data.lines("cmvn.scp"), spk2utt(own)))
        for source in [*(self.ali.path / name for name in (*_FEATURE_OPTIONS, "final.mat", "full.mat")),
                       self.lang / "phones.txt"]:
            if source.is_file():
                shutil.copyfile(source, self.path / source.name)
        write_text(str(self.path / "num_jobs"), f"{self.ali.num_jobs}\n")

    def _part(self, number: int) -> Path:
        return self.path / "split" / str(number)

    def _option(self, name: str) -> str:
        path = self.ali.path / name
        return path.read_text(encoding="utf-8").strip() + " " if path.is_file() else ""

    def _features(self, number: int) -> str:
        """Return the rspecifier of a job's features, in the form for the model of the alignments.

        They are subsampled to the frame rate of the new model.
        """
        part, ali, factor = self._part(number), self.ali.path, self.options.frame_subsampling_factor
        programs = [f"apply-cmvn {self._option('cmvn_opts')}--utt2spk=ark:{part}/utt2spk scp:{part}/cmvn.scp "
                    f"scp:{part}/feats.scp ark:-"]
        if (ali / "final.mat").is_file():
            programs += [f"splice-feats {self._option('splice_opts')}ark:- ark:-",
                         f"transform-feats {ali}/final.mat ark:- ark:-"]
        else:
            programs.append(f"add-deltas {self._option('delta_opts')}ark:- ark:-")
        if self._has_transforms:
            programs.append(f"transform-feats --utt2spk=ark:{part}/utt2spk ark,s,cs:{ali}/trans.{number} ark:- ark:-")
        if factor > 1:
            programs.append(f"subsample-feats --n={factor} ark:- ark:-")
        return f"ark,s,cs:{' | '.join(programs)} |"

    # -- the steps -----------------------------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        return [Step(MONO, "lists", "Checking the data", action=self._write_lists), self._mono_step(),
                *self._stats_steps(), *self._tree_steps(), self._model_step(), *self._convert_steps()]

    def _mono_step(self) -> Step:
        features, path = self._features(1), self.path
        few = features.removesuffix("|") + f"| subset-feats --n={_FEW} ark:- ark:- |"
        return Step(MONO, "mono", "Making a model without context, for the alignments' new topology", [self.job(
            f'dim=$(feat-to-dim --print-args=false "{features}" -) && '
            f'gmm-init-mono --shared-phones={self.lang}/phones/sets.int "--train-feats={few}" {self.lang}/topo $dim '
            f"{path}/mono.mdl {path}/mono.tree", "init_mono")])

    def _stats_steps(self) -> Iterator[Step]:
        options, path = self.options, self.path
        silence = (self.lang / "phones" / "context_indep.csl").read_text(encoding="utf-8").strip()
        parts = [path / f"{number}.treeacc" for number in self._numbers]
        yield Step(STATS, "acc", "Gathering the statistics of phones in context", [
            self.job(f"{self._converted('mono.mdl', 'mono.tree', number)} ark:- | "
                     f"acc-tree-stats {options.context_opts} {options.tree_stats_opts} --ci-phones={silence} "
                     f'{path}/mono.mdl "{self._features(number)}" ark:- {acc}', f"acc_tree.{number}")
            for number, acc in enumerate(parts, 1)], needs=[path / "mono.mdl"])
        yield Step(STATS, "sum", "Adding the statistics", [
            self.job(f"sum-tree-stats {path}/treeacc {' '.join(map(str, parts))}", "sum_tree_acc")], leaves=parts)

    def _converted(self, model: str, tree: str, number: int, more: str = "") -> str:
        """Return the command that converts a job's alignments to another model and tree, without the wspecifier.

        ``model`` and ``tree`` are files of the folder, ``more`` further options of convert-ali.
        """
        factor = self.options.alignment_subsampling_factor or self.options.frame_subsampling_factor
        return (f"convert-ali {more}--frame-subsampling-factor={factor} {self.ali.model} {self.path}/{model} "
                f'{self.path}/{tree} "{self.ali.rspecifier(number)}"')

    def _tree_steps(self) -> Iterator[Step]:
        options, path, lang = self.options, self.path, self.lang
        extra = lang / "phones" / "extra_questions.int"
        more = f" && cat {extra} >> {path}/.questions" if extra.is_file() else ""
        yield Step(TREE, "questions", "Finding questions about phones", [
            self.job(f"cluster-phones {options.cluster_phones_opts} {options.context_opts} {path}/treeacc "
                     f"{lang}/phones/sets.int {path}/.questions{more} && mv {path}/.questions {path}/questions.int",
                     "questions")], needs=[path / "treeacc"])
        yield Step(TREE, "compile_questions", "Compiling the questions", [
            self.job(f"compile-questions {options.context_opts} {lang}/topo {path}/questions.int {path}/questions.qst",
                     "compile_questions")])
        yield Step(TREE, "build_tree", f"Building a tree of at most {options.num_leaves} leaves", [
            self.job(f"build-tree {options.context_opts} --verbose=1 --max-leaves={options.num_leaves} "
                     f"--cluster-thresh={options.cluster_thresh:g} {path}/treeacc {lang}/phones/roots.int "
                     f"{path}/questions.qst {lang}/topo {path}/tree", "build_tree")],
                   needs=[path / "treeacc"], result=self._leaves)

    def _leaves(self) -> str:
        from nnet3py.hmm.tree import ContextDependency
        from nnet3py.io.object_files import read_object

        return f"{read_object(self.path / 'tree', ContextDependency.read).num_pdfs} leaves"

    def _model_step(self) -> Step:
        path = self.path
        return Step(MODEL, "init_model", "Making a model of the tree", [
            self.job(f"gmm-init-model --write-occs={path}/1.occs {path}/tree {path}/treeacc {self.lang}/topo "
                     f"{path}/1.mdl", "init_model")], needs=[path / "treeacc", path / "tree"],
            leaves=[path / "treeacc"])

    def _convert_steps(self) -> Iterator[Step]:
        path, repeat = self.path, f"--repeat-frames={str(self.options.repeat_frames).lower()} "
        yield Step(CONVERT, "convert", "Converting the alignments to the new model", [
            self.job(f'{self._converted("1.mdl", "tree", number, repeat)} "ark:| gzip -c > {path}/ali.{number}.gz"',
                     f"convert.{number}") for number in self._numbers], needs=[path / "1.mdl"])
        yield Step(CONVERT, "final", "Calling the model final.mdl", needs=[path / "1.mdl"],
                   action=lambda: copy_file(path / "1.mdl", self.product))


def build_tree(options: TreeOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Build a tree; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    TreeBuilding(options, executor, terminal).run()


LISTS, INITIAL_MODEL, PHONE_LM, GRAPHS = -1, 0, 1, 2          # stages
_E2E_LANG = ("L.fst", "words.txt", "phones.txt", "topo", "phones/sets.int", "phones/context_indep.csl",
         "phones/optional_silence.txt", "phones/disambig.int")
_FEATURE_DIM = 10        # dimension of unused Gaussians
_SCALES = "--transition-scale=0.0 --self-loop-scale=0.0"


class FlatStart(StagedWork):
    """Preparation of end-to-end training: the driver ``prepare-e2e``."""

    options: FlatStartOptions

    def begin(self) -> None:
        self.lang, self.data = Path(self.options.lang), DataFolder(self.options.feat_dir)
        for name in _E2E_LANG:
            if not (self.lang / name).is_file():
                raise FormatError(f"expected a folder with the language's phones, but it has no {name}",
                                  path=self.options.lang, hint="such as prepare-lang and utils/prepare_lang.sh make")
        if not self.data.has("text") or not self.transcripts:
            raise FormatError("expected transcripts, but there is no text", path=self.options.feat_dir)

    def inputs(self) -> Iterator[Path]:
        yield from (self.data.path / name for name in ("text", "utt2spk"))
        yield from (self.lang / name for name in (*_E2E_LANG, "lexicon.txt", "phones/align_lexicon.txt", "oov.txt"))
        if self.options.tree_dir:
            yield from (Path(self.options.tree_dir) / name for name in ("tree", "final.mdl"))

    @property
    def product(self) -> Path:
        return self.path / "final.mdl"

    @cached_property
    def transcripts(self) -> dict[str, list[str]]:
        """Words of each utterance."""
        return read_transcripts(str(self.data.path / "text"))

    @cached_property
    def parts(self) -> list[list[str]]:
        """Utterances of each job."""
        return split(list(self.transcripts), self.data.utt2spk, self.options.nj, by_speaker=False)

    # -- the steps -----------------------------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        return [Step(LISTS, "lists", "Checking the data", action=self._write_lists), self._model_step(),
                self._phone_lm_step(), self._graphs_step()]

    def _write_lists(self) -> None:
        for number, utterances in enumerate(self.parts, 1):
            write_int_text(self.path, str(number), self.lang,
                           {utterance: self.transcripts[utterance] for utterance in utterances})
        write_text(str(self.path / "num_jobs"), f"{len(self.parts)}\n")
        shutil.copyfile(self.lang / "phones.txt", self.path / "phones.txt")
        self._write_lexicon()

    def _write_lexicon(self) -> None:
        """Write lexicon.txt: a copy of the lang folder's, or made from its align_lexicon.txt."""
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
        return Step(INITIAL_MODEL, "model", "Making a tree and its model", [
            self.job(f"{make} && copy-transition-model {path}/0.mdl {path}/0.trans_mdl", "init_model")])

    def _phone_lm_step(self) -> Step:
        options, path, lang = self.options, self.path, self.lang
        silence = read_text(lang / "phones" / "optional_silence.txt").strip()
        unknown = read_text(lang / "oov.txt").strip() if (lang / "oov.txt").is_file() else ""
        words = ["text-to-phones", f"--phones={lang}/phones.txt", f"--srand={options.srand}",
                 *([f"--silence-phone={silence}", f"--edge-silprob={options.edge_silprob}",
                    f"--between-silprob={options.between_silprob}"] if silence else []),
                 *([f"'--unknown-word={unknown}'"] if unknown else []),
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
        return Step(GRAPHS, "graphs", "Making the graphs of the transcripts", jobs,
                    lambda: copy_file(path / "0.mdl", self.product))


def prepare_e2e(options: FlatStartOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Prepare a flat start; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    FlatStart(options, executor, terminal).run()
