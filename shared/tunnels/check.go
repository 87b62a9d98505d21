package tunnels

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// Bounds of a configuration. Together they keep one below the 400 KB of an item.
const (
	// MaxServices is how many services a tunnel has at most.
	MaxServices = 100
	// MaxProjects is how many projects a configuration names at most: each is looked at in
	// the transaction that puts it.
	MaxProjects = 50
	// MaxConfigurations is how many configurations all services of a tunnel have.
	MaxConfigurations = 1000
	// MaxEndpointBytes is how long an endpoint is.
	MaxEndpointBytes = 2048
	// maxProjectChars is how long the name of a project is; a longer one is none's.
	maxProjectChars = 63
)

// nameForm says what tunnels may be called, which is what services may be.
const nameForm = "has to be " + tunnel.NameForm

// check says what is wrong with services in themselves, as an Invalid fault. relay is the
// installation's, nil for none.
func check(services []Spec, relay *url.URL) error {
	var wrong fault.Fields
	if len(services) > MaxServices {
		wrong.Add("services", "a tunnel has at most %d services: put the others on another tunnel", MaxServices)
		return wrong.Err()
	}
	first, entries := map[string]int{}, 0
	var projects []string
	for i, s := range services {
		at := fmt.Sprintf("services[%d]", i)
		before, twice := first[s.Name]
		switch {
		case !tunnel.IsName(s.Name):
			wrong.Add(at+".name", "%s", nameForm)
		case twice:
			wrong.Add(at+".name", "is the name of services[%d] too: a service is named once", before)
		default:
			first[s.Name] = i
		}
		if text := wrongEndpoint(s.Endpoint); text != "" {
			wrong.Add(at+".endpoint", "%s", text)
		} else if tunnel.LeadsTo(s.Endpoint, relay) {
			wrong.Add(at+".endpoint", "is the address of the relay itself, so that requests would go round in a circle: write the address of the service")
		}
		projects = append(projects, s.checkConfigurations(at, &wrong)...)
		entries += len(s.Configurations)
	}
	slices.Sort(projects)
	if len(slices.Compact(projects)) > MaxProjects {
		wrong.Add("services", "they name more than %d projects, which is the most that a tunnel's configuration names: use several tunnels", MaxProjects)
	}
	if entries > MaxConfigurations {
		wrong.Add("services", "they have more than %d configurations altogether, which is the most of a tunnel: use several tunnels", MaxConfigurations)
	}
	return wrong.Err()
}

// checkConfigurations says what is wrong with who may call a service, and gives the
// projects that it names.
func (s Spec) checkConfigurations(at string, wrong *fault.Fields) (projects []string) {
	for i, c := range s.Configurations {
		at := fmt.Sprintf("%s.configurations[%d]", at, i)
		switch {
		case c.Project == "" || len(c.Project) > maxProjectChars:
			wrong.Add(at+".project", "has to be the name of a project of the account")
		case slices.Contains(projects, c.Project):
			wrong.Add(at+".project", "is named twice for the service: list all kinds of environment in one configuration")
		default:
			projects = append(projects, c.Project)
		}
		for j, kind := range c.AccessibleBy {
			switch {
			case !slices.Contains(environment.Kinds(), kind):
				wrong.Add(fmt.Sprintf("%s.accessibleBy[%d]", at, j), "has to be working-copy, preview or production")
			case slices.Contains(c.AccessibleBy[:j], kind):
				wrong.Add(fmt.Sprintf("%s.accessibleBy[%d]", at, j), "is there twice")
			}
		}
	}
	return projects
}

// wrongEndpoint says what is wrong with the address of a service, "" for nothing. Paths are
// appended to it, so it has neither query nor fragment; what it names is the owner's network, so that
// no host is refused but the relay's own (check).
func wrongEndpoint(text string) string {
	if len(text) > MaxEndpointBytes {
		return fmt.Sprintf("has more than %d bytes", MaxEndpointBytes)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "has a character that no URL has: percent-encode it, an internationalized host by its ASCII form"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is no URL: write one such as http://localhost:8080"
	case u.Scheme != "http" && u.Scheme != "https":
		return "has to begin with http:// or https://"
	case u.Opaque != "" || u.Hostname() == "":
		return "has no host: write it behind the scheme, as in http://localhost:8080"
	case u.User != nil:
		return "has a user or a password: leave them out, requests bring what the service asks for"
	case strings.Contains(text, "?") || strings.Contains(text, "#"):
		return "has a query or a fragment: leave it out, the path of each request is appended"
	case strings.HasSuffix(u.Host, ":"):
		return "has an empty port: leave out the colon"
	case u.Port() == "":
		return ""
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return "has a port that there is none of: write one of 1 to 65535"
	}
	return ""
}
