package graphql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// kilobyte is a document of about a kilobyte, like those of generated clients.
var kilobyte = func() string {
	var b strings.Builder
	b.WriteString("query Page($id: ID!, $first: Int = 10) { node(id: $id) { __typename id ...User } } fragment User " +
		"on User { name")
	for i := range 20 {
		fmt.Fprintf(&b, " field%d(first: $first) { edges { node { id } } }", i)
	}
	return b.String() + " }"
}()

func bodyOf(document string) []byte {
	body, err := json.Marshal(map[string]string{"query": document})
	if err != nil {
		panic(err)
	}
	return body
}

// BenchmarkRequests measures a request of one kilobyte, with and without an entry in the cache.
// It also measures the most expensive requests that are refused, which should take at most 5 ms.
func BenchmarkRequests(b *testing.B) {
	doubling := "{...F0}"
	for i := range 1000 {
		doubling += fmt.Sprintf("fragment F%d on T{...F%d ...F%d}", i, i+1, i+1)
	}
	for name, raw := range map[string][]byte{
		"kilobyte":      bodyOf(kilobyte),
		"doubling":      bodyOf(doubling + "fragment F1000 on T{a}"),
		"tokens":        bodyOf("{" + strings.Repeat("a ", 500_000) + "}"),
		"tokensAtLimit": bodyOf("{" + strings.Repeat("a ", MaxTokens-2) + "}"),
		"directives":    bodyOf("{a " + strings.Repeat("@b ", 300_000) + "}"),
		"commas":        bodyOf("{a" + strings.Repeat(",", 1_000_000) + "}"),
		"newlines":      bodyOf("{a" + strings.Repeat("\n", 500_000) + "}"),
		"comments":      bodyOf(strings.Repeat("#\n", 300_000) + "{a}"),
		"comment":       bodyOf("#" + strings.Repeat("é", 500_000) + "\n{a}"),
		"selections":    bodyOf(strings.Repeat("{a", 500_000)),
		"string":        bodyOf(`{a(b:"` + strings.Repeat("x", 1_000_000) + `")}`),
		"blockString":   bodyOf(`{a(b:"""` + strings.Repeat(`x `, 500_000) + `""")}`),
		"escapes":       []byte(`{"query":"{` + strings.Repeat(`\u0061`, 170_000) + `}"}`),
		"variables": []byte(`{"query":"{a}","variables":{"a":` +
			strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + `}}`),
		"names": []byte(`{"query":"{a}","variables":{` + func() string {
			var b strings.Builder
			for i := range 80_000 {
				fmt.Fprintf(&b, `"n%d":1,`, i)
			}
			return b.String() + `"z":1`
		}() + `}}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if body, refused := Decode(raw); refused == nil {
					_, _ = Analyze(body.Requests[0].Query, nil)
					_, _ = body.Encode()
				}
			}
		})
	}
	b.Run("kilobyteAgain", func(b *testing.B) {
		c, raw := NewCache(), bodyOf(kilobyte)
		b.ReportAllocs()
		for b.Loop() {
			body, _ := Decode(raw)
			_, _ = c.Analyze(body.Requests[0].Query, nil)
			_, _ = body.Encode()
		}
	})
}
