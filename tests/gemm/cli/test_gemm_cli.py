"""``gemm-bench`` as a person meets it without a GPU: what was compiled, labelled so, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from micro.model.variants import VARIANTS
from tests.commands import Command
from tests.ladder import TOTAL

pytestmark = pytest.mark.usefixtures("no_gpu")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check",), "checking needs a GPU: no CUDA device is visible"),
        (("aa",), "a campaign needs a GPU: no CUDA device is visible"),
        (("inject",), "a campaign needs a GPU: no CUDA device is visible"),
        (("--out", "r.jsonl"), "--out: there is no CUDA device"),
        (("--shape", "100x128x32"), "m = 100 is not a multiple of 128"),
        (("--shape", "0x128x32"), "m = 0 is not positive"),
        (("--shape", "128x-128x32"), "n = -128 is not positive"),
        (("--shape", "4294967296x128x32"), "m = 4294967296 is above 2147483647"),
        (("--dtype", "fp32"), "--dtype 'fp32': choose from bf16, fp16"),
        (("--stages", "5"), "--stages '5': choose from 1, 2, 3, 4"),
        (("--variants", "A9"), "--variants 'A9': choose from " + ", ".join(VARIANTS)),
        (("--load-mode", "tma"), "--load-mode 'tma': choose from cp_async, ld_global"),
        (("--format", "xml"), "--format 'xml': choose from"),
        (("--stages", ""), "--stages '': choose from 1, 2, 3, 4"),
        (("--variants", ""), "--variants '': choose from " + ", ".join(VARIANTS)),
        (("tools", "--out", "/dev/null/x/y.json"), "--out /dev/null/x/y.json: there is no folder /dev/null/x"),
        (("--blocks", "0"), "gemm-bench: --blocks 0: choose from 2 to 100000"),
        (("--blocks", "7"), "--blocks 7: is odd"),
        (("--seed", "99999999999999999999"), "--seed 99999999999999999999: choose from 0 to 9223372036854775807"),
        (("check", "--seed", "-1"), "--seed"),
        (("--resume",), "--resume: there is no record to continue; name it with --out"),
        (("explain", "stream", "--resume"), "--resume: there is no record to continue"),
        (("aa", "--device", "-1"), "--device"),
        (("--config", "nowhere"), "config 'nowhere': no such name"),
        (("--config", "epilogue", "--dtype", "fp16"), "A1/fp16/staged: not built"),
        (("check", "--broken", "all"), "--broken 'all': choose from"),
        (("check", "--broken", "last-tile-skipped,swapped-registers"), "swapped-registers': choose from"),
        (("aa", "--record", "nowhere.jsonl"), "nowhere.jsonl: cannot be read"),
        (("inject", "--effects", "a,b"), "--effects 'a,b': write percentages"),
        (("inject", "--effects", "0"), "--effects '0': each must be above 0"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    run_command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run_command("gemm-bench", *arguments)
    assert (status, out) == (2, ""), err
    assert says in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.cuda_build
def test_without_a_gpu_it_tells_what_was_compiled_and_says_so(run_command: Command) -> None:
    status, out, err = run_command("gemm-bench")
    assert status == 0, err
    assert out.startswith("COMPILED, NOT MEASURED: no CUDA device is visible")
    found = json.loads(run_command("gemm-bench", "--format", "json")[1])
    loads = {(row["arch"], row["variant"]): row["loads"] for row in found["rows"]}
    assert loads == {(arch, variant): count for arch in (80, 90) for variant, count in TOTAL.items()}
    assert {row["resident_blocks"] for row in found["rows"]} == {2}
