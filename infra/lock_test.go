package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/golden"
)

// apiLockFile is the file with the resources of API Gateway that installations may have.
const apiLockFile = "testdata/apis.txt"

const apiLockHeader = `# The parts of the REST APIs, as installations have them: API (its logical id), kind, name, stack, logical id, function behind it.
# A part that is "gone" may still be there, in an installation that is updated later. TestAPIsAreUpdatedInPlace refuses, also with
# -update, what API Gateway would refuse of an update: a part that is made a second time in another place or under another logical id,
# and a variable of a path beside another one.
`

// TestAPIsAreUpdatedInPlace compares the APIs with those of existing installations: each resource keeps its stack and
// its logical id. With -update it accepts additions and removals.
func TestAPIsAreUpdatedInPlace(t *testing.T) {
	text, err := os.ReadFile(apiLockFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	before, err := parseAPIResources(string(text))
	if err != nil {
		t.Fatal(err)
	}
	after := synthesize(t, minimalContext(nil)).apiResources(t)
	for _, text := range refusedChanges(before, after) {
		t.Error(text)
	}
	if !t.Failed() {
		golden.Equal(t, apiLockFile, apiLockHeader+formatAPIResources(mergeLocked(before, after)))
	}
}

// refusedChanges returns a line for each change that API Gateway would refuse in an update.
func refusedChanges(before, after []apiResource) (out []string) {
	for _, p := range after {
		if i := slices.IndexFunc(before, p.sameAs); i >= 0 && (before[i].stack != p.stack || before[i].id != p.id) {
			out = append(out, fmt.Sprintf("%s: logical id %s in stack %s would become %s in stack %s. API Gateway rejects the "+
				"new resource while the old one exists: "+
				"keep its stack and logical id (methodsStackOf, methodID, pathID), or create another API (restLogicalID)", p,
				before[i].id, before[i].stack, p.id, p.stack))
		}
		parent, name, ok := p.variable()
		if !ok {
			continue
		}
		for _, other := range before {
			if siblingParent, siblingName, ok := other.variable(); ok && other.api == p.api && siblingParent == parent &&
				siblingName != name {
				out = append(out, fmt.Sprintf("%s would be a second path variable next to %s. API Gateway allows one variable "+
					"under each parent: "+
					"name it %s (routePath), or create another API (restLogicalID)", p, siblingName, siblingName))
			}
		}
	}
	return out
}

// variable returns the path of the parent of a path variable, and the variable's name. ok is false for any other
// resource.
func (r apiResource) variable() (parent, name string, ok bool) {
	i := strings.LastIndexByte(r.name, '/')
	if r.kind != "Resource" || i < 0 || !strings.HasPrefix(r.name[i+1:], "{") {
		return "", "", false
	}
	return r.name[:i], r.name[i+1:], true
}

// mergeLocked returns the resources in after. It adds the resources in before that after does not have, marked as
// deleted, if their API still exists or they belong to no API.
func mergeLocked(before, after []apiResource) []apiResource {
	out := slices.Clone(after)
	for _, p := range before {
		apiExists := p.api == "-" || slices.ContainsFunc(after, func(o apiResource) bool { return o.api == p.api })
		if apiExists && !slices.ContainsFunc(after, p.sameAs) {
			p.deleted = true
			out = append(out, p)
		}
	}
	slices.SortFunc(out, apiResource.compare)
	return out
}

// formatAPIResources returns the lines of apiLockFile, without its header.
func formatAPIResources(resources []apiResource) string {
	var out strings.Builder
	for _, p := range resources {
		if p.deleted {
			out.WriteString("gone ")
		}
		fmt.Fprintln(&out, p.api, p.kind, p.name, p.stack, p.id, p.function)
	}
	return out.String()
}

// parseAPIResources parses the lines of apiLockFile.
func parseAPIResources(text string) (out []apiResource, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		p := apiResource{deleted: len(fields) > 0 && fields[0] == "gone"}
		if p.deleted {
			fields = fields[1:]
		}
		if len(fields) != 6 {
			return nil, fmt.Errorf("%s: invalid line %q: restore the file from the last commit", apiLockFile, line)
		}
		p.api, p.kind, p.name, p.stack, p.id, p.function = fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
		out = append(out, p)
	}
	return out, nil
}

// lockedBaseline is a list of locked resources of an API. Two of them are deleted.
const lockedBaseline = `Api GatewayResponse THROTTLED installation Answer -
Api Method GET:/a/{b} Methods1 Get1 One
Api Resource /a Paths Path1 -
Api Resource /a/{b} Paths Path2 -
gone Api Resource /c/{d} Paths Path4 -
gone Api Resource /e Paths Path5 -
`

