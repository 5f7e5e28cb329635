{{/*
What the operator, kube-scheduler and the device plugins read. Names of resources stand in
one place only, the device configuration: kube-scheduler's list is made from it.
*/}}

{{/* Set fields of one section: (list config "section" (dict "field" value …)). */}}
{{- define "vgpu.setFields" -}}
{{- $section := get (index . 0) (index . 1) -}}
{{- range $name, $value := index . 2 -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $section $name $value }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The device configuration that the chart makes, as YAML. */}}
{{- define "vgpu.deviceConfig.made" -}}
{{- $config := .Files.Get "files/device-config-defaults.yaml" | fromYaml -}}
{{- $v := .Values -}}
{{- include "vgpu.setFields" (list $config "nvidia" (dict
    "resourceCountName" $v.resourceName
    "resourceMemoryName" $v.resourceMem
    "resourceMemoryPercentageName" $v.resourceMemPercentage
    "resourceCoreName" $v.resourceCores
    "resourcePriorityName" $v.resourcePriority
    "overwriteEnv" (eq (toString $v.scheduler.overwriteEnv) "true")
    "preConfiguredDeviceMemory" $v.devicePlugin.preConfiguredDeviceMemory
    "deviceSplitCount" $v.devicePlugin.deviceSplitCount
    "deviceMemoryScaling" $v.devicePlugin.deviceMemoryScaling
    "deviceCoreScaling" $v.devicePlugin.deviceCoreScaling
    "enableNumaTopology" $v.devicePlugin.enableNumaTopology
    "gpuCorePolicy" $v.devices.nvidia.gpuCorePolicy
    "libCudaLogLevel" $v.devices.nvidia.libCudaLogLevel
    "runtimeClassName" (include "vgpu.nvidiaRuntimeClass" .))) -}}
{{- include "vgpu.setFields" (list $config "cambricon" (dict
    "resourceCountName" $v.mluResourceName
    "resourceMemoryName" $v.mluResourceMem
    "resourceCoreName" $v.mluResourceCores)) -}}
{{- include "vgpu.setFields" (list $config "hygon" (dict
    "resourceCountName" $v.dcuResourceName
    "resourceMemoryName" $v.dcuResourceMem
    "resourceCoreName" $v.dcuResourceCores)) -}}
{{- include "vgpu.setFields" (list $config "metax" (dict
    "resourceVCountName" $v.metaxResourceName
    "resourceVMemoryName" $v.metaxResourceMem
    "resourceVCoreName" $v.metaxResourceCore
    "sgpuTopologyAware" (eq (toString $v.metaxsGPUTopologyAware) "true"))) -}}
{{- include "vgpu.setFields" (list $config "enflame" (dict
    "resourceNameDRSGCU" $v.enflameResourceNameDRSGCU
    "resourceNameGCUMemory" $v.enflameResourceNameGCUMemory
    "resourceNameGCUCore" $v.enflameResourceNameGCUCore)) -}}
{{- include "vgpu.setFields" (list $config "kunlun" (dict
    "resourceCountName" $v.kunlunResourceName
    "resourceVCountName" $v.kunlunResourceVCountName
    "resourceVMemoryName" $v.kunlunResourceVMemoryName)) -}}
{{- include "vgpu.setFields" (list $config "vastai" (dict "resourceCountName" $v.vastaiResourceName)) -}}
{{- include "vgpu.setFields" (list $config "biren" (dict "resourceCountName" $v.birenResourceName)) -}}
{{- $_ := set $config.vnpus "hamiVnpuCore" $v.devices.ascend.hamiVnpuCore -}}
{{- with $v.devices.ascend.runtimeClassName -}}
{{- range $config.vnpus.configs }}{{ $_ := set . "runtimeClassName" $v.devices.ascend.runtimeClassName }}{{ end -}}
{{- end -}}
{{- include "vgpu.overlay" (list $config (index $v "device-config").overrides) -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Put a document's fields over another's, section by section; a list replaces a list. */}}
{{- define "vgpu.overlay" -}}
{{- $under := index . 0 -}}
{{- range $name, $fields := index . 1 -}}
{{- if kindIs "map" $fields -}}
{{- if not (hasKey $under $name) }}{{ $_ := set $under $name dict }}{{ end -}}
{{- include "vgpu.setFields" (list $under $name $fields) -}}
{{- else if not (kindIs "invalid" $fields) -}}
{{- $_ := set $under $name $fields -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* device-config.yaml as it is mounted: yours as it stands, or what the chart makes. */}}
{{- define "vgpu.deviceConfig" -}}
{{- with (index .Values "device-config").content -}}
{{- . -}}
{{- else -}}
{{- with .Files.Get "files/device-config.yaml" }}{{ . }}{{ else }}{{ include "vgpu.deviceConfig.made" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Every resource that the extender counts, one a line. */}}
{{- define "vgpu.managedResources" -}}
{{- $config := .Files.Get "files/device-config-defaults.yaml" | fromYaml -}}
{{- $own := include "vgpu.deviceConfig" . | fromYaml -}}
{{- if hasKey $own "Error" }}{{ fail (printf "device-config.content is no YAML mapping: %s" $own.Error) }}{{ end -}}
{{- if kindIs "slice" (get $own "vnpus") }}{{ $_ := set $own "vnpus" (dict "configs" $own.vnpus) }}{{ end -}}
{{- include "vgpu.overlay" (list $config $own) -}}
{{- $devices := .Values.devices -}}
{{- $found := dict -}}
{{- $sections := dict "nvidia" $config.nvidia "cambricon" $config.cambricon "hygon" $config.hygon "metax" $config.metax "amd" $config.amd "awsneuron" $config.awsneuron -}}
{{- range $name := list "kunlun" "enflame" "mthreads" "vastai" "biren" -}}
{{- if (get $devices $name).enabled }}{{ $_ := set $sections $name (get $config $name) }}{{ end -}}
{{- end -}}
{{- if $devices.ascend.enabled -}}
{{- range $chip := $config.vnpus.configs }}{{ $_ := set $sections (printf "vnpus %s" $chip.commonWord) $chip }}{{ end -}}
{{- end -}}
{{- if $devices.iluvatar.enabled -}}
{{- range $chip := $config.iluvatars }}{{ $_ := set $sections (printf "iluvatars %s" $chip.commonWord) $chip }}{{ end -}}
{{- end -}}
{{- range $name, $section := $sections -}}
{{- /* The older names of Enflame's slices count where the newer one is empty. */ -}}
{{- if eq $name "enflame" -}}
{{- $slices := coalesce (get $section "resourceNameDRSGCU") (get $section "resourceNameVGCU") "enflame.com/drs-gcu" -}}
{{- $section = merge (dict "resourceNameDRSGCU" $slices) (omit $section "resourceNameDRSGCU" "resourceNameVGCU" "resourceNameVGCUPercentage") -}}
{{- end -}}
{{- range $field, $resource := $section -}}
{{- if and (hasPrefix "resource" $field) $resource -}}
{{- $place := printf "%s.%s" $name $field -}}
{{- with get $found $resource -}}
{{- fail (printf "the device configuration names %s twice, at %s and %s; give each resource a name of its own" $resource . $place) -}}
{{- end -}}
{{- $_ := set $found $resource $place -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join "\n" (keys $found | sortAlpha) -}}
{{- end -}}

