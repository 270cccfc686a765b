"""The command line: Kaldi's nnet3 programs as commands, one thin file per family, and the click group of them all."""
