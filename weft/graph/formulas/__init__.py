"""What operators of neural networks mean, for all front ends: functions from placeholders to computed tensors.

Shapes are numbers here. Narrow floats are computed with in float32 and rounded once, as frameworks do.
"""
