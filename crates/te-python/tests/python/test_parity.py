"""A150–A166: every call answers as the published package answers, or docs/compat.md says why not.

The same file, parity_calls.py, is run with both engines. A difference must be a row of the table below the heading
"Python, call by call" in docs/compat.md, with both answers; a row whose difference is not there any more is a failure
too, so that the table stays true.
"""
import concurrent.futures
import json
import re
import subprocess

import support
from support import HERE, OURS, ROOT

CALLS = HERE / "parity_calls.py"
ENDS = "ends the process"


def groups():
    """The groups of calls in the order of the file."""
    source = CALLS.read_text()
    found = re.findall(r"^@group\ndef (\w+)|^before\(\"(\w+)\"", source, re.M)
    return [name or f"before_{call}" for name, call in found]


def transcript(python, group):
    """What each call of a group answered."""
    done = subprocess.run(
        [python, "-B", str(CALLS), group], capture_output=True, text=True, timeout=100,
        env=support.clean_environment(MC_TRANSFER_TIMEOUT=5))
    answers = {}
    for line in done.stdout.splitlines():
        label, *answer = json.loads(line)
        answers[label] = shown(answer[0]) if answer else ENDS
    assert answers, f"no answer: exit code {done.returncode}, {done.stderr[-500:]}"
    died = ENDS in answers.values()
    assert died == (done.returncode != 0), f"exit code {done.returncode} after {answers}: {done.stderr[-500:]}"
    return answers


def shown(answer):
    return answer if isinstance(answer, str) and answer else json.dumps(answer, ensure_ascii=False)


def intended():
    """The rows of the table: call to (theirs, ours, why)."""
    text = (ROOT / "docs/compat.md").read_text()
    section = text.split("\n## Python, call by call\n", 1)[1].split("\n## ", 1)[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 4:
            rows[cells[0].strip("`")] = (cells[1].strip("`"), cells[2].strip("`"), cells[3])
    return rows


# Starting an engine of theirs takes a second of waiting, so the next groups run while one is compared.
AHEAD = 4
_pool = concurrent.futures.ThreadPoolExecutor(AHEAD)
_running = {}


def transcripts(group):
    """What both answered: (theirs, ours)."""
    names = groups()
    first = names.index(group)
    for name in names[first:first + AHEAD]:
        for python in (support.need_theirs(), OURS):
            if (python, name) not in _running:
                _running[python, name] = _pool.submit(transcript, python, name)
    return tuple(_running[python, group].result() for python in (support.need_theirs(), OURS))


def compare(group):
    theirs, ours = transcripts(group)
    support.equal(list(ours), list(theirs), "the calls that were made")
    allowed = intended()
    wrong = []
    for label, their_answer in theirs.items():
        our_answer = ours[label]
        known = allowed.get(label)
        if our_answer == their_answer and known:
            wrong.append(f"`{label}`: docs/compat.md tells of a difference, and there is none: {our_answer}")
        elif our_answer != their_answer and not known:
            wrong.append(f"`{label}`: Mooncake {their_answer}, te {our_answer}; no row in docs/compat.md")
        elif our_answer != their_answer and known[:2] != (their_answer, our_answer):
            wrong.append(f"`{label}`: Mooncake {their_answer}, te {our_answer}; docs/compat.md says {known[:2]}")
    assert not wrong, "\n".join(wrong)


def make(group):
    def test():
        compare(group)
    test.__name__ = f"test_{group}"
    test.limit = 120
    return test


for _group in groups():
    globals()[f"test_{_group}"] = make(_group)
del _group


def test_each_row_of_the_table_names_a_call_and_a_reason():
    source = CALLS.read_text()
    for label, (_, _, why) in intended().items():
        known = label in source or label.startswith("before initialize: ") and f'before("{label[19:]}"' in source
        assert known or label.startswith(("dir(", "SUPPORT_")), f"no call is named `{label}`"
        assert len(why) > 8, f"`{label}` has no reason"
