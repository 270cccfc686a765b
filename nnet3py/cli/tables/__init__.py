"""Commands on tables of matrices, vectors and integers."""
