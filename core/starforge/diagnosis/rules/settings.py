"""Configurations and programs: keys that are not known, values that do not fit, code that cannot run."""

import re
from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import KERNEL, SLURM_ERROR, Rule, Weight, error, printed, raised

CONFIGURATIONS: Final = (
    Rule(
        kind="hydra_override",
        category=Category.CONFIG_KEY,
        patterns=(printed("Could not override '", r"^Could not override '(?P<key>[^']{1,200})'"),),
        summary="This version has no setting {key}.",
        advice="Check its spelling against the version in use; a + before it adds it on purpose.",
        source="https://github.com/facebookresearch/hydra/blob/main/hydra/_internal/config_loader_impl.py",
    ),
    Rule(
        kind="hydra_group",
        category=Category.CONFIG_KEY,
        patterns=(
            printed(
                "Cannot find primary config", r"^(?:hydra\.errors\.MissingConfigException: )?Cannot find primary config"
            ),
            printed(
                "Could not find '",
                r"^(?:hydra\.errors\.MissingConfigException: )?In '[^']{1,200}': Could not find '[^']{1,200}'",
            ),
            raised("MissingConfigException", "MissingConfigException"),
            raised("OverrideParseException", "OverrideParseException"),
            printed("LexerNoViableAltException", r"^LexerNoViableAltException: "),
            printed("mismatched input", r"^mismatched input '.{1,80}' expecting "),
        ),
        summary="A configuration file or an override is not there, or is not written as Hydra reads it.",
        advice="Check the name of the file and its folder; quote values with commas, brackets or equals signs.",
        source="https://hydra.cc/docs/advanced/override_grammar/basic/",
    ),
    Rule(
        kind="omegaconf_missing",
        category=Category.CONFIG_KEY,
        patterns=(
            error("Missing mandatory value", "MissingMandatoryValue"),
            error("nterpolation key '", "InterpolationKeyError|InterpolationResolutionError"),
        ),
        summary="A setting that must be given has no value.",
        advice="Set the key that the line names.",
        source="https://github.com/omry/omegaconf/blob/master/omegaconf/errors.py",
    ),
    Rule(
        kind="omegaconf_struct",
        category=Category.FRAMEWORK_BUG,
        patterns=(error("Key '", "ConfigKeyError", r"(?P<key>[^']{1,200})' is not in struct"),),
        summary="The framework itself wrote a setting {key} that its own configuration does not have.",
        advice="Use another version of the framework, or turn off the feature that needs {key}.",
        source="https://github.com/verl-project/verl/issues/4157",
        confidence=Confidence.LIKELY,
        above=re.compile(r"in __set(?:item|attr)__$"),
    ),
    Rule(
        kind="omegaconf_unknown",
        category=Category.CONFIG_KEY,
        patterns=(error("Key '", "ConfigAttributeError|ConfigKeyError", r"(?P<key>[^']{1,200})' is not in struct"),),
        summary="The program reads a setting {key} that the configuration does not have.",
        advice="Use the configuration of the framework's own version, or add {key}.",
        source="https://github.com/omry/omegaconf/blob/master/omegaconf/errors.py",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="unknown_argument",
        category=Category.CONFIG_KEY,
        patterns=(
            printed(
                "error: ",
                r"^\S{1,120}: error: (?:unrecognized arguments: |the following arguments "
                r"are required: |argument \S{1,120}: (?:invalid|expected)|ambiguous option: )",
            ),
            error("Some specified arguments are not used by the HfArgumentParser", "ValueError"),
            error("Some keys are not used by the HfArgumentParser", "ValueError"),
            printed("No such option", r"^Error: No such option:? "),
        ),
        summary="An argument is not known, is missing, or has a value that is not allowed.",
        advice="Correct the argument that the line names; names change between versions of a framework.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/hf_argparser.py",
    ),
    Rule(
        kind="training_arguments",
        category=Category.CONFIG_KEY,
        patterns=(
            error("requires the save and eval strategy to match", "ValueError"),
            error("please select one of", "ValueError", r" \["),
            error("requires either non-zero --eval_steps", "ValueError"),
            error("load_best_model_at_end requires", "ValueError"),
        ),
        summary="Two settings of the training contradict each other, or one has a value that is not allowed.",
        advice='Correct what the line names. In YAML quote "no": without quotes it means false.',
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/training_args.py",
    ),
    Rule(
        kind="number_as_text",
        category=Category.CONFIG_KEY,
        patterns=(error("not supported between instances of '", "TypeError", r"(?:float|int)' and 'str'"),),
        summary="The optimizer got a text where it needs a number, such as the learning rate.",
        advice="Write it as 1.0e-5: many readers of YAML take 1e-5 for a text.",
        source="https://github.com/huggingface/trl/pull/1450",
        above=re.compile(r"/torch/optim/\w{1,40}\.py"),
    ),
    Rule(
        kind="generations_divide",
        category=Category.CONFIG_KEY,
        patterns=(
            error("must be divisible by num_generations", "ValueError"),
            error("must be evenly divisible by the number of generations per prompt", "ValueError"),
            error("must be divisible by minimal possible batch size", "AssertionError"),
            error(
                "divisible by",
                "AssertionError|ValueError",
                r".{0,80}(?:ppo_mini_batch_size|ppo_micro_batch_size|micro_batch_size|rollout\.n)",
            ),
        ),
        summary="The sizes of batches do not divide evenly: by the generations of a prompt, or by the GPUs.",
        advice="Choose batch size x GPUs x accumulation as a multiple of what the line names.",
        source="https://github.com/huggingface/trl/blob/main/trl/trainer/grpo_config.py",
    ),
    Rule(
        kind="lora_targets",
        category=Category.CONFIG_KEY,
        patterns=(
            error("not found in the base model. Please check the target modules", "ValueError"),
            error("No modules were targeted for adaptation", "ValueError"),
        ),
        summary="The layers that LoRA shall train are not in this model.",
        advice="Set lora_target_modules to all-linear, or to names of layers that this model has.",
        source="https://github.com/huggingface/peft/blob/main/src/peft/tuners/tuners_utils.py",
    ),
    Rule(
        kind="flash_attention_dtype",
        category=Category.CONFIG_KEY,
        patterns=(
            error("FlashAttention only support fp16 and bf16 data type", "RuntimeError"),
            error("FlashAttention only supports fp16, bf16", "RuntimeError"),
        ),
        summary="Flash attention works in fp16 and bf16 only, and the model is in float32.",
        advice="Set dtype: bfloat16, or attn_implementation: sdpa.",
        source="https://github.com/Dao-AILab/flash-attention/blob/main/csrc/flash_attn/flash_api.cpp",
    ),
    Rule(
        kind="unused_parameters",
        category=Category.CONFIG_KEY,
        patterns=(
            error(
                "Expected to have finished reduction in the prior iteration before starting a new one", "RuntimeError"
            ),
            error("Expected to mark a variable ready only once", "RuntimeError"),
        ),
        summary="Data parallel training found parameters that took no part in a step, or took part twice.",
        advice="Set ddp_find_unused_parameters, or with gradient checkpointing use_reentrant: false.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/reducer.cpp",
    ),
    Rule(
        kind="no_gradient",
        category=Category.CONFIG_KEY,
        patterns=(error("element 0 of tensors does not require grad and does not have a grad_fn", "RuntimeError"),),
        summary="Nothing that is trained takes part in the loss.",
        advice="With LoRA and gradient checkpointing call enable_input_require_grads, or set use_reentrant: false; see "
        "that the adapter was loaded to be trained.",
        source="https://github.com/huggingface/peft/issues/137",
    ),
    Rule(
        kind="yaml_broken",
        category=Category.CONFIG_KEY,
        patterns=(
            raised("ScannerError", "ScannerError"),
            raised("yaml\\.parser\\.ParserError", "yaml.parser.ParserError"),
        ),
        summary="A YAML file cannot be read.",
        advice="Correct the place that the following lines name: indent with blanks, and quote values with colons.",
        source="https://pyyaml.org/wiki/PyYAMLDocumentation",
    ),
)

