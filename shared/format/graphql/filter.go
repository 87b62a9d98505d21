package graphql

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// Hidden has the types and fields that responses must not show. A field can be a field of an object or interface, an
// input field of an input type, or a value of an enum.
type Hidden struct {
	types  map[string]bool
	fields map[string]map[string]bool
	names  map[string]bool // of all hidden types and fields
}

// NewHidden returns a Hidden for these types and fields.
func NewHidden(types []string, fields map[string][]string) *Hidden {
	h := &Hidden{types: map[string]bool{}, fields: map[string]map[string]bool{}, names: map[string]bool{}}
	for _, name := range types {
		h.types[name], h.names[name] = true, true
	}
	for typeName, names := range fields {
		h.fields[typeName] = map[string]bool{}
		for _, name := range names {
			h.fields[typeName][name], h.names[name] = true, true
		}
	}
	return h
}

var (
	// ErrQueryTypeHidden is the error for an introspection whose query type is hidden: a schema needs a query type.
	ErrQueryTypeHidden    = errors.New("the query type is hidden")
	errUnexpectedResponse = errors.New("the answer is not what the introspection asks for")
)

// Filter removes hidden types and fields from the response to requests. introspections has an entry for each request:
// its Introspection, or nil for a request without introspection. requested reports whether the requests contain a
// name; a nil function means that they contain none. If Filter returns an error, the response must not reach the
// client. An error other than ErrQueryTypeHidden means that the response cannot be read, or does not match the
// introspections.
func (h *Hidden) Filter(
	response []byte, introspections []*Introspection, requested func(name string) bool,
) (filtered []byte, changed bool, err error) {
	removed := map[string]bool{}
	introspects := slices.ContainsFunc(introspections, func(i *Introspection) bool { return i != nil })
	for {
		root, err := parseTree(response, introspects)
		if err != nil {
			return nil, false, err
		}
		f := filterPass{
			Hidden: h, removed: removed, emptied: map[string]bool{}, shownTypes: map[string]*shownType{},
			requested: requested,
		}
		if err := f.filterRoot(root, introspections, introspects); err != nil {
			return nil, false, err
		}
		f.removeHiddenDefaults()
		if len(f.emptied) == 0 {
			if !f.changed {
				return response, false, nil
			}
			return root.append(make([]byte, 0, len(response))), true, nil
		}
		// A type without fields and a union without types are invalid. Hide such types too, and filter again. Each
		// iteration hides at least one more type, so the loop ends.
		for name := range f.emptied {
			removed[name] = true
		}
	}
}

// filterPass is one pass over a response.
type filterPass struct {
	*Hidden
	*Introspection
	// removed are the types that lost all fields in earlier passes. emptied are the types that lost all fields in this
	// pass.
	removed, emptied map[string]bool
	changed          bool
	// shownTypes are the types that the response shows, by their names. defaultValues are the default values in the
	// response.
	shownTypes    map[string]*shownType
	defaultValues []defaultValue
	// requested reports whether the requests contain a name.
	requested func(name string) bool
}

// filterRoot filters a whole response, to one request or to a batch.
func (f *filterPass) filterRoot(root *node, introspections []*Introspection, introspects bool) error {
	switch {
	case root.kind == jsontext.KindBeginObject:
		// The root is the response to one request, or one error in place of the responses to a batch.
		if len(introspections) == 1 {
			return f.filterResponse(root, introspections[0])
		}
		if introspects && root.get("data") != nil {
			return errUnexpectedResponse
		}
		return f.filterResponse(root, nil)
	case root.kind == jsontext.KindBeginArray && (len(root.elements) == len(introspections) || !introspects):
		for i, e := range root.elements {
			var intro *Introspection
			if introspects {
				intro = introspections[i]
			}
			if err := f.filterResponse(e, intro); err != nil {
				return err
			}
		}
		return nil
	case introspects:
		return errUnexpectedResponse
	}
	return nil
}

// filterResponse filters the response to one request. intro is nil for a request without introspection.
func (f *filterPass) filterResponse(n *node, intro *Introspection) error {
	f.Introspection = intro
	f.filterErrors(n)
	if intro == nil {
		return nil
	}
	return f.filterIntrospections(n)
}

