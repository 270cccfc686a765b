"""nnet3-egs-augment-image: random changes to images in training examples."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import within


@kaldi_command("nnet3-egs-augment-image", usage="""
Copy training examples whose input is an image, each shifted, mirrored and turned at
random. Rows of the input are x, columns y and channel, the channel varying fastest.

Usage:  nnet3-egs-augment-image [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-egs-augment-image --horizontal-flip-prob=0.5 --horizontal-shift=0.1 --vertical-shift=0.1 \\
    --srand=103 --num-channels=3 --fill-mode=nearest ark:1.egs ark:-
""", arguments=(2, 2), options=[
    option("srand", int, 0, "Seed of the random choices"),
    option("num-channels", int, 1, "Columns of one pixel, such as colors"),
    option("horizontal-flip-prob", float, 0.0, "Probability that left and right change places"),
    option("horizontal-shift", float, 0.0, "The farthest shift to either side, in widths of the image"),
    option("vertical-shift", float, 0.0, "The farthest shift up or down, in heights of the image"),
    option("rotation-degree", float, 0.0, "The largest angle by which the image is turned, either way"),
    option("rotation-prob", float, 0.0, "Probability that the image is turned"),
    option("fill-mode", str, "nearest", "What lies outside an image: its 'nearest' pixel, or a reflection ('reflect')"),
])
def egs_augment_image(args: list[str], options: Options) -> int:
    """Copy examples with their images changed."""
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.image import ImageAugmenter, ImageOptions
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.random_sequence import CRandom

    augmenter = ImageAugmenter(ImageOptions(
        options.num_channels, options.horizontal_flip_prob, options.horizontal_shift, options.vertical_shift,
        options.rotation_degree, options.rotation_prob, options.fill_mode), CRandom(options.srand))
    num_done = 0
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(args[1], EXAMPLE) as writer, SequentialReader(args[0], EXAMPLE) as reader:
        for key, example in log.progress(reader, "Changing images", share=reader.share_read):
            with within(f"example {key}"):
                augmenter.change(example)
            writer.write(key, example)
            num_done += 1
    log.log(f"Perturbed {num_done} neural-network training images.")
    return 0 if num_done else 1
