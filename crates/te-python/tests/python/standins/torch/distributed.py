"""A group of one process."""


class ProcessGroup:
    pass


class Work:
    pass


def is_initialized():
    return False
