package policy

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// pages has the place in docs/ where each type is described.
func pages() map[string]string {
	out := map[string]string{
		setStatusType: "policies.md#the-status-of-responses", sizeLimitType: "policies.md#the-size-of-requests",
		ipRestrictionType: "policies.md#addresses-of-clients", authorizeType: "policies.md#authorization-by-an-expression",
		basicAuthType: "policies.md#names-and-passwords",
		webhookType:   "policies.md#signatures-of-webhooks", abuseType: "policies.md#callers-that-fail",
		quotaType: "quotas.md", requestValidationType: "descriptions.md#requests",
		responseValidationType: "descriptions.md#responses",
	}
	for _, name := range []string{apiKeyType, mtlsType, rateLimitType, queryParamType} {
		out[name] = "projects.md#" + name
	}
	for _, name := range []string{complexityType, introspectionType, filterType, analyticsType} {
		out[name] = "graphql.md#" + name
	}
	for _, name := range []string{setQueryType, removeQueryType, renameQueryType} {
		out[name] = "policies.md#query-parameters"
	}
	for _, name := range []string{
		setHeadersInType, setHeadersOutType, removeHeadersInType, removeHeadersOutType, renameHeadersInType,
		renameHeadersOutType,
	} {
		out[name] = "policies.md#headers"
	}
	out[authRequestType] = "policies.md#a-service-that-decides"
	out[introspectionAuthType] = "policies.md#tokens-that-only-their-server-can-read"
	out[jwtType], out[jwtScopesType] = "policies.md#json-web-tokens", "policies.md#json-web-tokens"
	for _, name := range []string{compositeInType, compositeOutType, anyAuthType} {
		out[name] = "policies.md#policies-that-contain-others"
	}
	return out
}

// blocks returns the generated blocks of docs/policies.md, by the comments before them.
func blocks() map[string]string {
	var table strings.Builder
	table.WriteString("| policy | what it does |\n|---|---|\n")
	out := map[string]string{}
	for _, d := range Declarations() {
		link := strings.TrimPrefix(pages()[d.Type], "policies.md")
		fmt.Fprintf(&table, "| [`%s`](%s) | %s |\n", d.Type, link, d.Summary)
		out["options: "+d.Type] = "`" + d.Type + "`: " + firstLower(d.Summary) + "\n\n" + optionsTable(d.Options)
	}
	out["table: policies"] = table.String()
	return out
}

// firstLower returns a sentence with a small first letter.
func firstLower(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// optionsTable returns the table of options in Markdown.
func optionsTable(all []options.Option) string {
	var out strings.Builder
	out.WriteString("| option | default | meaning |\n|---|---|---|\n")
	writeRows(&out, "", all)
	return out.String()
}

func writeRows(out *strings.Builder, prefix string, all []options.Option) {
	for _, o := range all {
		value := ""
		switch {
		case o.Required:
			value = "required"
		case o.Default != "":
			value = "`" + o.Default + "`"
		}
		bounds := ""
		if o.Minimum != "" {
			bounds += ", at least " + o.Minimum
		}
		if o.Maximum != "" {
			bounds += ", at most " + o.Maximum
		}
		fmt.Fprintf(out, "| `%s%s` | %s | %s%s |\n", prefix, o.Name, value, o.Description, bounds)
		writeRows(out, prefix+o.Name+".", o.Options)
		if o.Item != nil {
			writeRows(out, prefix+o.Name+"[].", o.Item.Options)
		}
	}
}

// block matches a generated block of docs/policies.md: its comment and its content.
var block = regexp.MustCompile(`(?s)<!-- ((?:table|options): [a-z-]+) -->\n.*?<!-- end of the (table|options) -->`)

// TestPoliciesPageIsGenerated compares the tables of docs/policies.md with the declarations. Each type has a description
// for itself and for each option, and its options are on the page of the type.
func TestPoliciesPageIsGenerated(t *testing.T) {
	const path = "../../../../docs/policies.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	generated, found := blocks(), map[string]bool{}
	page := block.ReplaceAllStringFunc(string(text), func(old string) string {
		m := block.FindStringSubmatch(old)
		found[m[1]] = true
		return "<!-- " + m[1] + " -->\n\n" + generated[m[1]] + "\n<!-- end of the " + m[2] + " -->"
	})
	golden.Equal(t, path, page)
	for _, d := range Declarations() {
		checkDescribed(t, d.Type, d.Options)
		if d.Summary == "" || pages()[d.Type] == "" {
			t.Errorf("policy %s: summary = %q, page = %q, want both", d.Type, d.Summary, pages()[d.Type])
		}
		if onPage := strings.HasPrefix(pages()[d.Type], "policies.md"); onPage != found["options: "+d.Type] {
			t.Errorf("policy %s: options in docs/policies.md = %t, want %t", d.Type, !onPage, onPage)
		}
	}
	if !found["table: policies"] {
		t.Error("docs/policies.md has no table of all policies, want one")
	}
}

// checkDescribed checks that each option has a description.
func checkDescribed(t *testing.T, policy string, all []options.Option) {
	t.Helper()
	for _, o := range all {
		if o.Description == "" {
			t.Errorf("option %s of %s has no description, want one", o.Name, policy)
		}
		checkDescribed(t, policy, o.Options)
		if o.Item != nil {
			checkDescribed(t, policy, o.Item.Options)
		}
	}
}

// TestOptionsAreDocumentedOnTheirPage checks that the pages other than docs/policies.md name every option of their types.
func TestOptionsAreDocumentedOnTheirPage(t *testing.T) {
	for _, d := range Declarations() {
		page, anchor, _ := strings.Cut(pages()[d.Type], "#")
		if page == "policies.md" {
			continue
		}
		text, err := os.ReadFile("../../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		section := string(text)
		if anchor == d.Type {
			_, after, found := strings.Cut(section, "### `"+d.Type+"`")
			if !found {
				t.Errorf("docs/%s has no section about %s, want one", page, d.Type)
			}
			section, _, _ = strings.Cut(after, "\n##")
		}
		for _, o := range d.Options {
			if !strings.Contains(section, "`"+o.Name+"`") {
				t.Errorf("docs/%s lacks the option %s of %s, want all options", page, o.Name, d.Type)
			}
		}
	}
}

// TestGraphQLIsDocumented checks that the nested options for GraphQL's limits and the classes of errors are documented.
func TestGraphQLIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/graphql.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, options := range []any{depthLimitOptions{}, complexityLimitOptions{}} {
		for field := range reflect.TypeOf(options).Fields() {
			names = append(names, field.Tag.Get("json"))
		}
	}
	for code, class := range builtinClasses {
		row := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| .*`" + code + "`").FindStringSubmatch(string(text))
		if row == nil || classNames[row[1]] != class {
			t.Errorf("docs/graphql.md: row of %s = %q, want it in the class %v", code, row, class)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(text), name) {
			t.Errorf("docs/graphql.md lacks the option %s, want all nested options", name)
		}
	}
}

// TestAmountsAreDocumented checks that the options of a meter and of the customer key are documented.
func TestAmountsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/quotas.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []any{amountOptions{}, customerKeyOptions{}} {
		for field := range reflect.TypeOf(options).Fields() {
			if option := field.Tag.Get("json"); !strings.Contains(string(text), option) {
				t.Errorf("docs/quotas.md lacks the option %s, want all options", option)
			}
		}
	}
}
