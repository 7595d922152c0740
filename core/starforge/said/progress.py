"""What is said beside a job's state, and in its timeline, while something is under way."""

from typing import Final

PROGRESS: Final = {
    "note.waiting": "waiting for {node}: {why}",
    "note.waiting_stop": "waiting for {node} to carry out the stop: {why}",
    "note.waiting_end": "{note}; waiting for {node} to end it: {why}",
    "note.no_executor": "no executor serves fleet {fleet}",
    "note.backend_silent": "the backend said nothing of this attempt",
    "note.not_reached": "the launch did not reach its machine",
    "note.not_started": "it had not started yet",
    "note.overran": "its time limit of {s} s is over, and it did not end by itself",
    "note.stuck": "it was to end by {at} UTC and has not: {node} answers, and its container is still there; look there",
    "note.late": "the attempt did not start in time",
    "note.nothing_left": "nothing of it was left when it was stopped",
    "note.starting": "starting",
    "note.to_start": "waiting to start",
    "note.pulling": "pulling {image}",
    "note.pull_held": "the registry holds the pull up: {why}",
    "note.bytes": "{note}: {done} of {total}",
    "note.windows_open": "its windows are open",
    "note.window_closes": "{windows} closes: {after}",
    "note.never_opens": "it never opens again, and the job stays stopped",
    "note.goes_on_at": "the job goes on {at}",
    "note.stays_stopped": "the job stays stopped",
    "note.stopped_by": "stopped by {user}",
    "note.paused_by": "paused by {user}",
    "note.resumed_by": "resumed by {user}",
    "note.retried_by": "retried by {user}",
    "note.queue_first": "put first in the queue by {user}",
    "note.queue_last": "put last in the queue by {user}",
    "note.queue_release": "put back to its own place in the queue by {user}",
    "note.stop_requested": "stop requested",
    "note.pause_requested": "pause requested",
    "note.goes_on": "goes on by itself",
    "note.never_goes_on": (
        "its windows never open again: it does not go on by itself ('sf job retry' queues it once they are changed)"
    ),
    "note.maintenance": "paused for maintenance by {by}",
    "note.maintenance_why": "paused for maintenance by {by}: {why}",
    "note.restored": (
        "paused: the console was restored from a backup that is older than attempt {number} ({place}); look at what"
        " that attempt left, then resume the job, or stop it"
    ),
    "note.drained": "paused: node {node} is drained",
    "note.drained_why": "paused: node {node} is drained ({why})",
    "note.secret": "passed 1 secret: {names}",
    "note.secrets": "passed {n} secrets: {names}",
    "told.started": "training process started",
    "told.resumed": "training process started, resumed from the checkpoint of step {step}",
    "told.workspace": "workspace ready after {s} s",
    "told.stopping": "stopping ({why})",
    "told.stopping_in": "stopping ({why}), {s} s to end",
    "told.signal": "signal {signal}",
    "told.ended": "training ended: {how}",
    "told.ended_message": "training ended: {how}; {message}",
    "told.checkpoint": "checkpoint of step {step} committed: {path}",
    "token.made_here": "made on the console's machine",
    "token.made_at_sign_in": "made at sign-in",
    "note.rerun": "the spec of {job}, submitted again",
    "note.commit": "{input} is commit {commit}",
}
"""By code."""
