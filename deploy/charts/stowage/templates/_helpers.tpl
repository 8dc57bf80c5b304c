{{- define "stowage.image" -}}
{{- $image := .Values.image -}}
{{- $tag := $image.tag | default (ternary "" .Chart.AppVersion (ne $image.digest "")) -}}
{{- $image.repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with $image.digest }}@{{ . }}{{ end -}}
{{- end }}
{{/* Whether the hub gets policies of a kind. */}}
{{- define "stowage.validating" -}}
{{- if eq (toString .Values.admission.validating) "auto" -}}
{{- semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}{{- .Values.admission.validating -}}{{- end -}}
{{- end }}
{{- define "stowage.mutating" -}}
{{- if eq (toString .Values.admission.mutating) "auto" -}}
{{- semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}{{- .Values.admission.mutating -}}{{- end -}}
{{- end }}
