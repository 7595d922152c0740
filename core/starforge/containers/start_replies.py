"""What an engine, its GPU runtime and runc say when a container cannot be created or started."""

from typing import Final

from starforge.containers.replies import DISK, Fault, row

_GPU: Final = (
    row(
        r"driver/library version mismatch",
        Fault.NODE_FAULT,
        "the GPU driver was upgraded without a reboot",
        "drain the machine and reboot it; until then every job with GPUs fails there",
    ),
    row(
        r"no cuda-capable device",
        Fault.NODE_FAULT,
        "the driver sees no GPU that can be used",
        "look at nvidia-smi and the kernel log of the machine",
    ),
    row(
        r"unsatisfied condition: ([^,\n\\]+)|requirement error",
        Fault.USER_ERROR_OR_PLACEMENT,
        "the image needs a newer GPU driver than this machine has ({0})",
        "choose an image for an older CUDA, or a machine with a newer driver",
    ),
    row(
        r"device error: ([^\n]*?): unknown device|unknown device",
        Fault.RETRYABLE,
        "the chosen GPU does not exist now ({0})",
        "the machine's GPUs are asked for again before the next try; after a driver upgrade, reboot it",
    ),
    row(
        r"CDI device injection failed|unresolvable CDI",
        Fault.NODE_FAULT,
        "the engine does not know these CDI devices",
        "write the machine's CDI specification anew (nvidia-ctk cdi generate)",
    ),
    row(
        r"could not select device driver|unknown (?:or invalid )?runtime|no known GPU vendor found",
        Fault.NODE_FAULT,
        "the engine has no such GPU runtime",
        "set the NVIDIA Container Toolkit up on the machine and restart its engine",
    ),
)

_PROGRAMS: Final = (
    row(
        (
            r"exec: \\*\"((?:[^\"\\]*/)?(?:nvidia-c[^\"\\]*|runc|crun|docker-init|containerd[^\"\\]*))\\*\""
            r": executable file not found"
        ),
        Fault.NODE_FAULT,
        "the engine's own program {0} is missing",
        "install it on the machine again",
    ),
    row(
        r"fork/exec ([^ ]*): no such file or directory",
        Fault.NODE_FAULT,
        "the engine's own program {0} is missing",
        "install the engine's packages on the machine again",
    ),
    row(
        r"container init was OOM-killed|memory limit too low",
        Fault.USER_ERROR,
        "the memory limit is too small even to start",
        "ask for more memory",
    ),
    row(
        r"nvidia-container-cli|libnvidia-ml|running (?:\w+ )?hook",
        Fault.NODE_FAULT,
        "the GPU runtime refused",
        "look at nvidia-smi and the NVIDIA Container Toolkit of the machine",
    ),
    row(
        r"exec: \\*\"bash\\*\": executable file not found",
        Fault.USER_ERROR,
        "the image has no bash",
        "put bash into the image",
    ),
    row(
        (
            r"exec:? \\*\"?([^\"\\\s]+)\\*\"?(?: failed)?"
            r": (?:executable file not found|stat [^:]*: no such file|no such file)"
        ),
        Fault.USER_ERROR,
        '"{0}" is not in the image',
        "put it into the image, or correct the command",
    ),
    row(
        r"exec:? \\*\"?([^\"\\\s]+)\\*\"?(?: failed)?: (?:permission denied|is a directory)",
        Fault.USER_ERROR,
        "the image's {0} may not be executed",
        "make it executable in the image",
    ),
    row(
        r"exec user process caused:? \\*\"?no such file",
        Fault.USER_ERROR,
        "a script of the image names an interpreter that is not there, or ends its lines as Windows does",
        "correct the script's first line and its line ends",
    ),
    row(
        r"exec format error|does not match the (?:detected host|specified) platform",
        Fault.USER_ERROR_OR_PLACEMENT,
        "the image is for another processor",
        "build it for this kind of machine, or choose a machine of its kind",
    ),
    row(
        r"chdir to cwd \(\\*\"([^\"\\]+)\\*\"\)",
        Fault.USER_ERROR,
        "the job may not work in {0}",
        "name a working directory that exists in the image and that the job's user may enter",
    ),
    row(
        r"unable to find (?:user|group)|no matching entries in (?:passwd|group) file",
        Fault.USER_ERROR,
        "the image does not know the user",
        "name the user by number, or add it to the image",
    ),
)

