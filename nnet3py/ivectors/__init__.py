"""i-vectors, one for what is special about a speaker's or an utterance's sound, and what is done with them."""
