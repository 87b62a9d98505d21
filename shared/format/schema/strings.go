package schema

import (
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// checkString checks the keywords for strings.
func (r *evaluator) checkString(n *node, text string, at *place, out *sink) bool {
	if !r.spend(len(text) / bytesPerUnit) {
		return false
	}
	valid := true
	// A character has one to four bytes, so most lengths need no count.
	if n.minLength != nil && (len(text) < *n.minLength ||
		len(text) < 4**n.minLength && utf8.RuneCountInString(text) < *n.minLength) {
		valid = out.add(at, &kind.MinLength{Want: *n.minLength})
	}
	if n.maxLength != nil && len(text) > *n.maxLength && utf8.RuneCountInString(text) > *n.maxLength {
		valid = out.add(at, &kind.MaxLength{Want: *n.maxLength})
	}
	if n.format != nil && !r.checkFormat(n, text, at, out) {
		valid = false
	}
	if n.pattern != nil && (valid || out != nil) && !r.matches(n.pattern, text) {
		valid = out.add(at, &kind.Pattern{Want: n.pattern.String()})
	}
	if n.encoding != nil && (valid || out != nil) {
		if _, err := n.encoding.Decode(text); err != nil {
			valid = out.add(at, &kind.ContentEncoding{Want: n.encoding.Name})
		}
	}
	return valid
}

// checkFormat checks the keyword format.
func (r *evaluator) checkFormat(n *node, value any, at *place, out *sink) bool {
	if text, ok := value.(string); ok {
		r.work -= 4 * len(text) / bytesPerUnit
	}
	if !isAsserted(n.format.Name) || n.format.Validate(value) == nil {
		return true
	}
	return out.add(at, &kind.Format{Want: n.format.Name})
}

// matches reports whether a part of a text matches a pattern.
func (r *evaluator) matches(p *pattern, text string) bool {
	if p.instructions == 0 {
		return true
	}
	return r.spend(1+len(text)*p.instructions/matchStepsPerUnit) && p.MatchString(text)
}
