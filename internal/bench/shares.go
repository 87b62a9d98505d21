package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/gatewright/gatewright/internal/bench/load"
)

// profilePart is a part of a request's processor time: the time of all stacks that contain one of its functions. If a
// stack has functions of several parts, its time belongs to the first inclusive part in the list. If none of these
// parts is inclusive, the time belongs to the part of the innermost function.
type profilePart struct {
	name string
	// inclusive reports whether everything that the functions call also belongs to this part.
	inclusive bool
	// functions has prefixes of function names, as in runtime.Frame.Function.
	functions []string
}

const module = "github.com/gatewright/gatewright/"

// parts returns the parts of a request's time.
func parts() []profilePart {
	return []profilePart{
		{"system calls: writes", true, []string{"internal/poll.(*FD).Write"}},
		{"system calls: reads", true, []string{"internal/poll.(*FD).Read", "internal/poll.(*FD).RawRead"}},
		{"system calls: waiting", true, []string{"runtime.netpoll"}},
		{"memory: allocation and garbage", true, []string{
			"runtime.mallocgc", "runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge",
			"runtime.gcStart",
			"runtime.gcMarkDone", "runtime.gcWriteBarrier", "runtime.wbBufFlush",
		}},
		{"scheduler, clocks and deadlines", true, []string{
			"runtime.mcall", "runtime.mstart", "runtime.schedule", "runtime.goready", "runtime.ready", "runtime.newproc",
			"runtime.morestack", "runtime.asyncPreempt",
			"runtime.futex", "runtime.sysmon", "time.Now", "time.runtimeNow", "internal/poll.setDeadlineImpl",
		}},
		{"net/http: heads of requests read", false, []string{
			"net/http.(*conn).readRequest", "net/http.(*conn).serve",
			"net/http.(*connReader)",
		}},
		{"net/http: heads of responses read", false, []string{"net/http.ReadResponse"}},
		{"net/http: responses written", false, []string{
			"net/http.(*response)", "net/http.(*chunkWriter)",
			"net/http.checkConnErrorWriter",
		}},
		{"the listener", false, []string{module + "shared/dataplane/listen."}},
		{"the gateway: host, route, fields", false, []string{
			module + "shared/dataplane/gateway.",
			module + "shared/dataplane/gateway/router.", module + "shared/dataplane/gateway/pipeline.",
		}},
		{"the key", false, []string{module + "shared/dataplane/gateway/policy.(*apiKey)"}},
		{"the limit", false, []string{module + "shared/dataplane/gateway/policy.(*rateLimit)"}},
		{"the line", false, []string{
			module + "shared/dataplane/gateway.(*request).logRequest",
			module + "shared/base/asynclog.",
		}},
		{"the counts", false, []string{
			module + "shared/dataplane/gateway.(*Gateway).count",
			module + "shared/resource/analytics/counts.",
		}},
		{
			"the round trip upstream", false,
			[]string{module + "shared/dataplane/gateway/handler.", module + "shared/dataplane/gateway/upstream."},
		},
	}
}

// partOfStack returns the index of the part that a stack belongs to, or len(all) if it belongs to none. The stack begins with the innermost
// function.
func partOfStack(all []profilePart, stack []string) int {
	part, length := len(all), 0
	for i, s := range all {
		if s.inclusive && slices.ContainsFunc(stack, func(function string) bool { return s.prefixLength(function) > 0 }) {
			return i
		}
	}
	for _, function := range stack {
		for i, s := range all {
			if n := s.prefixLength(function); n > length { // the longest prefix is the most specific
				part, length = i, n
			}
		}
		if part < len(all) {
			return part
		}
	}
	return part
}

// prefixLength returns the length of the part's longest prefix of a function's name, or 0 if no prefix matches.
func (s profilePart) prefixLength(function string) int {
	longest := 0
	for _, prefix := range s.functions {
		if strings.HasPrefix(function, prefix) {
			longest = max(longest, len(prefix))
		}
	}
	return longest
}

// maxOther is the maximum share of the time that belongs to no part. A larger share means that the list in parts is out
// of date.
const maxOther = 0.15

// timeShares returns the share of each part in the time of a profile, and then the share that belongs to no part. If
// the parts do not match the profile, it returns the shares and an error. If the profile is empty, it returns only an
// error.
func timeShares(p *profile.Profile, all []profilePart) ([]float64, error) {
	spent, total := make([]float64, len(all)+1), 0.0
	for _, sample := range p.Sample {
		var stack []string
		for _, location := range sample.Location {
			for _, line := range location.Line { // inlined functions come first
				stack = append(stack, line.Function.Name)
			}
		}
		time := float64(sample.Value[len(sample.Value)-1])
		spent[partOfStack(all, stack)] += time
		total += time
	}
	if total == 0 {
		return nil, errors.New("the profile is empty")
	}
	var failed []error
	for i := range spent {
		spent[i] /= total
		if i < len(all) && spent[i] == 0 {
			failed = append(failed, fmt.Errorf("%q takes no time: its functions were renamed or are no longer called, so "+
				"change them in parts (shares.go)", all[i].name))
		}
	}
	if other := spent[len(all)]; other > maxOther {
		failed = append(failed, fmt.Errorf("%.0f %% of the time belongs to no part: add its functions to parts (shares.go)",
			100*other))
	}
	return spent, errors.Join(failed...)
}

// shares measures where a request spends its processor time in the gateway of rungMetrics, with a profile of count
// requests.
func shares(ctx context.Context, m *measurement, upstream string, count int) error {
	const connections = 16
	path := filepath.Join(m.Dir, "profile")
	gateway, err := load.StartChild(ctx, childCommand, rungMetrics, upstream, path)
	if err != nil {
		return err
	}
	before, err := gateway.CPU()
	if err == nil {
		_, err = keyedLoad(gateway.Address, connections, count).Send(ctx)
	}
	after, afterErr := gateway.CPU()
	gateway.Stop() // the process writes the profile when it ends
	if err = errors.Join(err, afterErr); err != nil {
		return fmt.Errorf("profile a gateway: %w", err)
	}
	file, err := os.Open(path) //nolint:gosec // G304: a new file
	if err != nil {
		return fmt.Errorf("read the profile: %w", err)
	}
	defer func() { _ = file.Close() }()
	p, err := profile.Parse(file)
	if err != nil {
		return fmt.Errorf("read the profile: %w", err)
	}
	all := parts()
	spent, err := timeShares(p, all)
	if spent == nil {
		return err
	}
	m.Printf("\nThe parts of the %.1f µs that a request takes with the counts of analytics, from a profile of %d "+
		"requests over %d connections:\n\n| what | share |\n|---|--:|\n",
		(after-before).Seconds()*1e6/float64(count), count, connections)
	for i, s := range append(all, profilePart{name: "everything else"}) {
		m.Printf("| %s | %.1f %% |\n", s.name, 100*spent[i])
	}
	return err
}
