"""What benchmarks/engine.py runs: commands in which a part of the engine is replaced by what a library has."""
