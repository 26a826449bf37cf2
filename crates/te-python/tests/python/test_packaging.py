"""FB53: what is installed needs nothing of the host but the C library, and says so; its programs start."""
import pathlib
import re
import shutil
import subprocess

import support
from support import OURS, ROOT

# The C library's own family, which every host has.
FAMILY = re.compile(r"^(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux-x86-64|ld-linux-aarch64)\.so\.\d+$")

# What a host may lack: each is hidden, by an empty file in its place.
HIDDEN = ["ibverbs", "rdmacm", "mlx5", "mlx4", "efa", "cuda", "nvidia", "numa", "etcd", "hiredis", "curl", "ssl", "crypto", "protobuf", "glog", "jsoncpp", "stdc++"]


def package():
    done = support.script("import te_engine; print(te_engine.__path__[0])")
    support.equal(done.returncode, 0, done.stderr)
    return pathlib.Path(done.stdout.strip())


def libraries_and_programs():
    files = sorted(package().rglob("*.so"))
    assert files, "the package has no library"
    program = pathlib.Path(OURS).with_name("te")
    if program.read_bytes()[:4] == b"\x7fELF":
        files.append(program)
    return files


def test_fb53_only_the_c_library_is_needed():
    if not shutil.which("readelf"):
        support.skip("readelf is missing; apt-get install binutils")
    for file in libraries_and_programs():
        text = subprocess.run(["readelf", "-dW", str(file)], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
        assert needed, f"{file}: no NEEDED"
        strangers = [name for name in needed if not FAMILY.match(name)]
        assert not strangers, f"{file.name} needs {strangers}"
        symbols = subprocess.run(["readelf", "--dyn-syms", "-W", str(file)], capture_output=True, text=True, check=True).stdout
        versions = [tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([0-9.]+)", symbols)]
        print(f"row {file.name}: needs {', '.join(needed)}; newest symbol GLIBC {'.'.join(map(str, max(versions)))}")


def test_fb53_the_wheel_for_users_runs_on_glibc_2_28():
    wheels = sorted((ROOT / "target/wheels").glob("te_engine-*manylinux*.whl"))
    if not wheels:
        support.skip("cannot be had here: a wheel for users, which `cargo xtask wheel` makes and checks")
    folder = support.SCRATCH / "wheel"
    subprocess.run([OURS, "-m", "zipfile", "-e", str(wheels[-1]), str(folder)], check=True)
    for file in [*folder.rglob("*.so"), *folder.glob("*.data/scripts/te")]:
        if file.read_bytes()[:4] != b"\x7fELF":
            continue
        symbols = subprocess.run(["readelf", "--dyn-syms", "-W", str(file)], capture_output=True, text=True, check=True).stdout
        newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([0-9.]+)", symbols))
        assert newest <= (2, 28), f"{file.name}: GLIBC {newest}"


def test_fb53_imports_and_transfers_where_libraries_are_hidden():
    """In a mount namespace of its own, each library that is found is covered by an empty file."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        support.skip("cannot be had here: the right to make a mount namespace")
    files = [str(file) for folder in ("/lib", "/usr/lib", "/usr/local/lib", "/lib64", "/usr/lib64") for file in pathlib.Path(folder).rglob("*.so*")
             if any(f"lib{name}" in file.name for name in HIDDEN) and file.is_file() and "python" not in str(file)]
    # Python's own modules need two of these; they are hidden from ours by the check of NEEDED above.
    files = [file for file in files if not re.search(r"lib(ssl|crypto)\.so", file)]
    source = """
import ctypes, mmap, sys
hidden = sys.argv[1:]
for file in hidden:
    try:
        ctypes.CDLL(file)
    except OSError:
        continue
    raise SystemExit(f"{file} can be loaded: it is not hidden")
import te_engine
from mooncake.engine import TransferEngine
a, b = TransferEngine(), TransferEngine()
assert a.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0 and b.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "") == 0
m = [mmap.mmap(-1, 1 << 20) for _ in "ab"]
at = [ctypes.addressof(ctypes.c_char.from_buffer(x)) for x in m]
m[0][:] = bytes(range(256)) * 4096
assert a.register_memory(at[0], 1 << 20) == 0 and b.register_memory(at[1], 1 << 20) == 0
assert a.transfer_sync_write(f"127.0.0.1:{b.get_rpc_port()}", at[0], at[1], 1 << 20) == 0
assert m[0][:] == m[1][:]
print("moved")
"""
    covers = "\n".join(f"mount --bind /dev/null '{file}' || exit 77" for file in files)
    names = " ".join(f"'{file}'" for file in files)
    shell = f"mount --make-rprivate /\n{covers}\nexec '{OURS}' -B -c '{source}' {names}".replace("'" + source + "'", '"$PROGRAM"')
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", shell], capture_output=True, text=True, timeout=60,
        env=support.clean_environment(PROGRAM=source))
    assert done.returncode == 0 and done.stdout.strip() == "moved", f"{done.returncode}\n{done.stdout}\n{done.stderr[-1500:]}"
    print(f"row hidden: {len(files)} files of {len(HIDDEN)} libraries")


def test_fb53_every_program_explains_itself():
    program = pathlib.Path(OURS).with_name("te")
    top = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=20, env=support.clean_environment())
    support.equal(top.returncode, 0, top.stderr)
    section = top.stdout.split("Commands:", 1)[1].split("\n\n", 1)[0]
    verbs = re.findall(r"^  ([a-z][a-z-]*)", section, re.M)
    assert len(verbs) >= 5, top.stdout
    for verb in set(verbs) - {"help"}:
        done = subprocess.run([program, verb, "--help"], capture_output=True, text=True, timeout=20, env=support.clean_environment())
        support.equal(done.returncode, 0, f"te {verb} --help: {done.stderr}")
    done = support.script("import runpy, sys; sys.argv = ['te_engine', '--help']; runpy.run_module('te_engine', run_name='__main__')")
    support.equal(done.returncode, 0, done.stderr)
    assert "Usage" in done.stdout


def test_the_shim_says_whose_it_is_and_the_package_is_typed():
    done = support.script("""
import importlib.metadata as metadata, pathlib, mooncake.engine, te_engine, te_engine.compat
assert mooncake.engine.TransferEngine is te_engine.compat.TransferEngine
owners = metadata.packages_distributions()["mooncake"]
assert len(owners) == 1 and owners[0].startswith("te-engine"), owners
assert (pathlib.Path(te_engine.__path__[0]) / "py.typed").exists()
assert te_engine.__version__ == metadata.version("te-engine"), te_engine.__version__
""")
    support.equal(done.returncode, 0, done.stderr)
