package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// An ETag is a digest of what a read answers, whatever records that is made of: it
// changes when, and only when, what a client has seen does
// (docs/decisions/0034-etags-of-what-is-answered.md). Two consequences:
//
// A change on a condition (If-Match) makes the read of what it is about by itself, and
// commits over all that this has read: nothing can come between. That read is the one of
// its path, or the one that it declares (Operation.ReadAt).
//
// The answer of a change has the ETag that a read will have after it where that is
// known without another look at the table, from what the change has read and
// written.

// etagOf gives the strong ETag of a body.
func etagOf(body []byte) string {
	const enough = 16 // bytes: two bodies never meet
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:enough]) + `"`
}

// entityTags are the tags that a condition lists (RFC 9110, 13.1).
type entityTags struct {
	any  bool
	tags []string // as they were written
}

// oneTag is RFC 9110, 8.8.3, with what may stand before it in a list.
var oneTag = regexp.MustCompile(`^[ \t,]*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)`)

// maxConditionBytes is how long a list of tags may be.
const maxConditionBytes = 2000

// conditionOf reads a header with a condition, nil when there is none.
func conditionOf(r *http.Request, name string) (*entityTags, error) {
	values := r.Header.Values(name)
	if values == nil {
		return nil, nil
	}
	rest := strings.Join(values, ", ")
	if strings.TrimSpace(rest) == "*" {
		return &entityTags{any: true}, nil
	}
	out := &entityTags{}
	if len(rest) > maxConditionBytes {
		return nil, fault.InvalidField("header."+name, "has more than %d bytes", maxConditionBytes)
	}
	for strings.Trim(rest, " \t,") != "" {
		found := oneTag.FindStringSubmatch(rest)
		if found == nil {
			out.tags = nil
			break
		}
		out.tags = append(out.tags, found[1])
		rest = rest[len(found[0]):]
	}
	if out.tags == nil {
		return nil, fault.InvalidField("header."+name, `has to be *, or a list of ETags with their quotes, as in "a", "b"`)
	}
	return out, nil
}

// strong reports whether the condition has the tag of what is there, "" for
// nothing. A weak tag is none (RFC 9110, 13.1.1).
func (e entityTags) strong(tag string) bool {
	return tag != "" && (e.any || slices.Contains(e.tags, tag))
}

// weak is strong for a read, where weak tags count as well (RFC 9110, 13.1.2).
func (e entityTags) weak(tag string) bool { return e.strong(tag) || slices.Contains(e.tags, "W/"+tag) }

// answerRead answers a single read, with its ETag.
func (s *Server) answerRead(ctx context.Context, w http.ResponseWriter, r *http.Request, ask func(context.Context, http.ResponseWriter)) {
	known, err := conditionOf(r, "If-None-Match")
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	out := newDraft()
	ask(ctx, out)
	if out.succeeded() {
		tag := etagOf(out.body.Bytes())
		out.header.Set("ETag", tag)
		if known != nil && known.weak(tag) {
			out.status = http.StatusNotModified
			out.header.Del("Content-Type")
			out.body.Reset()
		}
	}
	out.send(w)
}

// look makes the read of a path within a change, and answers what the caller
// would be answered, whatever the scopes of its key: a key that may change
// something may read it.
func (s *Server) look(ctx context.Context, r *http.Request, path string) (*draft, *Problem) {
	u := &url.URL{Path: path, RawPath: path}
	u.Path, _ = url.PathUnescape(path) // which is escaped: it was routed, or is escaped here
	outer := stateOf(ctx)
	st := &state{
		requestID: outer.requestID, path: outer.path, address: outer.address, start: outer.start,
		principal: outer.principal, inner: true, calls: outer.calls, server: s,
	}
	read := (&http.Request{Method: http.MethodGet, URL: u, Host: r.Host, Header: http.Header{}, Body: http.NoBody}).
		WithContext(context.WithValue(ctx, stateKey{}, st))
	out := newDraft()
	s.mux.ServeHTTP(out, read)
	return out, st.problem
}

var errOutdated = fault.New(fault.Outdated, "What this request is about is not what If-Match names: it has changed, or is gone. Read it again, see whether the change is still wanted, and repeat the request with the new ETag.")

// holds reports whether what a change is about is as its If-Match says, and what
// this was read from, over which the change has to be committed. Fault: Outdated.
func (s *Server) holds(ctx context.Context, r *http.Request, d Declaration, want *entityTags) (*store.Notes, error) {
	if want == nil {
		return nil, nil
	}
	path := stateOf(ctx).readAt
	if _, ok := s.reads[d.ReadAt]; !ok || path == "" {
		if want.any {
			return nil, nil // the change itself has found it
		}
		return nil, errOutdated // nobody was ever told an ETag of it
	}
	ctx, notes := store.Note(ctx)
	out, problem := s.look(ctx, r, path)
	switch {
	case out.succeeded() && want.strong(etagOf(out.body.Bytes())):
		return notes, nil
	case want.any && problem != nil && problem.Status == http.StatusNotFound:
		return nil, problem.cause // as without a condition
	case problem != nil && problem.Status >= http.StatusInternalServerError, problem != nil && problem.Status == http.StatusTooManyRequests:
		return nil, problem.cause
	}
	return nil, errOutdated
}

// tag gives the answer of a change the ETag of what it answers, where the notes of
// the change tell it.
func (s *Server) tag(ctx context.Context, r *http.Request, d Declaration, notes *store.Notes, out *draft) {
	if out.body.Len() == 0 {
		return
	}
	path, ok := s.answered(ctx, r, d, out)
	if !ok {
		return
	}
	if read, _ := s.look(notes.Recall(ctx), r, path); read.succeeded() {
		out.header.Set("ETag", etagOf(read.body.Bytes()))
	}
}

// answered gives the path at which the answer of a change is read: that of what it is
// about, or for what was made in a collection, that under its name or id there.
func (s *Server) answered(ctx context.Context, r *http.Request, d Declaration, out *draft) (path string, ok bool) {
	if d.Method != http.MethodPost || d.ReadAt != d.Path {
		path = stateOf(ctx).readAt
		_, ok := s.reads[d.ReadAt]
		return path, ok && path != ""
	}
	for _, read := range slices.Sorted(maps.Keys(s.reads)) {
		parameter, under := strings.CutPrefix(read, d.Path+"/{")
		if !under || strings.Contains(parameter, "/") {
			continue
		}
		field := "id"
		if strings.HasSuffix(parameter, "Name}") {
			field = "name"
		}
		var made map[string]any
		if json.Unmarshal(out.body.Bytes(), &made) != nil {
			return "", false
		}
		name, _ := made[field].(string)
		return r.URL.EscapedPath() + "/" + url.PathEscape(name), name != ""
	}
	return "", false
}
