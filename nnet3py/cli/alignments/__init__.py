"""Commands on alignments, and on posteriors of frames."""
