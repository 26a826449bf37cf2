"""No model: nothing of it is asked for in a transfer of plain pages."""


def get_dsa_mtp_topk_width(*_):
    return 0


def is_deepseek_dsa(*_):
    return False
