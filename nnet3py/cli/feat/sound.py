"""wav-copy, wav-to-duration and wav-perturb: copies of sound, their durations, other speeds and volumes."""
from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_any, convert_table
from nnet3py.cli.process.options import OptionError, Options, option

if TYPE_CHECKING:
    from nnet3py.formats.foreign_files import Wave


@kaldi_command("wav-copy", "Sound and features", "Copy sound.", """
Copy sound: a table of WAVE files, or one file. The output has 16 bits per sample.

Usage: wav-copy [options] <wav-rspecifier> <wav-wspecifier>
or:   wav-copy [options] <wav-rxfilename> <wav-wxfilename>
e.g.: wav-copy scp:wav.scp ark:wav.ark
or: wav-copy wav.ark:123456 one.wav
See also: wav-to-duration, extract-segments
""", arguments=(2, 2))
def wav_copy(args: list[str], options: Options) -> int:
    from nnet3py.formats.foreign_files import WAVE

    return convert_any(args, WAVE, WAVE, lambda key, wave: wave, "Copied {done} wave files",
                       f"Copied wave file from {args[0]} to {args[1]}", binary=False)


@kaldi_command("wav-to-duration", "Sound and features", "Write the durations of sounds.", """
Write the duration of each sound in seconds.

Usage: wav-to-duration [options] <wav-rspecifier> <duration-wspecifier>
e.g.: wav-to-duration scp:wav.scp ark,t:-
See also: wav-copy, feat-to-len
""", arguments=(2, 2), options=[
    option("read-entire-file", bool, False, "Count the samples instead of believing the header"),
])
def wav_to_duration(args: list[str], options: Options) -> int:
    from nnet3py.formats.foreign_files import WAVE, WAVE_DURATION
    from nnet3py.formats.holders import FLOAT
    from nnet3py.io.tables import SequentialReader, TableWriter

    lengths: list[float] = []
    holder: Any = WAVE if options.read_entire_file else WAVE_DURATION
    with TableWriter(args[1], FLOAT) as writer, SequentialReader(args[0], holder) as sounds:
        for key, sound in sounds:
            lengths.append(sound.duration if options.read_entire_file else sound)
            writer.write(key, lengths[-1])
    log.log(f"Printed duration for {len(lengths)} audio files.")
    if lengths:
        log.log(f"Mean duration was {sum(lengths) / len(lengths):g}, min and max durations were {min(lengths):g}, "
                f"{max(lengths):g}")
    return 0 if lengths else 1


@kaldi_command("wav-perturb", "Sound and features", "Change the speed and the volume of sound.", """
Change the speed and the volume of sound, so that there is more of it to train on. Speed is changed as by playing a
tape faster, so the pitch changes, too; Kaldi's recipes use sox for this. The volume of each utterance is multiplied
by a random factor between --min-volume and --max-volume. The output has 16 bits per sample.

Usage: wav-perturb [options] <wav-rspecifier> <wav-wspecifier>
e.g.: wav-perturb --speed=0.9 --min-volume=0.125 --max-volume=2 scp:wav.scp ark:- | \
compute-mfcc-feats ark:- ark:mfcc.ark
See also: wav-copy, compute-mfcc-feats
""", arguments=(2, 2), options=[
    option("speed", float, 1.0, "Factor of the speed: 1.1 makes sound shorter"),
    option("utt2speed", str, "", "Rspecifier of the factors of utterances, in place of --speed"),
    option("min-volume", float, 1.0, "Least factor of the volume", above=0),
    option("max-volume", float, 1.0, "Largest factor of the volume", below=math.inf),
    option("srand", int, 0, "Seed of the volumes, which depend on it and on the key only"),
])
def wav_perturb(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.feat.sound import random_volume, with_speed
    from nnet3py.formats.foreign_files import WAVE
    from nnet3py.formats.holders import FLOAT
    from nnet3py.io.tables import RandomAccessReader

    least, largest = options.min_volume, options.max_volume
    if least > largest:
        raise OptionError(f"--min-volume={least:g} is more than --max-volume={largest:g}")
    with ExitStack() as inputs:
        speeds = inputs.enter_context(RandomAccessReader(options.utt2speed, FLOAT)) if options.utt2speed else None

        def perturbed(key: str, wave: Wave) -> Wave | None:
            speed = options.speed if speeds is None else speeds.get(key)
            if speed is None:
                log.warning(f"No speed for utterance {key}")
                return None
            volume = random_volume(options.srand, key, least, largest)
            return wave._replace(samples=np.rint(volume * with_speed(wave.samples, speed)))

        counts = convert_table(args[0], args[1], WAVE, WAVE, perturbed, inputs=inputs)
    return counts.report("Perturbed {done} wave files" + ("; {errors} had no speed" if counts.errors else ""))
