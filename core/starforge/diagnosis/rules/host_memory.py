"""Host memory, shared memory and other limits of the machine ran out."""

import re
from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import KERNEL, SLURM_ERROR, Rule, Weight, error, logged, printed, raised

_MORE_MEMORY: Final = (
    "Ask for more memory, or hold less of it: fewer data loader workers, streamed data, fewer copies of a checkpoint."
)

HOST_MEMORY: Final = (
    Rule(
        kind="slurm_oom",
        category=Category.HOST_OOM,
        patterns=(
            printed("oom_kill event", SLURM_ERROR + r"Detected \d+ oom[_-]kill event"),
            printed("oom-kill event", SLURM_ERROR + r"Detected \d+ oom[_-]kill event"),
        ),
        summary="Slurm saw the kernel kill a process of the job at its limit of host memory.",
        advice=_MORE_MEMORY,
        source="https://github.com/SchedMD/slurm/blob/master/src/plugins/task/cgroup/task_cgroup_memory.c",
        weight=Weight.PROOF,
    ),
    Rule(
        kind="kernel_oom",
        category=Category.HOST_OOM,
        patterns=(
            printed(
                "ut of memory: Killed process",
                KERNEL + r"(?:Memory cgroup out|Out) of memory: Killed process \d+ "
                r"\((?P<process>python[\d.]*|pt_main_thread|pt_data_worker|"
                r"ray::[\w.:-]*|torchrun|deepspeed|vllm|VLLM[\w:.-]*)\)",
            ),
        ),
        summary="The kernel killed {process} because host memory ran out.",
        advice=_MORE_MEMORY,
        source="https://github.com/torvalds/linux/blob/master/mm/oom_kill.c",
        weight=Weight.PROOF,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="ray_oom",
        category=Category.HOST_OOM,
        patterns=(
            error("Task was killed due to the node running low on memory", "OutOfMemoryError"),
            printed(
                "due to memory pressure (OOM)",
                r"^(?:\[[^\]]{1,80}\] \(raylet\) node_manager\.cc:\d{1,6}: )?"
                r"\d+ Workers \(tasks / actors\) killed due to memory pressure",
            ),
        ),
        summary="Ray ended a worker because the machine ran low on host memory.",
        advice=_MORE_MEMORY + " Ray's own threshold is RAY_memory_usage_threshold.",
        source="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
    ),
    Rule(
        kind="loader_killed",
        category=Category.HOST_OOM,
        patterns=(
            error("is killed by signal: Killed", "RuntimeError"),
            error("abruptly died during map operation", "RuntimeError"),
        ),
        summary="A worker that prepares data was killed, most likely for host memory.",
        advice=_MORE_MEMORY,
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/DataLoader.cpp",
        weight=Weight.KILL,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="array_memory",
        category=Category.HOST_OOM,
        patterns=(
            error("Unable to allocate", "_?ArrayMemoryError|MemoryError", r" [\d.]+ [KMGTP]i?B", starts=True),
            raised("MemoryError", "MemoryError"),
        ),
        summary="Python could not allocate host memory.",
        advice=_MORE_MEMORY,
        source="https://github.com/numpy/numpy/blob/main/numpy/_core/_exceptions.py",
    ),
    Rule(
        kind="allocator_host_memory",
        category=Category.HOST_OOM,
        patterns=(
            error("DefaultCPUAllocator: ", "RuntimeError", r"(?:can't allocate|not enough) memory"),
            error("Cannot allocate memory", "OSError|BlockingIOError|RuntimeError"),
            error("malloc of size ", "ArrowMemoryError", r"\d+ failed", starts=True),
        ),
        summary="The operating system refused host memory.",
        advice=_MORE_MEMORY,
        source="https://github.com/pytorch/pytorch/blob/main/c10/core/impl/alloc_cpu.cpp",
    ),
    Rule(
        kind="bad_alloc",
        category=Category.HOST_OOM,
        patterns=(
            printed(
                "std::bad_alloc",
                r"^(?:terminate called after throwing an instance of "
                r"'std::bad_alloc'|\s{0,4}what\(\):\s{1,4}std::bad_alloc)",
            ),
        ),
        summary="Native code could not allocate host memory.",
        advice=_MORE_MEMORY,
        source="https://en.cppreference.com/w/cpp/memory/new/bad_alloc",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="engine_ended_itself",
        category=Category.KILLED_UNKNOWN,
        patterns=(printed("Killed", r"^(?:\S{1,200}: line \d+: +\d+ )?Killed(?: {2,}\S.{0,400})?$"),),
        summary="The inference engine ended its own processes because one of them had failed.",
        advice="Look for the first error of the engine's other processes: signal 9 came from the engine itself.",
        source="https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/engine.py",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
        above=re.compile(r"Received sigquit from a child process\."),
    ),
    Rule(
        kind="worker_killed",
        category=Category.HOST_OOM,
        patterns=(
            printed("exitcode: -9)", r"failed \(exitcode: -9\) local_rank: (?P<rank>\d+) \(pid: \d+\)"),
            printed("exitcode", r"^\s*exitcode\s{1,4}: -9 \(pid: \d+\)"),
            error("died with <Signals.SIGKILL: 9>", "CalledProcessError"),
            logged("exits with return code = -9", r"(?:^| )exits with return code = -9$"),
            printed("Killed", r"^(?:\S{1,200}: line \d+: +\d+ )?Killed(?: {2,}\S.{0,400})?$"),
        ),
        summary="A process was killed with signal 9, by whom is not said: most likely host memory ran out.",
        advice=_MORE_MEMORY + " The machine's kernel log says whether it was memory.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/distributed/elastic/multiprocessing/api.py",
        weight=Weight.KILL,
        confidence=Confidence.LIKELY,
    ),
)

