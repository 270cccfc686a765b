"""nnet3-compute-prob: objective and accuracy of a network on examples."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.training.train_setup import PROB, diagnostic_options


@kaldi_command("nnet3-compute-prob", group="Training", help="Print objective and accuracy on examples.", usage="""
Log a network's objective per frame, and its accuracy, on (merged) examples.

Usage:  nnet3-compute-prob [options] <raw-model-in> <training-examples-in>

e.g.: nnet3-compute-prob 0.raw ark:valid.egs
""", arguments=(2, 2), options=[
    option("batchnorm-test-mode", bool, True, "Normalize with the stored statistics, not with the minibatch's"),
    option("dropout-test-mode", bool, True, "Compute without dropout"),
    option("collapse-model", bool, True, "Merge neighboring linear components first"),
    *PROB, *DEVICE,
])
def compute_prob(args: list[str], options: Options) -> int:
    """Print objective and accuracy; 1 if no output had any weight."""
    from nnet3py.cli.process.compute_setup import log_diagnostics, set_up
    from nnet3py.egs.example import read_egs
    from nnet3py.network.inference import collapse_model
    from nnet3py.network.model_file import read_nnet
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
    from nnet3py.training.diagnostics import NnetDiagnostics

    device = set_up(options)
    nnet = read_nnet(args[0])
    if options.batchnorm_test_mode:
        set_batchnorm_test_mode(nnet, True)
    if options.dropout_test_mode:
        set_dropout_test_mode(nnet, True)
    if options.collapse_model:
        collapse_model(nnet)
    diagnostics = NnetDiagnostics(nnet, diagnostic_options(options, device))
    return log_diagnostics(diagnostics, read_egs(args[1]))
