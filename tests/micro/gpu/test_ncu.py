"""What ncu prints is read as it is meant: names of metrics, the raw page, instances, a kernel's template arguments."""

from __future__ import annotations

import pytest

from micro.counters.count import template_integers
from micro.gpu.ncu import parse_instances, parse_names, parse_raw
from stats.base.errors import BenchError


def test_names_are_read_from_both_forms_of_the_query() -> None:
    table = (
        "Device NVIDIA A100-PCIE-40GB (GA100)\n"
        "----------------- ------------ ------------ ---------------------------\n"
        "Metric Name       Metric Type  Metric Unit  Metric Description\n"
        "dram__bytes       Counter      byte         # of bytes accessed in DRAM\n"
        "smsp__inst_executed_op_ldsm  Counter  inst  # of warp instructions executed: LDSM\n"
    )
    assert parse_names(table) == (frozenset({"dram__bytes", "smsp__inst_executed_op_ldsm"}), frozenset())
    bases, full = parse_names("Device X\ndram__bytes.sum\ndram__bytes.sum.pct_of_peak_sustained_elapsed\n")
    assert bases == {"dram__bytes"}
    assert full == {"dram__bytes.sum", "dram__bytes.sum.pct_of_peak_sustained_elapsed"}


def test_the_raw_page_is_read_with_units_separators_and_foreign_lines() -> None:
    text = (
        "==PROF== Connected to process 1 (python)\n"
        '"ID","Process ID","Kernel Name","Block Size","Grid Size","dram__bytes_read.sum","gpu__time_duration.sum"\n'
        '"","","","","","byte","ns"\n'
        '"0","1","w13_kernel","(256, 1, 1)","(5, 20, 1)","10,240,000","4.0e+04"\n'
        '"1","1","w2_kernel","(1024, 1, 1)","(80, 1, 1)","n/a","2.0e+04"\n'
    )
    first, second = parse_raw(text)
    assert first.values == {"dram__bytes_read.sum": 10_240_000, "gpu__time_duration.sum": 40_000}
    assert first.units["gpu__time_duration.sum"] == "ns"
    assert second.values["dram__bytes_read.sum"] != second.values["dram__bytes_read.sum"]
    with pytest.raises(BenchError, match="has no table"):
        parse_raw("==WARNING== No kernels were profiled.\n")
    with pytest.raises(BenchError, match="has 2 fields"):
        parse_raw(text + '"2","1"\n')


# ncu 2025.3.1 on an H200: some columns of the raw page of a GEMM launch, instances in details, and of the suffix query.
RAW_2025 = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","device__attribute_display_name","gpu__time_duration.sum","inst_executed","launch__func_cache_config",'
    '"sass__inst_executed_per_opcode","sm__inst_executed_pipe_lsu.sum"\n'
    '"","","","","","","","","","","","","ns","inst","","","inst"\n'
    '"0","1761","python3.12","127.0.0.1","void <unnamed>::gemm_kernel<__nv_bfloat16, 0, 0, 1, 3, 1, 0, 0, 0, 2>'
    '(const T1 *, const T1 *, T1 *, int, int, int)","1","7","(256, 1, 1)","(256, 1, 1)","0","9.0","NVIDIA H200",'
    '"23744","5203968 (0x7f5e9f7f7500: 2048; 0x7f5e9f7f7510: 2048)","CachePreferNone (0: CachePreferNone)",'
    '"5203968 (LDS: 2195456; HMMA: 1048576; LDGSTS: 147456)","2480128"\n'
)
SUFFIXES_2025 = (
    "Device NVIDIA H200 (GH100)\n"
    "------------------------------------------------------- ------------ ------------ -----------------------------\n"
    "Metric Name                                             Metric Type  Metric Unit  Metric Description\n"
    "------------------------------------------------------- ------------ ------------ -----------------------------\n"
    "gpc__cycles_elapsed.avg                                 Counter      cycle        # of cycles elapsed on GPC\n"
    "                                                                                  across all sub-unit instances)\n"
    "gpc__cycles_elapsed.avg.peak_sustained                  Counter                   # of cycles elapsed on GPC\n"
    "SM_A.TriageCompute.l1tex__data_pipe_lsu_wavefronts      Counter                   # of local/global\n"
    "==PROF== Note that these metrics must be appended with a valid suffix before profiling them.\n"
)


def test_the_raw_page_of_an_h200() -> None:
    (launch,) = parse_raw(RAW_2025)
    assert template_integers(launch.kernel) == [0, 0, 1, 3, 1, 0, 0, 0, 2]
    assert (launch.grid, launch.values["gpu__time_duration.sum"]) == ("(256, 1, 1)", 23744)
    assert (launch.values["inst_executed"], launch.units["inst_executed"]) == (5203968, "inst")
    assert parse_instances(launch.text["inst_executed"]) == {"0x7f5e9f7f7500": 2048, "0x7f5e9f7f7510": 2048}
    assert parse_instances(launch.text["sass__inst_executed_per_opcode"])["LDGSTS"] == 147456


def test_the_suffix_query_of_an_h200_lists_no_metric_of_another_collector() -> None:
    bases, full = parse_names(SUFFIXES_2025)
    assert bases == {"gpc__cycles_elapsed"}
    assert full == {"gpc__cycles_elapsed.avg", "gpc__cycles_elapsed.avg.peak_sustained"}


def test_instances_and_template_arguments() -> None:
    assert parse_instances("1,234 (LDS: 1,000; HMMA: 234)") == {"LDS": 1000, "HMMA": 234}
    assert parse_instances("1,234") == {}
    gemm = "void gemm_kernel<__nv_bfloat16, (layout::ReadMode)1, (layout::BLayout)0, (LoadMode)1, (int)3, (bool)1>(int)"
    assert template_integers(gemm) == [1, 0, 1, 3, 1]