LIMITS: Final = (
    Rule(
        kind="loader_shm",
        category=Category.SHM_TOO_SMALL,
        patterns=(
            printed(
                "insufficient shared memory (shm)",
                r"^ERROR: Unexpected bus error encountered in worker\. "
                r"This might be caused by insufficient shared memory \(shm\)",
            ),
            error("is killed by signal: Bus error", "RuntimeError"),
        ),
        summary="The shared memory (/dev/shm) is too small for the data loader's workers.",
        advice="Ask for more shared memory, or use fewer workers (num_workers) and smaller batches.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/DataLoader.cpp",
    ),
    Rule(
        kind="nccl_shm",
        category=Category.SHM_TOO_SMALL,
        patterns=(
            printed(
                "posix_fallocate failed",
                r"NCCL WARN (?:\[[^\]]{0,200}\] )?Call to (?:posix_fallocate|"
                r"ftruncate|fallocate) failed ?: No space left on device",
            ),
            printed("failed to extend /dev/shm", r"NCCL WARN Error: failed to extend /dev/shm/nccl-\w+ to \d+ bytes"),
        ),
        summary="The shared memory (/dev/shm) is too small for NCCL; the disk is fine.",
        advice="Ask for more shared memory: Docker gives a container 64 MB of it where nothing is said.",
        source="https://github.com/NVIDIA/nccl/issues/525",
    ),
    Rule(
        kind="torch_shm",
        category=Category.SHM_TOO_SMALL,
        patterns=(
            error("unable to write to file </torch_", "RuntimeError", r"[\w>]{1,80}: No space left on device"),
            error("unable to allocate shared memory(shm) for file", "RuntimeError"),
            error("unable to mmap", "RuntimeError", r".{0,80}</torch_.{0,80}No space left on device"),
        ),
        summary="The shared memory (/dev/shm) is full: tensors could not be passed between processes.",
        advice="Ask for more shared memory, or use fewer workers (num_workers).",
        source="https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/MapAllocator.cpp",
    ),
    Rule(
        kind="nccl_shm_segment",
        category=Category.SHM_TOO_SMALL,
        patterns=(
            printed(
                "Error while creating shared memory segment",
                r"(?:NCCL WARN (?:\[[^\]]{0,200}\] )?|^)Error while creating shared memory segment",
            ),
        ),
        summary="NCCL could not make a segment of shared memory, as when /dev/shm is full.",
        advice="Ask for more shared memory; with NCCL_DEBUG=INFO the line before says what refused it.",
        source="https://github.com/NVIDIA/nccl/blob/master/src/misc/shmutils.cc",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="open_files",
        category=Category.RESOURCE_LIMIT,
        patterns=(
            error("Too many open files", "OSError|RuntimeError"),
            error("received 0 items of ancdata", "RuntimeError"),
        ),
        summary="The process reached its limit of open files.",
        advice="Use fewer data loader workers, or torch.multiprocessing.set_sharing_strategy('file_system'); "
        "administrators raise the limit with ulimit nofile.",
        source="https://github.com/pytorch/pytorch/issues/973",
    ),
    Rule(
        kind="thread_limit",
        category=Category.RESOURCE_LIMIT,
        patterns=(
            error("can't start new thread", "RuntimeError"),
            printed("pthread_create failed", r"^OpenBLAS blas_thread_init: pthread_create failed for thread \d+"),
            error("Resource temporarily unavailable", "BlockingIOError|OSError"),
        ),
        summary="The job reached its limit of processes and threads.",
        advice="Use fewer workers, set OMP_NUM_THREADS=1, or have an administrator raise the limit of processes.",
        source="https://github.com/OpenMathLib/OpenBLAS/blob/develop/driver/others/blas_server.c",
    ),
)
