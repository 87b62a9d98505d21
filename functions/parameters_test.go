package functions_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/shared/management/api"
)

// TestEmptyParametersAreRefused checks that empty query parameters are refused. If they were treated as missing, limit=
// would return 1000 entries, and manager-email= every consumer.
func TestEmptyParametersAreRefused(t *testing.T) {
	p := newPopulatedFixture(t)
	operations, _ := readOpenAPI(t)
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, parameter := range operations[d.ID].Parameters {
			switch {
			case parameter.In != "query",
				parameter.Name == "tag",         // callers choose the names of tags
				parameter.Name == "accountName": // clients without an account name send an empty one
				continue
			}
			for _, query := range []string{parameter.Name + "=", parameter.Name} {
				r := p.sampleSet.Request(d)
				r.Query = strings.TrimPrefix(r.Query+"&"+query, "&")
				path, body := requestTarget(t, d, r, p.values)
				fx := p.Copy(t)
				before := fx.Items.Snapshot()
				fx.Call(p.key, d.Method, path, body).Want(http.StatusBadRequest, "query."+parameter.Name+": is empty")
				assertRefusalRecorded(fx, d, before)
			}
		}
	})
}

// TestRepeatedParametersAreRefused checks that repeated query parameters are refused, because parsers interpret
// limit=1&limit=2 differently.
func TestRepeatedParametersAreRefused(t *testing.T) {
	p := newPopulatedFixture(t)
	operations, _ := readOpenAPI(t)
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, parameter := range operations[d.ID].Parameters {
			// these parameters can be repeated
			if parameter.In != "query" || parameter.Name == "tag" || parameter.Name == "consumers" {
				continue
			}
			first := parameter.Name
			escaped := fmt.Sprintf("%%%x%s", first[:1], first[1:])
			for _, second := range []string{first + "=2", first + "=1", escaped + "=2"} {
				r := p.sampleSet.Request(d)
				r.Query = first + "=1&" + second
				path, body := requestTarget(t, d, r, p.values)
				fx := p.Copy(t)
				before := fx.Items.Snapshot()
				fx.Call(p.key, d.Method, path, body).Want(http.StatusBadRequest, "query."+first+": is given more than once")
				assertRefusalRecorded(fx, d, before)
			}
		}
	})
}

// TestUnauthenticatedRequestIsAlwaysUnauthorized checks that the response to a request without a key is 401, even if
// the path or the query is invalid too.
func TestUnauthenticatedRequestIsAlwaysUnauthorized(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, needsKey, func(t *testing.T, d api.Declaration) {
		r, fx := p.sampleSet.Request(d), p.Copy(t)
		path, body := requestTarget(t, d, r, p.values)
		paths := []string{path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "a=%00"}
		for _, name := range events.Parameters(d) {
			n := maps.Clone(p.values)
			n[name] = "a\x00\ufffd"
			invalidPath, _ := requestTarget(t, d, r, n)
			paths = append(paths, invalidPath)
		}
		before := fx.Items.Snapshot()
		for _, path := range paths {
			fx.Call("", d.Method, path, body).Want(http.StatusUnauthorized)
		}
		assertUnchanged(t, before, fx.Items.Snapshot())
	})
}

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// TestUUIDsAreCaseInsensitive checks that every object that a path identifies by a UUID is also found by the UUID in
// upper case.
func TestUUIDsAreCaseInsensitive(t *testing.T) {
	p := newPopulatedFixture(t)
	tested := false
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, name := range events.Parameters(d) {
			if !uuidPattern.MatchString(p.values[name]) {
				continue
			}
			tested = true
			n := maps.Clone(p.values)
			n[name] = strings.ToUpper(n[name])
			path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
			want := p.Copy(t).Call(p.key, d.Method, path, body).Want(d.Status)
			path, body = requestTarget(t, d, p.sampleSet.Request(d), n)
			if got := p.Copy(t).Call(p.key, d.Method, path, body); got.Body != want.Body || got.Status != want.Status {
				t.Errorf("request with %s in upper case = %d %s, want %d %s", name, got.Status, got.Body, want.Status, want.Body)
			}
		}
	})
	if onlyGroup(t) == "" && !tested {
		t.Error("number of paths with a UUID = 0, want 1 or more")
	}
}
