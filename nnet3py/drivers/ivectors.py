"""Drivers of training an i-vector extractor, and of extracting online i-vectors.

    train_ivector_extractor(ExtractorOptions(feat_dir="data/train", dir="exp/extractor", num_gauss=512))
    extract_ivectors(IvectorOptions(feat_dir="data/train", extractor_dir="exp/extractor", dir="exp/ivectors_train"))

Kaldi: steps/online/nnet2/get_pca_transform.sh, train_diag_ubm.sh, train_ivector_extractor.sh and
extract_ivectors_online.sh; sid/train_full_ubm.sh for full covariances; utils/data/modify_speaker_info.sh for
--utts-per-spk-max. The folders have the same files in the end.
"""
from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from nnet3py.drivers.data_folder import DataFolder, Features, select, spk2utt, split, write_list, write_part
from nnet3py.drivers.executor import Executor
from nnet3py.drivers.staged import StagedWork, Step
from nnet3py.drivers.staged_options import ExtractorOptions, IvectorOptions
from nnet3py.drivers.training import link
from nnet3py.errors import FormatError, UsageError
from nnet3py.io.archive import sort_key
from nnet3py.io.streams import write_text

# Stages; an iteration of the extractor has its number as stage, and extraction comes last.
LISTS, TRANSFORM, MIXTURE, PASSES, FULL, POSTERIORS = -6, -5, -4, -3, -2, -1
_FULL_GSELECT = 20                  # selected Gaussians of each frame for full covariances


class _Mixture(NamedTuple):
    """Kind of Gaussian mixture, diagonal or full: prefix of its programs, file suffixes, noun for titles of steps."""

    programs: str
    suffix: str
    stats_suffix: str
    what: str


_DIAGONAL = _Mixture("gmm-global", "dubm", "acc", "the mixture")
_FULL = _Mixture("fgmm-global", "ubm", "full.acc", "full covariances")


