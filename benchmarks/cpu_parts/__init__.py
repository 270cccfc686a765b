"""What benchmarks/cpu.py is made of."""
