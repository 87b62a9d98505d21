package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
)

// This file applies a plan. If the process is killed, the next call continues.
//
// The journal records each request before it is sent and after its response (journal.go). A request whose response is
// missing is sent again, with the same condition and the same Idempotency-Key, which the API keeps for a day. So no
// object is created twice. Deletions have no Idempotency-Key: a deletion of an object that no longer exists counts as
// done.
//
// If the condition of a change is no longer true, Apply stops before this change, unless an earlier request has already
// made it (matchesPlan), or an earlier change of the plan is the reason (earlierChangeAffectsETag). The error says what
// has changed and, if the audit log has it, who has changed it.

// IdempotencyKeyLifetime is how long a request can be repeated with its Idempotency-Key. The API keeps the key for an
// hour longer (contract 9), to allow for clock skew.
const IdempotencyKeyLifetime = 23 * time.Hour

// pollInterval is the interval at which Apply polls a deletion that is still in progress.
const pollInterval = time.Second

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	// Path is the plan's file, "" for a plan without a file. The journal is stored next to this file.
	Path   string
	Getenv func(string) string
	Now    func() time.Time
	// Sleep waits between two polls. OnChange is called after each change. n is the number of the change, from 1, and
	// total is the number of all changes.
	Sleep    func(context.Context, time.Duration) error
	OnChange func(n, total int, c Change)
	// Installation is the address of the installation to which the plan is applied.
	Installation string
}

// ApplyResult is the result of Apply. Applied counts the changes of this call, and AppliedBefore those of earlier
// calls.
type ApplyResult struct {
	Applied       int `json:"made"`
	AppliedBefore int `json:"madeBefore"`
}

// applier holds the state of one call of Apply.
type applier struct {
	*accountClient
	plan    *Plan
	options ApplyOptions
	journal *journal
}

// Apply makes the changes of a plan in order. It continues where an earlier call has stopped.
func Apply(ctx context.Context, api API, p *Plan, o ApplyOptions) (result ApplyResult, err error) {
	account, err := api.Account(ctx)
	if err != nil {
		return result, err
	}
	if p.Installation != o.Installation || p.Account != account {
		return result, usageError("the plan is of the account %s of %s, and this one is %s of %s: choose the other by "+
			"--profile, or plan again", p.Account, p.Installation, account, o.Installation)
	}
	a := &applier{
		accountClient: &accountClient{api: api, account: account, etagsComputable: map[*Kind]bool{}}, plan: p, options: o,
		journal: &journal{ids: map[string]string{}},
	}
	if a.fieldsByKind, err = fieldsByKind(Kinds()); err != nil {
		return result, err
	}
	if o.Path != "" {
		if a.journal, err = openJournal(o.Path, p); err != nil {
			return result, err
		}
	}
	defer func() { err = errors.Join(err, a.journal.close()) }()
	result.AppliedBefore = a.journal.completed
	secrets, err := a.secrets()
	if err != nil {
		return result, err
	}
	for i := a.journal.completed; i < len(p.Changes); i++ {
		if err := a.applyChange(ctx, i, secrets[i]); err != nil {
			return result, err
		}
		result.Applied++
		if o.OnChange != nil {
			o.OnChange(i+1, len(p.Changes), p.Changes[i])
		}
	}
	return result, nil
}

// secrets reads the secrets of all remaining changes, by the index of the change and the name of the argument. Apply
// calls it before the first change.
func (a *applier) secrets() (map[int]map[string]string, error) {
	secrets := map[int]map[string]string{}
	for i := a.journal.completed; i < len(a.plan.Changes); i++ {
		for name, ref := range a.plan.Changes[i].Secrets {
			value, err := ref.Value(a.options.Getenv)
			if err != nil {
				return nil, usageError("%s of the %s %s: %w", name, a.plan.Changes[i].Kind,
					strings.Join(a.plan.Changes[i].Name, " "), err)
			}
			if secrets[i] == nil {
				secrets[i] = map[string]string{}
			}
			secrets[i][name] = value
		}
	}
	return secrets, nil
}

