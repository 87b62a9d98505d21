package functions_test

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/store"
)

func conditional(d api.Declaration) bool { return d.Conditional() }

// readOf is the single read of what a change is about.
func readOf(d api.Declaration) (read api.Declaration, ok bool) {
	all := groupOf(d).Declarations()
	i := slices.IndexFunc(all, func(r api.Declaration) bool { return r.Single && r.Path == d.ReadAt })
	if i < 0 {
		return read, false
	}
	return all[i], true
}

// readPath is where what a request changes is read, without a query: each parameter of that is one of the request's path or
// query, or a text of its body.
func readPath(t *testing.T, d api.Declaration, path, body string) string {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	if d.ReadAt == d.Path {
		return path
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	members, _ := decoded(t, cmp.Or(body, "{}")).(map[string]any)
	for name, value := range members {
		if text, ok := value.(string); ok {
			values.Set(name, text)
		}
	}
	given := strings.Split(path, "/")
	for i, segment := range strings.Split(d.Path, "/") {
		if strings.HasPrefix(segment, "{") {
			values.Set(strings.Trim(segment, "{}"), given[i])
		}
	}
	for name := range values {
		d.ReadAt = strings.ReplaceAll(d.ReadAt, "{"+name+"}", values.Get(name))
	}
	return d.ReadAt
}

// TestSingleReadsHaveAnETag that is told again by a 304, and lists have none.
func TestSingleReadsHaveAnETag(t *testing.T) {
	p := newPopulated(t)
	each(t, func(d api.Declaration) bool { return d.Method == http.MethodGet }, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			w, first, n := p.good(t, d, r)
			tag := first.Header.Get("ETag")
			if !d.Single {
				if tag != "" {
					t.Errorf("a list has the ETag %s", tag)
				}
				continue
			}
			path, _ := target(t, d, r, n)
			for condition, status := range map[string]int{
				tag: 304, "W/" + tag: 304, "*": 304, `"a", ` + tag: 304, `"a",` + tag + `, W/"b,c"`: 304,
				`"a"`: d.Status, `W/"a"`: d.Status, strings.Trim(tag, `"`): 400, `"a`: 400, `*, "a"`: 400, `"a" "b"`: 400, ",": 400, "": 400,
			} {
				a := w.Call(p.key, d.Method, path, "", "If-None-Match", condition)
				if a.Status != status || status < 400 && a.Header.Get("ETag") != tag || status == 304 && a.Body != "" || status == d.Status && a.Body != first.Body {
					t.Errorf("If-None-Match: %s is answered %s", condition, a.Whole)
				}
			}
		}
	})
}

// TestChangesOnAConditionAskWhatIsThere: a wrong If-Match changes nothing, the
// right one does what the change does without, once.
func TestChangesOnAConditionAskWhatIsThere(t *testing.T) {
	p := newPopulated(t)
	each(t, conditional, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			c := p.tries(t, d, r, nil)
			call := func(w *functionstest.World, condition string) functionstest.Answer {
				w.Now = w.Now.Add(time.Second)
				w.Restart()
				return w.Call(c.key, d.Method, c.path, c.body, "If-Match", condition)
			}
			tag, refused := "", map[string]int{`"a"`: 412, `W/"a"`: 412, `"a`: 400, "": 400, "a": 400}
			if _, ok := readOf(d); ok {
				tag = c.Call(c.key, http.MethodGet, readPath(t, d, c.path, c.body), "").Want(http.StatusOK).Header.Get("ETag")
				refused["W/"+tag] = 412
			}
			for condition, status := range refused {
				before := c.Items.Snapshot()
				call(c.World, condition).Want(status)
				unchanged(t, before, c.Items.Snapshot())
				refusedOnce(c.World, d, before)
			}
			if tag != "" {
				w := c.Copy(t)
				call(w, `"a", `+tag).Want(d.Status)
				if second := call(w, tag); !r.ChangesNothing && second.Status != http.StatusPreconditionFailed && second.Status != http.StatusNotFound {
					t.Errorf("what has changed has the ETag that it had: %s", second.Whole)
				}
			}
			call(c.World, "*").Want(d.Status)
			if d.Method == http.MethodDelete {
				call(c.World, "*").Want(http.StatusNotFound) // as without a condition
			}
		}
	})
}

