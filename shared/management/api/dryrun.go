package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// DryRunResult is the response to a change that is only tried (Call.DryRun), with status 200. It shows the effects
// of the change, but they have not happened. A change that would be refused gets its usual refusal. Ids,
// keys and times are those of this run: the real change creates others, and a key in a DryRunResult is not valid.
//
// The run uses the table as it is at the time of reading. Later changes of other requests can
// make its result wrong. A DryRunResult contains secrets. Callers that pass it on must mask them.
type DryRunResult struct {
	// DryRun is always true, and shows that nothing was done.
	DryRun bool `json:"dryRun"`
	// Operation is the operation's id. Status is the status code that the operation would return.
	Operation string `json:"operation"`
	Status    int    `json:"status"`
	// Before and After are the object before and after the change, as its read operation returns it, or null if it does
	// not exist. If the change creates an object, or if no read returns the object to this account key, After is the
	// change's own response (null for a deletion) and Before is null.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	// Removes is the number of objects that a deletion removes, by type, including those that durable operations
	// remove afterwards. It is nil if the change is not a deletion.
	Removes map[string]int `json:"removes,omitempty"`
	// AuditRecord is the audit record of the change, or null if the request would change nothing.
	AuditRecord *audit.Entry `json:"auditRecord"`
}

var errRevealedDryRun = fault.New(fault.Invalid, "A dry run writes nothing, so that it cannot record that secrets "+
	"were asked for. Ask for a dry run, or for secrets, and not for both.")

// serveDryRun serves a change that is only tried. It refuses an invalid Idempotency-Key, but
// does not use a valid one: it neither stores a response nor returns a stored response.
func (s *Server) serveDryRun(
	ctx context.Context, w http.ResponseWriter, r *http.Request, d Declaration,
	serve func(context.Context, http.ResponseWriter),
) {
	if stateOf(ctx).call.Reveal {
		writeProblem(ctx, w, errRevealedDryRun)
		return
	}
	condition, err := s.dryRunCondition(r, d)
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	ctx, overlay, run := store.BeginDryRun(ctx)
	out := DryRunResult{DryRun: true, Operation: d.ID}
	object, readable := s.locateObject(ctx, d)
	if out.Before, err = s.readObject(ctx, r, object); err != nil {
		writeProblem(ctx, w, err)
		return
	}
	resp, _, err := s.change(ctx, r, d, "", condition, serve)
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	if !resp.succeeded() {
		resp.send(w)
		return
	}
	out.Status = resp.status
	switch {
	case readable:
		if out.After, err = s.readObject(ctx, r, object); err != nil {
			writeProblem(ctx, w, err)
			return
		}
	case d.Method != http.MethodDelete:
		out.After = bodyJSON(resp)
	}
	out.Removes = countRemoved(d, run)
	if out.AuditRecord, err = dryRunRecord(overlay); err != nil {
		writeProblem(ctx, w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = json.NewEncoder(w).Encode(out) // it fails if the client has closed the connection
}

// dryRunCondition returns the If-Match of a change, or nil if there is none. It refuses an invalid If-Match
// or Idempotency-Key like the change itself.
func (s *Server) dryRunCondition(r *http.Request, d Declaration) (condition *entityTags, err error) {
	if _, err := readIdempotencyKey(r, d); err != nil || !d.AcceptsIfMatch() {
		return nil, err
	}
	return conditionOf(r, "If-Match")
}

// locateObject returns the path where the object of a change is read: the change's own path, or the path in its
// declaration. If the change's path has an additional last segment, such as .../roll-key, locateObject returns the
// path without this segment. readable is false in four cases: the change creates an object, the request does not name
// its object, there is no read, or the account key may not use the read.
func (s *Server) locateObject(ctx context.Context, d Declaration) (object objectPath, readable bool) {
	if d.Audit.Creates() {
		return objectPath{}, false
	}
	object = objectPath{d.ReadPath, stateOf(ctx).readPath}
	if object.path == "" {
		return objectPath{}, false // the request does not name its object, and will be refused
	}
	scope, readable := s.readScopes[object.pattern]
	if !readable && !strings.HasSuffix(object.pattern, "}") { // without a declared ReadPath, pattern is the change's path
		object = objectPath{parent(object.pattern), parent(object.path)}
		scope, readable = s.readScopes[object.pattern]
	}
	if !readable || scope != "" && !stateOf(ctx).principal.Allows(scope) {
		return objectPath{}, false
	}
	return object, true
}

// objectPath is the path of an object: the pattern in the declaration, and the path in the request.
type objectPath struct{ pattern, path string }

// parent returns a path without its last segment.
func parent(path string) string { return path[:max(0, strings.LastIndex(path, "/"))] }

// readObject returns an object as its read operation returns it to the caller. It returns nil if object is empty, if
// the object does not exist, or if the read is refused with another 4xx status. A 429 or 5xx of the read is an error.
func (s *Server) readObject(ctx context.Context, r *http.Request, object objectPath) (json.RawMessage, error) {
	if object == (objectPath{}) {
		return nil, nil
	}
	out, problem := s.readInternally(store.WithoutReadSet(ctx, "a dry run decides nothing by what it shows"), r,
		object.path)
	switch {
	case out.succeeded():
		return bodyJSON(out), nil
	case problem != nil && (problem.Status >= http.StatusInternalServerError ||
		problem.Status == http.StatusTooManyRequests):
		return nil, problem.cause
	}
	return nil, nil // the operation itself reports errors of the request
}

// bodyJSON returns the body of a response without surrounding white space.
func bodyJSON(out *bufferedResponse) json.RawMessage {
	return json.RawMessage(bytes.TrimSpace(out.body.Bytes()))
}

// countRemoved counts the objects that a deletion removes, by type: the objects that the run has
// reported, and one object of the deletion's own type if the run has reported none of this type.
func countRemoved(d Declaration, run *dryrun.Run) map[string]int {
	if d.Method != http.MethodDelete {
		return nil
	}
	all := run.Removals()
	resource := plural(d.Audit.ResourceType())
	if _, counted := all[resource]; !counted {
		all[resource] = 1
	}
	return all
}

// plural returns the plural of a resource type in the spelling of the API's lists: apiKeys for api-key.
func plural(resource string) string {
	var out strings.Builder
	for i, part := range strings.Split(resource, "-") {
		if i > 0 {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		out.WriteString(part)
	}
	return out.String() + "s"
}

// dryRunRecord returns the audit record that a dry run would write, or nil if it would write none.
func dryRunRecord(overlay *store.Overlay) (*audit.Entry, error) {
	items := overlay.Written(audit.IsPending)
	if len(items) == 0 {
		return nil, nil
	}
	_, e, ok := audit.Decode(items[0])
	if !ok || len(items) > 1 {
		return nil, fmt.Errorf("a dry run has made %d audit records, or one that cannot be read", len(items))
	}
	return &e, nil
}
