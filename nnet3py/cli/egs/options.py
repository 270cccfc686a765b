"""Groups of options of all commands that make or merge training examples."""
from __future__ import annotations

from nnet3py.cli.process.option_groups import Group
from nnet3py.cli.process.options import Options, declared, option
from nnet3py.egs.options import SplitOptions
from nnet3py.option_fields import field_values, settings_of

# Options of all commands that make examples from features: frame-level, chain and discriminative.
EGS_OF_FEATURES: Group = (
    *declared(settings_of(SplitOptions)),
    option("compress", bool, True, "Store features in compressed form"),
    option("ivectors", str, "", "Alias for --online-ivectors"),
    option("online-ivectors", str, "", "Rspecifier of iVectors, one matrix per utterance"),
    option("online-ivector-period", int, 1, "Frames between the rows of --online-ivectors", least=1),
    option("length-tolerance", int, 100, "Frames by which features and iVectors may differ in length", least=0),
)

_DEPRECATED = "Kaldi ignores this option, too; --minibatch-size sets the sizes of minibatches"
MERGE: Group = (
    option("compress", bool, False, "Compress the features of the merged examples"),
    option("measure-output-frames", str, "deprecated", "No effect, as in Kaldi", idle=_DEPRECATED),
    option("discard-partial-minibatches", str, "deprecated", "No effect, as in Kaldi", idle=_DEPRECATED),
    option("minibatch-size", str, "256",
           "Sequences per minibatch: sizes and ranges (64:128,256), by example size (128=64/256=32)"),
    option("multilingual-eg", bool, False, "Merge only examples of the same language; for chain examples"),
)


def split_options(options: Options) -> SplitOptions:
    """Return the options of splitting utterances into chunks, of ``EGS_OF_FEATURES``; Nnet3Error if invalid."""
    return SplitOptions.parse(**field_values(SplitOptions, options.as_dict()))
