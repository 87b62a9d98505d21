package graphql

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/lazy"
)

// Hidden is what answers do not show: types, and fields of types, which are those of objects and
// interfaces, the input fields of inputs and the values of enums.
type Hidden struct {
	types  map[string]bool
	fields map[string]map[string]bool
	names  map[string]bool // all of them
}

// Hide makes a Hidden.
func Hide(types []string, fields map[string][]string) *Hidden {
	h := &Hidden{types: map[string]bool{}, fields: map[string]map[string]bool{}, names: map[string]bool{}}
	for _, name := range types {
		h.types[name], h.names[name] = true, true
	}
	for of, names := range fields {
		h.fields[of] = map[string]bool{}
		for _, name := range names {
			h.fields[of][name], h.names[name] = true, true
		}
	}
	return h
}

var (
	// ErrNothingLeft is the error for an introspection whose query type is hidden: there is no
	// schema without one.
	ErrNothingLeft = errors.New("the query type is hidden")
	errNoAnswer    = errors.New("the answer is not what the introspection asks for")
)

// Filter takes what is hidden out of the answer to requests, of which shown has those that
// introspect, and nil for the others. asked says whether a name stands in what was asked for, nil for none. changed is
// false where the answer is as it was. An error other than
// ErrNothingLeft means that the answer is none that can be read, and then nobody is to see it.
func (h *Hidden) Filter(answer []byte, shown []*Introspection, asked func(name string) bool) (filtered []byte, changed bool, err error) {
	gone := map[string]bool{}
	introspects := slices.ContainsFunc(shown, func(i *Introspection) bool { return i != nil })
	for {
		root, err := parseTree(answer, introspects)
		if err != nil {
			return nil, false, err
		}
		f := filtering{Hidden: h, gone: gone, emptied: map[string]bool{}, inputs: map[string]*inputType{}, asked: asked}
		if err := f.root(root, shown, introspects); err != nil {
			return nil, false, err
		}
		f.leaveOutDefaults()
		if len(f.emptied) == 0 {
			if !f.changed {
				return answer, false, nil
			}
			return root.append(make([]byte, 0, len(answer))), true, nil
		}
		// A type without fields, or a union without types, is none. Each time one more is
		// hidden, so this ends.
		for name := range f.emptied {
			gone[name] = true
		}
	}
}

// filtering is one pass over an answer.
type filtering struct {
	*Hidden
	*Introspection
	// gone are the types of which nothing was left in the passes before, emptied those of
	// this one.
	gone, emptied map[string]bool
	changed       bool
	// inputs are the types of inputs that the answer shows, values the default values in it.
	inputs map[string]*inputType
	values []defaultValue
	// asked says whether a name stands in what was asked for.
	asked func(name string) bool
}

func (f *filtering) root(root *node, shown []*Introspection, introspects bool) error {
	switch {
	case root.kind == jsontext.KindBeginObject:
		// The answer to one request, or an error instead of those to several.
		if len(shown) == 1 {
			return f.answer(root, shown[0])
		}
		if introspects && root.get("data") != nil {
			return errNoAnswer
		}
		return f.answer(root, nil)
	case root.kind == jsontext.KindBeginArray && (len(root.elements) == len(shown) || !introspects):
		for i, e := range root.elements {
			var of *Introspection
			if introspects {
				of = shown[i]
			}
			if err := f.answer(e, of); err != nil {
				return err
			}
		}
		return nil
	case introspects:
		return errNoAnswer
	}
	return nil
}

// answer filters the answer to one request.
func (f *filtering) answer(n *node, of *Introspection) error {
	f.Introspection = of
	f.errorsOf(n)
	if of == nil {
		return nil
	}
	return f.within(n)
}

// within filters the introspections in a part of an answer. They may be anywhere: wherever a server has a
// field of the query type, such as in what a mutation returns, a client can ask for one. Their
// objects are known by the marks that Amend has asked for.
func (f *filtering) within(n *node) error {
	for _, e := range n.elements {
		if e.marked() {
			return errNoAnswer // one comes alone; a part of a list says nothing of whose it is
		}
		if err := f.within(e); err != nil {
			return err
		}
	}
	for i := 0; i < len(n.members); i++ {
		m := n.members[i]
		if m.name == markRoot {
			if f.hides(innermost(m.value.get("queryType"))) {
				return ErrNothingLeft
			}
			n.members = slices.Delete(n.members, i, i+1)
			i--
			f.changed = true
			continue
		}
		if !f.roots[m.name] && !m.value.marked() {
			if err := f.within(m.value); err != nil {
				return err
			}
			continue
		}
		shown, err := f.show(m.value, owner{})
		if err != nil {
			return err
		}
		if !shown {
			m.value.setText(nil)
		}
		f.changed = true
	}
	return nil
}

// marked is whether a value is an object with something that Amend has asked for.
func (n *node) marked() bool {
	for i := range n.members {
		if name := n.members[i].name; name != markRoot && strings.HasPrefix(name, mark) {
			return true
		}
	}
	return false
}

// owner is the type that a field, an input field or a value belongs to, the zero value for none.
type owner struct {
	name string
	// union says that a type is a union, and so is nothing without its types.
	union bool
}

