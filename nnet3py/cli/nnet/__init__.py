"""Commands on networks and acoustic models.

Make, describe, copy, edit, export, compile, average, and compute outputs.
"""
