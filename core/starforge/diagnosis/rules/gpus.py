"""GPUs and their drivers: too old, not there, broken, or asked for what they cannot do."""

import re
from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import KERNEL, Rule, Weight, error, printed

_OTHER_NODE: Final = "Nothing is wrong with the job: run it on other GPUs, and have this machine looked at."

HARDWARE: Final = (
    Rule(
        kind="ecc",
        category=Category.GPU_HARDWARE,
        patterns=(
            error("CUDA error: uncorrectable ECC error encountered", "RuntimeError|AcceleratorError|DistBackendError"),
            printed(
                "uncorrectable ECC error encountered",
                r"ProcessGroupNCCL\.cpp:\d+\] .{0,120}terminated with exception: CUDA error: uncorrectable ECC error",
            ),
            printed(
                "CUDA error: uncorrectable ECC error",
                r"^\s{0,4}what\(\):\s{1,4}CUDA error: uncorrectable ECC error encountered",
            ),
            printed(
                "'uncorrectable ECC error encountered'",
                r"NCCL WARN (?:\[[^\]]{0,200}\] )?Cuda failure (?:\d+ )?'uncorrectable ECC error encountered'",
            ),
        ),
        summary="The GPU's memory is faulty (uncorrectable ECC error).",
        advice=_OTHER_NODE,
        source="https://docs.nvidia.com/deploy/xid-errors/",
        weight=Weight.PROOF,
        retryable=True,
    ),
    Rule(
        kind="nvlink_error",
        category=Category.GPU_FABRIC,
        patterns=(
            error("uncorrectable NVLink error detected", "RuntimeError|AcceleratorError|DistBackendError"),
            printed("NVRM: Xid", KERNEL + r"NVRM: Xid \(PCI:[\w:.]+\): (?P<xid>74), "),
        ),
        summary="A link between GPUs (NVLink) failed.",
        advice=_OTHER_NODE,
        source="https://docs.nvidia.com/deploy/xid-errors/",
        weight=Weight.PROOF,
        retryable=True,
    ),
    Rule(
        kind="sxid_fatal",
        category=Category.GPU_FABRIC,
        patterns=(printed("SXid (PCI:", KERNEL + r"nvidia-nvswitch\d+: SXid \(PCI:[\w:.]+\): \d+, Fatal\b"),),
        summary="A switch between the GPUs (NVSwitch) failed: all GPUs of the machine are affected.",
        advice="Nothing is wrong with the job: run it on another machine, and drain this one.",
        source="https://github.com/leptonai/gpud/tree/main/components/accelerator/nvidia/sxid",
        weight=Weight.PROOF,
        retryable=True,
    ),
    Rule(
        kind="xid_hardware",
        category=Category.GPU_HARDWARE,
        patterns=(
            printed(
                "NVRM: Xid", KERNEL + r"NVRM: Xid \(PCI:[\w:.]+\): (?P<xid>48|62|64|79|92|94|95|119|120|136|140|143), "
            ),
            printed(
                "has fallen off the bus",
                KERNEL + r"NVRM: (?:GPU \S+: )?(?:GPU|The NVIDIA GPU \S+)[^.]{0,80} has fallen off the bus",
            ),
            printed(
                "Unable to determine the device handle for",
                r"^Unable to determine the device handle for (?:gpu|GPU)\s?\S+: (?:GPU is lost|Unknown Error)",
            ),
            error("GPU is lost", "NVMLError_GpuIsLost|NVMLError"),
        ),
        summary="The driver reports a fault of the GPU itself.",
        advice=_OTHER_NODE,
        source="https://docs.nvidia.com/deploy/xid-errors/",
        weight=Weight.PROOF,
        retryable=True,
    ),
    Rule(
        kind="fabric_not_started",
        category=Category.GPU_FABRIC,
        patterns=(
            error("system not yet initialized", "RuntimeError|AcceleratorError"),
            printed("Error 802: system not yet initialized", r"Error 802: system not yet initialized"),
        ),
        summary="The service that connects the machine's GPUs (Fabric Manager) is not running.",
        advice="Have an administrator start nvidia-fabricmanager in "
        "the driver's version; run the job elsewhere meanwhile.",
        source="https://github.com/pytorch/pytorch/issues/35710",
        retryable=True,
    ),
)

