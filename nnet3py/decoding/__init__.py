"""Word decoding: lexicons, grammars, graphs made of them, the decoder, lattices and word error rates."""
