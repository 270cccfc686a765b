"""Commands on tables of matrices, vectors and integers: ``copying.py`` (one table), ``arithmetic.py`` (sums, products).
"""
