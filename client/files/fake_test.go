package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// fakeAPI is an installation in memory, with the kinds of package files. Like the API, it checks conditions, and
// returns the same response to a repeated request.
type fakeAPI struct {
	t       *testing.T
	name    string // the installation's name, with which the IDs of its objects begin
	objects []*fakeObject
	created int // the number of created objects, with which their IDs end
	// responses are the responses to earlier requests, by their Idempotency-Keys. audit is the audit log, newest record
	// last.
	responses map[string]*call.Response
	audit     []map[string]any
	// calls are the names of the operations that were called. changes are the names of those that have changed something.
	calls, changes []string
	// onCall is called before and after each operation. n is the number of the call, from 1. If onCall returns an
	// error, the call returns this error. onCall may be nil.
	onCall func(n int, after bool) error
	// received has the arguments of all calls, in JSON.
	received bytes.Buffer
	// listsDiffer says that a list returns other content of an object than a read, so that ETags cannot be computed.
	listsDiffer bool
}

// fakeObject is an object in a fakeAPI. scope identifies its parents. separate is the value of the field
// Kind.SeparateField.
type fakeObject struct {
	kind     *files.Kind
	scope    string
	id       string
	fields   map[string]json.RawMessage
	separate json.RawMessage
}

func newFakeAPI(t *testing.T, name string) *fakeAPI {
	t.Helper()
	return &fakeAPI{t: t, name: name, responses: map[string]*call.Response{}}
}

func walkKinds(kinds []*files.Kind, visit func(ancestors []*files.Kind, k *files.Kind)) {
	var walk func(ancestors, kinds []*files.Kind)
	walk = func(ancestors, kinds []*files.Kind) {
		for _, k := range kinds {
			visit(ancestors, k)
			walk(append(slices.Clone(ancestors), k), k.Children)
		}
	}
	walk(nil, kinds)
}

func (f *fakeAPI) Account(context.Context) (string, error) { return "demo", nil }

func newProblem(status int, code exit.Code) error {
	return exit.WithCode(code, &call.Problem{Status: status, Detail: http.StatusText(status)})
}

// List returns all entries. It records a call of the list operation for each thousand entries.
func (f *fakeAPI) List(ctx context.Context, name string, arguments map[string]any) ([]byte, error) {
	resp, err := f.Call(ctx, name, arguments)
	if err != nil {
		return nil, err
	}
	var listed struct{ Total int }
	if err := json.Unmarshal(resp.Body, &listed); err != nil {
		return nil, err
	}
	for n := 1000; n < listed.Total; n += 1000 {
		f.calls = append(f.calls, name)
	}
	return resp.Body, nil
}

func (f *fakeAPI) Call(_ context.Context, name string, arguments map[string]any) (*call.Response, error) {
	f.t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	f.received.Write(append(text, '\n'))
	var decoded map[string]json.RawMessage
	if err := json.Unmarshal(text, &decoded); err != nil {
		return nil, err
	}
	f.calls = append(f.calls, name)
	n := len(f.calls)
	if f.onCall != nil {
		if err := f.onCall(n, false); err != nil {
			return nil, err
		}
	}
	resp, err := f.dispatch(name, decoded)
	if f.onCall != nil {
		if err := f.onCall(n, true); err != nil {
			return nil, err
		}
	}
	return resp, err
}

// dispatch returns the response to a request. If the request is repeated, it returns the earlier response.
func (f *fakeAPI) dispatch(name string, arguments map[string]json.RawMessage) (*call.Response, error) {
	t, err := call.Operation(name)
	if err != nil {
		return nil, err
	}
	accepts := func(argument string) bool { return takesArgument(t, argument) }
	for argument := range arguments {
		if !accepts(argument) && !(t.TakesBody && argument != "ifMatch" && argument != "idempotencyKey") {
			f.t.Errorf("Call(%s) with the argument %s, want only arguments of the operation", name, argument)
		}
	}
	if !t.ReadOnly && (accepts("ifMatch") && stringOf(arguments["ifMatch"]) == "" || accepts("idempotencyKey") &&
		stringOf(arguments["idempotencyKey"]) == "") {
		f.t.Errorf("Call(%s) with the arguments %v, want an ifMatch and an idempotencyKey if the operation has them",
			name, slices.Sorted(maps.Keys(arguments)))
	}
	key := stringOf(arguments["idempotencyKey"])
	if earlier := f.responses[key]; key != "" && earlier != nil {
		return earlier, nil
	}
	resp, err := f.handle(name, arguments)
	if err == nil && !t.ReadOnly {
		f.changes = append(f.changes, name)
		if key != "" {
			f.responses[key] = resp
		}
	}
	return resp, err
}

