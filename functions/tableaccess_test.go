package functions_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// rarelyRead contains, by the name of a group, the declared key prefixes that none of the group's sample requests
// reads. The value is the reason.
var rarelyRead = map[string]map[store.KeyPrefix]string{
	"variables":        {"projects": "only the request for an empty list checks whether the project exists"},
	"mtlscertificates": {"projects": "only the request for an empty list checks whether the project exists"},
}

// contendedPrefix is a key prefix that requests with a key read only if another process leases units of the same limit
// at the same time. The test does not cause this case.
const contendedPrefix store.KeyPrefix = "allowance"

// TestGroupAccessesDeclaredKeyPrefixes checks that the key prefixes that valid requests access are exactly those in the
// TableAccess of the group. An access to a prefix that is not declared fails in AWS and in tests. A declared prefix
// that is never accessed is an unnecessary permission.
func TestGroupAccessesDeclaredKeyPrefixes(t *testing.T) {
	p := newPopulatedFixture(t)
	group := onlyGroup(t)
	for _, g := range groups() {
		if group != "" && group != g.Name || slices.ContainsFunc(g.Declarations(), func(d api.Declaration) bool {
			return d.ContainsRequests
		}) {
			continue // it was not selected, or TestContainingGroupAccessesKeyPrefixesOfContainedGroups tests it
		}
		t.Run(g.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				accessed, dryRunAccess := p.backgroundAccess(t, g.Declarations()), store.TableAccess{}
				for _, d := range g.Declarations() {
					for _, r := range variants(p.sampleSet, d) {
						if d.Mutates() {
							dryRunAccess = dryRunAccess.Union(p.dryRunAccess(t, d, r))
						}
						for _, headers := range [][]string{nil, {"Idempotency-Key", "a", "If-Match", "*"}} {
							fx, _, _ := p.sendValid(t, d, r, headers...)
							accessed = accessed.Union(fx.Uses.TableAccess())
						}
					}
				}
				declared := g.FullTableAccess()
				if slices.ContainsFunc(g.Declarations(), needsKey) {
					accessed.Reads = append(accessed.Reads, contendedPrefix)
				}
				comparePrefixes(t, "reads", accessed.Reads, declared.Reads, rarelyRead[g.Name])
				comparePrefixes(t, "writes", accessed.Writes, declared.Writes, nil)
				extraReads := slices.DeleteFunc(dryRunAccess.Reads, func(s store.KeyPrefix) bool {
					return slices.Contains(declared.Reads, s) || slices.Contains(declared.Writes, s)
				})
				comparePrefixes(t, "reads in a dry run", extraReads, declared.DryRunReads, nil)
			})
		})
	}
}

// TestContainingGroupAccessesKeyPrefixesOfContainedGroups checks mcp, the group whose requests contain requests of the
// other groups. Its TableAccess must have exactly the key prefixes of the requests and dry runs of those groups.
func TestContainingGroupAccessesKeyPrefixesOfContainedGroups(t *testing.T) {
	var others store.TableAccess
	for _, g := range groups() {
		if g.Name != "mcp" {
			others = others.Union(g.FullTableAccess().WithDryRuns())
		}
	}
	mcp := functions.MCP().FullTableAccess()
	if !slices.Equal(mcp.Reads, others.Reads) || !slices.Equal(mcp.Writes, others.Writes) || mcp.Scans {
		t.Errorf("access of MCP = %+v, want that of all others without scans: %+v", mcp, others)
	}
	for _, prefix := range others.Writes {
		if prefix == "audit" || prefix == "audit-head" || prefix == "account" || prefix == "account-name" {
			t.Errorf("operations write %s, want no access to accounts and the audit log", prefix)
		}
	}
}

// TestDeclaredKeyPrefixesExist checks that every key prefix in the TableAccess of groups, triggered functions and
// services exists. It also checks that Scans is true exactly if api.ScanTable is in the Uses.
func TestDeclaredKeyPrefixesExist(t *testing.T) {
	raw, err := os.ReadFile("../internal/repolint/testdata/stored.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	check := func(name string, access store.TableAccess, uses []api.Use) {
		for _, prefix := range slices.Concat(access.Reads, access.Writes, access.DryRunReads) {
			if !slices.Contains(lines, "space "+string(prefix)) {
				t.Errorf("TableAccess of %s contains the key prefix %q, want only prefixes in stored.txt", name, prefix)
			}
		}
		if slices.Contains(uses, api.ScanTable) != access.Scans {
			t.Errorf("%s: Scans = %v, want %v as in its uses", name, access.Scans, !access.Scans)
		}
	}
	for _, g := range groups() {
		var uses []api.Use
		for _, d := range g.Declarations() {
			uses = append(uses, d.Uses...)
		}
		check(g.Name, g.FullTableAccess(), uses)
	}
	for _, f := range functions.Triggered() {
		check(f.Name, f.TableAccess, f.Uses)
	}
	for _, s := range functions.Services() {
		check(s.Name, s.TableAccess, s.Uses)
	}
}

