"""Commands of LF-MMI training: graphs, supervisions, examples, training, objectives, posteriors."""
