"""Builds in the real world: a builder killed with kill -9, a builder that never ends, nvcc's refusals, odd paths.

nvcc is a stand-in that answers as the real one does (recorded output, its exit status), or the real one behind a script
that can be told to hang. Time decides nothing: a test waits for a mark that the stand-in leaves.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from micro.bench.read_path.library import MicroLibrary
from micro.gpu import build_cache, cells, toolchain
from micro.gpu.build import CUDA_DIR, BuiltLibrary, build_library, compile_cubin, load_copy, load_library
from micro.gpu.build_cache import cache_dir, locked
from micro.gpu.cuda_errors import cuda_failure
from micro.gpu.toolchain import find_host_compiler, find_toolkit
from stats.base.errors import BenchError, UserError
from tests.stand_in.machine import program

ROOT = Path(__file__).resolve().parents[3]
TINY = 'extern "C" int answer() { return 42; }\n'
ANSWERS = """case "$*" in
*--version*) echo 'Cuda compilation tools, release {release}, V{release}.99'; exit 0 ;;
*--list-gpu-code*) printf '{codes}\\n'; exit 0 ;;
*--dryrun*) echo "#$ TOP={root}" >&2; exit 0 ;;
esac
{compile}
"""


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path / "cache"))
    find_toolkit.cache_clear()
    yield
    find_toolkit.cache_clear()


def stand_in_nvcc(root: Path, compile_body: str, *, release: str = "12.4", codes: str = "sm_80\\nsm_90") -> Path:
    """A toolkit in ``root`` whose nvcc answers questions and does ``compile_body`` when it is to compile."""
    (root / "include").mkdir(parents=True)
    (root / "include" / "cuda_runtime.h").write_text("")
    (root / "lib64").mkdir()
    (root / "lib64" / "libcudart.so").write_text("")
    body = ANSWERS.format(release=release, codes=codes, root=root, compile=compile_body)
    return program(root / "bin" / "nvcc", body)


# What nvcc refuses

TOO_NEW = """cat >&2 <<'EOF'
In file included from /usr/local/cuda-12.4/bin/../targets/x86_64-linux/include/cuda_runtime.h:82,
                 from <command-line>:
/usr/local/cuda-12.4/targets/x86_64-linux/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! \
gcc versions later than 13 are not supported! The nvcc flag '-allow-unsupported-compiler' can be used to override this
  143 | #error -- unsupported GNU version! gcc versions later than 13 are not supported!
      |  ^~~~~
