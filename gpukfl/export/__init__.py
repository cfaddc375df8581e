"""Fitted models in formats of other programs."""

from gpukfl.export._onnx import write_onnx

__all__ = ["write_onnx"]
