"""Commands on sound and features: MFCC, pitch, voice activity, normalization, transforms, segments.

Each file has the programs of a subject, for example ``speech_feats.py`` (compute-mfcc-feats, …, compute-vad),
``cmvn.py`` (normalization), ``feats.py`` and ``feats_with.py`` (edits of features). The work is done by
``nnet3py.feat``, which is imported when a command runs. ``options.py`` has the options that online recognition shares.
"""
