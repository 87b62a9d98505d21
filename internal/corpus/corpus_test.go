package corpus_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/gatewright/gatewright/internal/corpus"
)

var (
	whole  = flag.Bool("corpus", false, "check the descriptions of all packages, which make corpus installs")
	update = flag.Bool("update", false, "write the sample, and remove from the list what is no longer refused")
	accept = flag.Bool("accept", false, "with -update, add new refusals to the list, after an update of the packages")
	only   = flag.String("only", "", "check only the descriptions whose names match this `regexp`")
	report = flag.String("report", "", "append each refusal with an example to this `FILE`")
)

const refusedFile = "testdata/refused.txt"

// largeBytes is the minimum size of a description that is checked alone, because its build takes some 500 MB.
const largeBytes = 4 << 20

// TestWholeCorpus checks the descriptions of all packages.
func TestWholeCorpus(t *testing.T) {
	if !*whole {
		t.Skip("make corpus runs it")
	}
	all := sources(t)
	if pattern := regexp.MustCompile(*only); *only != "" {
		all = slices.DeleteFunc(all, func(s source) bool { return !pattern.MatchString(s.name) })
	}
	start := time.Now()
	results := checkAll(t, len(all), func(i int) (string, int64, func() ([]byte, error)) {
		return all[i].name, all[i].size, func() ([]byte, error) { return os.ReadFile(all[i].path) }
	})
	summarize(t, results, time.Since(start))
	compareWithList(t, results)
}

// checked is the result of one description.
type checked struct {
	corpus.Result

	name    string
	elapsed time.Duration
}

// checkAll checks descriptions on all cores. It checks large ones alone.
func checkAll(
	t *testing.T, count int, open func(i int) (name string, size int64, read func() ([]byte, error)),
) []checked {
	t.Helper()
	checker, err := corpus.NewChecker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	cores := int64(runtime.GOMAXPROCS(0))
	slots := semaphore.NewWeighted(cores)
	group, ctx := errgroup.WithContext(t.Context())
	var mu sync.Mutex
	var results []checked
	for i := range count {
		name, size, read := open(i)
		weight := int64(1)
		if size > largeBytes {
			weight = cores
		}
		if slots.Acquire(ctx, weight) != nil {
			break
		}
		group.Go(func() error {
			defer slots.Release(weight)
			result, err := checkOne(ctx, checker, name, read)
			mu.Lock()
			defer mu.Unlock()
			results = append(results, result)
			return errors.Join(err, writeReport(result))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("Check() error = %v, want a result", err)
	}
	slices.SortFunc(results, func(a, b checked) int { return strings.Compare(a.name, b.name) })
	return results
}

func checkOne(
	ctx context.Context, checker *corpus.Checker, name string, read func() ([]byte, error),
) (out checked, err error) {
	text, err := read()
	if err != nil {
		return checked{}, err
	}
	start := time.Now()
	result, err := checker.Check(ctx, corpus.Description{Name: name, Text: text})
	return checked{result, name, time.Since(start)}, err
}

// summarize logs the numbers of the run.
func summarize(t *testing.T, results []checked, elapsed time.Duration) {
	t.Helper()
	routes, tools, refused := 0, 0, 0
	type key struct {
		stage  corpus.Stage
		reason string
	}
	counts, files := map[key]int{}, map[key]int{}
	for _, r := range results {
		routes, tools = routes+r.Routes, tools+r.Tools
		if len(r.Refusals) > 0 {
			refused++
		}
		for _, refusal := range r.Refusals {
			k := key{refusal.Stage, refusal.Reason}
			counts[k] += refusal.Count
			files[k]++
		}
	}
	slowest := slices.SortedFunc(slices.Values(results), func(a, b checked) int {
		return cmp.Compare(b.elapsed, a.elapsed)
	})
	t.Logf("%d descriptions with %d routes and %d tools in %v; %d descriptions have refusals; %s",
		len(results), routes, tools, elapsed.Round(time.Second), refused, peakMemory())
	for _, r := range slowest[:min(len(slowest), 5)] {
		t.Logf("slow: %v %s", r.elapsed.Round(time.Millisecond), r.name)
	}
	var lines []string
	for k, n := range counts {
		lines = append(lines, fmt.Sprintf("%-8s %6d in %4d files: %s", k.stage, n, files[k], k.reason))
	}
	slices.Sort(lines)
	t.Logf("refusals:\n%s", strings.Join(lines, "\n"))
}

// writeReport appends the refusals of a description to the file of -report.
func writeReport(r checked) error {
	if *report == "" {
		return nil
	}
	f, err := os.OpenFile(*report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, refusal := range r.Refusals {
		message := strings.ReplaceAll(refusal.Message, "\n", " ")
		_, writeErr := fmt.Fprintf(f, "%s\t%s\t%s\n", refusal, refusal.Example, message)
		err = errors.Join(err, writeErr)
	}
	_, writeErr := fmt.Fprintf(f, "%s\tdone\t%d\t%s\n", r.name, r.Routes, r.elapsed.Round(time.Millisecond))
	return errors.Join(err, writeErr, f.Close())
}

// peakMemory returns the greatest memory of the process as a text, "" where it is unknown.
func peakMemory() string {
	text, _ := os.ReadFile("/proc/self/status") // only Linux has it
	for line := range strings.Lines(string(text)) {
		if size, found := strings.CutPrefix(line, "VmHWM:"); found {
			return "peak memory " + strings.TrimSpace(size)
		}
	}
	return ""
}

// compareWithList compares the refusals with the list. With -update it removes from the list what is no longer refused.
func compareWithList(t *testing.T, results []checked) {
	t.Helper()
	text, err := os.ReadFile(refusedFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	listed, err := corpus.ParseRefusals(text)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	var now []corpus.Refusal
	for _, r := range results {
		names[r.name] = true
		now = append(now, r.Refusals...)
	}
	more, fewer := corpus.Compare(listed, now, names)
	for _, d := range more {
		if *update && *accept {
			break
		}
		t.Errorf("Check(%s): %d at the stage %s with the reason %q, such as %s (%s), want at most %d", d.File, d.Count,
			d.Stage, d.Reason, d.Example, d.Message, d.Listed)
	}
	if *update && !t.Failed() {
		kept := slices.DeleteFunc(listed, func(r corpus.Refusal) bool { return names[r.File] || *only == "" })
		all := append(kept, now...)
		slices.SortStableFunc(all, func(a, b corpus.Refusal) int { return strings.Compare(a.File, b.File) })
		if err := os.WriteFile(refusedFile, corpus.FormatRefusals(all), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, d := range fewer {
		t.Errorf("Check(%s): %d at the stage %s with the reason %q, want %d: make corpus UPDATE=1 shortens the list",
			d.File, d.Count, d.Stage, d.Reason, d.Listed)
	}
}
