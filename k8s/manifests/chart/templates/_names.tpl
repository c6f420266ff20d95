{{- define "gapline.image" -}}
{{ .image.repository }}:{{ .image.tag | default .version }}
{{- end }}

{{- define "gapline.export" -}}
{{- if or .Values.openTelemetryCollector.enabled .Values.jaeger.enabled -}}
http://gapline-opentelemetry.{{ .Release.Namespace }}:4318
{{- else -}}
http://gapline-collector.{{ .Release.Namespace }}:4318
{{- end }}
{{- end }}

{{- define "gapline.pod-security" -}}
runAsNonRoot: true
runAsUser: 64102
runAsGroup: 64102
fsGroup: 64102
{{- end }}

{{- define "gapline.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "gapline.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
