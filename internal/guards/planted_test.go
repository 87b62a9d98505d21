package guards

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
	guards := map[string][]Guard{}
	for _, d := range all {
		guards[d.Guard.Package] = append(guards[d.Guard.Package], d.Guard)
	}
	s := &selected{tree: Tree{Root: root, Timeout: 20 * time.Minute}, dir: t.TempDir(), jobs: map[string][]job{}}
	begin := sync.OnceFunc(func() { go s.run(t.Context()) })
	add := func(name, pkg string, run func(context.Context, *Binary) (time.Duration, error), planted ...Defect) {
		t.Run(name, func(t *testing.T) {
			j := job{run, make(chan verdict, 1)}
			s.jobs[pkg] = append(s.jobs[pkg], j)
			s.defects = append(s.defects, planted...)
			t.Parallel() // goes on when all tests that -run names are here
			begin()
			v := <-j.result
			t.Logf("%.1f CPU seconds", v.took.Seconds()) // go test -v shows which guards cost most
			if v.err != nil {
				t.Error(v.err)
			}
		})
	}
	for i, d := range all {
		pkg := d.Guard.Package
		if i == 0 || all[i-1].Guard.Package != pkg {
			add("none in "+pkg, pkg, func(ctx context.Context, b *Binary) (time.Duration, error) { return b.CheckUnplanted(ctx, guards[pkg]) })
		}
		add(d.Name, pkg, func(ctx context.Context, b *Binary) (time.Duration, error) { return b.Check(ctx, d) }, d)
	}
}

// selected is what the tests that -run names are for.
type selected struct {
	tree    Tree
	dir     string
	defects []Defect
	jobs    map[string][]job // of each package
}

// job is one run of a test binary.
type job struct {
	run    func(context.Context, *Binary) (time.Duration, error)
	result chan verdict
}

// verdict is how a job ended, and the processor time that it took.
type verdict struct {
	took time.Duration
	err  error
}

// batch is some packages whose test binaries are built together.
type batch struct {
	dir      string
	packages []string
	binaries map[string]*Binary
	err      error
}

// run runs all jobs, batch by batch. While the guards of one batch run, the next batch is built.
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
	// Some guards wait most of their time. While the last ones of a batch wait, those of the next batch run.
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
						v.took, v.err = j.run(ctx, b.binaries[pkg])
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

// batches returns the packages in batches in which no two packages have the same last element.
func (s *selected) batches() (out []batch) {
	for packages := slices.Sorted(maps.Keys(s.jobs)); len(packages) > 0; {
		b := batch{dir: filepath.Join(s.dir, fmt.Sprint("binaries", len(out)))}
		var names, others []string
		for _, pkg := range packages {
			if name := path.Base(pkg); len(b.packages) < perBuild && !slices.Contains(names, name) {
				b.packages, names = append(b.packages, pkg), append(names, name)
			} else {
				others = append(others, pkg)
			}
		}
		out, packages = append(out, b), others
	}
	return out
}
