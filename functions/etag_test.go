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
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

func isConditional(d api.Declaration) bool { return d.AcceptsIfMatch() }

// readOperation returns the operation that reads the object that d changes. ok is false if no operation reads it.
func readOperation(d api.Declaration) (read api.Declaration, ok bool) {
	declarations := groupOf(d).Declarations()
	i := slices.IndexFunc(declarations, func(r api.Declaration) bool { return r.Single && r.Path == d.ReadPath })
	if i < 0 {
		return read, false
	}
	return declarations[i], true
}

// readPath returns the path, without a query, at which the object of a request is read. The values of its parameters
// are from the request's path, query or body.
func readPath(t *testing.T, d api.Declaration, path, body string) string {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	if d.ReadPath == d.Path {
		return path
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	fields, _ := decodeJSON(t, cmp.Or(body, "{}")).(map[string]any)
	for name, value := range fields {
		if text, ok := value.(string); ok {
			values.Set(name, text)
		}
	}
	segments := strings.Split(path, "/")
	for i, segment := range strings.Split(d.Path, "/") {
		if strings.HasPrefix(segment, "{") {
			values.Set(strings.Trim(segment, "{}"), segments[i])
		}
	}
	for name := range values {
		d.ReadPath = strings.ReplaceAll(d.ReadPath, "{"+name+"}", values.Get(name))
	}
	return d.ReadPath
}

// TestSingleReadsHaveETag checks that the response of each single read has an ETag, and that the response of a list has
// none. A read with If-None-Match must return 304 if the header matches the ETag, the object if it does not match, and
// 400 if it is invalid.
func TestSingleReadsHaveETag(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, func(d api.Declaration) bool {
		return d.Method == http.MethodGet
	}, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			fx, first, values := p.sendValid(t, d, r)
			tag := first.Header.Get("ETag")
			if !d.Single {
				if tag != "" {
					t.Errorf("ETag of the list %s = %s, want none", d.ID, tag)
				}
				continue
			}
			path, _ := requestTarget(t, d, r, values)
			for condition, status := range map[string]int{
				tag: 304, "W/" + tag: 304, "*": 304, `"a", ` + tag: 304, `"a",` + tag + `, W/"b,c"`: 304,
				`"a"`: d.Status, `W/"a"`: d.Status, strings.Trim(tag, `"`): 400, `"a`: 400, `*, "a"`: 400, `"a" "b"`: 400, ",": 400,
				"": 400,
			} {
				resp := fx.Call(p.key, d.Method, path, "", "If-None-Match", condition)
				if resp.Status != status {
					t.Errorf("If-None-Match: %s: response = %s, want %d", condition, resp.Dump, status)
					continue
				}
				if got := resp.Header.Get("ETag"); status < 400 && got != tag {
					t.Errorf("If-None-Match: %s: ETag of the %d response = %q, want %q", condition, status, got, tag)
				}
				if status == 304 && resp.Body != "" {
					t.Errorf("If-None-Match: %s: body of the 304 response = %q, want none", condition, resp.Body)
				}
				if status == d.Status && resp.Body != first.Body {
					t.Errorf("If-None-Match: %s: body = %s, want %s", condition, resp.Body, first.Body)
				}
			}
		}
	})
}

// TestConditionalChangeChecksIfMatch checks that a change with a wrong If-Match changes nothing, and that a change with
// the object's ETag or with * succeeds. After a change, the earlier ETag must be refused.
func TestConditionalChangeChecksIfMatch(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, isConditional, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			c := p.newPreparedRequest(t, d, r, nil)
			call := func(fx *functionstest.Fixture, condition string) functionstest.Response {
				fx.Now = fx.Now.Add(time.Second)
				fx.Restart()
				return fx.Call(c.key, d.Method, c.path, c.body, "If-Match", condition)
			}
			tag, refusedConditions := "", map[string]int{`"a"`: 412, `W/"a"`: 412, `"a`: 400, "": 400, "a": 400}
			if _, ok := readOperation(d); ok {
				tag = c.Call(c.key, http.MethodGet, readPath(t, d, c.path, c.body), "").Want(http.StatusOK).Header.Get("ETag")
				refusedConditions["W/"+tag] = 412
			}
			for condition, status := range refusedConditions {
				before := c.Items.Snapshot()
				call(c.Fixture, condition).Want(status)
				assertUnchanged(t, before, c.Items.Snapshot())
				assertRefusalRecorded(c.Fixture, d, before)
			}
			if tag != "" {
				fx := c.Copy(t)
				call(fx, `"a", `+tag).Want(d.Status)
				if second := call(fx, tag); !r.ChangesNothing && second.Status != http.StatusPreconditionFailed &&
					second.Status != http.StatusNotFound {
					t.Errorf("%s with the ETag of before the change = %s, want 412 or 404", d.ID, second.Dump)
				}
			}
			call(c.Fixture, "*").Want(d.Status)
			if d.Method == http.MethodDelete {
				call(c.Fixture, "*").Want(http.StatusNotFound) // the same as without If-Match
			}
		}
	})
}

