package counts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// TestReportsMatchCalls counts with several gateways, with writes and rollups between the calls. It checks that the
// report of each window contains exactly the window's calls, and that Recent returns the newest calls.
func TestReportsMatchCalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		fx := newFixture(t)
		instances := []*Collector{fx.collector(), fx.collector(), fx.collector()}
		var all []analytics.Call
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			step := rapid.SampledFrom([]time.Duration{
				0, time.Second, 4 * time.Minute, 50 * time.Minute, 20 * time.Hour,
				9 * day,
			}).Draw(rt, "time step")
			if step > time.Second { // no instance waits longer than writeInterval for its next write
				for _, c := range instances {
					fx.drain(c)
				}
			}
			fx.time = fx.time.Add(step)
			for range rapid.IntRange(0, 5).Draw(rt, "calls") {
				fx.time = fx.time.Add(time.Millisecond)
				c := newCall(rapid.SampledFrom([]string{"", "acme", "globex"}).Draw(rt, "consumer"),
					rapid.SampledFrom([]int{200, 404, 500}).Draw(rt, "status"), fx.time)
				instances[rapid.IntRange(0, 2).Draw(rt, "instance")].Call(c)
				all = append(all, c)
			}
			switch rapid.IntRange(0, 5).Draw(rt, "action") {
			case 0:
				fx.rollup()
			case 1, 2:
				fx.drain(instances[rapid.IntRange(0, 2).Draw(rt, "instance that writes")])
			}
		}
		for _, c := range instances {
			fx.drain(c)
		}
		for _, rolledUp := range []bool{false, true} {
			if rolledUp {
				fx.rollup()
			}
			for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
				total, details := expectedReport(window, fx.time, all)
				got := fx.statuses(window, allCallers)
				if formatCounts(got.Totals) != total || formatCounts(got.Details) != details {
					rt.Fatalf("Statuses(%s) with rollup %v: got\n%s\n%s\nwant\n%s\n%s", window, rolledUp, formatCounts(got.Totals),
						formatCounts(got.Details), total, details)
				}
			}
			if got, want := fx.recent(allCallers, 7), newestCalls(fx.time, all, 7); !slices.Equal(got, want) {
				rt.Fatalf("Recent() with rollup %v =\n%v\nwant\n%v", rolledUp, got, want)
			}
		}
	})
}

// TestWindowsHaveNoGaps reads each window at many times. It checks that no call is missing where the rows of two
// resolutions meet, or at the ends of a window.
func TestWindowsHaveNoGaps(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	start, c := fx.time.Truncate(day), fx.collector()
	var all []analytics.Call
	call := func(at time.Time) {
		fx.time = at
		all = append(all, newCall("acme", 200, at))
		c.Call(all[len(all)-1])
		fx.drain(c)
		if len(all)%7 == 0 {
			fx.rollup()
		}
	}
	// Call once a day, then once an hour, then once in five minutes. These are the precisions of the windows' beginnings.
	for n := range 65 {
		call(start.Add(time.Duration(n) * day))
	}
	for n := range 31 * 24 {
		call(start.Add(65*day + time.Duration(n)*time.Hour))
	}
	for n := range 36 * 12 {
		call(start.Add(96*day + time.Duration(n)*5*time.Minute))
		if n%61 != 60 {
			continue
		}
		fx.time = fx.time.Add(200 * time.Second)
		for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			total, details := expectedReport(window, fx.time, all)
			if got := fx.statuses(window, allCallers); formatCounts(got.Totals) != total ||
				formatCounts(got.Details) != details {
				t.Errorf("Statuses(%s) at %s: got\n%s\n%s\nwant\n%s\n%s", window, fx.time, formatCounts(got.Totals),
					formatCounts(got.Details),
					total, details)
			}
		}
	}
}

