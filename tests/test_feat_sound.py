"""Changes of sound: resampling in pieces against the whole, speed and volume, reverberation, silence."""
from __future__ import annotations

import numpy as np
import pytest
from paths import DATA

from nnet3py.errors import NumericError, UsageError
from nnet3py.feat.options import RoomOptions, SilenceOptions
from nnet3py.feat.sound import (
    ROLLOFF,
    AddedSignal,
    Resampler,
    convolve,
    power,
    random_volume,
    resample,
    reverberate,
    with_silence,
    with_speed,
)

RNG = np.random.default_rng(1)
RATES = [(8000, 16000), (44100, 16000), (48000, 16000), (16000, 8000)]


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
@pytest.mark.parametrize("size", [7, 160, 4001])
def test_pieces_give_the_same_as_the_whole(rate, new_rate, size):
    samples = RNG.standard_normal(9001).astype(np.float32)
    resampler = Resampler(rate, new_rate, ROLLOFF)
    parts = [resampler.accept(samples[begin:begin + size]) for begin in range(0, len(samples), size)]
    np.testing.assert_array_equal(np.concatenate([*parts, resampler.finish()]), resample(samples, rate, new_rate))


def test_what_is_kept_does_not_grow():
    resampler = Resampler(44100, 16000)
    kept = set()
    for _ in range(300):
        resampler.accept(np.ones(441, dtype=np.float32))
        kept.add(len(resampler._kept))
    assert max(kept) < 600


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
def test_a_tone_keeps_its_height(rate, new_rate):
    seconds = np.arange(rate) / rate
    resampler = Resampler(rate, new_rate)
    tone = np.concatenate([resampler.accept(np.sin(2 * np.pi * 440 * seconds)), resampler.finish()])
    assert len(tone) == new_rate
    expected = np.sin(2 * np.pi * 440 * np.arange(new_rate) / new_rate)
    edge = new_rate // 100                  # a hundredth of a second, where the filter sees the beginning and the end
    np.testing.assert_allclose(tone[edge:-edge], expected[edge:-edge], atol=0.01)     # six zeros make a rough filter


def test_no_sound():
    resampler = Resampler(8000, 16000)
    assert len(resampler.accept(np.zeros(0, dtype=np.float32))) == len(resampler.finish()) == 0


def test_resampling_against_the_sum_itself():
    """Each output by the formula, one input after the other."""
    samples = np.random.default_rng(3).standard_normal(60).astype(np.float32)
    cutoff = 0.99 * 4000
    found = resample(samples, 12000, 8000)
    for number in (0, 7, 21, 39):
        total = 0.0
        for place, value in enumerate(samples):
            lag = place / 12000 - number / 8000
            if abs(lag) < 6 / (2 * cutoff):
                window = 0.5 * (1 + np.cos(2 * np.pi * cutoff / 6 * lag))
                total += value * window * 2 * cutoff * np.sinc(2 * cutoff * lag)
        assert abs(found[number] - total / 12000) < 1e-5


RATE = 16000
RIPPLE = 0.02       # of the resampling filter, which has few zeros
EDGE = 50           # samples at either end where the filter sees the silence outside