// applyChange makes the change with index i.
func (a *applier) applyChange(ctx context.Context, i int, secrets map[string]string) error {
	c, resumed := &a.plan.Changes[i], a.journal.startedAt != nil
	description := fmt.Sprintf("%s the %s %s", c.Action, c.Kind, strings.Join(c.Name, " "))
	if resumed && c.Action == Create && a.options.Now().Sub(*a.journal.startedAt) > IdempotencyKeyLifetime {
		return exit.WithCode(exit.Conflict, fmt.Errorf("%s: it was begun more than a day ago, and whether it was made is "+
			"not known any more: plan again", description))
	}
	arguments, err := a.arguments(c)
	if err != nil {
		return fmt.Errorf("%s: %w", description, err)
	}
	for name, value := range secrets {
		arguments[name] = value
	}
	if err := a.journal.begin(i+1, a.options.Now()); err != nil {
		return err
	}
	resp, err := a.call(ctx, c.Operation, arguments)
	if err != nil {
		if done, reason := a.handleRefusal(ctx, i, err, resumed); !done {
			return a.withProgress(description, i, reason)
		}
	}
	id := c.ID
	if resp != nil {
		if c.Action == Create {
			id = a.createdID(c, resp.Body)
		}
		if err := a.waitForDeletion(ctx, c, arguments, resp.Body); err != nil {
			return a.withProgress(description, i, err)
		}
	}
	return a.journal.finish(i+1, c.Key, id)
}

// withProgress adds to an error how many changes were made and how to continue. A ConflictError already says this.
func (a *applier) withProgress(description string, i int, err error) error {
	if _, isConflict := errors.AsType[*ConflictError](err); isConflict {
		return err
	}
	hint := "plan again"
	if a.options.Path != "" {
		hint = "the same command goes on from there"
	}
	return fmt.Errorf("%s: %w\n%d of %d changes are made; %s", description, err, i, len(a.plan.Changes), hint)
}

// arguments returns the arguments of a change. It inserts the IDs of objects that earlier changes have created.
func (a *applier) arguments(c *Change) (map[string]any, error) {
	arguments := map[string]any{}
	for name, value := range c.Arguments {
		arguments[name] = value
	}
	for _, idArgument := range c.IDArguments {
		var ids []string
		for _, key := range idArgument.Keys {
			id, ok := strings.CutPrefix(key, "=")
			if !ok {
				if id = a.journal.ids[key]; id == "" {
					return nil, errors.New("it needs what an earlier change makes, whose id is not known: plan again")
				}
			}
			ids = append(ids, id)
		}
		if arguments[idArgument.Argument] = any(ids); !idArgument.IsList {
			arguments[idArgument.Argument] = ids[0]
		}
	}
	if c.IfMatch != "" {
		arguments["ifMatch"] = c.IfMatch
	}
	if c.IdempotencyKey != "" {
		arguments["idempotencyKey"] = c.IdempotencyKey
	}
	return arguments, nil
}

// createdID returns the ID of the created object from the response, "" if the response has none.
func (a *applier) createdID(c *Change, body []byte) string {
	var members map[string]Value
	_ = json.Unmarshal(body, &members)
	for _, k := range flatten(Kinds()) {
		if k.Create == c.Operation {
			if id := stringValue(members[k.CreatedID]); id != "" {
				return id
			}
			return stringValue(members[k.ID])
		}
	}
	return ""
}

// kind returns the kind of the object that a change is about.
func (a *applier) kind(c *Change) *Kind {
	for k := range a.fieldsByKind {
		if slices.Contains([]string{k.Create, k.Update, k.Delete}, c.Operation) || k.SeparateField != nil &&
			k.SeparateField.Write == c.Operation {
			return k
		}
	}
	return nil
}

// waitForDeletion waits until a deletion that continues in the background has ended.
func (a *applier) waitForDeletion(ctx context.Context, c *Change, arguments map[string]any, body []byte) error {
	k := a.kind(c)
	if c.Action != Delete || k.StatusOperation == "" {
		return nil
	}
	for {
		if len(bytes.TrimSpace(body)) == 0 {
			return nil // the deletion is done
		}
		id, done, err := call.OperationStatus(body)
		if err != nil || done {
			return err
		}
		if err := a.options.Sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("wait for the operation %s, which goes on: %w", id, err)
		}
		statusArguments := maps.Clone(arguments)
		statusArguments["operationId"] = id
		resp, err := a.call(ctx, k.StatusOperation, statusArguments)
		if err != nil {
			return err
		}
		body = resp.Body
	}
}

// remoteObject returns the object of a change as it was when the plan was made, with its ancestors and all known IDs.
func (a *applier) remoteObject(c *Change) *remoteObject {
	k := a.kind(c)
	o := &remoteObject{kind: k, name: c.Name[len(c.Name)-1], id: c.ID, fields: c.Before}
	if o.id == "" {
		o.id = a.journal.ids[c.Key]
	}
	parent := &remoteObject{}
	ancestors := []*Kind{}
	for ancestor := k.parent; ancestor != nil; ancestor = ancestor.parent {
		ancestors = append([]*Kind{ancestor}, ancestors...)
	}
	arguments, _ := a.arguments(c)
	for i, ancestor := range ancestors {
		id := ""
		switch argument := arguments[ancestor.PathParameter].(type) {
		case string:
			id = argument
		case Value:
			id = stringValue(argument)
		}
		parent = &remoteObject{kind: ancestor, name: c.Name[i], id: id, parent: parent}
	}
	o.parent = parent
	return o
}