// TestRefusedAPIUpdatesAreReported checks that refusedChanges reports exactly the updates that API Gateway would
// reject.
func TestRefusedAPIUpdatesAreReported(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		want     string // "" for accepted updates
	}{
		"no change":                    {"", "", ""},
		"path added":                   {"", "Api Resource /f Paths Path6 -\n", ""},
		"variable added":               {"", "Api Resource /a/x/{y} Paths Path6 -\n", ""},
		"method removed":               {"Api Method GET:/a/{b} Methods1 Get1 One\n", "", ""},
		"method with another function": {"Get1 One", "Get1 Two", ""},
		"variable renamed": {
			"Api Resource /a/{b} Paths Path2 -", "Api Resource /a/{c} Paths Path3 -",
			"Resource /a/{c} would be a second path variable next to {b}",
		},
		"variable renamed with the same logical ID": {
			"Api Resource /a/{b} Paths Path2 -", "Api Resource /a/{c} Paths Path2 -",
			"name it {b}",
		},
		"variable turned into a greedy variable": {
			"Api Resource /a/{b} Paths Path2 -",
			"Api Resource /a/{proxy+} Paths Path3 -", "Resource /a/{proxy+} would be a second path variable next to {b}",
		},
		"path moved to another stack": {
			"/a Paths Path1", "/a Others Path1",
			"Resource /a: logical id Path1 in stack Paths would become Path1 in stack Others",
		},
		"path with another logical ID": {
			"/a Paths Path1", "/a Paths Path9",
			"Resource /a: logical id Path1 in stack Paths would become Path9 in stack Paths",
		},
		"method moved to another stack": {
			"Methods1 Get1", "Methods2 Get1",
			"Method GET:/a/{b}: logical id Get1 in stack Methods1",
		},
		"method with another logical ID": {
			"Methods1 Get1", "Methods1 Get2",
			"Method GET:/a/{b}: logical id Get1 in stack Methods1",
		},
		"gateway response with another logical ID": {
			"installation Answer", "installation Answer2",
			"GatewayResponse THROTTLED: logical id Answer",
		},
		"removed part added again": {"", "Api Resource /c/{d} Paths Path4 -\n", ""},
		"removed part added with another name": {
			"", "Api Resource /c/{x} Paths Path6 -\n",
			"Resource /c/{x} would be a second path variable next to {d}",
		},
		"removed part added in another place": {
			"", "Api Resource /e Others Path5 -\n",
			"Resource /e: logical id Path5 in stack Paths",
		},
		"same path in another API":     {"", "Other Resource /a/{x} Paths Path2 -\n", ""},
		"same name below another path": {"", "Api Resource /x/a/{c} Paths Path7 -\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := parseAPIResources(lockedBaseline)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(lockedBaseline, tc.from, tc.to, 1)
			if text == lockedBaseline && name != "no change" {
				t.Fatalf("the baseline does not contain %q, want it to", tc.from)
			}
			after, err := parseAPIResources(text)
			if err != nil {
				t.Fatal(err)
			}
			after = slices.DeleteFunc(after, func(p apiResource) bool { return p.deleted })
			got := refusedChanges(before, after)
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want) ||
				!strings.Contains(got[0], "restLogicalID")) {
				t.Errorf("refusedChanges() = %q, want one line with %q and restLogicalID, or none if it is empty", got, tc.want)
			}
		})
	}
}

// TestDeletedResourcesStayLocked checks that deleted resources stay locked while their API exists, because an
// installation may have them. A line that cannot be parsed is an error.
func TestDeletedResourcesStayLocked(t *testing.T) {
	parse := func(text string) []apiResource {
		resources, err := parseAPIResources(text)
		if err != nil {
			t.Fatal(err)
		}
		return resources
	}
	before := parse("- DomainName d installation D -\nApi Resource /a Paths Path1 -\ngone Api Resource /b Paths Path2 " +
		"-\nApi Resource /c Paths Path3 -\nOld Resource /a Paths Path1 -\n")
	after := parse("Api Resource /b Paths Path2 -\nApi Resource /c Paths Path3 -\n")
	const want = "gone - DomainName d installation D -\ngone Api Resource /a Paths Path1 -\nApi Resource /b Paths Path2 " +
		"-\nApi Resource /c Paths Path3 -\n"
	if got := formatAPIResources(mergeLocked(before, after)); got != want {
		t.Errorf("mergeLocked() =\n%s\nwant\n%s", got, want)
	}
	if _, err := parseAPIResources("<<<<<<< ours\n"); err == nil || !strings.Contains(err.Error(), apiLockFile) {
		t.Errorf("parseAPIResources(a conflict marker) error = %v, want one with %s", err, apiLockFile)
	}
}