PROGRAMS: Final = (
    Rule(
        kind="cuda_in_fork",
        category=Category.CODE_ERROR,
        patterns=(error("Cannot re-initialize CUDA in forked subprocess", "RuntimeError"),),
        summary="A process that was forked uses CUDA, which only works in one that was spawned.",
        advice="Touch no GPU before workers start, or use the start method spawn "
        "(VLLM_WORKER_MULTIPROC_METHOD=spawn for vLLM).",
        source="https://github.com/pytorch/pytorch/blob/main/torch/cuda/__init__.py",
    ),
    Rule(
        kind="devices_differ",
        category=Category.CODE_ERROR,
        patterns=(error("Expected all tensors to be on the same device", "RuntimeError"),),
        summary="Tensors of different devices were used together.",
        advice="Move inputs to the model's device; with device_map='auto' train in one process only.",
        source="https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/TensorIterator.cpp",
    ),
    Rule(
        kind="dtypes_differ",
        category=Category.CODE_ERROR,
        patterns=(
            error("to have the same dtype, but got", "RuntimeError"),
            error("Input type (", "RuntimeError", r".{1,60}\) and (?:weight|bias) type \(.{1,60}\) should be the same"),
        ),
        summary="Tensors of different types were used together.",
        advice="Load every part in one dtype, or run under autocast; adapters may have been loaded in float32.",
        source="https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/LinearAlgebra.cpp",
    ),
    Rule(
        kind="syntax_error",
        category=Category.CODE_ERROR,
        patterns=(
            raised("SyntaxError", "SyntaxError"),
            raised("IndentationError", "IndentationError"),
            raised("TabError", "TabError"),
        ),
        summary="A Python file cannot be read by the Python of the image.",
        advice="Correct the line that is named above; newer syntax needs a newer Python in the image.",
        source="https://docs.python.org/3/library/exceptions.html#SyntaxError",
    ),
    Rule(
        kind="name_error",
        category=Category.CODE_ERROR,
        patterns=(
            error("name '", "NameError", r"(?P<name>\w{1,120})' is not defined", starts=True),
            error(
                "local variable '",
                "UnboundLocalError",
                r"(?P<name>\w{1,120})' referenced before assignment",
                starts=True,
            ),
            error("cannot access local variable '", "UnboundLocalError", r"(?P<name>\w{1,120})'", starts=True),
        ),
        summary="The program uses {name}, which it never set.",
        advice="Correct the code at the line that is named above.",
        source="https://docs.python.org/3/library/exceptions.html#NameError",
    ),
)

