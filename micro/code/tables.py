"""How do the static figures look to a reader: instruction counts, their difference, and the bank model, as tables?

Tables for people leave out columns of zeros and name once what is the same in every row; CSV and JSON hold every
figure. The trap: loads are per warp and stores per block, so the stores are shown as the share that feeds one warp's
k-step.
"""

from __future__ import annotations

from typing import Any

from micro.code.counts import CATEGORIES, Kernel
from micro.model.banks import Wavefronts, kstep_wavefronts, tile_store
from micro.model.layout import layout
from micro.model.variants import VARIANTS
from stats.base.errors import UserError
from stats.base.tables import Column, Format, render, wrapped

_SHOWN = ("HMMA", "PRMT", "LOP3", "IMAD", "LEA", "IADD", "BAR", "LDGSTS", "NOP", "never")
_LEGENDS = {
    "HMMA": "the mma",
    "PRMT": "bytes put together, such as two 16-bit halves",
    "LOP3": "bitwise logic, such as the xor that uses up what is only loaded",
    "IMAD": "integer multiply-add, also used as a move",
    "LEA": "shift and add, of addresses",
    "IADD": "integer add",
    "BAR": "barrier of the block",
    "LDGSTS": "cp.async",
    "NOP": "nothing, but an issue slot",
    "never": "LDS that ptxas puts before cp.async, switched off by their predicate: an issue slot, not a load",
}
_BANKS_TITLE = "bank model (a prediction): wavefronts per warp and k-step"


def _complete_columns(labels: list[str]) -> list[Any]:
    """Every figure, for programs that read CSV or JSON."""
    counts = ("loads", *CATEGORIES, "issue_slots", "ksteps_per_loop")
    resources = ("registers", "stack_bytes", "spill_instructions", "shared_bytes", "resident_blocks", "limited_by")
    return [Column(key, key) for key in ("arch", *labels, *counts, *resources, "kernel")]


def _counted(rows: list[dict[str, Any]]) -> list[str]:
    """The instructions worth a figure: columns of zeros are left out."""
    return [name for name in _SHOWN if any(row[name] >= 0.5 for row in rows)]


def _columns(rows: list[dict[str, Any]], labels: list[str], shown: list[str]) -> list[Any]:
    """What a reader needs: ``shown`` counts, and what is left over in one column."""
    for row in rows:
        kinds = [name for name in row if name.startswith(("LDS.", "LDSM.")) and row[name]]
        row["kinds"] = ", ".join(f"{row[name]:g} {name}" for name in kinds)
        row["rest"] = row["issue_slots"] - row["loads"] - sum(row[name] for name in _counted(rows))
    return [
        Column("arch", "sm"),
        *(Column(label, label, align="left") for label in labels),
        Column("loads", "loads", ".4g", legend="of shared memory"),
        Column("kinds", "as", align="left", legend="LDS.N is ld.shared of N bits, LDSM.xN is ldmatrix.xN"),
        *(Column(name, name, ".3g", legend=_LEGENDS.get(name, "")) for name in shown),
        Column("rest", "other", ".3g", min_width=100, legend="issue slots that no column names"),
        Column("issue_slots", "issue slots", ".1f", legend="all instructions, of which a scheduler issues one a cycle"),
        Column("registers", "registers", short="regs", legend="a thread"),
        Column(
            "spill_instructions",
            "spills",
            min_width=90,
            legend="instructions that move registers to or from local memory",
        ),
        Column("shared_bytes", "shared bytes", min_width=110),
        Column("resident_blocks", "blocks per SM", min_width=100, legend="how many fit at once"),
    ]


def _difference(rows: list[dict[str, Any]], labels: list[str], first: str, second: str) -> tuple[list[Any], list[Any]]:
    """Rows of what differs between two variants, per architecture and other labels."""
    others = [label for label in labels if label != "variant"]
    by_key = {(row["arch"], *(row[label] for label in others), row["variant"]): row for row in rows}
    quantities = ("loads", *CATEGORIES, "issue_slots", "registers", "spill_instructions", "resident_blocks")
    out = []
    for key, left in by_key.items():
        right = by_key.get((*key[:-1], second))
        if key[-1] != first or right is None:
            continue
        for quantity in quantities:
            if left[quantity] != right[quantity]:
                out.append(
                    {
                        "arch": left["arch"],
                        **{label: left[label] for label in others},
                        "quantity": quantity,
                        "from": left[quantity],
                        "to": right[quantity],
                        "difference": right[quantity] - left[quantity],
                    }
                )
    columns = [
        Column("arch", "sm"),
        *(Column(label, label, align="left") for label in others),
        Column("quantity", "quantity", align="left"),
        Column("from", first, ".4g"),
        Column("to", second, ".4g"),
        Column("difference", f"{second} − {first}", "+.4g"),
    ]
    return columns, out


