package api

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/fault"
)

// input knows where the fields of an operation's In stand in a request, so that
// services can name fields without knowing HTTP.
type input struct {
	body, path, query []string
	// texts are the properties of the body that are texts.
	texts []string
	// slashed is the path parameter whose values may hold slashes, "" for none.
	slashed string
	// valued are the parameters of the query that are not empty when they are
	// there: all but texts with the tag empty:"absent".
	valued []string
	// single are the parameters of the query that have one value: all but lists.
	single []string
	// truths are the parameters of the query that are true or false.
	truths []string
	// uuids are the path parameters that are UUIDs.
	uuids []string
	// strict says that the query has no parameters but these.
	strict bool
	// form is what is known of the body, nil for none; a Route has it once it is
	// registered.
	form *form
}

// inputOf reads the tags of In.
func inputOf[In any]() *input {
	i := new(input)
	i.read(reflect.TypeFor[In]())
	return i
}

func (i *input) read(t reflect.Type) {
	for f := range fieldsOf(t) {
		switch {
		case f.Name == "Body":
			i.readBody(f.Type)
		case f.Anonymous:
			i.read(f.Type)
		case f.Tag.Get("path") != "":
			i.path = append(i.path, f.Tag.Get("path"))
			if f.Tag.Get("slashes") == "true" {
				i.slashed = "{" + f.Tag.Get("path") + "}"
			}
			if f.Tag.Get("uuid") == "true" {
				i.uuids = append(i.uuids, f.Tag.Get("path"))
			}
		case f.Tag.Get("query") != "":
			name, _, _ := strings.Cut(f.Tag.Get("query"), ",") // a list's "explode" stands behind it
			i.query = append(i.query, name)
			if f.Type.Kind() != reflect.Slice {
				i.single = append(i.single, name)
			}
			if kindOf(f.Type) == reflect.Bool {
				i.truths = append(i.truths, name)
			}
			if f.Tag.Get("empty") != "absent" {
				i.valued = append(i.valued, name)
			}
		}
	}
}

// kindOf is the kind of a parameter's value, which may be wrapped.
func kindOf(t reflect.Type) reflect.Kind {
	if wrapped, ok := reflect.New(t).Interface().(huma.ParamWrapper); ok {
		return wrapped.Receiver().Kind()
	}
	return t.Kind()
}

// readBody reads the names of a body's properties. Those of a list's entries
// stand behind an index, which no name begins with.
func (i *input) readBody(t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		i.body = append(i.body, name)
		if f.Type.Kind() == reflect.String {
			i.texts = append(i.texts, name)
		}
	}
}

// fieldsOf returns the fields of a struct, none of anything else.
func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		if t.Kind() != reflect.Struct {
			return
		}
		for n := range t.NumField() {
			if !yield(t.Field(n)) {
				return
			}
		}
	}
}

// normalise gives each UUID of the path its one spelling: its letters may come in
// either case (RFC 9562, 4). What is no UUID stays as it is, and is not found.
func (i *input) normalise(r *http.Request) {
	for _, name := range i.uuids {
		if value := r.PathValue(name); uuidPattern.MatchString(value) {
			r.SetPathValue(name, strings.ToLower(value))
		}
	}
}

var uuidPattern = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// checkQuery refuses a parameter that is there and empty. It would count as
// absent, and limit= as 1000; what leaves a filter's value out by mistake would
// be answered everything. It refuses a second value where there is one, too: the
// first would be taken here, and the last by whoever looks before. Truth values are
// spelled as JSON has them: strconv, by which huma reads them, takes t and 0 too.
// Names are exact, as those of a body's fields are (form): one that differs from
// a parameter's in the case of its letters would be passed over in silence.
func (i *input) checkQuery(query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) { // the same answer each time
		at := slices.IndexFunc(i.query, func(known string) bool { return strings.EqualFold(known, name) })
		switch {
		case slices.Contains(i.query, name):
		case at >= 0:
			return fault.InvalidField("query."+name, "is no parameter of this operation: names are exact, write it as %s", i.query[at])
		case i.strict:
			return fault.InvalidField("query."+name, "is no parameter of this operation; there are %s", strings.Join(i.query, ", "))
		}
	}
	for _, name := range i.valued {
		if slices.Contains(query[name], "") {
			return fault.InvalidField("query."+name, "is empty; give it a value or leave it out")
		}
	}
	for _, name := range i.single {
		if len(query[name]) > 1 {
			return fault.InvalidField("query."+name, "is given more than once; give it one value")
		}
	}
	for _, name := range i.truths {
		for _, value := range query[name] {
			if value != "true" && value != "false" {
				return fault.InvalidField("query."+name, "has to be true or false")
			}
		}
	}
	return nil
}

// locate returns details by where their fields stood: "body.tags",
// "path.branchName", "query.limit". A nil input leaves them as they are.
func (i *input) locate(details []fault.Detail) []fault.Detail {
	if i == nil {
		return details
	}
	out := slices.Clone(details)
	for n, d := range out {
		name, _, _ := strings.Cut(d.Field, ".")
		name, _, _ = strings.Cut(name, "[")
		switch {
		case d.Field == "" || strings.HasPrefix(d.Field, "["):
			out[n].Field = "body" + d.Field
		case slices.Contains(i.body, name):
			out[n].Field = "body." + d.Field
		case slices.Contains(i.path, name):
			out[n].Field = "path." + d.Field
		case slices.Contains(i.query, name):
			out[n].Field = "query." + d.Field
		}
	}
	return out
}
