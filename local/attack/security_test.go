package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
)

// The tables stand between these in docs/security.md, one for each class; what
// is between is written by make goldens.
var place = regexp.MustCompile(`(?s)(<!-- table: ([a-z ]+) -->\n).*?(<!-- end of the table -->)`)

// TestSecurityPageTellsWhatPeersDo compares the tables of docs/security.md with
// what nginx and ReverseProxy do. What is said there of the product is what
// TestNothingGetsThrough asks for.
func TestSecurityPageTellsWhatPeersDo(t *testing.T) {
	program, err := findNginx(t.Context())
	if errors.Is(err, errNoNginx) {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	u, err := listenUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	compared := map[string][]attempt{}
	var all []attempt
	for _, a := range cases() {
		if !a.ours {
			all = append(all, a)
			compared[a.class] = append(compared[a.class], a)
		}
	}
	became := map[string][]string{}
	for _, start := range []func() (target, func(), error){
		func() (target, func(), error) { return nginx(t.Context(), program, u) },
		func() (target, func(), error) { return reverseProxy(t.Context(), u) },
	} {
		peer, stop, err := start()
		if err != nil {
			t.Fatal(err)
		}
		results, err := try(t.Context(), peer, all, u)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			became[r.class+" "+r.name] = append(became[r.class+" "+r.name], r.got)
		}
	}

	page := filepath.Join("..", "..", "docs", "security.md")
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	after := place.ReplaceAllStringFunc(string(before), func(s string) string {
		parts := place.FindStringSubmatch(s)
		written[parts[2]] = true
		var table strings.Builder
		fmt.Fprintf(&table, "\n| what is tried | Gatewright | nginx %s | ReverseProxy |\n|---|---|---|---|\n", nginxVersion)
		for _, a := range compared[parts[2]] {
			peers := became[a.class+" "+a.name]
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", a.name, a.want, peers[0], peers[1])
		}
		return parts[1] + table.String() + "\n" + parts[3]
	})
	for class := range compared {
		if !written[class] {
			t.Errorf("docs/security.md has no table of %s", class)
		}
	}
	golden.Equal(t, page, after)
}
