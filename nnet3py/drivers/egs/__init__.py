"""Folders of examples for training: made of folders of data and alignments, read, checked."""
