"""Fitted models in formats that other programs run."""

from gpukfl.export._onnx import write_onnx

__all__ = ["write_onnx"]
