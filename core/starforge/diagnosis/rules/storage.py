"""Files: disks that are full, lost or read-only, paths that are not there, contents that are broken."""

from typing import Final

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.rule import Rule, error, logged, printed, raised

DISKS: Final = (
    Rule(
        kind="ray_disk_full",
        category=Category.DISK_FULL,
        patterns=(error("Local disk is full", "OutOfDiskError"),),
        summary="The disk to which Ray spills objects is full.",
        advice="Keep fewer objects at a time, or let RAY_object_spilling point to a larger disk.",
        source="https://github.com/ray-project/ray/blob/master/python/ray/exceptions.py",
    ),
    Rule(
        kind="quota_exceeded",
        category=Category.DISK_FULL,
        patterns=(error("Disk quota exceeded", "OSError|RuntimeError|HfHubHTTPError|SafetensorError"),),
        summary="The quota of the storage is used up.",
        advice="Remove old checkpoints, keep fewer of them (save_total_limit), or ask for a larger quota.",
        source="https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/errno.h",
    ),
    Rule(
        kind="disk_full",
        category=Category.DISK_FULL,
        patterns=(
            error("No space left on device", "OSError|IOError|RuntimeError|SafetensorError|ArrowException|Error"),
            error("kind: StorageFull", "SafetensorError"),
            printed(
                "No space left on device",
                r"^ERROR: Could not install packages due to an (?:OSError|EnvironmentError): \[Errno 28\] ",
            ),
            logged("No space left on device", r"(?:\[Errno 28\]|\(os error 28\)|errno: 28)"),
        ),
        summary="The disk that it writes to is full.",
        advice="Remove old checkpoints, keep fewer of them (save_total_limit), and see where caches and temporary "
        "files go.",
        source="https://github.com/hiyouga/LlamaFactory/issues/5155",
    ),
    Rule(
        kind="torch_save_cut",
        category=Category.DISK_FULL,
        patterns=(
            error("PytorchStreamWriter failed writing file", "RuntimeError"),
            error("[enforce fail at inline_container.cc", "RuntimeError", r":\d+\] \. unexpected pos"),
        ),
        summary="A checkpoint could not be written to its end, as when the disk or a quota is full.",
        advice="See how much room is left where checkpoints go, and remove old ones.",
        source="https://github.com/pytorch/pytorch/blob/main/caffe2/serialize/inline_container.cc",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="read_only",
        category=Category.READ_ONLY_FS,
        patterns=(error("Read-only file system", "OSError|RuntimeError|SafetensorError"),),
        summary="It writes to a place that is mounted read-only.",
        advice="Write to the output folder that the job is given; inputs and data roots cannot be written.",
        source="https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/errno-base.h",
    ),
    Rule(
        kind="stale_handle",
        category=Category.STORAGE_IO,
        patterns=(
            error("Stale file handle", "OSError|RuntimeError|SafetensorError"),
            error("Transport endpoint is not connected", "OSError|RuntimeError"),
        ),
        summary="The shared storage lost the file or its connection.",
        advice="Nothing is wrong with the job: run it again, and tell whoever runs the storage if it comes back.",
        source="https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/errno.h",
        retryable=True,
    ),
    Rule(
        kind="io_error",
        category=Category.STORAGE_IO,
        patterns=(error("Input/output error", "OSError|IOError|RuntimeError|SafetensorError"),),
        summary="The storage refused to read or write (input/output error).",
        advice="See whether the quota or the disk is full, which network storage also reports so; otherwise the "
        "storage is at fault.",
        source="https://github.com/pytorch/pytorch/issues/10577",
    ),
)

