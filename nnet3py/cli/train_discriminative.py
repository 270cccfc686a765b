"""train-discriminative: sequence-discriminative training of a model, from data to a new model."""
from __future__ import annotations

from collections.abc import Sequence

from nnet3py.cli.command import kaldi_command
from nnet3py.cli.field_options import driver_options
from nnet3py.cli.options import Options
from nnet3py.cli.preparation_drivers import RESUMES, run_work
from nnet3py.drivers.discriminative_options import DiscriminativeTrainingOptions


@kaldi_command("train-discriminative", usage=f"""
Train a model further with a sequence-discriminative objective (MMI, MPFE or sMBR): the transcripts are aligned with the
model, the data is decoded with a weak language model, and training prefers the transcripts to what else the lattices
hold. For models with priors and for chain models alike. The folder holds epoch1.mdl and so on in the end,
epoch1_adj.mdl with priors that fit, and final.mdl, the last of these; objectives are in log/.
{RESUMES}

The stages: -4 lists, -3 alignments, -2 graph and lattices, -1 examples, 0 and up the iterations.

Usage:  train-discriminative [options]

e.g.:
train-discriminative --feat-dir=data/train --lang=data/lang --src-dir=exp/tdnn --dir=exp/tdnn_smbr --nj=4
See also: train-dnn, train-chain, nnet3-discriminative-train
""", arguments=(0, 0), options=driver_options(DiscriminativeTrainingOptions), detached_values=True)
def train_discriminative(args: Sequence[str], options: Options) -> int:
    """Train on lattices."""
    return run_work("discriminative_training", "train_discriminative", DiscriminativeTrainingOptions, options)
