"""LF-MMI (chain) training: graphs, supervision and what makes them."""