FILES: Final = (
    Rule(
        kind="lfs_pointer",
        category=Category.FILE_CORRUPT,
        patterns=(error("invalid load key, 'v'.", "UnpicklingError"),),
        summary="The file is only a Git LFS pointer: the content was never fetched.",
        advice="Fetch it with `git lfs pull`, or download the model again.",
        source="https://github.com/huggingface/transformers/issues/10882",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="safetensors_corrupt",
        category=Category.FILE_CORRUPT,
        patterns=(
            error("Error while deserializing header: ", "SafetensorError"),
            error("HeaderTooLarge", "SafetensorError"),
        ),
        summary="A safetensors file is incomplete or is something else.",
        advice="Download or copy it again: a transfer that broke off, or a Git LFS pointer, looks like this.",
        source="https://github.com/huggingface/safetensors/blob/main/safetensors/src/tensor.rs",
    ),
    Rule(
        kind="checkpoint_corrupt",
        category=Category.FILE_CORRUPT,
        patterns=(
            error("PytorchStreamReader failed", "RuntimeError"),
            error("invalid load key", "UnpicklingError"),
            error("pickle data was truncated", "UnpicklingError"),
            error("Ran out of input", "EOFError"),
        ),
        summary="A file of tensors is incomplete or is something else.",
        advice="Take an earlier checkpoint, or fetch the file again: its writing or its transfer broke off.",
        source="https://github.com/pytorch/pytorch/blob/main/caffe2/serialize/inline_container.cc",
    ),
    Rule(
        kind="data_corrupt",
        category=Category.FILE_CORRUPT,
        patterns=(
            error("Parquet magic bytes not found in footer", "ArrowInvalid"),
            error("File is not a zip file", "BadZipFile"),
            error("cannot identify image file", "UnidentifiedImageError"),
            error("Compressed file ended before the end-of-stream marker", "EOFError"),
        ),
        summary="A data file is incomplete or is of another kind than its name says.",
        advice="Fetch the file again, or leave it out.",
        source="https://github.com/apache/arrow/blob/main/cpp/src/parquet/file_reader.cc",
    ),
    Rule(
        kind="permission_denied",
        category=Category.PERMISSION,
        patterns=(
            error("Permission denied", "PermissionError", r": '(?P<path>[^']{1,200})'"),
            error("Operation not permitted", "PermissionError", r": '(?P<path>[^']{1,200})'"),
            printed(
                "Permission denied",
                r"^(?:/bin/)?(?:ba|da)?sh: (?:line )?\d*:? ?(?P<path>[\w./-]{1,200}): Permission denied$",
            ),
        ),
        summary="It may not read, write or run {path}.",
        advice="Give the user of the job the right to it; a script of your own needs `chmod +x`.",
        source="https://docs.python.org/3/library/exceptions.html#PermissionError",
    ),
    Rule(
        kind="absolute_path_missing",
        category=Category.PATH_MISSING,
        patterns=(
            error("Repo id must be in the form", "HFValidationError", r".{0,80}'(?P<path>/[^']{1,200})'"),
            error("Incorrect path_or_model_id: '", "OSError", r"(?P<path>[/.][^']{0,200})'"),
            printed("is not a local folder", r"^OSError: [/.]\S{0,200} is not a local folder and is not a valid model"),
        ),
        summary="A model was looked for at a path that is not there.",
        advice="Paths are those inside the container: mount the folder, name a data root, or correct the path.",
        source="https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/utils/_validators.py",
    ),
    Rule(
        kind="resume_missing",
        category=Category.PATH_MISSING,
        patterns=(
            error("Can't find a valid checkpoint at", "ValueError"),
            error("No valid checkpoint found in output directory", "ValueError"),
        ),
        summary="It was to go on from a checkpoint that is not there.",
        advice="Leave out resume_from_checkpoint for a first start; to go on from another job's checkpoint name it in "
        "init_from.",
        source="https://github.com/huggingface/transformers/blob/main/src/transformers/trainer.py",
    ),
    Rule(
        kind="script_missing",
        category=Category.PATH_MISSING,
        patterns=(
            printed("can't open file", r"python[\d.]*: can't open file '(?P<path>[^']{1,200})': \[Errno 2\]"),
            printed(
                "found", r"^(?:/bin/)?(?:ba|da)?sh: (?:line )?\d+: (?P<path>[\w./-]{1,200}): (?:command )?not found$"
            ),
            printed(
                "executable file not found", r"exec: \"(?P<path>[^\"]{1,200})\": executable file not found in \$PATH"
            ),
            printed("command not found", r"^\S{1,200}: line \d+: (?P<path>[\w./-]{1,200}): command not found$"),
            printed(
                "No such file or directory",
                r"^\S{1,200}: line \d+: (?P<path>[\w./-]{1,200}): No such file or directory$",
            ),
        ),
        summary="The program or script {path} is not there.",
        advice="Check its name and the folder it is started in, and that the image holds it.",
        source="https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html",
        confidence=Confidence.LIKELY,
    ),
    Rule(
        kind="file_missing",
        category=Category.PATH_MISSING,
        patterns=(
            error("No such file or directory", "FileNotFoundError|OSError|RuntimeError"),
            error("Unable to find '", "FileNotFoundError"),
            error("Can't find '", "ValueError", r"adapter_config\.json' at '", starts=True),
            error("Error no file named ", "OSError|EnvironmentError", r".{1,300} found in directory", starts=True),
            error("Couldn't find", "FileNotFoundError", r" (?:a dataset script at|any data file at)"),
            raised("NotADirectoryError", "NotADirectoryError"),
        ),
        summary="A file or folder that it reads is not there.",
        advice="Paths are those inside the container: check the spelling, and that the file is in the workspace or "
        "below a data root.",
        source="https://docs.python.org/3/library/exceptions.html#FileNotFoundError",
    ),
)
