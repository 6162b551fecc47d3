"""Is there a GPU that can measure, in which state is it, and what may be done to it? Asked without changing anything.

CUDA and NVML are asked apart and matched by UUID, since CUDA_VISIBLE_DEVICES renumbers only CUDA's devices. Whether
clocks could be locked is judged from permission, never by trying: a try would be a lock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from micro.doctor.probes import Finding, Probes, Seen, fail, ok, warn
from micro.gpu.cuda_driver import CudaDevice
from micro.gpu.toolchain import MINIMUM_ARCH
from stats.run.clocks import NEVER_LOCK
from stats.run.nvml import Gpu, open_gpu

_WARM_C = 60  # a GPU that idles hotter is still cooling down, or is badly cooled
_INSTALL_DRIVER = "install an NVIDIA driver; predictions, machine code and analysis need none"


def driver(probes: Probes) -> tuple[list[Finding], Seen]:
    """The driver as NVML and CUDA report it, and what CUDA sees."""
    version, told = _nvml_driver(probes)
    cuda = probes.cuda()
    if cuda is None:
        if version is None:
            return [warn("driver", f"none: no libcuda.so.1; {told}", _INSTALL_DRIVER)], Seen()
        return [
            fail("driver", f"{version}, but no libcuda.so.1", "install the driver's CUDA library (libcuda1)")
        ], Seen()
    error = cuda.start()
    if error is not None:
        hidden = probes.environment.get("CUDA_VISIBLE_DEVICES")
        where = f" (CUDA_VISIBLE_DEVICES={hidden!r})" if hidden is not None else ""
        text = f"cuInit gives {error.number}: {error.meaning}{where}"
        if error.no_device and version is None:
            return [warn("driver", f"{text}; {told}", _INSTALL_DRIVER)], Seen()
        if error.no_device and hidden is not None:
            return [fail("driver", text, "unset CUDA_VISIBLE_DEVICES, or name a device of nvidia-smi -L")], Seen()
        return [fail("driver", text, error.remedy)], Seen()
    seen = Seen(tuple(cuda.devices()), cuda.cuda_version())
    findings = [ok("driver", f"{version or 'version unknown'}, serves CUDA up to {seen.serves[0]}.{seen.serves[1]}")]
    if version is None:
        findings.append(warn("NVML", told, "clocks, temperature and other processes will not be read; repair NVML"))
    if not seen.devices:
        findings.append(fail("GPU", "the driver works and shows no device", "check nvidia-smi -L"))
    return findings, seen


def _nvml_driver(probes: Probes) -> tuple[str | None, str]:
    """The driver's version by NVML; or None and why not."""
    nvml = probes.nvml()
    if nvml is None:
        return None, "NVML: nvidia-ml-py is not installed"
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError) as error:
        return None, f"NVML: {error}"
    try:
        version = nvml.nvmlSystemGetDriverVersion()
        return (version if isinstance(version, str) else version.decode()), ""
    except (nvml.NVMLError, OSError) as error:
        return None, f"NVML: {error}"
    finally:
        Gpu(nvml, None, is_mig=False).close()


def devices(probes: Probes, seen: Seen) -> list[Finding]:
    """One line for each device's identity and limits, then its state as NVML tells it."""
    findings = []
    for device in seen.devices:
        topic = f"GPU {device.index}"
        gpu = open_gpu(device.uuid, nvml=probes.nvml())
        where = (
            f"{device.name}, {_uuid_text(device, gpu)}, sm_{device.arch}, {device.sm_count} SMs, "
            f"{device.shared_bytes_per_sm // 1024} KiB shared memory an SM "
            f"({device.shared_bytes_per_block // 1024} KiB a block), {device.l2_bytes / 2**20:.0f} MiB L2"
        )
        if device.arch < MINIMUM_ARCH:
            needs = f"the kernels need sm_{MINIMUM_ARCH} or newer (bf16 mma, cp.async)"
            findings.append(fail(topic, f"{where}; {needs}", "choose another GPU with --device"))
        else:
            findings.append(ok(topic, where))
        if isinstance(gpu, str):
            findings.append(warn(topic, gpu, "clocks, temperature and other processes will not be read"))
            continue
        try:
            findings += list(_state(topic, gpu))
        finally:
            gpu.close()
    return findings


def _uuid_text(device: CudaDevice, gpu: Gpu | str) -> str:
    digits = device.uuid.hex()
    bare = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return f"UUID {bare} (unknown to NVML)" if isinstance(gpu, str) else f"UUID {bare}"


def _state(topic: str, gpu: Gpu) -> Iterator[Finding]:
    yield from _sharing(topic, gpu)
    yield _ecc(topic, gpu)
    yield _power(topic, gpu)
    yield _persistence(topic, gpu)
    state = gpu.state()
    if math.isnan(state.temperature_c):
        yield warn(topic, "temperature: NVML does not tell", "throttling will show only in the measured clock")
    elif state.temperature_c > _WARM_C:
        yield warn(topic, f"temperature: {state.temperature_c:.0f} °C before any work", "let it cool; check its fans")
    else:
        yield ok(topic, f"temperature: {state.temperature_c:.0f} °C, SM clock {state.sm_clock_mhz:.0f} MHz now")
    if state.throttle_reasons:
        yield warn(topic, f"slowed down now by {', '.join(state.throttle_reasons)}", "mend cooling or power first")


