"""Inference engines and DeepSpeed: memory for caches, sizes that do not divide, configurations that do not agree."""

import re
from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import Pattern, Rule, Weight, error, printed, raised

RULES: Final = (
    Rule(
        kind="vllm_kv_estimate",
        category=Category.VLLM_KV_CACHE,
        patterns=(
            error(
                "max seq len (",
                "ValueError",
                r"(?P<asked>\d+)\).{0,400}estimated maximum model length is (?P<fits>\d+)",
            ),
        ),
        summary="The GPU's memory holds a cache for {fits} tokens, and {asked} were asked for.",
        advice="Lower max_model_len to {fits} or less, or raise gpu_memory_utilization.",
        source="https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/kv_cache_utils.py",
    ),
    Rule(
        kind="vllm_kv_cache",
        category=Category.VLLM_KV_CACHE,
        patterns=(
            error("To serve at least one request with the model", "ValueError"),
            error("No available memory for the cache blocks", "ValueError"),
            error("is larger than the maximum number of tokens that can be stored in KV cache", "ValueError"),
        ),
        summary="The GPU has no memory left for the cache that the model's length needs.",
        advice="Lower max_model_len, raise gpu_memory_utilization, or spread the model over more GPUs.",
        source="https://github.com/vllm-project/vllm/issues/27508",
    ),
    Rule(
        kind="vllm_model_length",
        category=Category.CONFIG_KEY,
        patterns=(
            error(
                "User-specified max_model_len (",
                "ValueError|ValidationError",
                r"(?P<asked>\d+)\) is greater than the derived max_model_len",
            ),
            error("User-specified max_model_len (", "ValueError|ValidationError", r"(?P<asked>\d+)\)"),
        ),
        summary="A length of {asked} tokens was asked for, which is more than the model has.",
        advice="Lower max_model_len to the model's own length.",
        source="https://github.com/vllm-project/vllm/blob/main/vllm/config/model.py",
    ),
    Rule(
        kind="engine_gpus",
        category=Category.CONFIG_KEY,
        patterns=(
            printed(
                "is larger than the number of available GPUs",
                r"^(?:(?:[\w.]{1,80}\.)?ValueError: |\s{1,4}Value error, )World size \((?P<asked>\d+)\) "
                r"is larger than the number of available GPUs \((?P<has>\d+)\)",
            ),
            error(
                "please set tensor_parallel_size (",
                "AssertionError",
                r"(?P<asked>\d+)\) to less than max local gpu count \((?P<has>\d+)\)",
            ),
        ),
        summary="The inference engine shall spread one model over {asked} GPUs, and has {has}.",
        advice="Lower tensor_parallel_size (times pipeline_parallel_size) to {has} at most, or ask for more GPUs.",
        source="https://github.com/vllm-project/vllm/blob/main/vllm/config/parallel.py",
    ),
    Rule(
        kind="world_size_divides",
        category=Category.CONFIG_KEY,
        patterns=(
            Pattern(
                ") is not divisible by ",
                re.compile(
                    r"(?:AssertionError|RuntimeError|ValueError): \s{0,20}world[ _]size \(\d+\) is not divisible by "
                ),
                is_error=True,
            ),
        ),
        summary="The number of GPUs is no multiple of what one copy of the model is spread over.",
        advice="Choose tensor, pipeline and context parallel sizes whose product divides the number of GPUs.",
        source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
    ),
    Rule(
        kind="tensor_parallel",
        category=Category.CONFIG_KEY,
        patterns=(
            error("must be divisible by tensor parallel size", "ValueError|ValidationError"),
            error("must be divisible by tensor_parallel_size", "ValueError|ValidationError|AssertionError"),
            error("is not divisible by", "AssertionError", r" (?:tensor|TP)[\w ]{0,40}"),
        ),
        summary="The model's attention heads cannot be divided by the number of GPUs for one copy of it.",
        advice="Choose a tensor_parallel_size that divides the number of heads: 1, 2, 4 or 8 most often.",
        source="https://github.com/vllm-project/vllm/blob/main/vllm/config/model.py",
    ),
    Rule(
        kind="deepspeed_batch",
        category=Category.DEEPSPEED_CONFIG,
        patterns=(
            error(
                "Check batch related parameters",
                "AssertionError",
                r".{0,200}world_size (?P<given>\d+) != (?P<product>\d+ \* \d+ \* \d+)",
            ),
        ),
        summary="train_batch_size is {given}, and micro batch x accumulation x GPUs are {product}.",
        advice="Set train_batch_size to that product, or to auto: it changes with the number of GPUs.",
        source="https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
    ),
    Rule(
        kind="deepspeed_config",
        category=Category.DEEPSPEED_CONFIG,
        patterns=(
            error("Please correct the following DeepSpeed config values that mismatch TrainingArguments", "ValueError"),
            error("Expected a string path to an existing deepspeed config", "ValueError"),
            error("DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True`", "ValueError"),
            raised("DeepSpeedConfigError", "DeepSpeedConfigError"),
        ),
        summary="DeepSpeed's configuration contradicts itself or the training's own settings.",
        advice="Put auto where both name a value, or make the values agree.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/integrations/deepspeed.py",
    ),
    Rule(
        kind="loss_scale",
        category=Category.NAN_LOSS,
        patterns=(error("Current loss scale already at minimum - cannot decrease scale anymore", "Exception"),),
        summary="Every step overflowed in fp16, down to the smallest scale of the loss.",
        advice="Use bf16, a lower learning rate or a longer warm-up; check the data of the first steps.",
        source="https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/fp16/loss_scaler.py",
    ),
    Rule(
        kind="loss_stopped",
        category=Category.NAN_LOSS,
        patterns=(
            error("returned nan values in its", "RuntimeError", r" \d+th output"),
            error("found NaN in local", "AssertionError|RuntimeError"),
            error("Unexpected result nan", "RuntimeError|AssertionError"),
            error("Loss is nan", "ValueError|RuntimeError|FloatingPointError|AssertionError"),
        ),
        summary="The loss or a gradient stopped being a number, and the training ended itself for that.",
        advice="Use a lower learning rate, clipped gradients or bf16, and look at the data of that step.",
        source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/rerun_state_machine.py",
    ),
    Rule(
        kind="unscale_fp16",
        category=Category.CONFIG_KEY,
        patterns=(error("Attempting to unscale FP16 gradients", "ValueError"),),
        summary="The weights that are trained were loaded in fp16, which mixed precision does not allow.",
        advice="Load the model in float32 or bfloat16, or train with bf16.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/amp/grad_scaler.py",
    ),
    Rule(
        kind="compiler_failed",
        category=Category.FRAMEWORK_BUG,
        patterns=(
            error("backend='inductor' raised", "BackendCompilerFailed"),
            error("PassManager::run failed", "RuntimeError"),
            error("Internal Triton PTX codegen error", "PTXASError|RuntimeError|InductorError"),
        ),
        summary="The compiler of PyTorch or Triton failed on this model.",
        advice="Turn torch_compile off, or use another version of torch and Triton.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/_dynamo/exc.py",
        confidence=Confidence.LIKELY,
        weight=Weight.SYMPTOM,
    ),
)