// filterIntrospections filters the introspections in a part of a response. An introspection can be at any depth: a
// client can introspect wherever a server has a field of the query type, for example in the result of a mutation. The
// marks that Amend has added identify the objects of introspections.
func (f *filterPass) filterIntrospections(n *node) error {
	for _, e := range n.elements {
		if e.marked() {
			// An introspection is never the element of a list: an element does not show which object it belongs to.
			return errUnexpectedResponse
		}
		if err := f.filterIntrospections(e); err != nil {
			return err
		}
	}
	for i := 0; i < len(n.members); i++ {
		m := n.members[i]
		if m.name == markRoot {
			if f.isHidden(unwrappedName(m.value.get("queryType"))) {
				return ErrQueryTypeHidden
			}
			n.members = slices.Delete(n.members, i, i+1)
			i--
			f.changed = true
			continue
		}
		if !f.roots[m.name] && !m.value.marked() {
			if err := f.filterIntrospections(m.value); err != nil {
				return err
			}
			continue
		}
		visible, err := f.filterValue(m.value, owner{})
		if err != nil {
			return err
		}
		if !visible {
			m.value.setText(nil)
		}
		f.changed = true
	}
	return nil
}

// marked reports whether a value is an object of an introspection: it has a mark that Amend has added, except markRoot.
func (n *node) marked() bool {
	for i := range n.members {
		if name := n.members[i].name; name != markRoot && strings.HasPrefix(name, markPrefix) {
			return true
		}
	}
	return false
}

// owner is the type that a field, an input field or a value of an enum belongs to. The zero owner means no type.
type owner struct {
	name string
	// union reports whether the type is a union, which is invalid without its member types.
	union bool
}

// filterValue filters a value of an introspection. It returns false if the value is hidden.
func (f *filterPass) filterValue(n *node, parent owner) (bool, error) {
	switch n.kind {
	case jsontext.KindBeginArray:
		return true, f.filterList(n, parent, false)
	case jsontext.KindBeginObject:
	default:
		return true, nil
	}
	inner, visible := owner{}, true
	switch {
	case n.get(markSchema) != nil:
		if f.isHidden(unwrappedName(n.get(markQuery))) {
			return false, ErrQueryTypeHidden
		}
	case n.get(markType) != nil:
		inner.name = n.get(markType).text()
		if inner.name == "" {
			inner.name = unwrappedName(n.get(markOfType))
		}
		kind := n.get(markKind).text()
		inner.union = kind == "UNION"
		if visible = !f.isHidden(inner.name); visible {
			f.shownType(inner.name).kind = kind
		}
	case n.get(markField) != nil:
		visible = !f.fields[parent.name][n.get(markField).text()] && !f.isHidden(unwrappedName(n.get(markTypeRef)))
	case n.get(markInput) != nil:
		name, typeName := n.get(markInput).text(), unwrappedName(n.get(markTypeRef))
		if visible = !f.fields[parent.name][name] && !f.isHidden(typeName); visible {
			if parent.name != "" {
				f.shownType(parent.name).fields[name] = typeName
			}
			f.collectDefaults(n, typeName)
		}
	case n.get(markValue) != nil:
		visible = !f.fields[parent.name][n.get(markValue).text()]
	case n.get(markDirective) != nil:
	default:
		return false, errUnexpectedResponse
	}
	if !visible {
		return false, nil
	}
	return true, f.filterMembers(n, inner)
}

// filterMembers filters the members of an object in an introspection, and removes the marks. parent is the type that
// the object describes, or the zero owner.
func (f *filterPass) filterMembers(n *node, parent owner) error {
	visible := n.members[:0]
	for _, m := range n.members {
		if strings.HasPrefix(m.name, markPrefix) {
			continue
		}
		visible = append(visible, m)
		if m.value.kind == jsontext.KindBeginArray {
			if err := f.filterList(m.value, parent, f.nonDeprecated[m.name]); err != nil {
				return err
			}
			continue
		}
		ok, err := f.filterValue(m.value, parent)
		if err != nil {
			return err
		}
		if !ok {
			m.value.setText(nil)
		}
	}
	n.members = visible
	return nil
}

