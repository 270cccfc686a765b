"""What benchmarks/recognition.py runs: models, streams in processes of their own, the recognizer to compare with."""
