"""Commands on sound and features: MFCC, pitch, voice activity, normalization, transforms, segments."""
