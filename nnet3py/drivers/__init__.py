"""What Kaldi's training scripts do: folders of examples, jobs, schedules, training from start to final model."""
