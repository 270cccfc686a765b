"""Commands on lattices.

Paths, n-best lists, scales, determinization, language models, oracle errors, posteriors, alignment.
"""
