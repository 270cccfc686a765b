"""Commands on finite-state transducers: Kaldi's and OpenFst's programs, decoding graphs, language models."""
