"""What the commands of discriminative training share: the options of the objective, and the model."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel

DISCRIMINATIVE = declared(settings_of(DiscriminativeOptions()))


def discriminative_options(options: Options) -> DiscriminativeOptions:
    """The objective's options from the ``DISCRIMINATIVE`` group; UsageError for values that make no sense."""
    result = fields_from(options, DiscriminativeOptions())
    result.check()
    return result


def model_in_test_mode(rxfilename: str, options: Options, batchnorm: bool) -> AcousticModel:
    """An acoustic model whose dropout, and with ``batchnorm`` batch normalization, is as the options say."""
    from nnet3py.acoustic_model import read_model
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode

    model = read_model(rxfilename)
    if options.dropout_test_mode:
        set_dropout_test_mode(model.nnet, True)
    if batchnorm and options.batchnorm_test_mode:
        set_batchnorm_test_mode(model.nnet, True)
    return model
