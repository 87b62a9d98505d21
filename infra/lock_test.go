package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
)

// lock is the file with the parts that installations may have.
const lock = "testdata/apis.txt"

const lockHead = `# The parts of the REST APIs, as installations have them: API (its logical id), kind, name, stack, logical id, function behind it.
# A part that is "gone" may still be there, in an installation that is updated later. TestAPIsAreUpdatedInPlace refuses, also with
# -update, what API Gateway would refuse of an update: a part that is made a second time in another place or under another logical id,
# and a variable of a path beside another one.
`

// TestAPIsAreUpdatedInPlace compares the APIs with those that installations have: each
// of the parts is where it was and called as it was. -update takes what is added and
// what is gone.
func TestAPIsAreUpdatedInPlace(t *testing.T) {
	text, err := os.ReadFile(lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	was, err := readParts(string(text))
	if err != nil {
		t.Fatal(err)
	}
	is := synthesise(t, needed(nil)).parts(t)
	for _, text := range refused(was, is) {
		t.Error(text)
	}
	if !t.Failed() {
		golden.Equal(t, lock, lockHead+writeParts(locked(was, is)))
	}
}

// refused says what API Gateway would refuse of an update: a line for each.
func refused(was, is []part) (out []string) {
	for _, p := range is {
		if i := slices.IndexFunc(was, p.same); i >= 0 && (was[i].stack != p.stack || was[i].id != p.id) {
			out = append(out, fmt.Sprintf("%s is %s in %s of installations, and would be made again as %s in %s, which API Gateway refuses while it is there: "+
				"leave its stack and its logical id as they are (methodsOf, methodID and pathID), or make another API of it (restID)", p, was[i].id, was[i].stack, p.id, p.stack))
		}
		above, name, ok := p.variable()
		if !ok {
			continue
		}
		for _, other := range was {
			if beside, called, ok := other.variable(); ok && other.api == p.api && beside == above && called != name {
				out = append(out, fmt.Sprintf("%s would be made beside %s of installations, and API Gateway takes one variable of a path: "+
					"call it %s (routePath), or make another API of it (restID)", p, called, called))
			}
		}
	}
	return out
}

// variable gives the path above a variable, and what it is called; false for any other part.
func (p part) variable() (above, name string, ok bool) {
	i := strings.LastIndexByte(p.name, '/')
	if p.kind != "Resource" || i < 0 || !strings.HasPrefix(p.name[i+1:], "{") {
		return "", "", false
	}
	return p.name[:i], p.name[i+1:], true
}

// locked are the parts that there are, and those that are gone from APIs that there are.
func locked(was, is []part) []part {
	out := slices.Clone(is)
	for _, p := range was {
		there := p.api == "-" || slices.ContainsFunc(is, func(o part) bool { return o.api == p.api })
		if there && !slices.ContainsFunc(is, p.same) {
			p.gone = true
			out = append(out, p)
		}
	}
	slices.SortFunc(out, part.compare)
	return out
}

func writeParts(parts []part) string {
	var out strings.Builder
	for _, p := range parts {
		if p.gone {
			out.WriteString("gone ")
		}
		fmt.Fprintln(&out, p.api, p.kind, p.name, p.stack, p.id, p.calls)
	}
	return out.String()
}

func readParts(text string) (out []part, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		p := part{gone: len(words) > 0 && words[0] == "gone"}
		if p.gone {
			words = words[1:]
		}
		if len(words) != 6 {
			return nil, fmt.Errorf("%s: %q is no part of an API: take the file from the last commit", lock, line)
		}
		p.api, p.kind, p.name, p.stack, p.id, p.calls = words[0], words[1], words[2], words[3], words[4], words[5]
		out = append(out, p)
	}
	return out, nil
}

