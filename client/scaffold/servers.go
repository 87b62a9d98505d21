package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/exit"
)

// servers chooses the address to which the route of an operation forwards, from the servers in a description (OpenAPI
// 3.1, 4.8.5). The nearest list of servers applies: that of the operation, of its path, or of the description. servers
// chooses the first server of this list that routes can forward to.
type servers struct {
	document document
	// upstream replaces the absolute servers of the description as a whole, and relative servers are resolved against it.
	// It is "" if the user has named none.
	upstream string
	// variables are the user's values of server variables. used has the variables of the servers that were chosen.
	variables map[string]string
	used      map[string]bool
	// lists has the lists that were used, by their scope and text, and order has the same lists in order of first use.
	// places has the lists by their pointers, because many operations share the list of the description or of a path.
	lists, places map[string]*serverList
	order         []*serverList
}

// maxAddressBytes is the maximum length of an address, as in a build.
const maxAddressBytes = 16 << 10

// maxReasons is the maximum number of reasons in an error about a list.
const maxReasons = 5

// serverList is a list of servers, and the choice of one of them.
type serverList struct {
	pointer string
	// own says that the list belongs to a path or an operation, and not to the description as a whole.
	own bool
	// address is the address of the chosen server, and others are the URLs of the other servers.
	address string
	others  []string
	// absolute says that address is the absolute URL of the server itself. It is false for an address that depends on
	// upstream.
	absolute bool
}

// notForwardableError has the reason why routes cannot forward to a server. Routes may be able to forward to another
// server of the list.
type notForwardableError struct{ reason string }

func (e notForwardableError) Error() string { return e.reason }

// address returns the address for the operations to which a list of servers applies. pointer is the place of the list,
// and own says that it belongs to a path or an operation.
func (s *servers) address(list jsontext.Value, pointer string, own bool) (string, error) {
	if known := s.places[pointer]; known != nil {
		return known.address, nil
	}
	key := fmt.Sprint(own) + string(list)
	chosen := s.lists[key]
	if chosen == nil {
		var err error
		if chosen, err = s.choose(list, pointer, own); err != nil {
			return "", err
		}
		s.lists[key] = chosen
		s.order = append(s.order, chosen)
	}
	s.places[pointer] = chosen
	return chosen.address, nil
}

// choose returns the choice for a list. The list can be nil or empty.
func (s *servers) choose(list jsontext.Value, pointer string, own bool) (*serverList, error) {
	out := &serverList{pointer: pointer, own: own}
	var reasons []string
	for i, value := range readElements(list) {
		server, _ := readMembers(value) // a server that is no object has no URL
		text := stringValue(memberValue(server, "url"))
		at := fmt.Sprintf("%s/%d", pointer, i)
		if out.address != "" {
			out.others = append(out.others, text)
			continue
		}
		address, absolute, err := s.resolve(text, server, at, own)
		var reason notForwardableError
		switch {
		case errors.As(err, &reason):
			if len(reasons) < maxReasons {
				reasons = append(reasons, fmt.Sprintf("%s: routes cannot forward to %q: %s", s.document.place(at), shorten(text),
					reason))
			}
			out.others = append(out.others, text)
		case err != nil:
			return nil, err
		default:
			out.address, out.absolute = address, absolute
		}
	}
	switch {
	case out.address != "":
	case s.upstream != "" && !own:
		out.address = trimSlash(s.upstream)
	case len(reasons) > 0:
		return nil, exit.WithCode(exit.Usage, errors.New(strings.Join(reasons, "; ")))
	default:
		return nil, exit.WithCode(exit.Usage, errors.New("the description has no servers: say --upstream URL"))
	}
	return out, nil
}

// resolve returns the address of a server. It returns a notForwardableError if routes cannot forward to it, and another
// error for a variable that has no value or an invalid one.
func (s *servers) resolve(
	text string, server []member, at string, own bool,
) (address string, absolute bool, err error) {
	if isAbsolute(text) && !own && s.upstream != "" {
		return trimSlash(s.upstream), false, nil
	}
	if text, err = s.fillIn(text, server, at); err != nil {
		return "", false, err
	}
	if strings.Contains(text, "$env(") {
		return "", false, notForwardableError{"the gateway would replace $env(…) by a variable of the environment"}
	}
	if strings.Contains(text, "${") {
		return "", false, notForwardableError{"the gateway would replace ${…} by a value of each request"}
	}
	if !isAbsolute(text) {
		address, err := s.againstUpstream(text)
		return address, false, err
	}
	if !own && s.upstream != "" {
		return trimSlash(s.upstream), false, nil
	}
	if reason := notForwardable(text); reason != "" {
		return "", true, notForwardableError{reason}
	}
	return trimSlash(text), true, nil
}

// isAbsolute reports whether the URL of a server names a host. A variable can stand for its scheme or host.
func isAbsolute(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	return strings.HasPrefix(text, "//") || found && !strings.ContainsAny(scheme, "/?#")
}

// againstUpstream resolves the relative URL of a server against the upstream (RFC 3986, section 5). The URLs "", /, .
// and ./ mean the upstream itself.
func (s *servers) againstUpstream(text string) (string, error) {
	if s.upstream == "" {
		return "", notForwardableError{"it is relative, so say --upstream URL, against which it is resolved"}
	}
	if slices.Contains([]string{"", "/", ".", "./"}, text) {
		return trimSlash(s.upstream), nil
	}
	base, err := url.Parse(s.upstream)
	if err != nil {
		return "", notForwardableError{"the address of --upstream is no URL"}
	}
	ref, err := url.Parse(text)
	if err != nil {
		return "", notForwardableError{"it is no URL"}
	}
	address := base.ResolveReference(ref).String()
	if reason := notForwardable(address); reason != "" {
		return "", notForwardableError{reason}
	}
	return trimSlash(address), nil
}

