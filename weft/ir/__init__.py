"""The vocabulary of Weft: element types, expressions, buffers, statements, kernels.

Everything else is written in these nouns: tensor programs lower to kernels, CUDA is read
into them, targets print them. `visit` holds the verbs.
"""
