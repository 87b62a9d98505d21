package keys

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// TestANameOfAProjectsIsForItsOwnBucketAlone, whether or not there is the project.
func TestANameOfAProjectsIsForItsOwnBucketAlone(t *testing.T) {
	place := func(project, kind string) map[string]string {
		return map[string]string{projectTag: project, environmentTag: kind}
	}
	for _, test := range []struct {
		name string
		tags map[string]string
		ok   bool
	}{
		{"orders", nil, true},
		{"production", nil, true},
		{"-production", nil, true},
		{"shop-production-2", nil, true},
		{"shop-production", place("shop", "PRODUCTION"), true},
		{"shop-working-copy", place("shop", "WORKING_COPY"), true},
		{"a-preview-production", place("a-preview", "PRODUCTION"), true},
		{"shop-production", nil, false},
		{"shop-production", place("shop", ""), false},
		{"shop-production", place("", "PRODUCTION"), false},
		{"shop-production", place("shop", "PREVIEW"), false},
		{"shop-production", place("blog", "PRODUCTION"), false},
		{"shop-working-copy", place("shop-working", "PRODUCTION"), false},
	} {
		var wrong problems
		wrong.placedName(test.name, test.tags)
		if (wrong.Err() == nil) != test.ok {
			t.Errorf("%s with %v: %v", test.name, test.tags, wrong.Err())
		}
	}
}

// TestABucketThatServesAnotherKeepsAProjectFromBeingMade: one of an earlier
// release, when names belonged to nobody.
func TestABucketThatServesAnotherKeepsAProjectFromBeingMade(t *testing.T) {
	d := (&Service{counts: counts.Open(installation.Parts{Now: time.Now})}).DefaultBuckets(auth.Owner{}, "shop")
	for i, kind := range environment.Kinds() {
		d.old[i] = bucketRecord{ID: "b", Name: DefaultBucket("shop", kind), Project: "shop", Environment: kind}
	}
	writes, err := d.Writes(t.Context())
	if err != nil || slices.ContainsFunc(writes, func(w store.Write) bool { return w.Kind != store.CheckKind }) {
		t.Fatalf("its own: %v, %v", writes, err)
	}
	d.old[1].Project = "blog"
	_, err = d.Writes(t.Context())
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Conflict || !strings.Contains(err.Error(), d.old[1].Name) {
		t.Errorf("another's: %v", err)
	}
}
