"""Samples of sound as programs have them, and as features are computed of them."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.formats.foreign_files import FULL_SCALE

Block = bytes | bytearray | memoryview | np.ndarray

_LARGEST = 32.0                # of samples that are meant to be from -1 to 1


def samples_of(sound: Block, channel: int | None = None) -> np.ndarray:
    """float32 (samples,), of the range of 16 bits, new.

    Parameters
    ----------
    sound : bytes of 16-bit samples (little-endian); or an array of int16, or of float32 or float64 from -1 to 1, of one
        channel: (samples,) or (samples, 1). With ``channel``, (samples, channels)
    channel : which one to take, from 0

    Raises UsageError for another type, or floating-point samples beyond -32 to 32; ShapeError for several channels
    where none is chosen, or one that there is not; NumericError for NaN or infinity.
    """
    if isinstance(sound, bytes | bytearray | memoryview):
        data = bytes(sound)
        if len(data) % 2:
            raise UsageError(f"expected bytes of 16-bit samples, found {len(data)} bytes")
        return np.frombuffer(data, dtype="<i2").astype(np.float32)
    if not isinstance(sound, np.ndarray) or sound.dtype.type not in (np.int16, np.float32, np.float64):
        kind = f"an array of {sound.dtype}" if isinstance(sound, np.ndarray) else type(sound).__name__
        raise UsageError(f"expected bytes of 16-bit samples, or an array of int16 or float32, found {kind}",
                         "tensor.numpy() makes one of a tensor" if type(sound).__name__ == "Tensor" else
                         "np.asarray(sound, np.int16) makes one of samples of 16 bits")
    if channel is not None and (sound.ndim != 2 or not 0 <= channel < sound.shape[1]):
        raise ShapeError(f"there is no channel {channel} in an array of shape {sound.shape}",
                         "expected (samples, channels)")
    if channel is None and sound.ndim != 1 and sound.shape[1:] != (1,):
        raise ShapeError(f"expected the samples of one channel, found an array of shape {sound.shape}",
                         "give one channel, such as array[:, 0], or their mean")
    samples = sound.reshape(-1) if channel is None else sound[:, channel]
    if samples.dtype == np.int16:
        return samples.astype(np.float32)
    if not np.isfinite(samples).all():
        raise NumericError(f"sample {int((~np.isfinite(samples)).argmax())} of a block is NaN or infinite")
    if len(samples) and float(np.abs(samples).max()) > _LARGEST:
        raise UsageError(f"expected floating-point samples from -1 to 1, found {float(np.abs(samples).max()):g}",
                         "divide samples of the range of 16 bits by 32768, or give int16")
    return samples.astype(np.float32) * FULL_SCALE
