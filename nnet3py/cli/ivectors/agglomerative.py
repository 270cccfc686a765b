"""agglomerative-cluster: which vectors of a recording are of one speaker."""
from __future__ import annotations

from contextlib import ExitStack

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, option


@kaldi_command("agglomerative-cluster", group="Speakers and i-vectors",
               help="Cluster a recording's utterances by speakers.", usage="""
Cluster the utterances of each recording, by a matrix of scores or costs of all pairs: first those that are most alike.
Clusters are compared by the average over all pairs of their utterances. Written are lines of an utterance and the
number of its cluster, from 1.

Usage:  agglomerative-cluster [options] <scores-rspecifier> <reco2utt-rspecifier> <labels-wspecifier>
e.g.: agglomerative-cluster --threshold=0.5 ark:scores.ark ark:reco2utt ark,t:labels.txt
See also: ivector-plda-scoring-dense, diarize
""", arguments=(3, 3), options=[
    option("threshold", float, 0.0, "Join clusters whose score is at least this, or whose cost is at most this"),
    option("reco2num-spk-rspecifier", str, "", "How many clusters each recording has; then there is no threshold"),
    option("read-costs", bool, False, "Read costs, of which small ones are good, not scores"),
    option("max-spk-fraction", float, 1.0, "Largest part of a recording's utterances that a cluster may have, if the "
           "number of clusters is given"),
    option("first-pass-max-utterances", int, 32767, "Recordings with more utterances are clustered in parts first"),
])
def agglomerative_cluster(args: list[str], options: Options) -> int:
    """Write labels; 1 if there were none."""
    import math

    import numpy as np

    from nnet3py.errors import ShapeError, within
    from nnet3py.formats.holders import FLOAT_MATRIX, INT32, TOKEN_VECTOR
    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.ivectors.scoring import agglomerate_in_parts

    if not 0.0 < options.max_spk_fraction <= 1.0:
        raise OptionError(f"--max-spk-fraction must be above 0 and at most 1, found {options.max_spk_fraction:g}")
    if options.first_pass_max_utterances < 1:
        raise OptionError(f"--first-pass-max-utterances must be above 0, found {options.first_pass_max_utterances}")
    sign = 1.0 if options.read_costs else -1.0
    done = failed = 0
    with ExitStack() as stack:
        utterances = stack.enter_context(RandomAccessReader(args[1], TOKEN_VECTOR))
        numbers = stack.enter_context(RandomAccessReader(options.reco2num_spk_rspecifier, INT32)) \
            if options.reco2num_spk_rspecifier else None
        writer = stack.enter_context(TableWriter(args[2], INT32))
        for key, scores in stack.enter_context(SequentialReader(args[0], FLOAT_MATRIX)):
            if key not in utterances or (numbers is not None and key not in numbers):
                log.warning(f"There is no list of utterances, or no number of speakers, of {key}")
                failed += 1
                continue
            names = utterances[key]
            if scores.shape != (len(names), len(names)):
                raise ShapeError(f"recording {key} has {len(names)} utterances, and scores of shape {scores.shape}")
            count, limit, largest = 1, sign * options.threshold, math.inf
            if numbers is not None:
                count, limit = int(numbers[key]), math.inf
                largest = math.ceil(options.max_spk_fraction * len(names))
                if count < 1:
                    raise ShapeError(f"recording {key}: expected 1 speaker or more, found {count}")
            with within(f"recording {key}"):
                labels = agglomerate_in_parts(sign * scores, limit, count, largest, options.first_pass_max_utterances)
            for name, label in zip(names, labels.tolist(), strict=True):
                writer.write(name, label + 1)
            log.log(f"Recording {key}: {len(names)} utterances, {int(np.max(labels, initial=-1)) + 1} clusters")
            done += 1
    log.log(f"Clustered {done} recordings, {failed} had errors.")
    return 0 if done else 1
