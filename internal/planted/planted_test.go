package planted

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var planted = flag.Bool("planted", false,
	"plant every defect and run its guard, which takes some minutes: make test-guards")

// packagesPerBuild is the number of packages whose tests one run of the go command builds: each run takes seconds to
// start, but the test binaries of all packages together would take gigabytes.
const packagesPerBuild = 12

// TestPlantedDefectsAreCaught runs the guard of each defect with the defect, and the guards of each package without any
// defect.
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
	guards := map[string][]Guard{}
	for _, d := range all {
		guards[d.Guard.Package] = append(guards[d.Guard.Package], d.Guard)
	}
	s := &selected{tree: Tree{Root: root, Timeout: 20 * time.Minute}, dir: t.TempDir(), jobs: map[string][]job{}}
	begin := sync.OnceFunc(func() { go s.run(t.Context()) })
	// add runs a subtest with a job for the test binary of pkg, and adds the defects to plant.
	add := func(name, pkg string, run func(context.Context, *Binary) (time.Duration, error), planted ...Defect) {
		t.Run(name, func(t *testing.T) {
			j := job{run, make(chan verdict, 1)}
			s.jobs[pkg] = append(s.jobs[pkg], j)
			s.defects = append(s.defects, planted...)
			t.Parallel() // Parallel returns only after all selected tests have been added to selected
			begin()
			v := <-j.result
			t.Logf("%.1f CPU seconds", v.cpuTime.Seconds()) // go test -v shows which guards cost most
			if v.err != nil {
				t.Error(v.err)
			}
		})
	}
	for i, d := range all {
		pkg := d.Guard.Package
		if i == 0 || all[i-1].Guard.Package != pkg {
			add("none in "+pkg, pkg, func(ctx context.Context, b *Binary) (time.Duration, error) {
				return b.CheckUnplanted(ctx, guards[pkg])
			})
		}
		add(d.Name, pkg, func(ctx context.Context, b *Binary) (time.Duration, error) { return b.Check(ctx, d) }, d)
	}
}

// selected contains the jobs of the tests that -run selects, and the defects to plant for them.
type selected struct {
	tree    Tree
	dir     string
	defects []Defect
	jobs    map[string][]job // by package
}

// job is one run of a test binary.
type job struct {
	run    func(context.Context, *Binary) (time.Duration, error)
	result chan verdict
}

// verdict is the result of a job, with the processor time that it took.
type verdict struct {
	cpuTime time.Duration
	err     error
}

// batch is a set of packages whose test binaries are built together.
type batch struct {
	dir      string
	packages []string
	binaries map[string]*Binary
	err      error
}

// run builds the batches and runs their jobs. While the guards of one batch run, the next batch is built.
func (s *selected) run(ctx context.Context) {
	batches := s.batches()
	built := make(chan batch)
	go func() {
		defer close(built)
		p, err := s.tree.Plant(ctx, s.dir, s.defects)
		for _, b := range batches {
			if b.err = err; err == nil {
				b.binaries, b.err = p.Build(ctx, b.dir, b.packages...)
			}
			built <- b
		}
	}()
	// Some guards spend most of their time waiting. While the last guards of a batch wait, the guards of the next batch
	// run.
	slots := make(chan struct{}, 3*runtime.GOMAXPROCS(0))
	for b := range built {
		var running sync.WaitGroup
		for _, pkg := range b.packages {
			for _, j := range s.jobs[pkg] {
				slots <- struct{}{}
				running.Go(func() {
					defer func() { <-slots }()
					v := verdict{err: b.err}
					if v.err == nil {
						v.cpuTime, v.err = j.run(ctx, b.binaries[pkg])
					}
					j.result <- v
				})
			}
		}
		go func() {
			running.Wait()
			_ = os.RemoveAll(b.dir)
		}()
	}
}

// batches returns the packages in batches. No two packages of a batch have the same last element.
func (s *selected) batches() (out []batch) {
	for packages := slices.Sorted(maps.Keys(s.jobs)); len(packages) > 0; {
		b := batch{dir: filepath.Join(s.dir, fmt.Sprint("binaries", len(out)))}
		var names, remaining []string
		for _, pkg := range packages {
			if name := path.Base(pkg); len(b.packages) < packagesPerBuild && !slices.Contains(names, name) {
				b.packages, names = append(b.packages, pkg), append(names, name)
			} else {
				remaining = append(remaining, pkg)
			}
		}
		out, packages = append(out, b), remaining
	}
	return out
}