func takesArgument(t *apitools.Tool, name string) bool {
	for _, a := range t.Arguments {
		if a.Name == name {
			return true
		}
	}
	return false
}

func stringOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// scopeOf returns the scope of the objects whose parents are in arguments.
func scopeOf(ancestors []*files.Kind, arguments map[string]json.RawMessage) string {
	var b strings.Builder
	for _, k := range ancestors {
		if k.PathParameter != "" {
			b.WriteString("/" + k.PathParameter + "=" + stringOf(arguments[k.PathParameter]))
		}
	}
	return b.String()
}

func (f *fakeAPI) handle(name string, arguments map[string]json.RawMessage) (resp *call.Response, err error) {
	if name == "AuditLogsService_list" {
		newest := slices.Clone(f.audit)
		slices.Reverse(newest)
		return ok(map[string]any{"data": newest, "next": nil}), nil
	}
	walkKinds(files.Kinds(), func(ancestors []*files.Kind, k *files.Kind) {
		if resp != nil || err != nil {
			return
		}
		scope := scopeOf(ancestors, arguments)
		object := f.find(k, scope, stringOf(arguments[k.PathParameter]))
		var mustExist bool
		switch name {
		case k.Read, k.Update, k.Delete:
			mustExist = true
		}
		if k.SeparateField != nil && (name == k.SeparateField.Read || name == k.SeparateField.Write) {
			mustExist = true
		}
		condition := stringOf(arguments["ifMatch"])
		switch {
		case mustExist && object == nil && name == k.Delete && condition != "" && condition != "*":
			err = newProblem(http.StatusPreconditionFailed, exit.Conflict)
		case mustExist && object == nil:
			err = newProblem(http.StatusNotFound, exit.NotFound)
		case name == k.List && !f.parentsExist(ancestors, arguments):
			err = newProblem(http.StatusNotFound, exit.NotFound)
		case name == k.List:
			resp = f.list(k, scope, arguments)
		case name == k.Read:
			resp = okWithETag(f.withEmbedded(object, f.render(object, true), arguments))
		case k.SeparateField != nil && name == k.SeparateField.Read:
			resp = okWithETag(object.separateBody())
		case k.SeparateField != nil && name == k.SeparateField.Write:
			if err = checkCondition(condition, object.separateBody()); err == nil &&
				f.isNameTaken(object, arguments[k.SeparateField.Field]) {
				err = newProblem(http.StatusConflict, exit.Conflict)
			}
			if err == nil {
				object.separate = arguments[k.SeparateField.Field]
				f.record("tunnel.update", object)
				resp = ok(map[string]any{"id": "pst", "status": "success"})
			}
		case name == k.Create && !f.parentsExist(ancestors, arguments):
			err = newProblem(http.StatusNotFound, exit.NotFound)
		case name == k.Create:
			resp, err = f.create(k, scope, arguments)
		case name == k.Update, name == k.Delete:
			err = checkCondition(condition, f.render(object, true))
		}
		if err != nil || resp != nil {
			return
		}
		switch name {
		case k.Update:
			tool, _ := call.Operation(name)
			for member, value := range arguments {
				if !strings.Contains(tool.Path, "{"+member+"}") && member != "ifMatch" && member != "idempotencyKey" &&
					member != call.AccountArgument && member != k.Key {
					object.fields[member] = value
				}
			}
			f.record(k.Member+".update", object)
			resp = ok(f.render(object, true))
		case k.Delete:
			f.remove(object)
			resp = &call.Response{Status: http.StatusNoContent}
		}
	})
	if resp == nil && err == nil {
		return nil, fmt.Errorf("the fake knows no %s", name)
	}
	return resp, err
}

