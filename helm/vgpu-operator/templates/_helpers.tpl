{{/* Names, labels, images. */}}

{{- define "vgpu.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* First part of every name: 47 characters leave room for what follows it in 63. */}}
{{- define "vgpu.fullname" -}}
{{- $name := include "vgpu.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 47 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 47 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 47 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "vgpu.scheduler" -}}{{ include "vgpu.fullname" . }}-scheduler{{- end -}}
{{- define "vgpu.devicePlugin" -}}{{ include "vgpu.fullname" . }}-device-plugin{{- end -}}
{{- define "vgpu.agent" -}}{{ include "vgpu.fullname" . }}-agent{{- end -}}
{{- define "vgpu.nodeAgent" -}}{{ include "vgpu.fullname" . }}-node-agent{{- end -}}
{{- define "vgpu.cleanup" -}}{{ include "vgpu.fullname" . }}-cleanup{{- end -}}
{{- define "vgpu.webhook" -}}{{ include "vgpu.fullname" . }}-webhook{{- end -}}
{{- define "vgpu.tlsSecret" -}}{{ include "vgpu.scheduler" . }}-tls{{- end -}}

{{- define "vgpu.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Labels that a selector may hold: they never change. Call with (list $ "component"). */}}
{{- define "vgpu.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "vgpu.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "vgpu.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{ include "vgpu.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object. Call with (list $ "component" "name"), or a fourth part: namespaced? */}}
{{- define "vgpu.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 }}
{{- if eq (len .) 3 }}
namespace: {{ include "vgpu.namespace" $root }}
{{- end }}
labels:
  {{- include "vgpu.labels" (list $root (index . 1)) | nindent 2 }}
{{- with $root.Values.global.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image's full name. Call with (list $ image "tag where it names none"). */}}
{{- define "vgpu.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := default $image.registry $root.Values.global.imageRegistry -}}
{{- $tag := default (index . 2) $image.tag | toString -}}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository }}{{ ternary "@" ":" (hasPrefix "sha256:" $tag) }}{{ $tag -}}
{{- end -}}

{{/* Pull secrets of a pod. Call with (list $ image image…). */}}
{{- define "vgpu.pullSecrets" -}}
{{- $root := index . 0 -}}
{{- $all := default list $root.Values.global.imagePullSecrets -}}
{{- range rest . }}{{ $all = concat $all (default list .pullSecrets) }}{{ end -}}
{{- $names := list -}}
{{- range $all }}{{ $names = append $names (ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .)) }}{{ end -}}
{{- with uniq $names }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The cluster's version without what its maker has put behind it: v1.34.1-gke.100 is v1.34.1. */}}
{{- define "vgpu.kubeVersion" -}}
{{- regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version -}}
{{- end -}}

{{/* Who makes the webhook's certificate: none, operator, cert-manager or secret. */}}
{{- define "vgpu.certificate" -}}
{{- $scheduler := .Values.scheduler -}}
{{- if not $scheduler.admissionWebhook.enabled -}}none
{{- else if $scheduler.certManager.enabled -}}cert-manager
{{- else if $scheduler.patch.enabled -}}operator
{{- else -}}secret
{{- end -}}
{{- end -}}

{{/* Whether the state page is there, and who reaches it: off, pod or cluster. */}}
{{- define "vgpu.stateReach" -}}
{{- $state := .Values.state -}}
{{- $port := include "vgpu.statePort" . -}}
{{- $metrics := splitList ":" (toString .Values.scheduler.metricsBindAddress) | last -}}
{{- if not $state.enabled -}}off
{{- else if has $port (list "8080" "9443" "10259" $metrics) -}}
{{- fail (printf "state.bindAddress: port %s is in use in the pod (8080 extender, 9443 webhook, 10259 kube-scheduler, %s metrics); write another one" $port $metrics) -}}
{{- else if regexMatch "^(127\\.[0-9.]+|localhost|\\[::1\\]):[0-9]+$" (include "vgpu.stateBind" .) -}}pod
{{- else if eq (include "vgpu.certificate" .) "none" -}}
{{- fail "state.bindAddress is not on loopback, and the state page shows the webhook's certificate there: switch scheduler.admissionWebhook on, or write 127.0.0.1:9396" -}}
{{- else if and (eq .Values.scheduler.service.type "ClusterIP") (has $port (list (toString .Values.scheduler.service.httpPort) (toString .Values.scheduler.service.monitorPort))) -}}
{{- fail (printf "state.bindAddress: port %s is the Service's port of the webhook or of the metrics; write another one" $port) -}}
{{- else -}}cluster
{{- end -}}
{{- end -}}

{{- define "vgpu.stateBind" -}}{{ default "127.0.0.1:9396" .Values.state.bindAddress }}{{- end -}}

{{- define "vgpu.statePort" -}}{{ splitList ":" (include "vgpu.stateBind" .) | last }}{{- end -}}

{{/* The user of containers of ours. */}}
{{- define "vgpu.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  {{- with .Values.scheduler.runAsUser }}
  runAsUser: {{ int64 . }}
  runAsGroup: {{ int64 . }}
  fsGroup: {{ int64 . }}
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "vgpu.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Which agents there are, as a list in JSON: played (nodes that are objects only), real. */}}
{{- define "vgpu.agents" -}}
{{- $v := .Values.agent -}}
{{- $found := list -}}
{{- if $v.enabled -}}
{{- with $v.simulate }}{{ if .nodes }}{{ $found = append $found "played" }}{{ end }}{{ end -}}
{{- if $v.backend }}{{ $found = append $found "real" }}{{ end -}}
{{- if not $found -}}
{{- fail "agent.enabled is true and nothing says for what: give real nodes an agent by agent.backend (simulated or nvml), or name nodes to play in agent.simulate.nodes, such as [{prefix: sim-, count: 2, cards: 4}]" -}}
{{- end -}}
{{- end -}}
{{- if and (has "real" $found) .Values.devicePlugin.enabled (eq (include "vgpu.agentVendor" .) "NVIDIA") -}}
{{- $plugin := default dict .Values.devicePlugin.nvidiaNodeSelector -}}
{{- $agent := default dict $v.nodeSelector -}}
{{- $apart := list -}}
{{- range $key, $value := $agent -}}
{{- if and (hasKey $plugin $key) (ne (toString $value) (get $plugin $key | toString)) }}{{ $apart = append $apart $key }}{{ end -}}
{{- end -}}
{{- if not $apart -}}
{{- fail (printf "agent.backend and devicePlugin.enabled give nodes two plugins for %s, of which the kubelet takes the one that came last: set devicePlugin.enabled: false, or give agent.nodeSelector another value of a label that devicePlugin.nvidiaNodeSelector names, such as gpu: ours" (include "vgpu.nvidiaResource" .)) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* Folder of the host for what containers with cards see. */}}
{{- define "vgpu.agentHostDir" -}}
{{- default (printf "%s/vgpu" (trimSuffix "/" .Values.global.gpuHookPath)) .Values.agent.hostDir -}}
{{- end -}}

{{/* Whose cards the agent of real nodes offers: all have one vendor. */}}
{{- define "vgpu.agentVendor" -}}
{{- $cards := ternary (default dict .Values.agent.cards) dict (eq (toString .Values.agent.backend) "simulated") -}}
{{- $vendor := get $cards "vendor" -}}
{{- range $card := concat (get $cards "devices" | default list) (kindIs "slice" (get $cards "cards") | ternary (get $cards "cards") list) -}}
{{- $vendor = default (get $card "vendor") $vendor -}}
{{- end -}}
{{- default "NVIDIA" $vendor -}}
{{- end -}}

{{/* What the kubelet counts for NVIDIA cards: the device configuration names it. */}}
{{- define "vgpu.nvidiaResource" -}}
{{- $nvidia := get (include "vgpu.deviceConfig" . | fromYaml) "nvidia" | default dict -}}
{{- default .Values.resourceName (get $nvidia "resourceCountName") -}}
{{- end -}}

{{/* RuntimeClass of pods with NVIDIA cards. */}}
{{- define "vgpu.nvidiaRuntimeClass" -}}
{{- $agent := .Values.agent -}}
{{- $ofAgent := ternary $agent.runtimeClassName "" (and $agent.enabled (eq (toString $agent.backend) "nvml")) -}}
{{- default $ofAgent .Values.devicePlugin.runtimeClassName -}}
{{- end -}}
