"""Loads the transfer code of other projects from their published wheels, byte for byte.

`wheels()` fetches the pinned wheels into target/downstream, checks their sums and unpacks them. `install()` makes the
names of these projects importable in this process: a module listed in CODE comes from the wheel, unchanged; a module
listed in STANDINS comes from the folder `standins`, since what it does in its project is not transfer; any other module
of theirs is an error.
"""
import hashlib
import importlib.abc
import importlib.util
import os
import pathlib
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
FOLDER = ROOT / "target/downstream"
CODE_FOLDER = FOLDER / "code"
SITE = FOLDER / "site"

# The three that the tests are about, with the sums of their bytes.
FILES = {
    "sglang/srt/distributed/device_communicators/mooncake_transfer_engine.py":
        "3324cb41e0ef7e8b25aec46711b66f9ba3e3a68d4f010d1e11beaf610a9753ff",
    "sglang/srt/disaggregation/mooncake/conn.py":
        "4acc216426822bb8eb4abfc99c9cdaa27bf3cedfe513a0e2a0f7e766825ae643",
    "checkpoint_engine/p2p_store.py":
        "ad33f571adc2a89f3e8d34e3535529b77b1958375283e3d9a3bfc6bf6877ae47",
}

# Executed from the wheels: the files above and what belongs to them.
CODE = [
    "sglang.srt.distributed.device_communicators.mooncake_transfer_engine",
    "sglang.srt.disaggregation.mooncake.conn",
    "sglang.srt.disaggregation.mooncake.utils",
    "sglang.srt.disaggregation.base",
    "sglang.srt.disaggregation.base.conn",
    "sglang.srt.disaggregation.common.bootstrap",
    "sglang.srt.disaggregation.common.conn",
    "sglang.srt.disaggregation.common.staging_buffer",
    "sglang.srt.disaggregation.common.staging_handler",
    "sglang.srt.disaggregation.common.utils",
    "sglang.srt.disaggregation.pp_consensus_store",
    "sglang.srt.disaggregation.utils",
    "sglang.srt.environ",
    "sglang.srt.utils.network",
    "checkpoint_engine.p2p_store",
    "checkpoint_engine.device_utils",
]

# Not transfer: which model, which device, which flags, traces, and a tensor library of 2 GB.
STANDINS = [
    "torch",
    "torch.distributed",
    "triton",
    "triton.language",
    "sglang.kernels.ops.memory.ptr_table",
    "sglang.srt.configs.model_config",
    "sglang.srt.distributed.communication_tags",
    "sglang.srt.distributed.parallel_state",
    "sglang.srt.mem_cache.page_interleave",
    "sglang.srt.observability.mooncake_trace",
    "sglang.srt.observability.trace",
    "sglang.srt.runtime_context",
    "sglang.srt.server_args",
    "sglang.srt.utils",
    "sglang.srt.utils.common",
]

OURS = ("sglang", "checkpoint_engine", "torch", "triton")


class Unreachable(Exception):
    """The wheels cannot be fetched here."""


def wheels(python):
    """Fetches and unpacks what is not there yet; `python` is an interpreter with pip."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = FOLDER / "done"
    pins = (HERE / "downstream-wheels.txt").read_bytes() + (HERE / "downstream-packages.txt").read_bytes()
    stamp = hashlib.sha256(pins).hexdigest()
    if done.exists() and done.read_text() == stamp:
        return
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    for command in (
            ["download", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(FOLDER), "-r", str(HERE / "downstream-wheels.txt")],
            ["install", "--no-deps", "--upgrade", "--target", str(SITE), "-r", str(HERE / "downstream-packages.txt")]):
        ended = subprocess.run([*pip, *command], capture_output=True, text=True, timeout=240)
        if ended.returncode != 0:
            raise Unreachable(ended.stderr.strip().splitlines()[-1])
    names = [name.replace(".", "/") for name in CODE]
    for wheel in FOLDER.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.removesuffix(".py").removesuffix("/__init__") in names:
                    archive.extract(member, CODE_FOLDER)
    done.write_text(stamp)


def source_of(name):
    """The file of a module, whether it is a package, or None if it is only a folder."""
    base = CODE_FOLDER if name in CODE else HERE / "standins" if name in STANDINS else None
    if base is None:
        return None
    stem = base / name.replace(".", "/")
    package = stem / "__init__.py"
    return package if package.exists() else stem.with_suffix(".py")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules as the lists above say; folders between them are empty packages."""

    def find_spec(self, name, _path=None, _target=None):
        if name.split(".")[0] not in OURS:
            return None
        source = source_of(name)
        prefix = name + "."
        is_package = any(other.startswith(prefix) for other in CODE + STANDINS)
        if source is None:
            if not is_package:
                raise ImportError(f"{name} is neither transfer code nor a stand-in")
            return importlib.util.spec_from_loader(name, self, is_package=True)
        spec = importlib.util.spec_from_file_location(name, source)
        if is_package:
            spec.submodule_search_locations = [str(source.parent)]
        return spec

    def create_module(self, _spec):
        return None

    def exec_module(self, module):
        """An empty package: its own `__init__` would import what has nothing to do with transfers."""


def install():
    """Makes the modules importable, and the small packages that they use."""
    sys.path.insert(0, str(SITE))
    sys.meta_path.insert(0, Finder())
    os.environ["SGLANG_STAGING_USE_TORCH"] = "1"
    os.environ["SGLANG_HOST_IP"] = "127.0.0.1"


def check_sums():
    """The sums of the three files as they are executed; each must be that of the published file."""
    for name, wanted in FILES.items():
        found = hashlib.sha256((CODE_FOLDER / name).read_bytes()).hexdigest()
        if found != wanted:
            raise AssertionError(f"{name} is not the published file: {found}")
    return len(FILES)


def loaded():
    """The modules of theirs that this process executed, each with its file."""
    found = {}
    for name, module in sys.modules.items():
        if name.split(".")[0] in OURS and getattr(module, "__file__", None):
            found[name] = module.__file__
    return found


def standin_lines():
    """Each stand-in with its number of lines."""
    return {name: len(source_of(name).read_text().splitlines()) for name in STANDINS}
