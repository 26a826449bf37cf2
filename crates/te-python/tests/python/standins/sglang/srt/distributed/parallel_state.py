"""One rank. The engine is the one that the project's own file keeps."""
from sglang.srt.distributed.device_communicators.mooncake_transfer_engine import get_mooncake_transfer_engine  # noqa: F401


class GroupCoordinator:
    pass
