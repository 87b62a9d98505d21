package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func TestStackBelongsToOnePart(t *testing.T) {
	for _, test := range []struct {
		want  string // the name of the part, or "" for none
		stack string // the innermost function first
	}{
		{"system calls: writes", "syscall.write internal/poll.(*FD).Write net.(*conn).Write " +
			"github.com/gatewright/gatewright/shared/dataplane/listen.(*conn).Write net/http.(*conn).serve"},
		{"system calls: waiting", "internal/runtime/syscall/linux.EpollWait runtime.netpoll runtime.findRunnable " +
			"runtime.schedule runtime.mcall"},
		{"scheduler, clocks and deadlines", "runtime.findRunnable runtime.schedule runtime.mcall"},
		{"memory: allocation and garbage", "runtime.mallocgc net/http.ReadResponse " +
			"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream.(*direct).exchange net/http.(*conn).serve"},
		{"net/http: heads of responses read", "net/textproto.readMIMEHeader net/http.ReadResponse " +
			"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream.(*direct).exchange net/http.(*conn).serve"},
		{"net/http: heads of requests read", "net/textproto.readMIMEHeader net/http.readRequest " +
			"net/http.(*conn).readRequest net/http.(*conn).serve"},
		{
			"the key",
			"crypto/sha256.Sum256 " +
				"github.com/gatewright/gatewright/shared/dataplane/gateway/policy.(*apiKey).Inbound " +
				"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline.(*Route).Run " +
				"github.com/gatewright/gatewright/shared/dataplane/gateway.(*Gateway).ServeHTTP",
		},
		{"the counts", "runtime.mapaccess1 github.com/gatewright/gatewright/shared/dataplane/gateway.(*Gateway).count " +
			"github.com/gatewright/gatewright/shared/dataplane/gateway.(*Gateway).ServeHTTP"},
		{"the line", "strconv.AppendInt github.com/gatewright/gatewright/shared/dataplane/gateway.(*request).logRequest " +
			"github.com/gatewright/gatewright/shared/dataplane/gateway.(*Gateway).ServeHTTP"},
		{
			"the gateway: host, route, fields",
			"maps.Copy github.com/gatewright/gatewright/shared/dataplane/gateway.(*writer).send " +
				"github.com/gatewright/gatewright/shared/dataplane/gateway.(*Gateway).ServeHTTP",
		},
		{"", "main.main runtime.main"},
	} {
		all := parts()
		got := ""
		if i := partOfStack(all, strings.Fields(test.stack)); i < len(all) {
			got = all[i].name
		}
		if got != test.want {
			t.Errorf("partOfStack(%s) = %q, want %q", test.stack, got, test.want)
		}
	}
}

// TestPartsNameExistingFunctions finds parts with a function of this repository that was moved or renamed, because its
// time would count for another part.
func TestPartsNameExistingFunctions(t *testing.T) {
	for _, part := range parts() {
		for _, prefix := range part.functions {
			name, ok := strings.CutPrefix(prefix, module)
			if !ok {
				continue
			}
			folder, _, _ := strings.Cut(name, ".")
			if !slices.ContainsFunc(functionsIn(t, folder), func(f string) bool { return strings.HasPrefix(f, name) }) {
				t.Errorf("part %q: no function in %s begins with %s, want at least one", part.name, folder, name)
			}
		}
	}
}

// functionsIn returns the functions of a folder of this repository, as in runtime.Frame.Function, without the module's
// path.
func functionsIn(t *testing.T, folder string) (all []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || strings.HasSuffix(name, "_test.go") {
				continue
			}
			receiver := ""
			if f.Recv != nil {
				receiver = types.ExprString(f.Recv.List[0].Type)
				if strings.HasPrefix(receiver, "*") {
					receiver = "(" + receiver + ")"
				}
				receiver += "."
			}
			all = append(all, folder+"."+receiver+f.Name.Name)
		}
	}
	return all
}

// profileOf returns a profile with the given time for each function.
func profileOf(times map[string]int64) *profile.Profile {
	p := &profile.Profile{}
	for name, time := range times {
		at := &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{at}, Value: []int64{1, time}})
	}
	return p
}

// TestOutdatedPartsAreAnError checks that timeShares returns an error if too much time belongs to no part, if a part
// has no time, or if the profile is empty. The table would then be useless.
func TestOutdatedPartsAreAnError(t *testing.T) {
	all := []profilePart{{"a", true, []string{"a."}}, {"b", false, []string{"b."}}}
	for _, test := range []struct {
		name  string
		times map[string]int64
		want  []float64
		fails string
	}{
		{"all time in parts", map[string]int64{"a.F": 50, "b.F": 25, "b.G": 25}, []float64{0.5, 0.5, 0}, ""},
		{"15 % of the time in no part", map[string]int64{"a.F": 50, "b.F": 35, "c.F": 15}, []float64{0.5, 0.35, 0.15}, ""},
		{
			"16 % of the time in no part",
			map[string]int64{"a.F": 50, "b.F": 34, "c.F": 16},
			[]float64{0.5, 0.34, 0.16},
			"16 % of the time belongs to no part",
		},
		{"a part without time", map[string]int64{"a.F": 100}, []float64{1, 0, 0}, `"b" takes no time`},
		{"an empty profile", nil, nil, "empty"},
	} {
		got, err := timeShares(profileOf(test.times), all)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: timeShares() = %v, want %v", test.name, got, test.want)
		}
		if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: timeShares() error = %v, want one with %q, or none if this is empty", test.name, err, test.fails)
		}
	}
}
