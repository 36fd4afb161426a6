"""The settings of a process that is ours."""

import subprocess
import sys


def test_collections_leave_out_what_was_loaded_before_and_look_at_what_comes_later():
    code = (
        "import gc, vcubeps.net.gateway\n"
        "from vcubeps.net.loops import spare_what_is_loaded\n"
        "before = len(gc.get_objects())\n"
        "spare_what_is_loaded()\n"
        "later = []; later.append(later); del later\n"
        "print(before > 10_000, len(gc.get_objects()) < 1_000, gc.collect() > 0)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "True", "True"]
