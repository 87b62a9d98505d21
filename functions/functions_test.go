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
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/service"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestMain makes garbage collections less frequent, because the suites create thousands of short-lived fixtures.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestOperationsAreListed compares a list of all operations with a golden file, which shows reviewers how a change
// affects the API.
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
				fmt.Fprintf(&out, "  unseen  %d of another project, %d of another kind of environment\n", d.Invisible.Project,
					d.Invisible.Environment)
			}
			if d.Mutates() {
				fmt.Fprintf(&out, "  audit   %s of %s\n", d.Audit, strings.Join(d.Resources, ", "))
			}
			if d.ReadPath != d.Path {
				fmt.Fprintf(&out, "  read    at %s\n", d.ReadPath)
			}
			for i, use := range d.Uses {
				fmt.Fprintf(&out, "  %-7s %s\n", map[bool]string{true: "uses"}[i == 0], use)
			}
		}
		golden.Equal(t, g.Name+"/testdata/operations.txt", out.String())
	}
}

// TestGroupsAreUnique checks that the names and titles of groups are unique. Functions and folders have the names of
// groups, and schemas in the document have their titles.
func TestGroupsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups() {
		for _, name := range []string{"name " + g.Name, "title " + g.Title} {
			if seen[name] {
				t.Errorf("two groups have the %s, want one", name)
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
				t.Errorf("two operations have the id %s, want one", d.ID)
			}
			if r := d.Method + " " + d.Path; routes[r] {
				t.Errorf("two operations have the route %s, want one", r)
			} else {
				routes[r] = true
			}
			ids[d.ID] = true
		}
	}
}

// TestEveryOperationIsBound checks that every declared operation has a handler.
func TestEveryOperationIsBound(t *testing.T) {
	for _, g := range groups() {
		if diff := bindingDiff(g); diff != "" {
			t.Error(diff)
		}
	}
}

// bindingDiff returns the difference between a group's declarations and its routes, or "" if there is none.
func bindingDiff(g functions.Group) string {
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
			// these operations need no scope
			if d.Public || d.KeyOnly || d.SessionOnly {
				continue
			}
			if writes := strings.HasSuffix(string(d.Scope), ":write"); writes != d.Mutates() {
				t.Errorf("%s: scope = %q, audit action = %q, want a write scope if there is an audit action, "+
					"and no write scope otherwise",
					d.ID, d.Scope, d.Audit)
			}
		}
	}
}

// TestSchedulesAreSupportedByEveryPlatform checks that all schedules have a supported form. With any other form, the
// local process would not start, and the synthesis of the infrastructure would fail.
func TestSchedulesAreSupportedByEveryPlatform(t *testing.T) {
	for _, f := range functions.Triggered() {
		seen := map[string]bool{}
		for _, e := range f.Events {
			if e.Schedule == nil {
				continue
			}
			if _, err := timetable.Parse(*e.Schedule); err != nil {
				t.Errorf("%s: Parse(%+v) error = %v, want none", f.Name, *e.Schedule, err)
			}
			if e.Schedule.Name == "" || seen[e.Schedule.Name] {
				t.Errorf("%s: name of the schedule = %q, want a unique one", f.Name, e.Schedule.Name)
			}
			seen[e.Schedule.Name] = true
		}
	}
}

// TestServicesAreSupportedByEveryPlatform checks the declarations of services. With an unsupported one, the load
// balancer would never consider a task healthy, or the task would be killed while it drains.
func TestServicesAreSupportedByEveryPlatform(t *testing.T) {
	for _, s := range functions.Services() {
		if s.Name == "" || s.Description == "" || len(s.Uses) == 0 {
			t.Errorf("service = %+v, want a name, a description and uses", s.Service)
		}
		if slices.ContainsFunc(functions.APIGroups(), func(g api.Group) bool { return g.Name == s.Name }) {
			t.Errorf("service %s has the name of an API group, want a name that no API group has", s.Name)
		}
		isFunction := slices.ContainsFunc(functions.Triggered(), func(f functions.Function) bool {
			return f.Name == s.Name
		})
		if s.AlsoFunction != isFunction {
			t.Errorf("%s: AlsoFunction = %t, want %t: whether a triggered function has this name",
				s.Name, s.AlsoFunction, isFunction)
		}
		if !strings.HasPrefix(s.Health, "/") {
			t.Errorf("%s: Health = %q, want a path", s.Name, s.Health)
		}
		// ECS kills a task 120 s after its shutdown begins.
		if s.Drain <= 0 || s.Announce+s.Drain >= 2*time.Minute {
			t.Errorf("%s: Drain = %v, Announce = %v, want both together below 2 minutes and Drain above 0",
				s.Name, s.Drain, s.Announce)
		}
		if s.Copies < 1 || s.Port.Public < 1 {
			t.Errorf("%s: Copies = %v, Port.Public = %v, want 1 or more", s.Name, s.Copies, s.Port.Public)
		}
		// Ports below 1024 need permissions that tasks do not have.
		if s.Port.Listen < 1024 || s.Port.Listen > 65535 {
			t.Errorf("%s: Port.Listen = %v, want 1024 to 65535", s.Name, s.Port.Listen)
		}
		if (s.Port.Protocol == service.TLS) != (s.Certificate != "") {
			t.Errorf("%s: protocol = %s, certificate = %q, want a certificate for TLS, and none for other protocols",
				s.Name, s.Port.Protocol, s.Certificate)
		}
	}
}
