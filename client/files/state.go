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

// remoteObject is an object that the API has, or will have after the plan is applied.
type remoteObject struct {
	kind     *Kind
	name, id string
	// objectID is the ID of the object in audit records, "" if it is unknown.
	objectID string
	parent   *remoteObject
	// fields are the members of request bodies that the API returns and that are not empty, and the member infoField.
	fields map[string]Value
	// etag is the object's ETag, "" if it is unknown. The ETag of a list entry is computed, and may be wrong until
	// accountClient.ensureCurrent has returned.
	etag string
	// isNew says that the plan creates the object. withProject says that the API creates the object together with its
	// project, which the plan creates.
	isNew, withProject bool
	// embedded has the list entries of objects of other kinds, by the members that contain them (Kind.Embedded).
	embedded map[string][]Value
}

// key returns a text that identifies the object.
func (o *remoteObject) key() string {
	if o.kind == nil {
		return ""
	}
	return o.parent.key() + "/" + o.kind.Member + "=" + string(mustMarshal(o.name))
}

// arguments returns the path arguments of an object, or of a list within it: the IDs of the object and its ancestors.
// missing has the arguments whose IDs are unknown, because the objects are not created yet.
func (o *remoteObject) arguments() (arguments map[string]any, missing []IDArgument) {
	arguments = map[string]any{}
	for ; o.kind != nil; o = o.parent {
		switch {
		case o.kind.PathParameter == "":
		case o.id == "":
			missing = append(missing, IDArgument{Argument: o.kind.PathParameter, Keys: []string{o.key()}})
		default:
			arguments[o.kind.PathParameter] = o.id
		}
	}
	return arguments, missing
}

// accountClient reads the objects of an account, and calls operations with its name.
type accountClient struct {
	api          API
	account      string
	fieldsByKind map[*Kind]*fields
	// etagsComputable says whether the ETags of a kind can be computed from list entries. A kind that was not tested
	// yet has no entry.
	etagsComputable map[*Kind]bool
}

// call calls an operation with the account and with those of the arguments that the operation has.
func (c *accountClient) call(ctx context.Context, operation string, arguments map[string]any) (*call.Response, error) {
	known, err := c.knownArguments(operation, arguments)
	if err != nil {
		return nil, err
	}
	return c.api.Call(ctx, operation, known)
}

func (c *accountClient) knownArguments(operation string, arguments map[string]any) (map[string]any, error) {
	t, err := call.Operation(operation)
	if err != nil {
		return nil, err
	}
	known := map[string]any{}
	for _, a := range t.Arguments {
		if value, exists := arguments[a.Name]; exists {
			known[a.Name] = value
		} else if a.Name == call.AccountArgument {
			known[a.Name] = c.account
		}
	}
	return known, nil
}

// list returns all objects of a kind within a parent, by normalized name. It returns the first of several objects with
// the same name. include are members of list entries that contain objects of other kinds, each with the query parameter
// that requests the member (Kind.Embedded).
func (c *accountClient) list(
	ctx context.Context, k *Kind, parent *remoteObject, include map[string]string,
) (map[string]*remoteObject, error) {
	arguments, _ := parent.arguments()
	for _, query := range include {
		arguments[query] = true
	}
	known, err := c.knownArguments(k.List, arguments)
	if err != nil {
		return nil, err
	}
	document, err := c.api.List(ctx, k.List, known)
	if err != nil {
		return nil, fmt.Errorf("list the %s: %w", k.Member, err)
	}
	var listed struct{ Data []Value }
	if err := call.Decode(document, &listed); err != nil {
		return nil, fmt.Errorf("read the list of the %s: %w", k.Member, err)
	}
	objects := make(map[string]*remoteObject, len(listed.Data))
	for _, entry := range listed.Data {
		o, err := c.parse(k, parent, entry, include)
		if err != nil {
			return nil, err
		}
		if _, duplicate := objects[k.normalize(o.name)]; !duplicate {
			objects[k.normalize(o.name)] = o
		}
	}
	return objects, nil
}

