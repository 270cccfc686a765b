"""nnet3py tune: measures matrix products both ways, and keeps what was faster here."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, option


@kaldi_command("tune", group="Start here",
               help="Measure whether matrix products are faster by BLAS here, and keep the answer.", launcher=False,
               usage="""
Measure on this machine whether matrix products are faster by nnet3py's own code or by BLAS, and keep the answer.

There is a rule for each kind of processor already; this is for other processors, or to check. It takes some seconds,
in which the machine should do nothing else. The answer is kept in the folder of compiled kernels, for all later
commands.

Usage:  nnet3py tune [options]

e.g.:
 nnet3py tune
 nnet3py tune --dry-run
 nnet3py tune --show
 nnet3py tune --reset
""", arguments=(0, 0), detached_values=True, options=[
    QUIET,
    option("dry-run", bool, False, "Measure and print, but keep nothing"),
    option("show", bool, False, "Print what holds now, and measure nothing"),
    option("reset", bool, False, "Go back to the rule that is built in, and measure nothing"),
])
def tune(args: list[str], options: Options) -> None:
    """Measure, print a table, and write the rule."""
    from nnet3py.engine import product_rule

    if options.reset:
        was_measured = product_rule.drop()
        log.log("What was measured is removed; the rule that is built in holds." if was_measured
                else "Nothing was measured.")
        return
    if options.show:
        _show()
        return
    from nnet3py.engine.threads import num_threads
    from nnet3py.ops import device
    from nnet3py.ops.product_tuning import measure, rule_of

    print(f"{device.describe('cpu')}; GFLOP/s with {num_threads()} threads")
    print(f"{'product':20s} {'smallest dimension':20s} {'tiles':>8s} {'BLAS':>8s}   chosen")
    results = []
    for result in measure():
        size = f"{product_rule.LARGE} or more" if result.is_large else f"below {product_rule.LARGE}"
        print(f"{result.form:20s} {size:20s} {result.tiles / 1e9:8.1f} {result.blas / 1e9:8.1f}   {result.chosen}",
              flush=True)
        results.append(result)
    rule = rule_of(results)
    if rule == product_rule.built_in():
        log.log("This is what is built in for this processor.")
    if not options.dry_run:
        log.log(f"Kept in {product_rule.keep(rule)}")


def _show() -> None:
    """Print which way each class of products is computed."""
    from nnet3py.engine import product_rule

    print("built in" if product_rule.measured() is None else f"measured: {product_rule.rule_file()}")
    for number in range(product_rule.NUM_CLASSES):
        form, is_large = divmod(number, 2)
        size = f"{product_rule.LARGE} or more" if is_large else f"below {product_rule.LARGE}"
        way = "BLAS" if product_rule.rule() >> number & 1 else "tiles"
        print(f"{product_rule.FORMS[form]:20s} {size:20s} {way}")
