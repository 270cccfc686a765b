"""Running a command list: memory, bound calls, streams, batches, and cutting utterances into chunks."""