DRIVERS: Final = (
    Rule(
        kind="driver_too_old_version",
        category=Category.DRIVER_TOO_OLD,
        patterns=(
            error(
                "The NVIDIA driver on your system is too old (found version ",
                "RuntimeError",
                r"(?P<major>\d{2})0(?P<minor>\d)0\)",
            ),
        ),
        summary="The machine's NVIDIA driver goes up to CUDA {major}.{minor}, and the image's CUDA is newer.",
        advice="Use an image for CUDA {major}.{minor} or older, or a machine with a newer driver.",
        source="https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAFunctions.cpp",
    ),
    Rule(
        kind="driver_too_old",
        category=Category.DRIVER_TOO_OLD,
        patterns=(
            error("The NVIDIA driver on your system is too old", "RuntimeError"),
            error(
                "CUDA driver version is insufficient for CUDA runtime version",
                "RuntimeError|AcceleratorError|CudaRuntimeError",
            ),
            error("the provided PTX was compiled with an unsupported toolchain", "RuntimeError|AcceleratorError"),
            printed(
                "nvidia-container-cli: requirement error",
                r"nvidia-container-cli: requirement error: unsatisfied condition: cuda",
            ),
            printed(
                "CUDA driver version is insufficient",
                r"NCCL WARN (?:\[[^\]]{0,200}\] )?Cuda failure (?:\d+ )?'CUDA driver version is insufficient",
            ),
        ),
        summary="The machine's NVIDIA driver is older than the image's CUDA needs.",
        advice="Use an image with an older CUDA, or a machine with a newer driver.",
        source="https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAFunctions.cpp",
    ),
    Rule(
        kind="driver_too_old_warned",
        category=Category.DRIVER_TOO_OLD,
        patterns=(
            printed(
                "The NVIDIA driver on your system is too old",
                r"UserWarning: CUDA initialization: The NVIDIA driver on your system is too old",
            ),
        ),
        summary="CUDA could not start: the machine's NVIDIA driver is older than the image's CUDA needs.",
        advice="Use an image with an older CUDA, or a machine with a newer driver; what failed later is a consequence.",
        source="https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAFunctions.cpp",
        weight=Weight.CONDITION,
        confidence=Confidence.LIKELY,
        explains=re.compile(r"cuda|gpu|nccl|bf16|bfloat16|fp16|device", re.IGNORECASE),
    ),
    Rule(
        kind="forward_compatibility",
        category=Category.DRIVER_TOO_OLD,
        patterns=(error("forward compatibility was attempted on non supported HW", "RuntimeError|AcceleratorError"),),
        summary="The image brings a newer part of the driver, which this GPU does not allow.",
        advice="Use an image for the driver of this machine; forward compatibility is for data-centre GPUs only.",
        source="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Rule(
        kind="driver_mismatch",
        category=Category.GPU_NOT_VISIBLE,
        patterns=(
            error("system has unsupported display driver / cuda driver combination", "RuntimeError|AcceleratorError"),
        ),
        summary="The part of the NVIDIA driver that the program loads does not fit the driver that runs.",
        advice="See that the image puts no libcuda of its own (cuda-compat, LD_LIBRARY_PATH) before the machine's; "
        "otherwise the machine's driver was updated and wants a restart.",
        source="https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="gpu_not_visible",
        category=Category.GPU_NOT_VISIBLE,
        patterns=(
            error("No CUDA GPUs are available", "RuntimeError"),
            error("Found no NVIDIA driver on your system", "RuntimeError"),
            error("no CUDA-capable device is detected", "RuntimeError|AcceleratorError"),
            error(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False",
                "RuntimeError",
            ),
            error("Failed to infer device type", "RuntimeError"),
            error("CUDA unknown error - this may be due to an incorrectly set up environment", "RuntimeError"),
            printed(
                "could not select device driver",
                r"could not select device driver \"\w*\" with capabilities: \[\[gpu\]\]",
            ),
        ),
        summary="The program saw no GPU.",
        advice="Ask for GPUs in the job's profile, and set no CUDA_VISIBLE_DEVICES of your own.",
        source="https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAFunctions.cpp",
    ),
    Rule(
        kind="device_ordinal",
        category=Category.GPU_NOT_VISIBLE,
        patterns=(error("invalid device ordinal", "RuntimeError|AcceleratorError"),),
        summary="More processes were started than GPUs are there, or a GPU was named that is not.",
        advice="Start as many processes as the job has GPUs on one machine; the first is always cuda:0.",
        source="https://github.com/pytorch/pytorch/issues/27890",
    ),
    Rule(
        kind="gpu_busy",
        category=Category.GPU_NOT_VISIBLE,
        patterns=(error("all CUDA-capable devices are busy or unavailable", "RuntimeError|AcceleratorError"),),
        summary="The GPU is held by another process, or in a state in which it takes none.",
        advice="Run the job again elsewhere; an administrator sees what holds the GPU with nvidia-smi.",
        source="https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        retryable=True,
    ),
    Rule(
        kind="nvml_mismatch",
        category=Category.GPU_NOT_VISIBLE,
        patterns=(
            error("Driver/library version mismatch", "NVMLError_LibRmVersionMismatch|NVMLError|RuntimeError"),
            printed("Driver/library version mismatch", r"^Failed to initialize NVML: Driver/library version mismatch"),
        ),
        summary="The machine's driver was updated while the old one still runs.",
        advice="Have an administrator reload the driver or restart the machine; run the job elsewhere meanwhile.",
        source="https://github.com/NVIDIA/nvidia-container-toolkit/issues/289",
        retryable=True,
    ),
    Rule(
        kind="gpu_unsupported",
        category=Category.GPU_UNSUPPORTED,
        patterns=(
            error("only supports Ampere GPUs or newer", "RuntimeError"),
            error("Bfloat16 is only supported on GPUs with compute capability", "ValueError"),
            error("Your setup doesn't support bf16", "ValueError"),
            error("bf16 mixed precision requires", "ValueError"),
            error("fp16 mixed precision requires a GPU", "ValueError"),
            error("FP16 Mixed precision training with AMP", "ValueError", r".{0,300}can only be used on"),
        ),
        summary="This kind of GPU, or a machine without any, cannot do what was asked for.",
        advice="Use fp16 or fp32 and attn_implementation: sdpa on older GPUs, or ask for a newer series.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/training_args.py",
        confidence=Confidence.LIKELY,
        weight=Weight.KILL,
    ),
)

