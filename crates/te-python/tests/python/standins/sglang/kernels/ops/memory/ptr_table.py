"""Belongs to the kernels."""


def make_ptr_table(pointers, device=None):
    raise NotImplementedError("there are no kernels here")
