package functions_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/trigger/timetable"
)

// TestMain has garbage collected less often: the suites make thousands of worlds, each for a moment.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestOperationsAreListed shows a review what a change does to the surface of
// the product.
func TestOperationsAreListed(t *testing.T) {
	for _, g := range groups() {
		var out strings.Builder
		for _, d := range g.Declarations() {
			scope := string(d.Scope)
			switch {
			case d.Public:
				scope = "public"
			case scope == "":
				scope = "any key"
			}
			fmt.Fprintf(&out, "%s\n  %s %s -> %d\n", d.ID, d.Method, d.Path, d.Status)
			fmt.Fprintf(&out, "  scope   %s\n", scope)
			if !d.Public {
				fmt.Fprintf(&out, "  unseen  %d of another project, %d of another kind of environment\n", d.Unseen.Project, d.Unseen.Environment)
			}
			if d.Mutates() {
				fmt.Fprintf(&out, "  audit   %s of %s\n", d.Audit, strings.Join(d.Resources, ", "))
			}
			if d.ReadAt != d.Path {
				fmt.Fprintf(&out, "  read    at %s\n", d.ReadAt)
			}
			for i, use := range d.Uses {
				fmt.Fprintf(&out, "  %-7s %s\n", map[bool]string{true: "uses"}[i == 0], use)
			}
		}
		golden.Equal(t, g.Name+"/testdata/operations.txt", out.String())
	}
}

// TestGroupsAreUnique: functions and folders have their names, schemas in the
// document their titles.
func TestGroupsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups() {
		for _, name := range []string{"name " + g.Name, "title " + g.Title} {
			if seen[name] {
				t.Errorf("two groups have the %s", name)
			}
			seen[name] = true
		}
	}
}

func TestOperationsAreUnique(t *testing.T) {
	ids, routes := map[string]bool{}, map[string]bool{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if ids[d.ID] {
				t.Errorf("two operations have the id %s", d.ID)
			}
			if r := d.Method + " " + d.Path; routes[r] {
				t.Errorf("two operations answer %s", r)
			} else {
				routes[r] = true
			}
			ids[d.ID] = true
		}
	}
}

// TestEveryOperationIsBound keeps a declared operation from having no answer.
func TestEveryOperationIsBound(t *testing.T) {
	for _, g := range groups() {
		if wrong := wrongBinding(g); wrong != "" {
			t.Error(wrong)
		}
	}
}

// wrongBinding says what a group declares and does not answer, or the other way
// round, "" for nothing.
func wrongBinding(g functions.Group) string {
	var declared, bound []string
	for _, d := range g.Declarations() {
		declared = append(declared, d.ID)
	}
	for _, r := range g.Bind(installation.Parts{}) {
		bound = append(bound, r.ID)
	}
	slices.Sort(declared)
	slices.Sort(bound)
	if slices.Equal(declared, bound) {
		return ""
	}
	return fmt.Sprintf("group %s lists %v in Operations and %v in Bind: list each in both", g.Name, declared, bound)
}

func TestEveryChangeNeedsAWriteScope(t *testing.T) {
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if d.Public || d.KeyAlone || d.SessionAlone { // these are about sessions, which may what their keys do
				continue
			}
			if writes := strings.HasSuffix(string(d.Scope), ":write"); writes != d.Mutates() {
				t.Errorf("%s has the scope %q and the audit action %q: one says that it changes something, the other that it does not", d.ID, d.Scope, d.Audit)
			}
		}
	}
}

// TestSchedulesAreOnesThatEveryPlatformKeeps: the local process refuses the
// others when it starts, and the infrastructure when it is synthesised.
func TestSchedulesAreOnesThatEveryPlatformKeeps(t *testing.T) {
	for _, f := range functions.Triggered() {
		seen := map[string]bool{}
		for _, e := range f.On {
			if e.Schedule == nil {
				continue
			}
			if _, err := timetable.Of(*e.Schedule); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
			if e.Schedule.Name == "" || seen[e.Schedule.Name] {
				t.Errorf("%s: its schedules have to have names of their own, %q is none", f.Name, e.Schedule.Name)
			}
			seen[e.Schedule.Name] = true
		}
	}
}

// TestServicesAreOnesThatEveryPlatformRuns: what is declared wrong here would be a
// task that its load balancer never calls healthy, or that is killed while it drains.
func TestServicesAreOnesThatEveryPlatformRuns(t *testing.T) {
	for _, s := range functions.Services() {
		if s.Name == "" || s.Does == "" || len(s.Uses) == 0 {
			t.Errorf("%+v lacks a name, what it does or what it uses", s.Service)
		}
		if slices.ContainsFunc(functions.Described(), func(g api.Group) bool { return g.Name == s.Name }) ||
			slices.ContainsFunc(functions.Triggered(), func(f functions.Function) bool { return f.Name == s.Name }) != s.Beside {
			t.Errorf("%s is a function's name too, or is beside one that is not there: both have a role of that name", s.Name)
		}
		if !strings.HasPrefix(s.Health, "/") {
			t.Errorf("%s: its health is no path but %q", s.Name, s.Health)
		}
		// ECS kills a task after 120 s; below 1024 a port needs rights that no task has.
		if s.Drain <= 0 || s.Announce+s.Drain >= 2*time.Minute || s.Copies < 1 || s.Port.Public < 1 || s.Port.Listens < 1024 || s.Port.Listens > 65535 {
			t.Errorf("%s: %+v cannot be run", s.Name, s.Service)
		}
		if (s.Port.Protocol == service.TLS) != (s.Certificate != "") {
			t.Errorf("%s speaks %s with the certificate of %q: TLS needs one, and nothing else has one", s.Name, s.Port.Protocol, s.Certificate)
		}
	}
}