NATIVE: Final = (
    Rule(
        kind="kernel_segfault",
        category=Category.NATIVE_CRASH,
        patterns=(
            printed(
                "segfault at",
                KERNEL + r"(?P<process>[\w.:-]{1,40})\[\d+\]: segfault at [0-9a-f]+ ip "
                r"[0-9a-f]+ sp [0-9a-f]+ error \d+ in (?P<library>[\w.+-]{1,80})",
            ),
        ),
        summary="The library {library} crashed {process} (segmentation fault).",
        advice="Use another version of it; a kill for memory nearby in the kernel's log is of another process unless "
        "their numbers are the same.",
        source="https://github.com/leptonai/gpud",
        weight=Weight.PROOF,
    ),
    Rule(
        kind="segfault",
        category=Category.NATIVE_CRASH,
        patterns=(
            printed("Fatal Python error: ", r"^Fatal Python error: (?:Segmentation fault|Bus error)"),
            printed("egmentation fault", r"^(?:\S{1,200}: line \d+: +\d+ )?Segmentation fault +\(core dumped\)"),
            printed("SIGSEGV received", r"^\*{3} SIGSEGV received at time="),
            printed("egmentation fault", r"^\[[\w.-]{1,80}:\d+:\d+:\d+\] Caught signal 11 \(Segmentation fault"),
            printed("exitcode", r"^\s*exitcode\s{1,4}: -11 \(pid: \d+\)"),
            printed("exitcode: -11)", r"failed \(exitcode: -11\) local_rank: (?P<rank>\d+)"),
            error("is killed by signal: Segmentation fault", "RuntimeError"),
        ),
        summary="A native library crashed the process (segmentation fault).",
        advice="The frames below it tell where, with PYTHONFAULTHANDLER=1; "
        "most often two libraries do not fit together.",
        source="https://docs.python.org/3/library/faulthandler.html",
        weight=Weight.KILL,
    ),
    Rule(
        kind="heap_corruption",
        category=Category.NATIVE_CRASH,
        patterns=(
            printed("free(): ", r"^free\(\): (?:invalid (?:pointer|next size|size)|double free)"),
            printed("double free or corruption", r"^(?:\*{3} Error in .{1,200}: )?double free or corruption \("),
            printed(
                "corrupted", r"^(?:malloc\(\): .{0,40}corrupted|corrupted (?:size vs\. prev_size|double-linked list))"
            ),
            printed("munmap_chunk(): invalid pointer", r"^munmap_chunk\(\): invalid pointer"),
            printed("stack smashing detected", r"^\*{3} stack smashing detected \*{3}"),
        ),
        summary="A native library destroyed the memory of the process.",
        advice="Update or remove the extension that was loaded last; "
        "two copies of one library in a process do this as well.",
        source="https://sourceware.org/git/?p=glibc.git;a=blob;f=malloc/malloc.c",
    ),
    Rule(
        kind="bus_error",
        category=Category.SHM_TOO_SMALL,
        patterns=(
            printed("exitcode", r"^\s*exitcode\s{1,4}: -7 \(pid: \d+\)"),
            printed("exitcode: -7)", r"failed \(exitcode: -7\) local_rank: \d+"),
            printed("Bus error", r"^(?:\S{1,200}: line \d+: +\d+ )?Bus error +\(core dumped\)"),
        ),
        summary="A bus error ended a process, as when shared memory (/dev/shm) is full.",
        advice="Ask for more shared memory, or use fewer data loader workers.",
        source="https://github.com/pytorch/pytorch/issues/5040",
        weight=Weight.KILL,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="aborted",
        category=Category.NATIVE_CRASH,
        patterns=(
            printed("Fatal Python error: Aborted", r"^Fatal Python error: Aborted"),
            printed("exitcode", r"^\s*exitcode\s{1,4}: -6 \(pid: \d+\)"),
            printed("exitcode: -6)", r"failed \(exitcode: -6\) local_rank: \d+"),
        ),
        summary="Native code ended a process by itself (abort).",
        advice="Read what stands right above it: the reason is most often there.",
        source="https://docs.python.org/3/library/faulthandler.html",
        weight=Weight.LAST,
        confidence=Confidence.LOW,
    ),
)

