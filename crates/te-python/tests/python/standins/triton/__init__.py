"""Kernels that are declared and never run: the transfer code takes its path without them."""


def jit(function):
    return function


def cdiv(a, b):
    return -(-a // b)
