package counts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/analytics"
)

// TestReportsAreWhatWasCalled: whoever counted, however often it was written, added up or not, each window has all of its calls and no others.
func TestReportsAreWhatWasCalled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		instances := []*Collector{w.collector(), w.collector(), w.collector()}
		var all []analytics.Call
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			later := rapid.SampledFrom([]time.Duration{0, time.Second, 4 * time.Minute, 50 * time.Minute, 20 * time.Hour, 9 * day}).Draw(rt, "later")
			if later > time.Second { // no instance waits for that long
				for _, c := range instances {
					w.drain(c)
				}
			}
			w.time = w.time.Add(later)
			for range rapid.IntRange(0, 5).Draw(rt, "calls") {
				w.time = w.time.Add(time.Millisecond)
				c := calledBy(rapid.SampledFrom([]string{"", "acme", "globex"}).Draw(rt, "by"), rapid.SampledFrom([]int{200, 404, 500}).Draw(rt, "status"), w.time)
				instances[rapid.IntRange(0, 2).Draw(rt, "at")].Call(c)
				all = append(all, c)
			}
			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0:
				w.rollup()
			case 1, 2:
				w.drain(instances[rapid.IntRange(0, 2).Draw(rt, "writes")])
			}
		}
		for _, c := range instances {
			w.drain(c)
		}
		for _, addedUp := range []bool{false, true} {
			if addedUp {
				w.rollup()
			}
			for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
				total, details := expect(window, w.time, all)
				got := w.statuses(window, everybody)
				if text(got.Totals) != total || text(got.Details) != details {
					rt.Fatalf("%s, added up: %v: got\n%s\n%s\nwant\n%s\n%s", window, addedUp, text(got.Totals), text(got.Details), total, details)
				}
			}
			if got, want := w.recent(everybody, 7), newestOf(w.time, all, 7); !slices.Equal(got, want) {
				rt.Fatalf("added up: %v: the last calls are\n%v\nwant\n%v", addedUp, got, want)
			}
		}
	})
}

// TestWindowsHaveNoGaps, whenever one is read: neither where rows of one length end and those of the next begin, nor at its own ends.
func TestWindowsHaveNoGaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start, c := w.time.Truncate(day), w.collector()
	var all []analytics.Call
	call := func(at time.Time) {
		w.time = at
		all = append(all, calledBy("acme", 200, at))
		c.Call(all[len(all)-1])
		w.drain(c)
		if len(all)%7 == 0 {
			w.rollup()
		}
	}
	// Once a day, then once an hour, then once in five minutes: as exactly as windows begin.
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
		w.time = w.time.Add(200 * time.Second)
		for _, window := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			total, details := expect(window, w.time, all)
			if got := w.statuses(window, everybody); text(got.Totals) != total || text(got.Details) != details {
				t.Errorf("%s at %s: got\n%s\n%s\nwant\n%s\n%s", window, w.time, text(got.Totals), text(got.Details), total, details)
			}
		}
	}
}

// grain is where a window of a length begins, and how far its points are apart.
func grain(w Window) (back, begins time.Duration, point func(time.Time) time.Time) {
	to := func(d time.Duration) func(time.Time) time.Time {
		return func(t time.Time) time.Time { return t.Truncate(d) }
	}
	monday := func(t time.Time) time.Time {
		t = t.Truncate(day)
		return t.AddDate(0, 0, -(int(t.Weekday())+6)%7)
	}
	switch w {
	case LastHour:
		return time.Hour, 5 * time.Minute, to(5 * time.Minute)
	case Last24Hours:
		return day, 5 * time.Minute, to(time.Hour)
	case Last7Days:
		return 7 * day, time.Hour, to(day)
	case Last30Days:
		return 30 * day, time.Hour, to(day)
	case LastThreeMonths:
		return 92 * day, day, monday
	}
	panic(w)
}

