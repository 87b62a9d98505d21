package schema

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/message"

	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// Violation is a mistake in a value. It never contains the value or a part of it.
type Violation struct {
	// Pointer is a JSON pointer to the wrong value, of at most maxPointerBytes. It can contain names that the client
	// sent. Credentials in them are replaced.
	Pointer string
	// Detail says what is required. It begins with "must", as in "must be 0 or more".
	Detail string
}

// maxPointerBytes is the maximum length of Violation.Pointer.
const maxPointerBytes = 256

// maxNames is the maximum number of names of properties that are sorted to select the first ones.
const maxNames = 10_000

// located is an error without causes, with the place that it is about.
type located struct {
	at    []string
	error *jsonschema.ValidationError
}

// locate returns the places that an error without causes is about, at most limit of them, in order.
func locate(leaf *jsonschema.ValidationError, limit int) []located {
	at := slices.Clip(leaf.InstanceLocation)
	switch k := leaf.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		names := slices.Sorted(slices.Values(k.Properties[:min(len(k.Properties), maxNames)]))
		var out []located
		for _, name := range names[:min(len(names), limit)] {
			out = append(out, located{append(at, name), leaf})
		}
		return out
	case *kind.PropertyNames:
		return []located{{append(at, k.Property), leaf}}
	}
	return []located{{at, leaf}}
}

// compare compares two violations by their places, like cmp.Compare. Violations with the same place are in the order of
// the schemas that report them, since the library applies some of them in random order.
func (l located) compare(other located) int {
	return cmp.Or(slices.CompareFunc(l.at, other.at, compareTokens), cmp.Compare(l.error.SchemaURL, other.error.SchemaURL),
		cmp.Compare(presentName(l.error.ErrorKind), presentName(other.error.ErrorKind)))
}

// presentName returns the name of the property that requires others, or "" for a violation of another kind.
func presentName(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.DependentRequired:
		return k.Prop
	case *kind.Dependency:
		return k.Prop
	}
	return ""
}

// compareTokens compares tokens of JSON pointers. Positions are before other tokens, in the order of the items.
func compareTokens(a, b string) int {
	switch isA, isB := isPosition(a), isPosition(b); {
	case isA && isB:
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	case isA:
		return -1
	case isB:
		return 1
	}
	return cmp.Compare(a, b)
}

// isPosition reports whether a token can be the position of an item.
func isPosition(token string) bool { return token != "" && strings.Trim(token, "0123456789") == "" }

// describe returns the Violation for the place and the error.
func (l located) describe() Violation {
	var detail string
	switch l.error.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		detail = "must not be sent: there is no such property"
	case *kind.PropertyNames:
		detail = "must have a name that the schema allows"
	default:
		detail = "must " + Requirement(l.error.ErrorKind)
	}
	return Violation{BoundedPointer(Pointer(l.at...)), detail}
}

// Pointer returns the JSON pointer with these tokens.
func Pointer(tokens ...string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return b.String()
}

// BoundedPointer returns a pointer that is safe to show: valid UTF-8, not too long, and without credentials.
func BoundedPointer(pointer string) string {
	if len(pointer) > 4*maxPointerBytes { // do not search a megabyte
		pointer = pointer[:4*maxPointerBytes]
	}
	pointer = credential.Redact(strings.ToValidUTF8(pointer, "\uFFFD"))
	if len(pointer) <= maxPointerBytes {
		return pointer
	}
	end := maxPointerBytes - len("…")
	for end > 0 && !utf8.RuneStart(pointer[end]) {
		end--
	}
	return pointer[:end] + "…"
}

