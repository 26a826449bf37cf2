"""Names in the signatures of kernels."""


class constexpr:
    pass
