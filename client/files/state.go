package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
)

// seen is an object as the API has it, or as it will have it once it is made.
type seen struct {
	kind     *Kind
	name, id string
	// objectID is by what audit records name it, "" where it is not told.
	objectID string
	parent   *seen
	// fields are those of the bodies, as far as the API shows them.
	fields map[string]Value
	// tag is its ETag, as far as it is known (state.sure).
	tag string
	// made says that the plan makes it, and with that it comes with its project, which the plan makes.
	made, with bool
	// within are the members of its own that have other kinds (Kind.Within).
	within map[string][]Value
}

// key tells an object from all others.
func (s *seen) key() string {
	if s.kind == nil {
		return ""
	}
	return s.parent.key() + "/" + s.kind.Member + "=" + string(marshal(s.name))
}

// arguments are those by which an operation is told of an object, or of a list within it: the names and ids of it and of those above.
// Without an id, which one that is made does not have yet, it is said which.
func (s *seen) arguments() (arguments map[string]any, needs []Need) {
	arguments = map[string]any{}
	for ; s.kind != nil; s = s.parent {
		switch {
		case s.kind.Argument == "":
		case s.id == "":
			needs = append(needs, Need{Argument: s.kind.Argument, Of: []string{s.key()}})
		default:
			arguments[s.kind.Argument] = s.id
		}
	}
	return arguments, needs
}

// state is what an installation has, as far as it was asked for.
type state struct {
	api     API
	account string
	kinds   map[*Kind]*fields
	// told is by kind whether the ETag of what is listed is a digest of it, as far as it was tried.
	told map[*Kind]bool
}

// ask calls an operation with those of the arguments that it has, and with the account.
func (s *state) ask(ctx context.Context, operation string, arguments map[string]any) (*call.Answer, error) {
	of, err := s.only(operation, arguments)
	if err != nil {
		return nil, err
	}
	return s.api.Named(ctx, operation, of)
}

func (s *state) only(operation string, arguments map[string]any) (map[string]any, error) {
	t, err := call.Operation(operation)
	if err != nil {
		return nil, err
	}
	of := map[string]any{}
	for _, a := range t.Arguments {
		if value, there := arguments[a.Name]; there {
			of[a.Name] = value
		} else if a.Name == call.AccountArgument {
			of[a.Name] = s.account
		}
	}
	return of, nil
}

// list asks for all of a kind within an object, by their names. With what of others' members is asked for too.
func (s *state) list(ctx context.Context, k *Kind, parent *seen, with map[string]string) (map[string]*seen, error) {
	arguments, _ := parent.arguments()
	for _, query := range with {
		arguments[query] = true
	}
	of, err := s.only(k.List, arguments)
	if err != nil {
		return nil, err
	}
	document, err := s.api.List(ctx, k.List, of)
	if err != nil {
		return nil, fmt.Errorf("list the %s: %w", k.Member, err)
	}
	var listed struct{ Data []Value }
	if err := call.Read(document, &listed); err != nil {
		return nil, fmt.Errorf("read the list of the %s: %w", k.Member, err)
	}
	found := make(map[string]*seen, len(listed.Data))
	for _, one := range listed.Data {
		o, err := s.read(k, parent, one, with)
		if err != nil {
			return nil, err
		}
		if _, twice := found[k.fold(o.name)]; !twice {
			found[k.fold(o.name)] = o
		}
	}
	return found, nil
}

// read is an object of what is listed of it. With are members of other kinds that were asked for too.
func (s *state) read(k *Kind, parent *seen, listed Value, with map[string]string) (*seen, error) {
	members := map[string]Value{}
	if err := call.Read(listed, &members); err != nil {
		return nil, fmt.Errorf("read a %s: %w", k.One, err)
	}
	o := &seen{kind: k, parent: parent, tag: tagOf(listed), fields: map[string]Value{}}
	if len(with) > 0 {
		o.within = map[string][]Value{}
		for member := range with {
			var list []Value
			_ = json.Unmarshal(members[member], &list)
			o.within[member] = list
		}
		o.tag = tagOf(without(listed, slices.Collect(maps.Keys(with))))
	}
	o.objectID = textOf(members["id"])
	if o.id = textOf(members[k.ID]); o.id == "" {
		o.id = textOf(members[k.Made])
	}
	if o.id == "" {
		return nil, fmt.Errorf("the API does not say which %s it lists", k.One)
	}
	if o.name = textOf(members[k.Key]); o.name == "" {
		o.name = o.id // such as a metering bucket
	}
	if k.Fields != nil {
		members = k.Fields(members)
	}
	for name := range s.kinds[k].all {
		if value, there := members[name]; there && !empty(value) {
			o.fields[name] = value
		}
	}
	if info, there := members[infoField]; there {
		o.fields[infoField] = info
	}
	return o, nil
}

func textOf(v Value) (text string) {
	_ = json.Unmarshal(v, &text)
	return text
}

// tagOf is the ETag that a read of an object has whose answer is what was listed of it (docs/decisions/0034). Whether it is, is tried
// by reading one of a list (sure).
func tagOf(listed Value) string {
	sum := sha256.Sum256(append(bytes.Clone(listed), '\n'))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// without is an object without some of its members, all else as it stands.
func without(object Value, names []string) Value {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil {
		return object
	}
	out := []byte{'{'}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadValue()
		if err != nil {
			return object
		}
		whole := append(bytes.Clone(name), ':')
		value, err := d.ReadValue()
		if err != nil {
			return object
		}
		if slices.Contains(names, textOf(Value(whole[:len(whole)-1]))) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, whole...), value...)
	}
	return append(out, '}')
}

