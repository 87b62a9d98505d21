package functions_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/shared/api"
)

// TestEmptyParametersAreRefused: a parameter of a query that is there and empty is
// a mistake. To take it for absent would answer limit= with 1000 entries and
// manager-email= with every consumer.
func TestEmptyParametersAreRefused(t *testing.T) {
	p := newPopulated(t)
	operations, _ := requests(t)
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, parameter := range operations[d.ID].Parameters {
			switch {
			case parameter.In != "query",
				parameter.Name == "tag",         // whose names are the caller's own
				parameter.Name == "accountName": // the key's own account, where a client has none
				continue
			}
			for _, spelled := range []string{parameter.Name + "=", parameter.Name} {
				r := p.book.Request(d)
				r.Query = strings.TrimPrefix(r.Query+"&"+spelled, "&")
				path, body := target(t, d, r, p.names)
				w := p.Copy(t)
				before := w.Items.Snapshot()
				w.Call(p.key, d.Method, path, body).Want(http.StatusBadRequest, "query."+parameter.Name+": is empty")
				refusedOnce(w, d, before)
			}
		}
	})
}

// TestRepeatedParametersAreRefused: of limit=1&limit=2 two parsers take different
// ones.
func TestRepeatedParametersAreRefused(t *testing.T) {
	p := newPopulated(t)
	operations, _ := requests(t)
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, parameter := range operations[d.ID].Parameters {
			if parameter.In != "query" || parameter.Name == "tag" || parameter.Name == "consumers" { // of which there may be several
				continue
			}
			first := parameter.Name
			escaped := fmt.Sprintf("%%%x%s", first[:1], first[1:])
			for _, second := range []string{first + "=2", first + "=1", escaped + "=2"} {
				r := p.book.Request(d)
				r.Query = first + "=1&" + second
				path, body := target(t, d, r, p.names)
				w := p.Copy(t)
				before := w.Items.Snapshot()
				w.Call(p.key, d.Method, path, body).Want(http.StatusBadRequest, "query."+first+": is given more than once")
				refusedOnce(w, d, before)
			}
		}
	})
}

// TestStrangersAreRefusedWhateverTheyAsk: what is wrong with a path or a query is
// told to callers who are known.
func TestStrangersAreRefusedWhateverTheyAsk(t *testing.T) {
	p := newPopulated(t)
	each(t, private, func(t *testing.T, d api.Declaration) {
		r, w := p.book.Request(d), p.Copy(t)
		path, body := target(t, d, r, p.names)
		asked := []string{path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "a=%00"}
		for _, name := range events.Parameters(d) {
			n := maps.Clone(p.names)
			n[name] = "a\x00\ufffd"
			spoilt, _ := target(t, d, r, n)
			asked = append(asked, spoilt)
		}
		before := w.Items.Snapshot()
		for _, path := range asked {
			w.Call("", d.Method, path, body).Want(http.StatusUnauthorized)
		}
		unchanged(t, before, w.Items.Snapshot())
	})
}

var uuidText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// TestUUIDsAreTheSameInEitherCase asks for everything that a path names by a UUID
// in upper case, too.
func TestUUIDsAreTheSameInEitherCase(t *testing.T) {
	p := newPopulated(t)
	found := false
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, name := range events.Parameters(d) {
			if !uuidText.MatchString(p.names[name]) {
				continue
			}
			found = true
			n := maps.Clone(p.names)
			n[name] = strings.ToUpper(n[name])
			path, body := target(t, d, p.book.Request(d), p.names)
			want := p.Copy(t).Call(p.key, d.Method, path, body).Want(d.Status)
			path, body = target(t, d, p.book.Request(d), n)
			if got := p.Copy(t).Call(p.key, d.Method, path, body); got.Body != want.Body || got.Status != want.Status {
				t.Errorf("%s in upper case is answered %d %s, want %d %s", name, got.Status, got.Body, want.Status, want.Body)
			}
		}
	})
	if only(t) == "" && !found {
		t.Error("no path of the API has a UUID: this test looks at nothing")
	}
}
