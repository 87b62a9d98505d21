package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func TestTimeBelongsToOnePart(t *testing.T) {
	for _, test := range []struct {
		want  string
		stack string // the innermost function first
	}{
		{"system calls: writes", "syscall.write internal/poll.(*FD).Write net.(*conn).Write github.com/gatewright/gatewright/shared/listen.(*conn).Write net/http.(*conn).serve"},
		{"system calls: waiting", "internal/runtime/syscall/linux.EpollWait runtime.netpoll runtime.findRunnable runtime.schedule runtime.mcall"},
		{"scheduler, clocks and deadlines", "runtime.findRunnable runtime.schedule runtime.mcall"},
		{"memory: allocation and garbage", "runtime.mallocgc net/http.ReadResponse github.com/gatewright/gatewright/shared/gateway/upstream.(*direct).exchange net/http.(*conn).serve"},
		{"net/http: heads of responses read", "net/textproto.readMIMEHeader net/http.ReadResponse github.com/gatewright/gatewright/shared/gateway/upstream.(*direct).exchange net/http.(*conn).serve"},
		{"net/http: heads of requests read", "net/textproto.readMIMEHeader net/http.readRequest net/http.(*conn).readRequest net/http.(*conn).serve"},
		{"the key", "crypto/sha256.Sum256 github.com/gatewright/gatewright/shared/gateway/policy.(*apiKey).Inbound github.com/gatewright/gatewright/shared/gateway/pipeline.(*Route).Run github.com/gatewright/gatewright/shared/gateway.(*Gateway).ServeHTTP"},
		{"the counts", "runtime.mapaccess1 github.com/gatewright/gatewright/shared/gateway.(*Gateway).count github.com/gatewright/gatewright/shared/gateway.(*Gateway).ServeHTTP"},
		{"the line", "strconv.AppendInt github.com/gatewright/gatewright/shared/gateway.watched.line github.com/gatewright/gatewright/shared/gateway.(*Gateway).ServeHTTP"},
		{"the gateway: host, route, fields", "maps.Copy github.com/gatewright/gatewright/shared/gateway.(*writer).send github.com/gatewright/gatewright/shared/gateway.(*Gateway).ServeHTTP"},
		{"", "main.main runtime.main"},
	} {
		all := parts()
		got := ""
		if i := of(all, strings.Fields(test.stack)); i < len(all) {
			got = all[i].what
		}
		if got != test.want {
			t.Errorf("got %q, want %q of %s", got, test.want, test.stack)
		}
	}
}

// profileOf is one in which each function has so much time.
func profileOf(times map[string]int64) *profile.Profile {
	p := &profile.Profile{}
	for name, time := range times {
		at := &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{at}, Value: []int64{1, time}})
	}
	return p
}

// TestPartsThatNoLongerFitAreAFailure: a table that calls most of a request "everything else" would say nothing.
func TestPartsThatNoLongerFitAreAFailure(t *testing.T) {
	all := []share{{"a", true, []string{"a."}}, {"b", false, []string{"b."}}}
	for _, test := range []struct {
		name  string
		times map[string]int64
		want  []float64
		fails string
	}{
		{"all is somebody's", map[string]int64{"a.F": 50, "b.F": 25, "b.G": 25}, []float64{0.5, 0.5, 0}, ""},
		{"a little is nobody's", map[string]int64{"a.F": 50, "b.F": 35, "c.F": 15}, []float64{0.5, 0.35, 0.15}, ""},
		{"more is", map[string]int64{"a.F": 50, "b.F": 34, "c.F": 16}, []float64{0.5, 0.34, 0.16}, "16 % of the time belongs to no part"},
		{"a part is gone", map[string]int64{"a.F": 100}, []float64{1, 0, 0}, `"b" takes no time`},
		{"nothing was measured", nil, nil, "empty"},
	} {
		got, err := divide(profileOf(test.times), all)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
		if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.fails)
		}
	}
}
