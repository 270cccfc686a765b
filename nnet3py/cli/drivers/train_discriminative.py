"""make-denlats, train-discriminative: lattices of training data, and a model trained on them."""
from __future__ import annotations

from collections.abc import Sequence

from nnet3py.cli.drivers.staged_work import RESUMES, run_work
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared
from nnet3py.drivers.staged_options import DiscriminativeTrainingOptions, LatticesOptions
from nnet3py.option_fields import settings_of


@kaldi_command("train-discriminative", group="Discriminative training",
               help="Train a model further with MMI, MPFE or sMBR, from data on.", usage=f"""
Train a model further with a sequence-discriminative objective (MMI, MPFE or sMBR): the transcripts are aligned with the
model, the data is decoded with a weak language model, and training prefers the transcripts to everything else in the
lattices. For models with priors and for chain models alike. In the end the folder holds epoch1.mdl and so on,
epoch1_adj.mdl with priors that fit, and final.mdl, the last of these; objectives are in log/.
{RESUMES}

The stages: -4 lists, -3 alignments, -2 graph and lattices, -1 examples, 0 and up the iterations.

Usage:  train-discriminative [options]

e.g.:
train-discriminative --feat-dir=data/train --lang=data/lang --src-dir=exp/tdnn --dir=exp/tdnn_smbr --nj=4
See also: train-dnn, train-chain, nnet3-discriminative-train
""", arguments=(0, 0), options=declared(settings_of(DiscriminativeTrainingOptions)), detached_values=True)
def train_discriminative(args: Sequence[str], options: Options) -> int:
    """Train on lattices."""
    return run_work("discriminative_training", "train_discriminative", DiscriminativeTrainingOptions, options)


@kaldi_command("make-denlats", group="Discriminative training",
               help="Make lattices of training data for discriminative training.", usage=f"""
Make denominator lattices: training data decoded with a model and a weak language model, a unigram of its transcripts,
as lattices at the level of states. The folder has lat.1.gz and so on, and num_jobs, like that of Kaldi's
steps/nnet3/make_denlats.sh. train-discriminative makes its own.
{RESUMES}

The stages: -4 lists, -2 graph and lattices.

Usage:  make-denlats [options]

e.g.:
make-denlats --feat-dir=data/train --lang=data/lang --src-dir=exp/tdnn --dir=exp/tdnn_denlats --nj=4
See also: train-discriminative, nnet3-discriminative-get-egs
""", arguments=(0, 0), options=declared(settings_of(LatticesOptions)), detached_values=True)
def make_denlats(args: Sequence[str], options: Options) -> int:
    """Make denominator lattices."""
    return run_work("discriminative_training", "make_denlats", LatticesOptions, options)
