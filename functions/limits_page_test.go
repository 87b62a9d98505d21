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

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/limits"
)

// TestLimitsAreDocumented derives the tables of docs/limits.md from the declarations.
func TestLimitsAreDocumented(t *testing.T) {
	const path, end = "../docs/limits.md", "<!-- end of the table -->"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for name, table := range map[string]string{"rates": ratesTable(), "accounts": accountsTable(), "fields": fieldsTable(t)} {
		begin := "<!-- table: " + name + " -->\n"
		before, rest, found := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no table of %s", path, name)
		}
		page = before + begin + "\n" + table + "\n" + end + after
	}
	golden.Equal(t, path, page)
}

func ratesTable() string {
	operations := map[api.Limit][]string{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if hasLimit(d) {
				operations[d.Limit] = append(operations[d.Limit], "`"+d.ID+"`")
			}
		}
	}
	var out strings.Builder
	out.WriteString("| limit | requests a second | operations, together |\n|---|--:|---|\n")
	for _, l := range slices.SortedFunc(maps.Keys(operations), func(a, b api.Limit) int { return strings.Compare(a.Name, b.Name) }) {
		fmt.Fprintf(&out, "| `%s` | %d | %s |\n", l.Name, l.Requests, strings.Join(operations[l], ", "))
	}
	return out.String()
}

// accountsTable lists the limits of accounts.
func accountsTable() string {
	status := map[limits.Kind]int{
		limits.Kept: http.StatusForbidden, limits.UnderWay: http.StatusTooManyRequests, limits.Daily: http.StatusTooManyRequests,
		limits.Second: http.StatusTooManyRequests, limits.AtOnce: http.StatusTooManyRequests, limits.Slots: http.StatusTooManyRequests,
	}
	var out strings.Builder
	out.WriteString("| limit | default | at most | what | beyond it |\n|---|--:|--:|---|--:|\n")
	for _, l := range limits.All() {
		of := ""
		if l.Of != "account" {
			of = " of a " + l.Of
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s%s | %d |\n", l.Name, thousands(l.Default), thousands(l.Most), l.Things, of, status[l.Kind])
	}
	return out.String()
}

// thousands writes a number with commas.
func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// fieldsTable lists the bounds of what requests hold, by where that stands.
func fieldsTable(t *testing.T) string {
	operations, schemas := requests(t)
	rows := map[string]string{}
	for _, o := range operations {
		for _, p := range o.Parameters {
			bounds(p.In+" `"+p.Name+"`", p.Schema, schemas, rows)
		}
		for _, c := range o.RequestBody.Content {
			at := cmp.Or(strings.TrimPrefix(c.Schema.Ref, "#/components/schemas/"), o.OperationID)
			bounds("`"+at+"`", c.Schema, schemas, rows)
		}
	}
	var out strings.Builder
	out.WriteString("| field | limit |\n|---|---|\n")
	for _, at := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&out, "| %s | %s |\n", at, rows[at])
	}
	return out.String()
}

func bounds(at string, s schema, schemas map[string]schema, rows map[string]string) {
	s = s.of(schemas)
	inside := func(rest string) string { return strings.TrimSuffix(at, "`") + rest + "`" }
	var said []string
	if s.MaxLength != nil {
		said = append(said, fmt.Sprintf("%d characters", *s.MaxLength))
	}
	if s.MaxItems != nil {
		said = append(said, fmt.Sprintf("%d entries", *s.MaxItems))
	}
	if s.Pattern != "" {
		said = append(said, "`"+strings.ReplaceAll(s.Pattern, "|", `\|`)+"`")
	}
	if len(said) > 0 && !strings.Contains(rows[at], strings.Join(said, ", ")) {
		rows[at] = strings.Join(append(slices.DeleteFunc([]string{rows[at]}, func(text string) bool { return text == "" }), said...), ", ")
	}
	for name, field := range s.Properties {
		bounds(inside("."+name), field, schemas, rows)
	}
	if s.Items != nil {
		bounds(inside("[]"), *s.Items, schemas, rows)
	}
	for _, other := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		bounds(at, other, schemas, rows)
	}
}
