package functions_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestLimitsAreDocumented compares the tables in docs/limits.md with the declarations.
func TestLimitsAreDocumented(t *testing.T) {
	const path, endMarker = "../docs/limits.md", "<!-- end of the table -->"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for name, table := range map[string]string{
		"rates": ratesTable(), "accounts": accountsTable(),
		"fields": fieldsTable(t),
	} {
		marker := "<!-- table: " + name + " -->\n"
		before, tail, found := strings.Cut(page, marker)
		_, after, closed := strings.Cut(tail, endMarker)
		if !found || !closed {
			t.Fatalf("%s has no table %s, want one", path, name)
		}
		page = before + marker + "\n" + table + "\n" + endMarker + after
	}
	golden.Equal(t, path, page)
}

// ratesTable returns the table of rate limits in Markdown.
func ratesTable() string {
	operations := map[api.Limit][]string{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if hasRateLimit(d) {
				operations[d.Limit] = append(operations[d.Limit], "`"+d.ID+"`")
			}
		}
	}
	var out strings.Builder
	out.WriteString("| limit | requests a second | operations, together |\n|---|--:|---|\n")
	for _, l := range slices.SortedFunc(maps.Keys(operations), func(a, b api.Limit) int {
		return strings.Compare(a.Name, b.Name)
	}) {
		fmt.Fprintf(&out, "| `%s` | %d | %s |\n", l.Name, l.Requests, strings.Join(operations[l], ", "))
	}
	return out.String()
}

// accountsTable returns the table of accounts' limits in Markdown.
func accountsTable() string {
	status := map[limits.Kind]int{
		limits.Total: http.StatusForbidden, limits.InProgress: http.StatusTooManyRequests,
		limits.Daily:     http.StatusTooManyRequests,
		limits.PerSecond: http.StatusTooManyRequests, limits.ConcurrentPerProcess: http.StatusTooManyRequests,
		limits.Slots: http.StatusTooManyRequests,
	}
	var out strings.Builder
	out.WriteString("| limit | default | at most | what | beyond it |\n|---|--:|--:|---|--:|\n")
	for _, l := range limits.All() {
		owner := ""
		if l.Owner != "account" {
			owner = " of a " + l.Owner
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s%s | %d |\n", l.Name, withCommas(l.Default), withCommas(l.Max), l.Plural,
			owner, status[l.Kind])
	}
	return out.String()
}

// withCommas formats a number with a comma after each group of three digits.
func withCommas(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return withCommas(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// fieldsTable returns the table of limits on the contents of requests in Markdown.
func fieldsTable(t *testing.T) string {
	operations, schemas := readOpenAPI(t)
	rows := map[string]string{}
	for _, o := range operations {
		for _, p := range o.Parameters {
			addFieldLimits(p.In+" `"+p.Name+"`", p.Schema, schemas, rows)
		}
		for _, c := range o.RequestBody.Content {
			location := cmp.Or(strings.TrimPrefix(c.Schema.Ref, "#/components/schemas/"), o.OperationID)
			addFieldLimits("`"+location+"`", c.Schema, schemas, rows)
		}
	}
	var out strings.Builder
	out.WriteString("| field | limit |\n|---|---|\n")
	for _, location := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&out, "| %s | %s |\n", location, rows[location])
	}
	return out.String()
}

// addFieldLimits adds the limits of a schema, and of all fields in it, to the rows of the table, by their locations.
func addFieldLimits(location string, s schema, schemas map[string]schema, rows map[string]string) {
	s = s.resolve(schemas)
	child := func(suffix string) string { return strings.TrimSuffix(location, "`") + suffix + "`" }
	var parts []string
	if s.MaxLength != nil {
		parts = append(parts, fmt.Sprintf("%d characters", *s.MaxLength))
	}
	if s.MaxItems != nil {
		parts = append(parts, fmt.Sprintf("%d entries", *s.MaxItems))
	}
	if s.Pattern != "" {
		parts = append(parts, "`"+strings.ReplaceAll(s.Pattern, "|", `\|`)+"`")
	}
	if len(parts) > 0 && !strings.Contains(rows[location], strings.Join(parts, ", ")) {
		rows[location] = strings.Join(append(slices.DeleteFunc([]string{rows[location]}, func(text string) bool {
			return text == ""
		}), parts...), ", ")
	}
	for name, field := range s.Properties {
		addFieldLimits(child("."+name), field, schemas, rows)
	}
	if s.Items != nil {
		addFieldLimits(child("[]"), *s.Items, schemas, rows)
	}
	for _, alternative := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		addFieldLimits(location, alternative, schemas, rows)
	}
}
