"""Folders of training examples: make-egs and make-chain-egs.

Kaldi: steps/nnet3/get_egs.sh, get_egs_targets.sh, and chain/get_egs.sh.
"""
from __future__ import annotations

import os
from typing import Any

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.drivers.options import ChainEgsOptions, EgsOptions
from nnet3py.option_fields import settings_of

_EGS: Any = EgsOptions
_CHAIN: Any = ChainEgsOptions
_JOBS = (
    option("cmd", str, "run.pl", "Runs the jobs: run.pl (here), or queue.pl, slurm.pl and the like"),
    option("scheduler", str, "", "Address of a dask scheduler whose workers run the jobs"),
)


@kaldi_command("make-egs", "Examples", "Make a folder of training examples from data and alignments.", """
Make a folder of training examples from a data directory and either alignments (a folder with ali.*.gz, num_jobs,
final.mdl and tree) or targets (a list, such as targets.scp). The folder gets archives egs.N.ark, combine.egs,
train_diagnostic.egs, valid_diagnostic.egs (of utterances that are held out), and info/. Given again after an
interruption, the command goes on from where it stopped. Features are normalized by apply-cmvn with --cmvn-opts;
--cmvn-opts=--norm-means=false leaves them as they are.

Usage:  make-egs [options] <data-dir> <ali-dir or targets-scp> <egs-dir>
e.g.:
 make-egs --left-context=16 --right-context=12 data/train exp/tri_ali exp/tdnn/egs
or:
 make-egs --target-type=dense --cmvn-opts=--norm-means=false data/noisy data/clean/feats.scp exp/map/egs
See also: make-chain-egs, nnet3-get-egs, nnet3-get-egs-dense-targets, train-dnn
""", arguments=(3, 3), options=[
    *declared(settings_of(_EGS)),
    option("target-type", str, "dense", "Targets are matrices (dense), or one number per frame (sparse)",
           choices=("dense", "sparse")),
    option("num-targets", int, 0, "Number of classes, for sparse targets"),
    *_JOBS,
], detached_values=True)
def make_egs(args: list[str], options: Options) -> int:
    from nnet3py.drivers import make_egs as maker
    from nnet3py.drivers.executors import make_executor

    data, labels, folder = args
    values = fields_from(options, _EGS())
    values.check()
    with make_executor(options.cmd, options.scheduler or None) as executor:
        if os.path.isdir(labels):
            maker.make_egs(data, labels, folder, values, executor)
        else:
            maker.make_target_egs(data, labels, folder, values, executor, options.target_type,
                                  options.num_targets or None)
    return 0


@kaldi_command("make-chain-egs", "Chain training", "Make a folder of chain examples from data and alignments.", """
Make a folder of chain examples from a data directory, a folder with tree, 0.trans_mdl and normalization.fst, and
either alignments (a folder with ali.*.gz, num_jobs, final.mdl and tree) or lattices (a folder with lat.*.gz and
final.mdl; this needs Kaldi's lattice programs on PATH). The folder gets archives cegs.N.ark, combine.cegs,
train_diagnostic.cegs, valid_diagnostic.cegs, and info/. Given again after an interruption, the command goes on from
where it stopped.

Usage:  make-chain-egs [options] <data-dir> <chain-dir> <ali-dir or lat-dir> <egs-dir>
e.g.:
 make-chain-egs --frames-per-eg=150,110,90 --left-context=25 data/train exp/chain exp/tri_ali exp/chain/egs
See also: make-egs, chain-make-den-fst, chain-get-supervision, nnet3-chain-get-egs
""", arguments=(4, 4), options=[*declared(settings_of(_CHAIN)), *_JOBS], detached_values=True)
def make_chain_egs(args: list[str], options: Options) -> int:
    from nnet3py.drivers import make_chain_egs as maker
    from nnet3py.drivers.executors import make_executor

    data, chain, labels, folder = args
    values = fields_from(options, _CHAIN())
    values.check()
    with make_executor(options.cmd, options.scheduler or None) as executor:
        maker.make_chain_egs(data, chain, labels, folder, values, executor)
    return 0
