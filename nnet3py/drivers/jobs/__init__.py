"""Jobs of a driver: bash command lines that run here, on dask's workers, or by a grid engine."""
