package guards

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var planted = flag.Bool("planted", false, "plant every defect and run its guard, which takes some minutes: make test-guards")

// perBuild is the number of packages whose tests one run of the go command builds: starting it takes seconds, and the binaries of all
// packages would fill gigabytes.
const perBuild = 12

// TestPlantedDefectsAreCaught runs the guard of each defect with the defect, and the guards of each package without any.
func TestPlantedDefectsAreCaught(t *testing.T) {
	if !*planted {
		t.Skip("make test-guards plants them")
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	all := defects(t)
	slices.SortStableFunc(all, func(a, b Defect) int { return strings.Compare(a.Guard.Package, b.Guard.Package) })
	s := &selected{
		tree:   Tree{Root: root, Timeout: 20 * time.Minute},
		dir:    t.TempDir(),
		guards: map[string][]Guard{},
	}
	for _, d := range all {
		s.guards[d.Guard.Package] = append(s.guards[d.Guard.Package], d.Guard)
	}
	s.plan = sync.OnceValues(func() (map[string]*batch, error) { return s.batches(t.Context()) })
	last := ""
	for _, d := range all {
		pkg := d.Guard.Package
		if pkg != last {
			last = pkg
			t.Run("none in "+pkg, func(t *testing.T) {
				s.run(t, pkg, func(b *Binary) error { return b.CheckUnplanted(t.Context(), s.guards[pkg]) })
			})
		}
		t.Run(d.Name, func(t *testing.T) {
			s.defects = append(s.defects, d)
			s.run(t, pkg, func(b *Binary) error { return b.Check(t.Context(), d) })
		})
	}
}

// selected is what a run of the test is for.
type selected struct {
	tree   Tree
	dir    string
	guards map[string][]Guard // of each package
	// defects and packages are those that -run names.
	defects  []Defect
	packages []string
	runs     map[string]int
	plan     func() (map[string]*batch, error)
}

// batch is some packages whose test binaries are built at once, when the first of them is needed.
type batch struct {
	dir   string
	left  atomic.Int64
	build func() (map[string]*Binary, error)
}

// run waits until all tests that -run names have been selected, and runs a test with the binary of a package.
func (s *selected) run(t *testing.T, pkg string, test func(*Binary) error) {
	t.Helper()
	if !slices.Contains(s.packages, pkg) {
		s.packages = append(s.packages, pkg)
	}
	if s.runs == nil {
		s.runs = map[string]int{}
	}
	s.runs[pkg]++
	t.Parallel()
	batches, err := s.plan()
	if err != nil {
		t.Fatal(err)
	}
	b := batches[pkg]
	defer func() {
		if b.left.Add(-1) == 0 {
			_ = os.RemoveAll(b.dir)
		}
	}()
	binaries, err := b.build()
	if err != nil {
		t.Fatal(err)
	}
	if err := test(binaries[pkg]); err != nil {
		t.Error(err)
	}
}

// batches plants the selected defects and decides which packages are built together.
func (s *selected) batches(ctx context.Context) (map[string]*batch, error) {
	p, err := s.tree.Plant(ctx, s.dir, s.defects)
	if err != nil {
		return nil, err
	}
	out := map[string]*batch{}
	for packages := s.packages; len(packages) > 0; {
		var some, others, names []string
		for _, pkg := range packages {
			if name := path.Base(pkg); len(some) < perBuild && !slices.Contains(names, name) {
				some, names = append(some, pkg), append(names, name)
			} else {
				others = append(others, pkg)
			}
		}
		b := &batch{dir: filepath.Join(s.dir, fmt.Sprintf("binaries%d", len(out)))}
		b.build = sync.OnceValues(func() (map[string]*Binary, error) { return p.Build(ctx, b.dir, some...) })
		for _, pkg := range some {
			out[pkg] = b
			b.left.Add(int64(s.runs[pkg]))
		}
		packages = others
	}
	return out, nil
}
