"""Processes that work together: links between them, time-outs, and what one sees when another is gone."""

from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import Rule, Weight, error, printed

_WARN: Final = r"NCCL WARN (?:\[[^\]]{0,200}\] )?"

RULES: Final = (
    Rule(
        kind="ib_completion",
        category=Category.NCCL_NETWORK,
        patterns=(
            printed(
                "NET/IB",
                _WARN + r"NET/IB ?: (?:\S{1,40} )?Got completion (?:from peer \S+ )?with (?:status=|error )\d+",
            ),
            printed("ibv_", _WARN + r"Call to ibv_(?:modify_qp|create_qp|poll_cq|reg_dmabuf_mr)\w* failed"),
        ),
        summary="An InfiniBand or RoCE link between machines failed or timed out.",
        advice="Check the link, the GID index and the switch between the two machines; run the job again on others.",
        source="https://github.com/NVIDIA/nccl/issues/1814",
        retryable=True,
    ),
    Rule(
        kind="ib_memory_lock",
        category=Category.NCCL_SYSTEM,
        patterns=(printed("ibv_reg_mr", _WARN + r"Call to ibv_reg_mr\w* failed with error Cannot allocate memory"),),
        summary="InfiniBand may not lock memory: the limit (memlock) is too low.",
        advice="Have an administrator let containers lock memory (ulimit memlock=-1).",
        source="https://github.com/NVIDIA/nccl/issues/255",
    ),
    Rule(
        kind="nccl_connect",
        category=Category.NCCL_NETWORK,
        patterns=(
            printed(
                "onnect ",
                r"(?:NCCL WARN |^)(?:\[[^\]]{0,200}\] )?(?:socket\w+: |Call to )[Cc]onnect (?:to \S+ )?"
                r"(?:returned|failed) ?:? ?"
                r"(?:No route to host|Connection refused|Connection timed out|Network is unreachable|Software caused)",
            ),
            printed("no socket interface found", _WARN + r"Bootstrap ?: no socket interface found"),
            printed(
                "NCCL WARN", _WARN + r"NET/Socket ?: (?:unable to find any|No usable listening) (?:interface|sockets?)"
            ),
        ),
        summary="The machines cannot reach one another on the interface that NCCL chose.",
        advice="Set NCCL_SOCKET_IFNAME to the interface between the machines, and open its ports in the firewall.",
        source="https://github.com/NVIDIA/nccl/issues/1580",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="nccl_duplicate_gpu",
        category=Category.NCCL_SYSTEM,
        patterns=(
            printed(
                "Duplicate GPU detected",
                r"(?:NCCL WARN |^|: )Duplicate GPU detected ?: rank (?P<rank>\d+) and rank \d+ both on CUDA device",
            ),
        ),
        summary="Two processes use the same GPU.",
        advice="Let each process take the GPU of its local rank: torch.cuda.set_device(local_rank), one process a GPU.",
        source="https://github.com/NVIDIA/nccl/blob/master/src/init.cc",
    ),
    Rule(
        kind="nccl_cuda_failure",
        category=Category.NCCL_SYSTEM,
        patterns=(
            printed(
                "Cuda failure",
                _WARN + r"Cuda failure (?:\d+ )?'(?:invalid argument|peer access is not supported between these "
                r"two devices|API call is not supported in the installed CUDA "
                r"driver|operation not supported|operation not permitted)'",
            ),
        ),
        summary="CUDA refused what NCCL needs to pass data between GPUs.",
        advice="Try NCCL_SHM_DISABLE=1, or NCCL_P2P_DISABLE=1 where peer access is meant, and see whether the "
        "container lacks a privilege.",
        source="https://github.com/NVIDIA/nccl/issues/1518",
    ),
    Rule(
        kind="collective_mismatch",
        category=Category.NCCL_TIMEOUT,
        patterns=(error("Detected mismatch between collectives on ranks", "RuntimeError|DistBackendError"),),
        summary="Processes called different collectives: they took different paths through the code.",
        advice="Let every rank run the same collectives, also in evaluation, in saving, and where data runs out early.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
    ),
    Rule(
        kind="barrier_rank_missing",
        category=Category.NCCL_TIMEOUT,
        patterns=(error("failed to pass monitoredBarrier in", "RuntimeError"),),
        summary="A process did not come to a barrier in time.",
        advice="Look at what that rank did last: it hangs, or took another path through the code.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="nccl_watchdog",
        category=Category.NCCL_TIMEOUT,
        patterns=(
            printed(
                "Watchdog caught collective operation timeout",
                r"(?:\[Rank (?P<rank>\d+)\]|ProcessGroupNCCL\.cpp:\d+\]).{0,160}Watchdog "
                r"caught collective operation timeout: WorkNCCL",
            ),
        ),
        summary="A collective did not finish in time: at least one process did not take part.",
        advice="Find the rank that is behind: it runs other code, waits for data, or its machine hangs. Raise "
        "ddp_timeout only where one step may really take that long.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        weight=Weight.SYMPTOM,
    ),
    Rule(
        kind="gloo_timeout",
        category=Category.NCCL_TIMEOUT,
        patterns=(error("Timed out waiting ", "RuntimeError", r"\d+ms for (?:recv|send) operation to complete"),),
        summary="A collective did not finish in time: at least one process did not take part.",
        advice="Find the rank that hangs or is gone, from its last lines.",
        source="https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/unbound_buffer.cc",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="nccl_heartbeat",
        category=Category.NCCL_TIMEOUT,
        patterns=(
            printed("ProcessGroupNCCL's watchdog got stuck for", r"ProcessGroupNCCL's watchdog got stuck for \d+"),
        ),
        summary="A process stood still so long that its own watchdog ended it.",
        advice="See what it did at that time: a slow file system, a checkpoint that takes long, or a hanging GPU.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LOW,
    ),
    Rule(
        kind="store_timeout",
        category=Category.NETWORK,
        patterns=(
            error("waiting for clients", "DistStoreError|RuntimeError", r"\. \d+/\d+ clients joined"),
            error("The client socket has timed out after", "DistNetworkError|RuntimeError|TimeoutError"),
            error("connectFullMesh failed", "RuntimeError|DistNetworkError"),
            error("retrieving ncclUniqueId from", "RuntimeError|DistBackendError"),
            error("wait timeout after ", "DistStoreError", r"\d+ms"),
            error("The connection to the C10d store has failed", "RendezvousConnectionError|RendezvousTimeoutError"),
            error("The client socket has failed to connect to any network address of", "DistNetworkError|RuntimeError"),
        ),
        summary="The processes did not all find one another at the start.",
        advice="Check the address and port of the first machine (MASTER_ADDR, MASTER_PORT), the firewall, and whether "
        "every machine started its processes.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/TCPStore.cpp",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="nccl_remote",
        category=Category.NCCL_NETWORK,
        patterns=(
            printed(
                "ncclRemoteError",
                r"ncclRemoteError: A call failed possibly due to a "
                r"network error or a remote process exiting prematurely",
            ),
            printed(
                "NCCL WARN",
                _WARN + r"(?:socketProgress|NET/Socket|ncclSocketProgressOpt): Connection closed by remote peer",
            ),
        ),
        summary="The connection to another process broke: it ended, or the network between them failed.",
        advice="Look for the first error of the other processes; without one, check the network between the machines.",
        source="https://github.com/NVIDIA/nccl/blob/master/src/init.cc",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
        retryable=True,
    ),
    Rule(
        kind="nccl_unhandled",
        category=Category.NCCL_SYSTEM,
        patterns=(
            error("unhandled system error", "DistBackendError|RuntimeError", r" \("),
            error("unhandled cuda error", "DistBackendError|RuntimeError", r" \("),
            error("invalid usage (run with NCCL_DEBUG", "DistBackendError|RuntimeError"),
            error("internal error - please report this issue to the NCCL developers", "DistBackendError|RuntimeError"),
        ),
        summary="NCCL failed in a call to the system or to CUDA; the lines here do not tell which.",
        advice="Set NCCL_DEBUG=WARN and run it again: the line with NCCL WARN names the call.",
        source="https://github.com/NVIDIA/nccl/blob/master/src/init.cc",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
    ),
)
