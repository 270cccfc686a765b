"""nnet3-egs-augment-image: random changes to images in training examples."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.egs.options import ImageOptions
from nnet3py.errors import within
from nnet3py.option_fields import settings_of


@kaldi_command("nnet3-egs-augment-image", group="Examples", help="Change the images of training examples at random.",
               usage="""
Copy training examples whose input is an image, each shifted, mirrored and turned at
random. Rows of the input are x, columns y and channel, the channel varying fastest.

Usage:  nnet3-egs-augment-image [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-egs-augment-image --horizontal-flip-prob=0.5 --horizontal-shift=0.1 --vertical-shift=0.1 \\
    --srand=103 --num-channels=3 --fill-mode=nearest ark:1.egs ark:-
""", arguments=(2, 2), options=[
    option("srand", int, 0, "Seed of the random choices"),
    *declared(settings_of(ImageOptions)),
])
def egs_augment_image(args: list[str], options: Options) -> int:
    """Copy examples with their images changed."""
    from nnet3py.egs.changes import ImageAugmenter
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.random_sequence import CRandom

    augmenter = ImageAugmenter(fields_from(options, ImageOptions()), CRandom(options.srand))
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