// filterList filters a list in an introspection: the fields, input fields, enum values or other items of a type. parent
// is the type. nonDeprecated reports whether the list excludes deprecated items. If a list of parent must not be empty,
// but all its items are hidden, filterList adds parent to emptied.
func (f *filterPass) filterList(n *node, parent owner, nonDeprecated bool) error {
	visible, hasTypes := n.elements[:0], false
	for _, e := range n.elements {
		hasTypes = hasTypes || e.get(markType) != nil
		ok, err := f.filterValue(e, parent)
		if err != nil {
			return err
		}
		if ok {
			visible = append(visible, e)
		}
	}
	// The list of a union's member types must not become empty. Other lists of types can be empty: the interfaces of a
	// type, or the types that implement an interface.
	if len(visible) == 0 && len(n.elements) > 0 && parent.name != "" && (!hasTypes && !nonDeprecated || parent.union) {
		f.emptied[parent.name] = true
	}
	n.elements = visible
	return nil
}

// isHidden reports whether a type is hidden. A type with an unknown name counts as hidden.
func (f *filterPass) isHidden(name string) bool {
	return name == "" || f.types[name] || f.removed[name]
}

// unwrappedName returns the name of a type without its list and non-null wrappers. It returns "" if the type has no
// name.
func unwrappedName(n *node) string {
	for n != nil && n.kind == jsontext.KindBeginObject {
		if name := n.get("name").text(); name != "" {
			return name
		}
		n = n.get("ofType")
	}
	return ""
}

// Names returns the parts of a text that could be names in GraphQL, in their order.
func Names(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// mentions reports whether a text contains a hidden name as a word.
func (h *Hidden) mentions(text string) bool {
	for name := range Names(text) {
		if h.names[name] {
			return true
		}
	}
	return false
}

// reveals reports whether a text contains a word that would be new to the client: the name of a hidden type, or another
// hidden name that the client has not requested itself. The name of a hidden type counts even if it was requested,
// because further names of the type can be next to it.
func (f *filterPass) reveals(text string) bool {
	for name := range Names(text) {
		if f.types[name] || f.names[name] && (f.requested == nil || !f.requested(name)) {
			return true
		}
	}
	return false
}

// MayReveal reports whether a text that cannot be parsed as a response could reveal hidden names. It also finds names
// in UTF-16 and UTF-32.
func (h *Hidden) MayReveal(text []byte) bool {
	plain := strings.ReplaceAll(string(text), "\x00", "")
	return suggestion().MatchString(plain) || h.mentions(plain)
}

// suggestion matches the suggestions that servers add to validation errors, with the names of similar fields and types.
var suggestion = lazy.Regexp(`(?i)\s*\(?did you mean[^?]*(\?\)?|$)`)

// genericMessage replaces an error that would reveal something hidden.
const genericMessage = "The request does not fit the schema that is shown here."

// filterErrors filters the errors of a response. A response can have more than one member "errors".
func (f *filterPass) filterErrors(n *node) {
	for _, m := range n.members {
		if m.name == "errors" {
			f.filterErrorTexts(m.value, n.get("data") != nil)
		}
	}
}

// filterErrorTexts removes all suggestions from all texts in errors: stack traces repeat messages, and suggestions can
// contain hidden names that this package does not know. If the request was not executed, its errors are about the
// request and the schema. Then filterErrorTexts also replaces texts that reveal something hidden without a suggestion,
// for example the name of a hidden argument.
func (f *filterPass) filterErrorTexts(n *node, executed bool) {
	switch n.kind {
	case jsontext.KindString:
		text := n.text()
		cleaned := suggestion().ReplaceAllString(text, "")
		if !executed && f.reveals(cleaned) {
			cleaned = genericMessage
		}
		if cleaned != text {
			n.setText(&cleaned)
			f.changed = true
		}
	default:
		for _, e := range n.elements {
			f.filterErrorTexts(e, executed)
		}
		for _, m := range n.members {
			f.filterErrorTexts(m.value, executed)
		}
	}
}
