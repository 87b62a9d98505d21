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
	"github.com/gatewright/gatewright/shared/apitools"
)

// fake is an installation in memory: it has the kinds of package files, with what the API promises of conditions, of requests that are
// sent again, and of lists. Its ids are its own.
type fake struct {
	t       *testing.T
	name    string
	objects []*thing
	n       int
	// tried are answers by their Idempotency-Keys, and audit the log, the newest last.
	tried map[string]*call.Answer
	audit []map[string]any
	// asked are the operations that were asked, and done the changes that were made.
	asked, done []string
	// fails, where it is not nil, is asked before and after each operation: an error is answered in place of what it did.
	fails func(n int, after bool) error
	// sent are all arguments that were sent, in JSON.
	sent bytes.Buffer
	// plain says that a list tells of an object what a read does not.
	odd bool
}

// thing is an object: its scope is the names and ids of those above.
type thing struct {
	kind   *files.Kind
	scope  string
	id     string
	fields map[string]json.RawMessage
	apart  json.RawMessage
}

func newFake(t *testing.T, name string) *fake {
	t.Helper()
	return &fake{t: t, name: name, tried: map[string]*call.Answer{}}
}

func every(kinds []*files.Kind, visit func(above []*files.Kind, k *files.Kind)) {
	var walk func(above, kinds []*files.Kind)
	walk = func(above, kinds []*files.Kind) {
		for _, k := range kinds {
			visit(above, k)
			walk(append(slices.Clone(above), k), k.Below)
		}
	}
	walk(nil, kinds)
}

func (f *fake) Account(context.Context) (string, error) { return "demo", nil }

func problem(status int, code exit.Code) error {
	return exit.With(code, &call.Problem{Status: status, Detail: http.StatusText(status)})
}

// List is one request for each thousand.
func (f *fake) List(ctx context.Context, name string, arguments map[string]any) ([]byte, error) {
	answer, err := f.Named(ctx, name, arguments)
	if err != nil {
		return nil, err
	}
	var listed struct{ Total int }
	if err := json.Unmarshal(answer.Body, &listed); err != nil {
		return nil, err
	}
	for n := 1000; n < listed.Total; n += 1000 {
		f.asked = append(f.asked, name)
	}
	return answer.Body, nil
}

func (f *fake) Named(_ context.Context, name string, arguments map[string]any) (*call.Answer, error) {
	f.t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	f.sent.Write(append(text, '\n'))
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	f.asked = append(f.asked, name)
	n := len(f.asked)
	if f.fails != nil {
		if err := f.fails(n, false); err != nil {
			return nil, err
		}
	}
	answer, err := f.answered(name, given)
	if f.fails != nil {
		if err := f.fails(n, true); err != nil {
			return nil, err
		}
	}
	return answer, err
}

// answered is what the API says of a request, the first time or again.
func (f *fake) answered(name string, given map[string]json.RawMessage) (*call.Answer, error) {
	t, err := call.Operation(name)
	if err != nil {
		return nil, err
	}
	takes := func(argument string) bool { return takesArgument(t, argument) }
	for argument := range given {
		if !takes(argument) && !(t.TakesBody && argument != "ifMatch" && argument != "idempotencyKey") {
			f.t.Errorf("%s is given %s, which it does not have", name, argument)
		}
	}
	if !t.ReadOnly && (takes("ifMatch") && text(given["ifMatch"]) == "" || takes("idempotencyKey") && text(given["idempotencyKey"]) == "") {
		f.t.Errorf("%s is asked without a condition, or without a key: %v", name, slices.Sorted(maps.Keys(given)))
	}
	key := text(given["idempotencyKey"])
	if before := f.tried[key]; key != "" && before != nil {
		return before, nil
	}
	answer, err := f.answer(name, given)
	if err == nil && !t.ReadOnly {
		f.done = append(f.done, name)
		if key != "" {
			f.tried[key] = answer
		}
	}
	return answer, err
}