{{/* The namespaces that the webhook is never asked about, as a JSON list. */}}
{{- define "vgpu.leftOut" -}}
{{- $yours := default list .Values.scheduler.admissionWebhook.whitelistNamespaces -}}
{{- concat (list "kube-system" (include "vgpu.namespace" .)) $yours | uniq | toJson -}}
{{- end -}}

{{/* The operator's settings file. */}}
{{- define "vgpu.settings" -}}
{{- $v := .Values -}}
{{- $settings := deepCopy (default dict $v.settings) -}}
{{- $_ := set $settings "schedulerName" $v.schedulerName -}}
{{- $_ := set $settings "forceOverwriteDefaultScheduler" $v.scheduler.forceOverwriteDefaultScheduler -}}
{{- if $v.scheduler.admissionWebhook.manageNamespaceSelector -}}
{{- $yours := default list (get $settings "webhookLeavesOut") -}}
{{- $_ := set $settings "webhookLeavesOut" (concat (include "vgpu.leftOut" . | fromJsonArray) $yours | uniq) -}}
{{- end -}}
{{- $_ := set $settings "defaultSchedulerPolicy" $v.scheduler.defaultSchedulerPolicy -}}
{{- $vendors := dict -}}
{{- range $name := list "ascend" "iluvatar" "kunlun" "enflame" "mthreads" "vastai" "biren" -}}
{{- $_ := set $vendors $name (dict "enabled" (get $v.devices $name).enabled) -}}
{{- end -}}
{{- $_ := set $settings "vendors" $vendors -}}
{{- if $v.legacyMetrics -}}
{{- $_ := set $settings "metrics" (merge (dict "legacyNames" true) (default dict (get $settings "metrics"))) -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* How long kube-scheduler waits for the extender, in seconds: binds stand in line. */}}
{{- define "vgpu.bindLimit" -}}
{{- $bind := default dict (get (default dict .Values.settings) "bind") -}}
{{- default 600 (get $bind "timeLimitS") | int -}}
{{- end -}}

{{/* kube-scheduler's configuration. */}}
{{- define "vgpu.schedulerConfig" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: {{ .Values.scheduler.leaderElect }}
  resourceLock: leases
  resourceNamespace: {{ include "vgpu.namespace" . }}
  resourceName: {{ .Values.schedulerName }}
  leaseDuration: 15s
  renewDeadline: 10s
  # A follower looks every 0.4 to 0.88 s and so takes over at most 1.76 s after the Lease's
  # time; the default of 2s may add 8.8 s.
  retryPeriod: 400ms
# By default only the first tenth of a large cluster reaches the extender.
percentageOfNodesToScore: 100
profiles:
  - schedulerName: {{ .Values.schedulerName }}
extenders:
  - urlPrefix: http://127.0.0.1:8080
    filterVerb: filter
    prioritizeVerb: prioritize
    bindVerb: bind
    weight: 1
    enableHTTPS: false
    nodeCacheCapable: true
    ignorable: false
    # A bind waits for its node's lock; the operator ends that wait in time.
    httpTimeout: {{ include "vgpu.bindLimit" . }}s
    managedResources:
      {{- range splitList "\n" (include "vgpu.managedResources" .) }}
      - {name: {{ . | quote }}, ignoredByScheduler: true}
      {{- end }}
{{- end -}}
