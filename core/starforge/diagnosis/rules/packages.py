"""Packages and binaries: what is missing, and what was built for something else."""

import re
from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import Rule, Weight, error, printed, raised

_REBUILD: Final = (
    "Install a build of it that was made for the image's torch, CUDA and Python, or use the image's own versions."
)

BINARIES: Final = (
    Rule(
        kind="undefined_symbol",
        category=Category.BINARY_MISMATCH,
        patterns=(
            printed(
                "undefined symbol",
                r"(?<![\w.+-])(?P<library>[\w+-][\w.+-]{0,100}?\.so[\w.]{0,20}): undefined symbol: \w+",
            ),
        ),
        summary="{library} was built for another version of torch or CUDA.",
        advice=_REBUILD + " Whatever imports it is not at fault.",
        source="https://github.com/Dao-AILab/flash-attention/issues/1612",
    ),
    Rule(
        kind="shared_object_missing",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("cannot open shared object file", "ImportError|OSError"),
            printed(
                "cannot open shared object file",
                r"error while loading shared libraries: \S+: cannot open shared object file",
            ),
        ),
        summary="A library was built against one that the image does not hold.",
        advice=_REBUILD,
        source="https://github.com/pytorch/pytorch/issues/101314",
    ),
    Rule(
        kind="libc_too_old",
        category=Category.BINARY_MISMATCH,
        patterns=(
            printed("not found (required by", r"version `(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found \(required by"),
        ),
        summary="A library was built on a newer system than the image is.",
        advice="Use an image with a newer distribution, or an older build of the library.",
        source="https://github.com/Dao-AILab/flash-attention/issues/1708",
    ),
    Rule(
        kind="numpy_abi",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("numpy.dtype size changed, may indicate binary incompatibility", "ValueError"),
            error("numpy.core.multiarray failed to import", "ImportError"),
            error("module compiled against API version", "RuntimeError"),
        ),
        summary="A package was built against another NumPy than is installed.",
        advice="Install a NumPy below 2 beside packages of its time, or newer builds of those packages.",
        source="https://numpy.org/doc/stable/user/troubleshooting-importerror.html",
    ),
    Rule(
        kind="no_kernel_image",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("no kernel image is available for execution on the device", "RuntimeError|AcceleratorError"),
            error("device kernel image is invalid", "RuntimeError"),
            error("CUDA error: invalid device function", "RuntimeError|AcceleratorError"),
            printed("ptxas fatal", r"ptxas fatal\s{1,4}: Value 'sm_\w+' is not defined for option 'gpu-name'"),
        ),
        summary="The build holds no code for this kind of GPU.",
        advice="Use a build of torch, or of the extension, that names this GPU's architecture, or another kind of GPU.",
        source="https://github.com/pytorch/pytorch/issues/31285",
    ),
    Rule(
        kind="cpu_build",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("Torch not compiled with CUDA enabled", "AssertionError"),
            error("Torch not compiled with", "AssertionError", r" (?:CUDA|NPU|XPU) enabled"),
        ),
        summary="The installed torch is a build for CPUs only.",
        advice="Use an image or a package index with CUDA builds of torch; a requirement may have replaced the "
        "image's own build.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/cuda/__init__.py",
    ),
    Rule(
        kind="torchvision_mismatch",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("operator torchvision::nms does not exist", "RuntimeError"),
            error("were compiled with different CUDA", "RuntimeError"),
        ),
        summary="torchvision (or torchaudio) was built for another torch.",
        advice="Install the versions that belong together, from the same index.",
        source="https://github.com/pytorch/vision/issues/8318",
    ),
    Rule(
        kind="cuda_toolkit_mismatch",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("does not match the version torch was compiled with", "CUDAMismatchException|Exception"),
            error("mismatches the version that was used to compile", "RuntimeError"),
        ),
        summary="The CUDA toolkit in the image is of another version than torch was built with.",
        advice="Use an image whose toolkit and torch agree; DeepSpeed builds its operators with that toolkit.",
        source="https://github.com/deepspeedai/DeepSpeed/blob/master/op_builder/builder.py",
    ),
    Rule(
        kind="bitsandbytes_setup",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("CUDA Setup failed despite GPU being available", "RuntimeError"),
            error("CUDA Setup failed despite CUDA being available", "RuntimeError"),
            error("Configured CUDA binary not found at", "RuntimeError"),
        ),
        summary="bitsandbytes has no library for the CUDA version of this image.",
        advice="Install a bitsandbytes release that supports this CUDA "
        "version; `python -m bitsandbytes` tells what it looks for.",
        source="https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/bitsandbytes/cextension.py",
    ),
    Rule(
        kind="illegal_instruction",
        category=Category.BINARY_MISMATCH,
        patterns=(
            printed("Illegal instruction", r"^(?:\S{1,200}: line \d+: +\d+ )?Illegal instruction +\(core dumped\)"),
            printed("Illegal instruction", r"^Fatal Python error: Illegal instruction$"),
            printed("exitcode", r"^\s*exitcode\s{1,4}: -4 \(pid: \d+\)"),
        ),
        summary="A library was built for a newer processor than this machine has.",
        advice="Use a build for older processors, or a machine with a newer one.",
        source="https://docs.python.org/3/library/faulthandler.html",
    ),
    Rule(
        kind="extension_build",
        category=Category.BINARY_MISMATCH,
        patterns=(
            error("Error building extension '", "RuntimeError"),
            error("has no attribute 'ds_opt_adam'", "AttributeError"),
        ),
        summary="An extension could not be compiled when it was first used.",
        advice="The compiler's own words stand above. Most often the "
        "CUDA toolkit or a compiler is missing in the image: "
        "use a development image, or a build that holds the extension.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/utils/cpp_extension.py",
        weight=Weight.SYMPTOM,
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="exec_format",
        category=Category.BINARY_MISMATCH,
        patterns=(
            printed("xec format error", r"^exec \S{1,200}: exec format error$"),
            error("Exec format error", "OSError"),
        ),
        summary="The program was built for another kind of processor, or its first line names no interpreter.",
        advice="Use an image for this machine's architecture; begin scripts with #!/bin/sh or another interpreter.",
        source="https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/errno-base.h",
    ),
)

