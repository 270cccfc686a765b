"""What becomes of a sound before a recognizer gets it: codecs, telephones, rooms, noise.

Every function takes and returns float32 (samples,) at RATE, of int16 range; what comes back is as long as what went in.
MP3 and Opus are coded by PyAV (pip install av), GSM 06.10 by soundfile (pip install soundfile), mu-law by numpy.
"""
from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from synthetic_speech import RATE, impulse_response, noise

TELEPHONE_RATE = 8000
LARGEST = 32767.0
MU = 255.0                               # of the mu-law, ITU-T G.711
OPUS_RATE = 48000                        # the only one that every Opus coder has
Condition = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def mp3(sound: np.ndarray, kilobits: int, rate: int = RATE) -> np.ndarray:
    """The sound after MP3 at ``kilobits`` a second, coded at ``rate`` samples a second."""
    return _through("mp3", "libmp3lame", sound, kilobits, rate)


def opus(sound: np.ndarray, kilobits: int) -> np.ndarray:
    """The sound after Opus at ``kilobits`` a second."""
    return _through("ogg", "libopus", sound, kilobits, OPUS_RATE)


def gsm(sound: np.ndarray) -> np.ndarray:
    """The sound after GSM 06.10, the full-rate codec of mobile telephones: 8 kHz, 13 kbit/s."""
    import soundfile

    file = io.BytesIO()
    samples = _clipped(_at(TELEPHONE_RATE, sound)).astype(np.int16)
    soundfile.write(file, samples, TELEPHONE_RATE, format="WAV", subtype="GSM610")
    file.seek(0)
    return _fitted(_back(TELEPHONE_RATE, soundfile.read(file, dtype="int16")[0]), len(sound))


def mu_law(sound: np.ndarray) -> np.ndarray:
    """The sound over a fixed telephone line: 8 kHz, 8 bits a sample by the mu-law."""
    scaled = _clipped(_at(TELEPHONE_RATE, sound)) / (LARGEST + 1.0)
    bent = np.sign(scaled) * np.log1p(MU * np.abs(scaled)) / np.log1p(MU)
    codes = np.round((bent + 1.0) / 2.0 * 255.0)
    bent = codes / 255.0 * 2.0 - 1.0
    scaled = np.sign(bent) * np.expm1(np.abs(bent) * np.log1p(MU)) / MU
    return _fitted(_back(TELEPHONE_RATE, scaled * LARGEST), len(sound))


def noisy(sound: np.ndarray, decibels: float, rng: np.random.Generator, other: np.ndarray | None = None) -> np.ndarray:
    """The sound with noise of a random kind, ``decibels`` below it; ``other``: a voice for the noise of many."""
    added = noise(len(sound), np.zeros(0, np.float32) if other is None else other, rng)
    power = np.sqrt(np.mean(np.square(sound)) + 1e-9)
    return _clipped(sound + power * 10.0 ** (-decibels / 20) * added)


def reverberant(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sound in a room."""
    from scipy.signal import fftconvolve

    return _clipped(fftconvolve(sound, impulse_response(rng))[:len(sound)])


def _through(container: str, codec: str, sound: np.ndarray, kilobits: int, rate: int) -> np.ndarray:
    """Coded and decoded by PyAV."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate, layout="mono")
        stream.bit_rate = 1000 * kilobits
        frame = av.AudioFrame.from_ndarray(_clipped(_at(rate, sound)).astype(np.int16)[None], "s16", "mono")
        frame.rate = rate
        for part in av.AudioResampler(stream.format, "mono", rate, stream.frame_size).resample(frame):
            out.mux(stream.encode(part))
        out.mux(stream.encode(None))
    file.seek(0)
    with av.open(file) as coded:
        resampler = av.AudioResampler("s16", "mono", rate)
        parts = [part.to_ndarray()[0] for frame in coded.decode(audio=0) for part in resampler.resample(frame)]
        parts += [part.to_ndarray()[0] for part in resampler.resample(None)]
    return _fitted(_back(rate, np.concatenate(parts)), len(sound))


def _at(rate: int, sound: np.ndarray) -> np.ndarray:
    """The sound, at another rate."""
    from nnet3py.feat.sound import resample

    return resample(np.asarray(sound, np.float32), RATE, rate)


def _back(rate: int, sound: np.ndarray) -> np.ndarray:
    """A sound of another rate, at RATE."""
    from nnet3py.feat.sound import resample

    return resample(np.asarray(sound, np.float32), rate, RATE)


def _clipped(sound: np.ndarray) -> np.ndarray:
    """float32, whole numbers of int16 range."""
    return np.clip(np.round(sound), -LARGEST - 1.0, LARGEST).astype(np.float32)


def _fitted(sound: np.ndarray, length: int) -> np.ndarray:
    """The sound, cut off or with zeros behind it."""
    return _clipped(np.pad(sound[:length], (0, max(0, length - len(sound)))))