STOPS: Final = (
    Rule(
        kind="slurm_node_failed",
        category=Category.STOPPED,
        patterns=(
            printed(
                "DUE TO NODE FAILURE",
                SLURM_ERROR + r"\*{3} (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ DUE TO NODE FAILURE, ",
            ),
            printed("srun: error: Node failure on ", r"^srun: error: Node failure on \S"),
        ),
        summary="Slurm ended the job because one of its machines failed.",
        advice="Nothing is wrong with the job: run it again, it goes on from its last checkpoint.",
        source="https://github.com/SchedMD/slurm/blob/master/src/slurmd/slurmstepd/req.c",
        weight=Weight.PROOF,
        retryable=True,
    ),
    Rule(
        kind="slurm_cancelled",
        category=Category.STOPPED,
        patterns=(
            printed(
                "CANCELLED AT",
                SLURM_ERROR + r"\*{3} (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+(?: "
                r"DUE TO (?P<why>TIME LIMIT|PREEMPTION|JOB REQUEUE|SIGNAL \w+))? \*{3}",
            ),
        ),
        summary="Slurm ended the job.",
        advice="See the reason in the line: raise the limit of time, or continue it from its last checkpoint.",
        source="https://github.com/SchedMD/slurm/blob/master/src/slurmd/slurmstepd/req.c",
        weight=Weight.PROOF,
    ),
    Rule(
        kind="terminated",
        category=Category.STOPPED,
        patterns=(
            error("got signal: 15", "SignalException", r""),
            error("got signal: 2", "SignalException", r"$"),
            printed(
                "Received Signals.SIGTERM death signal",
                r"\] Received Signals\.SIGTERM death signal, shutting down workers",
            ),
            raised("KeyboardInterrupt", "KeyboardInterrupt"),
        ),
        summary="It was asked to end by a signal from outside.",
        advice="If nobody stopped it, see whether the machine or its engine was restarted, and continue the job.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/distributed/elastic/multiprocessing/api.py",
        weight=Weight.KILL,
        confidence=Confidence.LIKELY,
    ),
)