// handleRefusal handles an error of the API for a change. done reports that the change has nevertheless been made, for
// example because an earlier response was lost. If done is false, reason is the error for the user.
func (a *applier) handleRefusal(ctx context.Context, i int, err error, resumed bool) (done bool, reason error) {
	c := &a.plan.Changes[i]
	problem, ok := errors.AsType[*call.Problem](err)
	const preconditionFailed = 412
	switch {
	case !ok:
		return false, err
	case isNotFound(err) && c.Action == Delete:
		return a.confirmDeleted(ctx, c, resumed)
	case c.Action == Create:
		return false, a.createError(ctx, c, problem.Status, err)
	case problem.Status != preconditionFailed && !isNotFound(err) || c.IfMatch == "":
		return false, err
	}
	current, reason := a.fetchCurrent(ctx, c)
	missing := isNotFound(reason)
	switch {
	case missing && c.Action == Delete:
		return a.confirmDeleted(ctx, c, resumed)
	case reason != nil && !missing:
		return false, errors.Join(err, reason)
	case !missing && c.Action == Update && resumed && a.matchesPlan(c, current):
		return true, nil
	case !missing && c.Action == Delete && a.earlierChangeAffectsETag(i) && len(a.changedFields(c, current)) == 0:
		return a.deleteCurrent(ctx, c, current)
	}
	return false, a.conflictError(ctx, c, current)
}

// createError returns the error for an object that could not be created. If another object has the name now, or if the
// parent no longer exists, the error is a ConflictError: the account has changed since the plan was made.
func (a *applier) createError(ctx context.Context, c *Change, status int, err error) error {
	switch status {
	// The API returns 422 for a project whose name is in use.
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
	default:
		return err
	}
	existing, lookupErr := a.findByName(ctx, a.remoteObject(c))
	switch {
	case isNotFound(lookupErr):
		k, name := a.kind(c).parent, c.Name[:len(c.Name)-1]
		for k.Create == "" && k.parent != nil { // a branch has no Create: it exists as long as its project
			k, name = k.parent, name[:len(name)-1]
		}
		return a.conflictError(ctx, &Change{Action: Update, Kind: k.Singular, Name: name}, nil)
	case lookupErr != nil || existing == nil:
		return err
	}
	return a.conflictError(ctx, c, existing)
}

// confirmDeleted handles a deletion of an object that does not exist. The deletion counts as done, unless an object
// with another ID has the name now: someone has created this object since the plan was made. If an earlier call has
// already sent the deletion, the deletion counts as done without this check, because the new object was created
// afterwards. It also counts as done if the name is the ID.
func (a *applier) confirmDeleted(ctx context.Context, c *Change, resumed bool) (done bool, err error) {
	k := a.kind(c)
	if resumed || k.ID == k.Key {
		return true, nil
	}
	existing, err := a.findByName(ctx, a.remoteObject(c))
	switch {
	case isNotFound(err): // the parent no longer exists, either
		return true, nil
	case err != nil:
		return false, err
	case existing == nil || existing.id == c.ID:
		return true, nil
	}
	return false, a.conflictError(ctx, c, existing)
}

// fetchCurrent reads the current state of the object of a change. If the change writes the SeparateField field,
// fetchCurrent reads only this field.
func (a *applier) fetchCurrent(ctx context.Context, c *Change) (*remoteObject, error) {
	o := a.remoteObject(c)
	if k := a.kind(c); k.SeparateField == nil || k.SeparateField.Write != c.Operation {
		return a.fetch(ctx, o)
	}
	value, _, err := a.readSeparate(ctx, o)
	o.fields = map[string]Value{o.kind.SeparateField.Field: value}
	return o, err
}

// matchesPlan reports whether an object already has the values of a change. In this case, the change was made before,
// and its response was lost. matchesPlan returns false for a change of a secret, because secrets cannot be compared.
func (a *applier) matchesPlan(c *Change, current *remoteObject) bool {
	for _, f := range c.Fields {
		field := a.fieldsByKind[current.kind].byName[f.Name]
		if f.Secret || field == nil || !current.kind.equalValues(field, f.After, current.fields[f.Name]) {
			return false
		}
	}
	return true
}