// Leaves returns the violations that caused e: the errors without causes. It omits the violations of alternatives that
// the author of the value cannot have meant, and violations that only follow from others.
func Leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	out := collect(nil, e)
	if !slices.ContainsFunc(out, unevaluated) {
		return out
	}
	failed := map[string]bool{}
	for _, l := range out {
		if !unevaluated(l) {
			failed[Pointer(l.InstanceLocation...)] = true
		}
	}
	// If a part of a schema fails, the library also refuses the properties that this part would have
	// allowed, as not evaluated. Such a violation adds nothing to the violation in the part itself.
	return slices.DeleteFunc(out, func(l *jsonschema.ValidationError) bool {
		return unevaluated(l) && failed[Pointer(l.InstanceLocation[:len(l.InstanceLocation)-1]...)]
	})
}

// collect appends the errors without causes. For alternatives (oneOf, anyOf), it appends the errors of the alternative
// that the author meant.
func collect(out []*jsonschema.ValidationError, e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch k := e.ErrorKind.(type) {
	case *kind.OneOf:
		if k.Subschemas == nil {
			return append(out, intendedViolations(e)...)
		}
	case *kind.AnyOf:
		return append(out, intendedViolations(e)...)
	case *kind.PropertyNames, *kind.Contains, *kind.MinContains: // their causes are about other values
		return append(out, e)
	}
	if len(e.Causes) == 0 {
		switch e.ErrorKind.(type) {
		case nil, *kind.Group, *kind.Reference, *kind.AllOf: // the library stopped at its limits
			return out
		}
		return append(out, e)
	}
	for _, c := range e.Causes {
		out = collect(out, c)
	}
	return out
}

// unevaluated reports whether e is about a property or an item that no part of the schema allows.
func unevaluated(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.FalseSchema)
	return ok && len(e.InstanceLocation) > 0
}

// intendedViolations returns the violations of the alternative that the author probably meant. A value without $ref is
// not meant to be a reference. If the value has the type or the discriminator of some alternatives only, the author meant
// one of these. Of the remaining alternatives, the author meant the one whose violations are deepest in the value. If
// several are equally deep, intendedViolations returns one violation for all of them.
func intendedViolations(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	var branches [][]*jsonschema.ValidationError
	for _, branch := range e.Causes {
		branches = append(branches, Leaves(branch))
	}
	branches = keepUnless(branches, requiresReference)
	branches = keepUnless(branches, func(l *jsonschema.ValidationError) bool {
		_, ok := l.ErrorKind.(*kind.Type)
		return ok && len(l.InstanceLocation) == len(e.InstanceLocation)
	})
	branches = keepUnless(branches, func(l *jsonschema.ValidationError) bool {
		return isChoice(l) && len(l.InstanceLocation) == len(e.InstanceLocation)+1
	})
	var best [][]*jsonschema.ValidationError
	deepest := -1
	for _, found := range branches {
		depth := len(e.InstanceLocation)
		for _, l := range found {
			depth = max(depth, len(l.InstanceLocation))
		}
		switch {
		case depth > deepest:
			deepest, best = depth, append(best[:0:0], found)
		case depth == deepest:
			best = append(best, found)
		}
	}
	if len(best) == 1 {
		return best[0]
	}
	if merged := merge(best); merged != nil {
		return merged
	}
	return []*jsonschema.ValidationError{{InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind}}
}

// keepUnless returns the alternatives that have no violation of a kind, or all if each has one.
func keepUnless(branches [][]*jsonschema.ValidationError,
	excludes func(*jsonschema.ValidationError) bool,
) [][]*jsonschema.ValidationError {
	var kept [][]*jsonschema.ValidationError
	for _, found := range branches {
		if !slices.ContainsFunc(found, excludes) {
			kept = append(kept, found)
		}
	}
	if len(kept) == 0 {
		return branches
	}
	return kept
}

// requiresReference reports whether a violation is that the value is no reference.
func requiresReference(l *jsonschema.ValidationError) bool {
	required, ok := l.ErrorKind.(*kind.Required)
	return ok && slices.Contains(required.Missing, "$ref")
}

// isChoice reports whether a violation is about a value that the schema lists.
func isChoice(l *jsonschema.ValidationError) bool {
	switch l.ErrorKind.(type) {
	case *kind.Const, *kind.Enum:
		return true
	}
	return false
}

