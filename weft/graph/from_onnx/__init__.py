"""ONNX models in: files that are not trusted, operators by a table of formulas; `weft.load_onnx`."""