func takesArgument(t *apitools.Tool, name string) bool {
	for _, a := range t.Arguments {
		if a.Name == name {
			return true
		}
	}
	return false
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// scoped is the scope that arguments name.
func scoped(above []*files.Kind, given map[string]json.RawMessage) string {
	var b strings.Builder
	for _, k := range above {
		if k.Argument != "" {
			b.WriteString("/" + k.Argument + "=" + text(given[k.Argument]))
		}
	}
	return b.String()
}

func (f *fake) answer(name string, given map[string]json.RawMessage) (answer *call.Answer, err error) {
	if name == "AuditLogsService_list" {
		newest := slices.Clone(f.audit)
		slices.Reverse(newest)
		return ok(map[string]any{"data": newest, "next": nil}), nil
	}
	every(files.Kinds(), func(above []*files.Kind, k *files.Kind) {
		if answer != nil || err != nil {
			return
		}
		scope := scoped(above, given)
		here := f.find(k, scope, text(given[k.Argument]))
		var mustBe bool
		switch name {
		case k.Read, k.Update, k.Delete:
			mustBe = true
		}
		if k.Apart != nil && (name == k.Apart.Read || name == k.Apart.Write) {
			mustBe = true
		}
		condition := text(given["ifMatch"])
		switch {
		case mustBe && here == nil && name == k.Delete && condition != "" && condition != "*":
			err = problem(http.StatusPreconditionFailed, exit.Conflict)
		case mustBe && here == nil:
			err = problem(http.StatusNotFound, exit.NotFound)
		case name == k.List && !f.within(above, given):
			err = problem(http.StatusNotFound, exit.NotFound)
		case name == k.List:
			answer = f.list(k, scope, given)
		case name == k.Read:
			answer = read(f.including(here, f.render(here, true), given))
		case k.Apart != nil && name == k.Apart.Read:
			answer = read(here.apartBody())
		case k.Apart != nil && name == k.Apart.Write:
			if err = met(condition, here.apartBody()); err == nil && f.taken(here, given[k.Apart.Field]) {
				err = problem(http.StatusConflict, exit.Conflict)
			}
			if err == nil {
				here.apart = given[k.Apart.Field]
				f.record("tunnel.update", here)
				answer = ok(map[string]any{"id": "pst", "status": "success"})
			}
		case name == k.Create && !f.within(above, given):
			err = problem(http.StatusNotFound, exit.NotFound)
		case name == k.Create:
			answer, err = f.create(k, scope, given)
		case name == k.Update, name == k.Delete:
			err = met(condition, f.render(here, true))
		}
		if err != nil || answer != nil {
			return
		}
		switch name {
		case k.Update:
			tool, _ := call.Operation(name)
			for member, value := range given {
				if !strings.Contains(tool.Path, "{"+member+"}") && member != "ifMatch" && member != "idempotencyKey" && member != call.AccountArgument && member != k.Key {
					here.fields[member] = value
				}
			}
			f.record(k.Member+".update", here)
			answer = ok(f.render(here, true))
		case k.Delete:
			f.remove(here)
			answer = &call.Answer{Status: http.StatusNoContent}
		}
	})
	if answer == nil && err == nil {
		return nil, fmt.Errorf("the fake knows no %s", name)
	}
	return answer, err
}

func (f *fake) find(k *files.Kind, scope, id string) *thing {
	for _, o := range f.objects {
		if o.kind.Member == k.Member && o.scope == scope && o.id == id {
			return o
		}
	}
	return nil
}

// within reports whether all that a list is in is there: what is made, each with its own name or id.
func (f *fake) within(above []*files.Kind, given map[string]json.RawMessage) bool {
	for i, k := range above {
		if k.Create != "" && f.find(k, scoped(above[:i], given), text(given[k.Argument])) == nil {
			return false
		}
	}
	return true
}

// taken reports whether another object of the kind has an element of a name that one is to have.
func (f *fake) taken(of *thing, field json.RawMessage) bool {
	names := func(field json.RawMessage) (all []string) {
		var list []struct{ Name string }
		_ = json.Unmarshal(field, &list)
		for _, one := range list {
			all = append(all, one.Name)
		}
		return all
	}
	return slices.ContainsFunc(f.objects, func(o *thing) bool {
		return o != of && o.kind.Member == of.kind.Member && slices.ContainsFunc(names(o.apart), func(name string) bool { return slices.Contains(names(field), name) })
	})
}

func (f *fake) remove(gone *thing) {
	within := gone.scope + "/" + gone.kind.Argument + "=" + gone.id
	f.objects = slices.DeleteFunc(f.objects, func(o *thing) bool {
		return o == gone || o.scope == within || strings.HasPrefix(o.scope, within+"/")
	})
}

func ok(body any) *call.Answer {
	text, _ := json.Marshal(body)
	return &call.Answer{Status: http.StatusOK, Header: http.Header{}, Body: append(text, '\n')}
}

func etag(body any) string {
	text, _ := json.Marshal(body)
	sum := sha256.Sum256(append(text, '\n'))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

func read(body any) *call.Answer {
	a := ok(body)
	a.Header.Set("ETag", etag(body))
	return a
}

func met(condition string, body any) error {
	if condition != "*" && condition != etag(body) {
		return problem(http.StatusPreconditionFailed, exit.Conflict)
	}
	return nil
}

func (o *thing) apartBody() map[string]any {
	services := o.apart
	if services == nil {
		services = json.RawMessage("[]")
	}
	return map[string]any{"version": 1, "services": services}
}

// render is what the API answers of an object, alone or in a list.
func (f *fake) render(o *thing, alone bool) map[string]any {
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
	if o.kind.Member == "keyBuckets" && alone {
		body["token"] = "gwb_secret"
	}
	if f.odd && !alone {
		body["more"] = true
	}
	return body
}

func (f *fake) list(k *files.Kind, scope string, given map[string]json.RawMessage) *call.Answer {
	data := []map[string]any{}
	for _, o := range f.objects {
		if o.kind.Member != k.Member || o.scope != scope {
			continue
		}
		data = append(data, f.including(o, f.render(o, false), given))
	}
	return ok(map[string]any{"data": data, "total": len(data)})
}

// including adds to a body the members of other kinds that are asked for.
func (f *fake) including(o *thing, body map[string]any, given map[string]json.RawMessage) map[string]any {
	for _, below := range o.kind.Below {
		for member, query := range below.Within {
			if string(given[query]) != "true" {
				continue
			}
			list := []map[string]any{}
			for _, one := range f.objects {
				if one.kind.Member == below.Member && one.scope == o.scope+"/"+o.kind.Argument+"="+o.id && (one.fields["sub"] == nil) == (member == "managerInvites") {
					list = append(list, f.render(one, false))
				}
			}
			body[member] = list
		}
	}
	return body
}

func (f *fake) create(k *files.Kind, scope string, given map[string]json.RawMessage) (*call.Answer, error) {
	tool, _ := call.Operation(k.Create)
	o := &thing{kind: k, scope: scope, fields: map[string]json.RawMessage{}}
	var managers []json.RawMessage
	for member, value := range given {
		switch {
		case strings.Contains(tool.Path, "{"+member+"}"), member == "idempotencyKey", member == call.AccountArgument:
		case member == "managers":
			_ = json.Unmarshal(value, &managers)
		case member == "planIds":
			f.paired(scope, given)
			o.fields[member] = value
		default:
			o.fields[member] = value
		}
	}
	if f.n++; k.ID == k.Key {
		o.id = text(given[k.Key])
	} else {
		o.id = fmt.Sprintf("%s_%d", f.name, f.n)
	}
	for _, other := range f.objects {
		if other.kind.Member == k.Member && other.scope == scope && text(other.fields[k.Key]) == text(o.fields[k.Key]) && o.fields[k.Key] != nil {
			if k.Member == "projects" {
				return nil, problem(http.StatusUnprocessableEntity, exit.Invalid)
			}
			return nil, problem(http.StatusConflict, exit.Conflict)
		}
	}
	f.objects = append(f.objects, o)
	f.record(k.Member+".create", o)
	for _, m := range managers {
		one := map[string]json.RawMessage{}
		if json.Unmarshal(m, &one) != nil {
			one["email"] = m
		}
		f.n++
		f.objects = append(f.objects, &thing{kind: k.Below[0], scope: scope + "/" + k.Argument + "=" + o.id, id: fmt.Sprintf("%s_%d", f.name, f.n), fields: one})
	}
	if k.Member == "projects" {
		for _, kind := range files.Kinds() {
			for suffix, of := range map[string]string{"-production": "PRODUCTION", "-preview": "PREVIEW", "-working-copy": "WORKING_COPY"} {
				if kind.Member == "keyBuckets" {
					tags, _ := json.Marshal(map[string]string{"account": "demo", "environmentType": of, "project": o.id})
					f.objects = append(f.objects, &thing{kind: kind, id: o.id + suffix, fields: map[string]json.RawMessage{"tags": tags, "isRetrievable": json.RawMessage("true")}})
				}
			}
		}
	}
	body := f.render(o, true)
	if k.Made != "" {
		body[k.Made] = o.id
	}
	return ok(body), nil
}

// paired tells where the ids of plans are not those of their names.
func (f *fake) paired(scope string, given map[string]json.RawMessage) {
	var ids, names []string
	_ = json.Unmarshal(given["planIds"], &ids)
	_ = json.Unmarshal(given["planExternalIds"], &names)
	for i, id := range ids {
		for _, o := range f.objects {
			if o.kind.Member == "plans" && o.scope == scope && o.id == id && text(o.fields["planExternalId"]) == names[i] {
				names[i] = ""
			}
		}
	}
	if strings.Join(names, "") != "" || len(ids) != len(names) {
		f.t.Errorf("the plans %s are called %v", given["planIds"], names)
	}
}

func (f *fake) record(action string, o *thing) {
	f.audit = append(f.audit, map[string]any{
		"action": action, "requestId": fmt.Sprintf("request-%d", len(f.audit)), "timestamp": time.Date(2030, 1, 1, 0, 0, len(f.audit), 0, time.UTC),
		"actor": map[string]any{"sub": "akey_other"}, "resources": []any{map[string]any{"type": o.kind.Member, "id": f.render(o, true)["id"], "metadata": map[string]string{"name": o.id}}},
	})
}
