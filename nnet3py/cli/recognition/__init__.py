"""Commands that recognize sound: words, times, speakers or a better model, for files, microphones and clients."""
