package builds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/project"
)

// meters has one metering bucket, of the account a-1, which is seen by keys without limits.
type meters struct {
	asked []string
	err   error
}

func (m *meters) ReadBucket(_ context.Context, at metering.BucketAt) (metering.Bucket, error) {
	m.asked = append(m.asked, at.Bucket)
	switch {
	case m.err != nil:
		return metering.Bucket{}, m.err
	case at.AccountID == "a-1" && at.Bucket == "mtr_1" && at.Viewer.MaySee("", ""):
		return metering.Bucket{ID: "mtr_1"}, nil
	}
	return metering.Bucket{}, fault.Missing("metering bucket")
}

// counting is a project whose route counts by policies of these names, each with its bucket.
func counting(buckets map[string]string) *project.Artifact {
	a := &project.Artifact{Policies: map[string]project.Policy{
		"unused": quota("unused", "mtr_unused"), "key": {Name: "key", Type: "api-key-inbound"},
	}}
	inbound := []string{"key"}
	for name, bucket := range buckets {
		a.Policies[name] = quota(name, bucket)
		inbound = append(inbound, name)
	}
	slices.Sort(inbound)
	a.Routes = []project.Route{{Inbound: inbound}, {Inbound: inbound}}
	return a
}

func quota(name, bucket string) project.Policy {
	options, _ := json.Marshal(map[string]any{"bucketId": bucket, "meters": map[string]int{"requests": 1}})
	return project.Policy{
		Name: name, Type: "quota-inbound", Handler: project.Component{Options: options},
		Source: project.Source{File: "config/policies.json", Pointer: "/policies/" + name},
	}
}

// TestBuildsFindMeteringBuckets of the account, whoever of it deploys: those of others, and
// that there are none, are told where the project names them.
func TestBuildsFindMeteringBuckets(t *testing.T) {
	for _, tt := range []struct {
		name, account string
		buckets       map[string]string
		want          []string // of each problem
		asked         string
	}{
		{"the account's", "a-1", map[string]string{"a": "mtr_1"}, nil, "[mtr_1]"},
		{"the account's, by two policies", "a-1", map[string]string{"a": "mtr_1", "b": "mtr_1"}, nil, "[mtr_1]"},
		{"another account's", "a-2", map[string]string{"a": "mtr_1"}, []string{`/policies/a/handler/options/bucketId: The account has no metering bucket "mtr_1". Make one`}, "[mtr_1]"},
		{"none's", "a-1", map[string]string{"a": "mtr_2", "b": "mtr_1", "c": "mtr_2"}, []string{
			`/policies/a/handler/options/bucketId: The account has no metering bucket "mtr_2".`, `/policies/c/handler/options/bucketId: The account has no metering bucket "mtr_2".`,
		}, "[mtr_2 mtr_1 mtr_2]"},
		{"a variable's", "a-1", map[string]string{"a": "mtr_s3cret"}, []string{`no metering bucket "$env(METERS)"`}, "[mtr_s3cret]"},
		{"no policy of the kind", "a-1", nil, nil, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			its := &meters{}
			in := deployments.BuildInput{AccountID: tt.account, Project: "shop", Kind: environment.Preview} // deployed by a key of these alone
			problems, err := New(Options{Metering: its}).findMeteringBuckets(t.Context(), in, counting(tt.buckets), map[string]string{"METERS": "mtr_s3cret"})
			if err != nil || len(problems) != len(tt.want) || fmt.Sprint(its.asked) != tt.asked {
				t.Fatalf("told %+v, %v, want %q; asked for %v, want %s", problems, err, tt.want, its.asked, tt.asked)
			}
			for i, p := range problems {
				if got := p.Path + ": " + p.Message; p.File != "config/policies.json" || !strings.Contains(got, tt.want[i]) {
					t.Errorf("told %s of %s, want %s", got, p.File, tt.want[i])
				}
			}
		})
	}
	down := errors.New("the table is down")
	if _, err := New(Options{Metering: &meters{err: down}}).findMeteringBuckets(t.Context(), deployments.BuildInput{AccountID: "a-1"}, counting(map[string]string{"a": "mtr_1"}), nil); !errors.Is(err, down) {
		t.Errorf("while nobody knows it is told %v", err)
	}
}