KERNELS: Final = (
    Rule(
        kind="triton_shared_memory",
        category=Category.TRITON_RESOURCES,
        patterns=(
            error(
                "out of resource: ",
                "OutOfResources",
                r"(?P<what>shared memory|registers|threads|tensor memory|global memory)",
            ),
        ),
        summary="A Triton kernel needs more {what} on the GPU itself than this kind has.",
        advice="Use smaller blocks or fewer stages, or a larger class of GPU; the shared memory of the job (/dev/shm) "
        "has nothing to do with it.",
        source="https://github.com/triton-lang/triton/blob/main/python/triton/runtime/errors.py",
    ),
    Rule(
        kind="label_out_of_range",
        category=Category.DATASET_SCHEMA,
        patterns=(
            printed("t >= 0 && t < n_classes", r"Assertion `t >= 0 && t < n_classes` failed"),
            error("Target ", "IndexError", r"\d+ is out of bounds", starts=True),
        ),
        summary="A label is beyond the number of classes of the model.",
        advice="Count labels from 0, set num_labels to their number, and mask what is no label with -100.",
        source="https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/NLLLoss2d.cu",
    ),
    Rule(
        kind="embedding_index",
        category=Category.TOKENIZER_VOCAB,
        patterns=(
            printed("srcIndex < srcSelectDimSize", r"Assertion `srcIndex < srcSelectDimSize` failed"),
            printed(
                "index out of bounds",
                r"Assertion `(?:-sizes\[i\] <= index && index < sizes\[i\] && "
                r"\")?(?:index out of bounds|ind >= 0 && ind < ind_dim_size)",
            ),
            printed(
                "vectorized_gather_kernel",
                r"vectorized_gather_kernel: .{0,120}Assertion `ind >=? ?0 && ind < ind_dim_size",
            ),
            error("index out of range in self", "IndexError"),
        ),
        summary="A token id, or a position, is beyond the size of the model's embedding.",
        advice="Tokenizer and model do not match: resize the embedding after adding tokens, and keep sequences within "
        "the model's length.",
        source="https://github.com/huggingface/transformers/issues/25503",
    ),
    Rule(
        kind="probability_not_a_number",
        category=Category.NAN_LOSS,
        patterns=(
            error("probability tensor contains either `inf`, `nan` or element < 0", "RuntimeError"),
            printed(
                "probability tensor contains either",
                r"Assertion `probability tensor contains either `inf`, `nan` or element < 0` failed",
            ),
        ),
        summary="The model's logits are no numbers any more: it could not draw a token.",
        advice="Use bf16 instead of fp16, a lower learning rate, and look for the step from which the loss was none.",
        source="https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/Distributions.cpp",
    ),
    Rule(
        kind="illegal_access",
        category=Category.CUDA_ILLEGAL_ACCESS,
        patterns=(
            error("an illegal memory access was encountered", "RuntimeError|AcceleratorError|DistBackendError"),
            error("CUDA error: misaligned address", "RuntimeError|AcceleratorError"),
            error("CUDA error: unspecified launch failure", "RuntimeError|AcceleratorError"),
            printed(
                "CUDA error: ",
                r"^\s{0,4}what\(\):\s{1,4}CUDA error: (?:an illegal memory access was encountered|misaligned address"
                r"|unspecified launch failure)",
            ),
            printed(
                "an illegal memory access was encountered",
                r"ProcessGroupNCCL\.cpp:\d+\] .{0,120}terminated with exception: CUDA error: an illegal memory access",
            ),
            printed("NVRM: Xid", KERNEL + r"NVRM: Xid \(PCI:[\w:.]+\): (?:13|31), "),
        ),
        summary="A kernel on the GPU touched memory that is not its own.",
        advice="Run it once with CUDA_LAUNCH_BLOCKING=1 to see which "
        "kernel; most often it is a custom kernel or an index "
        "beyond its range. On one machine only: have the GPU looked at.",
        source="https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        weight=Weight.KILL,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="device_assert",
        category=Category.CUDA_ILLEGAL_ACCESS,
        patterns=(error("CUDA error: device-side assert triggered", "RuntimeError|AcceleratorError"),),
        summary="An assertion inside a kernel failed; which one stands above it, if it was printed.",
        advice="Run it once with CUDA_LAUNCH_BLOCKING=1, or on a CPU: most often an index or a label is out of range.",
        source="https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAException.cpp",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LOW,
    ),
    Rule(
        kind="cublas_failed",
        category=Category.CUDA_ILLEGAL_ACCESS,
        patterns=(
            error("CUBLAS_STATUS_EXECUTION_FAILED", "RuntimeError"),
            error("CUBLAS_STATUS_NOT_INITIALIZED", "RuntimeError"),
            error("CUDNN_STATUS_EXECUTION_FAILED", "RuntimeError"),
        ),
        summary="A CUDA library failed, as after an index out of range, or without free memory.",
        advice="Run it once with CUDA_LAUNCH_BLOCKING=1; check token "
        "ids and labels against the model, and leave memory free.",
        source="https://github.com/pytorch/pytorch/issues/54975",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LOW,
    ),
)
