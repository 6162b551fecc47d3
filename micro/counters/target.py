"""What ncu counts: every asked-for micro kernel launched once, its result checked, and nothing else of note.

``python -m micro.counters.target --variant A1 --swizzle on --work load``. Launches come in the order variant, swizzle,
work; ``--facts`` writes what each one was, for whoever predicts its counts. The trap: a build inside a profiled process
would be profiled too, so the caller runs this once without ncu first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from micro.counters.config import MicroLaunch
from micro.counters.record import Facts, LaunchFacts
from micro.model.arm_names import Work, arm_name
from micro.model.variants import ALL_VARIANTS, BLayout, parse_variants
from stats.base.errors import BenchError, UserError, choice

_WORKS = {"load": Work.LOAD, "load+mma": Work.LOAD_MMA, "mma": Work.MMA}


def swizzles_of(choice: str) -> list[bool]:
    """``on``, ``off`` or ``both`` as a list, on first."""
    return {"on": [True], "off": [False], "both": [True, False]}[choice]


def run_target(make: Callable[[], Facts], facts: Path | None) -> int:
    """Run a target, write its facts; an expected failure is one line that the caller of ncu looks for."""
    try:
        found = make()
    except BenchError as error:
        print(f"counter target: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_status
    if facts is not None:
        facts.write_text(found.model_dump_json(indent=2), encoding="utf-8")
    return 0


def launch_all(
    variants: Sequence[str],
    swizzles: Sequence[bool],
    works: Sequence[Work],
    *,
    loops: int,
    blocks_per_sm: int,
    device: int,
) -> Facts:
    """Launch each kernel once and check what it read.

    Raises UserError and BenchError as ``micro.bench.read_path.arms`` does.
    """
    from micro.gpu.device import require_gpu

    require_gpu(device)
    import numpy as np
    import torch

    from micro.bench.read_path.arms import expected_sinks
    from micro.bench.read_path.library import SOURCE, MicroLibrary, expected_fragments, random_tiles
    from micro.gpu.build import build_library, header_facts
    from micro.gpu.device import describe_device, shared_bytes_for_residency
    from micro.gpu.spans import SPAN

    described, properties = describe_device(device)
    built = build_library("micro", [SOURCE], archs=[described.arch])
    library = MicroLibrary(built)
    sizes, table = library.sizes, library.table()
    tiles = random_tiles(library.stages, sizes, np.random.default_rng(1))
    packed = {layout: torch.from_numpy(tiles.packed(layout).view(np.int16)).to("cuda") for layout in BLayout}
    right = expected_sinks(expected_fragments(tiles))
    shared_bytes = shared_bytes_for_residency(properties, blocks_per_sm, library.ring_bytes)
    blocks = blocks_per_sm * described.sm_count
    spans = torch.empty((blocks * sizes.warps, SPAN.itemsize), dtype=torch.uint8, device="cuda")
    sinks = torch.empty(blocks * sizes.warps * 32, dtype=torch.int32, device="cuda")
    loops |= 1
    launches = []
    for variant in variants:
        for swizzle in swizzles:
            for work in works:
                index, arm = library.index(variant, swizzle), arm_name(variant, swizzle, work)
                found = library.resources(index, work, shared_bytes)
                if found.resident_blocks != blocks_per_sm:
                    raise UserError(f"{arm}: {found.resident_blocks} blocks fit an SM, {blocks_per_sm} were asked")
                library.launch(
                    index,
                    work,
                    blocks=blocks,
                    shared_bytes=shared_bytes,
                    loops=loops,
                    tiles=packed[table[index].b_layout],
                    spans=spans,
                    sinks=sinks,
                )
                torch.cuda.synchronize()
                read = sinks.cpu().numpy().view(np.uint32).reshape(blocks, -1)
                if work is Work.LOAD and not np.array_equal(read, np.broadcast_to(right, read.shape)):
                    raise BenchError(f"{arm}: the counted launch read other data than the tile holds")
                launches.append(
                    LaunchFacts(
                        arm=arm,
                        template=[int(table[index].read_mode), int(table[index].b_layout), int(swizzle), int(work)],
                        blocks=blocks,
                        arguments={
                            "variant": variant,
                            "swizzle": swizzle,
                            "work": int(work),
                            "blocks": blocks,
                            "loops": loops,
                            "stages": library.stages,
                        },
                    )
                )
    return Facts(device=described, launches=launches, **header_facts(built))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m micro.counters.target", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--variant", default=ALL_VARIANTS)
    parser.add_argument("--swizzle", choices=("on", "off", "both"), default="both")
    parser.add_argument("--work", default="load,load+mma", help=f"comma-separated: {', '.join(_WORKS)}")
    parser.add_argument("--loops", type=int, default=MicroLaunch().loops)
    parser.add_argument("--blocks-per-sm", type=int, choices=(1, 2), default=2)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--facts", type=Path, help="write here, as JSON, what was launched")
    options = parser.parse_args(arguments)

    def make() -> Facts:
        works = [part.strip() for part in options.work.split(",")]
        for work in works:
            choice("--work", work, _WORKS)
        return launch_all(
            parse_variants(options.variant),
            swizzles_of(options.swizzle),
            [_WORKS[work] for work in works],
            loops=options.loops,
            blocks_per_sm=options.blocks_per_sm,
            device=options.device,
        )

    return run_target(make, options.facts)


if __name__ == "__main__":
    sys.exit(main())
