"""What is done to features before and outside the network: normalisation, context, transforms and their estimation.

Functions of float32 (frames, dim) arrays. ``cmvn.py``: statistics are float64 (2, dim + 1); ``accumulate_stats``,
``normalize``, ``OnlineNormalizer(global_stats, options)``. ``frames.py``: ``splice``, ``add_deltas(features,
delta_filters(order, window))``, ``select_columns``, ``subsample``, ``shift``, ``paste``, ``transform``. ``lda.py``:
``estimate(stats, dim, …) -> LdaTransform``. ``speech.py``: ``SpeechFeatures(SpeechOptions(kind, …)).compute(samples,
rate)``, MFCC, filterbanks, PLP, spectrograms; ``resample.py``. Sound:
``formats/wave_file.py``, ``Wave(rate, samples)`` with samples float32 (channels, samples) of the range of 16 bits,
and the holders ``WAVE`` and ``WAVE_DURATION``.
"""