func (f *fakeAPI) find(k *files.Kind, scope, id string) *fakeObject {
	for _, o := range f.objects {
		if o.kind.Member == k.Member && o.scope == scope && o.id == id {
			return o
		}
	}
	return nil
}

// parentsExist reports whether the parents in arguments exist.
func (f *fakeAPI) parentsExist(ancestors []*files.Kind, arguments map[string]json.RawMessage) bool {
	for i, k := range ancestors {
		if k.Create != "" && f.find(k, scopeOf(ancestors[:i], arguments), stringOf(arguments[k.PathParameter])) == nil {
			return false
		}
	}
	return true
}

// isNameTaken reports whether another object of the kind has one of the unique names in the SeparateField field.
func (f *fakeAPI) isNameTaken(owner *fakeObject, field json.RawMessage) bool {
	names := func(field json.RawMessage) (all []string) {
		var list []struct{ Name string }
		_ = json.Unmarshal(field, &list)
		for _, entry := range list {
			all = append(all, entry.Name)
		}
		return all
	}
	return slices.ContainsFunc(f.objects, func(o *fakeObject) bool {
		return o != owner && o.kind.Member == owner.kind.Member && slices.ContainsFunc(names(o.separate),
			func(name string) bool { return slices.Contains(names(field), name) })
	})
}

func (f *fakeAPI) remove(target *fakeObject) {
	scope := target.scope + "/" + target.kind.PathParameter + "=" + target.id
	f.objects = slices.DeleteFunc(f.objects, func(o *fakeObject) bool {
		return o == target || o.scope == scope || strings.HasPrefix(o.scope, scope+"/")
	})
}

func ok(body any) *call.Response {
	text, _ := json.Marshal(body)
	return &call.Response{Status: http.StatusOK, Header: http.Header{}, Body: append(text, '\n')}
}

