"""Options of making training examples: how utterances are cut, and how images are changed at random. Light."""
from __future__ import annotations

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.option_fields import opt, options_class

LONGEST_CHUNK = 10_000_000     # frames, more than a day of speech
FILL_MODES = ("nearest", "reflect")


@options_class(frozen=True)
class SplitOptions:
    """Options of cutting utterances into examples. Kaldi: ExampleGenerationConfig."""

    left_context: int = opt("left-context", 0, "Frames of left context in each example")
    right_context: int = opt("right-context", 0, "Frames of right context in each example")
    left_context_initial: int = opt("left-context-initial", -1,
                                    "As --left-context, for the first chunk of an utterance (-1: the same)")
    right_context_final: int = opt("right-context-final", -1,
                                   "As --right-context, for the last chunk of an utterance (-1: the same)")
    # chunk lengths in frames, the usual one first; (-1,) leaves utterances whole
    num_frames: tuple[int, ...] = opt("num-frames", (1,), "Labeled frames per example: a comma-separated list, the "
                                      "usual one first", text="1")
    num_frames_overlap: int = opt("num-frames-overlap", 0, "Frames by which neighboring examples overlap")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per output frame")

    @classmethod
    def parse(cls, num_frames: str, **others: int) -> SplitOptions:
        """Return options, with chunk lengths as in ``--num-frames``; ``others`` are the other options.

        Lengths are rounded up to multiples of the frame subsampling factor. Raises Nnet3Error for invalid values.
        """
        factor = others.get("frame_subsampling_factor", 1)
        try:
            lengths = tuple(int(part) for part in num_frames.split(","))
        except ValueError:
            lengths = ()
        if factor < 1:
            raise Nnet3Error(f"Invalid value --frame-subsampling-factor={factor}", "it must be at least 1")
        if lengths != (-1,):
            if not lengths or min(lengths) <= 0 or max(lengths) > LONGEST_CHUNK:
                raise Nnet3Error(f"Invalid option --num-frames={num_frames}", "expected -1 or a comma-separated list "
                                 f"of numbers from 1 to {LONGEST_CHUNK}")
            rounded = tuple(-(-length // factor) * factor for length in lengths)
            if rounded != lengths:
                import logging

                logging.getLogger(__name__).info(
                    "Rounding up --num-frames=%s to multiples of --frame-subsampling-factor=%d, to: %s",
                    num_frames, factor, ",".join(map(str, rounded)))
            lengths = rounded
            if not 0 <= others.get("num_frames_overlap", 0) < lengths[0]:
                raise Nnet3Error(f"Invalid value --num-frames-overlap={others['num_frames_overlap']}",
                                 "it must be smaller than the first value of --num-frames")
        if others.get("left_context", 0) < 0 or others.get("right_context", 0) < 0:
            raise Nnet3Error("--left-context and --right-context must not be negative")
        return cls(num_frames=lengths, **others)


@options_class(frozen=True)
class ImageOptions:
    """Options of random changes to images. Kaldi: ImageAugmentationConfig."""

    num_channels: int = opt("num-channels", 1, "Columns of one pixel, such as colors")
    horizontal_flip_prob: float = opt("horizontal-flip-prob", 0.0, "Probability that left and right change places")
    horizontal_shift: float = opt("horizontal-shift", 0.0, "The farthest shift to either side, in widths of the image")
    vertical_shift: float = opt("vertical-shift", 0.0, "The farthest shift up or down, in heights of the image")
    rotation_degree: float = opt("rotation-degree", 0.0, "The largest angle by which the image is turned, either way")
    rotation_prob: float = opt("rotation-prob", 0.0, "Probability that the image is turned")
    fill_mode: str = opt("fill-mode", "nearest",
                         "What lies outside an image: its 'nearest' pixel, or a reflection ('reflect')")

    def check(self) -> None:
        """Raise UsageError for values out of range."""
        if self.num_channels < 1:
            raise UsageError(f"--num-channels={self.num_channels} must be 1 or more")
        for name in ("horizontal_flip_prob", "horizontal_shift", "vertical_shift", "rotation_prob"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"--{name.replace('_', '-')}={getattr(self, name):g} must lie between 0 and 1")
        if not 0.0 <= self.rotation_degree <= 180.0:
            raise UsageError(f"--rotation-degree={self.rotation_degree:g} must lie between 0 and 180")
        if self.fill_mode not in FILL_MODES:
            raise UsageError(f"Choices for --fill-mode are 'nearest' or 'reflect', got: {self.fill_mode}")
