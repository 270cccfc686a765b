"""The parts of gpu.py: networks, what is timed, and the same in PyTorch."""
