"""i-vectors of frames that arrive in pieces. Kaldi: ``OnlineIvectorFeature``."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import UsageError
from nnet3py.feat.cmvn import OnlineNormalizer
from nnet3py.feat.frames import transform, windows
from nnet3py.ivectors.online import AdaptationState, OnlineModels, terms_of_pieces
from nnet3py.runtime.frame_buffer import FrameBuffer

_PIECE = 500          # frames whose statistics are added together
_PIECES = 4           # pieces that are in memory together
_AT_A_TIME = 1000     # frames that are transformed together, even before an i-vector is asked for


class IvectorStream:
    """An estimator of the i-vectors of one stream: :meth:`accept` takes its frames, :meth:`at` returns an i-vector.

    Its memory does not grow with the stream. All frames have weight 1, unless :meth:`update_weights` is called: then
    all weights begin at 0, and the first call must come before the first i-vector is estimated.

    Parameters
    ----------
    models : OnlineModels, extractor, UBM, transform and settings
    state : AdaptationState of the speaker; None: unknown speaker

    Attributes
    ----------
    num_frames_ready : number of frames that have i-vectors; fewer than were accepted, as splicing needs right context
    log_like, weight : sums of log-likelihoods and weights of the frames used so far
    """

    def __init__(self, models: OnlineModels, state: AdaptationState | None = None) -> None:
        state = state or AdaptationState.fresh(models)
        self._models = models
        self._normalizer = OnlineNormalizer(models.global_stats, models.cmvn)
        self._normalizer.speaker_stats = state.cmvn
        self._plain, self._normalized = _Transformed(models), _Transformed(models)
        self._coming: list[np.ndarray] = []                             # frames not transformed yet
        self._num_frames, self._num_coming, self._is_finished = 0, 0, False
        self._stats = state.stats.copy()
        self._current = models.extractor.prior_mean()
        self._estimates = FrameBuffer(models.extractor.ivector_dim)     # one for each period
        self._done = 0                                                  # frames in the statistics
        # Changes of weights that are not in the statistics yet; None if all frames have weight 1.
        self._waiting: tuple[np.ndarray, np.ndarray] | None = None
        self._keep_from: int | None = None
        self.log_like = self.weight = 0.0

    @property
    def num_frames_ready(self) -> int:
        """Number of frames that have i-vectors."""
        return self._num_frames if self._is_finished else max(0, self._num_frames - self._models.right_context)

    @property
    def ivector_dim(self) -> int:
        """Dimension of i-vectors."""
        return self._models.extractor.ivector_dim

    def accept(self, features: np.ndarray) -> None:
        """Take features, float32 (frames, base dim). Raises ShapeError for another dimension."""
        self._coming.append(self._models.without_pitch(features))
        self._num_frames += len(features)
        self._num_coming += len(features)
        if self._num_coming >= _AT_A_TIME:
            self._transform()

    def finish(self) -> None:
        """End the sound: now the last frames are ready, too."""
        self._is_finished = True

    def _transform(self) -> None:
        """Normalize, splice and transform the frames accepted so far, many at a time, since that is faster."""
        if self._num_coming:
            base = np.concatenate(self._coming)
            self._coming, self._num_coming = [], 0
            self._normalized.accept(self._normalizer.accept(base))
            if not self._models.use_cmvn_for_stats:
                self._plain.accept(base)
        if self._is_finished:
            self._normalized.finish()
            self._plain.finish()

    def update_weights(self, frames: np.ndarray, deltas: np.ndarray) -> None:
        """Change the weights of frames. Kaldi: UpdateFrameWeights.

        ``frames``: int64 (changes,), numbers of frames, which need not be accepted yet. ``deltas``: float32 (changes,),
        differences to add to the weights of these frames, which begin at 0.

        Raises UsageError if i-vectors were already estimated with all weights 1.
        """
        if self._waiting is None and self._done:
            raise UsageError("weights of frames must be given before the first i-vector is computed")
        if self._waiting is None:
            self._waiting = frames, deltas
        else:
            self._waiting = np.concatenate((self._waiting[0], frames)), np.concatenate((self._waiting[1], deltas))

    def no_changes_before(self, frame: int) -> None:
        """Declare that weights of frames before ``frame`` will not change any more, so that memory can be freed."""
        self._keep_from = frame

    def at(self, frame: int) -> np.ndarray:
        """Return the i-vector for a frame, float32 (ivector dim,).

        ``frame`` must be below ``num_frames_ready``, and not below that of earlier calls. The i-vector is estimated
        from all frames up to ``frame`` (setting ``use_most_recent``), from all frames that are ready (``greedy``), or
        else from all frames up to the first of the period that ``frame`` is in.
        """
        models = self._models
        if not 0 <= frame < self.num_frames_ready:
            raise UsageError(f"there is no i-vector for frame {frame} yet: {self.num_frames_ready} frames are ready, "
                             "counted from 0")
        if models.use_most_recent or models.greedy:
            target = self.num_frames_ready - 1 if models.greedy else frame
            if target >= self._done:
                self._add(target + 1)
                self._current = self._stats.estimate(self._current)
            return self._result(self._current)
        for point in range(-(-self._done // models.period) * models.period, frame + 1, models.period):
            self._add(point + 1)
            self._current = self._stats.estimate(self._current)
            self._estimates.append(self._current[None])
        self._add(frame + 1)
        wanted = frame // models.period
        self._estimates.forget(wanted)
        return self._result(self._estimates.between(wanted, wanted + 1)[0].astype(np.float64))

    def _result(self, estimate: np.ndarray) -> np.ndarray:
        ivector = estimate.copy()
        ivector[0] -= self._models.extractor.offset
        return ivector.astype(np.float32)

    def _add(self, end: int) -> None:
        """Add frames before ``end`` to the statistics."""
        if end <= self._done:
            return
        self._transform()
        if self._waiting is None:
            for first in range(self._done, end, _PIECE * _PIECES):
                frames = np.arange(first, min(first + _PIECE * _PIECES, end))
                self._accumulate(frames, np.ones(len(frames), dtype=np.float32))
        else:
            frames, deltas = self._waiting
            now = frames < end
            self._waiting = frames[~now], deltas[~now]
            self._accumulate(*_summed(frames[now], deltas[now]))
        self._done = end
        self._forget()

    def _accumulate(self, frames: np.ndarray, weights: np.ndarray) -> None:
        if not len(frames):
            return
        normalized = self._normalized.rows.rows(frames)
        features = normalized if self._models.use_cmvn_for_stats else self._plain.rows.rows(frames)
        posterior, log_likes = self._models.posteriors(normalized, weights)
        ends = np.append(np.arange(_PIECE, len(frames), _PIECE), len(frames))
        for terms in terms_of_pieces(self._models.extractor, features, posterior, ends):
            self._stats.add(terms)
        self.log_like += float(log_likes.astype(np.float64) @ weights)
        self.weight += float(weights.sum(dtype=np.float64))

    def _forget(self) -> None:
        keep = self._done
        if self._waiting is not None:
            keep = min(keep, 0 if self._keep_from is None else self._keep_from,
                       int(self._waiting[0].min(initial=self._done)))
        self._normalized.rows.forget(keep)
        self._plain.rows.forget(keep)

    def objective_change(self) -> float:
        """Return the improvement of the auxiliary function by the latest estimate, per frame."""
        return self._stats.objective_change(self._current)

    def length(self) -> float:
        """Return the length of the latest i-vector."""
        return float(np.linalg.norm(self._result(self._current)))

    def adaptation_state(self) -> AdaptationState:
        """Return the adaptation to the speaker, for the speaker's next utterance, as if the sound ended now."""
        self._transform()
        models = self._models
        return AdaptationState(self._normalizer.stats(), self._stats).limited(models.max_remembered_frames,
                                                                              models.posterior_scale)


