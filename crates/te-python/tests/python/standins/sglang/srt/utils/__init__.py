"""What the transfer code takes from the project's tool box; work on a device is done when it returns."""
import contextlib
import torch


def is_npu():
    return False


def create_device_stream(_device):
    return torch.Stream()


def create_device_event(_device):
    return torch.Stream()


def device_stream_context(_stream):
    return contextlib.nullcontext()
