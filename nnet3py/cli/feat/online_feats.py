"""online2-wav-dump-features and compute-online-feats: the network's inputs as an online recognizer computes them."""
from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.decoding.online_options import PIPELINE, pipeline_models
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.process.run import WRONG_USAGE
from nnet3py.errors import Nnet3Error, within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.foreign_files import Wave
    from nnet3py.recognition.pipeline import FeaturePipeline


@kaldi_command("online2-wav-dump-features", "Sound and features",
               "Compute features and i-vectors of sound as if it were arriving.", """
Compute the inputs of a network for sound that arrives in chunks: features, and the i-vector of each frame beside them.
Statistics of a speaker are kept from one utterance to the next.

Usage: online2-wav-dump-features [options] <spk2utt-rspecifier> <wav-rspecifier> <feature-wspecifier>
or:    online2-wav-dump-features [options] --print-ivector-dim=true
e.g.: online2-wav-dump-features --config=conf/online.conf ark:spk2utt scp:wav.scp ark:feats.ark
See also: compute-online-feats, ivector-extract-online2, online2-wav-nnet3-latgen-faster
""", arguments=(0, 3), options=[
    *PIPELINE,
    option("chunk-length", float, 0.05, "Seconds of sound that arrive at a time", below=math.inf),
    option("print-ivector-dim", bool, False, "Print the dimension of i-vectors (0 without) and exit"),
])
def dump_features(args: list[str], options: Options) -> int:
    from nnet3py.formats.foreign_files import WAVE
    from nnet3py.formats.holders import FLOAT_MATRIX, TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.recognition.pipeline import FeaturePipeline, SpeakerState

    if len(args) != (0 if options.print_ivector_dim else 3):
        log.write_text(dump_features.usage_text())
        return WRONG_USAGE
    models = pipeline_models(options)
    if options.print_ivector_dim:
        print(models.ivector_dim)
        return 0
    done = errors = frames = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[2], FLOAT_MATRIX))
        sounds = stack.enter_context(RandomAccessReader(args[1], WAVE))
        for _, keys in stack.enter_context(SequentialReader(args[0], TOKEN_VECTOR)):
            state = SpeakerState()
            for key in keys:
                if key not in sounds:
                    log.warning(f"Did not find audio for utterance {key}")
                    errors += 1
                    continue
                with within(f"utterance {key}"):
                    pipeline = FeaturePipeline(models, state)
                    rows = _rows(pipeline, sounds[key], options.chunk_length)
                    # CMVN starts anew for each utterance; statistics for i-vectors are kept.
                    state = SpeakerState(pipeline.adaptation_state().ivectors)
                writer.write(key, rows)
                done, frames = done + 1, frames + len(rows)
    log.log(f"Processed {done} utterances, {errors} with errors; {frames} frames in total.")
    return 0 if done else 1


def _rows(pipeline: FeaturePipeline, wave: Wave, chunk_length: float) -> np.ndarray:
    """Return features with i-vectors appended, float32 (frames, input dim + ivector dim).

    The sound is given to the pipeline in chunks; a frame is computed as soon as it and its i-vector are ready.
    """
    import numpy as np

    samples = wave.samples[0]
    chunk = max(1, int(wave.rate * chunk_length)) if chunk_length > 0 else max(1, len(samples))
    done, parts = 0, [np.zeros((0, pipeline.models.input_dim + pipeline.models.ivector_dim), dtype=np.float32)]
    for begin in range(0, max(1, len(samples)), chunk):
        pipeline.accept_waveform(samples[begin:begin + chunk], wave.rate)
        if begin + chunk >= len(samples):
            pipeline.finish()
        ready = min(pipeline.num_frames_ready, pipeline.num_ivectors_ready)
        if ready > done:
            rows = pipeline.frames(done, ready)
            if pipeline.ivectors is not None:
                rows = np.hstack((rows, np.stack([pipeline.ivector(frame) for frame in range(done, ready)])))
            parts.append(rows.copy())
            pipeline.forget(ready)
        done = ready
    return np.concatenate(parts)


@kaldi_command("compute-online-feats", "Sound and features",
               "Compute features and i-vectors of sound, as a recognizer does.", """
Compute the inputs of a network for whole sounds: features, and an i-vector of each utterance. Utterances do not
influence each other.

Usage: compute-online-feats [options] <wave-rspecifier> <ivector-wspecifier> <feats-wspecifier>
e.g.: compute-online-feats --config=conf/online.conf scp:wav.scp ark,scp:ivectors.ark,ivectors.scp ark:feats.ark
See also: online2-wav-dump-features, compute-mfcc-feats
""", arguments=(3, 3), options=PIPELINE)
def compute_online_feats(args: list[str], options: Options) -> int:
    from nnet3py.formats.foreign_files import WAVE
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.recognition.pipeline import FeaturePipeline

    models = pipeline_models(options)
    total = done = 0
    with ExitStack() as stack:
        ivectors = stack.enter_context(TableWriter(args[1], FLOAT_VECTOR))
        features = stack.enter_context(TableWriter(args[2], FLOAT_MATRIX))
        for key, wave in stack.enter_context(SequentialReader(args[0], WAVE)):
            total += 1
            log.log(f"Processing Utterance {key}")
            pipeline = FeaturePipeline(models)
            try:
                pipeline.accept_waveform(wave.samples[0], wave.rate)
                pipeline.finish()
                ready = pipeline.num_frames_ready
                if not ready:
                    raise Nnet3Error("the sound is shorter than a window")
                ivector = None if pipeline.ivectors is None else pipeline.ivector(ready - 1)
            except Nnet3Error as error:
                log.warning(f"Failed to compute features for utterance {key}: {error}")
                continue
            features.write(key, pipeline.frames(0, ready))
            if ivector is not None:
                ivectors.write(key, ivector)
            done += 1
    log.log(f"Processed {total} utterances with {total - done} failures.")
    return 0 if done else 1
