"""Options of making training examples: how utterances are cut, and how images are changed at random. Light."""
from __future__ import annotations

from dataclasses import replace

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.option_fields import CheckedOptions, opt, options_class

LONGEST_CHUNK = 10_000_000     # frames, more than a day of speech
FILL_MODES = ("nearest", "reflect")


@options_class(frozen=True)
class SplitOptions(CheckedOptions):
    """Options of cutting utterances into examples. Kaldi: ExampleGenerationConfig."""

    left_context: int = opt("left-context", 0, "Frames of left context in each example", least=0)
    right_context: int = opt("right-context", 0, "Frames of right context in each example", least=0)
    left_context_initial: int = opt("left-context-initial", -1,
                                    "As --left-context, for the first chunk of an utterance (-1: the same)")
    right_context_final: int = opt("right-context-final", -1,
                                   "As --right-context, for the last chunk of an utterance (-1: the same)")
    # chunk lengths in frames, the usual one first; (-1,) leaves utterances whole
    num_frames: tuple[int, ...] = opt("num-frames", (1,), "Labeled frames per example: a comma-separated list, the "
                                      "usual one first", text="1")
    num_frames_overlap: int = opt("num-frames-overlap", 0, "Frames by which neighboring examples overlap", least=0)
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per output frame", least=1)

    @classmethod
    def parse(cls, num_frames: str, **others: int) -> SplitOptions:
        """Return options, with chunk lengths as in ``--num-frames``; ``others`` are the other options.

        Lengths are rounded up to multiples of the frame subsampling factor. Raises Nnet3Error for invalid values.
        """
        try:
            lengths = tuple(int(part) for part in num_frames.split(","))
        except ValueError:
            lengths = ()
        options = cls(num_frames=lengths, **others)
        options.check()
        if lengths == (-1,):
            return options
        if not lengths or min(lengths) <= 0 or max(lengths) > LONGEST_CHUNK:
            raise Nnet3Error(f"Invalid option --num-frames={num_frames}", "expected -1 or a comma-separated list of "
                             f"numbers from 1 to {LONGEST_CHUNK}")
        factor = options.frame_subsampling_factor
        rounded = tuple(-(-length // factor) * factor for length in lengths)
        if rounded != lengths:
            import logging

            logging.getLogger(__name__).info(
                "Rounding up --num-frames=%s to multiples of --frame-subsampling-factor=%d, to: %s",
                num_frames, factor, ",".join(map(str, rounded)))
        if options.num_frames_overlap >= rounded[0]:
            raise Nnet3Error(f"Invalid value --num-frames-overlap={options.num_frames_overlap}",
                             "it must be smaller than the first value of --num-frames")
        return replace(options, num_frames=rounded)


@options_class(frozen=True)
class ImageOptions(CheckedOptions):
    """Options of random changes to images. Kaldi: ImageAugmentationConfig."""

    num_channels: int = opt("num-channels", 1, "Columns of one pixel, such as colors", least=1)
    horizontal_flip_prob: float = opt("horizontal-flip-prob", 0.0, "Probability that left and right change places",
                                      least=0, most=1)
    horizontal_shift: float = opt("horizontal-shift", 0.0, "The farthest shift to either side, in widths of the "
                                  "image", least=0, most=1)
    vertical_shift: float = opt("vertical-shift", 0.0, "The farthest shift up or down, in heights of the image",
                                least=0, most=1)
    rotation_degree: float = opt("rotation-degree", 0.0, "The largest angle by which the image is turned, either way",
                                 least=0, most=180)
    rotation_prob: float = opt("rotation-prob", 0.0, "Probability that the image is turned", least=0, most=1)
    fill_mode: str = opt("fill-mode", "nearest",
                         "What lies outside an image: its 'nearest' pixel, or a reflection ('reflect')")

    def check(self) -> None:
        """Raise UsageError for values beyond their limits."""
        super().check()
        if self.fill_mode not in FILL_MODES:
            raise UsageError(f"Choices for --fill-mode are 'nearest' or 'reflect', got: {self.fill_mode}")
