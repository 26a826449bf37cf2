"""The calls of Mooncake's ``mooncake.engine``, on this engine.

Names, arguments, defaults and numbers are the same; docs/compat.md lists what differs on purpose.
``last_error()`` tells more of the last call that failed on this thread.
"""

from te_engine._native import (
    InnerTransferEngine,
    TransferEngine,
    TransferNotify,
    TransferOpcode,
    last_error,
)
from te_engine._rpc import (
    ReceivedData,
    ReceivedTensor,
    RpcInterface,
    create_rpc_client,
    create_rpc_server,
)
from te_engine._shared import SharedSegment

__all__ = [
    "SUPPORT_CUDA",
    "SUPPORT_EFA",
    "SUPPORT_HIP",
    "SUPPORT_INTRA_NVLINK",
    "SUPPORT_MNNVL",
    "SUPPORT_MUSA",
    "CoroRPCInterface",
    "InnerTransferEngine",
    "Read",
    "ReceivedData",
    "ReceivedTensor",
    "RpcInterface",
    "SharedSegment",
    "TransferEngine",
    "TransferNotify",
    "TransferOpcode",
    "Write",
    "create_rpc_client",
    "create_rpc_server",
]

SUPPORT_CUDA = False
SUPPORT_EFA = False
SUPPORT_HIP = False
SUPPORT_INTRA_NVLINK = False
SUPPORT_MNNVL = False
SUPPORT_MUSA = False

Read: TransferOpcode = TransferOpcode.Read
Write: TransferOpcode = TransferOpcode.Write
CoroRPCInterface = RpcInterface
