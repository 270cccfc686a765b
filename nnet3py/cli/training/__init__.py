"""Commands that train networks on examples, frame by frame, and measure them, as nnet3-train does."""