// expect counts by looking at each call.
func expect(w Window, now time.Time, all []analytics.Call) (totals, details string) {
	back, begins, point := grain(w)
	from := now.Add(-back).Truncate(begins)
	type place struct {
		at       time.Time
		consumer string
	}
	counts := map[place]map[int]int64{}
	count := func(p place, status int) {
		if counts[p] == nil {
			counts[p] = map[int]int64{}
		}
		counts[p][status]++
	}
	for _, c := range all {
		if c.At.Before(from) {
			continue
		}
		at := point(c.At)
		if at.Before(from) {
			at = from
		}
		count(place{at, c.Consumer}, c.Status)
		count(place{time.Time{}, c.Consumer}, c.Status)
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
	return text(total), text(detail)
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return map[bool]int{true: 0, false: 1}[a == b]
}

// newestOf gives the last calls of a day.
func newestOf(now time.Time, all []analytics.Call, n int) []RecentCall {
	var out []RecentCall
	for _, c := range slices.Backward(all) {
		if !c.At.Before(now.Add(-day)) {
			out = append(out, RecentCall{c.Consumer, c.Method, c.Route, c.Status, c.Policy, c.At})
		}
	}
	return out[:min(len(out), n)]
}

// TestOneConsumerAlone: of the callers that are asked for there is what they called, and nothing of others.
func TestOneConsumerAlone(t *testing.T) {
	w := newWorld(t)
	c := w.collector()
	for i := range 6 {
		c.Call(calledBy([]string{"", "acme", "globex"}[i%3], 200+i, w.time))
	}
	w.drain(c)
	for _, addedUp := range []bool{false, true} {
		if addedUp {
			w.rollup()
		}
		acme := Callers{Names: []string{"acme", "nobody"}}
		if got := text(w.statuses(LastHour, acme).Totals); got != "acme 2 [{201 1} {204 1}]\n" {
			t.Errorf("counted are %q", got)
		}
		if got := w.recent(acme, 20); len(got) != 2 || got[0].Consumer != "acme" || got[1].Consumer != "acme" {
			t.Errorf("its calls are %v", got)
		}
	}
}

// TestNewestCallsAreKept by the time at which they came: those that took long are told of late.
func TestNewestCallsAreKept(t *testing.T) {
	w := newWorld(t)
	for _, addedUp := range []bool{false, true} {
		c := w.collector()
		var all []analytics.Call
		for i := range 3 * maxRecent {
			came := w.time.Add(time.Duration(2*i) * time.Millisecond)
			if i%7 == 0 {
				came = came.Add(-1_001 * time.Millisecond) // it took a second, and no other came at that time
			}
			call := calledBy("acme", 200+i%300, came)
			all = append(all, call)
			c.Call(call)
			if i%1_300 == 0 {
				w.drain(c)
			}
		}
		w.time = w.time.Add(time.Minute)
		w.drain(c)
		if addedUp {
			w.rollup()
		}
		slices.SortFunc(all, func(a, b analytics.Call) int { return a.At.Compare(b.At) })
		if got, want := w.recent(everybody, maxRecent), newestOf(w.time, all, maxRecent); !slices.Equal(got, want) {
			t.Errorf("added up %v: the calls are not the newest", addedUp)
		}
	}
}

// TestRecentCallsAreOfADay, newest first, with what is known of each.
func TestRecentCallsAreOfADay(t *testing.T) {
	w := newWorld(t)
	c := w.collector()
	c.Call(analytics.Call{Deployment: shop, Consumer: "acme", Method: "BREW-A-POT-OF-STRONG-COFFEE", Route: "/a", Status: 405, Policy: "key", At: w.time})
	c.Call(analytics.Call{Deployment: shop, Method: "PROPFIND", Status: 404, At: w.time.Add(time.Second)})
	w.drain(c)
	w.rollup()
	want := []RecentCall{
		{"", "PROPFIND", "", 404, "", w.time.Add(time.Second)},
		{"acme", Other, "/a", 405, "key", w.time},
	}
	w.time = w.time.Add(day)
	if got := w.recent(everybody, 20); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	w.time = w.time.Add(time.Millisecond)
	if got := w.recent(everybody, 20); !slices.Equal(got, want[:1]) {
		t.Errorf("after a day: %v", got)
	}
}

// TestCallsOfRowsOfBefore: a row that was written before calls had a policy is read as one of calls that none has refused, and one that names what is
// not there is no row.
func TestCallsOfRowsOfBefore(t *testing.T) {
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
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	if got, err := (packedCalls{Names: []string{"a"}, Calls: [][6]int64{{0, 0, 0, 200, 1000, 3}}}).unpack(); err == nil {
		t.Errorf("a policy that is not there is read as %v", got)
	}
}