// trimSlash removes the slash at the end of an address, because paths begin with one.
func trimSlash(address string) string { return strings.TrimSuffix(address, "/") }

// notForwardable returns the reason why routes cannot forward to an address, "" if they can.
func notForwardable(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsAny(text, "{}"):
		return "it is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "its scheme is neither http nor https"
	case u.Host == "":
		return "it has no host"
	case u.User != nil:
		return "it has a user name: remove it, and let a policy authenticate at the upstream"
	case u.RawQuery != "" || u.Fragment != "":
		return "it has a query or a fragment: remove it"
	}
	return ""
}

// fillIn replaces the variables in the URL of a server (OpenAPI 3.1, 4.8.6) with the user's values, or with their
// defaults.
func (s *servers) fillIn(text string, server []member, at string) (string, error) {
	declared, _ := readMembers(memberValue(server, "variables")) // without variables, none is declared
	rest, out := text, ""
	values := map[string]string{} // of the variables that were read
	for {
		if len(out)+len(rest) > maxAddressBytes {
			return "", notForwardableError{fmt.Sprintf("it has more than %d bytes", maxAddressBytes)}
		}
		before, after, opened := strings.Cut(rest, "{")
		name, next, closed := strings.Cut(after, "}")
		if !opened || !closed {
			return out + rest, nil
		}
		value, known := values[name]
		if !known {
			var err error
			if value, err = s.variable(name, memberValue(declared, name), at); err != nil {
				return "", err
			}
			values[name] = value
		}
		out, rest = out+before+value, next
	}
}

// variable returns the value of a server variable. declared is its object, nil for none.
func (s *servers) variable(name string, declared jsontext.Value, at string) (string, error) {
	s.used[name] = true
	object, _ := readMembers(declared) // a variable that is not declared has no default and no enum
	given, ok := s.variables[name]
	if !ok {
		value := memberValue(object, "default")
		if kind := value.Kind(); kind == jsontext.KindString {
			return stringValue(value), nil
		} else if kind == jsontext.KindNumber { // YAML reads a port as a number
			return string(bytes.TrimSpace(value)), nil
		}
		return "", exit.WithCode(exit.Usage, fmt.Errorf("%s: the variable %q of this server has no default: set it with "+
			"--server-variable %[2]s=VALUE", s.document.place(at), name))
	}
	var enum []string
	for _, value := range readElements(memberValue(object, "enum")) {
		enum = append(enum, stringValue(value))
	}
	if len(enum) > 0 && !slices.Contains(enum, given) {
		return "", exit.WithCode(exit.Usage, fmt.Errorf("--server-variable: %s is one of %s (%s)", name,
			strings.Join(enum, ", "), s.document.place(at)))
	}
	return given, nil
}

// checkVariables returns an error if one of the user's values belongs to no variable of the chosen servers.
func (s *servers) checkVariables() error {
	for _, name := range slices.Sorted(maps.Keys(s.variables)) {
		if s.used[name] {
			continue
		}
		known := "they have no variables"
		if len(s.used) > 0 {
			known = "their variables are " + strings.Join(slices.Sorted(maps.Keys(s.used)), ", ")
		}
		if s.upstream != "" {
			known += "; --upstream replaces the description's absolute servers"
		}
		return exit.WithCode(exit.Usage, fmt.Errorf("--server-variable: %s is not a variable of the servers that routes "+
			"forward to: %s", name, known))
	}
	return nil
}

// maxNotes is the maximum number of notes about servers.
const maxNotes = 10

// notes says which servers were chosen where there was a choice, and where --upstream has no effect.
func (s *servers) notes() (all []string) {
	omitted := 0
	for _, l := range s.order {
		isOutsideUpstream := l.own && l.absolute && s.upstream != ""
		if len(l.others) == 0 && !isOutsideUpstream {
			continue
		}
		if len(all) == maxNotes-1 { // the last note counts the others, because each place takes a search of the description
			omitted++
			continue
		}
		text := ""
		if n := len(l.others) + 1; n > 1 {
			text = fmt.Sprintf("%s has %d servers: routes forward to %s, and not to %s", s.document.place(l.pointer), n,
				l.address, abbreviate(l.others))
		}
		if isOutsideUpstream {
			if text == "" {
				text = fmt.Sprintf("%s: routes forward to %s", s.document.place(l.pointer), l.address)
			}
			text += "; --upstream does not replace the servers of a path or an operation"
		}
		all = append(all, text)
	}
	if omitted > 0 {
		all = append(all, fmt.Sprintf("… and %d more lists of servers", omitted))
	}
	return all
}

// abbreviate joins the first URLs of a list.
func abbreviate(urls []string) string {
	const shown = 3
	var out []string
	for _, url := range urls[:min(len(urls), shown)] {
		out = append(out, shorten(url))
	}
	text := strings.Join(out, ", ")
	if n := len(urls); n > shown {
		text += fmt.Sprintf(" and %d more", n-shown)
	}
	return text
}

// shorten returns the beginning of a URL for a message.
func shorten(url string) string {
	const most = 200
	if len(url) <= most {
		return url
	}
	return strings.ToValidUTF8(url[:most], "") + "…"
}
