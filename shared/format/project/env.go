package project

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// Projects refer to variables with two expressions (contract 4.1). The build replaces $env(NAME) in the options of
// policies and handlers and in the direct properties of CORS policies. The gateway reads ${env.NAME} on each request,
// in rewritePattern and baseUrl only.

var (
	envCall       = lazy.Regexp(`\$env\(([^()]*)\)`)
	variableName  = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	expression    = lazy.Regexp(`\$\{[^{}]*\}`)
	envInPattern  = lazy.Regexp(`(?:^|[^\w.])env\.([A-Za-z_][A-Za-z0-9_]*)`)
	patternFields = []string{"rewritePattern", "baseUrl"}
)

const envOpening = "$env("

// environment resolves variables for one project.
type environment struct {
	variables map[string]string
	report    *report
	// used has the variables that $env has read, by name.
	used map[string]string
}

// resolution is a component with its variables resolved.
type resolution struct {
	report *report
	value  any
	// unset has the names of variables without a value, by the pointer of the string that reads them. If that string was
	// removed from an array, the pointer is that of the array. Pointers are relative to value, with the array indexes of
	// value.
	unset map[string][]string
	// originalIndexes are the indexes that an array's elements had in the file, by the array's
	// pointer. An array is listed if elements with unset variables were removed from it.
	originalIndexes map[string][]int
	// bytes is the size of all strings before their variables are resolved, plus the size of the variables' values. The
	// resolved strings are not larger.
	bytes int64
	// missingChildren has the entries of unset by the pointer of the parent, because the
	// message about a parent names its missing children. The method explain creates it.
	missingChildren map[string][]missingChild
}

// missingChild is a value that is missing because variables are unset. token
// is the last token of its pointer. variables are the names of the variables.
type missingChild struct {
	token     string
	variables []string
}

// resolve replaces variables in every string of value. at is the pointer of value in file. If a string is
// only $env(NAME) and NAME is unset, resolve removes the string. Within a longer text, an unset variable is empty.
func (e *environment) resolve(file, at string, value any) resolution {
	res := resolution{report: e.report, unset: map[string][]string{}, originalIndexes: map[string][]int{}}
	res.value, _ = e.walk(file, at, "", value, &res)
	return res
}

// walk resolves the variables in value. at is the pointer of value in file, and relative
// is its pointer in res.value. walk returns false if the caller has to remove the value.
func (e *environment) walk(file, at, relative string, value any, res *resolution) (any, bool) {
	switch v := value.(type) {
	case string:
		res.bytes += int64(len(v))
		return e.resolveText(file, at, relative, v, res)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			if resolved, ok := e.walk(file, at+pointer(name), relative+pointer(name), child, res); ok {
				out[name] = resolved
			}
		}
		return out, true
	case []any:
		out := make([]any, 0, len(v))
		indexes := make([]int, 0, len(v))
		for i, child := range v {
			itemPointer := relative + pointer(strconv.Itoa(len(out)))
			if resolved, ok := e.walk(file, at+pointer(strconv.Itoa(i)), itemPointer, child, res); ok {
				out = append(out, resolved)
				indexes = append(indexes, i)
				continue
			}
			// The next element moves to this index, so record the variables under the array's pointer.
			res.unset[relative] = append(res.unset[relative], res.unset[itemPointer]...)
			delete(res.unset, itemPointer)
		}
		if len(out) < len(v) {
			res.originalIndexes[relative] = indexes
		}
		return out, true
	default:
		return value, true
	}
}

// resolveText resolves the variables in one string, as walk does.
func (e *environment) resolveText(file, at, relative, text string, res *resolution) (any, bool) {
	if !strings.Contains(text, envOpening) {
		return text, true
	}
	calls := envCall().FindAllStringSubmatch(text, -1)
	if len(calls) < strings.Count(text, envOpening) {
		e.report.fail(file, at, "This has $env( without the name and the bracket that belong to it. Write $env(NAME).")
		return text, true
	}
	for _, call := range calls {
		name := strings.TrimSpace(call[1])
		switch value, set := e.variables[name]; {
		case !variableName().MatchString(name):
			e.report.fail(file, at, "The name in $env() is none of a variable. Write it in letters, digits and underscores: "+
				"$env(UPSTREAM_URL).")
		case set:
			e.used[name] = value
			e.report.redact(value, "$env("+name+")")
		default:
			res.unset[relative] = append(res.unset[relative], name)
		}
	}
	if len(calls) == 1 && calls[0][0] == text {
		name := strings.TrimSpace(calls[0][1])
		value, set := e.variables[name]
		res.bytes += int64(len(value))
		if !set && variableName().MatchString(name) {
			e.report.warnUnset(file, at, name, "this option is left out")
		}
		return value, set
	}
	for _, name := range res.unset[relative] {
		e.report.warnUnset(file, at, name, "it is empty here")
	}
	// Compute the size before building the text: a small text can name a large value a thousand times.
	for _, call := range calls {
		res.bytes += int64(len(e.variables[strings.TrimSpace(call[1])]))
	}
	if res.bytes > maxOptionBytes {
		return "", true
	}
	return envCall().ReplaceAllStringFunc(text, func(call string) string {
		return e.variables[strings.TrimSpace(envCall().FindStringSubmatch(call)[1])]
	}), true
}

