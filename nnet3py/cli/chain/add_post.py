"""nnet3-chain-add-post-to-egs: posteriors of pdfs in chain examples."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import COMPILER, COMPUTE, DEVICE, OPTIM
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.training.train_setup import CHAIN, TRAINER
from nnet3py.errors import UsageError, within


@kaldi_command("nnet3-chain-add-post-to-egs", group="Chain training", help="Add posteriors of pdfs to chain examples.",
               usage="""
Add posteriors of pdfs, computed with a model, to chain examples; nnet3-chain-train adds them to its derivatives with
--lwf-scale, so that a network that is trained on other data forgets less (learning without forgetting). Of the training
options only --leaky-hmm-coefficient has an effect (with --type=den).

Usage: nnet3-chain-add-post-to-egs [options] <nnet-in> <den-fst> <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-add-post-to-egs --type=den --batchnorm-test-mode=true --dropout-test-mode=true \
final.raw den.fst ark:1.cegs ark:1.lwf.cegs
""", arguments=(4, 4), options=[
    option("type", str, "raw", "raw: the network's output; den: posteriors by the denominator graph",
           choices=("raw", "den")),
    option("apply-exp", bool, True, "With --type=raw: add exp(output)"),
    option("clip-threshold", float, 0.0, "With --type=den: posteriors below this become 0"),
    option("batchnorm-test-mode", bool, False, "Normalize with the stored statistics, not with the example's"),
    option("dropout-test-mode", bool, False, "Compute without dropout"),
    *TRAINER, *CHAIN, *OPTIM, *COMPILER, *COMPUTE, *DEVICE,
])
def add_post_to_egs(args: list[str], options: Options) -> int:
    """Add posteriors to examples."""
    from nnet3py.chain.den_graph import read_den_graph
    from nnet3py.chain.denominator import DenominatorComputation
    from nnet3py.cli.process.compute_setup import compiler_options, optimize_options, set_up
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
    from nnet3py.io.tables import TableWriter
    from nnet3py.network.model_file import read_nnet
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
    from nnet3py.ops import get_ops
    from nnet3py.training.chain_trainer import PosteriorAdder

    if not options.clip_threshold >= 0.0:
        raise UsageError(f"--clip-threshold={options.clip_threshold:g} must be 0 or more")
    device, nnet = set_up(options), read_nnet(args[0])
    if options.batchnorm_test_mode:
        set_batchnorm_test_mode(nnet, True)
    if options.dropout_test_mode:
        set_dropout_test_mode(nnet, True)
    denominator = None
    if options.type == "den":
        graph = read_den_graph(args[1], nnet.output_dim("output"))
        denominator = DenominatorComputation(get_ops("cpu"), graph, options.leaky_hmm_coefficient)
    adder = PosteriorAdder(nnet, denominator, options.apply_exp, options.clip_threshold, compiler_options(options),
                           optimize_options(options), device)
    num_done = 0
    with TableWriter(args[3], CHAIN_EXAMPLE) as writer:
        for key, eg in read_chain_egs(args[2]):
            with within(f"example {key}"):
                writer.write(key, adder.add(eg))
            num_done += 1
    log.log(f"Added posteriors to {num_done} examples.")
    adder.compiler.log_time()
    return 0 if num_done else 1
