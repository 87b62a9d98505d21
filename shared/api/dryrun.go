package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/dryrun"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// DryRun is what a change is answered that is only tried (Call.DryRun), with 200: all
// that it would do, of which nothing was done. What it would be refused for is
// answered as it would be. Ids, keys and times in it are those of this run: the
// change itself makes others, and a key that is shown here opens nothing.
//
// The run decides by what the table holds as it reads it; what others change
// afterwards it does not know. Its secrets are shown: who passes it on masks them.
type DryRun struct {
	// DryRun is true: who reads the answer sees that nothing was done.
	DryRun bool `json:"dryRun"`
	// Operation is the operation's id, Status what it would answer.
	Operation string `json:"operation"`
	Status    int    `json:"status"`
	// Before and After are what the change is about as its read answers it: null
	// where there is nothing. Where it makes something, and where nothing reads it or the
	// account key may not, After is the change's own answer, and Before is null.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	// Removes counts, by type, what a deletion takes away in the end, with what
	// durable operations remove afterwards; nil for what is no deletion.
	Removes map[string]int `json:"removes,omitempty"`
	// AuditRecord is the record that the change would leave, null for one that
	// changes nothing.
	AuditRecord *audit.Entry `json:"auditRecord"`
}

var errRevealedDryRun = fault.New(fault.Invalid, "A dry run writes nothing, so that it cannot record that secrets were asked for. Ask for a dry run, or for secrets, and not for both.")

// answerDryRun answers a change that is only tried. Its Idempotency-Key means nothing:
// no answer is kept of it, and none that is kept is answered.
func (s *Server) answerDryRun(ctx context.Context, w http.ResponseWriter, r *http.Request, d Declaration, ask func(context.Context, http.ResponseWriter)) {
	if stateOf(ctx).call.Reveal {
		writeProblem(ctx, w, errRevealedDryRun)
		return
	}
	condition, err := s.tryable(r, d)
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	ctx, trial, run := store.Try(ctx)
	out := DryRun{DryRun: true, Operation: d.ID}
	subject, read := s.subject(ctx, d)
	if out.Before, err = s.glance(ctx, r, subject); err != nil {
		writeProblem(ctx, w, err)
		return
	}
	answer, _, err := s.change(ctx, r, d, "", condition, ask)
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	if !answer.succeeded() {
		answer.send(w)
		return
	}
	out.Status = answer.status
	switch {
	case read:
		if out.After, err = s.glance(ctx, r, subject); err != nil {
			writeProblem(ctx, w, err)
			return
		}
	case d.Method != http.MethodDelete:
		out.After = document(answer)
	}
	out.Removes = removed(d, run)
	if out.AuditRecord, err = recordOf(trial); err != nil {
		writeProblem(ctx, w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = json.NewEncoder(w).Encode(out) // the caller is gone
}

// tryable reads what is asked besides the body, and refuses what the change itself
// would refuse of it.
func (s *Server) tryable(r *http.Request, d Declaration) (condition *entityTags, err error) {
	if _, err := repeatKey(r, d); err != nil || !d.Conditional() {
		return nil, err
	}
	return conditionOf(r, "If-Match")
}

// subject is where what a change is about is read: at its own path, at the one that it
// declares, or at the one above where it is one word longer, as .../roll-key is. read is false for what is
// made, and where there is no read, or none for the account key.
func (s *Server) subject(ctx context.Context, d Declaration) (at place, read bool) {
	if d.Audit.Makes() {
		return place{}, false
	}
	at = place{d.ReadAt, stateOf(ctx).readAt}
	if at.path == "" {
		return place{}, false // the request does not say which it is about, and is refused for that
	}
	scope, read := s.reads[at.declared]
	if !read && !strings.HasSuffix(at.declared, "}") { // nothing is declared then: at is the change's own path
		at = place{parent(at.declared), parent(at.path)}
		scope, read = s.reads[at.declared]
	}
	if !read || scope != "" && !stateOf(ctx).principal.Allows(scope) {
		return place{}, false
	}
	return at, true
}

// place is a path as it is declared, and as it is asked for.
type place struct{ declared, path string }

// parent is a path without its last segment.
func parent(path string) string { return path[:max(0, strings.LastIndex(path, "/"))] }

// glance reads what is at a place as the read of it answers the caller: nil for nothing,
// and for no place.
func (s *Server) glance(ctx context.Context, r *http.Request, at place) (json.RawMessage, error) {
	if at == (place{}) {
		return nil, nil
	}
	out, problem := s.look(store.Undecided(ctx, "a dry run decides nothing by what it shows"), r, at.path)
	switch {
	case out.succeeded():
		return document(out), nil
	case problem != nil && (problem.Status >= http.StatusInternalServerError || problem.Status == http.StatusTooManyRequests):
		return nil, problem.cause
	}
	return nil, nil // what is wrong with the request its own operation says
}

// document is the body of an answer, nil for none.
func document(out *draft) json.RawMessage {
	return json.RawMessage(bytes.TrimSpace(out.body.Bytes()))
}

// removed counts what a deletion takes away: what it was told, and the one thing that
// it is named after where nothing was told of that.
func removed(d Declaration, run *dryrun.Run) map[string]int {
	if d.Method != http.MethodDelete {
		return nil
	}
	all := run.Removed()
	own := plural(d.Audit.Noun())
	if _, told := all[own]; !told {
		all[own] = 1
	}
	return all
}

// plural spells a noun as the API's lists are called: api-key is apiKeys.
func plural(noun string) string {
	var out strings.Builder
	for i, word := range strings.Split(noun, "-") {
		if i > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		out.WriteString(word)
	}
	return out.String() + "s"
}

// recordOf gives the audit record of a dry run, nil for none.
func recordOf(trial *store.Trial) (*audit.Entry, error) {
	items := trial.Made(audit.IsNew)
	if len(items) == 0 {
		return nil, nil
	}
	_, e, ok := audit.Decode(items[0])
	if !ok || len(items) > 1 {
		return nil, fmt.Errorf("a dry run has made %d audit records, or one that cannot be read", len(items))
	}
	return &e, nil
}
