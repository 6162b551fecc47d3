# Everything a person does here has a target; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Extras of pyproject.toml. torch (gpu) is added where an NVIDIA driver is found, the toolkit of wheels where
# an nvcc or its disassemblers are missing.
HAVE_DRIVER := $(shell PATH=$$PATH:/sbin ldconfig -p 2>/dev/null | grep -q libcuda.so.1 && echo yes)
HAVE_NVCC   := $(shell PATH=$$PATH:$${CUDA_HOME:-/usr/local/cuda}/bin; \
  for tool in nvcc cuobjdump nvdisasm; do command -v $$tool >/dev/null || exit; done; echo yes)
HAVE_TORCH  := $(shell $(PYTHON) -c 'import importlib.util as u; print("yes" if u.find_spec("torch") else "")' 2>/dev/null)
comma := ,
EXTRAS ?= dev$(if $(and $(HAVE_DRIVER),$(if $(HAVE_TORCH),,yes)),$(comma)gpu)$(if $(HAVE_NVCC),,$(comma)toolchain)

.PHONY: help bench test test-all test-gpu sanitize lint format coverage types simulation bench-analysis readme readme-check wheel clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# One stamp for each set of extras: a venv made for tests alone does not pass for one with torch and the toolkit.
INSTALLED := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

# A torch that the interpreter already has is gigabytes that need not come twice: its folder is put on the venv's path.
# All else comes before it: pip takes what lies on that path for installed, so .venv/bin would lack ruff and pytest, and
# a toolkit of wheels would be torn in two (torch brings some of the same wheels).
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -e
TAKES = $(if $(findstring gpu,$(EXTRAS)),5 minutes: torch is gigabytes,a minute)

$(INSTALLED): pyproject.toml
	@echo "Installing into $(VENV), once: smem-bench with $(EXTRAS); about $(TAKES)."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) '.[$(subst $(comma)gpu,,$(EXTRAS))]'
	@if [ -n "$(HAVE_TORCH)" ]; then $(PYTHON) -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' \
	  > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/interpreter-torch.pth"; fi
	@$(PIP_INSTALL) '.[$(EXTRAS)]'
	@touch $@

bench: $(INSTALLED) ## install into .venv, then run micro-bench --do-mma both
	$(BIN)/micro-bench --do-mma both

test: $(INSTALLED) ## install into .venv, then run the quick tests (GPU tests are skipped where there is none)
	@echo "Running the quick tests, some minutes; make test-all runs the slow ones, too."
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

test-all: $(INSTALLED) ## every test: simulations, packaging and many architectures, too
	$(BIN)/python -m pytest -n auto --dist loadfile

test-gpu: $(INSTALLED) ## only the tests that need a GPU
	$(BIN)/python -m pytest -m gpu

# compute-sanitizer beside nvcc, on PATH or from the wheel nvidia-cuda-sanitizer-api; torch's own kernels are not watched.
SANITIZE = "$$($(BIN)/python -c 'from micro.gpu.toolchain import disassembler; print(disassembler("compute-sanitizer"))')" \
	  --error-exitcode 1 --kernel-name kernel_substring=gemm_kernel

sanitize: $(INSTALLED) ## compute-sanitizer memcheck and racecheck over each variant and each STAGES (GPU)
	$(SANITIZE) --tool memcheck $(BIN)/python -m gemm.kernel.sanitize
	$(SANITIZE) --tool racecheck $(BIN)/python -m gemm.kernel.sanitize

lint: $(INSTALLED) ## ruff, clang-format
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror micro/cuda/* gemm/cuda/*

format: $(INSTALLED) ## rewrite sources in the project's format
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .
	$(BIN)/clang-format -i micro/cuda/* gemm/cuda/*

coverage: $(INSTALLED) ## the tests with line and branch coverage of the three packages; fails below the floors
	@mkdir -p build
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not packaging" --cov --cov-report=term --cov-report=json:build/coverage.json
	$(BIN)/python tests/coverage_floor.py build/coverage.json

types: $(INSTALLED) ## mypy
	$(BIN)/mypy

simulation: $(INSTALLED) ## 10,000 simulated runs of every world: coverage and error rates, into results/simulation.json
	$(BIN)/python -m stats.proof.simulate --reps 10000 --out results/simulation.json

bench-analysis: $(INSTALLED) ## how long 100,000 cells take to read and to analyse
	$(BIN)/python tests/benchmark_analysis.py

LADDERS := $(foreach r,ladder-a swizzle wait-all stages prefetch epilogue,results/$(r)-h200.jsonl)

readme: $(INSTALLED) ## rebuild the summaries in results/, then README.md and docs/ from docs/pages and the records
	@mkdir -p build
	$(BIN)/gemm-bench aa $(foreach r,$(wildcard results/aa-*.jsonl),--record $(r)) --format json > results/aa-summary.json
	$(BIN)/gemm-bench inject $(foreach r,$(wildcard results/inject-*.jsonl),--record $(r)) --format json \
	  > results/inject-summary.json
	$(BIN)/bench-stats repeats --a A1 --b A3 $(LADDERS) --format json > build/repeats.json && mv build/repeats.json results/repeats-summary.json
	$(BIN)/micro-bench instructions --record results/instructions-h200.jsonl --figure docs/instructions.png > build/instructions.txt
	$(BIN)/micro-bench banks --variants A1 --swizzle both --figures build/banks > build/banks.txt
	cp build/banks/banks-A1-B0.svg docs/
	$(BIN)/gemm-bench explain --format json > build/explain.json && mv build/explain.json results/
	$(BIN)/gemm-bench explain kernels --format json > build/explain-kernels.json && mv build/explain-kernels.json results/
	$(BIN)/gemm-bench explain claims --out results/claims.json > build/claims.txt
	$(BIN)/bench-stats readme

readme-check: $(INSTALLED) ## say where README.md or a page of docs/ is not what its template and records give
	$(BIN)/bench-stats readme --check --untraced

wheel: $(INSTALLED) ## build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## remove .venv and build products of this folder
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov
