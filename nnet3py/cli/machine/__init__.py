"""Commands about this installation and this machine.

What can be installed, documentation, launchers, kernels, the GPU.
"""
