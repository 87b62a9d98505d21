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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// An ETag is a digest of the response to a read, and not of the stored records. It
// changes exactly when the response changes (decision 0034). This has two consequences:
//
// A conditional change (If-Match) also reads its object like a read request. Its commit checks everything that
// this read has used, and fails if another change has changed something of it between the read and the commit.
// The path of the read is the change's path, or the path in its declaration (Operation.ReadPath).
//
// The response to a change has the ETag that a read after the change would return. It has no
// ETag if computing the ETag would need items that the change has neither read nor written.

// etagOf returns the strong ETag of a body.
func etagOf(body []byte) string {
	const size = 16 // bytes: a collision is practically impossible
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:size]) + `"`
}

// entityTags are the tags in a condition (RFC 9110, 13.1).
type entityTags struct {
	any  bool     // the condition is *
	tags []string // as the client wrote them
}

// tagPattern matches an entity tag (RFC 9110, 8.8.3), with the separators that can be before it in a list.
var tagPattern = regexp.MustCompile(`^[ \t,]*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)`)

// maxConditionBytes is the maximum length of a condition's header value.
const maxConditionBytes = 2000

// conditionOf reads a header with a condition. It returns nil if the request does not have the header.
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
		match := tagPattern.FindStringSubmatch(rest)
		if match == nil {
			out.tags = nil
			break
		}
		out.tags = append(out.tags, match[1])
		rest = rest[len(match[0]):]
	}
	if out.tags == nil {
		return nil, fault.InvalidField("header."+name, `has to be *, or a list of ETags with their quotes, as in "a", "b"`)
	}
	return out, nil
}

// matchesStrong reports whether the condition matches the tag of the current object, which is "" if there is no object.
// Weak tags do not match (RFC 9110, 13.1.1).
func (e entityTags) matchesStrong(tag string) bool {
	return tag != "" && (e.any || slices.Contains(e.tags, tag))
}

// matchesWeak is like matchesStrong, but weak tags match too. It is for reads (RFC 9110, 13.1.2).
func (e entityTags) matchesWeak(tag string) bool {
	return e.matchesStrong(tag) || slices.Contains(e.tags, "W/"+tag)
}

// serveRead serves the read of one object, and sets the ETag. It responds 304 if the ETag matches If-None-Match.
func (s *Server) serveRead(
	ctx context.Context, w http.ResponseWriter, r *http.Request, serve func(context.Context, http.ResponseWriter),
) {
	ifNoneMatch, err := conditionOf(r, "If-None-Match")
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	out := newBufferedResponse()
	serve(ctx, out)
	if out.succeeded() {
		tag := etagOf(out.body.Bytes())
		out.header.Set("ETag", tag)
		if ifNoneMatch != nil && ifNoneMatch.matchesWeak(tag) {
			out.status = http.StatusNotModified
			out.header.Del("Content-Type")
			out.body.Reset()
		}
	}
	out.send(w)
}

// readInternally reads a path during a change or a dry run. It returns the response that the caller of the change
// would receive, and the response's problem, or nil if the read succeeded. path is escaped. readInternally ignores
// the scopes of the key: a key that may change an object may read it.
func (s *Server) readInternally(ctx context.Context, r *http.Request, path string) (*bufferedResponse, *Problem) {
	u := &url.URL{Path: path, RawPath: path}
	u.Path, _ = url.PathUnescape(path) // path is escaped: the router has accepted it, or this package has escaped it
	outer := stateOf(ctx)
	st := &state{
		requestID: outer.requestID, path: outer.path, url: outer.url, start: outer.start,
		principal: outer.principal, internal: true, calls: outer.calls, server: s,
	}
	request := (&http.Request{Method: http.MethodGet, URL: u, Host: r.Host, Header: http.Header{}, Body: http.NoBody}).
		WithContext(context.WithValue(ctx, stateKey{}, st))
	out := newBufferedResponse()
	s.mux.ServeHTTP(out, request)
	return out, st.problem
}

var errPreconditionFailed = fault.New(fault.PreconditionFailed, "What this request is about is not what If-Match "+
	"names: it has changed, or is gone. Read it again, see whether the change is still wanted, and repeat the request "+
	"with the new ETag.")

// checkIfMatch checks that the object of a change has an ETag of its If-Match; want is nil if there is no If-Match. It
// returns the items that the read of the object used, so that the change is committed only if these have not changed.
// Faults: PreconditionFailed, and the read's fault if a limit or the server prevents the read. If the condition is *, a
// missing object has its usual NotFound.
func (s *Server) checkIfMatch(
	ctx context.Context, r *http.Request, d Declaration, want *entityTags,
) (*store.ReadCache, error) {
	if want == nil {
		return nil, nil
	}
	path := stateOf(ctx).readPath
	if _, ok := s.readScopes[d.ReadPath]; !ok || path == "" {
		if want.any {
			return nil, nil // the change itself has found the object
		}
		return nil, errPreconditionFailed // no client can have an ETag of the object
	}
	ctx, readCache := store.WithReadCache(ctx)
	out, problem := s.readInternally(ctx, r, path)
	switch {
	case out.succeeded() && want.matchesStrong(etagOf(out.body.Bytes())):
		return readCache, nil
	case want.any && problem != nil && problem.Status == http.StatusNotFound:
		return nil, problem.cause // the same response as without a condition
	case problem != nil && problem.Status >= http.StatusInternalServerError, problem != nil &&
		problem.Status == http.StatusTooManyRequests:
		return nil, problem.cause
	}
	return nil, errPreconditionFailed
}

// setETag sets the ETag of a change's response, if the response has a body and readCache contains all items that a
// read of the object needs.
func (s *Server) setETag(
	ctx context.Context, r *http.Request, d Declaration, readCache *store.ReadCache, out *bufferedResponse,
) {
	if out.body.Len() == 0 {
		return
	}
	path, ok := s.responsePath(ctx, r, d, out)
	if !ok {
		return
	}
	if read, _ := s.readInternally(readCache.CacheOnly(ctx), r, path); read.succeeded() {
		out.header.Set("ETag", etagOf(read.body.Bytes()))
	}
}

// responsePath returns the path at which the object in the response of a change is
// read. This is the path of the change's object. For an object that was created in
// a collection, it is the collection's path with the name or id of the object.
func (s *Server) responsePath(
	ctx context.Context, r *http.Request, d Declaration, out *bufferedResponse,
) (path string, ok bool) {
	if d.Method != http.MethodPost || d.ReadPath != d.Path {
		path = stateOf(ctx).readPath
		_, ok := s.readScopes[d.ReadPath]
		return path, ok && path != ""
	}
	for _, read := range slices.Sorted(maps.Keys(s.readScopes)) {
		parameter, isChild := strings.CutPrefix(read, d.Path+"/{")
		if !isChild || strings.Contains(parameter, "/") {
			continue
		}
		field := "id"
		if strings.HasSuffix(parameter, "Name}") {
			field = "name"
		}
		var created map[string]any
		if json.Unmarshal(out.body.Bytes(), &created) != nil {
			return "", false
		}
		name, _ := created[field].(string)
		return r.URL.EscapedPath() + "/" + url.PathEscape(name), name != ""
	}
	return "", false
}