_ENGINE: Final = (
    row(
        r"permission denied while trying to connect to the docker|docker\.sock: connect: permission denied",
        Fault.NODE_FAULT,
        "the engine's socket may not be opened",
        "give this process's user access to the engine's socket",
    ),
    row(
        r"cannot connect to the docker daemon|error during connect|is the docker daemon running|dial unix [^ ]*docker",
        Fault.RETRYABLE,
        "the engine does not answer; what runs there is not known, and not failed",
        "start the engine on the machine",
    ),
    row(
        r"containerd\.sock|connection error: desc|transport is closing",
        Fault.RETRYABLE,
        "the engine has lost containerd",
        "it starts containerd again within seconds; if not, look at its log",
    ),
    row(
        r"the container name .* is already in use|conflict\. the (?:container )?name",
        Fault.DUPLICATE,
        "a container of this name exists: an earlier launch was answered into the void",
        "adopt it when its labels name this attempt; start no second one and remove none that runs",
    ),
    row(
        r"removal of container \S+ is already in progress|marked for removal|is being removed",
        Fault.RETRYABLE,
        "the container is being removed",
        "try again",
    ),
)

_MACHINE: Final = (
    row(
        r"bind source path does not exist",
        Fault.NODE_FAULT,
        "a folder to mount is missing on this machine",
        "mount the shared storage there",
    ),
    row(
        (
            r"invalid mount config|creating mount source path|stale (?:nfs )?file handle|error (?:while )?mounting"
            r"|transport endpoint is not connected|failed to mount"
        ),
        Fault.NODE_FAULT,
        "a folder cannot be mounted on this machine",
        "look at the shared storage on the machine",
    ),
    row(
        r"failed to initialize logging driver",
        Fault.NODE_FAULT,
        "the engine cannot keep the container's output",
        "look at the disk where the engine keeps its data, and at the engine's log",
    ),
    row(
        r"port is already allocated|address already in use",
        Fault.RETRYABLE,
        "another process holds the port",
        "find what listens there, or use the network mode bridge",
    ),
    row(
        r"network \S+ not found|failed to (?:create endpoint|set up container networking)|iptables"
        r"|no available (?:ipv4|network)|could not find an available",
        Fault.NODE_FAULT,
        "the engine cannot set the container's network up",
        "restart the engine on the machine; look at its network and firewall",
    ),
    row(
        r"error setting rlimit|error setting rlimits",
        Fault.NODE_FAULT,
        "the engine may not raise a resource limit",
        "raise the engine's own hard limits (LimitNOFILE, LimitMEMLOCK)",
    ),
    row(
        r"error gathering device information|\bcgroups?\b|apparmor|seccomp|error creating overlay mount",
        Fault.NODE_FAULT,
        "this machine's kernel or its set-up refused the container",
        "look at the engine's log on the machine",
    ),
    row(
        (
            r"cannot allocate memory|resource temporarily unavailable|device or resource busy|too many open files"
            r"|pthread_create failed"
        ),
        Fault.RETRYABLE,
        "this machine is short of something: memory, processes, files or a device",
        "see what uses them up on the machine",
    ),
    row(
        r"context deadline exceeded|context cancel+ed",
        Fault.RETRYABLE,
        "the engine did not finish in time",
        "try again; if it stays so, look at the load of the machine",
    ),
)

START: Final = (*DISK, *_GPU, *_PROGRAMS, *_ENGINE, *_MACHINE)
"""Read from the top."""