MODULES: Final = (
    Rule(
        kind="compiler_missing",
        category=Category.MISSING_MODULE,
        patterns=(
            error("Failed to find C compiler", "RuntimeError|InductorError|BackendCompilerFailed"),
            error("Command '['which', '", "CalledProcessError", r"(?:c\+\+|g\+\+|cc|gcc|nvcc)'\]'", starts=True),
            error("No working C++ compiler found", "InvalidCxxCompiler|InductorError|RuntimeError"),
            error("CUDA_HOME environment variable is not set", "OSError"),
            error("CUDA_HOME does not exist, unable to compile CUDA op(s)", "MissingCUDAException"),
            error("Ninja is required to load C++ extensions", "RuntimeError"),
        ),
        summary="Kernels are compiled while it runs, and the image holds no compiler or CUDA toolkit for that.",
        advice="Use a development image (`-devel`), or install gcc, ninja and the CUDA toolkit into the image.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/utils/cpp_extension.py",
    ),
    Rule(
        kind="feature_module_missing",
        category=Category.MISSING_MODULE,
        patterns=(
            error("FlashAttention2 has been toggled on, but it cannot be used", "ImportError"),
            error("the package flash_attn seems to be not installed", "ImportError"),
            error("library but it was not found in your environment", "ImportError"),
            error("requires the latest version of bitsandbytes", "ImportError"),
            error("bitsandbytes", "ImportError", r".{0,200}pip install -U bitsandbytes"),
            error("requires Accelerate", "ImportError", r".{0,120}pip install"),
            error("This modeling file requires the following packages that were not found", "ImportError"),
        ),
        summary="A feature that was asked for needs a package that is not installed.",
        advice="Add the package that the line names to the image or to the requirements, or turn the feature off.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/utils/import_utils.py",
    ),
    Rule(
        kind="module_missing",
        category=Category.MISSING_MODULE,
        patterns=(
            error("No module named '", "ModuleNotFoundError|ImportError", r"(?P<module>[\w.-]{1,120})'"),
            error("No package metadata was found for", "PackageNotFoundError", r" (?P<module>[\w.-]{1,120})"),
            printed("No module named", r"^(?:/\S{1,120}/)?python[\d.]*: No module named '?(?P<module>[\w.-]{1,120})'?"),
            printed(
                "while finding module specification",
                r"Error while finding module specification for '(?P<module>[\w.-]{1,120})'",
            ),
        ),
        summary="The Python module {module} is not installed, or not on the path.",
        advice="Add it to the image or to the requirements; a module of your own must be in the workspace.",
        source="https://docs.python.org/3/library/exceptions.html#ModuleNotFoundError",
    ),
)

