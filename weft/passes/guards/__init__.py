"""Tests moved, dropped or split off, so that the inside of a program runs without them."""