func etag(body any) string {
	text, _ := json.Marshal(body)
	sum := sha256.Sum256(append(text, '\n'))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

func okWithETag(body any) *call.Response {
	resp := ok(body)
	resp.Header.Set("ETag", etag(body))
	return resp
}

func checkCondition(condition string, body any) error {
	if condition != "*" && condition != etag(body) {
		return newProblem(http.StatusPreconditionFailed, exit.Conflict)
	}
	return nil
}

func (o *fakeObject) separateBody() map[string]any {
	services := o.separate
	if services == nil {
		services = json.RawMessage("[]")
	}
	return map[string]any{"version": 1, "services": services}
}

// render returns the body for an object. single says that the body is for a read, and not for an entry of a list.
func (f *fakeAPI) render(o *fakeObject, single bool) map[string]any {
	body := map[string]any{"createdOn": "2030-01-01T00:00:00.000Z"}
	for name, value := range o.fields {
		if string(value) != "null" {
			body[name] = value
		}
	}
	body[o.kind.ID] = o.id
	if o.kind.ID != "id" && o.kind.Member != "variables" {
		body["id"] = f.name + "_" + o.kind.Member + "_" + o.id
	}
	if o.kind.Member == "variables" && string(o.fields["isSecret"]) == "true" {
		body["value"] = ""
	}
	if o.kind.Member == "keyBuckets" && single {
		body["token"] = "gwb_secret"
	}
	if f.listsDiffer && !single {
		body["more"] = true
	}
	return body
}

func (f *fakeAPI) list(k *files.Kind, scope string, arguments map[string]json.RawMessage) *call.Response {
	data := []map[string]any{}
	for _, o := range f.objects {
		if o.kind.Member != k.Member || o.scope != scope {
			continue
		}
		data = append(data, f.withEmbedded(o, f.render(o, false), arguments))
	}
	return ok(map[string]any{"data": data, "total": len(data)})
}

// withEmbedded adds the requested members of other kinds to a body.
func (f *fakeAPI) withEmbedded(
	o *fakeObject, body map[string]any, arguments map[string]json.RawMessage,
) map[string]any {
	for _, child := range o.kind.Children {
		for member, query := range child.Embedded {
			if string(arguments[query]) != "true" {
				continue
			}
			list := []map[string]any{}
			for _, embedded := range f.objects {
				if embedded.kind.Member == child.Member && embedded.scope == o.scope+"/"+o.kind.PathParameter+"="+o.id &&
					(embedded.fields["sub"] == nil) == (member == "managerInvites") {
					list = append(list, f.render(embedded, false))
				}
			}
			body[member] = list
		}
	}
	return body
}

func (f *fakeAPI) create(k *files.Kind, scope string, arguments map[string]json.RawMessage) (*call.Response, error) {
	tool, _ := call.Operation(k.Create)
	o := &fakeObject{kind: k, scope: scope, fields: map[string]json.RawMessage{}}
	var managers []json.RawMessage
	for member, value := range arguments {
		switch {
		case strings.Contains(tool.Path, "{"+member+"}"), member == "idempotencyKey", member == call.AccountArgument:
		case member == "managers":
			_ = json.Unmarshal(value, &managers)
		case member == "planIds":
			f.checkPlanIDs(scope, arguments)
			o.fields[member] = value
		default:
			o.fields[member] = value
		}
	}
	if f.created++; k.ID == k.Key {
		o.id = stringOf(arguments[k.Key])
	} else {
		o.id = fmt.Sprintf("%s_%d", f.name, f.created)
	}
	for _, other := range f.objects {
		if other.kind.Member == k.Member && other.scope == scope &&
			stringOf(other.fields[k.Key]) == stringOf(o.fields[k.Key]) && o.fields[k.Key] != nil {
			if k.Member == "projects" {
				return nil, newProblem(http.StatusUnprocessableEntity, exit.Invalid)
			}
			return nil, newProblem(http.StatusConflict, exit.Conflict)
		}
	}
	f.objects = append(f.objects, o)
	f.record(k.Member+".create", o)
	for _, m := range managers {
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(m, &fields) != nil {
			fields["email"] = m
		}
		f.created++
		f.objects = append(f.objects, &fakeObject{
			kind: k.Children[0], scope: scope + "/" + k.PathParameter + "=" + o.id,
			id: fmt.Sprintf("%s_%d", f.name, f.created), fields: fields,
		})
	}
	if k.Member == "projects" {
		for _, kind := range files.Kinds() {
			for suffix, envType := range map[string]string{
				"-production": "PRODUCTION", "-preview": "PREVIEW",
				"-working-copy": "WORKING_COPY",
			} {
				if kind.Member == "keyBuckets" {
					tags, _ := json.Marshal(map[string]string{"account": "demo", "environmentType": envType, "project": o.id})
					f.objects = append(f.objects, &fakeObject{
						kind: kind, id: o.id + suffix,
						fields: map[string]json.RawMessage{"tags": tags, "isRetrievable": json.RawMessage("true")},
					})
				}
			}
		}
	}
	body := f.render(o, true)
	if k.CreatedID != "" {
		body[k.CreatedID] = o.id
	}
	return ok(body), nil
}

// checkPlanIDs reports an error of the test if planIds are not the IDs of the plans in planExternalIds.
func (f *fakeAPI) checkPlanIDs(scope string, arguments map[string]json.RawMessage) {
	var ids, names []string
	_ = json.Unmarshal(arguments["planIds"], &ids)
	_ = json.Unmarshal(arguments["planExternalIds"], &names)
	for i, id := range ids {
		for _, o := range f.objects {
			if o.kind.Member == "plans" && o.scope == scope && o.id == id && stringOf(o.fields["planExternalId"]) == names[i] {
				names[i] = ""
			}
		}
	}
	if strings.Join(names, "") != "" || len(ids) != len(names) {
		f.t.Errorf("planIds = %s, want the IDs of the plans %s; without an ID: %q",
			arguments["planIds"], arguments["planExternalIds"], names)
	}
}

func (f *fakeAPI) record(action string, o *fakeObject) {
	f.audit = append(f.audit, map[string]any{
		"action": action, "requestId": fmt.Sprintf("request-%d", len(f.audit)),
		"timestamp": time.Date(2030, 1, 1, 0, 0, len(f.audit), 0, time.UTC),
		"actor":     map[string]any{"sub": "akey_other"},
		"resources": []any{map[string]any{
			"type": o.kind.Member, "id": f.render(o, true)["id"],
			"metadata": map[string]string{"name": o.id},
		}},
	})
}