def sass_text(
    kernels: list[Kernel],
    *,
    variants: list[str],
    swizzles: tuple[bool, ...],
    fmt: Format,
    diff: tuple[str, str] | None,
    title: str,
) -> str:
    """The table of kernels (counts per warp and k-step), or of the differences between two variants."""
    order = {name: index for index, name in enumerate(variants)}
    wanted = {"on" if swizzle else "off" for swizzle in swizzles}
    rows = [kernel.row() for kernel in kernels if kernel.labels["variant"] in order]
    rows = [row for row in rows if row["swizzle"] in wanted]
    if not rows:
        there = sorted(
            {f"{kernel.labels['variant']} with the swizzle {kernel.labels['swizzle']}" for kernel in kernels}
        )
        raise UserError(f"no kernel of variants {', '.join(variants)} as asked; there are {', '.join(there)}")
    labels = list(kernels[0].labels)
    rest = [label for label in labels if label != "variant"]
    rows.sort(key=lambda row: (row["arch"], *(str(row[label]) for label in rest), order[row["variant"]]))
    if diff is not None:
        columns, out = _difference(rows, labels, *diff)
        return render(columns, out, fmt, title=f"{title}: what changes from {diff[0]} to {diff[1]}")
    if fmt in ("json", "csv"):
        return render(_complete_columns(labels), rows, fmt)
    heading = f"{title}: instructions per warp and k-step"
    if fmt == "table":  # a label that is the same in every row belongs in the heading
        same = [label for label in labels if len({row[label] for row in rows}) == 1]
        labels = [label for label in labels if label not in same]
        heading += "".join(f", {label} {rows[0][label]}" for label in same)
    shown = _counted(rows)
    if fmt != "table" or len(rows) < 2:
        return render(_columns(rows, labels, shown), rows, fmt, title=heading)
    same = [name for name in shown if len({row[name] for row in rows}) == 1]
    text = render(_columns(rows, labels, [name for name in shown if name not in same]), rows, fmt, title=heading)
    told = "; ".join(f"{name} {rows[0][name]:.3g} ({_LEGENDS[name]})" for name in same)
    return text + (wrapped(f"in every row: {told}") + "\n" if same else "")


def _bank_rows(name: str, swizzle: bool, *, each: bool) -> list[dict[str, Any]]:
    """Rows of one variant: per operand or per instruction, loads of a warp's k-step, then its share of the stores."""
    variant, sizes = VARIANTS[name], layout().constants
    step = kstep_wavefronts(variant, swizzle)
    store = tile_store(variant, swizzle)
    warp_ksteps = sizes.warps * sizes.k_steps  # that one tile step of a block feeds
    base: dict[str, Any] = {"variant": name, "swizzle": "on" if swizzle else "off"}
    rows = []
    for operand in ("A", "B"):
        loads = [load for load in step.loads if load.operand == operand]
        groups = [[load] for load in loads] if each else [loads]
        for group in groups:
            row = {**base, "step": f"load {operand}", "instruction": group[0].instruction}
            if each:
                row |= {"fragment": group[0].fragment, "load": group[0].load}
            rows.append(row | _bank_figures([load.wavefronts for load in group], 1))
    for operand in ("A", "B"):
        stores = [one.wavefronts for one in store.stores if one.operand == operand]
        row = {**base, "step": f"store {operand}", "instruction": "cp.async 16 B"}
        rows.append(row | _bank_figures(stores, warp_ksteps))
    return rows


def _bank_figures(costs: list[Wavefronts], warp_ksteps: int) -> dict[str, Any]:
    def one(values: set[int]) -> int | str:
        return values.pop() if len(values) == 1 else f"{min(values)}–{max(values)}"

    return {
        "instructions": len(costs) / warp_ksteps,
        "wavefronts_each": one({cost.total for cost in costs}),
        "ideal_each": one({cost.ideal for cost in costs}),
        "ways": max(cost.ways for cost in costs),
        "banks": one({cost.banks for cost in costs}),
        "wavefronts": sum(cost.total for cost in costs) / warp_ksteps,
        "excess": sum(cost.excess for cost in costs) / warp_ksteps,
    }


def banks_text(variants: list[str], swizzles: tuple[bool, ...], fmt: Format, *, each: bool) -> str:
    """The table of the bank model: wavefronts per warp and k-step, loads and the share of the stores that feed it."""
    rows = []
    for name in variants:
        for swizzle in swizzles:
            parts = _bank_rows(name, swizzle, each=each)
            rows += parts
            loads = [row for row in parts if row["step"].startswith("load")]
            rows.append(
                {"variant": name, "swizzle": "on" if swizzle else "off", "step": "all loads", "instruction": ""}
                | {key: sum(row[key] for row in loads) for key in ("instructions", "wavefronts", "excess")}
                | {"ways": max(row["ways"] for row in loads)}
            )
    columns = [
        Column("variant", "variant", align="left"),
        Column("swizzle", "swizzle", align="left", short="swz"),
        Column("step", "step", align="left"),
        Column("instruction", "instruction", align="left"),
        *([Column("fragment", "fragment"), Column("load", "load")] if each else []),
        Column("instructions", "count", "g", legend="instructions per warp and k-step"),
        Column(
            "wavefronts_each",
            "wavefronts each",
            short="wave-fronts each",
            legend="of one instruction, of which the port serves one a cycle",
        ),
        Column("ideal_each", "ideal each", min_width=100, legend="wavefronts if no bank conflicted"),
        Column(
            "ways",
            "conflict ways",
            short="con-flict ways",
            legend="the most words that one bank must give (1: no conflict)",
        ),
        Column("banks", "banks", min_width=100, legend="distinct ones touched, of 32"),
        Column("wavefronts", "wavefronts", "g", short="wave-fronts", legend="per warp and k-step"),
        Column("excess", "excess", "g", min_width=100, legend="wavefronts that conflicts add"),
    ]
    return render(columns, rows, fmt, title=_BANKS_TITLE)