def tone(frequency: float, count: int = RATE // 2) -> np.ndarray:
    return np.sin(2 * np.pi * frequency / RATE * np.arange(count)).astype(np.float32)


def test_what_the_lower_rate_cannot_hold_is_removed():
    assert np.abs(resample(tone(6000), RATE, 8000)[EDGE:-EDGE]).max() < RIPPLE


@pytest.mark.parametrize("speed", [0.9, 1.1, 1.037, 2.0])
def test_a_faster_tone_is_higher_and_shorter(speed: float) -> None:
    found = with_speed(tone(440)[None], speed)
    assert found.shape == (1, int(np.ceil(RATE // 2 / speed - 1e-9))) and found.dtype == np.float32
    expected = tone(440 * speed, found.shape[1])
    np.testing.assert_allclose(found[0, EDGE:-EDGE], expected[EDGE:-EDGE], atol=RIPPLE)


def test_channels_are_changed_alike() -> None:
    both = with_speed(np.stack([tone(300), tone(500)]), 0.9)
    for channel, frequency in zip(both, (300, 500), strict=True):
        np.testing.assert_array_equal(channel, with_speed(tone(frequency)[None], 0.9)[0])


def test_speed_one_changes_nothing() -> None:
    samples = tone(440)[None]
    assert with_speed(samples, 1.0) is samples and with_speed(samples, 1.0001) is samples


@pytest.mark.parametrize("speed", [0.0, -1.0, 11.0, float("nan"), float("inf")])
def test_speeds_that_cannot_be(speed: float) -> None:
    with pytest.raises(UsageError, match="between 0.1 and 10"):
        with_speed(tone(440)[None], speed)


def test_volumes_depend_on_seed_and_key_only() -> None:
    factors = [random_volume(0, f"utterance-{n}", 0.125, 2.0) for n in range(500)]
    assert min(factors) >= 0.125 and max(factors) <= 2.0 and abs(np.mean(factors) - 1.0625) < 0.1     # its sd: 0.024
    assert random_volume(0, "utterance-7", 0.125, 2.0) == factors[7] != random_volume(1, "utterance-7", 0.125, 2.0)
    assert random_volume(3, "a", 1.0, 1.0) == 1.0


ROOM_RATE = 16000.0
KALDI = DATA / "features" / "tools" / "kaldi.npz"
FULL_SCALE = 32768
AS_IT_IS = RoomOptions(shift=False, normalize=False)


def slow_convolution(samples: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Sums of products; then, block by block, Kaldi's values at the lowest and the highest frequency."""
    count, taps = len(samples), len(response)
    size = 4
    while size < 4 * taps:
        size *= 2
    result = np.zeros(count + taps - 1 + size)
    for t, value in enumerate(samples):
        result[t:t + taps] += value * response
    sign = np.where(np.arange(size) % 2, -1.0, 1.0)
    low, high = response.sum(), response @ sign[:taps]
    for begin in range(0, count, size - taps + 1):
        block = samples[begin:begin + size - taps + 1]
        block_low, block_high = block.sum(), block @ sign[:len(block)]
        result[begin:begin + size] += (-block_high * high
                                       + sign * (block_low * high + block_high * low - block_high * high)) / size
    return result[:count + taps - 1]


@pytest.mark.parametrize("count, taps", [(1, 1), (1, 7), (50, 1), (50, 2), (9, 8), (300, 9), (1000, 5), (700, 64)])
def test_convolution(count, taps):
    rng = np.random.default_rng(count + taps)
    samples, response = rng.normal(3, 10, count), rng.normal(1, 1, taps)
    np.testing.assert_allclose(convolve(samples, response), slow_convolution(samples, response), rtol=0, atol=1e-9)


def test_many_blocks_at_once():
    rng = np.random.default_rng(1)
    samples, response = rng.normal(0, 10, 1 << 21), np.array([0.5, -0.25])
    samples -= samples.mean()
    both = convolve(samples, response)
    plain = np.convolve(samples, response)
    assert len(both) == len(plain) and np.sqrt(np.mean((both - plain) ** 2)) < 10      # blocks of four numbers


def test_sound_without_offset_is_convolved_as_usual():
    t = np.arange(4000)
    samples = np.round(1000 * np.sin(t * 0.1) * np.hanning(len(t)))
    response = np.diff(np.hanning(64), prepend=0.0)
    np.testing.assert_allclose(convolve(samples, response), np.convolve(samples, response), atol=0.1)


def test_agrees_with_kaldi():
    data = np.load(KALDI)
    result = reverberate(data["utt1"], ROOM_RATE, data["rir"], options=AS_IT_IS)[:len(data["utt1"])]
    assert np.abs(np.trunc(result)[::8] - data["reverberated"]).max() <= 1


@pytest.fixture
def sound():
    return np.round(np.random.default_rng(2).normal(0, 500, 3000)).astype(np.float32)


@pytest.fixture
def response():
    rng = np.random.default_rng(3)
    taps = rng.normal(0, 3000, 1200) * np.exp(-np.arange(1200) / 200)
    taps[20] = 30000
    return np.round(taps).astype(np.float32)


def test_power_of_the_input_is_kept(sound, response):
    whole = slow_convolution(sound.astype(np.float64), response.astype(np.float64) / FULL_SCALE)
    expected = whole * np.sqrt(np.mean(sound.astype(np.float64) ** 2) / np.mean(whole ** 2))
    np.testing.assert_allclose(reverberate(sound, ROOM_RATE, response), expected[20:3020], atol=1e-6)
    longer = reverberate(sound, ROOM_RATE, response, options=RoomOptions(shift=False))
    np.testing.assert_allclose(longer, np.concatenate((expected[:3000], expected[:1199])), atol=1e-6)


@pytest.mark.parametrize("with_room", [False, True])
def test_added_signals(sound, response, with_room):
    noise = np.random.default_rng(4).normal(0, 9, 2000).astype(np.float32)
    added = [AddedSignal(noise, 10.0, 0.1), AddedSignal(noise[:100], -5.0, 0.0), AddedSignal(noise, 3.0, 99.0)]
    found = reverberate(sound, ROOM_RATE, response if with_room else None, added, AS_IT_IS)
    early, expected = sound.astype(np.float64), sound.astype(np.float64)
    if with_room:
        taps = response.astype(np.float64) / FULL_SCALE
        early, expected = slow_convolution(early, taps[4:820]), slow_convolution(expected, taps)
    for signal in added[:2]:
        samples = signal.samples.astype(np.float64)
        factor = np.sqrt(10 ** (-signal.snr / 10) * np.mean(early ** 2) / (np.mean(samples ** 2) + 1.2e-7))
        begin = int(signal.start * ROOM_RATE)
        end = min(len(expected), begin + len(samples))
        expected[begin:end] += factor * samples[:end - begin]
    if with_room:
        expected = np.concatenate((expected[:3000], expected[:1199]))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("seconds, count", [(0.05, 800), (0.5, 8000), (0.1875, 3000)])
def test_duration_and_volume(sound, response, seconds, count):
    found = reverberate(sound, ROOM_RATE, response, options=RoomOptions(duration=seconds, volume=0.5))
    once = slow_convolution(sound.astype(np.float64), response.astype(np.float64) / FULL_SCALE)[20:3020] * 0.5
    np.testing.assert_allclose(found, [once[t % 3000] for t in range(count)], atol=1e-6)


def test_silence_stays_silence(response):
    silence = np.zeros(100, np.float32)
    noise = AddedSignal(np.ones(10, np.float32), 10.0, 0.0)
    np.testing.assert_array_equal(reverberate(silence, ROOM_RATE, response, [noise]), silence)
    np.testing.assert_allclose(reverberate(np.ones(9, np.float32), ROOM_RATE, None, [AddedSignal(silence, 0.0, 0.0)]),
                               np.ones(9))
    assert not reverberate(np.ones(9, np.float32), ROOM_RATE, np.zeros(5, np.float32)).any()


@pytest.mark.parametrize("duration", [-1.0, float("nan"), float("inf"), 1e9])
def test_durations_that_cannot_be(sound, duration):
    with pytest.raises(UsageError, match="duration"):
        reverberate(sound, ROOM_RATE, options=RoomOptions(duration=duration))


def test_values_that_cannot_be(sound):
    for start in (-1.0, float("nan"), 1e9):
        with pytest.raises(UsageError, match="an additive signal starts at"):
            reverberate(sound, ROOM_RATE, added=[AddedSignal(sound, 0.0, start)])
    for snr in (float("nan"), float("-inf"), -1e5):
        with pytest.raises(NumericError, match="NaN or infinity"):
            reverberate(sound, ROOM_RATE, added=[AddedSignal(sound, snr, 0.0)])


# -- silence -----------------------------------------------------------------------------------------------------------


def test_the_quietest_piece_is_repeated():
    rate, rng = 1000.0, np.random.default_rng(5)
    samples = rng.normal(0, 1000, 3000)
    samples[-300:-200] = rng.normal(0, 2, 100)           # two pieces of 50 samples, found by steps of 25
    longer = with_silence(samples.astype(np.float32), rate, SilenceOptions(length=1.5))
    assert longer.dtype == np.float32 and len(longer) == 4500
    np.testing.assert_array_equal(longer[:3000], samples.astype(np.float32))
    assert 0.2 < power(longer[3000:]) < 20
    np.testing.assert_array_equal(longer[3000:3025], longer[3025:3050])


def test_constant_sound_goes_on():
    longer = with_silence(np.full(400, 7.0, np.float32), 1000.0, SilenceOptions(length=0.3))
    np.testing.assert_allclose(longer, 7.0, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 49, 50, 51, 499, 500, 501])
def test_short_sound(count):
    longer = with_silence(np.arange(1, count + 1, dtype=np.float32), 1000.0, SilenceOptions(length=0.1))
    assert len(longer) == count + 100 and np.isfinite(longer).all()
    assert np.abs(longer[count:]).max() <= max(count, 50)


@pytest.mark.parametrize("changed", [{"length": 0.0}, {"length": float("nan")}, {"search": -1.0}, {"shift": 0.0},
                                     {"extract": 0.6}, {"length": 1e9}])
def test_silence_that_cannot_be(changed):
    with pytest.raises(UsageError, match="expected lengths above 0"):
        with_silence(np.ones(1000, np.float32), 1000.0, SilenceOptions(**changed))
