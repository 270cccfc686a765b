"""i-vectors of frames that arrive in pieces. Kaldi: ``OnlineIvectorFeature``."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import UsageError
from nnet3py.feat.cmvn import OnlineNormalizer
from nnet3py.feat.frames import transform, windows
from nnet3py.ivectors.online import AdaptationState, OnlineModels, terms_of_pieces
from nnet3py.runtime.frame_buffer import FrameBuffer

_PIECE = 500          # frames that are added up together
_PIECES = 4           # pieces that are in memory together
_AT_A_TIME = 1000     # frames after which they are transformed, even if nobody asks


class IvectorStream:
    """The i-vectors of one stream: accept frames as they come, ask for the i-vector of a frame.

    Memory does not grow. Frames count 1, unless :meth:`update_weights` is called, which says what they count: then it
    must be called before the first i-vector is asked for, and for all frames.

    Parameters
    ----------
    models : what i-vectors are estimated with, and how
    state : what is known of the speaker; None for nothing

    Attributes
    ----------
    num_frames_ready : frames that i-vectors can be asked for: splicing waits for its right context
    log_like, weight : sum of the log-likelihoods of the frames that have been used, and of their weights
    """

    def __init__(self, models: OnlineModels, state: AdaptationState | None = None) -> None:
        state = state or AdaptationState.fresh(models)
        self._models = models
        self._normalizer = OnlineNormalizer(models.global_stats, models.cmvn)
        self._normalizer.speaker_stats = state.cmvn
        self._plain, self._normalized = _Transformed(models), _Transformed(models)
        self._coming: list[np.ndarray] = []                             # frames that are not transformed yet
        self._num_frames, self._num_coming, self._is_finished = 0, 0, False
        self._stats = state.stats.copy()
        self._current = models.extractor.prior_mean()
        self._estimates = FrameBuffer(models.extractor.ivector_dim)     # one every period
        self._done = 0                                                  # frames that are in the statistics
        # Changes of weights that are not in the statistics yet; None if all frames count 1.
        self._waiting: tuple[np.ndarray, np.ndarray] | None = None
        self._keep_from: int | None = None
        self.log_like = self.weight = 0.0

    @property
    def num_frames_ready(self) -> int:
        """Frames that i-vectors can be asked for."""
        return self._num_frames if self._is_finished else max(0, self._num_frames - self._models.right_context)

    @property
    def ivector_dim(self) -> int:
        """The dimension of i-vectors."""
        return self._models.extractor.ivector_dim

    def accept(self, features: np.ndarray) -> None:
        """Take float32 (frames, base dim). ShapeError for another dimension."""
        self._coming.append(self._models.without_pitch(features))
        self._num_frames += len(features)
        self._num_coming += len(features)
        if self._num_coming >= _AT_A_TIME:
            self._transform()

    def finish(self) -> None:
        """Say that there are no more frames: now the last ones are ready, too."""
        self._is_finished = True

    def _transform(self) -> None:
        """Normalize, splice and transform what has come; as late as possible, as it takes longer for few frames."""
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
        """Change what frames count.

        Parameters
        ----------
        frames : int64 (changes,), which may be frames that are not there yet
        deltas : float32 (changes,), what is added to their weights; these are 0 before

        Raises UsageError if i-vectors were asked for without weights. Kaldi: UpdateFrameWeights.
        """
        if self._waiting is None and self._done:
            raise UsageError("weights of frames must be given before the first i-vector is asked for")
        if self._waiting is None:
            self._waiting = frames, deltas
        else:
            self._waiting = np.concatenate((self._waiting[0], frames)), np.concatenate((self._waiting[1], deltas))

    def no_changes_before(self, frame: int) -> None:
        """Promise that weights of frames before ``frame`` will not change: then these need not be kept."""
        self._keep_from = frame

    def at(self, frame: int) -> np.ndarray:
        """float32 (ivector dim,): the i-vector for a frame, which must be ready. Frames are asked for in their order.

        It is that of all frames until then, or the last one estimated, as the models say. Asked for once more, or for
        an earlier frame, it is the previous one.
        """
        models = self._models
        if not 0 <= frame < self.num_frames_ready:
            raise UsageError(f"there is no i-vector for frame {frame} of {self.num_frames_ready} yet")
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
        """Take what is known of frames before ``end`` into the statistics."""
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
        """What the latest estimate gains over none, per frame."""
        return self._stats.objective_change(self._current)

    def length(self) -> float:
        """The length of the latest i-vector."""
        return float(np.linalg.norm(self._result(self._current)))

    def adaptation_state(self) -> AdaptationState:
        """What the speaker's next utterance begins with, if this one is over now."""
        self._transform()
        models = self._models
        return AdaptationState(self._normalizer.stats(), self._stats).limited(models.max_remembered_frames,
                                                                              models.posterior_scale)


def _summed(frames: np.ndarray, deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frames, each once and ascending, and the sums of their deltas, without those that are 0."""
    order = np.argsort(frames, kind="stable")
    frames, deltas = frames[order], deltas[order].astype(np.float32)
    starts = np.flatnonzero(np.diff(frames, prepend=-1))
    if not len(starts):
        return frames, deltas
    sums = np.add.reduceat(deltas, starts)
    return frames[starts][sums != 0], sums[sums != 0]


class _Transformed:
    """Frames spliced and transformed as they arrive; ``rows`` holds what is ready."""

    def __init__(self, models: OnlineModels) -> None:
        self._left, self._right, self._lda = models.left_context, models.right_context, models.lda
        self._context: np.ndarray | None = None          # the last frames, which are neighbors of those to come
        self.rows = FrameBuffer(len(models.lda))

    def accept(self, features: np.ndarray) -> None:
        """Take further frames, float32 (frames, dim); a row is ready when its right context is there."""
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
