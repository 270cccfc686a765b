"""What benchmarks/recognition.py runs: models, streams in processes of their own, the recogniser to compare with."""