// parse returns the object of a list entry. The keys of include are the members with objects of other kinds that were
// requested with the list.
func (c *accountClient) parse(
	k *Kind, parent *remoteObject, listed Value, include map[string]string,
) (*remoteObject, error) {
	members := map[string]Value{}
	if err := call.Decode(listed, &members); err != nil {
		return nil, fmt.Errorf("read a %s: %w", k.Singular, err)
	}
	o := &remoteObject{kind: k, parent: parent, etag: computeETag(listed), fields: map[string]Value{}}
	if len(include) > 0 {
		o.embedded = map[string][]Value{}
		for member := range include {
			var list []Value
			_ = json.Unmarshal(members[member], &list)
			o.embedded[member] = list
		}
		o.etag = computeETag(withoutMembers(listed, slices.Collect(maps.Keys(include))))
	}
	o.objectID = stringValue(members["id"])
	if o.id = stringValue(members[k.ID]); o.id == "" {
		o.id = stringValue(members[k.CreatedID])
	}
	if o.id == "" {
		return nil, fmt.Errorf("the API does not say which %s it lists", k.Singular)
	}
	if o.name = stringValue(members[k.Key]); o.name == "" {
		o.name = o.id // objects without a name, such as metering buckets
	}
	if k.Convert != nil {
		members = k.Convert(members)
	}
	for name := range c.fieldsByKind[k].byName {
		if value, exists := members[name]; exists && !isEmpty(value) {
			o.fields[name] = value
		}
	}
	if info, exists := members[infoField]; exists {
		o.fields[infoField] = info
	}
	return o, nil
}

func stringValue(v Value) (text string) {
	_ = json.Unmarshal(v, &text)
	return text
}

// computeETag computes an object's ETag from its list entry. It is correct if the read response of the object equals
// the list entry (docs/decisions/0034). ensureCurrent tests this for each kind by reading one object.
func computeETag(listed Value) string {
	sum := sha256.Sum256(append(bytes.Clone(listed), '\n'))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// withoutMembers returns a JSON object without some of its members. The bytes of the other members stay as they are.
func withoutMembers(object Value, names []string) Value {
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
		nameAndColon := append(bytes.Clone(name), ':')
		value, err := d.ReadValue()
		if err != nil {
			return object
		}
		if slices.Contains(names, stringValue(Value(nameAndColon[:len(nameAndColon)-1]))) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, nameAndColon...), value...)
	}
	return append(out, '}')
}

// embeddedObjects returns the objects of kind k in the list entry of their parent, by name.
func (c *accountClient) embeddedObjects(k *Kind, parent *remoteObject) (map[string]*remoteObject, error) {
	objects := map[string]*remoteObject{}
	for _, member := range slices.Sorted(maps.Keys(k.Embedded)) {
		for _, entry := range parent.embedded[member] {
			o, err := c.parse(k, parent, entry, nil)
			if err != nil {
				return nil, err
			}
			if _, duplicate := objects[k.normalize(o.name)]; !duplicate {
				objects[k.normalize(o.name)] = o
			}
		}
	}
	return objects, nil
}

// ensureCurrent makes sure that an object has the ETag of its read response. It reads the first object of each kind,
// and sets its ETag and fields from the response. If the computed ETag was the same, ensureCurrent trusts the computed
// ETags of the kind and sends no further requests for it. Otherwise it reads each object.
func (c *accountClient) ensureCurrent(ctx context.Context, o *remoteObject) error {
	if o.withProject || o.isNew || c.etagsComputable[o.kind] {
		return nil
	}
	computable, tried := c.etagsComputable[o.kind]
	current, err := c.fetch(ctx, o)
	if err != nil {
		return err
	}
	if !tried {
		c.etagsComputable[o.kind] = current.etag == o.etag
	} else {
		c.etagsComputable[o.kind] = computable
	}
	o.etag, o.fields = current.etag, current.fields
	return nil
}

// findByName returns the object that now has the kind, parent and name of o, nil for none.
func (c *accountClient) findByName(ctx context.Context, o *remoteObject) (*remoteObject, error) {
	if o.kind.Embedded == nil {
		list, err := c.list(ctx, o.kind, o.parent, nil)
		return list[o.kind.normalize(o.name)], err
	}
	arguments, _ := o.parent.arguments()
	for _, query := range o.kind.Embedded {
		arguments[query] = true
	}
	resp, err := c.call(ctx, o.parent.kind.Read, arguments)
	if err != nil {
		return nil, err
	}
	parent, err := c.parse(o.parent.kind, o.parent.parent, Value(bytes.TrimSpace(resp.Body)), o.kind.Embedded)
	if err != nil {
		return nil, err
	}
	list, err := c.embeddedObjects(o.kind, parent)
	return list[o.kind.normalize(o.name)], err
}

