"""What a RayJob may hold, as far as StarForge writes it: tests hold it against KubeRay's definition where they can."""

from typing import Final

from e2e.support.kube.schema import (
    ANY,
    BOOLEAN,
    INTEGER,
    QUANTITY,
    STRING,
    Schema,
    integer,
    list_of,
    map_of,
    obj,
    string,
)

_MOST_REPLICAS: Final = 2147483647
_KEY: Final = obj("key", key=STRING, name=string(""), optional=BOOLEAN)
_ENV: Final = obj(
    "name",
    name=STRING,
    value=STRING,
    valueFrom=obj(
        fieldRef=obj("fieldPath", apiVersion=STRING, fieldPath=STRING),
        resourceFieldRef=obj("resource", containerName=STRING, resource=STRING, divisor=QUANTITY),
        secretKeyRef=_KEY,
        configMapKeyRef=_KEY,
    ),
)
_RESOURCES: Final = obj(limits=map_of(QUANTITY), requests=map_of(QUANTITY))
_CAPABILITIES: Final = obj(add=list_of(STRING), drop=list_of(STRING))
_SECCOMP: Final = obj("type", localhostProfile=STRING, type=STRING)
_CONTAINER_SECURITY: Final = obj(
    allowPrivilegeEscalation=BOOLEAN,
    capabilities=_CAPABILITIES,
    privileged=BOOLEAN,
    readOnlyRootFilesystem=BOOLEAN,
    runAsGroup=INTEGER,
    runAsNonRoot=BOOLEAN,
    runAsUser=INTEGER,
    seccompProfile=_SECCOMP,
)
_PORT: Final = obj(
    "containerPort", containerPort=INTEGER, hostIP=STRING, hostPort=INTEGER, name=STRING, protocol=string("TCP")
)
_MOUNT: Final = obj(
    "mountPath name",
    mountPath=STRING,
    mountPropagation=STRING,
    name=STRING,
    readOnly=BOOLEAN,
    recursiveReadOnly=STRING,
    subPath=STRING,
    subPathExpr=STRING,
)
_CONTAINER: Final = obj(
    "name",
    args=list_of(STRING),
    command=list_of(STRING),
    env=list_of(_ENV, "name"),
    image=STRING,
    imagePullPolicy=STRING,
    lifecycle=obj(preStop=obj(exec=obj(command=list_of(STRING)))),
    name=STRING,
    ports=list_of(_PORT, "containerPort", "protocol"),
    resources=_RESOURCES,
    securityContext=_CONTAINER_SECURITY,
    terminationMessagePath=STRING,
    terminationMessagePolicy=STRING,
    volumeMounts=list_of(_MOUNT, "mountPath"),
    workingDir=STRING,
)
_SECRET_VOLUME: Final = obj(
    defaultMode=INTEGER,
    items=list_of(obj("key path", key=STRING, mode=INTEGER, path=STRING)),
    optional=BOOLEAN,
    secretName=STRING,
)
_VOLUME: Final = obj(
    "name",
    name=STRING,
    emptyDir=obj(medium=STRING, sizeLimit=QUANTITY),
    hostPath=obj("path", path=STRING, type=STRING),
    persistentVolumeClaim=obj("claimName", claimName=STRING, readOnly=BOOLEAN),
    secret=_SECRET_VOLUME,
)
_TOLERATION: Final = obj(effect=STRING, key=STRING, operator=STRING, tolerationSeconds=INTEGER, value=STRING)
_POD_SECURITY: Final = obj(
    fsGroup=INTEGER,
    fsGroupChangePolicy=STRING,
    runAsGroup=INTEGER,
    runAsNonRoot=BOOLEAN,
    runAsUser=INTEGER,
    seccompProfile=_SECCOMP,
    supplementalGroups=list_of(INTEGER),
)
_REQUIREMENT: Final = obj("key operator", key=STRING, operator=STRING, values=list_of(STRING))
_NODE_TERM: Final = obj(matchExpressions=list_of(_REQUIREMENT))
_SELECTOR: Final = obj(matchLabels=map_of(), matchExpressions=list_of(_REQUIREMENT))
_POD_TERM: Final = obj("topologyKey", labelSelector=_SELECTOR, topologyKey=STRING)
_AFFINITY: Final = obj(
    nodeAffinity=obj(
        requiredDuringSchedulingIgnoredDuringExecution=obj("nodeSelectorTerms", nodeSelectorTerms=list_of(_NODE_TERM))
    ),
    podAntiAffinity=obj(requiredDuringSchedulingIgnoredDuringExecution=list_of(_POD_TERM)),
)
_METADATA: Final = obj(annotations=map_of(), finalizers=list_of(STRING), labels=map_of(), name=STRING, namespace=STRING)
_POD_SPEC: Final = obj(
    "containers",
    activeDeadlineSeconds=INTEGER,
    affinity=_AFFINITY,
    automountServiceAccountToken=BOOLEAN,
    containers=list_of(_CONTAINER, "name"),
    dnsPolicy=STRING,
    enableServiceLinks=BOOLEAN,
    hostIPC=BOOLEAN,
    hostNetwork=BOOLEAN,
    hostPID=BOOLEAN,
    hostname=STRING,
    imagePullSecrets=list_of(obj(name=string("")), "name"),
    initContainers=list_of(_CONTAINER, "name"),
    nodeName=STRING,
    nodeSelector=Schema(type="object", values=STRING, is_atomic=True),
    priorityClassName=STRING,
    restartPolicy=STRING,
    runtimeClassName=STRING,
    schedulerName=STRING,
    securityContext=_POD_SECURITY,
    serviceAccountName=STRING,
    shareProcessNamespace=BOOLEAN,
    subdomain=STRING,
    terminationGracePeriodSeconds=INTEGER,
    tolerations=list_of(_TOLERATION),
    volumes=list_of(_VOLUME, "name"),
)
_TEMPLATE: Final = obj(metadata=_METADATA, spec=_POD_SPEC)
_HEAD_GROUP: Final = obj(
    "template",
    enableIngress=BOOLEAN,
    labels=map_of(),
    rayStartParams=map_of(),
    resources=map_of(),
    serviceType=STRING,
    template=_TEMPLATE,
)
_WORKER_GROUP: Final = obj(
    "groupName maxReplicas minReplicas template",
    groupName=STRING,
    idleTimeoutSeconds=INTEGER,
    labels=map_of(),
    maxReplicas=integer(_MOST_REPLICAS),
    minReplicas=integer(0),
    numOfHosts=integer(1),
    priority=integer(0),
    rayStartParams=map_of(),
    replicas=integer(0),
    resources=map_of(),
    suspend=BOOLEAN,
    template=_TEMPLATE,
)
CLUSTER_SPEC: Final = obj(
    "headGroupSpec",
    enableInTreeAutoscaling=BOOLEAN,
    headGroupSpec=_HEAD_GROUP,
    headServiceAnnotations=map_of(),
    rayVersion=STRING,
    suspend=BOOLEAN,
    workerGroupSpecs=list_of(_WORKER_GROUP),
)
SPEC: Final = obj(
    activeDeadlineSeconds=INTEGER,
    backoffLimit=integer(0),
    clusterSelector=map_of(),
    entrypoint=STRING,
    entrypointNumCpus=Schema(type="number"),
    entrypointNumGpus=Schema(type="number"),
    entrypointResources=STRING,
    jobId=STRING,
    managedBy=STRING,
    metadata=map_of(),
    preRunningDeadlineSeconds=integer(minimum=1),
    rayClusterSpec=CLUSTER_SPEC,
    runtimeEnvYAML=STRING,
    shutdownAfterJobFinishes=BOOLEAN,
    submissionMode=string("K8sJobMode"),
    submitterConfig=obj(backoffLimit=INTEGER),
    submitterPodTemplate=_TEMPLATE,
    suspend=BOOLEAN,
    ttlSecondsAfterFinished=integer(0),
)
STATUS: Final = obj(
    dashboardURL=STRING,
    endTime=STRING,
    failed=integer(0),
    jobDeploymentStatus=STRING,
    jobId=STRING,
    jobStatus=STRING,
    jobStatusCheckFailureStartTime=STRING,
    message=STRING,
    observedGeneration=INTEGER,
    rayClusterName=STRING,
    rayJobInfo=obj(endTime=STRING, startTime=STRING),
    reason=STRING,
    startTime=STRING,
    succeeded=integer(0),
)
RAYJOB: Final = obj(apiVersion=STRING, kind=STRING, metadata=ANY, spec=SPEC, status=STATUS)
"""`rayClusterStatus` is left out of the status: nothing of ours reads it."""
