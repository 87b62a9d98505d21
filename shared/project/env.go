package project

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/lazy"
)

// There are two ways to a variable (contract 4.1). $env(NAME) is replaced when
// the project is built: it may stand in the options of policies and handlers
// and in the direct properties of CORS policies. ${env.NAME} is read on each
// request, in rewritePattern and baseUrl alone.

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
	// read are those that $env has read.
	read map[string]string
}

// resolution is a component with its variables put in.
type resolution struct {
	report *report
	value  any
	// unset are the names of variables without a value, by the pointer of what
	// they were to give. Pointers are relative and count as value does.
	unset map[string][]string
	// moved are the places that an array's elements had in the file, by the
	// array's pointer: elements of unset variables are gone.
	moved map[string][]int
	// bytes is the size of the texts with variables put in, and of what
	// variables that are read on each request add to them.
	bytes int64
	// missing are the names of unset by the pointer of their parent, which says
	// what the parent lacks; explain makes them.
	missing map[string][]lacking
}

// lacking is what is not there for want of a variable: the last token of its
// pointer, and the variables' names.
type lacking struct {
	last  string
	names []string
}

// resolve puts variables into every string of value, which stands at the
// pointer at in file. A string that is nothing but $env(NAME) is left out when
// NAME is not set; within a longer text an unset variable is empty.
func (e *environment) resolve(file, at string, value any) resolution {
	res := resolution{report: e.report, unset: map[string][]string{}, moved: map[string][]int{}}
	res.value, _ = e.walk(file, at, "", value, &res)
	return res
}

// walk returns false where value is to be left out.
func (e *environment) walk(file, at, here string, value any, res *resolution) (any, bool) {
	switch v := value.(type) {
	case string:
		res.bytes += int64(len(v))
		return e.text(file, at, here, v, res)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			if resolved, ok := e.walk(file, at+pointer(name), here+pointer(name), child, res); ok {
				out[name] = resolved
			}
		}
		return out, true
	case []any:
		out := make([]any, 0, len(v))
		places := make([]int, 0, len(v))
		for i, child := range v {
			place := here + pointer(strconv.Itoa(len(out)))
			if resolved, ok := e.walk(file, at+pointer(strconv.Itoa(i)), place, child, res); ok {
				out = append(out, resolved)
				places = append(places, i)
				continue
			}
			// The next element takes the place, so the array answers for it.
			res.unset[here] = append(res.unset[here], res.unset[place]...)
			delete(res.unset, place)
		}
		if len(out) < len(v) {
			res.moved[here] = places
		}
		return out, true
	default:
		return value, true
	}
}

func (e *environment) text(file, at, here, text string, res *resolution) (any, bool) {
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
			e.report.fail(file, at, "The name in $env() is none of a variable. Write it in letters, digits and underscores: $env(UPSTREAM_URL).")
		case set:
			e.read[name] = value
			e.report.hide(value, "$env("+name+")")
		default:
			res.unset[here] = append(res.unset[here], name)
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
	for _, name := range res.unset[here] {
		e.report.warnUnset(file, at, name, "it is empty here")
	}
	// What it will have is known before it is made: a small text can name a large
	// value a thousand times.
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

// forbid reports $env in every string of value but those that skip holds for,
// given the tokens of their place.
func (c *compiler) forbid(file string, at []string, value any, skip func(at []string) bool) {
	if skip(at) || c.stopped() {
		return
	}
	switch v := value.(type) {
	case string:
		if strings.Contains(v, envOpening) {
			c.fail(file, pointer(at...), "$env is not read here. It may stand in the options of handlers and policies and in the properties of CORS policies.")
		}
	case map[string]any:
		at = append(at, "")
		for name, child := range v {
			at[len(at)-1] = name
			c.forbid(file, at, child, skip)
		}
	case []any:
		at = append(at, "")
		for i, child := range v {
			at[len(at)-1] = strconv.Itoa(i)
			c.forbid(file, at, child, skip)
		}
	}
}

// patterns collects into used the variables that a handler's patterns read on
// each request. An unset one reads as empty, which is an error where it leaves
// an address without its host, for that cannot be meant.
func (e *environment) patterns(file, at string, options any, used map[string]string) {
	object, _ := options.(map[string]any)
	for _, field := range patternFields {
		text, _ := object[field].(string)
		size := len(text)
		if size > maxAddressBytes {
			e.report.over(file, at+pointer(field), "address", int64(size), "Shorten it.")
			continue
		}
		for _, span := range expression().FindAllStringIndex(text, -1) {
			for _, found := range envInPattern().FindAllStringSubmatch(text[span[0]+2:span[1]-1], -1) {
				name := found[1]
				value, set := e.variables[name]
				size += len(value)
				switch {
				case set:
					used[name] = value
					e.report.hide(value, "${env."+name+"}")
				case inOrigin(text[:span[0]]):
					e.report.wanted(name)
					e.report.failUnset(file, at+pointer(field), name, fmt.Sprintf("The variable %s is not set for this environment, so that this address has no host. Set the variable %s and deploy again.", printable(name), printable(name)))
				default:
					e.report.warnUnset(file, at+pointer(field), name, "it is empty here")
				}
			}
		}
		if size > maxAddressBytes {
			e.report.over(file, at+pointer(field), "address", int64(size), "With the variables put in it is too long. Shorten it.")
		}
	}
}

// inOrigin reports whether what follows before is still the scheme, the host or
// the port of an address.
func inOrigin(before string) bool {
	if _, rest, ok := strings.Cut(before, "://"); ok {
		before = rest
	}
	return !strings.ContainsAny(before, "/?#")
}

// origin returns the pointer in the file of a pointer into the resolved value.
func (r *resolution) origin(relative string) string {
	var file, here strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(relative, "/"), "/") {
		if relative == "" {
			break
		}
		original := token
		if places, ok := r.moved[here.String()]; ok {
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(places) {
				original = strconv.Itoa(places[i])
			}
		}
		file.WriteString("/" + original)
		here.WriteString("/" + token)
	}
	return file.String()
}

// maxExplained is how many variables explain a fault: who sets these sees the others.
const maxExplained = 5

// explain adds to a fault of the resolved value at relative which variables
// have to be set to mend it, if that is why, and answers the first of them.
func (r *resolution) explain(relative, message string) (explained, unset string) {
	if r.missing == nil {
		r.missing = map[string][]lacking{}
		for at, names := range r.unset {
			cut := strings.LastIndexByte(at, '/')
			parent := at[:max(cut, 0)]
			r.missing[parent] = append(r.missing[parent], lacking{unescapeToken(at[cut+1:]), names})
		}
	}
	names := slices.Clone(r.unset[relative])
	for _, child := range r.missing[relative] {
		if strings.Contains(message, child.last) {
			names = append(names, child.names...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, name := range names[:min(len(names), maxExplained)] {
		r.report.wanted(name)
		if i == 0 {
			unset = name
		}
		name = printable(name)
		message += fmt.Sprintf(" It is $env(%s) here, and %s is not set for this environment: set the variable %s and deploy again.", name, name, name)
	}
	return message, unset
}
