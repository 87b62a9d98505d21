package tunnels

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// The limits of a configuration. Together they keep a configuration below the 400 KB of an item.
const (
	// MaxServices is the maximum number of services of a tunnel.
	MaxServices = 100
	// MaxProjects is the maximum number of projects in a configuration. The
	// transaction that stores the configuration checks each of them.
	MaxProjects = 50
	// MaxConfigurations is the maximum number of configurations of all services of a tunnel.
	MaxConfigurations = 1000
	// MaxEndpointBytes is the maximum length of an endpoint.
	MaxEndpointBytes = 2048
	// maxProjectChars is the maximum length of a project's name. No project has a longer name.
	maxProjectChars = 63
)

// nameForm describes the valid names of tunnels and services.
const nameForm = "has to be " + tunnel.NameRule

// checkServices validates services and returns an Invalid fault. relay is the installation's relay, nil for none.
func checkServices(services []Spec, relay *url.URL) error {
	var invalid fault.Fields
	if len(services) > MaxServices {
		invalid.Add("services", "a tunnel has at most %d services: put the others on another tunnel", MaxServices)
		return invalid.Err()
	}
	first, total := map[string]int{}, 0
	var projects []string
	for i, s := range services {
		location := fmt.Sprintf("services[%d]", i)
		firstIndex, repeated := first[s.Name]
		switch {
		case !tunnel.IsName(s.Name):
			invalid.Add(location+".name", "%s", nameForm)
		case repeated:
			invalid.Add(location+".name", "is the name of services[%d] too: a service is named once", firstIndex)
		default:
			first[s.Name] = i
		}
		if text := endpointError(s.Endpoint); text != "" {
			invalid.Add(location+".endpoint", "%s", text)
		} else if tunnel.PointsToRelay(s.Endpoint, relay) {
			invalid.Add(location+".endpoint", "is the address of the relay itself, so that requests would go round in a "+
				"circle: write the address of the service")
		}
		projects = append(projects, s.checkConfigurations(location, &invalid)...)
		total += len(s.Configurations)
	}
	slices.Sort(projects)
	if len(slices.Compact(projects)) > MaxProjects {
		invalid.Add("services", "they name more than %d projects, which is the most that a tunnel's configuration names: "+
			"use several tunnels", MaxProjects)
	}
	if total > MaxConfigurations {
		invalid.Add("services", "they have more than %d configurations altogether, which is the most of a tunnel: use "+
			"several tunnels", MaxConfigurations)
	}
	return invalid.Err()
}

// checkConfigurations validates the callers of a service, and returns the projects in its configurations.
func (s Spec) checkConfigurations(location string, invalid *fault.Fields) (projects []string) {
	for i, c := range s.Configurations {
		location := fmt.Sprintf("%s.configurations[%d]", location, i)
		switch {
		case c.Project == "" || len(c.Project) > maxProjectChars:
			invalid.Add(location+".project", "has to be the name of a project of the account")
		case slices.Contains(projects, c.Project):
			invalid.Add(location+".project",
				"is named twice for the service: list all kinds of environment in one configuration")
		default:
			projects = append(projects, c.Project)
		}
		for j, kind := range c.AccessibleBy {
			switch {
			case !slices.Contains(environment.Kinds(), kind):
				invalid.Add(fmt.Sprintf("%s.accessibleBy[%d]", location, j), "has to be working-copy, preview or production")
			case slices.Contains(c.AccessibleBy[:j], kind):
				invalid.Add(fmt.Sprintf("%s.accessibleBy[%d]", location, j), "is there twice")
			}
		}
	}
	return projects
}

// endpointError returns the validation error of a service's address, "" for none. Paths are appended to the address, so
// the address must not have a query or a fragment. It is in the owner's network, so every host is allowed except the
// relay itself, which checkServices refuses.
func endpointError(text string) string {
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