VERSIONS: Final = (
    Rule(
        kind="architecture_unknown",
        category=Category.VERSION_MISMATCH,
        patterns=(
            error("does not recognize this architecture", "ValueError"),
            error("are not supported for now. Supported architectures", "ValueError"),
            error("has no vLLM implementation", "ValueError"),
            error("`rope_scaling` must be a dictionary with", "ValueError"),
            error("data did not match any variant of untagged enum", "Exception"),
            error("does not exist or is not currently imported", "ValueError"),
        ),
        summary="The model is newer than the installed library knows.",
        advice="Use a newer version of transformers (or of the inference engine), or an older model.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/models/auto/configuration_auto.py",
    ),
    Rule(
        kind="architecture_key",
        category=Category.VERSION_MISMATCH,
        patterns=(error("'", "KeyError", r"(?P<name>[\w-]{1,60})'$", starts=True),),
        summary="The installed transformers does not know the model type {name}.",
        advice="Use a newer version of transformers, or an older model.",
        source="https://github.com/huggingface/transformers/issues/30107",
        above=re.compile(r"transformers/models/auto/configuration_auto\.py"),
    ),
    Rule(
        kind="attribute_not_in_module",
        category=Category.VERSION_MISMATCH,
        patterns=(
            error(
                "module '",
                "AttributeError",
                r"(?P<module>(?:torch|transformers|trl|peft|vllm|datasets|accelerate|numpy|ray|deepspeed|triton)[\w.]{0,120})'"
                r" has no attribute '(?P<name>\w{1,120})'",
                starts=True,
            ),
        ),
        summary="{module} has no {name} in the installed version.",
        advice="Install versions that belong together: the code was written for another {module}.",
        source="https://numpy.org/doc/stable/release/1.20.0-notes.html",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="name_not_in_module",
        category=Category.VERSION_MISMATCH,
        patterns=(
            error("cannot import name '", "ImportError", r"(?P<name>\w{1,120})' from '(?P<module>[\w.]{1,160})'"),
        ),
        summary="{module} has no {name} in the installed version.",
        advice="Install versions that belong together: the one that imports {name} was written for another {module}.",
        source="https://docs.python.org/3/library/exceptions.html#ImportError",
    ),
    Rule(
        kind="pip_unreachable",
        category=Category.NETWORK,
        patterns=(printed("No matching distribution found for", r"^ERROR: No matching distribution found for \S"),),
        summary="pip could not reach the index of packages.",
        advice="Bring the packages in the image, or let the job reach an index (proxy, PIP_INDEX_URL).",
        source="https://github.com/pypa/pip/blob/main/src/pip/_internal/resolution/resolvelib/factory.py",
        confidence=Confidence.LIKELY,
        retryable=True,
        above=re.compile(r"^WARNING: Retrying \(Retry\(total=\d+"),
    ),
    Rule(
        kind="requirement_unmet",
        category=Category.VERSION_MISMATCH,
        patterns=(
            error("is required for a normal functioning of this module", "ImportError"),
            raised("VersionConflict|ContextualVersionConflict", "VersionConflict"),
            error("Could not find a version that satisfies the requirement", "InstallationError"),
            printed("No matching distribution found for", r"^ERROR: No matching distribution found for \S"),
        ),
        summary="A package that is installed, or that was to be, is not of a version that is needed.",
        advice="Change the pinned version in the image or the requirements as the line says.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/utils/versions.py",
    ),
    Rule(
        kind="weights_only",
        category=Category.VERSION_MISMATCH,
        patterns=(error("Weights only load failed", "UnpicklingError"),),
        summary="torch since 2.6 reads nothing but tensors from a file, and this one holds more, or is something else.",
        advice="Use a version of the framework that is made for the image's torch; a file that you trust can be read "
        "with weights_only=False. An `Unsupported operand 118` in the lines below means a Git LFS pointer.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/serialization.py",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="torch_load_refused",
        category=Category.VERSION_MISMATCH,
        patterns=(error("we now require users to upgrade torch to at least v2.6", "ValueError"),),
        summary="The installed transformers refuses to read weights that are no safetensors with a torch before 2.6.",
        advice="Use an image with torch 2.6 or newer, or the model's weights as safetensors.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/utils/import_utils.py",
    ),
    Rule(
        kind="model_class",
        category=Category.VERSION_MISMATCH,
        patterns=(error("for this kind of AutoModel: ", "ValueError", r"(?P<name>\w{1,80})"),),
        summary="{name} does not load models of this kind.",
        advice="Use a method for this kind of model (one for images and text is no causal language model), or a "
        "version of transformers that counts it in.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/models/auto/auto_factory.py",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="dataset_script",
        category=Category.VERSION_MISMATCH,
        patterns=(error("Dataset scripts are no longer supported", "RuntimeError"),),
        summary="The dataset is loaded by a script, which the installed datasets library no longer runs.",
        advice="Use a copy of the dataset in Parquet, or datasets before 4.0.",
        source="https://github.com/huggingface/datasets/blob/main/src/datasets/load.py",
    ),
    Rule(
        kind="unexpected_argument",
        category=Category.VERSION_MISMATCH,
        patterns=(error("__init__() got an unexpected keyword argument '", "TypeError", r"(?P<name>\w{1,120})'"),),
        summary="An argument {name} was given that the installed version does not know.",
        advice="Remove or rename {name}, or use the library's version that has it.",
        source="https://github.com/huggingface/trl/issues/2864",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="vocabulary_of_checkpoint",
        category=Category.TOKENIZER_VOCAB,
        patterns=(
            printed(
                "size mismatch for",
                r"^\s{0,8}size mismatch for \S{0,120}(?:embed_tokens|lm_head|"
                r"wte|word_embeddings|embed_out)\S{0,40}: copying a param",
            ),
        ),
        summary="The checkpoint's vocabulary is of another size than the model's.",
        advice="Resize the embedding to the tokenizer that the checkpoint was trained with, before loading it.",
        source="https://github.com/tatsu-lab/stanford_alpaca/issues/51",
    ),
    Rule(
        kind="state_dict_mismatch",
        category=Category.CHECKPOINT_MISMATCH,
        patterns=(
            error("Error(s) in loading state_dict for", "RuntimeError"),
            error("loaded state dict contains a parameter group that doesn't match the size", "ValueError"),
            error("loaded state dict has a different number of parameter groups", "ValueError"),
            error("You set `ignore_mismatched_sizes` to `False`", "RuntimeError"),
        ),
        summary="The checkpoint does not fit the model that loads it.",
        advice="Use the configuration that the checkpoint was made "
        "with: the same model, LoRA rank and number of ranks.",
        source="https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/module.py",
    ),
)
