"""The driver that extracts the i-vectors of a data directory, as an online recognizer would see them.

    extract_ivectors(IvectorOptions(feat_dir="data/train", extractor_dir="exp/extractor", dir="exp/ivectors_train"))

Kaldi: steps/online/nnet2/extract_ivectors_online.sh; utils/data/modify_speaker_info.sh for --utts-per-spk-max.
"""
from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nnet3py.drivers.egs.data_folder import DataFolder, select, spk2utt, write_list
from nnet3py.drivers.egs.parts import split
from nnet3py.drivers.jobs.executor import Executor
from nnet3py.drivers.preparation_options import IvectorOptions
from nnet3py.drivers.staged import StagedWork, Step
from nnet3py.errors import FormatError
from nnet3py.io.archive import sort_key
from nnet3py.io.streams import write_text

NEEDED = ("final.ie", "final.dubm", "final.mat", "global_cmvn.stats", "splice_opts", "online_cmvn.conf")
_EXTRACT, _JOIN = 0, 1             # stages, as in Kaldi's script


class IvectorExtraction(StagedWork):
    """extract-ivectors."""

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
            Step(_EXTRACT, "lists", "Looking at the data", action=self._write_lists),
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
            part = path / "split" / str(number)
            part.mkdir(parents=True, exist_ok=True)
            write_list(part / "feats.scp", select(self.data.feats, utterances))
            speakers = spk2utt(select(self.utt2spk, utterances))
            write_list(part / "spk2utt", {speaker: " ".join(keys) for speaker, keys in speakers.items()})
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
    """Speakers taken apart into ones of at most ``most`` utterances each, called ``speaker-1`` and so on."""
    new_speakers = {}
    for speaker, utterances in spk2utt(utt2spk).items():
        for place, utterance in enumerate(utterances):
            new_speakers[utterance] = f"{speaker}-{place // most + 1}"
    return {utterance: new_speakers[utterance] for utterance in utt2spk}


def extract_ivectors(options: IvectorOptions, executor: Executor | None = None,
                     terminal: IO[str] | None = None) -> None:
    """Extract i-vectors; arguments as for :class:`nnet3py.drivers.staged.StagedWork`."""
    IvectorExtraction(options, executor, terminal).run()