class ExtractorTraining(StagedWork):
    """Training of an i-vector extractor: the driver ``train-ivector-extractor``."""

    models = "ie"
    options: ExtractorOptions

    def begin(self) -> None:
        options = self.options
        self.data = DataFolder(options.feat_dir)
        self.ubm_data = DataFolder(options.ubm_feat_dir) if options.ubm_feat_dir else self.data
        for data in {self.data.path: self.data, self.ubm_data.path: self.ubm_data}.values():
            data.check(["cmvn.scp"])
            data.check_speaker_order()
        if options.transform_dir:
            for name in ("final.mat", "splice_opts"):
                if not (Path(options.transform_dir) / name).is_file():
                    raise FormatError(f"expected a folder with a transform, but it has no {name}",
                                      path=options.transform_dir)
        if options.online_cmvn_config and not Path(options.online_cmvn_config).is_file():
            raise UsageError(f"--online-cmvn-config={options.online_cmvn_config} does not exist")
        self.parts = self._parts(self.data)
        self.ubm_parts = self._parts(self.ubm_data)
        self.features = self._features(self.data)
        self.ubm_features = self._features(self.ubm_data)

    def inputs(self) -> Iterator[Path]:
        options = self.options
        for data in dict.fromkeys((self.data.path, self.ubm_data.path)):
            yield from (data / name for name in ("feats.scp", "utt2spk", "cmvn.scp"))
        if options.transform_dir:
            yield from (Path(options.transform_dir) / name for name in ("final.mat", "splice_opts"))
        if options.online_cmvn_config:
            yield Path(options.online_cmvn_config)

    @property
    def product(self) -> Path:
        return self.path / "final.ie"

    def steps(self) -> list[Step]:
        return [*self._preparation(), *self._diagonal_mixture(), *self._first_extractor(), *self._iterations(),
                *self._extraction()]

    # -- data and features ---------------------------------------------------------------------------------------------

    def _parts(self, data: DataFolder) -> list[list[str]]:
        return split(data.utterances, data.utt2spk, self.options.nj, by_speaker=True)

    def _features(self, data: DataFolder) -> Features:
        return Features(data, f"--config={self.path}/online_cmvn.conf", True, self.path)

    def _write_lists(self) -> None:
        for kind, features, parts in (("ubm", self.ubm_features, self.ubm_parts), ("all", self.features, self.parts)):
            for number, utterances in enumerate(parts, 1):
                features.write_part(f"{kind}.{number}", utterances)
        self.ubm_features.write_part("ubm", self.ubm_data.utterances)
        chosen = evenly(self.ubm_data.utterances, self.options.pca_max_utts)
        write_list(self.path / "split" / "pca.scp", select(self.ubm_data.feats, chosen))
        options, config = self.options, self.path / "online_cmvn.conf"
        if options.online_cmvn_config:
            shutil.copyfile(options.online_cmvn_config, config)
        else:
            write_text(str(config), "# the defaults of apply-cmvn-online\n")
        if options.transform_dir:
            for name in ("final.mat", "splice_opts"):
                shutil.copyfile(Path(options.transform_dir) / name, self.path / name)
        else:
            write_text(str(self.path / "splice_opts"), f"{options.splice_opts}\n")
        write_text(str(self.path / "num_jobs"), f"{len(self.parts)}\n")
        flag = self.path / "online_cmvn_iextractor"
        flag.unlink(missing_ok=True)
        if options.online_cmvn_iextractor:
            flag.touch()

    @property
    def _splice_opts(self) -> str:
        if not self.options.transform_dir:
            return self.options.splice_opts.strip()
        return (Path(self.options.transform_dir) / "splice_opts").read_text(encoding="utf-8").strip()

    def _transformed(self, source: str, subsample: int) -> str:
        """Return ``source``, an rspecifier that ends in a pipe, with splicing, transform and subsampling added."""
        every = f" subsample-feats --n={subsample} ark:- ark:- |" if subsample > 1 else ""
        return (f'"{source} splice-feats {self._splice_opts} ark:- ark:- | '
                f'transform-feats {self.path}/final.mat ark:- ark:- |{every}"')

    def _normalized(self, features: Features, part: str, subsample: int) -> str:
        """Return the rspecifier of a part's online-normalized, transformed features, on which Gaussians are trained."""
        return self._transformed(features.rspecifier(part), subsample)

    def _plain(self, part: str) -> str:
        """Return the rspecifier of a part's transformed features, on which the extractor is trained."""
        if self.options.online_cmvn_iextractor:
            return self._normalized(self.features, part, self.options.subsample)
        return self._transformed(f"ark,s,cs:copy-feats scp:{self.path}/split/{part}/feats.scp ark:- |",
                                 self.options.subsample)

    # -- the steps -----------------------------------------------------------------------------------------------------

    def _preparation(self) -> Iterator[Step]:
        options = self.options
        yield Step(LISTS, "lists", "Checking the data", action=self._write_lists, jobs=[
            self.job(self.ubm_features.global_stats_command, "global_cmvn_stats")])
        if not options.transform_dir:
            features = (f"ark:apply-cmvn-online --config={self.path}/online_cmvn.conf {self.path}/global_cmvn.stats "
                        f"scp:{self.path}/split/pca.scp ark:- | splice-feats {self._splice_opts} ark:- ark:- | "
                        f"subsample-feats --n={options.pca_subsample} ark:- ark:- |")
            estimate = (f'est-pca --dim={options.pca_dim} --normalize-variance=true --normalize-mean=true "{features}" '
                        f"{self.path}/final.mat")
            yield Step(TRANSFORM, "pca", "Estimating the transform of features", [self.job(estimate, "pca_est")])

    def _diagonal_mixture(self) -> Iterator[Step]:
        options, path, numbers = self.options, self.path, range(1, len(self.ubm_parts) + 1)
        first = int(options.initial_gauss_proportion * options.num_gauss)
        yield Step(MIXTURE, "gmm_init", f"Training a mixture of {options.num_gauss} Gaussians on frames in memory", [
            self.job(f"gmm-global-init-from-feats --num-frames={options.ubm_num_frames} "
                     f"--min-gaussian-weight={options.min_gaussian_weight:g} --num-gauss={options.num_gauss} "
                     f"--num-gauss-init={first} --num-iters={options.ubm_num_iters_init} "
                     f"{self._normalized(self.ubm_features, 'ubm', 1)} {path}/0.dubm", "gmm_init")],
            result=lambda: self._likelihood("gmm_init", r"Likelihood per frame on iteration \d+ was (\S+)"))
        selections = [path / f"gselect.{number}.gz" for number in numbers]
        yield Step(PASSES, "gselect", "Choosing the Gaussians of each frame", [
            self.job(f"gmm-gselect --n={options.ubm_num_gselect} {path}/0.dubm {self._for_mixture(number)} "
                     f'"ark:| gzip -c > {path}/gselect.{number}.gz"', f"gselect.{number}") for number in numbers],
            needs=[path / "0.dubm"])
        yield from self._passes(PASSES, _DIAGONAL, options.ubm_num_iters, selections,
                                options.remove_low_count_gaussians)

    def _passes(self, stage: int, kind: _Mixture, count: int, selections: Sequence[Path],
                remove: bool) -> Iterator[Step]:
        """Yield the steps of ``count`` EM passes over all data for a mixture.

        ``selections`` are the files with the selected Gaussians of each frame, by part. If ``remove``, the last pass
        removes Gaussians with few frames.
        """
        for number in range(count):
            is_last = number == count - 1
            model = self.path / f"{number}.{kind.suffix}"
            result = self.path / f"{'final' if is_last else number + 1}.{kind.suffix}"
            stats = [self.path / f"{number}.{part}.{kind.stats_suffix}" for part in range(1, len(selections) + 1)]
            title = f"Pass {number + 1} of {count} over all data for {kind.what}"
            log = f"acc.{kind.suffix}.{number}"
            yield Step(stage, log, title, [
                self.job(f'{kind.programs}-acc-stats "--gselect=ark,s,cs:gunzip -c {selection} |" {model} '
                         f"{self._for_mixture(part)} {acc}", f"{log}.{part}")
                for part, (selection, acc) in enumerate(zip(selections, stats, strict=True), 1)], needs=[model])
            removing = str(remove and is_last).lower()              # earlier, selections would not fit
            yield Step(stage, f"update.{kind.suffix}.{number}", f"{title}: estimating", [
                self.job(f"{kind.programs}-est --remove-low-count-gaussians={removing} "
                         f"--min-gaussian-weight={self.options.min_gaussian_weight:g} {model} "
                         f'"{kind.programs}-sum-accs - {" ".join(map(str, stats))} |" {result}',
                         f"update.{kind.suffix}.{number}")],
                leaves=[*stats, model, *(selections if is_last else ())], result=partial(
                    self._likelihood, f"{log}.1", r"Overall likelihood per frame = (\S+)"))

    def _first_extractor(self) -> Iterator[Step]:
        options, path = self.options, self.path
        mixture = f'"gmm-global-to-fgmm {path}/final.dubm - |"'
        if options.full_num_iters:
            yield from self._full_mixture()
            mixture = f"{path}/final.ubm"
        yield Step(FULL, "init", f"Making an extractor of dimension {options.ivector_dim}", [
            self.job(f"ivector-extractor-init --ivector-dim={options.ivector_dim} --use-weights=false {mixture} "
                     f"{path}/0.ie", "init")], needs=[path / "final.dubm"])
        scale = options.posterior_scale * options.subsample
        yield Step(POSTERIORS, "post", "Computing the posteriors of the Gaussians", [
            self.job(f"gmm-global-get-post --n={options.num_gselect} --min-post={options.min_post:g} "
                     f"{path}/final.dubm {self._normalized(self.features, f'all.{number}', options.subsample)} ark:- | "
                     f'scale-post ark:- {scale:g} "ark:| gzip -c > {path}/post.{number}.gz"', f"post.{number}")
            for number in self._numbers], needs=[path / "final.dubm"])

    def _full_mixture(self) -> Iterator[Step]:
        """Yield the steps of training a full-covariance mixture from the diagonal one.

        The posteriors with which the extractor is trained are still those of the diagonal mixture.
        """
        options, path, numbers = self.options, self.path, range(1, len(self.ubm_parts) + 1)
        selections = [path / f"gselect.full.{number}.gz" for number in numbers]
        yield Step(FULL, "gselect", "Choosing the Gaussians of each frame for full covariances", [
            self.job(f"gmm-gselect --n={_FULL_GSELECT} {path}/final.dubm {self._for_mixture(number)} "
                     f'"ark:| gzip -c > {path}/gselect.full.{number}.gz"', f"gselect.full.{number}")
            for number in numbers], needs=[path / "final.dubm"])
        yield Step(FULL, "to_full", "Making full covariances of diagonal ones", [
            self.job(f"gmm-global-to-fgmm {path}/final.dubm {path}/0.ubm", "to_full")], needs=[path / "final.dubm"])
        yield from self._passes(FULL, _FULL, options.full_num_iters, selections, remove=False)

    def _iterations(self) -> Iterator[Step]:
        options, path = self.options, self.path
        for number in range(options.num_iters):
            model, result = self.folder.model(number), self.folder.model(number + 1)
            stats = [path / f"acc.{number}.{part}" for part in self._numbers]
            title = f"Iteration {number + 1} of {options.num_iters} of the extractor"
            likelihood = partial(self._likelihood, f"update.{number}", r"Overall auxf/frame on training data was (\S+)")
            yield Step(number, "acc", title, [
                self.job(f"ivector-extractor-acc-stats {model} {self._plain(f'all.{part}')} "
                         f'"ark,s,cs:gunzip -c {path}/post.{part}.gz |" {acc}', f"acc.{number}.{part}")
                for part, acc in enumerate(stats, 1)], needs=[model, *self._posteriors])
            yield Step(number, "update", f"{title}: estimating it", [
                self.job(f'ivector-extractor-est {model} "ivector-extractor-sum-accs {" ".join(map(str, stats))} - |" '
                         f"{result}", f"update.{number}")],
                leaves=[*stats, model], result=likelihood)
        last = options.num_iters
        yield Step(last, "final", f"Calling {last}.ie final.ie", action=self._finish, needs=[self.folder.model(last)],
                   leaves=self._posteriors)

    def _finish(self) -> None:
        name = f"{self.options.num_iters}.ie"
        write_text(str(self.path / "final.ie.id"), f"{hashlib.md5((self.path / name).read_bytes()).hexdigest()}\n")
        link(name, self.product)

    def _extraction(self) -> Iterator[Step]:
        if target := self.options.extract_to:
            yield Step(self.options.num_iters + 1, "extract", f"Extracting i-vectors to {target}",
                       action=lambda: self._extract(target), needs=[self.path / "final.ie"])

    def _extract(self, target: str) -> None:
        options = self.options
        values = {name: getattr(options, name) for name in (
            "feat_dir", "nj", "num_gselect", "min_post", "posterior_scale", "num_threads", "cleanup")}
        IvectorExtraction(IvectorOptions(dir=target, extractor_dir=str(self.path), **values), self.executor).run()

    @property
    def _numbers(self) -> range:
        return range(1, len(self.parts) + 1)

    @property
    def _posteriors(self) -> list[Path]:
        return [self.path / f"post.{number}.gz" for number in self._numbers]

    def _for_mixture(self, part: int) -> str:
        return self._normalized(self.ubm_features, f"ubm.{part}", self.options.ubm_subsample)

    def _likelihood(self, log: str, pattern: str) -> str:
        value = self.log_value(log, pattern)
        return f"log-likelihood of a frame: {value}" if value else ""