// children are the objects of a kind that stand in the members of their parent.
func (s *state) children(k *Kind, parent *seen) (map[string]*seen, error) {
	found := map[string]*seen{}
	for _, member := range slices.Sorted(maps.Keys(k.Within)) {
		for _, one := range parent.within[member] {
			o, err := s.read(k, parent, one, nil)
			if err != nil {
				return nil, err
			}
			if _, twice := found[k.fold(o.name)]; !twice {
				found[k.fold(o.name)] = o
			}
		}
	}
	return found, nil
}

// sure has the ETag of an object be the one that the API goes by now, and its fields those that it stands for. Of a list whose
// elements are what reads answer, which one read tells, the tags are known without a request for each.
func (s *state) sure(ctx context.Context, o *seen) error {
	if o.with || o.made || s.told[o.kind] {
		return nil
	}
	told, tried := s.told[o.kind]
	fresh, err := s.now(ctx, o)
	if err != nil {
		return err
	}
	if !tried {
		s.told[o.kind] = fresh.tag == o.tag
	} else {
		s.told[o.kind] = told
	}
	o.tag, o.fields = fresh.tag, fresh.fields
	return nil
}

// named gives the object of a kind and parent that has the name of one now, nil for none.
func (s *state) named(ctx context.Context, o *seen) (*seen, error) {
	if o.kind.Within == nil {
		list, err := s.list(ctx, o.kind, o.parent, nil)
		return list[o.kind.fold(o.name)], err
	}
	arguments, _ := o.parent.arguments()
	for _, query := range o.kind.Within {
		arguments[query] = true
	}
	answer, err := s.ask(ctx, o.parent.kind.Read, arguments)
	if err != nil {
		return nil, err
	}
	parent, err := s.read(o.parent.kind, o.parent.parent, Value(bytes.TrimSpace(answer.Body)), o.kind.Within)
	if err != nil {
		return nil, err
	}
	list, err := s.children(o.kind, parent)
	return list[o.kind.fold(o.name)], err
}

// now reads an object again.
func (s *state) now(ctx context.Context, o *seen) (*seen, error) {
	arguments, _ := o.arguments()
	answer, err := s.ask(ctx, o.kind.Read, arguments)
	if err != nil {
		return nil, err
	}
	fresh, err := s.read(o.kind, o.parent, Value(bytes.TrimSpace(answer.Body)), nil)
	if err != nil {
		return nil, err
	}
	fresh.tag = answer.Header.Get("ETag")
	if fresh.tag == "" {
		return nil, fmt.Errorf("the API tells no ETag of the %s %s", o.kind.One, o.name)
	}
	return fresh, nil
}

// apart reads the field of an object that has operations of its own, with its ETag.
func (s *state) apart(ctx context.Context, o *seen) (value Value, tag string, err error) {
	arguments, _ := o.arguments()
	answer, err := s.ask(ctx, o.kind.Apart.Read, arguments)
	if err != nil {
		return nil, "", fmt.Errorf("read the %s of the %s %s: %w", o.kind.Apart.Field, o.kind.One, o.name, err)
	}
	var members map[string]Value
	if err := call.Read(answer.Body, &members); err != nil {
		return nil, "", fmt.Errorf("read the %s of the %s %s: %w", o.kind.Apart.Field, o.kind.One, o.name, err)
	}
	return members[o.kind.Apart.Field], answer.Header.Get("ETag"), nil
}

// counts tells how many objects go with one.
func (s *state) counts(ctx context.Context, o *seen) (map[string]int64, error) {
	goes := map[string]int64{}
	count := func(of *seen) error {
		arguments, _ := of.arguments()
		arguments["limit"] = 1
		for what, operation := range of.kind.Counted {
			answer, err := s.ask(ctx, operation, arguments)
			if exit.Of(err) == exit.NotAllowed || of != o && notThere(err) { // a key may delete what it may not list
				goes[what] = -1
				continue
			}
			if err != nil {
				return fmt.Errorf("count the %s of the %s %s: %w", what, of.kind.One, of.name, err)
			}
			var list struct{ Total int64 }
			if err := call.Read(answer.Body, &list); err != nil {
				return fmt.Errorf("count the %s: %w", what, err)
			}
			if goes[what] >= 0 {
				goes[what] += list.Total
			}
		}
		return nil
	}
	if err := count(o); err != nil {
		return nil, err
	}
	if what := o.kind.Uncounted; what != "" {
		goes[what] = -1
	}
	if o.kind.Member == projectsMember {
		for _, bucket := range BucketsOf(o.name) { // which go with it
			if err := count(&seen{kind: find(Kinds(), bucketsMember), name: bucket, id: bucket, parent: o.parent}); err != nil {
				return nil, err
			}
		}
	}
	return goes, nil
}

// went is what is said of an object that is to stay, and that somebody has deleted since it was listed: by what was asked of it or of a list in it.
func went(o *seen, err error) error {
	if !notThere(err) || o.kind == nil {
		return err
	}
	// A program that read the API's problem in it would take it for one of what was asked for.
	return exit.With(exit.Conflict, fmt.Errorf("the %s %s, or what it is in, went while it was compared: plan again (%s)", o.kind.One, o.name, err.Error()))
}

// notThere reports whether an error says that an object is not there.
func notThere(err error) bool {
	problem, is := errors.AsType[*call.Problem](err)
	return is && problem.Status == http.StatusNotFound
}
