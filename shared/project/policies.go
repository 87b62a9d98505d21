package project

import (
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// readPolicies reads config/policies.json, which a project may do without.
func (c *compiler) readPolicies() {
	data, has := c.files[policiesFile]
	if !has {
		return
	}
	doc := c.parse(policiesFile, data)
	if doc == nil {
		c.unread[policiesFile] = true
		return
	}
	c.forbid(policiesFile, nil, doc.root, inPolicyOptions)
	root, _ := doc.root.(map[string]any)
	valid := check(&c.report, policiesFile, "", c.schemas.policies, doc.root)
	policies, _ := root["policies"].([]any)
	for i, entry := range policies {
		if policy, ok := entry.(map[string]any); ok && !c.stopped() {
			c.readPolicy(pointer("policies", strconv.Itoa(i)), policy, valid)
		}
	}
	c.artifact.CORSPolicies = map[string]CORSPolicy{}
	cors, _ := root["corsPolicies"].([]any)
	for i, entry := range cors {
		if policy, ok := entry.(map[string]any); ok && !c.stopped() {
			c.readCORS(pointer("corsPolicies", strconv.Itoa(i)), policy)
		}
	}
}

// inPolicyOptions holds for the places in policies.json where $env is read:
// /policies/N/handler/options, and all of /corsPolicies/N.
func inPolicyOptions(at []string) bool {
	switch {
	case len(at) == 4 && at[0] == "policies":
		return at[2] == "handler" && at[3] == "options"
	case len(at) == 2:
		return at[0] == "corsPolicies"
	}
	return false
}

// readPolicy reads one policy. Where the file has not the right shape, only
// its name is taken.
func (c *compiler) readPolicy(at string, object map[string]any, valid bool) {
	name, _ := object["name"].(string)
	policyType, _ := object["policyType"].(string)
	if first, twice := c.policies[name]; twice && name != "" {
		c.fail(policiesFile, at+"/name", "The policy at %s has this name too. Give each its own.", first.at)
		return
	}
	c.policies[name] = &policyUse{at: at, policyType: policyType}
	handler, ok := object["handler"].(map[string]any)
	if !valid || !ok {
		return
	}
	component, res, ok := c.component(policiesFile, at+"/handler", handler)
	policy := Policy{Name: name, Type: policyType, Source: Source{policiesFile, at}, Handler: component}
	if !ok {
		return
	}
	var ofPolicy, ofHandler []Problem
	for _, fault := range c.catalogue.CheckPolicy(policy) {
		if strings.HasPrefix(fault.Path, "/options") || fault.Path == "/export" || fault.Path == "/module" {
			ofHandler = append(ofHandler, fault)
		} else {
			ofPolicy = append(ofPolicy, fault)
		}
	}
	c.reportFaults(policiesFile, at+"/handler", res, ofHandler)
	c.reportFaults(policiesFile, at, resolution{}, ofPolicy)
	if c.grow(policiesFile, at, len(name)+len(policyType)+len(component.Options)+routeOverhead) {
		c.artifact.Policies[name] = policy
	}
}

// warnOfUnused warns of policies that no route names, in a project without errors:
// an operation that is not read for its mistakes may name any of them.
func (c *compiler) warnOfUnused() {
	if c.problems.len() > 0 {
		return
	}
	for _, policy := range c.policies {
		if !policy.used {
			c.warn(policiesFile, policy.at, "No route uses this policy. Name it in a route's policies, or remove it.")
		}
	}
}

// readCORS reads one CORS policy. Variables may stand in its properties, so
// lists may be one text with commas, and numbers and truth values text too.
func (c *compiler) readCORS(at string, object map[string]any) {
	for name, value := range object {
		// A direct property may hold a variable; what is nested in one, but for
		// the lists' entries, may not.
		if name == "name" || !textual(value) {
			c.forbid(policiesFile, append(tokens(at), name), value, func([]string) bool { return false })
		}
	}
	if !c.withinOptions(policiesFile, at, object) {
		return
	}
	res := c.env.resolve(policiesFile, at, object)
	if res.bytes > maxOptionBytes {
		c.over(policiesFile, at, "options", res.bytes, "With the variables put in they are too large. Shorten them.")
		return
	}
	if !c.grow(policiesFile, at, int(res.bytes)+routeOverhead) {
		return
	}
	var problems report
	if !check(&problems, policiesFile, "", c.schemas.cors, res.value) {
		for _, p := range problems.problems.first {
			message, unset := res.explain(p.Path, p.Message)
			c.failUnset(policiesFile, at+res.origin(p.Path), unset, message)
		}
		// The name counts all the same, so that routes are not at fault too.
		if name, ok := object["name"].(string); ok {
			c.artifact.CORSPolicies[name] = CORSPolicy{Name: name}
		}
		return
	}
	resolved, _ := res.value.(map[string]any)
	policy := CORSPolicy{
		AllowedOrigins: list(resolved["allowedOrigins"]),
		AllowedMethods: list(resolved["allowedMethods"]),
		AllowedHeaders: list(resolved["allowedHeaders"]),
		ExposeHeaders:  list(resolved["exposeHeaders"]),
	}
	policy.Name, _ = resolved["name"].(string)
	bad := func(property, message string) {
		c.fail(policiesFile, at+pointer(property), "%s", message)
	}
	if _, twice := c.artifact.CORSPolicies[policy.Name]; twice || policy.Name == corsNone || policy.Name == corsAnything {
		bad("name", "There is a CORS policy of this name already (none and anything-goes are built in). Choose another name.")
	}
	for _, origin := range policy.AllowedOrigins {
		if !isOrigin(origin) {
			bad("allowedOrigins", "An origin is a scheme and a host, as in https://www.example.com, without a path or a slash at its end; * stands for any. Correct the list.")
			break
		}
	}
	for _, method := range policy.AllowedMethods {
		if method != "*" && !httpguts.ValidHeaderFieldName(method) {
			bad("allowedMethods", "A method is a word, such as GET. Correct the list.")
			break
		}
	}
	for property, headers := range map[string][]string{"allowedHeaders": policy.AllowedHeaders, "exposeHeaders": policy.ExposeHeaders} {
		for i, header := range headers {
			if header != "*" && !httpguts.ValidHeaderFieldName(header) {
				bad(property, "A header's name is a word of letters, digits and hyphens. Correct the list.")
				break
			}
			headers[i] = textproto.CanonicalMIMEHeaderKey(header)
		}
	}
	if value, has := resolved["maxAge"]; has {
		seconds, err := strconv.Atoi(text(value))
		if err != nil || seconds < 0 || seconds > 86_400 {
			bad("maxAge", "This is a number of seconds between 0 and 86400. Correct it.")
		}
		policy.MaxAgeSeconds = seconds
	}
	if value, has := resolved["allowCredentials"]; has {
		credentials, err := strconv.ParseBool(text(value))
		if err != nil {
			bad("allowCredentials", "This has to be true or false.")
		}
		policy.AllowCredentials = credentials
	}
	c.artifact.CORSPolicies[policy.Name] = policy
}

// textual holds for texts and lists of texts.
func textual(value any) bool {
	if entries, ok := value.([]any); ok {
		for _, e := range entries {
			if _, ok := e.(string); !ok {
				return false
			}
		}
		return true
	}
	_, ok := value.(string)
	return ok
}

// list reads a list, or a text with commas.
func list(value any) []string {
	var out []string
	switch v := value.(type) {
	case string:
		for entry := range strings.SplitSeq(v, ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				out = append(out, entry)
			}
		}
	case []any:
		for _, entry := range v {
			out = append(out, strings.TrimSpace(text(entry)))
		}
	}
	return out
}

// isOrigin accepts "*", an origin, and one whose host begins with "*.".
func isOrigin(origin string) bool {
	if origin == "*" {
		return true
	}
	u, err := url.Parse(strings.Replace(origin, "://*.", "://", 1))
	return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil &&
		u.Path == "" && u.RawQuery == "" && u.Fragment == "" && !strings.HasSuffix(origin, "#") && !strings.HasSuffix(origin, "?") &&
		!strings.Contains(u.Host, "*")
}
