package project

import (
	"cmp"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// readPolicies reads config/policies.json. The file is optional.
func (c *compiler) readPolicies() {
	data, has := c.files[policiesFile]
	if !has {
		return
	}
	doc := c.parse(policiesFile, data)
	if doc == nil {
		c.unreadable[policiesFile] = true
		return
	}
	c.forbidEnv(policiesFile, nil, doc.root, inPolicyOptions)
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

// inPolicyOptions reports whether readPolicies need not look for forbidden $env at a place in policies.json. It returns
// true for the options of a policy, and for /corsPolicies/N, which readCORS checks.
func inPolicyOptions(at []string) bool {
	switch {
	case len(at) == 3 && at[0] == "policies":
		return at[2] == "options"
	case len(at) == 4 && at[0] == "policies":
		return at[2] == "handler" && at[3] == "options"
	case len(at) == 2:
		return at[0] == "corsPolicies"
	}
	return false
}

// readPolicy reads one policy. If valid is false, the file does not match
// its schema, and readPolicy reads only the name and type of the policy.
func (c *compiler) readPolicy(at string, object map[string]any, valid bool) {
	name, _ := object["name"].(string)
	policyType, _ := object["policyType"].(string)
	if first, duplicate := c.policies[name]; duplicate && name != "" {
		c.fail(policiesFile, at+"/name", "The policy at %s has this name too. Give each its own.", first.at)
		return
	}
	c.policies[name] = &policyUse{at: at, policyType: policyType}
	if !valid {
		return
	}
	when, _ := object["when"].(string)
	policy := Policy{Name: name, Type: policyType, Source: Source{policiesFile, at}, When: when}
	handler, hasHandler := object["handler"].(map[string]any)
	if !hasHandler {
		policy.WithoutHandler = true
		// CheckPolicy reports an unknown type, which has no module.
		handler = map[string]any{"module": cmp.Or(c.catalog.PolicyModule(policyType), "$import(@gatewright/runtime)")}
		if options, has := object["options"]; has {
			handler["options"] = options
		}
	}
	component, res, ok := c.readComponent(policiesFile, policy.HandlerPointer(), handler)
	if policy.Handler = component; !ok {
		return
	}
	var policyProblems, handlerProblems []Problem
	for _, p := range c.catalog.CheckPolicy(policy) {
		if strings.HasPrefix(p.Path, "/options") || p.Path == "/export" || p.Path == "/module" {
			handlerProblems = append(handlerProblems, p)
		} else {
			policyProblems = append(policyProblems, p)
		}
	}
	c.reportProblems(policiesFile, policy.HandlerPointer(), res, handlerProblems)
	c.reportProblems(policiesFile, at, resolution{}, policyProblems)
	for _, variable := range c.catalog.UsedVariables(policy) {
		value, set := c.env.variables[variable]
		if !set {
			c.warnUnset(policiesFile, at+"/when", variable, "it is empty here")
			continue
		}
		c.artifact.Variables[variable] = value
		c.redact(value, "env."+variable)
	}
	if c.addSize(policiesFile, at, len(name)+len(policyType)+len(when)+len(component.Options)+routeOverhead) {
		c.artifact.Policies[name] = policy
	}
}

// warnUnused warns about policies that no route names. It warns only in a project without
// errors: an operation with mistakes that the compiler has skipped could name any policy.
func (c *compiler) warnUnused() {
	if c.problems.len() > 0 {
		return
	}
	for _, policy := range c.policies {
		if !policy.used {
			c.warn(policiesFile, policy.at, "No route uses this policy. Name it in a route's policies, or remove it.")
		}
	}
}

// readCORS reads one CORS policy. Its properties can contain variables. Lists can
// therefore be a string with commas, and numbers and booleans can be strings.
func (c *compiler) readCORS(at string, object map[string]any) {
	for name, value := range object {
		// A direct property and the entries of a list can contain variables; deeper values cannot.
		if name == "name" || !isTextOrList(value) {
			c.forbidEnv(policiesFile, append(tokens(at), name), value, func([]string) bool { return false })
		}
	}
	if !c.checkOptionBudgets(policiesFile, at, object) {
		return
	}
	res := c.env.resolve(policiesFile, at, object)
	if res.bytes > maxOptionBytes {
		c.failBudget(policiesFile, at, "options", res.bytes, "With the variables put in they are too large. Shorten them.")
		return
	}
	if !c.addSize(policiesFile, at, int(res.bytes)+routeOverhead) {
		return
	}
	var problems report
	if check(&problems, policiesFile, "", c.schemas.cors, res.value) {
		resolved, _ := res.value.(map[string]any)
		policy := c.checkCORS(at, resolved)
		c.artifact.CORSPolicies[policy.Name] = policy
		return
	}
	for _, p := range problems.problems.entries {
		if p.unknownIn != nil {
			p.Message = unknownText(p.Path, p.unknownIn)
		}
		message, unset := res.explain(p.Path, p.Message)
		c.failUnset(policiesFile, at+res.filePointer(p.Path), unset, message)
	}
	// Record the name of an invalid policy too, so that the routes that use it are not reported as well.
	if name, ok := object["name"].(string); ok {
		c.artifact.CORSPolicies[name] = CORSPolicy{Name: name}
	}
}

// checkCORS returns the CORS policy of an object that has the right shape, and reports invalid values.
func (c *compiler) checkCORS(at string, resolved map[string]any) CORSPolicy {
	policy := CORSPolicy{
		AllowedOrigins: list(resolved["allowedOrigins"]),
		AllowedMethods: list(resolved["allowedMethods"]),
		AllowedHeaders: list(resolved["allowedHeaders"]),
		ExposeHeaders:  list(resolved["exposeHeaders"]),
	}
	policy.Name, _ = resolved["name"].(string)
	invalid := func(property, message string) {
		c.fail(policiesFile, at+pointer(property), "%s", message)
	}
	if _, duplicate := c.artifact.CORSPolicies[policy.Name]; duplicate || policy.Name == corsNone ||
		policy.Name == corsAnything {
		invalid("name", "There is a CORS policy of this name already (none and anything-goes are built in). Choose "+
			"another name.")
	}
	for _, origin := range policy.AllowedOrigins {
		if !isOrigin(origin) {
			invalid("allowedOrigins", "An origin is a scheme and a host, as in https://www.example.com, without a path or a "+
				"slash at its end; * stands for any. Correct the list.")
			break
		}
	}
	for _, method := range policy.AllowedMethods {
		if method != "*" && !httpguts.ValidHeaderFieldName(method) {
			invalid("allowedMethods", "A method is a word, such as GET. Correct the list.")
			break
		}
	}
	for property, headers := range map[string][]string{
		"allowedHeaders": policy.AllowedHeaders,
		"exposeHeaders":  policy.ExposeHeaders,
	} {
		for i, header := range headers {
			if header != "*" && !httpguts.ValidHeaderFieldName(header) {
				invalid(property, "A header's name is a word of letters, digits and hyphens. Correct the list.")
				break
			}
			headers[i] = textproto.CanonicalMIMEHeaderKey(header)
		}
	}
	if value, has := resolved["maxAge"]; has {
		seconds, err := strconv.Atoi(text(value))
		if err != nil || seconds < 0 || seconds > 86_400 {
			invalid("maxAge", "This is a number of seconds between 0 and 86400. Correct it.")
		}
		policy.MaxAgeSeconds = seconds
	}
	if value, has := resolved["allowCredentials"]; has {
		credentials, err := strconv.ParseBool(text(value))
		if err != nil {
			invalid("allowCredentials", "This has to be true or false.")
		}
		policy.AllowCredentials = credentials
	}
	return policy
}

// isTextOrList reports whether a value is a string or a list of strings.
func isTextOrList(value any) bool {
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

// list returns the entries of a list, or of a string with commas.
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

// isOrigin reports whether a text is "*", an origin, or an origin whose host begins with "*.".
func isOrigin(origin string) bool {
	if origin == "*" {
		return true
	}
	u, err := url.Parse(strings.Replace(origin, "://*.", "://", 1))
	return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil &&
		u.Path == "" && u.RawQuery == "" && u.Fragment == "" && !strings.HasSuffix(origin, "#") &&
		!strings.HasSuffix(origin, "?") &&
		!strings.Contains(u.Host, "*")
}
