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

// ConflictError says that an object has changed since the plan was made.
type ConflictError struct {
	Kind   string          `json:"kind"`
	Name   []string        `json:"name"`
	Fields []FieldConflict `json:"fields"`
	// Record is the audit record of the change, nil if none was found.
	Record *Record `json:"auditRecord"`
	// NoRecordReason says why there is no record.
	NoRecordReason string `json:"-"`
	// Applied is the number of changes of the plan that were made, by this and earlier calls. Total is the number of all
	// its changes.
	Applied int `json:"made"`
	Total   int `json:"of"`
}

// FieldConflict is a field that has changed since the plan was made. If isObject is true, the object itself was created
// or deleted, and the values say whether it exists.
type FieldConflict struct {
	Name     string `json:"name"`
	Planned  Value  `json:"planned"`
	Current  Value  `json:"now"`
	isObject bool
}

// These values say whether an object exists, in a form for programs.
const (
	existsValue  = `"there"`
	missingValue = `"not there"`
	deletedValue = `"gone"`
)

// text returns the text of a value for people.
func (c FieldConflict) text(v Value) string {
	if c.isObject {
		return strings.Trim(string(v), `"`)
	}
	return displayValue(v)
}

// Record is an audit record of a change.
type Record struct {
	RequestID string    `json:"requestId"`
	Timestamp time.Time `json:"timestamp"`
	Action    string    `json:"action"`
	Actor     string    `json:"actor"`
}

// Error implements error.
func (e *ConflictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The %s %s is not as it was planned", e.Kind, strings.Join(e.Name, " "))
	for i, f := range e.Fields {
		fmt.Fprintf(&b, "%s%s was %s, and is %s", map[bool]string{true: ": ", false: "; "}[i == 0], f.Name, f.text(f.Planned),
			f.text(f.Current))
	}
	b.WriteString(".")
	if len(e.Fields) == 0 {
		b.WriteString(" What files have of it is as it was, and something else that the API tells is not.")
	}
	if r := e.Record; r != nil {
		fmt.Fprintf(&b, "\nIt was changed by %s at %s: %s, audit record %s.", r.Actor, r.Timestamp.Format(time.RFC3339),
			r.Action, r.RequestID)
	} else if e.NoRecordReason != "" {
		b.WriteString("\n" + e.NoRecordReason)
	}
	fmt.Fprintf(&b, "\nNothing from there on is applied; %d of %d changes are made. Plan again.", e.Applied, e.Total)
	return b.String()
}

// Document implements output.Documented.
func (e *ConflictError) Document() []byte {
	document, err := json.Marshal(struct {
		Title    string    `json:"title"`
		ExitCode exit.Code `json:"exitCode"`
		*ConflictError
	}{"An object has moved.", exit.Conflict, e})
	if err != nil {
		return nil
	}
	return document
}

// conflictError returns the error that says what has changed since the plan was made, and who changed it. current is
// nil if the object no longer exists.
func (a *applier) conflictError(ctx context.Context, c *Change, current *remoteObject) error {
	e := &ConflictError{Kind: c.Kind, Name: c.Name, Applied: a.journal.completed, Total: len(a.plan.Changes)}
	switch {
	case current == nil:
		e.Fields = []FieldConflict{{
			Name: "the " + c.Kind, Planned: Value(existsValue), Current: Value(deletedValue),
			isObject: true,
		}}
	case c.Action == Create:
		e.Fields = []FieldConflict{{
			Name: "the " + c.Kind, Planned: Value(missingValue), Current: Value(existsValue),
			isObject: true,
		}}
	default:
		e.Fields = a.changedFields(c, current)
	}
	var err error
	if e.Record, err = a.findRecord(ctx, c, current); err != nil {
		e.NoRecordReason = "The audit log has who changed it, and cannot be asked: " + strings.ReplaceAll(err.Error(), "\n",
			" ")
	} else if e.Record == nil {
		e.NoRecordReason = "The audit log has no change of it since then."
	}
	return exit.WithCode(exit.Conflict, e)
}

// changedFields returns the fields of an object that have changed since the plan was made, including the name and the
// ID.
func (a *applier) changedFields(c *Change, current *remoteObject) (fields []FieldConflict) {
	k, names := a.kind(c), map[string]bool{}
	for name := range c.Before {
		names[name] = true
	}
	for name := range current.fields {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		field := a.fieldsByKind[k].byName[name]
		if field == nil {
			field = &Field{Name: name}
		}
		if !k.equalValues(field, c.Before[name], current.fields[name]) {
			fields = append(fields, FieldConflict{Name: name, Planned: c.Before[name], Current: current.fields[name]})
		}
	}
	if planned := c.Name[len(c.Name)-1]; k.normalize(current.name) != k.normalize(planned) && current.name != current.id {
		fields = append(fields, FieldConflict{Name: k.Key, Planned: mustMarshal(planned), Current: mustMarshal(current.name)})
	}
	// Another ID means that the object was deleted and created again.
	if c.ObjectID != "" && current.objectID != "" && current.objectID != c.ObjectID {
		fields = append(fields, FieldConflict{
			Name: "id", Planned: mustMarshal(c.ObjectID),
			Current: mustMarshal(current.objectID),
		})
	}
	return fields
}

// earlierChangeAffectsETag reports whether an earlier change of the plan may have changed the ETag of the object of
// change i. Such an earlier change is about an object that can refer to this object, as a subscription refers to a
// metering plan. The body of a metering plan, and so its ETag, depends on whether the metering plan has subscriptions.
func (a *applier) earlierChangeAffectsETag(i int) bool {
	k, name := a.kind(&a.plan.Changes[i]), a.plan.Changes[i].Name
	return slices.ContainsFunc(a.plan.Changes[:i], func(earlier Change) bool {
		other := a.kind(&earlier)
		return other.SiblingIDs != nil && other.parent.child(other.SiblingIDs.Member) == k &&
			slices.Equal(earlier.Name[:len(earlier.Name)-1], name[:len(name)-1])
	})
}

// deleteCurrent deletes an object with its current ETag as the condition.
func (a *applier) deleteCurrent(ctx context.Context, c *Change, current *remoteObject) (done bool, err error) {
	arguments, err := a.arguments(c)
	if err != nil {
		return false, err
	}
	arguments["ifMatch"] = current.etag
	_, err = a.call(ctx, c.Operation, arguments)
	return err == nil, err
}

// findRecord returns the newest audit record of a successful change of the object of c, nil for none. It searches at
// most maxPages pages, back to an hour before the plan was made. current is the object that has the name now, nil for
// none.
func (a *applier) findRecord(ctx context.Context, c *Change, current *remoteObject) (*Record, error) {
	const maxPages, pageSize = 20, 100
	arguments := map[string]any{
		"success": true, "limit": pageSize,
		"startDate": a.plan.CreatedAt.Add(-time.Hour).Format(time.RFC3339),
	}
	for range maxPages {
		resp, err := a.call(ctx, "AuditLogsService_list", arguments)
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
		if err := call.Decode(resp.Body, &list); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for _, r := range list.Data {
			for _, resource := range r.Resources {
				sameName := c.ObjectID == "" && resource.Metadata["name"] == c.Name[len(c.Name)-1]
				recreated := current != nil && current.objectID != "" && resource.ID == current.objectID
				if resource.ID != c.ObjectID && !sameName && !recreated {
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
