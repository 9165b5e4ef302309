"""Recurrences against PyTorch: LSTM and GRU against its layers, Viterbi and a selective scan against its tensors."""
