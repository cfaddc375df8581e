"""Compiled twins of the primitives in `gpukfl.linalg`: same arguments, same results, faster.

`cpu` is compiled by Numba and used for NumPy arrays, `cuda` by NVRTC through CuPy and used for
CuPy arrays. Every other library runs the array-API form that stands beside the call.
"""