// TestBindLimitsTableAccess checks that the function Bind of every group restricts the table. So an access beyond the
// group's TableAccess fails in the group's own tests, and not only in AWS.
func TestBindLimitsTableAccess(t *testing.T) {
	for _, g := range groups() {
		files, err := filepath.Glob(g.Name + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("Glob(%s/*.go) = no files, %v, want some", g.Name, err)
		}
		limitsAccess := regexp.MustCompile(
			`(?m)^func Bind(With)?\(p installation\.Parts.*\) \[\]api\.Route \{\n\tp = ` +
				`Group\.Restrict\(p\)\n|bind\(group\.Restrict\(p\)\)`)
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && limitsAccess.Match(text)
		}) {
			t.Errorf("Bind of %s does not call Restrict, want p = Group.Restrict(p) first", g.Name)
		}
	}
}

// backgroundAccess returns the key prefixes that requests access if the fixture also does its background work. With a
// key, it sends the first request of a day, and another request in the same second, which is counted for the account's
// limit. Then it sends a request with a session. If no operation needs a key, it sends no requests.
func (p populatedFixture) backgroundAccess(t *testing.T, declarations []api.Declaration) store.TableAccess {
	t.Helper()
	i := slices.IndexFunc(declarations, needsKey)
	if i < 0 {
		return store.TableAccess{}
	}
	fx, n := p.Copy(t), maps.Clone(p.values)
	path, body := requestTarget(t, declarations[i], p.sampleSet.Request(declarations[i]), n)
	fx.Now = fx.Now.AddDate(0, 0, 1)
	session := fx.CreateSession(p.key)
	fx.Now = fx.Now.Add(2 * time.Minute)
	fx.EnableBackground()
	fx.Uses.Clear()
	for range 2 {
		fx.Call(p.key, declarations[i].Method, path, body)
		synctest.Wait()
	}
	if i := slices.IndexFunc(declarations, api.Declaration.AcceptsSession); i >= 0 {
		path, body := requestTarget(t, declarations[i], p.sampleSet.Request(declarations[i]), n)
		fx.Call(session, declarations[i].Method, path, body)
		synctest.Wait()
	}
	return fx.Uses.TableAccess()
}

// dryRunAccess returns the key prefixes that the dry run of a request accesses.
func (p populatedFixture) dryRunAccess(t *testing.T, d api.Declaration, r events.Request) store.TableAccess {
	t.Helper()
	fx, n := p.Copy(t), maps.Clone(p.values)
	if err := p.sampleSet.RunSteps(fx.Client(p.key), n, r.Prerequisites); err != nil {
		t.Fatal(err)
	}
	path, body := requestTarget(t, d, r, n)
	fx.Restart()
	key := p.callerKey(fx, d)
	fx.Uses.Clear()
	fx.CallContext(withDryRun(fx.Context()), key, d.Method, path, body)
	return fx.Uses.TableAccess()
}

// comparePrefixes fails the test if the accessed key prefixes differ from the declared ones. The declared prefixes in
// exceptions may be missing. verb is what the group does with the prefixes, such as "reads".
func comparePrefixes(
	t *testing.T, verb string, accessed, declared []store.KeyPrefix, exceptions map[store.KeyPrefix]string,
) {
	t.Helper()
	for _, s := range accessed {
		if !slices.Contains(declared, s) {
			t.Errorf("the group %s %q, want it declared in its TableAccess", verb, s)
		}
	}
	for _, s := range declared {
		if !slices.Contains(accessed, s) && exceptions[s] == "" {
			t.Errorf("no sample of the group %s %q, want one in samples.json, or none in its TableAccess", verb, s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(exceptions)) {
		if !slices.Contains(declared, s) {
			t.Errorf("the exception %q is not in the group's TableAccess, want it removed", s)
		}
	}
}