// windowSpec returns the duration of a window, the precision of its beginning, and the interval of its points.
func windowSpec(w Window) (duration, precision time.Duration, point func(time.Time) time.Time) {
	truncateTo := func(d time.Duration) func(time.Time) time.Time {
		return func(t time.Time) time.Time { return t.Truncate(d) }
	}
	monday := func(t time.Time) time.Time {
		t = t.Truncate(day)
		return t.AddDate(0, 0, -(int(t.Weekday())+6)%7)
	}
	switch w {
	case LastHour:
		return time.Hour, 5 * time.Minute, truncateTo(5 * time.Minute)
	case Last24Hours:
		return day, 5 * time.Minute, truncateTo(time.Hour)
	case Last7Days:
		return 7 * day, time.Hour, truncateTo(day)
	case Last30Days:
		return 30 * day, time.Hour, truncateTo(day)
	case LastThreeMonths:
		return 92 * day, day, monday
	}
	panic(w)
}

// expectedReport computes a report from all calls.
func expectedReport(w Window, now time.Time, all []analytics.Call) (totals, details string) {
	duration, precision, truncate := windowSpec(w)
	from := now.Add(-duration).Truncate(precision)
	type point struct {
		at       time.Time
		consumer string
	}
	counts := map[point]map[int]int64{}
	count := func(p point, status int) {
		if counts[p] == nil {
			counts[p] = map[int]int64{}
		}
		counts[p][status]++
	}
	for _, c := range all {
		if c.At.Before(from) {
			continue
		}
		at := truncate(c.At)
		if at.Before(from) {
			at = from
		}
		count(point{at, c.Consumer}, c.Status)
		count(point{time.Time{}, c.Consumer}, c.Status)
	}
	var total, detail []CallerCount
	for p, statuses := range counts {
		c := CallerCount{Consumer: p.consumer, At: p.at}
		for _, status := range slices.Sorted(maps.Keys(statuses)) {
			c.Calls += statuses[status]
			c.ByStatus = append(c.ByStatus, StatusCount{fmt.Sprint(status), statuses[status]})
		}
		if p.at.IsZero() {
			total = append(total, c)
		} else {
			detail = append(detail, c)
		}
	}
	slices.SortFunc(total, func(a, b CallerCount) int {
		if a.Calls != b.Calls {
			return int(b.Calls - a.Calls)
		}
		return compare(a.Consumer, b.Consumer)
	})
	slices.SortFunc(detail, func(a, b CallerCount) int {
		if !a.At.Equal(b.At) {
			return a.At.Compare(b.At)
		}
		return compare(a.Consumer, b.Consumer)
	})
	return formatCounts(total), formatCounts(detail)
}

// compare compares texts like strings.Compare.
func compare(a, b string) int {
	if a < b {
		return -1
	}
	return map[bool]int{true: 0, false: 1}[a == b]
}

// newestCalls returns the n newest calls of the last 24 hours.
func newestCalls(now time.Time, all []analytics.Call, n int) []RecentCall {
	var out []RecentCall
	for _, c := range slices.Backward(all) {
		if !c.At.Before(now.Add(-day)) {
			out = append(out, RecentCall{c.Consumer, c.Method, c.Route, c.Status, c.Policy, c.At})
		}
	}
	return out[:min(len(out), n)]
}

// TestReportOfOneConsumer checks that a report of some callers contains exactly their calls.
func TestReportOfOneConsumer(t *testing.T) {
	fx := newFixture(t)
	c := fx.collector()
	for i := range 6 {
		c.Call(newCall([]string{"", "acme", "globex"}[i%3], 200+i, fx.time))
	}
	fx.drain(c)
	for _, rolledUp := range []bool{false, true} {
		if rolledUp {
			fx.rollup()
		}
		acme := Callers{Names: []string{"acme", "nobody"}}
		if got := formatCounts(fx.statuses(LastHour, acme).Totals); got != "acme 2 [{201 1} {204 1}]\n" {
			t.Errorf("statuses of acme with rollup %t = %q, want acme with 2 calls: 201 and 204", rolledUp, got)
		}
		if got := fx.recent(acme, 20); len(got) != 2 || got[0].Consumer != "acme" || got[1].Consumer != "acme" {
			t.Errorf("Recent(acme) with rollup %t = %v, want 2 calls of acme", rolledUp, got)
		}
	}
}