// TestUpdatesThatAPIGatewayRefusesAreTold, and no others.
func TestUpdatesThatAPIGatewayRefusesAreTold(t *testing.T) {
	const was = `Api GatewayResponse THROTTLED installation Answer -
Api Method GET:/a/{b} Methods1 Get1 One
Api Resource /a Paths Path1 -
Api Resource /a/{b} Paths Path2 -
gone Api Resource /c/{d} Paths Path4 -
gone Api Resource /e Paths Path5 -
`
	for name, tc := range map[string]struct {
		from, to string
		want     string // "" for what is taken
	}{
		"nothing":                              {"", "", ""},
		"a path is added":                      {"", "Api Resource /f Paths Path6 -\n", ""},
		"a variable is added":                  {"", "Api Resource /a/x/{y} Paths Path6 -\n", ""},
		"a method is removed":                  {"Api Method GET:/a/{b} Methods1 Get1 One\n", "", ""},
		"a method leads to another function":   {"Get1 One", "Get1 Two", ""},
		"a variable is called otherwise":       {"Api Resource /a/{b} Paths Path2 -", "Api Resource /a/{c} Paths Path3 -", "Resource /a/{c} would be made beside {b}"},
		"and keeps its logical id":             {"Api Resource /a/{b} Paths Path2 -", "Api Resource /a/{c} Paths Path2 -", "call it {b}"},
		"a variable takes the rest":            {"Api Resource /a/{b} Paths Path2 -", "Api Resource /a/{proxy+} Paths Path3 -", "Resource /a/{proxy+} would be made beside {b}"},
		"a path is in another stack":           {"/a Paths Path1", "/a Others Path1", "Resource /a is Path1 in Paths of installations, and would be made again as Path1 in Others"},
		"a path has another logical id":        {"/a Paths Path1", "/a Paths Path9", "Resource /a is Path1 in Paths of installations, and would be made again as Path9 in Paths"},
		"a method is in another stack":         {"Methods1 Get1", "Methods2 Get1", "Method GET:/a/{b} is Get1 in Methods1"},
		"a method has another logical id":      {"Methods1 Get1", "Methods1 Get2", "Method GET:/a/{b} is Get1 in Methods1"},
		"an answer has another logical id":     {"installation Answer", "installation Answer2", "GatewayResponse THROTTLED is Answer"},
		"what is gone comes back":              {"", "Api Resource /c/{d} Paths Path4 -\n", ""},
		"what is gone is called otherwise":     {"", "Api Resource /c/{x} Paths Path6 -\n", "Resource /c/{x} would be made beside {d}"},
		"what is gone comes back elsewhere":    {"", "Api Resource /e Others Path5 -\n", "Resource /e is Path5 in Paths"},
		"the same is in another API":           {"", "Other Resource /a/{x} Paths Path2 -\n", ""},
		"a path of that name is below another": {"", "Api Resource /x/a/{c} Paths Path7 -\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := readParts(was)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(was, tc.from, tc.to, 1)
			if text == was && name != "nothing" {
				t.Fatalf("%q is not there", tc.from)
			}
			after, err := readParts(text)
			if err != nil {
				t.Fatal(err)
			}
			after = slices.DeleteFunc(after, func(p part) bool { return p.gone })
			got := refused(before, after)
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want) || !strings.Contains(got[0], "restID")) {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPartsThatAreGoneStayLocked for as long as their API is there: an installation may have them.
func TestPartsThatAreGoneStayLocked(t *testing.T) {
	read := func(text string) []part {
		parts, err := readParts(text)
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	was := read("- DomainName d installation D -\nApi Resource /a Paths Path1 -\ngone Api Resource /b Paths Path2 -\nApi Resource /c Paths Path3 -\nOld Resource /a Paths Path1 -\n")
	is := read("Api Resource /b Paths Path2 -\nApi Resource /c Paths Path3 -\n")
	const want = "gone - DomainName d installation D -\ngone Api Resource /a Paths Path1 -\nApi Resource /b Paths Path2 -\nApi Resource /c Paths Path3 -\n"
	if got := writeParts(locked(was, is)); got != want {
		t.Errorf("locked are\n%swant\n%s", got, want)
	}
	if _, err := readParts("<<<<<<< ours\n"); err == nil || !strings.Contains(err.Error(), lock) {
		t.Errorf("a file with something else is read: %v", err)
	}
}
