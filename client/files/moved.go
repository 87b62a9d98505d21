package files

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
)

// MovedError is an object that is not as it was when it was planned.
type MovedError struct {
	Kind   string   `json:"kind"`
	Name   []string `json:"name"`
	Fields []Moved  `json:"fields"`
	// Record is the audit record of the change that moved it, nil where none is found.
	Record *Record `json:"auditRecord"`
	// Why says why there is none.
	Why  string `json:"-"`
	Made int    `json:"made"`
	Of   int    `json:"of"`
}

// Moved is a field that is another one, or the object itself, whose values are presences.
type Moved struct {
	Name    string `json:"name"`
	Planned Value  `json:"planned"`
	Now     Value  `json:"now"`
	itself  bool
}

// The presences of an object, as a program reads them.
const (
	there    = `"there"`
	notYet   = `"not there"`
	goneAway = `"gone"`
)

// said is a value as a person reads it.
func (m Moved) said(v Value) string {
	if m.itself {
		return strings.Trim(string(v), `"`)
	}
	return shown(v)
}

// Record is what the audit log has of a change.
type Record struct {
	RequestID string    `json:"requestId"`
	Timestamp time.Time `json:"timestamp"`
	Action    string    `json:"action"`
	Actor     string    `json:"actor"`
}

// Error implements error.
func (e *MovedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The %s %s is not as it was planned", e.Kind, strings.Join(e.Name, " "))
	for i, f := range e.Fields {
		fmt.Fprintf(&b, "%s%s was %s, and is %s", map[bool]string{true: ": ", false: "; "}[i == 0], f.Name, f.said(f.Planned), f.said(f.Now))
	}
	b.WriteString(".")
	if len(e.Fields) == 0 {
		b.WriteString(" What files have of it is as it was, and something else that the API tells is not.")
	}
	if r := e.Record; r != nil {
		fmt.Fprintf(&b, "\nIt was changed by %s at %s: %s, audit record %s.", r.Actor, r.Timestamp.Format(time.RFC3339), r.Action, r.RequestID)
	} else if e.Why != "" {
		b.WriteString("\n" + e.Why)
	}
	fmt.Fprintf(&b, "\nNothing from there on is applied; %d of %d changes are made. Plan again.", e.Made, e.Of)
	return b.String()
}

// Document implements output.Described.
func (e *MovedError) Document() []byte {
	document, err := json.Marshal(struct {
		Title    string    `json:"title"`
		ExitCode exit.Code `json:"exitCode"`
		*MovedError
	}{"An object has moved.", exit.Conflict, e})
	if err != nil {
		return nil
	}
	return document
}

// moved tells what is another than it was planned, and who has changed it. Now is nil for what is gone.
func (a *applier) moved(ctx context.Context, c *Change, now *seen) error {
	e := &MovedError{Kind: c.Kind, Name: c.Name, Made: a.journal.done, Of: len(a.plan.Changes)}
	switch {
	case now == nil:
		e.Fields = []Moved{{Name: "the " + c.Kind, Planned: Value(there), Now: Value(goneAway), itself: true}}
	case c.Do == Create:
		e.Fields = []Moved{{Name: "the " + c.Kind, Planned: Value(notYet), Now: Value(there), itself: true}}
	default:
		e.Fields = a.differing(c, now)
	}
	var err error
	if e.Record, err = a.record(ctx, c, now); err != nil {
		e.Why = "The audit log has who changed it, and cannot be asked: " + strings.ReplaceAll(err.Error(), "\n", " ")
	} else if e.Record == nil {
		e.Why = "The audit log has no change of it since then."
	}
	return exit.With(exit.Conflict, e)
}

// differing are the fields of an object that are not as they were planned, its name and its id among them.
func (a *applier) differing(c *Change, now *seen) (fields []Moved) {
	k, names := a.kind(c), map[string]bool{}
	for name := range c.Before {
		names[name] = true
	}
	for name := range now.fields {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		field := a.kinds[k].all[name]
		if field == nil {
			field = &Field{Name: name}
		}
		if !k.same(field, c.Before[name], now.fields[name]) {
			fields = append(fields, Moved{Name: name, Planned: c.Before[name], Now: now.fields[name]})
		}
	}
	if was := c.Name[len(c.Name)-1]; k.fold(now.name) != k.fold(was) && now.name != now.id {
		fields = append(fields, Moved{Name: k.Key, Planned: marshal(was), Now: marshal(now.name)})
	}
	if c.ObjectID != "" && now.objectID != "" && now.objectID != c.ObjectID { // it was made anew under its name
		fields = append(fields, Moved{Name: "id", Planned: marshal(c.ObjectID), Now: marshal(now.objectID)})
	}
	return fields
}

// released reports whether a change before this one was about a sibling that may have named its object, such as a subscription to a plan: the API
// tells of the object that nothing names it any more, so that it has another ETag by the plan itself.
func (a *applier) released(i int) bool {
	k, of := a.kind(&a.plan.Changes[i]), a.plan.Changes[i].Name
	return slices.ContainsFunc(a.plan.Changes[:i], func(before Change) bool {
		other := a.kind(&before)
		return other.Pairs != nil && other.parent.below(other.Pairs.Member) == k && slices.Equal(before.Name[:len(before.Name)-1], of[:len(of)-1])
	})
}

// deleted deletes an object as it is now.
func (a *applier) deleted(ctx context.Context, c *Change, now *seen) (done bool, err error) {
	arguments, err := a.arguments(c)
	if err != nil {
		return false, err
	}
	arguments["ifMatch"] = now.tag
	_, err = a.ask(ctx, c.Operation, arguments)
	return err == nil, err
}

// record is the newest audit record of a change of an object since the plan was made, nil for none. Now is what has its name, nil for
// nothing.
func (a *applier) record(ctx context.Context, c *Change, now *seen) (*Record, error) {
	const mostPages, page = 20, 100
	arguments := map[string]any{"success": true, "limit": page, "startDate": a.plan.Made.Add(-time.Hour).Format(time.RFC3339)}
	for range mostPages {
		answer, err := a.ask(ctx, "AuditLogsService_list", arguments)
		if err != nil {
			return nil, err
		}
		var list struct {
			Data []struct {
				Record
				Actor struct{ Sub, Email string } `json:"actor"`
				Route struct{ URL string }        `json:"route"`

				Resources []struct {
					ID       string            `json:"id"`
					Metadata map[string]string `json:"metadata"`
				} `json:"resources"`
			} `json:"data"`
			Next string `json:"next"`
		}
		if err := call.Read(answer.Body, &list); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for _, r := range list.Data {
			for _, of := range r.Resources {
				named := c.ObjectID == "" && of.Metadata["name"] == c.Name[len(c.Name)-1]
				anew := now != nil && now.objectID != "" && of.ID == now.objectID
				if of.ID != c.ObjectID && !named && !anew {
					continue
				}
				r.Record.Actor = r.Actor.Sub
				if r.Actor.Email != "" {
					r.Record.Actor = r.Actor.Email
				}
				return &r.Record, nil
			}
		}
		if list.Next == "" {
			return nil, nil
		}
		arguments["after"] = list.Next
	}
	return nil, nil
}
