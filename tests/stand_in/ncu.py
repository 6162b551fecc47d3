"""Stand-ins for ncu and for a target, so that counter runs are tested without a GPU.

The ncu stand-in behaves as the real one was seen to: what it prints, where, and with which exit status, in each mood
(the environment's STAND_IN_NCU). Its counts are those that the target's facts predict, bent by the mood.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

NCU = """#!{python}
import json, os, subprocess, sys
sys.path[:0] = {path!r}
mood, arguments = os.environ.get("STAND_IN_NCU", ""), sys.argv[1:]
PERMISSION = ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM")
RULE = "-" * 30 + " ------- ---- ------"
NAMES = {names!r}

def option(name):
    return arguments[arguments.index(name) + 1] if name in arguments else None

if "--version" in arguments:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nCopyright (c) 2018-2025 NVIDIA Corporation\\n"
        "Version 2025.3.1.0 (build 36398880) (public-release)")
elif "--query-metrics" in arguments:
    if mood == "query refused":
        print("Device NVIDIA H200\\n" + PERMISSION)  # and exits 0
        sys.exit(0)
    full = option("--query-metrics-mode") == "suffix"
    print("Device NVIDIA H200 (GH100)", RULE, "Metric Name Metric Type Metric Unit Metric Description", RULE, sep="\\n")
    bases = {{name.split(".")[0] for name in NAMES}}
    asked = (option("--metrics") or "").split(",")
    for name in sorted(NAMES if full else bases):
        if not full or name.split(".")[0] in asked:
            print(name if full else f"{{name:60}}  Counter  inst  # of something")
elif "--import" in arguments:
    print(open(option("--import")).read(), end="")
else:
    assert option("--kernel-name-base") == "function" and option("--clock-control") == "none"
    print("==PROF== Connected to process 4242 (/usr/bin/python3.12)")
    if mood == "no permission":
        print(PERMISSION + "\\n==PROF== Disconnected from process 4242\\n==WARNING== No kernels were profiled.")
        sys.exit(1)
    if mood == "sandbox":
        print("\\n==ERROR== An error was reported by the counter measurement library:\\n==ERROR== Failed to initialize "
            "the profiler: LibraryNotLoaded. Check that a compatible driver library is loaded.\\n==ERROR== The "
            "application returned an error code (9).")
        sys.exit(9)
    metrics = option("--metrics").split(",")
    if mood == "unknown metric" and "sass__inst_executed_per_opcode" in metrics:
        print("==ERROR== Failed to find metric regex:^sass__inst_executed_per_opcode\\\\.(sum|min|max|avg)$")
        sys.exit(1)
    target = arguments[arguments.index("--export") + 2:]
    status = subprocess.call(target)
    print("==PROF== Disconnected from process 4242")
    if status:
        print(f"==ERROR== The application returned an error code ({{status}}).\\n==WARNING== No kernels were profiled.")
        sys.exit(status)
    if mood == "no such kernel":
        print("==WARNING== No kernels were profiled.\\nAvailable Kernels:\\n1. other_kernel")
        sys.exit(0)
    import csv
    from micro.cli.counters import micro_tool
    from micro.counters.config import CountersConfig
    from stats.base.config import load_config
    config = load_config("counters", CountersConfig)
    tool = micro_tool(config, None, "both", 0)
    facts = json.load(open(target[target.index("--facts") + 1]))
    key_of = {{name: metric for metric in config.metrics for name in metric.names}}
    with open(option("--export"), "w") as report:
        report.write("==WARNING== Found outdated or missing default sections.\\n")
        table = csv.writer(report, quoting=csv.QUOTE_ALL, lineterminator="\\n")
        head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
            "Grid Size", "Device", "CC"]
        table.writerow(head + metrics)
        table.writerow([""] * len(head) + ["ns" if "time" in name else "inst" for name in metrics])
        launches = facts["launches"][:-1] if mood == "lost launch" else facts["launches"]
        for number, launch in enumerate(launches):
            counts = tool.predict(launch["arguments"])
            a, b, c, d = launch["template"]
            if mood == "other kernel":
                d = 2
            kernel = (f"void <unnamed>::micro_kernel<{{a}}, {{b}}, {{c}}, {{d}}>"
                "(const unsigned short *, int, <unnamed>::WarpSpan *, unsigned int *)")
            row = [str(number), "4242", "python3.12", "127.0.0.1", kernel, "1", "7", "(256, 1, 1)",
                f"({{launch['blocks']}}, 1, 1)", "0", "9.0"]
            for name in metrics:
                metric = key_of[name]
                if metric.group == "opcodes":
                    row.append("1234 (HMMA: 1000; LDS: 234)")
                elif metric.group == "addresses":
                    row.append("30 (0x7f5e9f7f7510: 10; 0x7f5e9f7f7520: 20)")
                elif mood == "one more" and metric.key == "load_wavefronts":
                    row.append(f"{{counts.total('load_wavefronts') + 1:,}}")
                elif mood == "not available" and metric.key == "ldsm":
                    row.append("n/a")
                else:
                    row.append(f"{{counts.total(metric.predicted):,}}" if metric.predicted else "12.500000")
            table.writerow(row)
    print(f"==PROF== Report: {{option('--export')}}")
"""

TARGET = """
import sys
sys.path[:0] = {path!r}
if {broken}:
    print("counter target: A1:load: the counted launch read other data than the tile holds", file=sys.stderr)
    sys.exit(1)
from micro.counters.record import Facts, LaunchFacts
from micro.model.variants import VARIANTS
from pathlib import Path
launches = [
    LaunchFacts(arm=f"{{name}}{{'' if swizzle else '/noswz'}}:load",
        template=[int(one.read_mode), int(one.b_layout), int(swizzle), 0],
        blocks=8, arguments=dict(variant=name, swizzle=swizzle, work=0, blocks=8, loops=3, stages=3))
    for name, one in VARIANTS.items() for swizzle in (True, False)
]
device = dict(name="Stand-in", uuid="GPU-0", compute_capability="9.0", sm_count=4)
facts = Facts(device=device, software={{}}, source_hash="0123456789ab", launches=launches)
if "--facts" in sys.argv:
    Path(sys.argv[sys.argv.index("--facts") + 1]).write_text(facts.model_dump_json())
"""


def write_ncu(folder: Path, names: set[str]) -> Path:
    """An executable that answers as ncu does on a chip with metrics ``names``."""
    path = folder / "ncu"
    path.write_text(NCU.format(python=sys.executable, path=[str(ROOT)], names=names), encoding="utf-8")
    path.chmod(0o755)
    return path


def write_target(folder: Path, *, broken: bool = False) -> str:
    """A module that acts as a target; returns its name. ``folder`` must be on PYTHONPATH."""
    (folder / "stand_in_target.py").write_text(TARGET.format(path=[str(ROOT)], broken=broken), encoding="utf-8")
    return "stand_in_target"