// TestNothingComesBetweenAConditionAndItsChange has another change happen right
// before the commit of one on a condition, which is refused then: no update is lost.
func TestNothingComesBetweenAConditionAndItsChange(t *testing.T) {
	p := newPopulated(t)
	each(t, conditional, func(t *testing.T, d api.Declaration) {
		read, ok := readOf(d)
		if !ok {
			return
		}
		own := p.book.Request(d)
		for _, other := range p.neighbours(d) {
			between := &interrupted{}
			c := p.tries(t, d, own, func(b store.Backend) store.Backend { between.Backend = b; return between })
			c.Restart()
			look := func() functionstest.Answer {
				return c.Call(c.key, http.MethodGet, readPath(t, d, c.path, c.body), "")
			}
			seen := look().Want(read.Status)
			var met functionstest.Answer
			between.first = func() {
				path, body := target(t, other.Declaration, other.Request, p.names)
				c.Call(c.key, other.Method, path, body)
				met = look()
			}
			a := c.Call(c.key, c.method, c.path, c.body, "If-Match", seen.Header.Get("ETag"))
			switch {
			case met.Status == read.Status && met.Body == seen.Body && a.Status != d.Status:
				t.Errorf("%s leaves what is read as it was, and %s", other.ID, a.Whole)
			case met.Body != seen.Body && a.Status != http.StatusPreconditionFailed && a.Status != http.StatusNotFound:
				t.Errorf("%s came between, and %s", other.ID, a.Whole)
			}
		}
	})
}

// TestAnswersOfChangesHaveTheETagOfWhatTheyAnswer, which a read of it tells next,
// without another call of the table.
func TestAnswersOfChangesHaveTheETagOfWhatTheyAnswer(t *testing.T) {
	p := newPopulated(t)
	told := map[string]bool{}
	each(t, changing, func(t *testing.T, d api.Declaration) {
		for _, headers := range [][]string{nil, {"Idempotency-Key", "order-17"}} {
			for _, r := range variants(p.book, d) {
				w, a, n := p.good(t, d, r, headers...)
				tag := a.Header.Get("ETag")
				if tag == "" {
					continue
				}
				told[d.ID] = true
				path, body := target(t, d, r, n)
				path = readPath(t, d, path, body)
				if d.Method == http.MethodPost && d.ReadAt == d.Path {
					name := a.JSON().Text("id")
					read := w.Call(p.key, http.MethodGet, path+"/"+name, "")
					if name == "" || read.Status != http.StatusOK {
						read = w.Call(p.key, http.MethodGet, path+"/"+a.JSON().Text("name"), "")
					}
					read.Want(http.StatusOK).WantHeader("ETag", tag)
					continue
				}
				w.Call(p.key, http.MethodGet, path, "").Want(http.StatusOK).WantHeader("ETag", tag)
			}
		}
	})
	if only(t) != "" {
		return
	}
	for _, id := range []string{
		"ApiKeyBucketsService_create", "ApiKeyBucketsService_update", "ApiKeyConsumersService_create", "ApiKeyConsumersService_update",
		"ApiKeyKeysService_create", "ApiKeyKeysService_update", "ClientMtlsCaCertificatesService_create", "ClientMtlsCaCertificatesService_update",
		"ApiKeyConsumerManagers_create", "CustomDomainsService_create", "CustomDomainsService_update", "CustomDomainsService_verify",
		"CustomDomainsService_uploadCertificate", "CustomDomainsService_deleteCertificate",
	} {
		if !told[id] {
			t.Errorf("%s answers without an ETag: %v", id, slices.Sorted(maps.Keys(told)))
		}
	}
}

// TestKeptAnswersAreSealed: nothing of an answer can be read in the table.
func TestKeptAnswersAreSealed(t *testing.T) {
	p := newPopulated(t)
	each(t, repeatable, func(t *testing.T, d api.Declaration) {
		c := p.tries(t, d, p.book.Request(d), nil)
		a := c.try().Want(d.Status)
		records := 0
		for key, item := range c.Items.Snapshot() {
			if !strings.HasPrefix(key.PK, "answers#") {
				continue
			}
			records++
			var kept struct {
				Sealed []byte `dynamodbav:"sealed"`
			}
			if err := c.Parts.Table.Get(c.Context(), key, &kept); err != nil || len(kept.Sealed) <= len(a.Body) || bytes.Contains(kept.Sealed, []byte(`"status"`)) {
				t.Errorf("%s has %v, %v", key.PK, item, err)
			}
		}
		if records == 0 {
			t.Error("no answer is kept")
		}
	})
}
