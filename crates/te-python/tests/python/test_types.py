"""The stubs are complete and right: two checkers agree on stubs, examples and wrong programs."""
import os
import pathlib
import subprocess

import support
from support import CRATE, OURS, SCRATCH

RIGHT = CRATE / "tests/python/typed_right.py"
WRONG = CRATE / "tests/python/typed_wrong.py"


def checker():
    python = os.environ.get("TE_CHECK_PYTHON")
    if not python:
        support.skip("mypy and pyright could not be installed")
    return python


def mypy(files):
    command = [checker(), "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(SCRATCH / "mypy"), "--python-executable", OURS]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, timeout=110, cwd=SCRATCH)


def pyright(files, *words):
    """The program itself is fetched at its first run, into the environment of the checkers."""
    home = pathlib.Path(checker()).parents[1] / "pyright"
    # One of its modes looks for packages by the interpreter that is first in the path.
    path = f"{pathlib.Path(OURS).parent}:{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_CACHE_DIR": str(home), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PYRIGHT_PYTHON_GLOBAL_NODE": "off",
           "XDG_CACHE_HOME": str(home)}
    done = subprocess.run(
        [checker(), "-m", "pyright", "--pythonpath", OURS, *words, *map(str, files)], capture_output=True, text=True, timeout=110,
        cwd=SCRATCH, env=env)
    if "informations" not in done.stdout and "Symbols" not in done.stdout:
        support.skip(f"pyright could not be fetched: {(done.stderr or done.stdout).strip().splitlines()[-1][:200]}")
    return done


def examples():
    return sorted((CRATE / "examples").glob("*.py"))


@support.limit(120)
def test_mypy_accepts_stubs_and_examples():
    done = mypy([RIGHT, *examples()])
    support.equal(done.returncode, 0, done.stdout + done.stderr)


@support.limit(120)
def test_mypy_finds_each_mistake():
    expect_each(mypy([WRONG]).stdout, "error:")


@support.limit(120)
def test_pyright_accepts_stubs_and_examples():
    done = pyright([RIGHT, *examples()])
    support.equal(done.returncode, 0, done.stdout)


@support.limit(120)
def test_pyright_finds_each_mistake():
    expect_each(pyright([WRONG]).stdout, "error:")


@support.limit(120)
def test_every_public_name_has_a_type():
    done = pyright([], "--verifytypes", "te_engine", "--ignoreexternal")
    if "completeness score: 100%" not in done.stdout.lower():
        raise AssertionError(done.stdout[-3000:])


def expect_each(text, word):
    """Each line of the wrong program that ends with `# wrong` has a complaint, and no other line has one."""
    lines = WRONG.read_text().splitlines()
    wanted = {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = set()
    for line in text.splitlines():
        if word in line and WRONG.name in line:
            found.add(int(line.split(WRONG.name, 1)[1].split(":")[1]))
    assert wanted and found == wanted, f"complaints in lines {sorted(found)}, mistakes in lines {sorted(wanted)}\n{text}"


def test_the_stubs_name_what_there_is():
    """What the modules have at run time and what the stubs declare are the same names."""
    done = support.script("""
import ast, pathlib, te_engine, te_engine.compat
folder = pathlib.Path(te_engine.__path__[0])
for module, stub in ((te_engine, "__init__.pyi"), (te_engine.compat, "compat.pyi")):
    file = folder / stub
    if not file.exists():
        file = folder / stub.replace(".pyi", ".py")
    tree = ast.parse(file.read_text())
    declared = set()
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            declared.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            declared.add(node.target.id)
        elif isinstance(node, ast.Assign):
            declared |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            declared |= {a.asname or a.name for a in node.names}
    missing = [name for name in dir(module) if not name.startswith("_") and name not in declared and not isinstance(getattr(module, name), type(ast))]
    extra = [name for name in declared if not name.startswith("_") and not hasattr(module, name)]
    print(module.__name__, "undeclared:", missing, "absent:", [name for name in extra if name != "annotations"])
    assert not missing, missing
""")
    support.equal(done.returncode, 0, done.stdout + done.stderr)
