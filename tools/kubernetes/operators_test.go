package kubernetes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The modules of the operators cannot be had from the module proxy in use here, so these are the
// fields of their types.

// jobSet is JobSet of jobset.x-k8s.io/v1alpha2.
type jobSet struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            jobSetSpec `json:"spec"`
}

type jobSetSpec struct {
	ReplicatedJobs          []replicatedJob `json:"replicatedJobs"`
	Network                 *jobSetNetwork  `json:"network"`
	FailurePolicy           *failurePolicy  `json:"failurePolicy"`
	Suspend                 *bool           `json:"suspend"`
	ManagedBy               *string         `json:"managedBy"`
	TTLSecondsAfterFinished *int32          `json:"ttlSecondsAfterFinished"`
}

type replicatedJob struct {
	Name     string                `json:"name"`
	Replicas int32                 `json:"replicas"`
	Template batch.JobTemplateSpec `json:"template"`
}

type jobSetNetwork struct {
	EnableDNSHostnames       *bool  `json:"enableDNSHostnames"`
	Subdomain                string `json:"subdomain"`
	PublishNotReadyAddresses *bool  `json:"publishNotReadyAddresses"`
}

type failurePolicy struct {
	MaxRestarts     int32  `json:"maxRestarts"`
	RestartStrategy string `json:"restartStrategy"`
}

// mpiJob is MPIJob of kubeflow.org/v2beta1.
type mpiJob struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		SlotsPerWorker    *int32 `json:"slotsPerWorker"`
		SSHAuthMountPath  string `json:"sshAuthMountPath"`
		MPIImplementation string `json:"mpiImplementation"`
		RunPolicy         struct {
			CleanPodPolicy          string `json:"cleanPodPolicy"`
			TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished"`
			ActiveDeadlineSeconds   *int64 `json:"activeDeadlineSeconds"`
			BackoffLimit            *int32 `json:"backoffLimit"`
			Suspend                 *bool  `json:"suspend"`
		} `json:"runPolicy"`
		MPIReplicaSpecs struct { // a map whose keys are these
			Launcher mpiReplicas `json:"Launcher"`
			Worker   mpiReplicas `json:"Worker"`
		} `json:"mpiReplicaSpecs"`
	} `json:"spec"`
}

type mpiReplicas struct {
	Replicas      *int32               `json:"replicas"`
	RestartPolicy string               `json:"restartPolicy"`
	Template      core.PodTemplateSpec `json:"template"`
}

// trainer is a module with the schemas that Kubernetes generates from the types of JobSet.
const trainer = "github.com/kubeflow/trainer/v2@v2.0.0"

// TestJobSetHasTheseFields compares the fields with the schemas.
func TestJobSetHasTheseFields(t *testing.T) {
	download := exec.Command("go", "mod", "download", "-json", trainer)
	download.Dir = t.TempDir()
	out, err := download.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module); err != nil {
		t.Skipf("%s cannot be had: %v %s", trainer, err, module.Error)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type  string
					AllOf []struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	for name, object := range map[string]any{"JobSet": jobSet{}, "JobSetSpec": jobSetSpec{},
		"ReplicatedJob": replicatedJob{}, "Network": jobSetNetwork{},
		"FailurePolicy": failurePolicy{}} {
		properties := spec.Components.Schemas["jobset.v1alpha2."+name].Properties
		for _, field := range reflect.VisibleFields(reflect.TypeOf(object)) {
			tag := field.Tag.Get("json")
			if len(field.Index) > 1 || strings.HasPrefix(tag, ",") {
				continue
			}
			want, found := properties[tag]
			if !found {
				t.Errorf("%s has no %s", name, tag)
			}
			kind := field.Type
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			types := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean",
				reflect.Int32: "integer", reflect.Slice: "array", reflect.Struct: ""}
			if want.Type != types[kind.Kind()] || (kind.Kind() == reflect.Struct) !=
				(len(want.AllOf) == 1) {
				t.Errorf("%s: %s is %q, not %v", name, tag, want.Type, kind)
			}
		}
	}
	template := spec.Components.Schemas["jobset.v1alpha2.ReplicatedJob"].Properties["template"]
	if !strings.HasSuffix(template.AllOf[0].Ref, "io.k8s.api.batch.v1.JobTemplateSpec") {
		t.Errorf("the template is %v", template)
	}
}

// TestOperatorsFitTogether checks what must agree between the objects of a manifest.
func TestOperatorsFitTogether(t *testing.T) {
	objects := func(name string) (all []any) {
		text, err := os.ReadFile(filepath.Join(manifests, name))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			object, err := decode([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, object)
		}
		return all
	}
	set := objects("jobset.yaml")
	secret, job, claim := set[0].(*core.Secret), set[1].(*jobSet),
		set[2].(*core.PersistentVolumeClaim)
	hosts := job.Spec.ReplicatedJobs[0]
	if want := "tb1-TOKEN@" + job.Name + "-" + hosts.Name + "-0-0." + job.Name +
		":7177"; secret.StringData["ticket"] != want {
		t.Errorf("the ticket is %s, want %s", secret.StringData["ticket"], want)
	}
	// Its Job is the one without an operator, in whose place JobSet makes the names of the pods.
	alone := objects("indexed-job.yaml")[2].(*batch.Job).Spec
	alone.TTLSecondsAfterFinished, alone.Template.Spec.Subdomain = nil, ""
	if !reflect.DeepEqual(hosts.Template.Spec, alone) {
		t.Errorf("jobset.yaml and indexed-job.yaml differ:\n%v\n%v", hosts.Template.Spec, alone)
	}
	if name := hosts.Template.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.
		ClaimName; name != claim.Name {
		t.Errorf("the claim is %s, want %s", name, claim.Name)
	}
	operated := objects("mpijob.yaml")
	mpi, claim := operated[0].(*mpiJob), operated[1].(*core.PersistentVolumeClaim)
	launcher, worker := mpi.Spec.MPIReplicaSpecs.Launcher, mpi.Spec.MPIReplicaSpecs.Worker
	if name := launcher.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; name !=
		claim.Name {
		t.Errorf("the claim is %s, want %s", name, claim.Name)
	}
	if *worker.Replicas != *alone.Completions || !slices.Contains(
		strings.Fields(launcher.Template.Spec.Containers[0].Args[0]), "/etc/mpi/hostfile") {
		t.Error("the launcher does not run on the hosts of the operator")
	}
}
