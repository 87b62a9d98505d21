package files_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// TestMeteringBucketIsNoneThatStandsForAnotherName: what is applied for one gives its bucket a plan of the other one's, in which both have as much then.
func TestMeteringBucketIsNoneThatStandsForAnotherName(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, "meteringBuckets: ["+planned("x", "b", "f", "g", "d")+", "+planned("y", "a", "c")+"]\n")
	wanted := "meteringBuckets: [" + planned("large", "a", "b", "f", "g") + ", " + planned("small", "a") + "]\n"
	applied(t, f, wanted)
	if p := compared(t, f, wanted, files.Options{}); len(p.Changes) > 0 {
		t.Errorf("it is applied, and is planned as %+v", p.Changes)
	}
}

// TestMeteringBucketThatMayBeTwoIsAsked: neither is changed by guess.
func TestMeteringBucketThatMayBeTwoIsAsked(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, "meteringBuckets: ["+planned("x", "pro", "a")+", "+planned("y", "pro", "b")+"]\n")
	_, err := compare(t.Context(), f, written(t, "meteringBuckets: ["+planned("z", "pro")+"]\n"), files.Options{})
	if exit.Of(err) != exit.Invalid || !strings.Contains(told(err), "name more plans of one of them") {
		t.Errorf("it ends with %s", told(err))
	}
}

// sold are up to three metering buckets, each of one to four of seven plans, under these names.
func sold(d *rand.Rand, names string) (buckets []string) {
	for _, name := range names[:1+d.IntN(len(names))] {
		plans := strings.Split("abcdefg", "")
		d.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
		buckets = append(buckets, planned("bucket-"+string(name), plans[:1+d.IntN(4)]...))
	}
	return buckets
}

// TestMeteringBucketsStayThoseOfTheirNames has random files meet random buckets: what is applied is there the next time, in whatever order the
// files have the names, and no order has another bucket be meant.
func TestMeteringBucketsStayThoseOfTheirNames(t *testing.T) {
	t.Parallel()
	text := func(buckets []string) string { return "meteringBuckets: [" + strings.Join(buckets, ", ") + "]\n" }
	matched := 0
	for seed := range simulations.Runs(50) {
		d := rand.New(rand.NewPCG(uint64(seed), 0))
		f := newFake(t, "a")
		there, wanted := text(sold(d, "xyz")), sold(d, "uvw")
		applied(t, f, there)
		tells := func(buckets []string) (string, error) {
			p, err := compare(t.Context(), f, written(t, text(buckets)), files.Options{})
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
		turned := slices.Clone(wanted)
		slices.Reverse(turned)
		one, err := tells(wanted)
		other, failed := tells(turned)
		if one != other || (err == nil) != (failed == nil) {
			t.Errorf("seed %d: of %sthere is planned for %s\n%s, %v\nand in another order\n%s, %v", seed, there, wanted, one, err, other, failed)
		}
		if err != nil {
			continue
		}
		matched++
		applied(t, f, text(wanted))
		for _, again := range [][]string{wanted, turned} {
			if left, err := tells(again); err != nil || left != "" {
				t.Errorf("seed %d: of %sis left to do, once it is done, for %s\n%s, %v", seed, there, again, left, err)
			}
		}
	}
	if matched < 10 {
		t.Errorf("%d worlds alone have files that fit", matched)
	}
}
