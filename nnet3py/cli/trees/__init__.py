"""Commands that build phonetic decision trees, and first models and topologies."""
