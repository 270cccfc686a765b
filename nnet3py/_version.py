"""The version of the package, in a module that imports nothing, so that all others can import it."""
__version__ = "1.0.0"
