"""Commands on Gaussian mixtures, i-vectors, x-vectors, PLDA and clusters of speakers."""