EOF
exit 1"""
REFUSALS = [
    (
        TOO_NEW,
        r"host_config\.h:143:2: error: #error -- unsupported GNU version! gcc .*; set NVCC_CCBIN to an older g\+\+$",
    ),
    ("echo 'nvcc fatal   : Cannot find compiler '\"'g++'\"' in PATH' >&2; exit 1", r"^nvcc 12\.4 failed: nvcc fatal"),
    (
        "echo 'micro.cu(7): error: identifier \"x\" is undefined' >&2; exit 2",
        r"failed: micro\.cu\(7\): error: identifier",
    ),
    ("exit 255", r"^nvcc 12\.4 failed: no output$"),
    ("kill -9 $$", r"^nvcc 12\.4 failed: no output$"),
]


@pytest.mark.parametrize(("body", "says"), REFUSALS)
def test_nvccs_refusal_is_its_own_words_on_one_line(
    body: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMEM_BENCH_NVCC", str(stand_in_nvcc(tmp_path / "cuda", body)))
    with pytest.raises(UserError, match=says) as refused:
        compile_cubin(CUDA_DIR / "micro.cu", 80)
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "cache").glob("*.cubin*"))  # nothing half made


def test_an_nvcc_too_old_for_this_gpu_names_both_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = stand_in_nvcc(tmp_path / "cuda", "exit 0")
    monkeypatch.setenv("SMEM_BENCH_NVCC", str(nvcc))
    monkeypatch.setattr(
        cells, "describe_device", lambda _: (SimpleNamespace(compute_capability="10.0", arch=100), None)
    )
    with pytest.raises(UserError, match=r"sm_100: nvcc 12\.4 \(.*/nvcc\) knows sm_80, sm_90; .*newer CUDA toolkit"):
        cells.build_for_device("probe", [CUDA_DIR / "probe.cu"], 0)


def test_an_nvcc_that_hangs_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_NVCC", str(program(tmp_path / "nvcc", "sleep 60")))
    run = toolchain._run
    monkeypatch.setattr(toolchain, "_run", lambda command: run(command, timeout_s=0.05))
    with pytest.raises(UserError, match=r"no CUDA compiler found \(SMEM_BENCH_NVCC: .* does not run .*no answer after"):
        find_toolkit()


# A library without code for this GPU

STAND_IN_LIBRARY = """
typedef struct { const char *name; int read_mode, b_layout, swizzle; } Variant;
typedef struct { int registers, local_bytes, static_shared_bytes, resident_blocks; } Resources;
extern "C" int micro_stages() { return 3; }
extern "C" int micro_variant_count() { return 1; }
extern "C" Variant micro_variant(int) { return {"A3", 1, 0, 1}; }
extern "C" const char *micro_error_string(int error) {
    return error == 209 ? "no kernel image is available for execution on the device" : "an illegal memory access";
}
extern "C" int micro_resources(int, int, int shared_bytes, Resources *) { return shared_bytes; }
"""


def stand_in_library(folder: Path) -> BuiltLibrary:
    """A library whose call for resources returns the number that it is given as an error."""
    source, library = folder / "library.cpp", folder / "library.so"
    source.write_text(STAND_IN_LIBRARY)
    subprocess.run([str(find_host_compiler()), "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return BuiltLibrary(library, "0" * 16, (), (), (80, 86), "13.0", cached=False)


def test_a_library_without_code_for_this_gpu_is_refused_before_launch_naming_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = SimpleNamespace(start=lambda: None, devices=lambda: [SimpleNamespace(arch=90)])
    monkeypatch.setattr("micro.gpu.cuda_errors.cuda_driver", lambda: devices)
    library = MicroLibrary(stand_in_library(tmp_path))
    with pytest.raises(
        UserError,
        match=r"^asking for resources: the library holds code for sm_80, sm_86, this GPU is sm_90 "
        r"\(CUDA: no kernel image .*\); build it for sm_90$",
    ):
        library.resources(0, 0, 209)  # type: ignore[arg-type]
    with pytest.raises(BenchError, match=r"^asking for resources: CUDA says 'an illegal memory access'$"):
        library.resources(0, 0, 700)  # type: ignore[arg-type]
    assert library.resources(0, 0, 0).registers == 0  # type: ignore[arg-type]


def test_without_a_driver_the_library_is_still_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micro.gpu.cuda_errors.cuda_driver", lambda: None)
    failure = cuda_failure(98, "invalid device function", "A1: resources")
    assert isinstance(failure, UserError)
    assert "holds code for other architectures, this GPU is another" in str(failure)


# Locks


def test_a_builder_that_never_ends_is_waited_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "micro-0"
    folder.mkdir()
    monkeypatch.setattr(build_cache, "_LOCK_WAIT_S", 0.3)
    with (folder / "builder").open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"another process has been building for 0 s"), locked(folder):
            raise AssertionError("two builders at once")
    assert f"waiting for another build in {folder}" in capsys.readouterr().err
    with locked(folder):  # and once the other has ended, at once
        pass


def test_a_killed_builders_lock_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "micro-0"
    text = (
        "import sys, time; from pathlib import Path; from micro.gpu.build_cache import locked\n"
        "folder = Path(sys.argv[1])\n"
        "with locked(folder):\n"
        "    print('building', flush=True)\n"
        "    time.sleep(600)\n"
    )
    builder = subprocess.Popen(
        [sys.executable, "-c", text, str(folder)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert builder.stdout is not None
    assert builder.stdout.readline() == b"building\n"
    monkeypatch.setattr(build_cache, "_LOCK_WAIT_S", 0.1)
    with pytest.raises(UserError, match="another process has been building"), locked(folder):
        raise AssertionError("two builders at once")
    builder.kill()
    builder.communicate()
    with locked(folder):
        pass


@pytest.mark.cuda_build
@pytest.mark.parametrize("killed", ["all", "python alone"])
def test_a_killed_build_is_built_again(killed: str, tmp_path: Path) -> None:
    """Killed alone, it leaves ninja and nvcc at work in the folder, and the next one waits until they have ended."""
    real, hang = find_toolkit(), tmp_path / "hang"
    hang.touch()
    # The real nvcc, which hangs when it is to compile for as long as a file is there.
    nvcc = program(
        tmp_path / "nvcc",
        f'case "$*" in *tiny.cu*--dryrun*|*--dryrun*|*--version*|*--list*) ;;\n'
        f'*) touch {tmp_path}/compiling; while [ -e {hang} ]; do sleep 0.05; done ;; esac\nexec {real.nvcc} "$@"',
    )
    source = tmp_path / "tiny.cu"
    source.write_text(TINY)
    text = (
        "import sys; from pathlib import Path; from micro.gpu.build import build_library, load_library\n"
        "print(load_library(build_library('tiny', [Path(sys.argv[1])], archs=[80])).answer())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SMEM_BENCH_NVCC": str(nvcc)}
    command = [sys.executable, "-c", text, str(source)]
    first = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (tmp_path / "compiling").exists():
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (os.killpg if killed == "all" else os.kill)(first.pid, signal.SIGKILL)
    first.wait()
    (folder,) = (tmp_path / "cache").glob("tiny-*")
    assert not (folder / "complete").exists()
    if killed == "all":
        hang.unlink()
    again = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert again.stderr is not None
    if killed != "all":
        assert again.stderr.readline() == f"waiting for another build in {folder}\n"
        hang.unlink()
    out, err = again.communicate(timeout=300)
    assert (again.returncode, out) == (0, "42\n"), err


# Where the tools are


@pytest.mark.cuda_build
def test_a_build_without_ninja_on_path_without_gpu_and_without_arch_list(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("c++", "g++", "gcc", "cc", "as", "ld", "sh", "which", "cat", "rm", "uname"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    assert shutil.which("ninja", path=str(tools)) is None
    source = tmp_path / "tiny.cu"
    source.write_text(TINY)
    text = (
        "import sys; from pathlib import Path; from micro.gpu.build import build_library, load_library\n"
        "print(load_library(build_library('tiny', [Path(sys.argv[1])], archs=[80, 90])).answer())\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("TORCH_CUDA_ARCH_LIST", "VIRTUAL_ENV")}
    environment |= {"PATH": str(tools), "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    environment["SMEM_BENCH_NVCC"] = str(find_toolkit().nvcc)
    # The interpreter by its full path, as a person runs a command of a venv that is not activated.
    done = subprocess.run(
        [sys.executable, "-c", text, str(source)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_no_ninja_anywhere_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(UserError, match=r"^ninja: not found beside the interpreter nor on PATH; pip install ninja$"):
        toolchain.find_ninja()


@pytest.mark.cuda_build
def test_no_host_compiler_is_one_line_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_NVCC", str(find_toolkit().root / "bin" / "nvcc"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    find_toolkit.cache_clear()
    with pytest.raises(UserError, match=r"failed: nvcc fatal .*; install g\+\+ or set NVCC_CCBIN to a C\+\+ compiler"):
        build_library("micro", [CUDA_DIR / "micro.cu"], archs=[80])


def test_a_damaged_product_says_what_to_remove(tmp_path: Path) -> None:
    product = tmp_path / "micro.so"
    product.write_bytes(b"\x7fELF torn")
    library = BuiltLibrary(product, "0" * 16, (), (), (80,), "13.0", cached=True)
    with pytest.raises(UserError, match=r"micro\.so: cannot be loaded .*; remove its folder to build again"):
        load_library(library)
    with pytest.raises(OSError, match="micro"):
        load_copy(library, "twin")
    assert list(tmp_path.iterdir()) == [product]  # the copy is gone all the same


def test_the_cache_is_in_the_users_folder_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMEM_BENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "smem-bench"
