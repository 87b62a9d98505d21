package files_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/files"
)

// bucketYAML returns a metering bucket in YAML, with plans of these names.
func bucketYAML(name string, plans ...string) string {
	for i, plan := range plans {
		plans[i] = "{planExternalId: " + plan + ", label: L, meters: {requests: {max: 1}}}"
	}
	return "{name: " + name + ", plans: [" + strings.Join(plans, ", ") + "]}"
}

// TestMeteringBucketWithExactPlansMatches checks that an exact match has precedence over a bucket with a lower ID that
// has only some of the plans.
func TestMeteringBucketWithExactPlansMatches(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, "meteringBuckets: ["+bucketYAML("few", "pro")+"]\n")
	mustApply(t, f, "meteringBuckets: ["+bucketYAML("few", "pro")+", "+bucketYAML("many", "pro", "team")+"]\n")
	for _, desired := range []string{
		bucketYAML("few", "pro"), bucketYAML("many", "pro", "team"),
		bucketYAML("many", "pro", "team") + ", " + bucketYAML("few", "pro"),
	} {
		if p := mustCompare(t, f, "meteringBuckets: ["+desired+"]\n", files.Options{}); len(p.Changes) > 0 {
			t.Errorf("Compare(%s) = %+v, want no change", desired, p.Changes)
		}
	}
}

// TestDeletedMeteringBucketIsNotUnlisted deletes a bucket that is missing in the files during Compare. Plan.Unlisted
// must not have the bucket if it is deleted before its plans are read, and must have it otherwise.
func TestDeletedMeteringBucketIsNotUnlisted(t *testing.T) {
	t.Parallel()
	const complete = "complete: [meteringBuckets]\nmeteringBuckets: "
	f := newFakeAPI(t, "a")
	mustApply(t, f, complete+"["+bucketYAML("one", "pro")+", "+bucketYAML("two", "team")+"]\n")
	objects := slices.Clone(f.objects)
	plan := objects[slices.IndexFunc(objects, func(o *fakeObject) bool {
		return o.kind.Member == "plans" && stringOf(o.fields["planExternalId"]) == "team"
	})]
	bucket := objects[slices.IndexFunc(objects, func(o *fakeObject) bool {
		return o.kind.Member == "meteringBuckets" && strings.HasSuffix(plan.scope, "="+o.id)
	})]
	want := 0
	for request := 1; request <= 4; request++ { // the list, the plans of each bucket, and the next request
		f.objects, f.calls = slices.Clone(objects), nil
		f.onCall = func(n int, after bool) error {
			if n == request && !after {
				f.remove(bucket)
			}
			return nil
		}
		if request == 4 {
			want = 1
		}
		if p := mustCompare(t, f, complete+"["+bucketYAML("one", "pro")+"]\n", files.Options{}); len(p.Unlisted) != want ||
			len(p.Changes) > 0 {
			t.Errorf("bucket deleted before request %d: Compare() = %+v with %q unlisted, want no change and %d unlisted",
				request, p.Changes, p.Unlisted, want)
		}
	}
}
