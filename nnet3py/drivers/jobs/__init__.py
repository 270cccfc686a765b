"""The jobs of a driver: bash command lines, run here, by dask's workers, or by a grid engine."""
