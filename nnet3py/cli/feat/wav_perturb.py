"""wav-perturb: sound at other speeds and volumes, as more of it to train on."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, option


@kaldi_command("wav-perturb", group="Sound and features", help="Change the speed and the volume of sound.", usage="""
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
    option("min-volume", float, 1.0, "Least factor of the volume"),
    option("max-volume", float, 1.0, "Largest factor of the volume"),
    option("srand", int, 0, "Seed of the volumes, which depend on it and on the key only"),
])
def wav_perturb(args: list[str], options: Options) -> int:
    """Write the changed sound; 1 if there was none."""
    from contextlib import ExitStack

    import numpy as np

    from nnet3py.cli.process.copying import convert_table
    from nnet3py.feat.sound import random_volume, with_speed
    from nnet3py.formats.foreign_files import WAVE, Wave
    from nnet3py.formats.holders import FLOAT
    from nnet3py.io.tables import RandomAccessReader

    least, largest = options.min_volume, options.max_volume
    if not 0.0 < least <= largest:
        raise OptionError(f"--min-volume={least:g} must be above 0, and --max-volume={largest:g} not below it")
    with ExitStack() as inputs:
        speeds = inputs.enter_context(RandomAccessReader(options.utt2speed, FLOAT)) if options.utt2speed else None

        def perturbed(key: str, wave: Wave) -> Wave | None:
            speed = options.speed if speeds is None else speeds.get(key)
            if speed is None:
                log.warning(f"No speed for utterance {key}")
                return None
            volume = random_volume(options.srand, key, least, largest)
            return wave._replace(samples=np.rint(volume * with_speed(wave.samples, speed)))

        done, missing = convert_table(args[0], args[1], WAVE, WAVE, perturbed, inputs=inputs)
    log.log(f"Perturbed {done} wave files" + (f"; {missing} had no speed" if missing else ""))
    return 0 if done else 1