// TestConcurrentChangeFailsIfMatch makes another change just before the commit of a conditional change. If the other
// change has changed the object, the conditional change must be refused, so that the other change is not lost.
func TestConcurrentChangeFailsIfMatch(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, isConditional, func(t *testing.T, d api.Declaration) {
		read, ok := readOperation(d)
		if !ok {
			return
		}
		request := p.sampleSet.Request(d)
		for _, concurrent := range p.groupChanges(d) {
			backend := &interruptedBackend{}
			c := p.newPreparedRequest(t, d, request, func(b store.Backend) store.Backend {
				backend.Backend = b
				return backend
			})
			c.Restart()
			readObject := func() functionstest.Response {
				return c.Call(c.key, http.MethodGet, readPath(t, d, c.path, c.body), "")
			}
			before := readObject().Want(read.Status)
			var after functionstest.Response
			backend.beforeCommit = func() {
				path, body := requestTarget(t, concurrent.Declaration, concurrent.Request, p.values)
				c.Call(c.key, concurrent.Method, path, body)
				after = readObject()
			}
			resp := c.Call(c.key, c.method, c.path, c.body, "If-Match", before.Header.Get("ETag"))
			switch {
			case after.Status == read.Status && after.Body == before.Body && resp.Status != d.Status:
				t.Errorf("%s left the resource unchanged: response = %s, want %d", concurrent.ID, resp.Dump, d.Status)
			case after.Body != before.Body && resp.Status != http.StatusPreconditionFailed && resp.Status != http.StatusNotFound:
				t.Errorf("%s changed the resource: response = %s, want 412 or 404", concurrent.ID, resp.Dump)
			}
		}
	})
}

// TestChangeResponsesHaveETagOfNextRead checks that an ETag in the response to a change equals the ETag of the next
// read. Some operations must have an ETag in their responses.
func TestChangeResponsesHaveETagOfNextRead(t *testing.T) {
	p := newPopulatedFixture(t)
	hasETag := map[string]bool{}
	forEachOperation(t, mutates, func(t *testing.T, d api.Declaration) {
		for _, headers := range [][]string{nil, {"Idempotency-Key", "order-17"}} {
			for _, r := range variants(p.sampleSet, d) {
				fx, resp, values := p.sendValid(t, d, r, headers...)
				tag := resp.Header.Get("ETag")
				if tag == "" {
					continue
				}
				hasETag[d.ID] = true
				path, body := requestTarget(t, d, r, values)
				path = readPath(t, d, path, body)
				if d.Method == http.MethodPost && d.ReadPath == d.Path {
					name := resp.JSON().Text("id")
					read := fx.Call(p.key, http.MethodGet, path+"/"+name, "")
					if name == "" || read.Status != http.StatusOK {
						read = fx.Call(p.key, http.MethodGet, path+"/"+resp.JSON().Text("name"), "")
					}
					read.Want(http.StatusOK).WantHeader("ETag", tag)
					continue
				}
				fx.Call(p.key, http.MethodGet, path, "").Want(http.StatusOK).WantHeader("ETag", tag)
			}
		}
	})
	if onlyGroup(t) != "" {
		return
	}
	for _, id := range []string{
		"ApiKeyBucketsService_create", "ApiKeyBucketsService_update", "ApiKeyConsumersService_create",
		"ApiKeyConsumersService_update",
		"ApiKeyKeysService_create", "ApiKeyKeysService_update", "ClientMtlsCaCertificatesService_create",
		"ClientMtlsCaCertificatesService_update",
		"ApiKeyConsumerManagers_create", "CustomDomainsService_create", "CustomDomainsService_update",
		"CustomDomainsService_verify",
		"CustomDomainsService_uploadCertificate", "CustomDomainsService_deleteCertificate",
	} {
		if !hasETag[id] {
			t.Errorf("operations with an ETag in the response = %v, want %s too", slices.Sorted(maps.Keys(hasETag)), id)
		}
	}
}

// TestStoredResponsesAreSealed checks that the responses that are stored for retries with an Idempotency-Key are
// encrypted in the table.
func TestStoredResponsesAreSealed(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, takesIdempotencyKey, func(t *testing.T, d api.Declaration) {
		c := p.newPreparedRequest(t, d, p.sampleSet.Request(d), nil)
		resp := c.send().Want(d.Status)
		records := 0
		for key := range c.Items.Snapshot() {
			if !strings.HasPrefix(key.PK, "answers#") {
				continue
			}
			records++
			var stored struct {
				Sealed []byte `dynamodbav:"sealed"`
			}
			if err := c.Parts.Table.Get(c.Context(), key, &stored); err != nil {
				t.Errorf("Get(%s) = %v, want nil", key.PK, err)
				continue
			}
			if len(stored.Sealed) <= len(resp.Body) {
				t.Errorf("stored response %s has %d bytes, want more than the %d bytes of the body",
					key.PK, len(stored.Sealed), len(resp.Body))
			}
			if bytes.Contains(stored.Sealed, []byte(`"status"`)) {
				t.Errorf("stored response %s = %s, want it encrypted", key.PK, stored.Sealed)
			}
		}
		if records == 0 {
			t.Error("number of stored responses = 0, want 1 or more")
		}
	})
}
