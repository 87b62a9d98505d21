package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
)

// mostRefused is the CPU that a GraphQL request may take that is refused (issue 12, 7).
const mostRefused = 5 * time.Millisecond

// How often each expensive request is sent, and in how many rounds.
const (
	refusedRequests = 60
	refusedRounds   = 5
)

// refusals measures requests that are made to be expensive, each a new one each time: the worst of them counts.
func (w *world) refusals(ctx context.Context, table *bars.Table) error {
	var number atomic.Int64
	for _, r := range expensive() {
		l := w.post(cmp.Or(r.path, "/graphql"), r.body)
		l.Status, l.Requests, l.Connections, l.Number = http.StatusBadRequest, refusedRequests, 1, &number
		if err := l.Learn(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		var costs []float64
		for range refusedRounds {
			cost, err := load.Cost(ctx, w, l)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			costs = append(costs, cost/1000)
		}
		cost := load.Median(costs)
		table.Add("refused, "+r.name, fmt.Sprintf("%v CPU", mostRefused), fmt.Sprintf("%.1f ms", cost), cost <= mostRefused.Seconds()*1000)
	}
	return nil
}

// body is a refused request's, to the route with all policies unless path says another one.
type body struct{ name, body, path string }

// expensive are bodies of up to 1 MB that are refused for different reasons, as late as each can be.
func expensive() []body {
	const (
		megabyte = 1<<20 - 1<<10
		tokens   = 15_000 // the most that a document may have
	)
	of := func(document string) string {
		text, err := json.Marshal(map[string]string{"query": document})
		if err != nil {
			panic(err) // a text always encodes
		}
		return string(text)
	}
	// with has variables beside a document that is too deep.
	with := func(variable, document string) string {
		return `{"variables":{"a":"` + variable + `"},` + of(document)[1:]
	}
	n := load.Numbered
	deep := `{a(b:"` + n + `")` + strings.Repeat("{a", 20) + strings.Repeat("}", 21)
	fields := func(count int) string { return `{a(b:"` + n + `") ` + strings.Repeat("a ", count) + "}" }
	widest := fields(tokens - 8)
	fragments := `{...F0 a(b:"` + n + `")}`
	for i := range 900 {
		fragments += fmt.Sprintf("fragment F%d on T{...F%d ...F%d}", i, i+1, i+1)
	}
	var names strings.Builder
	for i := range 9_990 {
		fmt.Fprintf(&names, `"n%d":1,`, i)
	}
	batch := func(document string) string {
		return "[" + strings.Repeat(of(document)+",", 9) + of(document) + "]"
	}
	all := [][2]string{
		{"15,000 tokens", of(widest)},
		{"more tokens than that", of(fields(50_000))},
		{"fragments that spread the next one twice, 900 times", of(fragments + "fragment F900 on T{a}")},
		{"128 KB of comments", of(strings.Repeat("#\n", 60_000) + deep)},
		{"128 KB of é in a comment", of("#" + strings.Repeat("é", 60_000) + "\n" + deep)},
		{"128 KB of \\u0061", `{"query":"#` + n + strings.Repeat(`\u0061`, 120_000) + `\n{a"}`},
		{"a document of 1 MB", of("#" + n + strings.Repeat("x", megabyte))},
		{"a document of 1 MB of line ends", of("#" + n + strings.Repeat("\n", megabyte/2))},
		{"a document of 1 MB of é", of("#" + n + strings.Repeat("é", megabyte/2))},
		{"a text of 900 KB in variables, 20 levels of fields", with(strings.Repeat("x", 900<<10), deep)},
		{"the same with a text of é", with(strings.Repeat("é", 450<<10), deep)},
		{"the same with a text of line ends", with(strings.Repeat(`\n`, 450<<10), deep)},
		{"the same with a text of \\u0061", with(strings.Repeat(`\u0061`, 150<<10), deep)},
		{"a text of 900 KB of é in variables, 15,000 tokens", with(strings.Repeat("é", 450<<10), widest)},
		{"10,000 names in variables", `{"variables":{` + names.String() + `"z":1},` + of(deep)[1:]},
		{"49,000 values in variables", `{"variables":{"a":[` + strings.Repeat(`"é",`, 49_000) + `1]},` + of(deep)[1:]},
		{"ten documents of as many tokens as one may have", batch(widest)},
	}
	out := make([]body, 0, len(all)+2)
	for _, b := range all {
		out = append(out, body{b[0], b[1], ""})
	}
	const bogus = "__schema{bogus}"
	return append(out,
		body{"an introspection among 3,900 fields, to a route that filters alone", of(`{a(b:"` + n + `") ` + strings.Repeat("a ", 3_900) + bogus + "}"), "/filtered"},
		body{"one among 700 fields with arguments, beside a comment of 100 KB", of("#" + strings.Repeat("x", 100<<10) + "\n" + `{a(b:"` + n + `") ` + strings.Repeat("a(b:1) ", 700) + bogus + "}"), "/filtered"},
		body{"one among 14,900 fields, to the same", of(`{a(b:"` + n + `") ` + strings.Repeat("a ", 14_900) + bogus + "}"), "/filtered"},
	)
}
