package kubernetes

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const manifests = "../../docs/kubernetes"

// TestManifestsDecode decodes every document strictly, as it is and with the lines of each kind of
// cluster: an unknown or misplaced field is an error.
func TestManifestsDecode(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no manifests in %s: %v", manifests, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"", "rdma", "hostnetwork", "restricted"} {
			enabled := bytes.ReplaceAll(text, []byte("\n#"+kind+":"), []byte("\n"))
			if kind != "" && bytes.Equal(enabled, text) {
				if filepath.Base(path) == "indexed-job.yaml" {
					t.Errorf("%s has no lines for %s", path, kind)
				}
				continue
			}
			for i, document := range bytes.Split(enabled, []byte("\n---\n")) {
				if _, err := decode(document); err != nil {
					t.Errorf("%s for %q, document %d: %v", path, kind, i+1, err)
				}
			}
		}
	}
}

func decode(document []byte) (any, error) {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return nil, err
	}
	var object any
	switch kind.Kind {
	case "Secret":
		object = new(core.Secret)
	case "Service":
		object = new(core.Service)
	case "PersistentVolumeClaim":
		object = new(core.PersistentVolumeClaim)
	case "JobSet":
		object = new(jobSet)
	case "MPIJob":
		object = new(mpiJob)
	default:
		object = new(batch.Job)
	}
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	// The API server's decoder: unlike encoding/json it minds the case of names.
	problems, err := json.UnmarshalStrict(text, object)
	return object, errors.Join(append(problems, err)...)
}

func TestMisspeltFieldIsRefused(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(manifests, "indexed-job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	documents := bytes.Split(text, []byte("\n---\n"))
	job := documents[2]
	if _, err := decode(bytes.Replace(job, []byte("backoffLimit"), []byte("backOffLimit"),
		1)); err == nil {
		t.Error("a misspelt field was accepted")
	}
}

// TestIndexedJobFitsTogether checks what must agree between the three objects.
func TestIndexedJobFitsTogether(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(manifests, "indexed-job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var secret *core.Secret
	var service *core.Service
	var job *batch.Job
	var claim *core.PersistentVolumeClaim
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object, err := decode(document)
		if err != nil {
			t.Fatal(err)
		}
		switch o := object.(type) {
		case *core.Secret:
			secret = o
		case *core.Service:
			service = o
		case *batch.Job:
			job = o
		case *core.PersistentVolumeClaim:
			claim = o
		}
	}
	if secret == nil || service == nil || job == nil || claim == nil {
		t.Fatal("there must be a Secret, a Service, a Job and a PersistentVolumeClaim")
	}
	pod := job.Spec.Template.Spec
	container := pod.Containers[0]
	if want := "tb1-TOKEN@" + job.Name + "-0." + service.Name +
		":7177"; secret.StringData["ticket"] != want {
		t.Errorf("the ticket is %s, want %s", secret.StringData["ticket"], want)
	}
	for _, same := range []struct {
		what      string
		got, want any
	}{
		{"subdomain", pod.Subdomain, service.Name},
		{"selector", service.Spec.Selector["job-name"], job.Name},
		{"completions", *job.Spec.Completions, *job.Spec.Parallelism},
		{"completion mode", *job.Spec.CompletionMode, batch.IndexedCompletion},
		{"secret", container.Env[0].ValueFrom.SecretKeyRef.Name, secret.Name},
		{"port", container.Ports[0].ContainerPort, service.Spec.Ports[0].Port},
		{"labels", pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].
			LabelSelector.MatchLabels["app"], job.Spec.Template.Labels["app"]},
		{"claim", pod.Volumes[0].PersistentVolumeClaim.ClaimName, claim.Name},
		{"processors", container.Resources.Requests.Cpu().String(),
			container.Resources.Limits.Cpu().String()},
		{"memory", container.Resources.Requests.Memory().String(),
			container.Resources.Limits.Memory().String()},
	} {
		if same.got != same.want {
			t.Errorf("%s: %v, want %v", same.what, same.got, same.want)
		}
	}
}
