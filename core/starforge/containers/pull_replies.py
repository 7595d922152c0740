"""What engines and registries say when an image cannot be pulled."""

from typing import Final

from starforge.containers.replies import DISK, Fault, row

PULL: Final = (
    *DISK,
    row(
        r"toomanyrequests|too many requests|rate limit|\b429\b",
        Fault.RETRYABLE,
        "the registry limits how often it is asked, for all machines behind one address together",
        "it is tried again after minutes; a mirror or a login raises the limit",
    ),
    row(
        r"unexpected (?:http )?status(?: code)?:? ?(?:\[?[^\]\n]*\]?: )?5\d\d|(?:502|503|504) (?:bad|service|gateway)",
        Fault.RETRYABLE,
        "the registry has trouble of its own",
        "it is tried again",
    ),
    row(
        r"server gave HTTP response to HTTPS client",
        Fault.NODE_FAULT,
        "the registry speaks plain HTTP, which the engine does not trust",
        "add it to the engine's insecure-registries, or give it a certificate",
    ),
    row(
        r"x509:|\btls: ",
        Fault.NODE_FAULT,
        "this machine does not trust the registry's certificate",
        "install its authority under /etc/docker/certs.d/<registry>/ca.crt; compare the machine's clock",
    ),
    row(
        r"proxyconnect",
        Fault.NODE_FAULT,
        "the proxy of this machine's engine does not let it reach the registry",
        "mend the engine's proxy settings",
    ),
    row(
        r"no matching manifest for (\S+)|no match for platform|image operating system",
        Fault.USER_ERROR_OR_PLACEMENT,
        "the image has no variant for this kind of machine ({0})",
        "choose another image, or a machine of a kind that it has",
    ),
    row(
        r"(?<!permission )\bdenied\b",
        Fault.USER_ERROR,
        "the image's name is wrong, or the login for its registry is missing: registries say the same of both",
        "compare the name; if it is right, give the console a login for the registry",
    ),
    row(
        r"unauthorized|no basic auth credentials|authentication required|(?:401|403) (?:unauthorized|forbidden)"
        r"|incorrect username or password",
        Fault.USER_ERROR,
        "the registry does not accept the login, or wants one",
        "give the console a valid login for the registry",
    ),
    row(
        r"failed to register layer: .*(?:lchown|operation not permitted|invalid argument)",
        Fault.NODE_FAULT,
        "the engine cannot unpack the image on this machine",
        "look at the engine's user namespaces and storage driver",
    ),
    row(
        r"manifest for (\S+) not found|manifest unknown|name unknown|was deleted or has expired|repository .* not found"
        r"|\bnot found\b",
        Fault.USER_ERROR,
        "this image does not exist at the registry ({0})",
        "name a tag or digest that exists",
    ),
    row(
        r"invalid reference|invalid repository|must be lowercase|repository name|invalid tag format",
        Fault.USER_ERROR,
        "this is no name of an image",
        "write it as registry/name:tag",
    ),
    row(
        r"manifest invalid|unsupported|not supported|no longer supported|deprecat|schema 1|max depth exceeded"
        r"|failed verification",
        Fault.USER_ERROR,
        "the image has a form that the engine does not take",
        "build and push it again with a current tool",
    ),
)

UNDECIDED: Final = (
    row(
        (
            r"dial tcp|timeout|timed out|connection re(?:fused|set)|\beof\b|no such host|server misbehaving"
            r"|network is unreachable|no route to host|layer verification failed|unexpected commit digest"
        ),
        Fault.RETRYABLE,
        "the registry could not be reached, or the transfer broke off",
        "it is tried again; if it stays so, look at the machine's network and name service",
    ),
    row(
        r"no such container",
        Fault.RETRYABLE,
        "somebody removed the container",
        "it is launched again",
    ),
    row(
        r"range of cpus is from ([\d.]+ to [\d.]+)|minimum memory limit|invalid (?:cpu|memory|shm)",
        Fault.USER_ERROR_OR_PLACEMENT,
        "it asks for processors or memory that this machine does not have ({0})",
        "ask for less, or for a larger machine",
    ),
    row(
        r"no such image: (\S+)",
        Fault.RETRYABLE,
        "the image is not at the engine ({0})",
        "it is pulled",
    ),
)
"""Sentences whose code decides while a job runs; without the code only they are left to tell."""
