"""Tensors over numpy arrays: as much of a tensor library as the transfer code touches. Every device is this host."""
import numpy as np

uint8, int8, int16, int32, int64 = np.uint8, np.int8, np.int16, np.int32, np.int64
float16, float32 = np.float16, np.float32


class device:
    def __init__(self, type, index=None):
        self.type, _, text = str(type).partition(":")
        self.index = int(text) if text else index

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __repr__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


HERE = device("cuda", 0)


class Tensor:
    def __init__(self, array, at=HERE):
        self.array, self.device = array, at

    @property
    def shape(self):
        return self.array.shape

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def nbytes(self):
        return self.array.nbytes

    def data_ptr(self):
        return self.array.ctypes.data

    def element_size(self):
        return self.array.itemsize

    def numel(self):
        return self.array.size

    def numpy(self):
        return self.array

    def to(self, at):
        return Tensor(self.array, at if isinstance(at, device) else self.device)

    def view(self, *how):
        return Tensor(self.array.view(how[0]) if isinstance(how[0], (type, np.dtype)) else self.array.reshape(how), self.device)

    def reshape(self, *shape):
        return Tensor(self.array.reshape(*shape), self.device)

    def unsqueeze(self, axis):
        return Tensor(np.expand_dims(self.array, axis), self.device)

    def expand(self, *shape):
        return Tensor(np.broadcast_to(self.array, shape), self.device)

    def narrow(self, axis, start, length):
        assert axis == 0
        return Tensor(self.array[start:start + length], self.device)

    def __getitem__(self, where):
        return Tensor(self.array[where], self.device)

    def __mul__(self, other):
        return Tensor(self.array * getattr(other, "array", other), self.device)

    def __add__(self, other):
        return Tensor(self.array + getattr(other, "array", other), self.device)

    def __len__(self):
        return len(self.array)


def empty(size, dtype=float32, device=HERE):
    return Tensor(np.empty(size, dtype), device)


def arange(n, device=HERE):
    return Tensor(np.arange(n, dtype=np.int64), device)


def from_numpy(array):
    return Tensor(array)


def gather(source, axis, index, out):
    np.copyto(out.array, np.take_along_axis(source.array, index.array, axis))


class Stream:
    """Work on this host is done when it returns."""

    def wait_stream(self, _other):
        pass

    def synchronize(self):
        pass


class cuda:
    def is_available():
        return True

    def device_count():
        return 1

    def set_device(_index):
        pass

    def current_stream(_device=None):
        return Stream()


def get_device_module(_device):
    return cuda
