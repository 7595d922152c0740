"""The memory of a GPU ran out."""

from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import Rule, Weight, error, logged, printed

RULES: Final = (
    Rule(
        kind="vllm_free_memory",
        category=Category.GPU_OOM,
        patterns=(error("on startup is less than desired GPU memory utilization", "ValueError"),),
        summary="The GPU had less free memory at the start than the inference engine shall use.",
        advice="Lower gpu_memory_utilization, or see what else holds memory of this GPU: a trainer in the same job, "
        "or a process that was left over.",
        source="https://github.com/vllm-project/vllm/blob/main/vllm/v1/worker/gpu_worker.py",
    ),
    Rule(
        kind="sglang_memory",
        category=Category.GPU_OOM,
        patterns=(error("Not enough memory. Please try to increase --mem-fraction-static", "RuntimeError|ValueError"),),
        summary="The inference engine has no memory left for its cache after loading the model.",
        advice="Raise mem_fraction_static, use more GPUs for one model, or a smaller model.",
        source="https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/model_executor/model_runner.py",
    ),
    Rule(
        kind="quantized_offload",
        category=Category.GPU_OOM,
        patterns=(error("Some modules are dispatched on the CPU or the disk", "ValueError"),),
        summary="The quantised model does not fit the GPU: parts of it would have to lie in host memory.",
        advice="Use a GPU with more memory or more GPUs, or load fewer models onto this one.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/quantizers/quantizer_bnb_4bit.py",
    ),
    Rule(
        kind="cuda_oom",
        category=Category.GPU_OOM,
        patterns=(
            error("CUDA out of memory", "OutOfMemoryError|RuntimeError"),
            error("CUDA out of memory", "ValueError", r" occurred when warming up"),
            error("Allocation on device", "OutOfMemoryError"),
            printed("CUDA out of memory. Tried", r"^\s{0,4}what\(\):\s{1,4}CUDA out of memory\. Tried to allocate"),
            logged("CUDA out of memory. Tried", r"CUDA out of memory\. Tried to allocate [\d.]+ [KMG]i?B"),
        ),
        summary="The GPU's memory was not enough.",
        advice="Use a smaller batch per device with more accumulation, shorter sequences or gradient checkpointing; "
        "where the model itself does not fit, LoRA, ZeRO-3 or FSDP, or a larger GPU.",
        source="https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDACachingAllocator.cpp",
    ),
    Rule(
        kind="hip_oom",
        category=Category.GPU_OOM,
        patterns=(error("HIP out of memory", "OutOfMemoryError|RuntimeError"),),
        summary="The memory of the AMD GPU was not enough.",
        advice="Use a smaller batch per device with more accumulation, shorter sequences or gradient checkpointing.",
        source="https://github.com/ROCm/pytorch/issues/1176",
    ),
    Rule(
        kind="npu_oom",
        category=Category.GPU_OOM,
        patterns=(error("NPU out of memory", "OutOfMemoryError|RuntimeError"),),
        summary="The memory of the Ascend accelerator was not enough.",
        advice="Use a smaller batch per device with more accumulation, shorter sequences or gradient checkpointing.",
        source="https://github.com/Ascend/pytorch/blob/master/torch_npu/csrc/core/npu/NPUCachingAllocator.cpp",
    ),
    Rule(
        kind="xla_oom",
        category=Category.GPU_OOM,
        patterns=(
            error("RESOURCE_EXHAUSTED: Out of memory", "XlaRuntimeError|JaxRuntimeError|ResourceExhaustedError"),
        ),
        summary="XLA could not allocate memory on the device.",
        advice="Use a smaller batch, or shard the model; "
        "XLA_PYTHON_CLIENT_MEM_FRACTION limits what it takes in advance.",
        source="https://github.com/jax-ml/jax/issues/8506",
    ),
    Rule(
        kind="tensorflow_oom",
        category=Category.GPU_OOM,
        patterns=(error("OOM when allocating tensor with shape", "ResourceExhaustedError"),),
        summary="TensorFlow could not allocate a tensor on the GPU.",
        advice="Use a smaller batch or shorter sequences.",
        source="https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/framework/op_kernel.cc",
    ),
    Rule(
        kind="nccl_gpu_oom",
        category=Category.GPU_OOM,
        patterns=(
            printed("Cuda failure", r"(?:NCCL WARN (?:\[[^\]]{0,200}\] )?|^)Cuda failure (?:\d+ )?'out of memory'"),
        ),
        summary="The GPU had no memory left for the buffers of collectives.",
        advice="Leave about 1 GiB of the GPU free: a smaller batch, or a lower gpu_memory_utilization of an inference "
        "engine on the same GPU.",
        source="https://github.com/NVIDIA/nccl/issues/962",
    ),
    Rule(
        kind="triton_gpu_oom",
        category=Category.GPU_OOM,
        patterns=(error("Triton Error [CUDA]: out of memory", "RuntimeError"),),
        summary="The GPU's memory was not enough for a Triton kernel.",
        advice="Use a smaller batch, shorter sequences or gradient checkpointing.",
        source="https://github.com/triton-lang/triton/blob/main/third_party/nvidia/backend/driver.c",
    ),
    Rule(
        kind="cuda_oom_at_start",
        category=Category.GPU_OOM,
        patterns=(
            error("CUDA error: out of memory", "RuntimeError|AcceleratorError"),
            error("CUDA driver error: out of memory", "RuntimeError|AcceleratorError"),
        ),
        summary="The CUDA driver had no memory left to give, outside of the framework's own pool.",
        advice="See whether another process holds memory of this GPU, or use a smaller batch.",
        source="https://github.com/pytorch/pytorch/issues/67978",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="cublas_alloc",
        category=Category.GPU_OOM,
        patterns=(
            error("CUBLAS_STATUS_ALLOC_FAILED", "RuntimeError"),
            error("CUDNN_STATUS_ALLOC_FAILED", "RuntimeError"),
        ),
        summary="A CUDA library could not allocate its workspace: the GPU's memory is full.",
        advice="Use a smaller batch or shorter sequences; where memory is plainly free, check token ids against the "
        "size of the embedding.",
        source="https://github.com/pytorch/pytorch/issues/56747",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
)