def _summed(frames: np.ndarray, deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add up the deltas of each frame; return the frames whose sum is not 0, ascending, and the sums."""
    order = np.argsort(frames, kind="stable")
    frames, deltas = frames[order], deltas[order].astype(np.float32)
    starts = np.flatnonzero(np.diff(frames, prepend=-1))
    if not len(starts):
        return frames, deltas
    sums = np.add.reduceat(deltas, starts)
    return frames[starts][sums != 0], sums[sums != 0]


class _Transformed:
    """A transform (splicing, then LDA) of frames as they arrive; ``rows`` is the FrameBuffer of its output."""

    def __init__(self, models: OnlineModels) -> None:
        self._left, self._right, self._lda = models.left_context, models.right_context, models.lda
        self._context: np.ndarray | None = None          # the last frames, neighbors of the next frames
        self.rows = FrameBuffer(len(models.lda))

    def accept(self, features: np.ndarray) -> None:
        """Append frames, float32 (frames, dim), to the input; transform all frames whose right context has come."""
        if not len(features):
            return
        if self._context is None:
            self._context = np.repeat(features[:1], self._left, axis=0)
        frames = np.concatenate((self._context, features))
        if len(frames) > self._left + self._right:
            self.rows.append(transform(windows(frames, self._left + 1 + self._right), self._lda))
        self._context = frames[-(self._left + self._right):] if self._left + self._right else frames[:0]

    def finish(self) -> None:
        if self._context is not None and self._right:
            self.accept(np.repeat(self._context[-1:], self._right, axis=0))
            self._context = None