// merge combines alternatives into one violation if they differ only in the type of the value, in the values of one
// property or in the missing property. Otherwise it returns nil.
func merge(branches [][]*jsonschema.ValidationError) []*jsonschema.ValidationError {
	var m merger
	for i, found := range branches {
		distinct := distinctive(found)
		if distinct == nil || i > 0 && !slices.Equal(distinct.InstanceLocation, m.at) {
			return nil
		}
		m.at = distinct.InstanceLocation
		m.add(distinct.ErrorKind)
	}
	return m.merged(len(branches))
}

// distinctive returns the violation that distinguishes an alternative from others, or nil.
func distinctive(found []*jsonschema.ValidationError) *jsonschema.ValidationError {
	var distinct *jsonschema.ValidationError
	for _, leaf := range found {
		switch leaf.ErrorKind.(type) {
		case *kind.Enum, *kind.Const:
			distinct = leaf
		case *kind.Required, *kind.Type:
			if distinct == nil && len(found) == 1 {
				distinct = leaf
			}
		}
	}
	return distinct
}

// maxMerged bounds merged violations: after this number of values, enumerations add no more, and of each alternative only
// this number of missing properties is compared with those of others.
const maxMerged = 1000

// merger combines the distinctive violations of alternatives. All are at the same place.
type merger struct {
	at      []string
	values  kind.Enum
	types   kind.Type
	missing MissingOneOf
	// each are the properties that all alternatives miss.
	each []string
	// kinds counts the alternatives that differ by values, by types and by missing properties.
	kinds [3]int
}

func (m *merger) add(k jsonschema.ErrorKind) {
	switch k := k.(type) {
	case *kind.Enum:
		if len(m.values.Want) < maxMerged {
			m.values.Want = append(m.values.Want, k.Want...)
		}
		m.kinds[0]++
	case *kind.Const:
		m.values.Want = append(m.values.Want, k.Want)
		m.kinds[0]++
	case *kind.Type:
		m.types.Got = k.Got
		for _, name := range k.Want {
			if !slices.Contains(m.types.Want, name) {
				m.types.Want = append(m.types.Want, name)
			}
		}
		m.kinds[1]++
	case *kind.Required:
		names, missing := k.Missing[:min(len(k.Missing), maxMerged)], map[string]bool{}
		for _, name := range names {
			missing[name] = true
		}
		if m.kinds[2]++; m.kinds[2] == 1 {
			m.each = slices.Clone(names)
		}
		m.each = slices.DeleteFunc(m.each, func(name string) bool { return !missing[name] })
		m.missing.Names = append(m.missing.Names, names...)
	}
}

// merged returns the combined violation, or nil if the alternatives differ in several ways.
func (m *merger) merged(alternatives int) []*jsonschema.ValidationError {
	var k jsonschema.ErrorKind
	switch {
	case alternatives == 0:
		return nil
	case m.kinds[0] == alternatives:
		k = &m.values
	case m.kinds[1] == alternatives:
		k = &m.types
	case m.kinds[2] == alternatives && len(m.each) > 0:
		k = &kind.Required{Missing: m.each}
	case m.kinds[2] == alternatives:
		k = &m.missing
	default:
		return nil
	}
	return []*jsonschema.ValidationError{{InstanceLocation: m.at, ErrorKind: k}}
}

// MissingOneOf is the violation of a schema that requires at least one of several properties. Leaves returns it for
// alternatives that differ in what they require.
type MissingOneOf struct{ Names []string }

var _ jsonschema.ErrorKind = (*MissingOneOf)(nil)

// KeywordPath implements jsonschema.ErrorKind.
func (*MissingOneOf) KeywordPath() []string { return []string{"oneOf"} }

// LocalizedString implements jsonschema.ErrorKind. Its text is never shown: Requirement returns the text instead.
func (*MissingOneOf) LocalizedString(*message.Printer) string { return "" }
