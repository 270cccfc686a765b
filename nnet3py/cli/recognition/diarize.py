"""nnet3py diarize: who spoke when."""
from __future__ import annotations

import os

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import NUM_THREADS, QUIET
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.option_fields import settings_of
from nnet3py.recognition.options import DiarizationOptions

_ENDINGS = {"rttm": ".rttm", "json": ".json"}


@kaldi_command("diarize", usage="""
Find out who spoke when in sound files, and print it as RTTM or JSON. The model is a folder of a speaker model as
published for vosk (mfcc.conf, final.ext.raw, mean.vec, transform.mat); if there is a file plda in it, pieces of speech
are compared by PLDA, else by the angle of their vectors. With --out each sound gets a file in a folder. A sound that
cannot be read gives a warning, and the exit status is 1. With --reference errors are counted and printed.

Usage:  nnet3py diarize [options] --model=<speaker-model> <sound-or-folder> [<sound-or-folder> ...]

e.g.:
 nnet3py diarize --model=vosk-model-spk-0.4 meeting.wav > meeting.rttm
 nnet3py diarize --model=vosk-model-spk-0.4 --num-speakers=2 --out=turns calls/
See also: transcribe --speakers, agglomerative-cluster, ivector-plda-scoring-dense
""", arguments=(1, None), detached_values=True, options_anywhere=True, options=[
    QUIET,
    option("model", str, "", "Folder of the speaker model"),
    option("format", str, "rttm", "What to write: rttm or json", choices=tuple(_ENDINGS)),
    option("out", str, "", "Folder for the results, a file for each sound; empty: standard output"),
    *declared(settings_of(DiarizationOptions)),
    option("reference", str, "", "RTTM file of who really spoke when: print how much of it is wrong, and how"),
    option("collar", float, 0.25, "Seconds around each border of the reference that do not count"),
    option("channel", int, -1, "Channel to take, from 0; -1: the mean of all"),
    NUM_THREADS,
])
def diarize(args: list[str], options: Options) -> int:
    """Write who spoke when; 1 if a sound could not be read."""
    import json

    from nnet3py.engine.threads import set_num_threads
    from nnet3py.io.streams import read_text, write_text
    from nnet3py.recognition import diarization
    from nnet3py.recognition.sound import find_sounds, result_path
    from nnet3py.recognition.speaker import SpeakerModel

    how = fields_from(options, DiarizationOptions())
    how.check()
    if not options.model:
        raise UsageError("no speaker model was given", "--model takes its folder")
    set_num_threads(options.num_threads)
    sounds = find_sounds(args)
    reference = diarization.read_rttm(read_text(options.reference), options.reference) if options.reference else {}
    model = SpeakerModel.read(options.model)
    failed = 0
    errors = []
    for number, sound in enumerate(sounds):
        log.show_status(f"{number} of {len(sounds)} sounds done, now {sound.path}")
        try:
            turns = diarization.diarize(model, sound.path, options=how,
                                        channel=None if options.channel < 0 else options.channel)
            if reference:
                errors.append(diarization.diarization_errors(reference.get(sound.name, []), turns, options.collar))
        except Nnet3Error as error:
            log.warning(f"{sound.path}: {error}")
            failed += 1
            continue
        text = diarization.rttm(sound.name, turns) if options.format == "rttm" else json.dumps(
            {"name": sound.name, "turns": [turn._asdict() for turn in turns]}, ensure_ascii=False) + "\n"
        path = result_path(sound, options.out, _ENDINGS[options.format]) if options.out else "-"
        if options.out:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        if options.out or not reference:
            write_text(path, text)
    log.show_status("")
    if errors:
        every = diarization.DiarizationErrors(*map(sum, zip(*errors, strict=True)))
        shares = [100 * part / every.total for part in every[:3]]
        write_text("-", f"diarization error rate {100 * every.rate:.2f} % of {every.total:.0f} s in {len(errors)} "
                   f"sounds: missed {shares[0]:.2f}, false alarm {shares[1]:.2f}, confused {shares[2]:.2f}\n")
    return 1 if failed else 0
