"""wav-reverberate and extend-wav-with-silence: sound with reverberation, noise, and silence at its end."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_any, write_value
from nnet3py.cli.process.options import OptionError, Options, declared, fields_from, option
from nnet3py.errors import UsageError
from nnet3py.feat.options import RoomOptions, SilenceOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.formats.foreign_files import Wave


def _read_sound(rxfilename: str, rate: float | None = None) -> Wave:
    """Read a file of sound; raise UsageError if it has another sampling rate than ``rate``."""
    from nnet3py.formats.foreign_files import read_wave
    from nnet3py.io.object_files import read_object

    wave = read_object(rxfilename, read_wave)
    if rate is not None and wave.rate != rate:
        raise UsageError(f"{rxfilename} has {wave.rate:g} samples per second, expected {rate:g}, as the input has",
                         "convert one of them with sox, which may be in a pipe: 'sox x.wav -r 16000 -t wav - |'")
    return wave


@kaldi_command("wav-reverberate", "Sound and features", "Reverberate sound, and add noise to it.", """
Reverberate sound with the impulse response of a room, and add noise or other signals to it.

Usage: wav-reverberate [options] <wav-in-rxfilename> <wav-out-wxfilename>
e.g.: wav-reverberate --duration=20.25 --impulse-response=rir.wav --additive-signals='noise1.wav,noise2.wav' \\
 --snrs='20.0,15.0' --start-times='0,17.8' input.wav output.wav
See also: wav-copy, wav-perturb
""", arguments=(2, 2), options=[
    option("impulse-response", str, "", "File with the impulse response of a room"),
    option("additive-signals", str, "", "Files with signals to add, with commas between them"),
    option("snrs", str, "", "Signal-to-noise ratios of these signals in dB, with commas between them"),
    option("start-times", str, "", "Start times of these signals in seconds, with commas between them"),
    option("multi-channel-output", bool, False, "Write as many channels as the impulse response has, or without one "
           "the additive signals"),
    option("input-wave-channel", int, 0, "Channel of the input to take"),
    option("rir-channel", int, 0, "Channel of the impulse response to take, without --multi-channel-output"),
    option("noise-channel", int, 0, "Channel of the additive signals to take, without --multi-channel-output"),
    *declared(settings_of(RoomOptions)),
])
def wav_reverberate(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.feat.sound import AddedSignal, reverberate
    from nnet3py.formats.foreign_files import WAVE, Wave

    names = options.additive_signals.split(",") if options.additive_signals else []
    snrs, starts = _numbers(options.snrs, "snrs"), _numbers(options.start_times, "start-times")
    if not len(names) == len(snrs) == len(starts):
        raise OptionError(f"--additive-signals names {len(names)} signals, --snrs has {len(snrs)} numbers and "
                          f"--start-times {len(starts)}", "there must be as many of each")
    wave = _read_sound(args[0])
    sound = wave.samples[_channel(wave, options.input_wave_channel, "input-wave-channel")]
    room = _read_sound(options.impulse_response, wave.rate) if options.impulse_response else None
    signals = [_read_sound(name, wave.rate) for name in names]
    settings = fields_from(options, RoomOptions())
    count = _num_outputs(room, signals) if options.multi_channel_output else 1
    channels = []
    for number in range(count):
        response = None
        if room is not None:
            wanted = number if options.multi_channel_output else options.rir_channel
            response = room.samples[_channel(room, wanted, "rir-channel")]
        added = []
        for signal, snr, start in zip(signals, snrs, starts, strict=True):
            wanted = number if options.multi_channel_output and len(signal.samples) > 1 else options.noise_channel
            added.append(AddedSignal(signal.samples[_channel(signal, wanted, "noise-channel")], snr, start))
        channels.append(reverberate(sound, wave.rate, response, added, settings))
    write_value(args[1], WAVE, Wave(wave.rate, np.stack(channels)), binary=False)
    return 0


def _numbers(text: str, name: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError:
        raise OptionError(f"Invalid option --{name}={text}", "expected numbers with commas between them") from None


def _channel(wave: Wave, wanted: int, name: str) -> int:
    if not 0 <= wanted < len(wave.samples):
        raise OptionError(f"--{name}={wanted}: the file has {len(wave.samples)} channels, counted from 0")
    return wanted


def _num_outputs(room: Wave | None, signals: list[Wave]) -> int:
    """Return the number of channels to write: that of the impulse response ``room``, else the most of a signal.

    Raises UsageError for a signal that has neither this number of channels nor one.
    """
    counts = [len(wave.samples) for wave in signals if len(wave.samples) > 1]
    count = len(room.samples) if room is not None else max(counts, default=1)
    if any(other != count for other in counts):
        raise UsageError(f"with --multi-channel-output, expected additive signals of {count} channels, or of one, "
                         f"found one of {next(other for other in counts if other != count)}")
    return count


@kaldi_command("extend-wav-with-silence", "Sound and features", "Append silence to sound.", """
Append silence to sound: the quietest piece of its beginning and its end, repeated. Such sound is for tests of how
recognition detects the end of an utterance.

Usage: extend-wav-with-silence [options] <wav-rspecifier> <wav-wspecifier>
or:   extend-wav-with-silence [options] <wav-rxfilename> <wav-wxfilename>
e.g.: extend-wav-with-silence --extra-silence-length=2 scp:wav.scp ark:- | wav-to-duration ark:- ark,t:-
See also: wav-copy, wav-reverberate, online2-wav-nnet3-latgen-faster
""", arguments=(2, 2), options=[
    *declared(settings_of(SilenceOptions)),
])
def extend_wav_with_silence(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.feat.sound import with_silence
    from nnet3py.formats.foreign_files import WAVE

    settings = fields_from(options, SilenceOptions())

    def extended(key: str, wave: Wave) -> Wave:
        return wave._replace(samples=np.stack([with_silence(channel, wave.rate, settings)
                                               for channel in wave.samples]))

    return convert_any(args, WAVE, WAVE, extended, "Successfully extended {done} files.",
                       f"Appended {options.extra_silence_length:g} seconds of silence to {args[0]}", binary=False)
