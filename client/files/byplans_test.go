package files_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/files"
)

// planned is a metering bucket of files, with plans of these names.
func planned(name string, plans ...string) string {
	for i, plan := range plans {
		plans[i] = "{planExternalId: " + plan + ", label: L, meters: {requests: {max: 1}}}"
	}
	return "{name: " + name + ", plans: [" + strings.Join(plans, ", ") + "]}"
}

// TestMeteringBucketIsTheOneOfExactlyItsPlans, though another one, whose id comes first, has some of them and no others.
func TestMeteringBucketIsTheOneOfExactlyItsPlans(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, "meteringBuckets: ["+planned("few", "pro")+"]\n")
	applied(t, f, "meteringBuckets: ["+planned("few", "pro")+", "+planned("many", "pro", "team")+"]\n")
	for _, wanted := range []string{planned("few", "pro"), planned("many", "pro", "team"), planned("many", "pro", "team") + ", " + planned("few", "pro")} {
		if p := compared(t, f, "meteringBuckets: ["+wanted+"]\n", files.Options{}); len(p.Changes) > 0 {
			t.Errorf("%s is there, and is planned as %+v", wanted, p.Changes)
		}
	}
}

// TestMeteringBucketThatWentIsNotExtra: one that no file names, and that somebody deletes before its plans are asked for, is not told as one that stays.
func TestMeteringBucketThatWentIsNotExtra(t *testing.T) {
	t.Parallel()
	const complete = "complete: [meteringBuckets]\nmeteringBuckets: "
	f := newFake(t, "a")
	applied(t, f, complete+"["+planned("one", "pro")+", "+planned("two", "team")+"]\n")
	objects := slices.Clone(f.objects)
	gone := objects[slices.IndexFunc(objects, func(o *thing) bool { return o.kind.Member == "plans" && text(o.fields["planExternalId"]) == "team" })]
	for _, o := range objects {
		if o.kind.Member == "meteringBuckets" && strings.HasSuffix(gone.scope, "="+o.id) {
			gone = o
		}
	}
	want := 0
	for request := 1; request <= 4; request++ { // the list, the plans of the one and of the other, and what comes then
		f.objects, f.asked = slices.Clone(objects), nil
		f.fails = func(n int, after bool) error {
			if n == request && !after {
				f.remove(gone)
			}
			return nil
		}
		if request == 4 {
			want = 1
		}
		if p := compared(t, f, complete+"["+planned("one", "pro")+"]\n", files.Options{}); len(p.Extra) != want || len(p.Changes) > 0 {
			t.Errorf("it goes before request %d: %q are told, and planned is %+v", request, p.Extra, p.Changes)
		}
	}
}
