"""Why a queued job is not placed: rooms and shapes, quotas, windows, promises, inputs, maintenance."""

from typing import Final

WAITS: Final = {
    "count.gpu": "{n} GPU",
    "count.gpus": "{n} GPUs",
    "count.gpu_hour": "{n} GPU-hour",
    "count.gpu_hours": "{n} GPU-hours",
    "count.job": "{n} job",
    "count.jobs": "{n} jobs",
    "count.more": "{n} more",
    "wait.at": "{places}: {reason}",
    "wait.at_more": "{places} and {n} more: {reason}",
    "wait.elsewhere": "{n} more: {reason}",
    "wait.console": "the console",
    "wait.no_fleet": "there is no fleet",
    "wait.no_machine": "no machine",
    "wait.no_room_either": "no room either",
    "wait.unserved": ("not served here any more: stop the job and submit it again for another fleet ('sf fleet ls')"),
    "wait.unlimited": "takes only jobs that have a time limit (max_runtime)",
    "wait.start_failed": "its last start failed: it is placed again from {at} UTC on",
    "wait.never": (
        "could not run it if it were empty: stop the job and ask for less, or wait until a larger machine joins"
    ),
    "wait.unable": "could not run it if it were empty",
    "wait.maintenance": "in maintenance by {by}: jobs start again once an administrator ends it",
    "wait.maintenance_why": "in maintenance by {by} ({why}): jobs start again once an administrator ends it",
    "wait.kept_passed": "kept for {job}, which {n} jobs have passed",
    "wait.kept_delayed": "kept for {job}, which this job would delay: it could end too late",
    "wait.takes_no_other": "takes no other job until this one has started",
    "wait.promised": "has room for it by {at} UTC at the latest",
    "fit.pools": "a fleet of this kind runs one pool, and {n} are asked",
    "fit.nodes": "a fleet of this kind runs a job on one node, and {n} are asked",
    "fit.unanswered": "its machines have not answered yet, so it is not known whether the job fits",
    "fit.pool_unknown": "it is not known whether pool {pool} fits: {why}",
    "fit.some_silent": "{why}; some machines did not answer ({silent})",
    "fit.no_machine": "it has no machine",
    "fit.few_nodes": "pool {pool} asks for {nodes} nodes, and {possible} could take a share of it",
    "fit.short": "pool {pool}: {asked} are asked, and {node} has {has}",
    "fit.cpus": "{n} CPUs",
    "fit.memory": "{n} GiB of memory",
    "fit.some_gpus": "{n} {gpus}",
    "fit.any_gpus": "GPUs",
    "fit.series_gpus": "{series} GPUs",
    "room.none_now": "takes no jobs now",
    "room.gpus": "{free} of {total} {gpus} free, {asked} asked for{taken}",
    "room.cpus": "{free} of {total} CPUs free{held}, {asked} asked for{share}",
    "room.memory": "{free} of {total} GiB free{held}, {asked} asked for{share}",
    "room.few_nodes": "has room, and only {able} of the {nodes} machines that pool {pool} needs do",
    "room.held": " (held by {jobs})",
    "room.taken": " ({reasons})",
    "room.taken_by": "{n} {holder}",
    "room.nameless": "{n} more of a model without a known series: {name}",
    "room.more_reasons": "and {n} more reasons",
    "room.held_here": "held by jobs of this console",
    "room.held_unknown": "held by a container that belongs to no running job of this console",
    "room.gpu_state": "{state}: {why}",
    "room.no_reason": "no reason known",
    "gpu.free": "free",
    "gpu.held": "held",
    "gpu.foreign": "foreign",
    "gpu.blocked": "blocked",
    "gpu.quarantined": "quarantined",
    "share.with_gpus": " (the default share of a job with {n} GPUs here; {key} in config.yaml changes it)",
    "share.without_gpus": " (the default share of a job without GPUs; {key} in config.yaml changes it)",
    "limit.of": "quota of {holder}",
    "limit.no_job": "no job may run",
    "limit.too_many": "{gpus} asked for, and at most {most} may be held at once",
    "limit.any_series": "GPUs of any series are asked for, and allowed are {allowed}: name one of them",
    "limit.series": "{series} GPUs are asked for, and allowed are {allowed}",
    "limit.no_series": "none",
    "limit.gpus_one": "{used} of {limit} in use ({who}), {asked} asked for: it can start once 1 of them is given back",
    "limit.gpus": (
        "{used} of {limit} in use ({who}), {asked} asked for: it can start once {short} of them are given back"
    ),
    "limit.jobs": "{n} of {limit} running or paused ({who}): it can start once {short} of them ended",
    "limit.no_hours": "no GPU-hours may be used",
    "limit.hours": (
        "{used} of {limit} of the last 24 hours used: it can start once {over} of them have come free, by {at} UTC"
    ),
    "limit.hours_running": (
        "{used} of {limit} of the last 24 hours used, and what runs uses as much as comes free ({who}): it can start"
        " some time after one of them has ended"
    ),
    "limit.no_storage": "nothing may be held on the storage",
    "limit.storage": (
        "{used} of {limit} on the storage held: it can start once {over} of it are freed; 'sf quota' names the runs"
        " that hold it, and 'sf job delete' frees what one that has ended holds"
    ),
    "limit.profile": "the profile {profile} is asked for, and allowed are {allowed}",
    "limit.no_profiles": "none",
    "limit.holding": "{job} of {user}: {gpus}",
    "window.of": "the window of {whose}",
    "holder.user": "user {name}",
    "holder.team": "team {name}",
    "window.team": "team {name}",
    "window.fleet": "fleet {name}",
    "window.profile": "profile {name}",
    "window.closed": "is closed: {when}",
    "window.closing": "closes {at}, and a job begins to end {grace} s before that: {when}",
    "window.start": "it may start {at}",
    "window.lost": (
        "counts in the time zone {zones}, of which this console's machine has no table any more: an administrator"
        " updates the machine's time zones, or sets the window anew"
    ),
    "window.never": (
        "never, for it is not open again with all others that bind the job; ask an administrator for other hours"
    ),
    "input.is": "{input} {how}",
    "input.to_fetch": "is to be fetched",
    "input.after_others": "is to be fetched after {n} others",
    "input.fetching": "is being fetched",
    "input.fetching_bytes": "is being fetched: {done} of {total}",
    "input.storage": "waits for the storage: {why}",
    "input.unanswered": "waits for an answer of {endpoint}: {why}",
    "input.not_yet": "is not here yet: {why}",
    "input.again": "{how}; tried again in {s} s",
}
"""By code."""