// TestNewestCallsAreRetained checks that the calls that began last are kept, in whichever order they are reported: a
// long call is reported late.
func TestNewestCallsAreRetained(t *testing.T) {
	fx := newFixture(t)
	for _, rolledUp := range []bool{false, true} {
		c := fx.collector()
		var all []analytics.Call
		for i := range 3 * maxRecent {
			startedAt := fx.time.Add(time.Duration(2*i) * time.Millisecond)
			if i%7 == 0 {
				startedAt = startedAt.Add(-1_001 * time.Millisecond) // a call of one second; no two calls begin together
			}
			call := newCall("acme", 200+i%300, startedAt)
			all = append(all, call)
			c.Call(call)
			if i%1_300 == 0 {
				fx.drain(c)
			}
		}
		fx.time = fx.time.Add(time.Minute)
		fx.drain(c)
		if rolledUp {
			fx.rollup()
		}
		slices.SortFunc(all, func(a, b analytics.Call) int { return a.At.Compare(b.At) })
		if got, want := fx.recent(allCallers, maxRecent), newestCalls(fx.time, all, maxRecent); !slices.Equal(got, want) {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Errorf("Recent() with rollup %v: %d calls, want the newest %d; from call %d on they are %v, want %v",
				rolledUp, len(got), len(want), i, got[i:min(i+2, len(got))], want[i:min(i+2, len(want))])
		}
	}
}

// TestRecentCallsCoverOneDay checks that calls are listed for a day, the newest first, with all fields.
func TestRecentCallsCoverOneDay(t *testing.T) {
	fx := newFixture(t)
	c := fx.collector()
	c.Call(analytics.Call{
		Deployment: shop, Consumer: "acme", Method: "BREW-A-POT-OF-STRONG-COFFEE", Route: "/a",
		Status: 405, Policy: "key", At: fx.time,
	})
	c.Call(analytics.Call{Deployment: shop, Method: "PROPFIND", Status: 404, At: fx.time.Add(time.Second)})
	fx.drain(c)
	fx.rollup()
	want := []RecentCall{
		{"", "PROPFIND", "", 404, "", fx.time.Add(time.Second)},
		{"acme", Other, "/a", 405, "key", fx.time},
	}
	fx.time = fx.time.Add(day)
	if got := fx.recent(allCallers, 20); !slices.Equal(got, want) {
		t.Errorf("Recent() a day after the first call = %v, want %v", got, want)
	}
	fx.time = fx.time.Add(time.Millisecond)
	if got := fx.recent(allCallers, 20); !slices.Equal(got, want[:1]) {
		t.Errorf("Recent() more than a day after the first call = %v, want %v", got, want[:1])
	}
}

// TestRowsWithoutPolicyAreRead reads a row from before calls had a policy, and checks that its calls have none. A row
// with positions of missing names must be an error.
func TestRowsWithoutPolicyAreRead(t *testing.T) {
	for text, want := range map[string]string{
		`{"n":["acme","GET","/a"],"c":[[0,1,2,200,1000]]}`:         "",
		`{"n":["acme","GET","/a","key"],"c":[[0,1,2,401,1000,4]]}`: "key",
	} {
		var p packedCalls
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		got, err := p.unpack()
		if err != nil || len(got) != 1 || got[0].Policy != want || got[0].Route != "/a" {
			t.Errorf("unpack(%s) = %v, %v, want one call of /a with policy %q", text, got, err, want)
		}
	}
	if got, err := (packedCalls{Names: []string{"a"}, Calls: [][6]int64{{0, 0, 0, 200, 1000, 3}}}).unpack(); err == nil {
		t.Errorf("unpack(call with an unknown policy) = %v, want an error", got)
	}
}