def evenly(items: Sequence[str], most: int) -> list[str]:
    """Return at most ``most`` of the items, evenly spaced. Kaldi: utils/subset_scp.pl."""
    if len(items) <= most:
        return list(items)
    return [items[number * len(items) // most] for number in range(most)]


def train_ivector_extractor(options: ExtractorOptions, executor: Executor | None = None,
                            terminal: IO[str] | None = None) -> None:
    """Train an extractor; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    ExtractorTraining(options, executor, terminal).run()


NEEDED = ("final.ie", "final.dubm", "final.mat", "global_cmvn.stats", "splice_opts", "online_cmvn.conf")
_EXTRACT, _JOIN = 0, 1             # stages, as in Kaldi's script


class IvectorExtraction(StagedWork):
    """Extraction of i-vectors: the driver ``extract-ivectors``."""

    options: IvectorOptions

    def begin(self) -> None:
        options, self.extractor = self.options, Path(self.options.extractor_dir)
        for name in NEEDED:
            if not (self.extractor / name).is_file():
                raise FormatError(f"expected the folder of an extractor, but it has no {name}",
                                  path=str(self.extractor), hint="train-ivector-extractor makes such a folder")
        self.data = DataFolder(options.feat_dir)
        self.data.check(["vad.scp"] if options.use_vad else [])
        self.utt2spk = self.data.utt2spk
        if options.utts_per_spk_max:
            self.utt2spk = with_fewer_utterances(self.utt2spk, options.utts_per_spk_max)
        self.parts = split(self.data.utterances, self.utt2spk, options.nj, by_speaker=True)

    def inputs(self) -> Iterator[Path]:
        yield from (self.data.path / name for name in ("feats.scp", "utt2spk"))
        if self.options.use_vad:
            yield self.data.path / "vad.scp"
        yield from (self.extractor / name for name in NEEDED)

    @property
    def product(self) -> Path:
        return self.path / "ivector_online.scp"

    def steps(self) -> list[Step]:
        weights = f"--frame-weights-rspecifier=scp:{self.data.path}/vad.scp " if self.options.use_vad else ""
        compress = str(self.options.compress).lower()
        folder, numbers = self.path.absolute(), range(1, len(self.parts) + 1)
        return [
            Step(_EXTRACT, "lists", "Checking the data", action=self._write_lists),
            Step(_EXTRACT, "extract", f"Extracting i-vectors, by {len(self.parts)} jobs", [
                self.job(f"ivector-extract-online2 --config={self.path}/conf/ivector_extractor.conf {weights}"
                         f"ark:{self.path}/split/{number}/spk2utt scp:{self.path}/split/{number}/feats.scp ark:- | "
                         f"copy-feats --compress={compress} ark:- "
                         f"ark,scp:{folder}/ivector_online.{number}.ark,{folder}/ivector_online.{number}.scp",
                         f"extract_ivectors.{number}") for number in numbers], result=self._improvement),
            Step(_JOIN, "join", "Joining the lists", action=self._join,
                 needs=[self.path / f"ivector_online.{number}.scp" for number in numbers])]

    def _write_lists(self) -> None:
        options, path, source = self.options, self.path, self.extractor
        for number, utterances in enumerate(self.parts, 1):
            write_part(path, str(number), self.data, self.utt2spk, utterances)
        conf = path / "conf"
        conf.mkdir(exist_ok=True)
        shutil.copyfile(source / "online_cmvn.conf", conf / "online_cmvn.conf")
        words = (source / "splice_opts").read_text(encoding="utf-8").split()
        write_text(str(conf / "splice.conf"), "".join(f"{word}\n" for word in words))
        values = {
            "cmvn-config": conf / "online_cmvn.conf", "ivector-period": options.ivector_period,
            "splice-config": conf / "splice.conf", "lda-matrix": source / "final.mat",
            "global-cmvn-stats": source / "global_cmvn.stats", "diag-ubm": source / "final.dubm",
            "ivector-extractor": source / "final.ie", "num-gselect": options.num_gselect,
            "min-post": f"{options.min_post:g}", "posterior-scale": f"{options.posterior_scale:g}",
            "max-remembered-frames": 1000, "max-count": f"{options.max_count:g}",
            **({"online-cmvn-iextractor": "true"} if (source / "online_cmvn_iextractor").exists() else {})}
        write_text(str(conf / "ivector_extractor.conf"),
                   "".join(f"--{name}={value}\n" for name, value in values.items()))
        write_text(str(path / "ivector_period"), f"{options.ivector_period}\n")
        if (source / "final.ie.id").is_file():
            shutil.copyfile(source / "final.ie.id", path / "final.ie.id")

    def _improvement(self) -> str:
        value = self.log_value("extract_ivectors.1", r"Average objective-function improvement was (\S+) per frame")
        return f"gain of a frame: {value}" if value else ""

    def _join(self) -> None:
        lines = [(self.path / f"ivector_online.{number}.scp").read_text(encoding="utf-8")
                 for number in range(1, len(self.parts) + 1)]
        write_text(str(self.product), "".join(sorted("".join(lines).splitlines(keepends=True),
                                                     key=lambda line: sort_key(line.split(" ", 1)[0]))))


def with_fewer_utterances(utt2spk: dict[str, str], most: int) -> dict[str, str]:
    """Split speakers into new ones of at most ``most`` utterances, called ``speaker-1`` and so on."""
    new_speakers = {}
    for speaker, utterances in spk2utt(utt2spk).items():
        for place, utterance in enumerate(utterances):
            new_speakers[utterance] = f"{speaker}-{place // most + 1}"
    return {utterance: new_speakers[utterance] for utterance in utt2spk}


def extract_ivectors(options: IvectorOptions, executor: Executor | None = None,
                     terminal: IO[str] | None = None) -> None:
    """Extract i-vectors; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    IvectorExtraction(options, executor, terminal).run()
