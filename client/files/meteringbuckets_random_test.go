package files_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestMeteringBucketMatchesOneName applies files that add the plan a to one bucket. The other bucket also has this
// plan. After that, the only plan of small is in both existing buckets, but large matches only one of them. So small
// must match the other.
func TestMeteringBucketMatchesOneName(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, "meteringBuckets: ["+bucketYAML("x", "b", "f", "g", "d")+", "+bucketYAML("y", "a", "c")+"]\n")
	desired := "meteringBuckets: [" + bucketYAML("large", "a", "b", "f", "g") + ", " + bucketYAML("small", "a") + "]\n"
	mustApply(t, f, desired)
	if p := mustCompare(t, f, desired, files.Options{}); len(p.Changes) > 0 {
		t.Errorf("Compare() after Apply() = %+v, want no change", p.Changes)
	}
}

// TestAmbiguousMeteringBucketIsRefused checks that a bucket in files that matches two existing buckets equally is a
// problem.
func TestAmbiguousMeteringBucketIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, "meteringBuckets: ["+bucketYAML("x", "pro", "a")+", "+bucketYAML("y", "pro", "b")+"]\n")
	_, err := compare(t.Context(), f, writeTemp(t, "meteringBuckets: ["+bucketYAML("z", "pro")+"]\n"), files.Options{})
	if exit.CodeOf(err) != exit.Invalid || !strings.Contains(errorText(err), "name more plans of one of them") {
		t.Errorf("Compare() with an ambiguous bucket: error = %s, want code %d and how to name it",
			errorText(err), exit.Invalid)
	}
}

// randomBuckets returns one to three metering buckets in YAML, with one to four of seven plans each. names has a letter
// for each name.
func randomBuckets(d *rand.Rand, names string) (buckets []string) {
	for _, name := range names[:1+d.IntN(len(names))] {
		plans := strings.Split("abcdefg", "")
		d.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
		buckets = append(buckets, bucketYAML("bucket-"+string(name), plans[:1+d.IntN(4)]...))
	}
	return buckets
}

// TestMeteringBucketMatchIsStable compares random files with random buckets. After files were applied, Compare must
// plan no change. The order of buckets in files must not matter.
func TestMeteringBucketMatchIsStable(t *testing.T) {
	t.Parallel()
	text := func(buckets []string) string { return "meteringBuckets: [" + strings.Join(buckets, ", ") + "]\n" }
	matched := 0
	for seed := range simulations.Runs(50) {
		d := rand.New(rand.NewPCG(uint64(seed), 0))
		f := newFakeAPI(t, "a")
		current, desired := text(randomBuckets(d, "xyz")), randomBuckets(d, "uvw")
		mustApply(t, f, current)
		changedKeys := func(buckets []string) (string, error) {
			p, err := compare(t.Context(), f, writeTemp(t, text(buckets)), files.Options{})
			if err != nil {
				return "", err
			}
			var lines []string
			for _, c := range p.Changes {
				lines = append(lines, c.Key)
			}
			slices.Sort(lines)
			return strings.Join(lines, "\n"), nil
		}
		reversed := slices.Clone(desired)
		slices.Reverse(reversed)
		gotKeys, err := changedKeys(desired)
		reversedKeys, reversedErr := changedKeys(reversed)
		if gotKeys != reversedKeys || (err == nil) != (reversedErr == nil) {
			t.Errorf("seed %d: Compare() of %sfor %s =\n%s, %v\nand in reverse order\n%s, %v\nwant the same",
				seed, current, desired, gotKeys, err, reversedKeys, reversedErr)
		}
		if err != nil {
			continue
		}
		matched++
		mustApply(t, f, text(desired))
		for _, order := range [][]string{desired, reversed} {
			if remaining, err := changedKeys(order); err != nil || remaining != "" {
				t.Errorf("seed %d: Compare() after Apply() of %sfor %s =\n%s, %v\nwant no change",
					seed, current, order, remaining, err)
			}
		}
	}
	if matched < 10 {
		t.Errorf("%d seeds have files that match, want at least 10", matched)
	}
}
