"""Which toolkit is found, and what is said when none can do what was asked; stand-ins answer as nvcc does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from micro.gpu import toolchain
from micro.gpu.toolchain import Toolkit, disassembler, find_host_compiler, find_ninja, find_toolkit, require_archs
from stats.base.errors import UserError

CODES = "sm_75\nsm_80\nsm_90\nsm_100"


@pytest.fixture(autouse=True)
def _fresh_search() -> Iterator[None]:
    find_toolkit.cache_clear()
    yield
    find_toolkit.cache_clear()


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_toolkit(root: Path, release: str = "13.0") -> Path:
    """A toolkit folder with headers and an nvcc that answers the three questions asked of it."""
    (root / "include").mkdir(parents=True)
    (root / "include" / "cuda_runtime.h").write_text("")
    return script(
        root / "bin" / "nvcc",
        f"""case "$*" in
*--version*) echo 'Cuda compilation tools, release {release}, V{release}.88' ;;
*--list-gpu-code*) printf '{CODES}\\n' ;;
*--dryrun*) echo "#$ TOP={root}/bin/.." >&2 ;;
esac""",
    )


@pytest.fixture
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SMEM_BENCH_NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}")
    monkeypatch.setattr(toolchain, "wheel_root", lambda: None)
    monkeypatch.setattr(
        toolchain, "_candidates", lambda: (c for c in _original_candidates() if "/usr/local/cuda" not in c[1])
    )


_original_candidates = toolchain._candidates


@pytest.mark.usefixtures("_nothing_installed")
class TestSearch:
    def test_a_wrapper_on_path_leads_to_the_real_toolkit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = fake_toolkit(tmp_path / "toolkit")
        script(tmp_path / "bin" / "nvcc", f'exec {real} "$@"')
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        found = find_toolkit()
        assert found.root == tmp_path / "toolkit"
        assert found.nvcc == tmp_path / "bin" / "nvcc"
        assert found.version == (13, 0)
        assert found.architectures == (75, 80, 90, 100)

    def test_a_link_on_path_leads_to_the_real_toolkit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = fake_toolkit(tmp_path / "toolkit")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "nvcc").symlink_to(real)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        assert find_toolkit().root == tmp_path / "toolkit"

    def test_an_nvcc_without_headers_is_passed_over_and_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_toolkit(tmp_path / "toolkit")
        (tmp_path / "toolkit" / "include" / "cuda_runtime.h").unlink()
        monkeypatch.setenv("PATH", f"{tmp_path / 'toolkit' / 'bin'}:/usr/bin:/bin")
        with pytest.raises(UserError, match=r"nvcc on PATH: .* has no cuda_runtime\.h beside it.*toolchain"):
            find_toolkit()

    def test_the_wheels_are_used_where_nothing_else_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_toolkit(tmp_path / "nvidia" / "cu13")
        monkeypatch.setattr(toolchain, "wheel_root", lambda: tmp_path / "nvidia" / "cu13")
        assert find_toolkit().origin == "NVIDIA wheels"

    def test_an_explicit_choice_is_never_second_guessed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_toolkit(tmp_path / "toolkit")
        monkeypatch.setenv("PATH", f"{tmp_path / 'toolkit' / 'bin'}:/usr/bin:/bin")
        monkeypatch.setenv("SMEM_BENCH_NVCC", str(tmp_path / "absent" / "nvcc"))
        with pytest.raises(UserError, match=r"SMEM_BENCH_NVCC: .*absent/nvcc does not exist"):
            find_toolkit()

    def test_no_toolkit_at_all_names_what_was_tried_and_the_remedy(self) -> None:
        with pytest.raises(UserError, match=r"no CUDA compiler found .*pip install 'smem-bench\[toolchain\]'"):
            find_toolkit()

    def test_a_missing_disassembler_names_its_wheel(self) -> None:
        with pytest.raises(UserError, match=r"pip install 'smem-bench\[toolchain\]' \(or only nvidia-cuda-nvdisasm\)"):
            disassembler("nvdisasm")

    def test_ninja_beside_the_interpreter_is_found_without_path(self) -> None:
        assert find_ninja().exists()

    def test_no_host_compiler_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CXX", raising=False)
        with pytest.raises(UserError, match=r"no C\+\+ compiler .* set CXX"):
            find_host_compiler()


def toolkit(*architectures: int) -> Toolkit:
    return Toolkit(Path("/t/bin/nvcc"), Path("/t"), (12, 4), "test", architectures)


def test_an_unknown_architecture_says_what_nvcc_knows() -> None:
    with pytest.raises(UserError, match=r"sm_100: nvcc 12\.4 \(/t/bin/nvcc\) knows sm_80, sm_90; choose one"):
        require_archs(toolkit(75, 80, 90), [80, 100])


def test_an_architecture_below_sm_80_says_why() -> None:
    with pytest.raises(UserError, match=r"sm_75: the kernels need sm_80 or newer"):
        require_archs(toolkit(75, 80), [75])


def test_libraries_of_wheels_lie_in_lib(tmp_path: Path) -> None:
    found = Toolkit(Path("nvcc"), tmp_path, (13, 0), "test", (80,))
    with pytest.raises(UserError, match="no libcudart"):
        _ = found.library_dir
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudart.so.13").write_text("")
    assert found.library_dir == tmp_path / "lib"


@pytest.mark.cuda_build
def test_the_toolkit_of_this_machine_has_its_headers() -> None:
    found = find_toolkit()
    assert any(found.root.glob("**/cuda_runtime.h"))
    assert 80 in found.architectures
