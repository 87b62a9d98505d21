package builds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// fakeMeteringBuckets has one metering bucket. It belongs to account a-1 and is visible only to unrestricted keys.
type fakeMeteringBuckets struct {
	requests []string // the IDs of the requested buckets
	err      error
}

func (m *fakeMeteringBuckets) ReadBucket(_ context.Context, at metering.BucketLocator) (metering.Bucket, error) {
	m.requests = append(m.requests, at.Bucket)
	switch {
	case m.err != nil:
		return metering.Bucket{}, m.err
	case at.AccountID == "a-1" && at.Bucket == "mtr_1" && at.Viewer.CanSee("", ""):
		return metering.Bucket{ID: "mtr_1"}, nil
	}
	return metering.Bucket{}, fault.Missing("metering bucket")
}

// countingProject returns a project whose routes use a quota policy for each
// key of buckets. The policy counts in the bucket that is the key's value.
// The project also has a quota policy that no route uses.
func countingProject(buckets map[string]string) *project.Artifact {
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

// TestBuildsFindMeteringBuckets checks that builds find the account's buckets even if the deployer is not allowed
// to see them. Buckets that are missing or belong to other accounts are reported at the option that names them.
func TestBuildsFindMeteringBuckets(t *testing.T) {
	for _, tt := range []struct {
		name, account string
		buckets       map[string]string
		want          []string // one text for each problem, which the problem must contain
		wantRequests  string
	}{
		{"the account's bucket", "a-1", map[string]string{"a": "mtr_1"}, nil, "[mtr_1]"},
		{"the account's bucket in two policies", "a-1", map[string]string{"a": "mtr_1", "b": "mtr_1"}, nil, "[mtr_1]"},
		{
			"another account's bucket", "a-2",
			map[string]string{"a": "mtr_1"},
			[]string{`/policies/a/handler/options/bucketId: The account has no metering bucket "mtr_1". Make one`},
			"[mtr_1]",
		},
		{"missing buckets", "a-1", map[string]string{"a": "mtr_2", "b": "mtr_1", "c": "mtr_2"}, []string{
			`/policies/a/handler/options/bucketId: The account has no metering bucket "mtr_2".`,
			`/policies/c/handler/options/bucketId: The account has no metering bucket "mtr_2".`,
		}, "[mtr_2 mtr_1 mtr_2]"},
		{
			"a bucket in a variable", "a-1",
			map[string]string{"a": "mtr_s3cret"},
			[]string{`no metering bucket "$env(METERS)"`},
			"[mtr_s3cret]",
		},
		{"no quota policy in a route", "a-1", nil, nil, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake := &fakeMeteringBuckets{}
			// The deployer is allowed to see only this project and kind of environment.
			in := deployments.BuildInput{AccountID: tt.account, Project: "shop", Kind: environment.Preview}
			problems, err := New(Options{Metering: fake}).findMeteringBuckets(t.Context(), in, countingProject(tt.buckets),
				map[string]string{"METERS": "mtr_s3cret"})
			if err != nil || len(problems) != len(tt.want) || fmt.Sprint(fake.requests) != tt.wantRequests {
				t.Fatalf("findMeteringBuckets() = %+v, %v, want problems that contain %q; requests = %v, want %s",
					problems, err, tt.want, fake.requests, tt.wantRequests)
			}
			for i, p := range problems {
				if got := p.Path + ": " + p.Message; p.File != "config/policies.json" || !strings.Contains(got, tt.want[i]) {
					t.Errorf("findMeteringBuckets(): problem = %s of %s, want %s", got, p.File, tt.want[i])
				}
			}
		})
	}
	errUnavailable := errors.New("the table is down")
	if _, err := New(Options{Metering: &fakeMeteringBuckets{err: errUnavailable}}).findMeteringBuckets(t.Context(),
		deployments.BuildInput{AccountID: "a-1"}, countingProject(map[string]string{"a": "mtr_1"}),
		nil); !errors.Is(err, errUnavailable) {
		t.Errorf("findMeteringBuckets() while the table is down: error = %v, want %v", err, errUnavailable)
	}
}
