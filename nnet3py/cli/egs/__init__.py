"""Commands that make, copy, merge, shuffle and choose training examples."""
