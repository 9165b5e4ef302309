"""The same work in many spellings, each against the quickest of its kind: ``python -m bench.spellings [cpu|cuda]``.

``kinds`` says what is computed, with spellings written by hand; ``respell`` draws more, by rewrites that keep the
meaning; ``measure`` times them in turns.
"""