// fetch reads the current state of an object.
func (c *accountClient) fetch(ctx context.Context, o *remoteObject) (*remoteObject, error) {
	arguments, _ := o.arguments()
	resp, err := c.call(ctx, o.kind.Read, arguments)
	if err != nil {
		return nil, err
	}
	current, err := c.parse(o.kind, o.parent, Value(bytes.TrimSpace(resp.Body)), nil)
	if err != nil {
		return nil, err
	}
	current.etag = resp.Header.Get("ETag")
	if current.etag == "" {
		return nil, fmt.Errorf("the API tells no ETag of the %s %s", o.kind.Singular, o.name)
	}
	return current, nil
}

// readSeparate reads the field Kind.SeparateField of an object, with the field's ETag.
func (c *accountClient) readSeparate(ctx context.Context, o *remoteObject) (value Value, etag string, err error) {
	arguments, _ := o.arguments()
	resp, err := c.call(ctx, o.kind.SeparateField.Read, arguments)
	if err != nil {
		return nil, "", fmt.Errorf("read the %s of the %s %s: %w", o.kind.SeparateField.Field, o.kind.Singular, o.name, err)
	}
	var members map[string]Value
	if err := call.Decode(resp.Body, &members); err != nil {
		return nil, "", fmt.Errorf("read the %s of the %s %s: %w", o.kind.SeparateField.Field, o.kind.Singular, o.name, err)
	}
	return members[o.kind.SeparateField.Field], resp.Header.Get("ETag"), nil
}

// countDependents returns the numbers of objects that are deleted with an object, by their names in messages. -1 means
// that a number is unknown.
func (c *accountClient) countDependents(ctx context.Context, o *remoteObject) (map[string]int64, error) {
	counts := map[string]int64{}
	count := func(owner *remoteObject) error {
		arguments, _ := owner.arguments()
		arguments["limit"] = 1
		for name, operation := range owner.kind.Dependents {
			resp, err := c.call(ctx, operation, arguments)
			// An API key can have the permission to delete objects without the permission to list them. And a bucket of
			// the project can be missing.
			if exit.CodeOf(err) == exit.NotAllowed || owner != o && isNotFound(err) {
				counts[name] = -1
				continue
			}
			if err != nil {
				return fmt.Errorf("count the %s of the %s %s: %w", name, owner.kind.Singular, owner.name, err)
			}
			var list struct{ Total int64 }
			if err := call.Decode(resp.Body, &list); err != nil {
				return fmt.Errorf("count the %s: %w", name, err)
			}
			if counts[name] >= 0 {
				counts[name] += list.Total
			}
		}
		return nil
	}
	if err := count(o); err != nil {
		return nil, err
	}
	if name := o.kind.UncountedDependents; name != "" {
		counts[name] = -1
	}
	if o.kind.Member == projectsMember {
		for _, bucket := range ProjectBucketNames(o.name) { // these buckets are deleted with the project
			if err := count(&remoteObject{
				kind: findKind(Kinds(), keyBucketsMember), name: bucket, id: bucket,
				parent: o.parent,
			}); err != nil {
				return nil, err
			}
		}
	}
	return counts, nil
}

// deletedMeanwhile returns a conflict error if err says that o, or an object that contains o, was deleted after it was
// listed. Otherwise it returns err.
func deletedMeanwhile(o *remoteObject, err error) error {
	if !isNotFound(err) || o.kind == nil {
		return err
	}
	// Do not wrap the API's problem: programs would read it as a problem of their own request.
	return exit.WithCode(exit.Conflict,
		fmt.Errorf("the %s %s, or what it is in, went while it was compared: plan again (%s)", o.kind.Singular, o.name,
			err.Error()))
}

// isNotFound reports whether an error says that an object does not exist.
func isNotFound(err error) bool {
	problem, ok := errors.AsType[*call.Problem](err)
	return ok && problem.Status == http.StatusNotFound
}
