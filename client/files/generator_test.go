package files_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// generator creates random accounts and files.
type generator struct {
	*rand.Rand
	// pem has the CA certificates in PEM, by the CA's name.
	pem map[string]string
}

func (g generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// namePool has the possible names of objects of a kind.
var namePool = map[string][]string{
	"projects": {"shop", "blog", "mail"}, "environments": {"next", "old"}, "variables": {"URL", "TOKEN", "MODE"},
	"keyBuckets": {"partners", "inside", "shop-production", "mail-preview"}, "consumers": {"ada", "bob", "cid", "dan"},
	"managers": {"ada@example.com", "Bea@example.com", "cid@example.com"},
	"keys":     {"phone"}, "tunnels": {"office", "depot"}, "meteringBuckets": {"sold", "lent", "given"},
	"plans": {"all", "pro", "gold"}, "subscriptions": {"first", "second"},
	"caCertificates": {"devices", "partners"}, "customDomains": {"api.example.com", "docs.example.com"},
}

// field returns a random value of a field, as the API has it.
func (g generator) field(name string) any {
	object := func() any {
		return pick(g, parseJSON([]byte(`{"plan":"gold"}`)), parseJSON([]byte(`{"plan":"free","team":"blue"}`)),
			parseJSON([]byte(`{"fromEnv":"SHOP_TOKEN"}`)), parseJSON([]byte(`{"null":"1e3","ä: #":"yes"}`)),
			parseJSON([]byte(`{}`)))
	}
	switch name {
	case "description":
		return pick[any](g, envReference("SHOP_TOKEN"), "of us", "two\nlines: \"quoted\" # none", "1e3", " 名 ",
			"null", "{fromEnv: X}")
	case "tags":
		return object()
	case "metadata":
		return pick(g, object(),
			parseJSON([]byte(`{"big":12345678901234567890,"one":1.0,"e":1e3,"deep":{"b":[1,null,{"a":true}],"a":""}}`)),
			parseJSON([]byte(`{"one":1,"e":1000}`)))
	case "isRetrievable", "isSecret":
		return g.chance(0.5)
	case "environmentType":
		return "preview"
	case "value":
		return pick[any](g, "a", "https://a.example/?b=c#d", "true", "-")
	case "expiresOn":
		return pick[any](g, "2099-01-01T00:00:00Z", "2099-01-01T01:00:00+01:00", "2098-05-05T05:05:05.5Z")
	case "services":
		return pick(g, parseJSON([]byte(`[]`)),
			parseJSON([]byte(`[{"name":"stock","endpoint":"http://localhost:1","configurations":[]}]`)),
			parseJSON([]byte(
				`[{"name":"stock","endpoint":"http://localhost:2","configurations":[]},{"name":"other",`+
					`"endpoint":"http://localhost:3","configurations":[]}]`)))
	case "label":
		return pick[any](g, "Pro", "Free")
	case "meters":
		return pick(g, parseJSON([]byte(`{"requests":{"label":"R","max":9007199254740991}}`)),
			parseJSON([]byte(`{"requests":{"label":"R","max":10},"calls":{"label":"C","max":1}}`)))
	case "trialDays":
		return json.Number(pick(g, "3", "14"))
	case "sub":
		return pick[any](g, "s1", "s2", envReference("SHOP_TOKEN"))
	case "region":
		return "us-east1"
	case "renewalStrategy":
		return "monthly"
	case "status":
		return pick[any](g, "active", "past-due")
	case "type":
		return "periodic"
	default:
		return pick[any](g, "x", "y")
	}
}

// isRequired reports whether an object must have a field.
func isRequired(k *kindSpec, name string) bool {
	return k.member == "environments" || k.member == "variables" || k.member == "managers" || k.member == "plans" &&
		name != "trialDays" || k.member == "subscriptions" && name != "metadata"
}

// newObject returns an object with random fields, including all required ones.
func (g generator) newObject(k *kindSpec, name string) *node {
	n := &node{kind: k, name: name, fields: map[string]any{}}
	for _, f := range k.fields {
		if isRequired(k, f) || g.chance(0.5) {
			n.fields[f] = g.field(f)
		}
	}
	n.makeServiceNamesUnique()
	if k.member == "caCertificates" {
		n.fields["certificate"] = g.pem[name]
	}
	return n
}

// makeServiceNamesUnique makes the names of a tunnel's services unique, as the API requires.
func (n *node) makeServiceNamesUnique() {
	if services, ok := n.fields["services"]; ok && services != nil {
		text, _ := json.Marshal(services)
		n.fields["services"] = parseJSON([]byte(strings.NewReplacer(`"name":"stock"`, `"name":"stock-`+n.name+`"`,
			`"name":"other"`, `"name":"other-`+n.name+`"`).Replace(string(text))))
	}
}
