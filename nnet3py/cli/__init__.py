"""The command line: Kaldi's nnet3 programs as click commands, one thin file per family."""