// show filters a value of an introspection. It answers false for what is hidden.
func (f *filtering) show(n *node, of owner) (bool, error) {
	switch n.kind {
	case jsontext.KindBeginArray:
		return true, f.list(n, of, false)
	case jsontext.KindBeginObject:
	default:
		return true, nil
	}
	inner, shown := owner{}, true
	switch {
	case n.get(markSchema) != nil:
		if f.hides(innermost(n.get(markQuery))) {
			return false, ErrNothingLeft
		}
	case n.get(markType) != nil:
		inner.name = n.get(markType).text()
		if inner.name == "" {
			inner.name = innermost(n.get(markOf))
		}
		kind := n.get(markKind).text()
		inner.union = kind == "UNION"
		if shown = !f.hides(inner.name); shown {
			f.input(inner.name).kind = kind
		}
	case n.get(markField) != nil:
		shown = !f.fields[of.name][n.get(markField).text()] && !f.hides(innermost(n.get(markIn)))
	case n.get(markInput) != nil:
		name, is := n.get(markInput).text(), innermost(n.get(markIn))
		if shown = !f.fields[of.name][name] && !f.hides(is); shown {
			if of.name != "" {
				f.input(of.name).fields[name] = is
			}
			f.defaultsOf(n, is)
		}
	case n.get(markValue) != nil:
		shown = !f.fields[of.name][n.get(markValue).text()]
	case n.get(markDirective) != nil:
	default:
		return false, errNoAnswer
	}
	if !shown {
		return false, nil
	}
	return true, f.members(n, inner)
}

// members filters those of an object, and takes out the marks.
func (f *filtering) members(n *node, of owner) error {
	kept := n.members[:0]
	for _, m := range n.members {
		if strings.HasPrefix(m.name, mark) {
			continue
		}
		kept = append(kept, m)
		if m.value.kind == jsontext.KindBeginArray {
			if err := f.list(m.value, of, f.current[m.name]); err != nil {
				return err
			}
			continue
		}
		shown, err := f.show(m.value, of)
		if err != nil {
			return err
		}
		if !shown {
			m.value.setText(nil)
		}
	}
	n.members = kept
	return nil
}

// list filters a list, of which current says that it has nothing that is deprecated.
func (f *filtering) list(n *node, of owner, current bool) error {
	kept, types := n.elements[:0], false
	for _, e := range n.elements {
		types = types || e.get(markType) != nil
		shown, err := f.show(e, of)
		if err != nil {
			return err
		}
		if shown {
			kept = append(kept, e)
		}
	}
	// Of a list of types, those that a union may be are what it consists of. The lists of
	// others, their interfaces or what implements them, may be empty.
	if len(kept) == 0 && len(n.elements) > 0 && of.name != "" && (!types && !current || of.union) {
		f.emptied[of.name] = true
	}
	n.elements = kept
	return nil
}

// hides is whether a type is hidden. One whose name could not be found out is.
func (f *filtering) hides(name string) bool { return name == "" || f.types[name] || f.gone[name] }

// innermost is the name of a type below all that wraps it, "" where there is none.
func innermost(n *node) string {
	for n != nil && n.kind == jsontext.KindBeginObject {
		if name := n.get("name").text(); name != "" {
			return name
		}
		n = n.get("ofType")
	}
	return ""
}

// Words are the names in a text, of whatever language.
func Words(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// mentions is whether a text has one of the hidden names as a word.
func (h *Hidden) mentions(text string) bool {
	for word := range Words(text) {
		if h.names[word] {
			return true
		}
	}
	return false
}

// reveals is whether a text has a name as a word that the client would learn of: that of a hidden type, with which
// others of its own may stand, or of another hidden thing that it has not asked for itself.
func (f *filtering) reveals(text string) bool {
	for word := range Words(text) {
		if f.types[word] || f.names[word] && (f.asked == nil || !f.asked(word)) {
			return true
		}
	}
	return false
}

// Betrays is whether a text which is no answer that can be read may say something of what is hidden, in whatever
// encoding of characters.
func (h *Hidden) Betrays(text []byte) bool {
	plain := strings.ReplaceAll(string(text), "\x00", "")
	return suggestion().MatchString(plain) || h.mentions(plain)
}

// suggestion is what servers add to errors of validation, with the names of fields and types
// that are like the one which does not exist.
var suggestion = lazy.Regexp(`(?i)\s*\(?did you mean[^?]*(\?\)?|$)`)

// unfit stands in place of an error that tells of something hidden.
const unfit = "The request does not fit the schema that is shown here."

// errorsOf filters the errors of an answer, which may have them more than once.
func (f *filtering) errorsOf(n *node) {
	for _, m := range n.members {
		if m.name == "errors" {
			f.errors(m.value, n.get("data") != nil)
		}
	}
}

// errors takes suggestions out of errors, from whatever text they are in: messages come again in stack traces. With what
// is hidden goes more, whose names are not known here, so that none of them stays. Where nothing was executed, errors are about the request and the schema, and
// those that tell of something hidden by themselves are replaced: what a hidden argument is called, and what its type asks for.
func (f *filtering) errors(n *node, executed bool) {
	switch n.kind {
	case jsontext.KindString:
		text := n.text()
		cut := suggestion().ReplaceAllString(text, "")
		if !executed && f.reveals(cut) {
			cut = unfit
		}
		if cut != text {
			n.setText(&cut)
			f.changed = true
		}
	default:
		for _, e := range n.elements {
			f.errors(e, executed)
		}
		for _, m := range n.members {
			f.errors(m.value, executed)
		}
	}
}
