package keys

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// TestProjectBucketNamesAreReserved checks that the names of a project's default buckets are refused without the
// project's tags, even if the project does not exist.
func TestProjectBucketNamesAreReserved(t *testing.T) {
	placementTags := func(project, kind string) map[string]string {
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
		{"shop-production", placementTags("shop", "PRODUCTION"), true},
		{"shop-working-copy", placementTags("shop", "WORKING_COPY"), true},
		{"a-preview-production", placementTags("a-preview", "PRODUCTION"), true},
		{"shop-production", nil, false},
		{"shop-production", placementTags("shop", ""), false},
		{"shop-production", placementTags("", "PRODUCTION"), false},
		{"shop-production", placementTags("shop", "PREVIEW"), false},
		{"shop-production", placementTags("blog", "PRODUCTION"), false},
		{"shop-working-copy", placementTags("shop-working", "PRODUCTION"), false},
	} {
		var invalid problems
		invalid.reservedName(test.name, test.tags)
		if (invalid.Err() == nil) != test.ok {
			t.Errorf("reservedName(%s, %v) = %v, want valid %t", test.name, test.tags, invalid.Err(), test.ok)
		}
	}
}

// TestForeignBucketBlocksProjectCreation checks that DefaultBuckets refuses to create the buckets of a project if one
// of their names belongs to another project's bucket. Earlier releases did not reserve these names.
func TestForeignBucketBlocksProjectCreation(t *testing.T) {
	d := (&Service{counts: counts.Open(installation.Parts{Now: time.Now})}).DefaultBuckets(auth.Owner{}, "shop")
	for i, kind := range environment.Kinds() {
		d.old[i] = bucketRecord{ID: "b", Name: DefaultBucket("shop", kind), Project: "shop", Environment: kind}
	}
	writes, err := d.Writes(t.Context())
	if err != nil || slices.ContainsFunc(writes, func(w store.Write) bool { return w.Kind != store.CheckKind }) {
		t.Fatalf("Writes() with own buckets = %v, %v, want checks only", writes, err)
	}
	d.old[1].Project = "blog"
	_, err = d.Writes(t.Context())
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Conflict ||
		!strings.Contains(err.Error(), d.old[1].Name) {
		t.Errorf("Writes() with a bucket of another project: error = %v, want %v that names %s",
			err, fault.Conflict, d.old[1].Name)
	}
}
