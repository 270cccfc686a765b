"""Commands that run whole trainings and their preparations stage by stage, as Kaldi's steps/nnet3 scripts do."""