def _sharing(topic: str, gpu: Gpu) -> Iterator[Finding]:
    if gpu.is_mig:
        yield warn(
            topic,
            "MIG: on; SMs, L2 and clocks are shared or cut",
            "for figures of the whole GPU, as root and with nothing running: nvidia-smi -mig 0",
        )
    else:
        yield ok(topic, "MIG: off")

    def pids(processes: Any) -> list[int]:
        return sorted(int(process.pid) for process in processes)

    # The doctor itself holds no context, so every process that NVML lists is somebody else's.
    others = gpu.ask("nvmlDeviceGetComputeRunningProcesses", missing=None, convert=pids)
    if others is None:
        yield warn(topic, "other processes: NVML does not tell", "make sure that nothing else runs on this GPU")
    elif others:
        listed = ", ".join(map(str, others[:5])) + (", …" if len(others) > 5 else "")
        yield warn(
            topic,
            f"other processes: {len(others)} (pid {listed})",
            "end them, or choose another --device; blocks that they touch can be excluded",
        )
    else:
        yield ok(topic, "other processes: none")


def _ecc(topic: str, gpu: Gpu) -> Finding:
    modes = gpu.ask("nvmlDeviceGetEccMode", missing=None, convert=lambda pair: (bool(pair[0]), bool(pair[1])))
    if modes is None:
        return ok(topic, "ECC: not on this GPU")
    current, pending = modes
    if current != pending:
        return warn(topic, "ECC: changes at the next reboot", "reboot first, or records before and after will differ")
    which = getattr(gpu.nvml, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", 1), getattr(gpu.nvml, "NVML_VOLATILE_ECC", 0)
    errors: int = gpu.ask("nvmlDeviceGetTotalEccErrors", *which, missing=0, convert=int)
    if errors:
        return warn(topic, f"ECC: {errors} uncorrected errors since the driver loaded", "reset or replace the GPU")
    return ok(topic, f"ECC: {'on' if current else 'off'}")


def _power(topic: str, gpu: Gpu) -> Finding:
    def watts(milliwatts: Any) -> float:
        return float(milliwatts) / 1e3

    limit: float = gpu.ask("nvmlDeviceGetEnforcedPowerLimit", missing=math.nan, convert=watts)
    default: float = gpu.ask("nvmlDeviceGetPowerManagementDefaultLimit", missing=math.nan, convert=watts)
    if math.isnan(limit):
        return ok(topic, "power cap: NVML does not tell")
    if limit < default:
        return warn(
            topic,
            f"power cap: {limit:.0f} W, below the default of {default:.0f} W",
            f"as root: nvidia-smi -pl {default:.0f}; or compare only runs under the same cap",
        )
    return ok(topic, f"power cap: {limit:.0f} W")


def _persistence(topic: str, gpu: Gpu) -> Finding:
    mode = gpu.ask("nvmlDeviceGetPersistenceMode", missing=None, convert=bool)
    if mode is False:
        return warn(topic, "persistence: off; each process waits for the driver to load", "as root: nvidia-smi -pm 1")
    return ok(topic, f"persistence: {'on' if mode else 'NVML does not tell'}")


def clocks(probes: Probes, seen: Seen) -> list[Finding]:
    """Whether a lock of the clocks would be permitted, judged without asking for one."""
    if not seen.devices:
        return []
    gpu = open_gpu(seen.devices[0].uuid, nvml=probes.nvml())
    is_mig = not isinstance(gpu, str) and gpu.is_mig
    if not isinstance(gpu, str):
        gpu.close()
    reason, remedy = None, ""
    if isinstance(gpu, str):
        reason, remedy = gpu, "repair NVML"
    elif probes.environment.get(NEVER_LOCK):
        reason, remedy = f"{NEVER_LOCK} is set", f"unset {NEVER_LOCK}, if nobody else uses the GPU"
    elif is_mig:
        reason, remedy = "MIG: the clock belongs to the whole GPU", "switch MIG off, if the GPU is yours alone"
    elif not probes.is_admin():
        container = probes.in_container()
        reason = "no CAP_SYS_ADMIN" + (" in this container" if container else ": not root")
        remedy = "start the container with --cap-add SYS_ADMIN" if container else "run as root to lock"
    if reason is not None:
        return [warn("clocks", f"cannot be locked ({reason}); a run only monitors them, and says so", remedy)]
    return [ok("clocks", "may be locked (--clocks lock); whether a lock holds, the measured clock tells")]


def counters(probes: Probes, seen: Seen) -> list[Finding]:
    """Whether ncu may read counters: the driver's own parameter, or the right that overrides it."""
    if not seen.devices:
        return []
    text = probes.profiling_parameters()
    if probes.is_admin():
        return [ok("counters", "permitted (CAP_SYS_ADMIN)")]
    if text is None:
        return [
            warn("counters", "permission unknown: no /proc/driver/nvidia/params", "try: micro-bench counters; or root")
        ]
    if "RmProfilingAdminOnly: 0" in text:
        return [ok("counters", "permitted for every user (RmProfilingAdminOnly: 0)")]
    return [
        warn(
            "counters",
            "for root only (RmProfilingAdminOnly: 1): ncu will say ERR_NVGPUCTRPERM",
            "run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    ]