// forbidEnv reports $env in the strings of value. It does not look at values for
// which skip returns true; skip is called with the tokens of the value's pointer.
func (c *compiler) forbidEnv(file string, at []string, value any, skip func(at []string) bool) {
	if skip(at) || c.stopped() {
		return
	}
	switch v := value.(type) {
	case string:
		if strings.Contains(v, envOpening) {
			c.fail(file, pointer(at...), "$env is not read here. It may stand in the options of handlers and policies and in "+
				"the properties of CORS policies.")
		}
	case map[string]any:
		at = append(at, "")
		for name, child := range v {
			at[len(at)-1] = name
			c.forbidEnv(file, at, child, skip)
		}
	case []any:
		at = append(at, "")
		for i, child := range v {
			at[len(at)-1] = strconv.Itoa(i)
			c.forbidEnv(file, at, child, skip)
		}
	}
}

// checkPatternFields checks the fields rewritePattern and baseUrl of a handler's options. It adds the variables that
// the gateway reads there on each request to runtimeVariables. An unset variable is empty. That is an error in the
// scheme, host or port of an address, because the address would have no host.
func (e *environment) checkPatternFields(file, at string, options any, runtimeVariables map[string]string) {
	object, _ := options.(map[string]any)
	for _, field := range patternFields {
		text, _ := object[field].(string)
		size := len(text)
		if size > maxAddressBytes {
			e.report.failBudget(file, at+pointer(field), "address", int64(size), "Shorten it.")
			continue
		}
		for _, span := range expression().FindAllStringIndex(text, -1) {
			for _, match := range envInPattern().FindAllStringSubmatch(text[span[0]+2:span[1]-1], -1) {
				name := match[1]
				value, set := e.variables[name]
				size += len(value)
				switch {
				case set:
					runtimeVariables[name] = value
					e.report.redact(value, "${env."+name+"}")
				case inOrigin(text[:span[0]]):
					e.report.requireVariable(name)
					e.report.failUnset(file, at+pointer(field), name, fmt.Sprintf("The variable %s is not set for this environment, "+
						"so that this address has no host. Set the variable %s and deploy again.", printable(name), printable(name)))
				default:
					e.report.warnUnset(file, at+pointer(field), name, "it is empty here")
				}
			}
		}
		if size > maxAddressBytes {
			e.report.failBudget(file, at+pointer(field), "address", int64(size),
				"With the variables put in it is too long. Shorten it.")
		}
	}
}

// inOrigin reports whether the next character of an address belongs to the scheme, the host or the port. prefix is the
// part of the address before this character.
func inOrigin(prefix string) bool {
	if _, rest, ok := strings.Cut(prefix, "://"); ok {
		prefix = rest
	}
	return !strings.ContainsAny(prefix, "/?#")
}

// filePointer returns the pointer that a part of the resolved value has in the file. relative is the pointer of the
// part in the resolved value. Both pointers are relative to the value that was resolved.
func (r *resolution) filePointer(relative string) string {
	var file, resolved strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(relative, "/"), "/") {
		if relative == "" {
			break
		}
		original := token
		if indexes, ok := r.originalIndexes[resolved.String()]; ok {
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(indexes) {
				original = strconv.Itoa(indexes[i])
			}
		}
		file.WriteString("/" + original)
		resolved.WriteString("/" + token)
	}
	return file.String()
}

// maxExplained is the maximum number of variables that a message
// names. After the author sets these, the next build names the others.
const maxExplained = 5

// explain returns the message of a mistake at relative. If unset variables are the
// cause, explain adds which variables to set, and also returns the first of these.
func (r *resolution) explain(relative, message string) (explained, unset string) {
	if r.missingChildren == nil {
		r.missingChildren = map[string][]missingChild{}
		for at, names := range r.unset {
			slash := strings.LastIndexByte(at, '/')
			parent := at[:max(slash, 0)]
			r.missingChildren[parent] = append(r.missingChildren[parent], missingChild{unescapeToken(at[slash+1:]), names})
		}
	}
	names := slices.Clone(r.unset[relative])
	for _, child := range r.missingChildren[relative] {
		if strings.Contains(message, child.token) {
			names = append(names, child.variables...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, name := range names[:min(len(names), maxExplained)] {
		r.report.requireVariable(name)
		if i == 0 {
			unset = name
		}
		name = printable(name)
		message += fmt.Sprintf(" It is $env(%s) here, and %s is not set for this environment: set the variable %s and "+
			"deploy again.", name, name, name)
	}
	return message, unset
}
